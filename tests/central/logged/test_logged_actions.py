"""Logs in which the decision is a number: what a row adds, how it is read, and what is learned from it."""

import itertools
import json
import warnings
from fractions import Fraction

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import ExploreThenCommit, ExploreTuning, NothingToLearn, PublishedFunction
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.export import decide_by
from internals import logged_tables as inside

ONE = 1 << 20
PEOPLE = dpb.Schema(income=dpb.Range(0, 1))
PRICES = dpb.Range(1, 5, steps=5)
BOTH = dpb.Schema(price=PRICES, channel=dpb.Categories(["mail", "call"]))
WORLD = dpb.lab.worlds.PRICE_WORLDS["price-1"]
PEAKED = 0.8 * np.exp(-0.5 * ((np.arange(20) - 8.0) / 3.0) ** 2) / 7.48 + 0.2 / 20
PEAKED /= PEAKED.sum()


def policy(
    logged, *, actions=PRICES, contexts=PEOPLE, rows=1000, rounds=1, bound=None, user_ids=False, **changes
):
    arguments = {
        "contexts": contexts,
        "actions": actions,
        "reward_range": (0, 1),
        "horizon": rows,
        "privacy": dpb.JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=rounds, user_ids=user_ids),
        "noise": dpb.SimulatedNoise(1),
        "tuning": ExploreTuning(logged=logged, bound=bound),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)
        return ExploreThenCommit(**(arguments | changes))


def row(chooser, action, reward, weight=None):
    """The integers (size,) that one row adds."""
    part = chooser.shard()
    part.learn({"income": [0.3]}, action, [reward], propensities=None if weight is None else [weight])
    return part.cells.sums[0]


def added(chooser, action, reward, weight=None):
    """Sums by bin (bins,) and numbers of counts that one row adds to, in units of 2^-20."""
    vector = row(chooser, action, reward, weight)
    sums, counts = inside.parts(chooser, vector)
    return sums.sum(axis=1).tolist(), [own[own != 0].tolist() for own in counts]


# -- what one row adds ------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("density", [1e-300, 0.01, 0.05, 0.125, 0.25, 0.5, 3.0, 1e300])
def test_a_row_adds_its_cut_weighted_reward_to_one_bin_and_itself_to_counts(density, reward):
    """Exact arithmetic, with w = 1/4, b = 1/2, W = 2 and B = 1: min(w/p, W)(r - b)/B, and 1 for the counts.

    One table of rewards gives V = U/8, so the table of weights gets min(w/p, W)/(8 W).
    """
    chooser = policy("densities")
    bins = inside.mechanism(chooser).row_of
    weight = min(Fraction(1, 4) / Fraction(density), Fraction(2))
    exact = weight * (Fraction(reward) - Fraction(1, 2))
    for number in (1.0, 2.4, 3.5, 5.0):
        sums, counts = added(chooser, [number], reward, density)
        expected = [0] * inside.mechanism(chooser).n_rows
        expected[bins[int(number - 0.5)]] = round(exact * ONE)
        assert sums == pytest.approx(expected, abs=1)
        assert max(map(abs, sums)) <= ONE
        assert counts == [[ONE]]
        expected[bins[int(number - 0.5)]] = round(weight * ONE / 16)
        weights = inside.weights(chooser, row(chooser, [number], reward, density)).tolist()
        assert weights == pytest.approx(expected, abs=1)
        assert max(weights) <= ONE // 8


def test_the_table_of_weights_has_caps_of_its_own_and_is_left_out_of_even_logs():
    """With eight tables or more a weight may add as much as a reward does."""
    wide = dpb.Schema(**{f"c{column}": dpb.Range(0, 1) for column in range(12)})
    for contexts, rows in ((PEOPLE, 1000), (wide, 100_000)):
        chooser = policy("densities", contexts=contexts, rows=rows)
        mechanism = inside.mechanism(chooser)
        units = ONE * min(8, len(mechanism.design.groups)) // 8
        caps = inside.weights(chooser, chooser.calibration.caps[0])
        assert caps.tolist() == [units] * mechanism.n_rows
        assert mechanism.sensitivity == 2 * (len(mechanism.design.groups) * ONE + units)
    even = policy("numbers")
    assert inside.weights(even, inside.raw(even)).size == 0
    assert inside.mechanism(even).sensitivity == 2 * ONE


