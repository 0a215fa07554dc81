"""Marginal tables of a randomised log: sensitivity, noise, statement, choice, learning, states, parts."""

import shutil
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.budget import cost_of_guarantee
from dpbandits.central import ExploreThenCommit, ExploreTuning, NothingToLearn
from dpbandits.central.logged import tables
from dpbandits.central.logged.logged_table import LoggedTable
from dpbandits.central.logged.once import publish_once
from dpbandits.central.logged.published_table import PublishedTable
from dpbandits.central.marginals.noise import TableNoise, VectorNoise
from dpbandits.errors import BudgetExceeded, CorruptState, InvalidParameter
from dpbandits.privacy.calibration import gaussian_mu, rounding_distance
from dpbandits.privacy.certificates import GaussianDP, NearGaussianDP, PureBeside, PureDP
from dpbandits.state import read_state, write_state
from internals import logged_tables as inside
from tuning import built

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90),
    region=dpb.Categories(["north", "south", "west"]),
    income=dpb.Range(0, 1e5, clip=True),
    member=dpb.Categories(["yes", "no"]),
)
NARROW = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
ARMS = ["mail", "call", "nothing"]
ONE = 1 << 20


def policy(*, contexts=PEOPLE, epsilon=1.0, delta=1e-6, rounds=1, rows=4000, **changes):
    arguments = {
        "contexts": contexts,
        "arms": ARMS,
        "reward_range": (0, 1),
        "horizon": rows,
        "privacy": dpb.JointDP(epsilon=epsilon, delta=delta, rounds_per_user=rounds),
        "user_ids": False,
        "noise": dpb.SimulatedNoise(1),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)
        return built(ExploreThenCommit, arguments | changes)


def marginals(**tuning):
    return ExploreTuning(release="marginals", **tuning)


def crowd(count, seed=0):
    """Contexts, and rewards of every arm: mail for the old, call for members, nothing for nobody."""
    rng = np.random.default_rng(seed)
    contexts = {
        "age": rng.uniform(18, 90, count),
        "region": rng.choice(["north", "south", "west"], count).tolist(),
        "income": rng.uniform(0, 1e5, count),
        "member": rng.choice(["yes", "no"], count).tolist(),
    }
    means = np.full((count, 3), 0.3)
    means[:, 0] += np.where(contexts["age"] > 54, 0.4, 0.0)
    means[:, 1] += np.where(np.array(contexts["member"]) == "yes", 0.2, 0.0)
    return contexts, (rng.random((count, 3)) < means).astype(float), means


def told(chooser, rows, seed=0, chances=None, **options):
    """A policy that learned a log, by its own coins or by these chances (n, 3)."""
    contexts, rewards, _ = crowd(rows, seed)
    if chances is None:
        arms, weights = chooser.explore(0, rows), None
        codes = np.array([ARMS.index(arm) for arm in arms])
    else:
        draws = np.random.default_rng(seed + 1).random(rows)
        codes = (draws[:, None] > chances.cumsum(axis=1)).sum(axis=1)
        arms, weights = [ARMS[code] for code in codes], chances[np.arange(rows), codes]
    chooser.learn(contexts, arms, rewards[np.arange(rows), codes], propensities=weights, **options)
    return chooser


# -- what one row adds ------------------------------------------------------------------------------------


def test_a_row_adds_its_weighted_reward_to_one_cell_a_group_and_itself_to_every_count():
    chooser = policy()
    tables = inside.mechanism(chooser)
    person = {"age": 54.0, "region": "west", "income": 2e5, "member": "no"}
    chooser.learn([person], ["call"], [0.75], propensities=[0.5])
    q, t = len(tables.design.groups), 4 + 6
    rewards, counts = inside.parts(chooser, inside.raw(chooser))
    assert rewards[1].sum() == q * round(ONE * (0.25 / 0.5) * (1 / 3) / 0.5)
    assert (rewards[1] != 0).sum() == q
    assert not rewards[[0, 2]].any()
    assert [own[own != 0].tolist() for own in counts] == [[ONE]] * t
    assert counts[1].tolist() == [0, 0, ONE]


@pytest.mark.parametrize(
    "spoilt",
    [{"arm": "other"}, {"arm": None}, {"reward": 7.0}, {"reward": np.nan}, {"chance": 0.0}, {"region": "x"}],
)
def test_what_cannot_be_read_adds_nothing(spoilt):
    row = {"age": 30.0, "region": "west", "income": 1.0, "member": "no"} | {
        name: value for name, value in spoilt.items() if name == "region"
    }
    chooser = policy(contexts=PEOPLE)
    chooser.learn(
        [row],
        [spoilt.get("arm", "call")],
        [spoilt.get("reward", 1.0)],
        propensities=[spoilt.get("chance", 0.5)],
    )
    assert not inside.raw(chooser).any()
    assert chooser.unsafe_left_out == {"unreadable": 1, "surplus": 0}


