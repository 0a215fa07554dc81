"""Marginal tables behind `contexts` and `actions`: sensitivity, decisions by value, bounds, laws."""

from fractions import Fraction

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.lab.worlds.prices import PRICE_WORLDS
from internals import marginals as inside

PEOPLE = dpb.Schema(income=dpb.Range(0, 10), region=dpb.Categories(["north", "south", "west"]))
PRICES = dpb.Schema(price=dpb.Range(1, 20, steps=20))


def revenue(price, mean):
    return price * mean


def policy(*, value=revenue, shape=None, bounds=None, horizon=3_000, epsilon=1.0, rounds=1, **changes):
    arguments = {
        "contexts": PEOPLE,
        "actions": dpb.Actions(PRICES, value=value, shape=shape, bounds=bounds),
        "reward_range": (0, 1),
        "horizon": horizon,
        "privacy": dpb.JointDP(epsilon=epsilon, delta=1e-6, rounds_per_user=rounds, user_ids=False),
        "noise": dpb.SimulatedNoise(1),
        "seed": 5,
    }
    return GPBandit(**arguments | changes)


def lived(chooser, count, *, seed=0, offered=None):
    """Outcomes of people who pay up to 4 + income; `offered` (20,) says which prices are available."""
    rng = np.random.default_rng(seed)
    people = {"income": rng.uniform(0, 10, count), "region": rng.choice(["north", "south", "west"], count)}
    chosen, start = np.zeros(count), 0
    for end in sorted({*(end for end in chooser.blocks if end < count), count}):
        available = None if offered is None else np.tile(offered, (end - start, 1))
        decided = chooser.ask_batch(
            {name: own[start:end] for name, own in people.items()}, available=available
        )
        chosen[start:end] = decided.arms
        bought = chosen[start:end] < 4 + people["income"][start:end] + rng.normal(size=end - start)
        chooser.tell_batch(decided.ids, bought.astype(float))
        start = end
    return people, chosen


def rows(rng, count):
    return np.column_stack([rng.random(count), rng.integers(0, 3, count), rng.integers(0, 20, count)])


def test_sums_are_of_outcomes_by_public_bins_of_the_decided_actions(monkeypatch):
    inside.noiseless(monkeypatch)
    chooser = policy()
    bins = inside.action_bins(chooser)
    assert bins.max() < 19
    actions = np.array([[0.1, 2, 3], [0.9, 0, 3], [0.9, 0, 17], [0.1, 1, 9]])
    told = np.array([True, True, True, False])
    block = inside.block(actions, [1.0, 0.0, 0.25, np.nan], told=told)
    design = inside.planned(chooser, bins=(2, 3), groups=((0,), (1,)))
    sums, counts = inside.sums_and_counts(chooser, block, design)
    expected = np.zeros((bins.max() + 1, 5), dtype=int)
    for code, cells, worth in ((3, (0, 4), 512), (3, (1, 2), -512), (17, (1, 2), -256)):
        for cell in cells:
            expected[bins[code], cell] += worth
    np.testing.assert_array_equal(sums, expected)
    assert counts.sum() == 3 * 4


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("epsilon", [1.0, 9.85])
def test_no_replaced_action_and_outcome_lose_more_than_was_promised(monkeypatch, first, epsilon):
    """One user's context, action and outcome replaced, in exact arithmetic, for any released centre."""
    asked = inside.noiseless(monkeypatch)
    chooser, rng, losses = policy(epsilon=epsilon), np.random.default_rng(2), []
    weights = inside.kind(chooser).reader.effects.n_weights
    for groups in (((),), ((0,),), ((0,), (1,)), ((0, 1),)):
        for size in (0.1, 1e6):
            centre = None if first else rng.normal(0.0, size, (20, weights))
            design = inside.planned(chooser, bins=(4, 3), groups=groups, centre=centre)
            made = [
                inside.sums_and_counts(chooser, inside.block(row[None], [outcome]), design, number=1 - first)
                for row, outcome in zip(rows(rng, 50), rng.choice([0.0, 1.0, -3.0, 0.5], 50), strict=True)
            ]
            rates = [Fraction(rate) for rate, _ in asked[-2:]]
            parts = [np.stack([one[part].ravel() for one in made]) for part in (0, 1)]
            apart = [np.abs(part[:, None] - part).sum(axis=2) for part in parts]
            assert apart[0].max() <= 2 * len(groups) * (512 if first else 717)
            losses += [
                int(sums) * rates[0] + int(counts) * rates[1]
                for sums, counts in zip(apart[0].ravel(), apart[1].ravel(), strict=True)
            ]
    assert max(losses) <= Fraction(epsilon)
    assert max(losses) > Fraction(epsilon) * Fraction(1 if first else 3, 1 if first else 4) * (
        1 - Fraction(1, 2**40)
    )