def test_one_user_moves_sums_weights_and_counts_together_by_no_more_than_gaussian_noise_covers():
    """Twelve columns with a table each: rows in the same cells or others, rewards and weights at the ends."""
    wide = dpb.Schema(**{f"c{column}": dpb.Range(0, 1) for column in range(12)})
    chooser = policy("densities", contexts=wide, rows=100_000)
    mechanism, vectors = inside.mechanism(chooser), []
    for (level, price), reward, density in itertools.product([(0.0, 1), (0.9, 5)], [0.0, 1.0], [1e-9, 9.0]):
        part = chooser.shard()
        people = {name: [level] for name in wide.names}
        part.learn(people, [price], [reward], propensities=[density])
        vectors.append(part.cells.sums[0].astype(float))
    ends = inside.parts(chooser, vectors[0])[0].size + mechanism.n_weighed
    factor = np.r_[np.ones(ends), np.full(len(vectors[0]) - ends, mechanism.shares.weight / ONE)]
    moved = [np.linalg.norm((one - other) * factor) for one in vectors for other in vectors]
    assert 0.7 < max(moved) / mechanism.shares.sensitivity <= 1.0
    # The bound adds up what each kind of table changes by at most, though no row reaches all of them at once.
    sums, weights = len(mechanism.design.groups), mechanism.weight_units(len(mechanism.design.groups))
    counts = len(mechanism.law.tables) * mechanism.shares.weight**2
    assert mechanism.shares.sensitivity**2 >= 4 * sums * ONE**2 + 2 * counts + 2 * weights**2


@pytest.mark.parametrize(
    ("logged", "action", "weight", "read"),
    [
        ("steps", 3, None, True),
        ("steps", 3.2, None, False),
        ("numbers", 3.2, None, True),
        ("numbers", 5.01, None, False),
        ("numbers", "three", None, False),
        ("propensities", 3, 1.0, True),
        ("propensities", 3, 1.01, False),
        ("propensities", 3.2, 0.5, False),
        ("densities", 3.2, 1.01, True),
        ("densities", 3.2, 0.0, False),
        ("densities", 3.2, -0.2, False),
        ("densities", 3.2, np.nan, False),
        ("densities", 3.2, np.inf, False),
        ("densities", None, 0.2, False),
        ("densities", np.inf, 0.2, False),
    ],
)
def test_a_row_that_cannot_be_read_adds_nothing(logged, action, weight, read):
    sums, counts = added(policy(logged), [action], 1.0, weight)
    assert any(sums) == read
    assert any(counts) == read


def test_columns_that_clip_read_numbers_outside_as_the_nearer_bound():
    chooser = policy("numbers", actions=dpb.Range(1, 5, steps=5, clip=True))
    assert added(chooser, [9.0], 1.0) == added(chooser, [5.0], 1.0)


@pytest.mark.parametrize("logged", ["propensities", "densities"])
def test_weights_make_every_design_an_even_one_in_expectation(logged):
    """sum_a p(a) (w/p(a)) (r(a) - b) over the steps is exact where nothing is clipped, for any design."""
    chooser = policy(logged, bound=50.0)
    unit = {"propensities": Fraction(1, 5), "densities": Fraction(1, 4)}[logged]
    totals = []
    for chances in ([0.2] * 5, [0.1, 0.2, 0.4, 0.2, 0.1], [0.6, 0.1, 0.1, 0.1, 0.1]):
        expected = np.zeros(inside.mechanism(chooser).n_rows)
        for step, chance in enumerate(chances):
            sums, _ = added(chooser, [step + 1.0], step / 4, chance)
            expected += chance * np.array(sums)
        totals.append(expected)
    exact = np.zeros_like(totals[0])
    np.add.at(
        exact, inside.mechanism(chooser).row_of, [float(unit) * (s / 4 - 0.5) / 50 * ONE for s in range(5)]
    )
    for found in totals:
        np.testing.assert_allclose(found, exact, atol=1.0)