def rows_of(rng, count):
    """Rows of anybody, whatever stands in them: mostly ends of ranges, and now and then garbage."""
    people = [
        {
            "age": rng.choice([18.0, 90.0, 54.0, np.nan], p=[0.4, 0.4, 0.15, 0.05]),
            "region": rng.choice(["north", "west", "nowhere"], p=[0.5, 0.45, 0.05]),
            "income": rng.choice([0.0, 1e5, 2e5]),
            "member": rng.choice(["yes", "no"]),
        }
        for _ in range(count)
    ]
    arms = rng.choice([*ARMS, "other"], count, p=[0.45, 0.3, 0.2, 0.05]).tolist()
    rewards = rng.choice([0.0, 1.0, 0.3, -5.0, np.nan], count, p=[0.4, 0.4, 0.1, 0.05, 0.05])
    chances = rng.choice([1e-300, 1e-3, 0.2, 1.0, 0.0, np.inf], count, p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05])
    return people, arms, rewards, chances


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_user_moves_sums_and_counts_by_no_more_than_the_noise_covers(rounds, delta):
    """Any rows of one user, which may push others over the end of the horizon, against any others."""
    rng, worst = np.random.default_rng(7), 0.0
    chooser = policy(rounds=rounds, delta=delta, rows=6, user_ids=True, tuning=marginals())
    tables = inside.mechanism(chooser)
    ends = inside.parts(chooser, inside.raw(chooser))[0].size
    absolute, euclidean = tables.shares.count_sensitivities
    for _ in range(60):
        others = rows_of(rng, 5)
        found = []
        for _ in range(2):
            count = int(rng.integers(1, rounds + 2))
            own = rows_of(rng, count)
            place = int(rng.integers(0, 6))
            parts = [[*base[:place], *mine, *base[place:]] for base, mine in zip(others, own, strict=True)]
            users = [*map(str, range(place)), *["me"] * count, *map(str, range(place, 5))]
            part = chooser.shard()
            part.learn(*parts[:3], propensities=parts[3], users=users)
            found.append(part.cells.sums[0])
        moved = found[1] - found[0]
        people = moved[ends:] / ONE
        assert np.abs(moved[:ends]).sum() <= tables.sensitivity
        assert np.abs(people).sum() <= absolute
        assert np.sqrt((people**2).sum()) <= euclidean
        worst = max(worst, np.abs(moved[:ends]).sum() / tables.sensitivity)
    assert worst > 0.8  # the bound is close to what is possible


def test_a_user_in_another_place_of_the_log_moves_nobody_elses_part():
    """Rows are added up: which come first decides only what is surplus."""
    rng = np.random.default_rng(1)
    rows = rows_of(rng, 20)
    order = rng.permutation(20)
    found = []
    for chosen in (np.arange(20), order):
        chooser = policy(rows=20, tuning=marginals())
        people, arms, rewards, chances = ([part[place] for place in chosen] for part in rows)
        chooser.learn(people, arms, rewards, propensities=chances)
        found.append(inside.raw(chooser))
    np.testing.assert_array_equal(*found)


# -- noise and promise ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.0])
def test_noise_covers_the_sensitivity_and_both_shares_stay_inside_the_promise(monkeypatch, rounds, epsilon):
    asked = inside.noiseless(monkeypatch)
    chooser = policy(epsilon=epsilon, delta=0.0, rounds=rounds, tuning=marginals())
    chooser.learn([None], [None], [None])
    chooser.publish()
    tables = inside.mechanism(chooser)
    absolute, _ = tables.shares.count_sensitivities
    (rate, alone), sums, *pairs = asked  # counts of columns, sums, and counts of pairs if there are any
    parts = [Fraction(sums[0]) * tables.sensitivity, Fraction(rate) * Fraction(absolute)]
    assert sum(parts) <= Fraction(epsilon)
    assert float(sum(parts)) > 0.999999 * epsilon
    assert (alone, sums[1]) == (sum(tables.fine), 3 * tables.design.n_cells)
    assert pairs == ([(rate, sum(tables.law.cells[4:]))] if tables.law.paired else [])
    assert tables.sensitivity == 2 * len(tables.design.groups) * ONE * rounds


def many_columns(**changes):
    """A policy with so many reward tables that one Gaussian vector has less noise than Laplace sums."""
    contexts = dpb.Schema(**{f"c{j}": dpb.Categories([0, 1, 2]) for j in range(19)}, age=dpb.Range(0, 1))
    return policy(contexts=contexts, rows=20_000, **changes)


def all_pairs_of_columns(**changes):
    """A policy whose noise leaves something of every pair of its columns."""
    contexts = dpb.Schema(**{f"c{j}": dpb.Categories([0, 1, 2]) for j in range(7)}, age=dpb.Range(0, 1))
    return policy(contexts=contexts, **({"rows": 100_000, "epsilon": 3.0} | changes))


