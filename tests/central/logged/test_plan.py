"""A log's integer tables: which rows of a user count, and that all rows of a table do."""

import numpy as np
import pytest

from dpbandits.central import ExploreThenCommit, ExploreTuning, LoggedTable
from dpbandits.central.logged.logged_table import plan_of
from dpbandits.central.logged.plan import CodedRows, SumsPlan
from dpbandits.central.logged.sums import exact_products, integer_weights
from dpbandits.errors import InvalidParameter
from dpbandits.privacy import JointDP
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.owners import Owners

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")

PEOPLE = Schema(age=Range(18, 90), income=Range(0, 1000), region=Categories(["north", "south", "west"]))
OFFERS = ["mail", "call", "nothing"]
KEY = b"k" * 32
TWO = JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=2)


def columns(rows, each=2, seed=7):
    """A log of `rows` rows, of which every user has `each`, some of them unreadable."""
    rng = np.random.default_rng(seed)
    paid = rng.random(rows).astype(object)
    paid[rng.random(rows) < 0.1] = "much"
    return {
        "age": rng.integers(17, 92, rows),
        "income": rng.random(rows) * 1000,
        "region": np.array(["north", "south", "west", "mars"], dtype=object)[rng.integers(0, 4, rows)],
        "offer": np.array(OFFERS, dtype=object)[rng.integers(0, 3, rows)],
        "paid": paid,
        "chance": 0.2 + 0.6 * rng.random(rows),
        "person": np.array([f"u{i // each}" for i in range(rows)], dtype=object),
    }


def log_of(held, **more):
    told = {"action": "offer", "reward": "paid", "reward_range": (0, 1), "propensity": "chance"}
    given = {"contexts": PEOPLE, "arms": OFFERS, "user": "person", "release": "marginals", **told}
    return LoggedTable.of_people(held, **given | more)


def sums(held, promise=TWO, key=KEY, horizon=2000):
    return log_of(held).unsafe_sums(promise, horizon=horizon, key=key)


def plan_with(k=2):
    return SumsPlan(
        sizes=(768, 768, 3, 24), n_arms=3, row_of=(0, 1, 2), rewards=((0, 2), (1,)),
        counts=((0,), (1,), (2,), (3,)), alone=False, weight_units=0, rows_per_user=k,
    )  # fmt: skip


def coded(rows, seed=0):
    rng = np.random.default_rng(seed)
    levels = np.stack([rng.integers(0, size, rows) for size in plan_with().sizes], axis=1)
    return CodedRows(
        rng.integers(0, 3, rows),
        levels,
        rng.integers(-(2**20), 2**20, rows, endpoint=True),
        np.zeros(rows, dtype=np.int64),
        np.ones(rows, dtype=np.bool_),
    )


def named(owners):
    return Owners(owners, [f"u{number}" for number in range(owners.max() + 1)])


def test_the_sums_are_those_of_rows_added_one_by_one_if_nobody_has_too_many():
    held = columns(600)
    policy = ExploreThenCommit(
        contexts=PEOPLE, arms=OFFERS, reward_range=(0, 1), horizon=2000, privacy=TWO,
        tuning=ExploreTuning(release="marginals", bound=1.0),
    )  # fmt: skip
    shard = policy.shard()
    people = {name: held[name] for name in PEOPLE.names}
    shard.learn(people, held["offer"], held["paid"], propensities=held["chance"], users=held["person"])
    np.testing.assert_array_equal(sums(held), shard.cells.sums[-1])


def test_sums_of_features_are_those_of_rows_added_one_by_one_below_their_caps():
    """No user has too many rows here."""
    held = columns(600)
    log = log_of(held, release="features")
    policy = log.policy(TWO, horizon=2000)
    shard = policy.shard()
    shard.learn(**log.rows)
    found = log.unsafe_sums(TWO, horizon=2000, key=KEY)
    np.testing.assert_array_equal(found, shard.cells.sums[-1])
    free = SumsPlan.of_cells(policy.unsafe_rules, [2**20] * len(found))
    assert not np.array_equal(found, log.unsafe_sums(TWO, horizon=2000, key=KEY, plan=free))
    counts = log.unsafe_sums(TWO, horizon=2000, key=KEY, plan=SumsPlan.of_cells(policy.unsafe_rules, None))
    assert counts.sum() == 2**20 * (600 - log.unsafe_left_out(TWO, horizon=2000)["unreadable"])


def test_a_user_moves_the_sums_of_features_by_no_more_than_the_noise_covers():
    """One user has thirty rows in one cell, and then in another; two leave it and two enter the other."""
    held, spread = columns(600), np.arange(600) < 30
    held["person"] = np.where(spread, "busy", held["person"])
    log = log_of(held, release="features")
    policy = log.policy(TWO, horizon=300)
    mechanism, plan = policy.calibration.release, plan_of(policy)
    counted = SumsPlan.of_cells(policy.unsafe_rules, None)
    vectors, _ = integer_weights(mechanism.plan.estimator.scaled)
    found = []
    for age, offer, paid in ((18, "mail", 1), (90, "call", 0), (55, "mail", 0)):
        other = dict(held)
        for name, cell in (
            ("age", age),
            ("offer", offer),
            ("paid", paid),
            ("region", "north"),
            ("chance", 0.01),
        ):
            other[name] = np.where(spread, np.array(cell, dtype=object), held[name])
        one = log_of(other, release="features")
        told = {"horizon": 300, "key": KEY}
        found.append([one.unsafe_sums(TWO, **told, plan=own) for own in (plan, counted)])
    moved = [[b - a for a, b in zip(found[0], other, strict=True)] for other in found[1:]]
    norms = [np.linalg.norm(exact_products(vectors.T, sums).astype(float)) for sums, _ in moved]
    assert 0 < max(norms) <= mechanism.sensitivity
    assert all(np.abs(sums).sum() == 2 * 2 * 2**20 for _, sums in moved)


