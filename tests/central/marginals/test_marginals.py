"""Marginal tables behind `contexts` and `arms`: sensitivity, noise, statement, learning, states."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.marginals.noise import TableNoise
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.models.marginals import Design
from dpbandits.privacy.certificates import PureBeside, PureDP
from internals import marginals as inside
from tuning import placed

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90),
    region=dpb.Categories(["north", "south", "west"]),
    income=dpb.Range(0, 1e5, clip=True),
)
ARMS = ["mail", "call"]
BINS = (4, 3, 6)
GROUPS = ((0, 1), (2,))


def policy(*, tuning=None, epsilon=1.0, delta=0.0, rounds=1, **changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": ARMS,
        "reward_range": (0, 1),
        "horizon": 600,
        "privacy": dpb.JointDP(epsilon=epsilon, delta=delta, rounds_per_user=rounds),
        "user_ids": False,
        "noise": dpb.SimulatedNoise(1),
        "tuning": tuning or GPTuning(release="marginals", census=False),
    }
    return GPBandit(**placed(arguments | changes))


def ranges(count):
    """A schema of so many ranges."""
    return dpb.Schema(**{f"column{j}": dpb.Range(0, 1) for j in range(count)})


def drawn_rows(count, rng):
    """Random encoded contexts with an arm behind each."""
    return np.column_stack(
        [rng.random(count), rng.integers(0, 3, count), rng.random(count), rng.integers(0, 2, count)]
    )


# -- what one user moves ----------------------------------------------------------------------------------


def test_sums_and_counts_are_those_of_the_rows(monkeypatch):
    inside.noiseless(monkeypatch)
    chooser = policy()
    rows = np.array(
        [[0.1, 2, 0.99, 1], [0.1, 2, 0.5, 1], [0.8, 0, 0.0, 0], [0.3, 1, 0.2, 0], [0.3, 1, 0.2, 0]]
    )
    block = inside.block(
        rows,
        [1.0, 0.25, 0.0, 0.5, np.nan],
        told=np.array([True, True, True, False, False]),
        refused=np.array([False, False, False, False, True]),
    )
    sums, counts = inside.sums_and_counts(chooser, block, inside.planned(chooser, bins=BINS, groups=GROUPS))
    expected = np.zeros((2, 12 + 6), dtype=int)
    expected[1, 0 * 3 + 2] = 512 - 256
    expected[0, 3 * 3 + 0] = -512
    expected[1, 12 + 5], expected[1, 12 + 3], expected[0, 12 + 0] = 512, -256, -512
    np.testing.assert_array_equal(sums, expected)
    assert counts.sum() == 6 * 4  # six tables, and the refused round in none
    assert counts[:24].tolist() == [0, 0, 2, 0, 0, 0, 0, 1, *[0] * 11, 1, *[0] * 4]


def contributions(chooser, count, rng):
    """Blocks of one round, whatever a user may bring: often an end of a range, nothing, or a refused set."""
    rows = drawn_rows(count, rng)
    rows[:, [0, 2]] = np.where(rng.random((count, 2)) < 0.3, np.rint(rows[:, [0, 2]]), rows[:, [0, 2]])
    rewards = np.where(rng.random(count) < 0.3, rng.uniform(-3.0, 4.0, count), rng.integers(0, 2, count))
    fates = rng.choice(["told", "told", "told", "missing", "refused"], count)
    return [
        inside.block(
            row[None],
            [reward if fate == "told" else np.nan],
            told=np.array([fate == "told"]),
            refused=np.array([fate == "refused"]),
        )
        for row, reward, fate in zip(rows, rewards, fates, strict=True)
    ]


def drawn_designs(chooser, rng, *, first):
    """Groups, bins and centres of all kinds; a centre far off the range among them."""
    m = inside.kind(chooser).reader.effects.n_weights
    for groups in (((),), ((0,),), ((1, 2),), ((0, 1), (2,)), ((0,), (1,), (2,)), ((0, 1, 2),)):
        bins = (int(rng.choice([2, 4, 12])), 3, int(rng.choice([2, 3, 6])))
        centre = None if first else rng.normal(0.0, rng.choice([0.1, 2.0, 1e6]), (2, m))
        yield inside.planned(chooser, bins=bins, groups=groups, centre=centre)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("epsilon", [1.0, 9.85])
def test_no_two_contributions_lose_more_than_was_promised_and_some_lose_nearly_that(
    monkeypatch, first, epsilon
):
    """All pairs of many contributions under many designs: what they move, in L1, at the rates asked for.

    In exact arithmetic.
    """
    asked = inside.noiseless(monkeypatch)
    chooser, rng, losses = policy(epsilon=epsilon), np.random.default_rng(2), []
    for design in drawn_designs(chooser, rng, first=first):
        blocks = contributions(chooser, 60, rng)
        made = [inside.sums_and_counts(chooser, one, design, number=0 if first else 1) for one in blocks]
        rates = [Fraction(rate) for rate, _ in asked[-2:]]
        parts = [np.stack([one[part].ravel() for one in made]) for part in (0, 1)]
        apart = [np.abs(part[:, None] - part).sum(axis=2) for part in parts]
        most = 2 * len(design.tables.groups) * (512 if first else 717)
        assert apart[0].max() <= most
        assert not first or apart[0].max() == most
        assert apart[1].max() == 2 * 6  # six tables
        assert ((parts[1][:, None] - parts[1]) ** 2).sum(axis=2).max() == 2 * 6
        pairs = set(zip(apart[0].ravel().tolist(), apart[1].ravel().tolist(), strict=True))
        losses += [sums * rates[0] + counts * rates[1] for sums, counts in pairs]
    assert max(losses) <= Fraction(epsilon)
    assert max(losses) > Fraction(epsilon) * (1 if first else Fraction(3, 4)) * (1 - Fraction(1, 2**40))
    if not first:
        taken = inside.centre_of(chooser, drawn_rows(300, rng)[:, :-1], design)
        assert (taken.min(), taken.max()) == (307, 717)


@pytest.mark.parametrize("epsilon", [0.3, 0.81, 0.91, 1.0, 1.23, 2.53, 9.85])
@pytest.mark.parametrize("rounds", [1, 3])
def test_the_rates_keep_the_promise_in_exact_arithmetic(monkeypatch, epsilon, rounds):
    """At some of these epsilons the rest of it beside 15% was once rounded up, and the loss above it."""
    asked = inside.noiseless(monkeypatch)
    for count, tables in ((None, 6), (5, 15), (6, 6), (10, 10)):  # up to five columns pairs are counted
        changes = {} if count is None else {"contexts": ranges(count)}
        chooser = policy(epsilon=epsilon, rounds=rounds, **changes)
        columns, m = chooser.domain.dim - 1, inside.kind(chooser).reader.effects.n_weights
        rows = inside.block(np.zeros((1, columns + 1)), [1.0])
        for q, (centre, most) in product((1, 2, columns), ((None, 1024), (np.zeros((2, m)), 1434))):
            groups = tuple((j,) for j in range(q))
            design = inside.planned(chooser, bins=(2, 3, *[2] * (columns - 2)), groups=groups, centre=centre)
            _, counted = inside.sums_and_counts(chooser, rows, design)
            assert counted.sum() == tables  # a row is in one cell of each table that the noise covers
            sums, counts = (Fraction(rate) for rate, _ in asked[-2:])
            loss = rounds * (sums * most * q + counts * 2 * tables)
            assert Fraction(epsilon) * (1 - Fraction(1, 2**50)) < loss <= Fraction(epsilon)


def test_a_centre_that_is_no_number_moves_no_reward_further_than_the_noise_covers():
    chooser, m = policy(), inside.kind(policy()).reader.effects.n_weights
    design = inside.planned(chooser, bins=BINS, groups=GROUPS, centre=np.full((2, m), np.nan))
    taken = inside.centre_of(chooser, drawn_rows(50, np.random.default_rng(4))[:, :-1], design)
    assert 307 <= taken.min() <= taken.max() <= 717


def test_a_centre_is_a_users_own_whoever_else_is_there():
    chooser, rng = policy(), np.random.default_rng(3)
    m = inside.kind(chooser).reader.effects.n_weights
    design = inside.planned(chooser, bins=BINS, groups=GROUPS, centre=rng.normal(0.0, 0.1, (2, m)))
    contexts = drawn_rows(700, rng)[:, :-1]
    together = inside.centre_of(chooser, contexts, design)
    alone = np.concatenate([inside.centre_of(chooser, row[None], design) for row in contexts[:40]])
    np.testing.assert_array_equal(together[:40], alone)


@pytest.mark.parametrize("rounds", [1, 3])
def test_noise_is_asked_for_at_the_rates_of_the_proof(monkeypatch, rounds):
    asked = inside.noiseless(monkeypatch)
    chooser = policy(rounds=rounds)
    rows = inside.block(drawn_rows(5, np.random.default_rng(4)), np.ones(5))
    m = inside.kind(chooser).reader.effects.n_weights
    for centre, most in ((None, 1024), (np.zeros((2, m)), 1434)):
        asked.clear()
        design = inside.planned(chooser, bins=BINS, groups=GROUPS, centre=centre)
        inside.sums_and_counts(chooser, rows, design)
        (sums, entries), (counts, cells) = asked
        law = replace(inside.kind(chooser).law, design=design.tables)
        assert (entries, cells) == (2 * 18, sum(law.cells))
        assert sums * most * 2 * rounds == pytest.approx(0.85, rel=1e-12)
        assert counts * 2 * 6 * rounds == pytest.approx(0.15, rel=1e-12)
        assert sums * most * 2 * rounds + counts * 2 * 6 * rounds <= 1.0


def test_the_noise_of_a_release_has_its_law():
    """False alarms: 1e-7 a table, of Kolmogorov and Smirnov's test."""
    chooser = policy(noise=dpb.SimulatedNoise(5))
    design = inside.planned(chooser, bins=(12, 3, 12), groups=((0, 1), (2,)))
    nobody = inside.block(
        drawn_rows(1, np.random.default_rng(5)), [1.0], told=np.array([False]), refused=np.array([True])
    )
    draws = [inside.sums_and_counts(chooser, nobody, design, number=block) for block in range(6)]
    sums, counts = (np.concatenate([draw[part].ravel() for draw in draws]) for part in (0, 1))
    jitter = np.random.default_rng(6).uniform(-0.5, 0.5, len(counts))
    assert stats.kstest(sums, "laplace", args=(0, 1024 * 2 / 0.85)).pvalue > 1e-7
    assert stats.kstest(counts + jitter, "laplace", args=(0, 2 * 6 / 0.15)).pvalue > 1e-7