@pytest.mark.parametrize(
    ("columns", "rounds"),
    [(many_columns, 1), (many_columns, 3), (all_pairs_of_columns, 1)],
    ids=["1", "3", "all pairs"],
)
def test_one_user_moves_the_vector_of_sums_and_counts_by_no_more_than_its_noise_covers(columns, rounds):
    """Rows may lie in the same cells, with rewards at both ends of the range, or in other ones."""
    rng, worst = np.random.default_rng(3), 0.0
    chooser = columns(rounds=rounds, **({"epsilon": 0.3} if columns is many_columns else {}))
    mechanism = inside.mechanism(chooser)
    categories = len(mechanism.base.effects.sizes) - 1
    ends = inside.parts(chooser, inside.raw(chooser))[0].size
    for turn in range(60):
        moved = 0
        for reward in (0.0, 1.0):
            part = chooser.shard()
            rows = rng.integers(0, 3, (rounds, categories)) * (turn % 3 > 0)
            ages = rng.choice([0.0, 0.99] if turn % 2 else [0.01, 0.05], rounds)
            people = {f"c{j}": rows[:, j] for j in range(categories)} | {"age": ages}
            arms = ["mail"] * rounds if turn % 4 else rng.choice(ARMS, rounds).tolist()
            part.learn(people, arms, np.full(rounds, reward))
            moved = part.cells.sums[0] - moved
        counts = mechanism.shares.weight * (moved[ends:] // ONE)
        length = float(np.linalg.norm(np.concatenate([moved[:ends], counts]).astype(float)))
        worst = max(worst, length / mechanism.shares.sensitivity)
    assert 0.9 < worst <= 1.0


@pytest.mark.parametrize(
    ("columns", "rounds", "rows", "kind"), [(3, 300, 1 << 24, TableNoise), (20, 100, 1_000_000, VectorNoise)]
)
def test_what_is_certified_covers_every_count_that_a_user_changes(columns, rounds, rows, kind):
    """Columns are counted in fine levels, and the noise of each count is a little off Gaussian noise."""
    contexts = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(columns)})
    chooser = policy(contexts=contexts, rows=rows, rounds=rounds, noise=dpb.SecureNoise())
    noise, rng = inside.mechanism(chooser).shares, np.random.default_rng(0)
    assert isinstance(noise, kind)
    before, after = np.zeros((2, inside.raw(chooser).size), dtype=np.int64)
    for vector in (before, after):
        part = chooser.shard()
        people = {f"c{j}": rng.random(rounds) for j in range(columns)}
        part.learn(people, ["mail"] * rounds, np.ones(rounds))
        vector += part.cells.sums[0]
    _, counts = inside.parts(chooser, after - before)
    changed = sum(np.count_nonzero(table) for table in counts[:columns])
    proven, sigma = (noise.counts, noise.scale) if kind is TableNoise else (noise.certificate, noise.sigma)
    assert isinstance(proven, NearGaussianDP)
    assert proven.distance >= changed * rounding_distance(sigma)


@pytest.mark.parametrize("rounds", [1, 4])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_a_vectors_noise_keeps_the_promise_in_both_parts(monkeypatch, rounds, epsilon):
    asked, draw = [], dpb.SimulatedNoise.integer_gaussian
    monkeypatch.setattr(
        dpb.SimulatedNoise,
        "integer_gaussian",
        lambda self, sigma, size: asked.append((sigma, size)) or draw(self, sigma, size),
    )
    chooser = many_columns(epsilon=epsilon, rounds=rounds)
    chooser.learn([None], [None], [None])
    chooser.publish()
    mechanism = inside.mechanism(chooser)
    q, t, weight = len(mechanism.design.groups), len(mechanism.law.tables), mechanism.shares.weight
    moved = rounds * (4 * q * ONE**2 + 2 * t * weight**2) ** 0.5
    rest = 3 * mechanism.design.n_cells + sum(mechanism.law.cells[20:])
    assert [size for _, size in asked] == [sum(mechanism.fine), rest]
    assert asked[0][0] == asked[1][0]
    proven = GaussianDP(moved / asked[0][0])
    assert proven.delta_at(epsilon) <= 1e-6 < proven.delta_at(0.999 * epsilon)
    assert chooser.guarantee.certificate.delta_at(epsilon) <= 1e-6
    assert chooser.diagnostics()["sum_noise_sd"] == pytest.approx(asked[0][0] / ONE / 2, rel=1e-5)


def test_tables_are_read_with_the_deviation_of_the_noise_that_is_drawn():
    """At this promise the scale of discrete Gaussian noise is not proportional to the sensitivity."""
    contexts = dpb.Schema(**{f"c{j}": dpb.Categories([0, 1]) for j in range(40)})
    chooser = policy(
        contexts=contexts, rows=2**20, epsilon=7.0, delta=1e-9, noise=dpb.SecureNoise(), rounds=2
    )
    mechanism = inside.mechanism(chooser)
    sigma = mechanism.shares.sigma / ONE / 2
    assert np.sqrt(inside.sum_variance_by_groups(chooser)) > 1.01 * sigma
    assert chooser.diagnostics()["sum_noise_sd"] == pytest.approx(sigma, rel=1e-12)
    few = policy()
    scale = inside.mechanism(few).sensitivity / inside.mechanism(few).shares.sum_epsilon
    assert few.diagnostics()["sum_noise_sd"] == pytest.approx(2.0**0.5 * scale / ONE / 2, rel=1e-12)