@pytest.mark.parametrize("rounds", [1, 2])
def test_one_user_moves_sums_and_counts_by_no_more_than_the_noise_covers(rounds):
    """Every pair of small contributions, whatever density and action they have, among rows of others."""
    chooser = policy("densities", actions=BOTH, rounds=rounds, rows=4, user_ids=True)
    mechanism = inside.mechanism(chooser)
    cells = list(
        itertools.product([0.0, 0.99], [(1, "mail"), (5, "call"), (None, "x")], [0.0, 1.0], [1e-9, 0.125])
    )
    vectors = []
    for picked in itertools.islice(itertools.product(cells, repeat=rounds), 0, None, 1 if rounds == 1 else 5):
        part = chooser.shard()
        rows = [
            *picked,
            (0.5, (3, "mail"), 1.0, 0.1),
            (0.5, (2, "call"), 0.0, np.nan),
            (0.1, (3, "mail"), 1.0, 1.0),
        ]
        part.learn(
            {"income": [row[0] for row in rows]},
            {"price": [row[1][0] for row in rows], "channel": [row[1][1] for row in rows]},
            [row[2] for row in rows],
            propensities=[row[3] for row in rows],
            users=["me"] * rounds + ["a", "b", "c"],
        )
        vectors.append(part.cells.sums[0])
    ends = inside.parts(chooser, vectors[0])[0].size + mechanism.n_weighed
    moved = np.abs(np.array(vectors)[:, None] - np.array(vectors)[None])
    sums, counts = moved[..., :ends].sum(axis=-1), moved[..., ends:].sum(axis=-1) / ONE
    absolute, _ = mechanism.shares.count_sensitivities
    assert sums.max() == mechanism.sensitivity
    assert counts.max() <= absolute


def test_a_density_changes_how_no_other_row_is_read():
    found = []
    for density in (0.2, np.nan, 1e-12, -1.0):
        chooser = policy("densities")
        parts = [chooser.shard() for _ in range(2)]
        rows = {"income": [0.1, 0.9]}, [2.0, 4.4], [1.0, 0.0]
        parts[0].learn(*rows, propensities=[0.2, density])
        parts[1].learn({"income": [0.9]}, [4.4], [0.0], propensities=[density])
        found.append(parts[0].cells.sums[0] - parts[1].cells.sums[0])
    for one in found[1:]:
        np.testing.assert_array_equal(one, found[0])


# -- declarations -----------------------------------------------------------------------------------------


def test_a_log_that_does_not_say_how_its_actions_were_drawn_is_refused():
    with pytest.raises(InvalidParameter, match='"densities" if every row has one, else "steps" or "numbers"'):
        policy(None)
    with pytest.raises(InvalidData, match="the densities of all rows"):
        policy("densities").learn({"income": [0.1]}, [2.0], [1.0])
    with pytest.raises(InvalidData, match="expected none"):
        policy("numbers").learn({"income": [0.1]}, [2.0], [1.0], propensities=[0.2])


@pytest.mark.parametrize("logged", ["numbers", "densities"])
def test_a_density_needs_a_range(logged):
    with pytest.raises(InvalidParameter, match="needs a column of actions with Range"):
        policy(logged, actions=dpb.Ordered([5, 10, 15]))


def test_declarations_of_logs_are_for_grids_of_actions():
    with pytest.raises(InvalidParameter, match="for a grid of actions"):
        policy("steps", actions=None, arms=["a", "b"])
    with pytest.raises(InvalidParameter, match="marginal tables"):
        policy(None, tuning=ExploreTuning(logged="steps", release="features"))
    with pytest.raises(InvalidParameter, match="no arms="):
        policy("steps", arms=["a", "b"])


# -- what is learned --------------------------------------------------------------------------------------