def test_no_two_blocks_share_their_noise():
    chooser = policy(noise=dpb.SimulatedNoise(5))
    design = inside.planned(chooser, bins=BINS, groups=GROUPS)
    block = inside.block(drawn_rows(1, np.random.default_rng(5)), [1.0])
    first, second = (inside.sums_and_counts(chooser, block, design, number=number) for number in (0, 1))
    again = inside.sums_and_counts(chooser, block, design, number=1)
    for one, other, same in zip(first, second, again, strict=True):
        assert not np.array_equal(one, other)
        np.testing.assert_array_equal(other, same)  # a study repeats itself


# -- an attack --------------------------------------------------------------------------------------------


def test_an_attack_on_the_sums_stays_below_the_promise_and_above_a_quarter_of_it():
    """The best test between two neighbours, on the two cells that they move, at epsilon_v = .85 epsilon.

    The same noise under a quarter of the claim is the broken twin, which it finds. Clopper and Pearson's
    bounds, a false alarm in 1e7 each.
    """
    chooser = policy(epsilon=4.0, noise=dpb.SimulatedNoise(7))
    design = inside.planned(chooser, bins=BINS, groups=((0, 1),))
    rows, scores = (np.array([[0.1, 0, 0.1, 0]]), np.array([[0.9, 2, 0.1, 1]])), ([], [])
    for world in (0, 1):
        block = inside.block(rows[world], [1.0 - world])
        for number in range(600):
            sums, _ = inside.sums_and_counts(chooser, block, design, number=2 * number + world)
            own, their = sums[0, 0], sums[1, 11]
            scores[world].append(abs(own) - abs(own - 512) + abs(their + 512) - abs(their))
    true, false = (np.sum(np.array(one) == 1024) for one in scores)  # the strongest evidence there can be
    low = stats.beta.ppf(1e-7, true, 600 - true + 1)
    high = stats.beta.ppf(1 - 1e-7, false + 1, 600 - false)
    assert 1.0 < np.log(low / high) < 4.0