@pytest.mark.parametrize("shape", [None, {"price": "decreasing"}])
def test_after_the_last_release_everybody_gets_the_highest_value_of_the_predicted_outcome(shape):
    chooser = policy(shape=shape, noise=dpb.SimulatedNoise(3), epsilon=20.0)
    lived(chooser, 3_000 - 200)
    people = {"income": np.linspace(0.2, 9.8, 60), "region": ["north", "south", "west"] * 20}
    mean, _ = chooser.predict(people)
    decided = np.array(chooser.ask_batch(people).arms)
    clipped = np.clip(mean, 0.0, 1.0)
    if shape:
        clipped = -np.sort(-clipped, axis=1)
    values = np.arange(1, 21) * clipped
    np.testing.assert_allclose(values[np.arange(60), decided.astype(int) - 1], values.max(axis=1), atol=1e-9)
    assert len(set(decided.tolist())) > 3  # by context, and not one price for all


def test_bounds_hold_in_every_block():
    def near_income(contexts):
        return {"price": (2.0 + contexts["income"], 6.0 + contexts["income"])}

    chooser = policy(bounds=near_income, horizon=1_200)
    people, chosen = lived(chooser, 1_200)
    assert chooser.blocks_released > 2
    assert (chosen >= 2.0 + people["income"] - 1e-9).all()
    assert (chosen <= 6.0 + people["income"] + 1e-9).all()


def test_the_law_of_actions_is_that_of_the_decisions():
    """The chance of every action at a context against shares of decisions: off by chance below 1e-6."""
    chooser = policy()
    lived(chooser, 400)
    chooser.ask({"income": 5.0, "region": "north"})
    count = 4_000
    point = chooser.menu.point({"income": 5.0, "region": "north"})
    chance, decided = inside.chances(chooser, point, count=count)
    assert (chance > 0).sum() > 1
    share = np.bincount(decided, minlength=20) / count
    assert np.abs(share - chance).max() < np.sqrt(np.log(40e6) / (2 * count))


def test_decisions_by_context_begin_once_they_pay():
    """Contexts that say nothing, with much noise: one price for all. Where they matter and show it: many."""
    found = {}
    for name, epsilon in (("flat", 0.5), ("price-1", 20.0)):
        world = PRICE_WORLDS[name]
        chooser = GPBandit(
            contexts=world.contexts,
            actions=world.actions,
            reward_range=(0, 1),
            horizon=4_000,
            privacy=dpb.JointDP(epsilon=epsilon, delta=1e-6, user_ids=False),
            noise=dpb.SimulatedNoise(2),
            seed=1,
        )
        people, coins = world.people(3, 4_000), world.coins(3, 4_000)
        table, means, start = world.table(people), world.means(people), 0
        for end in (*chooser.blocks, 4_000):
            decided = chooser.ask_batch({key: own[start:end] for key, own in table.items()})
            told = coins[start:end] < means[np.arange(start, end), decided.indices]
            chooser.tell_batch(decided.ids, told.astype(float))
            start = end
        found[name] = len(set(decided.indices.tolist()))
    assert found["flat"] == 1
    assert found["price-1"] > 4


def test_columns_that_say_nothing_are_left_out_of_predictions():
    """One of 20 columns decides who buys. It moves predictions 9 times as much if every column may matter."""
    columns = dpb.Schema(**{f"c{j}": dpb.Categories(["u", "v"]) for j in range(20)})
    tuning = GPTuning(blocks=(600, 1_200))
    chooser, rng = (
        policy(contexts=columns, horizon=1_200, epsilon=20.0, tuning=tuning),
        np.random.default_rng(3),
    )
    for _ in chooser.blocks:
        people = {f"c{j}": rng.choice(["u", "v"], 600) for j in range(20)}
        decided = chooser.ask_batch(people)
        worth = np.where(people["c5"] == "u", 6.0, 14.0)
        chooser.tell_batch(decided.ids, (np.array(decided.arms) < worth).astype(float))
    changed = np.concatenate([np.zeros((1, 20), dtype=int), np.eye(20, dtype=int)])
    means, _ = chooser.predict({f"c{j}": np.array(["u", "v"])[changed[:, j]] for j in range(20)})
    moved = np.abs(means[1:] - means[0]).mean(axis=1)
    assert moved[5] > 15.0 * np.delete(moved, 5).mean()