def test_many_columns_get_gaussian_noise_and_few_or_a_pure_promise_get_laplace_noise():
    said = many_columns().guarantee
    assert isinstance(said.certificate, GaussianDP)
    assert len(said.mechanisms) == 1
    assert "as one vector" in said.annex()
    assert isinstance(many_columns(noise=dpb.SecureNoise()).guarantee.certificate, NearGaussianDP)
    assert many_columns(delta=0.0, tuning=marginals()).guarantee.certificate == PureDP(1.0)
    assert isinstance(policy().guarantee.certificate, PureBeside)
    assert isinstance(many_columns(epsilon=60.0).guarantee.certificate, PureBeside)


def test_a_state_keeps_the_law_of_its_noise(tmp_path, monkeypatch):
    """Another processor might choose fewer tables, for which Laplace noise is less."""
    chooser = many_columns()
    chooser.learn({f"c{j}": [0, 1] for j in range(19)} | {"age": [0.5, 0.1]}, ["mail", "call"], [1.0, 0.0])
    chooser.save(tmp_path / "state")
    real = tables.best_design
    monkeypatch.setattr(tables, "best_design", lambda *args, **own: real(*args, **(own | {"people": 9.0})))
    assert isinstance(many_columns().guarantee.certificate, PureBeside)
    shutil.copy(tmp_path / "state", tmp_path / "copy")
    later = ExploreThenCommit.load(tmp_path / "copy")
    assert later.guarantee.certificate == chooser.guarantee.certificate == GaussianDP(gaussian_mu(1.0, 1e-6))
    people = {f"c{j}": [0, 2] for j in range(19)} | {"age": [0.2, 0.4]}
    np.testing.assert_array_equal(later.publish().predict(people), chooser.publish().predict(people))


def test_one_column_that_matters_is_found_among_twenty():
    rng = np.random.default_rng(11)
    people = {f"c{j}": rng.integers(0, 3, 6000) for j in range(19)} | {"age": rng.random(6000)}
    means = 0.3 + 0.4 * (np.asarray(people["c4"])[:, None] == np.arange(3))
    arms = rng.integers(0, 3, 6000)
    paid = (rng.random(6000) < means[np.arange(6000), arms]).astype(float)
    chooser = many_columns(epsilon=0.5)
    chooser.learn(people, [ARMS[arm] for arm in arms], paid)
    chosen = np.array(chooser.publish().choose(people))
    assert (chosen == people["c4"]).mean() > 0.9


def test_no_column_is_left_out_where_one_more_table_costs_little():
    """The search would leave out the column of many levels."""
    contexts = dpb.Schema(
        **{f"c{j}": dpb.Categories([0, 1]) for j in range(19)}, land=dpb.Categories(list("abcde"))
    )
    mechanism = inside.mechanism(policy(contexts=contexts, rows=4000, epsilon=0.3))
    assert {column for group in mechanism.design.groups for column in group} == set(range(20))
    held = {
        column for group in replace(mechanism, privacy=dpb.JointDP(0.3)).design.groups for column in group
    }
    assert 19 not in held  # Laplace noise grows with every table


def test_every_pair_of_columns_has_a_table_where_noise_is_small():
    def groups(**changes):
        return all_pairs_of_columns(**changes).diagnostics()["groups_of_columns"]

    every = [[i, j] for i, j in combinations(range(8), 2)]
    assert groups() == groups(rows=5000) == every
    for changes in ({"epsilon": 0.1}, {"rows": 1000}, {"rounds": 20}, {"rows": 5000, "delta": 0.0}):
        columns = [column for group in groups(tuning=marginals(), **changes) for column in group]
        assert sorted(columns) == sorted({*columns})  # each in one table at most


def test_an_interaction_of_any_two_columns_is_found():
    """The best arm depends on both of two columns, and on neither alone."""
    contexts = dpb.Schema(**{f"c{j}": dpb.Range(0, 1) for j in range(5)})
    chooser, rng = policy(contexts=contexts, rows=20_000, epsilon=3.0), np.random.default_rng(5)
    places, codes = rng.random((21_000, 5)), rng.integers(0, 3, 20_000)
    alike = (places[:, 2] > 0.5) == (places[:, 4] > 0.5)
    means = np.where(alike[:, None], [0.7, 0.3, 0.4], [0.3, 0.7, 0.4])
    paid = (rng.random(20_000) < means[np.arange(20_000), codes]).astype(float)
    chooser.learn(places[:20_000], [ARMS[code] for code in codes], paid)
    found = chooser.publish().predict(places[20_000:])[0].argmax(axis=1)
    assert (found == means[20_000:].argmax(axis=1)).mean() > 0.85


def test_pairs_are_counted_where_noise_leaves_something_of_them():
    """More epsilon or more rows let pairs of many columns be counted; few columns are as before."""
    pairs = {
        epsilon: len(inside.mechanism(many_columns(epsilon=epsilon)).law.tables) for epsilon in (0.1, 3.0)
    }
    assert pairs == {0.1: 20, 3.0: 210}
    assert len(inside.mechanism(policy()).law.tables) == 10


def test_the_promise_is_pure_without_delta_and_says_what_counts_rest_on_with_one():
    pure = policy(delta=0.0, tuning=marginals()).guarantee
    assert (pure.certificate, pure.delta) == (PureDP(1.0), 0.0)
    beside = policy().guarantee
    assert isinstance(beside.certificate, PureBeside)
    assert beside.certificate.delta_at(1.0) <= beside.delta == 1e-6
    assert "Counts of people" in beside.annex()