# -- what is promised -------------------------------------------------------------------------------------


def test_without_delta_the_promise_is_pure():
    chooser = policy(epsilon=0.5)
    promised = chooser.guarantee
    assert promised.certificate == PureDP(0.5)
    assert "pure differential privacy, epsilon = 0.5" in promised.annex()
    assert [record.law for record in promised.mechanisms] == ["discrete Laplace", "discrete Laplace"]


def test_with_delta_and_many_columns_counts_take_gaussian_noise_and_the_promise_holds():
    many = dpb.Schema(**{f"column{j}": dpb.Range(0, 1) for j in range(10)})
    chooser = policy(contexts=many, delta=1e-6, noise=dpb.SecureNoise())
    certificate = inside.certified(chooser)
    assert isinstance(certificate, PureBeside)
    assert certificate.epsilon_at(1e-6) <= 1.0 + 1e-9
    assert "Gaussian noise on the" in " ".join(chooser.guarantee.annex().split())
    few = policy(contexts=dpb.Schema(age=dpb.Range(0, 1), more=dpb.Range(0, 1)), delta=1e-6)
    assert inside.certified(few) == PureDP(1.0)  # public: columns, epsilon and delta alone decide


class Recording(dpb.SecureNoise):
    """Keeps what calibrations were told, and how many draws each release took."""

    def __init__(self):
        super().__init__()
        self.told, self.drawn = [], []

    def gaussian_scale(self, sensitivity, epsilon, delta, *, draws=None):
        self.told.append(draws)
        return super().gaussian_scale(sensitivity, epsilon, delta, draws=draws)

    def integer_gaussian(self, sigma, size):
        self.drawn.append(size)
        return super().integer_gaussian(sigma, size)


