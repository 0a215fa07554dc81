import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.domains import Arms, Box, Product, RewardRange
from dpbandits.errors import HorizonExceeded, InvalidData, InvalidParameter, MissingExtra
from dpbandits.lab.worlds import Environment, TableBandit, synthetic_income
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.described import codes_from_cuts

SCHEMA = Schema(age=Range(0, 100), region=Categories(["north", "south"]))
FRAME = {
    "age": [0, 10, 20, 30, 40, 50],
    "region": ["north", "south", "north", "south", "north", "south"],
}
LABELS = [0, 1, 2, 2, 1, 2]


def small(seed=0, **changed):
    arguments = {"schema": SCHEMA, "labels": LABELS, "arms": ["a", "b", "c"], "seed": seed, **changed}
    return TableBandit.from_labels(FRAME, **arguments)


def test_decision_sets_are_the_context_with_every_arm():
    world = small()
    assert isinstance(world, Environment)
    assert world.domain == Product(Box(low=[0], high=[1]), Arms(["north", "south"]), Arms(["a", "b", "c"]))
    sets = world.decision_sets(0, 6)
    assert sets.shape == (6, 3, 3)
    assert world.domain.contains(sets).all()
    assert np.array_equal(sets[:, :, -1], np.tile([0.0, 1.0, 2.0], (6, 1)))
    assert (sets[:, :, :-1] == sets[:, :1, :-1]).all()


@given(seed=st.integers(0, 2**63), cut=st.integers(0, 6))
def test_every_person_comes_once_and_keeps_their_label(seed, cut):
    world = small(seed)
    ages = np.rint(np.concatenate([world.decision_sets(0, cut), world.decision_sets(cut, 6)])[:, 0, 0] * 10)
    assert sorted(ages) == [0, 1, 2, 3, 4, 5]
    means = world.mean_rewards(0, 6)
    assert np.array_equal(means.argmax(axis=1), np.array(LABELS)[ages.astype(int)])
    assert (means.sum(axis=1) == 1).all()
    for arm in range(3):
        assert np.array_equal(world.rewards(0, 6, np.full(6, arm)), means[:, arm])


def test_a_horizon_takes_the_first_of_the_same_order():
    whole = small(5).decision_sets(0, 6)
    assert np.array_equal(small(5, horizon=4).decision_sets(0, 4), whole[:4])
    with pytest.raises(HorizonExceeded):
        small(5, horizon=4).decision_sets(0, 5)


def test_order_is_uniform():
    # Which of 6 people comes first, over 2,400 seeds; |z| < 6 in 6 cells: false alarm below 2e-8.
    first = [round(small(seed, horizon=1).decision_sets(0, 1)[0, 0, 0] * 10) for seed in range(2400)]
    counts = np.bincount(first, minlength=6)
    assert (np.abs(counts - 400) < 6 * np.sqrt(400 * 5 / 6)).all()


def test_reseeding_reorders():
    world = small(0)
    again = replace(world, seed=1)
    assert again.seed == 1
    assert np.array_equal(again.decision_sets(0, 6), small(1).decision_sets(0, 6))


def test_best_constant_arm_is_over_the_rows_used():
    best = small().best_constant_arm()
    assert (best.index, best.name, best.mean_reward) == (2, "c", 0.5)
    only = small(3, horizon=1)
    assert only.best_constant_arm().mean_reward == 1.0
    assert only.best_constant_arm().index == only.mean_rewards(0, 1)[0].argmax()


def test_tables_with_a_reward_for_every_arm():
    rewards = np.arange(12.0).reshape(6, 2)
    world = TableBandit.from_rewards(
        FRAME, schema=SCHEMA, rewards=rewards, arms=["mail", "call"], reward_range=(0, 11), seed=2
    )
    assert world.reward_range == RewardRange(0, 11)
    assert sorted(world.rewards(0, 6, np.ones(6, dtype=int))) == [1, 3, 5, 7, 9, 11]
    assert world.best_constant_arm().name == "call"
    assert world.best_constant_arm().mean_reward == 6.0


@pytest.fixture
def one_thread():
    """Trees on a few hundred rows are slower on many threads."""
    limits = pytest.importorskip("threadpoolctl").threadpool_limits(1)
    with limits:
        yield