def test_the_order_of_the_table_does_not_decide_which_rows_count():
    held = columns(600, each=5)
    order = np.random.default_rng(1).permutation(600)
    found = sums(held)
    np.testing.assert_array_equal(found, sums({name: cells[order] for name, cells in held.items()}))
    assert not np.array_equal(found, sums(held, key=b"l" * 32))


@pytest.mark.parametrize("k", [1, 3])
def test_at_most_k_rows_of_a_user_count_also_if_they_are_identical(k):
    rows = CodedRows(*(np.repeat(part[:50], 20, axis=0) for part in coded(50)))
    owners = np.concatenate([np.zeros(400, np.int64), 1 + np.arange(600) // 2])
    owners[::7] = -1
    kept = plan_with(k).kept(rows, named(owners), KEY)
    had = np.bincount(owners[owners >= 0])
    np.testing.assert_array_equal(np.bincount(owners[kept], minlength=len(had)), np.minimum(had, k))
    assert not kept[owners < 0].any()


def test_a_users_rows_that_count_are_close_to_a_uniform_choice():
    """One row of twelve is unlike the others, which are identical: it counts in a twelfth of all keys."""
    rows = CodedRows(*(np.repeat(part, [11, 1], axis=0) for part in coded(2)))
    plan, owners = plan_with(1), np.zeros(12, dtype=np.int64)
    chosen = [plan.kept(rows, named(owners), bytes([i % 256, i // 256]))[11] for i in range(2000)]
    assert abs(np.mean(chosen) - 1 / 12) < 5.5 * np.sqrt(11 / 144 / 2000)


def test_which_rows_count_is_independent_between_users():
    """Users of ten rows have rewards of 1 and -1, evenly: so have the rows that count, for every arm."""
    rng, n = np.random.default_rng(5), 100_000
    rewards = 2**20 * rng.choice([-1, 1], n)
    arms, levels = rng.integers(0, 3, n), np.zeros((n, 4), dtype=np.int64)
    rows = CodedRows(arms, levels, rewards, np.zeros(n, dtype=np.int64), np.ones(n, dtype=np.bool_))
    for k in (1, 3):
        kept = plan_with(k).kept(rows, named(np.arange(n) // 10), KEY)
        for arm in range(3):
            counted = np.sign(rewards[kept & (arms == arm)])
            assert abs(counted.mean()) < 5.5 / np.sqrt(len(counted))


def test_one_users_rows_change_those_of_no_one_else():
    rows, plan = coded(400), plan_with()
    owners = np.arange(400) % 80
    kept = plan.kept(rows, named(owners), KEY)
    other = CodedRows(
        *(np.where(np.isin(owners, 0) if p.ndim == 1 else np.isin(owners, 0)[:, None], 0, p) for p in rows)
    )
    moved = np.where((owners == 0) & (np.arange(400) > 200), -1, owners)
    changed = plan.kept(other, named(moved), KEY)
    np.testing.assert_array_equal(changed[owners > 0], kept[owners > 0])


def test_words_hold_every_digit():
    rows = coded(4000)
    packed = plan_with().packed(rows)
    digits = np.column_stack([rows.arms, rows.levels, rows.rewards])
    assert len(np.unique(packed, axis=0)) == len(np.unique(digits, axis=0))
    assert 0 <= packed.min() <= packed.max() < 2**62


def test_rows_beyond_the_horizon_count_and_the_horizon_may_be_long():
    held = columns(600)
    assert sums(held, horizon=300)[-3:].sum() == sums(held, horizon=600)[-3:].sum() > 0
    assert log_of(held).unsafe_left_out(TWO, horizon=300)["surplus"] == 0
    promise = JointDP(epsilon=1.0, delta=1e-12, rounds_per_user=2)
    assert sums(held, promise, horizon=2**30).any()
    log_of(held, release="features").rehearse(promise, horizon=2**30)
    for release in ("features", "marginals"):
        with pytest.raises(InvalidParameter, match="4398046511104"):
            log_of(held, release=release).rehearse(promise, horizon=2**42 + 1)


def test_more_rows_than_the_horizon_are_no_larger_rewards():
    """The number of rows is estimated from the counts, also if it is above the horizon."""
    held = columns(20_000, each=2)
    held["paid"] = np.full(20_000, 0.9, dtype=object)
    promise = JointDP(epsilon=50.0, delta=1e-6, rounds_per_user=2)
    found = log_of(held).publish(promise, horizon=5000, key=KEY).function
    mean, _ = found.predict([{"age": 40, "income": 500, "region": "south"}])
    assert np.abs(mean - 0.9).max() < 0.15


def test_no_text_of_raw_rows_shows_a_number():
    rows = CodedRows(
        np.array([7]), np.array([[7, 7]]), np.array([7]), np.array([7]), np.ones(1, dtype=np.bool_)
    )
    assert not set(str(rows) + repr(rows) + f"{rows}") & set("023456789")