def learned(logged, actions, rows=10_000, seed=0):
    """The share of the uplift that a log's function has, for steps from `PEAKED` or numbers near them."""
    people = WORLD.people(seed, rows)
    rng = np.random.default_rng(seed)
    codes = rng.choice(20, rows, p=PEAKED)
    outcomes = (WORLD.coins(seed, rows) < WORLD.means(people)[np.arange(rows), codes]).astype(float)
    weights = {"steps": None, "propensities": PEAKED[codes]}[logged]
    chooser = policy(logged, actions=actions, contexts=WORLD.contexts, rows=rows, seed=seed)
    numbers = np.array(WORLD.numbers)[codes]
    chooser.learn(WORLD.table(people), numbers, outcomes, propensities=weights)
    return chooser, chooser.publish()


def share(function):
    people = WORLD.people(99, 4000)
    values = WORLD.values(WORLD.means(people))
    got = values[np.arange(4000), function.choose(WORLD.table(people))].mean()
    return (got - values.mean()) / (values.max(axis=1).mean() - values.mean())


def test_a_peaked_log_is_learned_with_its_propensities_and_not_without():
    assert share(learned("propensities", WORLD.actions)[1]) > 0.95
    assert share(learned("steps", WORLD.actions)[1]) < 0.8


def many(columns, rows, seed, logged="propensities"):
    """Share of the uplift of a function of a peaked log of prices, and that of the best price for everybody.

    The first and third of the columns matter, and nothing is declared about the shape of the outcome.
    """
    rng, steps = np.random.default_rng(seed), np.arange(1.0, 21.0)
    names = [f"c{column}" for column in range(columns)]
    ranges = {name: dpb.Range(0, 1) for name in names}
    contexts = dpb.Schema(**ranges | {"c2": dpb.Categories(["n", "s", "w", "e"])})
    people = {name: rng.random(rows + 4000) for name in names} | {"c2": rng.integers(0, 4, rows + 4000)}
    worth = 5.5 + 6.0 * people["c0"] ** 1.5 + np.array([-2.0, 0.0, 1.0, 3.0])[people["c2"]]
    means = 1.0 / (1.0 + np.exp((steps - worth[:, None]) / 1.5))
    people["c2"] = np.array(["n", "s", "w", "e"])[people["c2"]]
    codes = rng.choice(20, rows, p=PEAKED)
    outcomes = (rng.random(rows) < means[np.arange(rows), codes]).astype(float)
    prices = dpb.Actions(dpb.Schema(price=dpb.Range(1, 20, steps=20)), value=dpb.values.Revenue())
    chooser = policy(logged, actions=prices, contexts=contexts, rows=rows, seed=seed)
    logged_people = {name: column[:rows] for name, column in people.items()}
    chooser.learn(logged_people, steps[codes], outcomes, propensities=PEAKED[codes])
    chosen = chooser.publish().choose({name: column[rows:] for name, column in people.items()})
    values = steps * means[rows:]
    uniform, best = values.mean(), values.max(axis=1).mean()
    got, fixed = values[np.arange(4000), chosen].mean(), values.mean(axis=0).max()
    return (got - uniform) / (best - uniform), (fixed - uniform) / (best - uniform), chooser


def test_prices_that_the_log_rarely_has_are_not_predicted_towards_the_reference():
    """Weights above the largest are cut. Read as uncut, they made the highest price the best for many."""
    got, fixed, chooser = many(3, 30_000, 1)
    assert got > fixed + 0.08
    assert chooser.diagnostics()["recommended_with_few_rows"] < 0.02


@pytest.mark.slow
def test_twenty_nine_columns_of_a_peaked_log_are_better_than_the_best_price_for_everybody():
    for seed in (1, 2):
        got, fixed, _ = many(29, 100_000, seed)
        assert got > fixed + 0.05