@pytest.mark.usefixtures("one_thread")
def test_supervised_ceiling_finds_what_contexts_tell():
    rng = np.random.default_rng(0)
    age = rng.uniform(0, 100, 400)
    region = np.where(rng.random(400) < 0.5, "north", "south")
    told = np.where(region == "north", age > 50, age < 30).astype(int)
    world = TableBandit.from_labels(
        {"age": age, "region": region}, schema=SCHEMA, labels=told, arms=["no", "yes"], seed=0
    )
    assert world.supervised_ceiling(0) > 0.95
    assert world.supervised_ceiling(0) == world.supervised_ceiling(0)
    noise = TableBandit.from_labels(
        {"age": age, "region": region},
        schema=SCHEMA,
        labels=rng.integers(2, size=400),
        arms=["no", "yes"],
        seed=0,
    )
    assert noise.supervised_ceiling(0) < 0.63  # chance is .5 with standard error .025


@pytest.mark.usefixtures("one_thread")
def test_supervised_ceiling_of_reward_columns():
    age = np.linspace(0, 100, 200)
    frame = {"age": age, "region": ["north"] * 200}
    rewards = np.stack([age / 100, 1 - age / 100], axis=1)
    world = TableBandit.from_rewards(
        frame, schema=SCHEMA, rewards=rewards, arms=["up", "down"], reward_range=(0, 1), seed=0
    )
    assert world.supervised_ceiling(0) == pytest.approx(0.75, abs=0.01)


def test_supervised_ceiling_with_one_class_only():
    assert small(labels=[1] * 6).supervised_ceiling(0) == 1.0
    with pytest.raises(InvalidData, match="at least 5 people, there are 4"):
        small(horizon=4).supervised_ceiling(0)


@pytest.mark.usefixtures("one_thread")
def test_supervised_ceiling_is_the_better_of_a_smooth_model_and_trees():
    rng = np.random.default_rng(3)
    x, y = rng.uniform(0, 100, (2, 600))
    schema = Schema(x=Range(0, 100), y=Range(0, 100))

    def ceiling(label, n):
        return TableBandit.from_labels(
            {"x": x[:n], "y": y[:n]}, schema=schema, labels=label[:n].astype(int), arms=["no", "yes"], seed=0
        ).supervised_ceiling(0)

    # Few people and a slanted edge, which trees, cut along columns, find less well (.90).
    assert ceiling(x + y > 100, 200) > 0.95
    # Narrow stripes: no polynomial of degree two has them (.51), trees do.
    assert ceiling((x // 12) % 2 == 1, 600) > 0.9


@pytest.mark.usefixtures("one_thread")
def test_supervised_ceiling_learns_from_other_people_only():
    """Ten equal rows a person, whose label nothing but the person's other rows tells."""
    rng = np.random.default_rng(4)
    persons = np.repeat(np.arange(60), 10)
    label = rng.integers(2, size=60)[persons]
    world = TableBandit.from_rewards(
        {"age": rng.uniform(0, 100, 60)[persons], "region": ["north"] * 600},
        schema=SCHEMA,
        rewards=np.stack([1 - label, label], axis=1),
        arms=["no", "yes"],
        reward_range=(0, 1),
        seed=0,
        persons=persons,
        rounds_per_user=10,
    )
    assert world.supervised_ceiling(0) < 0.75  # chance is .5; rows of the same people would tell nearly all


@pytest.mark.usefixtures("one_thread")
def test_supervised_ceiling_takes_columns_of_many_categories():
    codes = np.random.default_rng(5).integers(300, size=400)
    world = TableBandit.from_labels(
        {"town": codes},
        schema=Schema(town=Categories(list(range(300)))),
        labels=(codes > 150).astype(int),
        arms=["no", "yes"],
        seed=0,
    )
    assert world.supervised_ceiling(0) > 0.95


def test_supervised_ceiling_of_contexts_that_are_all_alike_is_a_constant_arm():
    world = TableBandit.from_rewards(
        {"age": [3.0] * 50, "region": ["north"] * 50},
        schema=SCHEMA,
        rewards=np.tile([-1.0, 2.5], (50, 1)),
        arms=["no", "yes"],
        reward_range=(-2, 3),
        seed=0,
    )
    assert world.supervised_ceiling(0) == pytest.approx(2.5)


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.ensemble", None)
    with pytest.raises(MissingExtra, match=r"dpbandits\[report\]"):
        small().supervised_ceiling(0)


def test_repr_and_config_show_no_row():
    frame = {"age": [77.125], "region": ["south"]}
    world = TableBandit.from_labels(frame, schema=SCHEMA, labels=[2], arms=["a", "b", "c"], seed=0)
    for text in (repr(world), str(world), repr(world.to_config())):
        assert "77.125" not in text
        assert "0.77125" not in text
    assert Schema.from_config(world.to_config()["schema"]) == SCHEMA


def test_tables_cannot_be_changed_from_outside():
    rewards = np.zeros((6, 2))
    world = TableBandit.from_rewards(
        FRAME, schema=SCHEMA, rewards=rewards, arms=["a", "b"], reward_range=(0, 1), seed=0
    )
    world.mean_rewards(0, 6)[:] = 1.0
    world.decision_sets(0, 6)[:] = 0.5
    assert (world.mean_rewards(0, 6) == 0).all()
    assert set(world.decision_sets(0, 6)[:, 0, 1]) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"labels": [0, 1, 2]}, InvalidData),
        ({"labels": [0, 1, 2, 2, 1, 3]}, InvalidData),
        ({"labels": [0, 1, 2, 2, 1, -1]}, InvalidData),
        ({"labels": [0.0] * 6}, InvalidData),
        ({"labels": [[0] * 6]}, InvalidData),
        ({"horizon": 7}, InvalidParameter),
        ({"horizon": 0}, InvalidParameter),
        ({"seed": -1}, InvalidParameter),
        ({"arms": ["a", "a", "b"]}, InvalidParameter),
        ({"schema": Schema(age=Range(0, 30), region=Categories(["north", "south"]))}, InvalidData),
        ({"schema": Schema(height=Range(0, 300))}, InvalidData),
    ],
)
def test_bad_tables_are_refused(changed, error):
    with pytest.raises(error):
        small(**changed)