@pytest.mark.parametrize("rounds", [1, 2, 50])
def test_the_certificate_of_online_counts_allows_for_all_their_draws(rounds):
    """A user's rounds may lie in as many blocks as they are: every draw of these blocks is touched."""
    many = dpb.Schema(**{f"column{j}": dpb.Range(0, 1) for j in range(10)})
    noise = Recording()
    chooser = policy(contexts=many, delta=1e-6, rounds=rounds, noise=noise)
    told = noise.told[0]
    for _ in range(chooser.blocks[0] + 1):  # the next block's first ask releases
        decision = chooser.ask({f"column{j}": 0.5 for j in range(10)})
        chooser.tell(decision.id, 1.0)
    assert len(noise.drawn) == 1  # the counts of the first block
    assert set(noise.told) == {told}
    most = inside.kind(chooser).law.most_cells  # bins depend on earlier releases; this bounds all of them
    assert noise.drawn[0] <= most
    assert told == most * min(rounds, len(chooser.blocks))


def test_the_kind_and_its_blocks_follow_from_public_numbers():
    one, other = policy(), policy(noise=dpb.SimulatedNoise(9), seed=4)
    assert one.blocks == other.blocks == (90, 216, 392)
    assert one.tuning.release == "marginals"
    assert policy(horizon=None).blocks[:3] == (1000, 2400, 4360)
    assert GPBandit.from_config(one.to_config()).to_config() == one.to_config()