def test_statement_and_plan_are_the_same_whatever_was_learned():
    before = policy()
    said, design = before.guarantee, before.diagnostics()["groups_of_columns"]
    after = told(policy(), 100)
    assert (after.guarantee, after.diagnostics()["groups_of_columns"]) == (said, design)


# -- which release ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "marginals"),
        ({"contexts": NARROW}, "marginals"),
        ({"contexts": NARROW, "tuning": ExploreTuning(ridge=0.1)}, "features"),
        ({"delta": 0.0}, "features"),  # one answer has the whole promise, as ever
        ({"delta": 0.0, "tuning": marginals()}, "marginals"),
        ({"publish_epsilon": 0.5, "answer_epsilon": 0.25}, "features"),
        ({"tuning": ExploreTuning(release="features")}, "features"),
    ],
)
def test_the_kind_of_release_follows_from_public_arguments(changes, kind):
    chooser = policy(**({"rows": 2000} | changes))
    assert chooser.tuning.release == kind
    assert ("groups_of_columns" in chooser.diagnostics()) == (kind == "marginals")


def test_marginal_tables_refuse_what_only_features_understand():
    kernel = dpb.kernels.SquaredExponential(lengthscale=0.3)
    for changes in ({"publish_epsilon": 0.5}, {"answer_epsilon": 0.1}, {"kernel": kernel}):
        with pytest.raises(InvalidParameter, match="marginals"):
            policy(tuning=marginals(), **changes)
    with pytest.raises(InvalidParameter, match="ridge"):
        policy(tuning=marginals(ridge=3.0))
    with pytest.raises(InvalidParameter, match="release"):
        ExploreTuning(release="cells")
    with pytest.raises(BudgetExceeded, match="no single answers"):
        policy().answer({"age": 30, "region": "west", "income": 1, "member": "no"})