def test_a_policy_says_how_often_it_recommends_what_the_log_hardly_has(tmp_path):
    """Nearly all prices are 4 to 7, and the best ones are the highest."""
    rng, rows = np.random.default_rng(5), 10_000
    rare = rng.random(rows) < 0.001
    prices = np.where(rare, rng.integers(1, 21, rows), rng.integers(4, 8, rows)).astype(float)
    chances = 0.001 / 20 + 0.999 / 4 * ((prices >= 4) & (prices < 8))
    actions = dpb.Actions(dpb.Schema(price=dpb.Range(1, 20, steps=20)), value=dpb.values.Revenue())
    chooser = policy("propensities", actions=actions, rows=rows, contexts=PEOPLE)
    assert "few_rows" not in chooser.diagnostics()
    people = {"income": rng.random(rows)}
    chooser.learn(people, prices, (rng.random(rows) < 0.5).astype(float), propensities=chances)
    function = chooser.publish()
    shown = chooser.diagnostics()
    assert shown["few_rows"] >= 100
    assert shown["recommended_with_few_rows"] > 0.9
    assert np.mean(np.array(function.recommend_batch(people)) > 8) > 0.9
    assert function.diagnostics().items() <= shown.items()
    assert PublishedFunction.from_files(function.to_files()).diagnostics() == function.diagnostics()
    chooser.save(tmp_path / "state")
    assert ExploreThenCommit.load(tmp_path / "state").diagnostics() == shown


def test_even_numbers_count_half_as_often_at_the_ends():
    grid = dpb.Actions(BOTH)
    shares = grid.even_shares(between=True)
    drawn = np.random.default_rng(0).uniform(1, 5, 40_000)
    codes = grid.located({"price": drawn, "channel": ["mail", "call"] * 20_000}, between=True)
    np.testing.assert_allclose(np.bincount(codes) / 40_000, shares, atol=0.01)
    np.testing.assert_allclose(grid.even_shares(between=False), 0.1)


def test_a_function_of_a_log_is_published_exported_saved_and_restored(tmp_path):
    actions = dpb.Actions(
        dpb.Schema(number=dpb.Range(1, 20, steps=20)),
        value=dpb.values.Revenue(price="number"),
        shape={"number": "decreasing"},
    )
    chooser, function = learned("propensities", actions, rows=4000)
    chooser.save(tmp_path / "state")
    again = ExploreThenCommit.load(tmp_path / "state").publish()
    read = PublishedFunction.from_files(function.to_files())
    person = {"income": 0.6}
    assert function.recommend(person) == again.recommend(person) == read.recommend(person)
    assert function.to_json() == again.to_json() == read.to_json()
    curve = function.curve(person)
    best = curve.actions[int(np.argmax(curve.value))]
    assert best == function.recommend(person)
    assert decide_by(json.loads(function.to_decisions()), person) == best


def test_bounds_hold_for_recommendations_from_a_log():
    actions = dpb.Actions(WORLD.actions.schema, value=WORLD.value, bounds=lambda people: {"number": (4, 6)})
    _, function = learned("propensities", actions, rows=2000)
    chosen = np.array(function.recommend_batch(WORLD.table(WORLD.people(5, 200))))
    assert ((chosen >= 4) & (chosen <= 6)).all()


def test_the_statement_says_how_rows_are_weighted():
    with_weights, without = policy("densities").guarantee, policy("numbers").guarantee
    assert "not estimated from the log" in with_weights.annex()
    assert "even density over its own density" in with_weights.annex()
    assert "rows are not weighted" in without.annex()
    assert "not estimated from the log" not in without.annex()
    valued = policy("steps", actions=dpb.Actions(PRICES, value=lambda action, mean: action * mean))
    assert "value of actions" in valued.guarantee.annex()


def test_explore_draws_steps_of_the_grid():
    chooser = policy("steps", actions=BOTH)
    drawn = chooser.explore(0, 500)
    assert {tuple(one.values()) for one in drawn} == set(
        itertools.product([1.0, 2.0, 3.0, 4.0, 5.0], ["mail", "call"])
    )
    chooser.learn({"income": [0.5] * 500}, drawn, [1.0] * 500)
    assert chooser.unsafe_left_out == {"unreadable": 0, "surplus": 0}