WIDE = dpb.Schema(**{f"column{j}": dpb.Range(0, 1) for j in range(4)})
TOWNS = dpb.Schema(town=dpb.Categories([f"town {number}" for number in range(201)]))


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"contexts": WIDE, "delta": 1e-6}, "marginals"),
        ({"contexts": WIDE, "delta": 1e-6, "seed": 5, "noise": dpb.SecureNoise()}, "marginals"),
        ({"delta": 1e-6}, "marginals"),
        ({"contexts": dpb.Schema(age=dpb.Range(18, 90)), "delta": 1e-6}, "marginals"),
        ({"delta": 0.0}, "marginals"),
        ({"contexts": TOWNS, "delta": 1e-6}, "features"),  # no reward table has room for them
        ({"contexts": TOWNS, "delta": 0.0}, "marginals"),
        ({"contexts": dpb.Schema(**WIDE.columns, **TOWNS.columns), "delta": 1e-6}, "marginals"),
        ({"contexts": WIDE, "delta": 1e-6, "tuning": GPTuning(n_features=5)}, "features"),
        ({"contexts": WIDE, "delta": 1e-6, "tuning": GPTuning(release="features")}, "features"),
        (
            {"contexts": WIDE, "delta": 1e-6, "kernel": dpb.kernels.SquaredExponential(lengthscale=3.0)},
            "features",
        ),
        ({"contexts": WIDE, "delta": 1e-6, "tuning": GPTuning(decision_sets="public")}, "features"),
    ],
)
def test_the_kind_is_chosen_from_public_arguments_alone(changes, kind):
    assert policy(**({"tuning": GPTuning()} | changes)).tuning.release == kind