def test_tables_are_counted_in_levels_that_follow_from_the_released_counts_of_columns(monkeypatch):
    """Noise of the first draw alone: tables hold what all people count in the levels that it leads to."""
    asked = inside.noiseless(monkeypatch, first=lambda size: 500 * (np.arange(size) // 20 == 15))
    contexts = dpb.Schema(age=dpb.Range(0, 1), size=dpb.Range(0, 1))
    chooser = policy(contexts=contexts, delta=0.0, epsilon=30.0, rows=2000, tuning=marginals())
    rng = np.random.default_rng(5)
    people = np.column_stack([0.3 + 0.02 * rng.random(2000), rng.random(2000)])
    arms = chooser.explore(0, 2000)
    codes = np.array([ARMS.index(arm) for arm in arms])
    chooser.learn(people, arms, codes == 1)
    mechanism = inside.mechanism(chooser)
    released = mechanism.release(inside.raw(chooser))
    cuts = mechanism.learned(released, reference=0.5, bound=0.5)[2]
    noisy = (300 <= cuts[0] * mechanism.fine[0]) & (cuts[0] * mechanism.fine[0] <= 320)
    assert noisy.sum() > 8  # people are elsewhere: levels follow from what was released
    own = zip(cuts, people.T, strict=True)
    levels = np.column_stack([np.searchsorted(ends, column, side="right") for ends, column in own])
    expected = np.zeros((3, mechanism.design.n_cells), dtype=np.int64)
    cells = mechanism.design.locate(levels)
    np.add.at(expected, (codes[:, None], cells), np.where(codes == 1, ONE, -ONE)[:, None])
    np.testing.assert_array_equal(released[: expected.size], expected.ravel())
    assert len(asked) == 3
    pairs = mechanism.law.counts(levels)[sum(mechanism.law.cells[:2]) :]
    np.testing.assert_array_equal(released[-len(pairs) :], pairs)


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_a_range_that_people_fill_to_a_fiftieth_is_learned_like_one_that_they_fill(epsilon):
    """Of the uplift at most a quarter is lost; with equal levels nearly all of it is."""
    rng = np.random.default_rng(2)
    places, new = rng.random(10_000), rng.random(2_000)
    chooser = policy(contexts=dpb.Schema(x=dpb.Range(0, 50)), rows=10_000, epsilon=epsilon)
    arms = chooser.explore(0, 10_000)
    codes = np.array([ARMS.index(arm) for arm in arms])
    best = np.minimum((3 * places).astype(int), 2)
    chooser.learn({"x": 30 + places}, arms, rng.random(10_000) < np.where(codes == best, 0.8, 0.2))
    chosen = chooser.publish().predict({"x": 30 + new})[0].argmax(axis=1)
    assert (chosen == np.minimum((3 * new).astype(int), 2)).mean() > 0.83


def test_as_many_columns_as_there_are():
    """Cells of all columns together would be 24^6 x 4^4."""
    wide = dpb.Schema(
        **{f"n{j}": dpb.Range(0, 1) for j in range(6)},
        **{f"c{j}": dpb.Categories(list("abcd")) for j in range(4)},
    )
    chooser = policy(contexts=wide, rows=20_000)
    assert chooser.tuning.release == "marginals"
    assert {column for group in chooser.diagnostics()["groups_of_columns"] for column in group} == set(
        range(10)
    )


def test_categories_whose_weights_do_not_fit_are_refused_before_any_data():
    """The function of 3,000 weights and 10 arms takes minutes to read, and 7.6 GB to save."""
    wide = {f"c{j}": dpb.Categories(range(600)) for j in range(5)}
    arguments = {"arms": list(range(10)), "tuning": marginals()}
    with pytest.raises(InvalidParameter, match=r"needs about 7.6 GB of memory.*fewer categories"):
        policy(contexts=dpb.Schema(**wide), **arguments)
    some = {name: dpb.Categories(range(100)) for name in wide}
    assert policy(contexts=dpb.Schema(**some), **arguments).tuning.release == "marginals"


# -- what is learned --------------------------------------------------------------------------------------


def loss_of(published, count=4000):
    contexts, _, means = crowd(count, seed=99)
    chosen = published.choose(contexts)
    return float((means.max(axis=1) - means[np.arange(count), chosen]).mean())


def test_a_log_teaches_who_should_get_what_and_how_sure_that_is():
    chooser = told(policy(rows=8000), 8000)
    published = chooser.publish()
    assert loss_of(published) < 0.03  # the best arm for all loses .1
    contexts, _, means = crowd(2000, seed=5)
    mean, sd = published.predict(contexts)
    assert (np.abs(mean - means) < 2 * sd).mean() > 0.9
    assert sd.mean() < 0.25
    np.testing.assert_array_equal(chooser.predict(contexts)[0], mean)


def test_fewer_rows_than_the_horizon_teach_what_they_are():
    """Counts say how many there were: predictions are not drawn to the middle as if all others paid that."""
    published = told(policy(rows=40_000), 8000).publish()
    assert loss_of(published) < 0.05
    contexts, _, means = crowd(2000, seed=5)
    mean, _ = published.predict(contexts)
    assert abs(mean.mean() - means.mean()) < 0.05


def test_unequal_propensities_are_weighed():
    """Members are called nine times of ten: whoever forgets that takes what they are for what a call does."""
    contexts, _, _ = crowd(12_000)
    member = np.array(contexts["member"]) == "yes"
    chances = np.where(member[:, None], [0.2, 0.6, 0.2], [0.45, 0.1, 0.45])
    weighed = told(policy(rows=12_000, tuning=marginals(bound=1.7)), 12_000, chances=chances).publish()
    assert loss_of(weighed) < 0.03
    people, _, means = crowd(2000, seed=5)
    mean, _ = weighed.predict(people)
    assert np.abs((mean - means).mean(axis=0)).max() < 0.08


def test_rewards_of_any_range_and_reference_are_learned_alike():
    contexts, rewards, means = crowd(8000)
    chooser = policy(rows=8000, reward_range=(-10, 30), tuning=marginals(reference=0.0))
    arms = chooser.explore(0, 8000)
    codes = np.array([ARMS.index(arm) for arm in arms])
    chooser.learn(contexts, arms, 40 * rewards[np.arange(8000), codes] - 10)
    mean, sd = chooser.publish().predict(contexts)
    assert np.abs(mean - (40 * means - 10)).mean() < 4
    assert 0.5 < sd.mean() < 10


def test_what_is_expected_before_any_data():
    """More rows lose less; a random action loses the same whatever there are."""
    few, many = (policy(rows=rows).expected_error()["publish"] for rows in (2000, 50_000))
    assert 0.0 < many.error < few.error < few.random
    assert few.random == pytest.approx(many.random, rel=0.05)
    with pytest.warns(NothingToLearn):
        ExploreThenCommit(
            contexts=PEOPLE,
            arms=ARMS,
            reward_range=(0, 1),
            horizon=30,
            privacy=dpb.JointDP(epsilon=0.05, delta=1e-6, user_ids=False),
        )


# -- parts and states -------------------------------------------------------------------------------------


def test_parts_of_a_log_add_up_to_the_whole():
    whole, parted = told(policy(), 1000), policy()
    contexts, rewards, _ = crowd(1000)
    arms = parted.explore(0, 1000)
    codes = np.array([ARMS.index(arm) for arm in arms])
    own = rewards[np.arange(1000), codes]
    for part in (slice(0, 300), slice(300, 1000)):
        shard = parted.shard()
        shard.learn({name: column[part] for name, column in contexts.items()}, arms[part], own[part])
        parted.merge(shard)
    np.testing.assert_array_equal(inside.raw(whole), inside.raw(parted))


def test_a_state_goes_on_where_it_was_and_gives_the_same_function(tmp_path):
    chooser = told(policy(), 1000)
    chooser.save(tmp_path / "before")
    again = ExploreThenCommit.load(tmp_path / "before")
    assert again.to_config() == chooser.to_config()
    np.testing.assert_array_equal(inside.raw(again), inside.raw(chooser))
    published = chooser.publish()
    assert published is not chooser.publish()
    chooser.save(tmp_path / "after")
    later = ExploreThenCommit.load(tmp_path / "after")
    contexts, _, _ = crowd(50, seed=3)
    np.testing.assert_array_equal(later.publish().predict(contexts), published.predict(contexts))
    assert later.guarantee.mechanisms == chooser.guarantee.mechanisms
    published.save(tmp_path / "published")
    loaded = dpb.central.PublishedFunction.load(tmp_path / "published")
    np.testing.assert_allclose(loaded.predict(contexts), published.predict(contexts), rtol=1e-12)


def test_a_state_keeps_tables_that_share_columns(tmp_path):
    chooser = all_pairs_of_columns(rows=20_000)
    chooser.learn([None], [None], [None])
    chooser.save(tmp_path / "state")
    published = chooser.publish()
    again = ExploreThenCommit.load(tmp_path / "state")
    assert again.diagnostics()["groups_of_columns"] == chooser.diagnostics()["groups_of_columns"]
    assert len(again.publish().predict(np.zeros((3, 8)))[0]) == len(published.predict(np.zeros((3, 8)))[0])
    state = read_state(tmp_path / "state")
    for design in (state.arrays["design"][:-1], state.arrays["design"][:, ::-1]):
        write_state(tmp_path / "spoilt", replace(state, arrays=state.arrays | {"design": design}))
        with pytest.raises(CorruptState):
            ExploreThenCommit.load(tmp_path / "spoilt")


def test_what_was_drawn_is_not_drawn_again_where_reading_it_fails(monkeypatch):
    chooser = policy(delta=0.0, tuning=marginals())
    told(chooser, 200)
    asked = inside.noiseless(monkeypatch)
    with monkeypatch.context() as broken:
        broken.setattr(tables.TableRelease, "learned", lambda *_, **__: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            chooser.publish()
    drawn = len(asked)
    assert drawn == 2 + inside.mechanism(chooser).law.paired  # counts of columns, sums, and counts of pairs
    chooser.publish()
    assert len(asked) == drawn


def test_a_state_keeps_its_tables_where_another_processor_would_choose_others(tmp_path, monkeypatch):
    chooser = told(policy(epsilon=0.3), 1000)
    chooser.save(tmp_path / "state")
    groups = chooser.diagnostics()["groups_of_columns"]
    real = tables.best_design
    monkeypatch.setattr(tables, "best_design", lambda *args, **own: real(*args, **(own | {"people": 9.0})))
    assert policy(epsilon=0.3).diagnostics()["groups_of_columns"] != groups
    shutil.copy(tmp_path / "state", tmp_path / "copy")
    later = ExploreThenCommit.load(tmp_path / "copy")
    assert later.diagnostics()["groups_of_columns"] == groups
    contexts, _, _ = crowd(50, seed=3)
    told(later, 500, seed=1), told(chooser, 500, seed=1)
    np.testing.assert_array_equal(later.publish().predict(contexts), chooser.publish().predict(contexts))


def test_a_release_of_other_tables_is_refused(tmp_path):
    chooser = told(policy(), 100)
    chooser.publish()
    chooser.save(tmp_path / "state")
    state = read_state(tmp_path / "state")
    for name, array in (
        ("released_mean", np.zeros((2, 5))),
        ("released_sd", np.full_like(state.arrays["released_sd"], np.nan)),
        ("released_cuts", state.arrays["released_cuts"][:1]),
        ("released_cuts", np.full_like(state.arrays["released_cuts"], 0.5)),
        ("caps", state.arrays["caps"] // 2),
        ("design", np.zeros_like(state.arrays["design"])),
        ("design", state.arrays["design"][:, :2]),
        ("design", np.array([[0, 0, 0, 0], [24, 3, 24, 2]])),
    ):
        write_state(tmp_path / "spoilt", replace(state, arrays=state.arrays | {name: array}))
        with pytest.raises(CorruptState):
            ExploreThenCommit.load(tmp_path / "spoilt")


# -- a table, once ----------------------------------------------------------------------------------------


def logged(rows=1500, **options):
    contexts, rewards, _ = crowd(rows)
    codes = np.random.default_rng(2).integers(0, 3, rows)
    table = {
        **contexts,
        "arm": [ARMS[code] for code in codes],
        "paid": rewards[np.arange(rows), codes],
        "person": [f"p{row}" for row in range(rows)],
    }
    return LoggedTable.of_people(
        table,
        contexts=PEOPLE,
        arms=ARMS,
        action="arm",
        reward="paid",
        reward_range=(0, 1),
        user="person",
        **options,
    )


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_learning_once_charges_what_is_proven_and_publishes_a_function_of_people(tmp_path, delta):
    promise, ledger = dpb.JointDP(epsilon=1.0, delta=delta), dpb.MemoryLedger()
    ledger.open_account("study", privacy=promise)
    log = logged()
    assert log.release_under(promise) == "marginals"
    assert logged(release="features").release_under(promise) == "features"
    with pytest.raises(InvalidParameter, match="marginal tables count contexts"):
        publish_once(log, tmp_path / "out", promise, horizon=1500, uniform_contexts=True)
    run = {"horizon": 1500, "account": ledger.account("study")}
    found = publish_once(log, tmp_path / "out", promise, **run)
    assert found.function.guarantee.epsilon == 1.0
    again = publish_once(log, tmp_path / "out", promise, **run)
    assert again.release_id == found.release_id
    with pytest.raises(BudgetExceeded):
        publish_once(log, tmp_path / "other", promise, **run)
    loaded = PublishedTable.load(tmp_path / "out")
    contexts, _, _ = crowd(20, seed=3)
    np.testing.assert_allclose(
        loaded.function.predict(contexts), found.function.predict(contexts), rtol=1e-12
    )
    assert loaded.action_names == ARMS
    assert not (tmp_path / "out" / "mean.npy").exists()


def test_an_account_in_which_losses_add_up_is_charged_what_proves_the_tables(tmp_path):
    """Laplace noise at .85 of epsilon costs .36 of rho, far more than Gaussian noise at the same promise."""
    promise, ledger = dpb.JointDP(epsilon=1.0, delta=1e-6), dpb.MemoryLedger()
    ledger.open_account("study", privacy=dpb.JointDP(epsilon=20.0, delta=1e-6))
    log = logged(300)
    found = publish_once(log, tmp_path / "out", promise, horizon=300, account=ledger.account("study"))
    cost = cost_of_guarantee(found.function.guarantee)
    assert ledger.balance("study").spent.rho == cost.rho
    assert cost.rho > 0.36


@pytest.mark.parametrize(
    ("bound", "certified"), [(None, NearGaussianDP), (0.05, NearGaussianDP), (10.0, PureBeside)]
)
def test_an_account_is_charged_for_the_law_of_noise_that_the_bound_leads_to(tmp_path, bound, certified):
    """With a wide bound few tables are worth their noise. These have Laplace noise, which costs more."""
    rng, promise, ledger = np.random.default_rng(4), dpb.JointDP(epsilon=0.3, delta=1e-6), dpb.MemoryLedger()
    ledger.open_account("study", privacy=dpb.JointDP(epsilon=20.0, delta=1e-6))
    contexts = {f"c{j}": rng.integers(0, 2, 300) for j in range(16)}
    log = LoggedTable.of_people(
        contexts | {"arm": [ARMS[code] for code in rng.integers(0, 3, 300)], "paid": rng.integers(0, 2, 300)},
        contexts=dpb.Schema(**{name: dpb.Categories([0, 1]) for name in contexts}),
        arms=ARMS,
        action="arm",
        reward="paid",
        reward_range=(0, 1),
    )
    run = {"horizon": 3000, "bound": bound, "account": ledger.account("study")}
    found = publish_once(log, tmp_path / "out", promise, **run).function.guarantee
    assert isinstance(found.certificate, certified)
    spent, cost = ledger.balance("study").spent, cost_of_guarantee(found)
    assert (spent.rho, spent.distance) == (cost.rho, cost.distance)


def test_files_of_two_kinds_of_function_are_no_release(tmp_path):
    promise = dpb.JointDP(epsilon=1.0, delta=1e-6)
    logged(200).publish(promise, horizon=200).save(tmp_path / "out")
    (tmp_path / "out" / "policy.json").write_bytes(b"{}")
    with pytest.raises(CorruptState):
        PublishedTable.load(tmp_path / "out")


def test_what_cannot_be_published_is_said_before_anything_is_drawn(tmp_path):
    pure = dpb.JointDP(epsilon=1)
    smooth = logged(lengthscale=0.2)
    with pytest.raises(InvalidParameter, match="delta"):
        smooth.rehearse(pure, horizon=2000)
    with pytest.raises(InvalidParameter, match="delta"):
        publish_once(smooth, tmp_path / "out", pure, horizon=2000)
    publish_once(logged(), tmp_path / "out", pure, horizon=2000)  # no run for the folder was begun
    with pytest.raises(InvalidParameter, match="lengthscale"):
        logged(release="marginals", lengthscale=0.2)


@pytest.mark.parametrize(("share", "expected"), [(1.0, 0.7), (0.5, 0.9)])
def test_an_arm_that_came_later_is_read_right_with_the_share_of_rows_that_had_it(share, expected):
    """Without the share, its estimate is half way to the reference .5, as half of the rows had it."""
    worth, rows, rng = {"mail": 0.2, "call": 0.3, "chat": 0.9}, 20_000, np.random.default_rng(40)
    log = ExploreThenCommit(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        arms=list(worth),
        reward_range=(0, 1),
        horizon=rows,
        privacy=dpb.JointDP(epsilon=50.0, delta=1e-6, user_ids=False),
        tuning=dpb.central.ExploreTuning(release="marginals", bound=1.0),
        noise=dpb.SimulatedNoise(3),
    )
    offered = np.where(np.arange(rows) < rows // 2, 2, 3)  # the third arm comes half way
    arms = np.array(list(worth))[np.minimum((rng.random(rows) * offered).astype(int), offered - 1)]
    chances = np.where(arms == "chat", share, 1.0) / offered
    rewards = rng.random(rows) < np.array([worth[arm] for arm in arms])
    log.learn({"age": rng.uniform(18, 90, rows)}, arms.tolist(), rewards, propensities=chances)
    mean = log.publish().predict([{"age": age} for age in (25, 50, 85)])[0]
    np.testing.assert_allclose(mean, np.tile([0.2, 0.3, expected], (3, 1)), atol=0.06)