@pytest.mark.parametrize(("epsilon", "told"), [(0.02, False), (20.0, True)])
def test_diagnostics_warn_while_releases_do_not_tell_actions_apart(epsilon, told):
    actions = dpb.Actions(PRICES, value=revenue, explore={"price": dpb.Range(8, 12)})
    chooser = policy(actions=actions, epsilon=epsilon, horizon=1_500)
    assert chooser.diagnostics()["warnings"] == []
    lived(chooser, 1_400)
    warned = [one for one in chooser.diagnostics()["warnings"] if "within the window apart" in one]
    assert len(warned) == (0 if told else 1)


def test_the_statement_names_functions_that_nothing_checks():
    text = policy(shape={"price": "decreasing"}).guarantee.explain()
    assert "The value and shape of actions: public functions that read no private data" in text
    assert "public functions" not in policy(value=None).guarantee.explain()


def test_published_functions_answer_as_the_policy_does():
    chooser = policy()
    lived(chooser, 2_800)
    people = {"income": [1.0, 5.0, 9.0], "region": ["north", "west", "south"]}
    published = chooser.publish()
    for mine, theirs in zip(chooser.predict(people), published.predict(people), strict=True):
        np.testing.assert_allclose(mine, theirs)


def test_memory_is_refused_before_it_is_taken():
    assert policy().bytes_needed < 2e8
    many = dpb.Schema(shop=dpb.Categories(range(700)))
    with pytest.raises(dpb.errors.InvalidParameter, match="take fewer"):
        policy(contexts=many)


def test_a_category_beside_a_range_is_learned_too():
    """People buy in the shop alone: with little noise, hardly anybody gets another channel at the end."""
    columns = dpb.Schema(price=dpb.Range(1, 10, steps=10), channel=dpb.Categories(["mail", "shop", "call"]))
    actions = dpb.Actions(columns, value=dpb.values.Revenue(price="price"), shape={"price": "decreasing"})
    chooser, rng = policy(actions=actions, horizon=2_000, epsilon=20.0), np.random.default_rng(0)
    start = 0
    for end in (*chooser.blocks, 2_000):
        people = {
            "income": rng.uniform(0, 10, end - start),
            "region": rng.choice(["north", "west"], end - start),
        }
        decided = chooser.ask_batch(people)
        given = {name: own[decided.indices] for name, own in chooser.actions.columns.items()}
        bought = (given["channel"] == "shop") & (given["price"] < 3 + people["income"])
        chooser.tell_batch(decided.ids, bought.astype(float))
        start = end
    assert (given["channel"] == "shop").mean() > 0.9
    assert given["price"].mean() > 2.0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_diagnostics_say_how_many_predictions_leave_the_reward_range(seed):
    """Smooth functions overshoot a steep outcome of 0 or 1 a little, without a warning."""
    chooser = policy(epsilon=20.0, noise=dpb.SimulatedNoise(seed))
    assert chooser.diagnostics()["predictions"]["share_outside"] == 0.0
    lived(chooser, 3_000, seed=seed)
    found = chooser.diagnostics()
    assert 0.05 < found["predictions"]["share_outside"] < 0.8
    assert found["predictions"]["lowest"] < 0.0 < 1.0 < found["predictions"]["highest"]
    assert found["predictions"]["outside"] == 0
    assert found["warnings"] == []


def test_diagnostics_find_actions_that_were_left_out():
    """The model believes that the policy chose freely, but two prices alone were available."""
    chooser = policy()
    lived(chooser, 3_000, offered=np.arange(20) < 2)
    [said] = chooser.diagnostics()["warnings"]
    assert "contradict the reward range 0 to 1" in said
    assert "available= may have left out actions" in said
    assert "kernel" not in said