def test_what_it_cannot_do_is_said():
    box = {"contexts": None, "arms": None, "domain": dpb.Box(low=[0], high=[1])}
    for changes, message in (
        (box, "contexts= and arms="),
        ({"kernel": dpb.kernels.SquaredExponential(lengthscale=0.3)}, "no kernel"),
        ({"tuning": GPTuning(release="marginals", decision_sets="public")}, "both contexts and rewards"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            policy(**changes)


def test_a_promise_that_no_noise_can_keep_is_refused_at_once():
    with pytest.raises(InvalidParameter, match="lattice noise"):
        policy(epsilon=1e-6, rounds=10_000_000)


def test_nobody_elses_answer_moves_before_a_release_and_everybody_after_is_told_by_it_alone():
    def life(target):
        chooser, seen = policy(epsilon=3.0), []
        people = {"age": np.linspace(18, 90, 200), "region": ["north", "west"] * 100, "income": np.zeros(200)}
        if target is not None:
            people["age"][7], people["region"][7] = target
        batch = chooser.ask_batch({name: column[:90] for name, column in people.items()})
        rewards = (batch.indices == 0).astype(float)
        rewards[7] = 0.0 if target is None else 1.0
        chooser.tell_batch(batch.ids, rewards)
        seen.append(batch.indices)
        after = chooser.ask_batch({name: column[90:] for name, column in people.items()})
        return np.delete(np.concatenate([*seen, after.indices]), 7), inside.kept(chooser)

    (one, _), (other, kept) = life(None), life((88.0, "south"))
    np.testing.assert_array_equal(one[:89], other[:89])
    again = policy(epsilon=3.0)
    people = {"age": np.linspace(18, 90, 200)[90:], "region": ["north", "west"] * 55, "income": np.zeros(110)}
    np.testing.assert_array_equal(inside.answers_by(again, kept, people, start=90), other[89:])


# -- learning and states ----------------------------------------------------------------------------------


def lived(chooser, rounds=None, *, seed=0):
    """Share of the right arm in every stretch between releases: mail for the young in the north."""
    rng = np.random.default_rng(seed)
    total = chooser.horizon if rounds is None else rounds
    ages, regions = rng.uniform(18, 90, total), rng.integers(0, 3, total)
    names = np.array(["north", "south", "west"])
    edges, right = [0, *(edge for edge in chooser.batch_boundaries if edge < total), total], []
    for start, stop in pairwise(edges):
        people = {
            "age": ages[start:stop],
            "region": names[regions[start:stop]],
            "income": np.zeros(stop - start),
        }
        batch = chooser.ask_batch(people)
        best = ((ages[start:stop] > 50) | (regions[start:stop] > 0)).astype(int)
        paid = rng.random(stop - start) < np.where(batch.indices == best, 0.8, 0.2)
        chooser.tell_batch(batch.ids, paid.astype(float))
        right.append(float((batch.indices == best).mean()))
    return right


@pytest.mark.parametrize("late", [{}, {"reporting_delay": 40, "lag": 60}])
def test_it_learns_who_should_get_what(late):
    chooser = policy(epsilon=3.0, horizon=8000, tuning=GPTuning(release="marginals", **late))
    right = lived(chooser)
    assert 0.4 < right[0] < 0.6  # at random: 300 fair coins and more
    assert right[-1] > 0.85


def arms_between_releases(chooser, ends, *, seed=11):
    """Arms given to one person in every stretch, and the last prediction (2,); rewards are fair coins."""
    rng, given = np.random.default_rng(seed), []
    for start, stop in pairwise((0, *ends)):
        count = stop - start
        batch = chooser.ask_batch({"age": [30.0] * count, "region": ["north"] * count, "income": [0] * count})
        given.append(set(batch.indices.tolist()))
        chooser.tell_batch(batch.ids, rng.integers(0, 2, count).astype(float))
    return given, chooser.predict({"age": [30.0], "region": ["north"], "income": [0]})[0][0]


def test_exploration_ends_with_the_last_release():
    chooser = policy(tuning=GPTuning(release="marginals", thompson_scale=4.0))
    given, predicted = arms_between_releases(chooser, (*chooser.blocks, 600))
    assert given == [{0, 1}, {0, 1}, {0, 1}, {int(predicted.argmax())}]


@pytest.mark.parametrize(("changes", "forget"), [({"horizon": None}, None), ({}, 2_000)])
def test_exploration_goes_on_where_more_releases_follow(changes, forget):
    tuning = GPTuning(release="marginals", blocks=(90, 216, 392), thompson_scale=4.0, forget=forget)
    given, _ = arms_between_releases(policy(tuning=tuning, **changes), (90, 216, 392, 600))
    assert given == [{0, 1}] * 4


def test_public_data_comes_first_and_is_remembered(tmp_path):
    chooser, rng = policy(), np.random.default_rng(8)
    ages, regions, arms = rng.uniform(18, 90, 2000), rng.integers(0, 3, 2000), rng.integers(0, 2, 2000)
    paid = (arms == ((ages > 50) | (regions > 0))).astype(float)
    names = np.array(["north", "south", "west"])[regions]
    contexts = {"age": ages, "region": names, "income": np.zeros(2000)}
    chooser.warm_start(contexts, paid, arms=[ARMS[arm] for arm in arms])
    right = lived(chooser, 500)
    assert right[0] > 0.75  # the first block is not answered at random: .5, deviation .05
    chooser.save(tmp_path / "state")
    again = GPBandit.load(tmp_path / "state")
    people = {"age": np.linspace(20, 80, 50), "region": ["north"] * 50, "income": np.zeros(50)}
    np.testing.assert_allclose(again.predict(people)[0], chooser.predict(people)[0], rtol=1e-9)


def test_an_unknown_horizon_is_learned_over_as_well():
    right = lived(policy(epsilon=3.0, horizon=None), 8000)
    assert right[-1] > 0.85


def test_a_restored_policy_answers_as_the_one_that_went_on(tmp_path):
    chooser = policy(epsilon=3.0)
    lived(chooser, 300)
    chooser.save(tmp_path / "state")
    again = GPBandit.load(tmp_path / "state")
    assert inside.designs(again) == inside.designs(chooser)
    people = {"age": np.linspace(20, 80, 50), "region": ["north"] * 50, "income": np.zeros(50)}
    np.testing.assert_allclose(again.predict(people)[0], chooser.predict(people)[0], rtol=1e-9)
    np.testing.assert_array_equal(again.ask_batch(people).indices, chooser.ask_batch(people).indices)


def test_a_published_policy_predicts_the_same(tmp_path):
    chooser = policy(epsilon=3.0)
    lived(chooser, 300)
    published = chooser.publish()
    published.save(tmp_path)
    again = dpb.central.PublishedFunction.load(tmp_path)
    people = {"age": np.linspace(20, 80, 50), "region": ["west"] * 50, "income": np.zeros(50)}
    np.testing.assert_allclose(again.predict(people)[0], chooser.predict(people)[0], rtol=1e-12)


@pytest.mark.parametrize("name", ["design_0", "sums_0", "counts_0", "marginals"])
def test_releases_of_another_shape_are_refused(name):
    chooser = policy()
    lived(chooser, 100)
    chooser.ask({"age": 30, "region": "north", "income": 0})
    kind, arrays = inside.kind(chooser), inside.kept(chooser)
    with pytest.raises((CorruptState, InvalidParameter)):
        kind.taken_up(arrays | {name: arrays[name][:-1].astype(float)})


@pytest.mark.parametrize("design", [[[0, 0, 0], [4, 3, 2]], [[0, 0, 1], [24, 3, 24]]])
def test_releases_with_wider_tables_than_the_certificate_allows_are_refused(design):
    """Three columns in a table. The second has two columns a table, and few enough cells: it is read."""
    chooser = policy()
    lived(chooser, 100)
    chooser.ask({"age": 30, "region": "north", "income": 0})
    kind, arrays = inside.kind(chooser), inside.kept(chooser)
    tables = np.array(design)
    given = Design.of_array((24, 3, 24), tables)
    sums = np.zeros((kind.arms, given.n_cells), dtype=np.int64)
    counts = np.zeros(sum(replace(kind.law, design=given).cells), dtype=np.int64)
    changed = arrays | {"design_0": tables, "sums_0": sums, "counts_0": counts}
    if given.fits():
        assert kind.taken_up(changed).count == 1
    else:
        with pytest.raises(CorruptState):
            kind.taken_up(changed)


def test_an_alarm_about_counts_is_as_rare_as_it_says():
    """Against the exact tails of one and of two Laplace variables, and of a Gaussian one."""
    failure = 1 / 30_000
    for releases, tail in ((1, lambda x: 0.5 * np.exp(-x)), (2, lambda x: 0.25 * (2.0 + x) * np.exp(-x))):
        noise = TableNoise.planned(dpb.JointDP(0.05), dpb.SimulatedNoise(0), tables=1, cells=4)
        assert noise.laplace
        three = [np.array([3.0])] * releases
        found = noise.largest_error(three, failure=failure) / (3.0 * noise.scale)
        assert failure / 100 < tail(found) <= failure
        far = np.array([3.0] * 4)  # as many terms as releases count, whichever of both they are
        assert noise.largest_error([far], failure=failure) == pytest.approx(
            noise.largest_error([far[:2]] * 2, failure=failure)
        )
    noise = TableNoise.planned(dpb.JointDP(0.05, 1e-3), dpb.SimulatedNoise(0), tables=40, cells=4)
    assert not noise.laplace
    found = noise.largest_error([np.array([3.0, 4.0])] * 4, failure=failure) / (10.0 * noise.sd)
    assert 4.0 < found < 5.0