def test_rewards_outside_the_public_range_are_refused():
    with pytest.raises(InvalidData, match="outside reward_range") as caught:
        TableBandit.from_rewards(
            FRAME, schema=SCHEMA, rewards=np.full((6, 2), 7.375), arms=["a", "b"], reward_range=(0, 1), seed=0
        )
    assert "7.375" not in str(caught.value)


def test_cuts_put_a_value_on_a_cut_into_the_upper_bracket():
    assert codes_from_cuts([9.99, 10, 15.9, 16, 24, 1e9], [10, 16, 24], name="y").tolist() == [
        0,
        1,
        1,
        2,
        3,
        3,
    ]
    for cuts in ([], [2, 1], [1, 1], [1, float("nan")], [[1, 2]]):
        with pytest.raises(InvalidParameter):
            codes_from_cuts([1.0], cuts, name="y")
    for values in (["x"], [None], [float("nan")], [[1.0]]):
        with pytest.raises(InvalidData, match="'y'"):
            codes_from_cuts(values, [1.0], name="y")


def test_synthetic_people_follow_the_written_law():
    world = synthetic_income(seed=8, n_rows=20_000)
    age, education, gender, region = world.contexts.T
    # |z| < 6 for each of the 15 frequencies: false alarm below 4e-8.
    years = np.rint(6 + 14 * education).astype(int)
    shares = {6: 0.03, 8: 0.03, 10: 0.06, 12: 0.32, 14: 0.26, 16: 0.20, 18: 0.07, 20: 0.03}
    checks = [((years == year).mean(), share) for year, share in shares.items()]
    checks += [((region == code).mean(), share) for code, share in enumerate([0.25, 0.20, 0.32, 0.23])]
    checks += [(gender.mean(), 0.5), ((age == 0).mean(), 1 / 49), ((age == 1).mean(), 1 / 49)]
    for found, share in checks:
        assert abs(found - share) < 6 * np.sqrt(share * (1 - share) / 20_000)
    # The law of one cell: P(earnings < 10) at its own mean of log earnings.
    from scipy.special import ndtr

    ages = np.rint(16 + 48 * age)
    mean = 2.78 + 0.09 * (years - 13) + 0.012 * (ages - 40) - 0.0006 * (ages - 40) ** 2
    mean += np.where(gender == 1, 0.1, -0.1) + np.array([0.0, 0.08, -0.04, 0.05])[region.astype(int)]
    for arm, (low, high) in enumerate([(0, 10), (10, 16), (16, 24), (24, np.inf)]):
        with np.errstate(divide="ignore"):
            chance = ndtr((np.log(high) - mean) / 0.45) - ndtr((np.log(low) - mean) / 0.45)
        gap = world.reward_table[:, arm].sum() - chance.sum()
        assert abs(gap) < 6 * np.sqrt((chance * (1 - chance)).sum())


def test_synthetic_people_are_keyed_by_the_seed():
    one, two = synthetic_income(seed=1, n_rows=50), synthetic_income(seed=2, n_rows=50)
    assert np.array_equal(one.contexts, synthetic_income(seed=1, n_rows=50).contexts)
    assert not np.array_equal(one.contexts, two.contexts)
    assert np.array_equal(one.contexts, synthetic_income(seed=1, n_rows=90).contexts[:50])
    with pytest.raises(InvalidParameter):
        synthetic_income(seed=1, n_rows=0)
