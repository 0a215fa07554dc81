"""Windows of actions: `explore` and `step`."""

import json

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.tables.windows import distances, reach, read_window, widened

PRICES = dpb.Schema(price=dpb.Range(1, 20, steps=20))
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south"]))
GRID = {"price": np.arange(1.0, 21.0)}
START = {"price": (8.0, 12.0)}


def shares(**at):
    found = np.zeros(20)
    for price, share in at.items():
        found[int(price[1:]) - 1] = share
    return found


@pytest.mark.parametrize(
    ("steps", "told", "low", "high"),
    [
        ({}, {"p10": 1.0}, 8, 12),  # nobody beyond
        ({}, {"p10": 0.96, "p15": 0.04}, 8, 12),  # too few
        ({}, {"p10": 0.5, "p15": 0.5}, 8, 15),
        ({}, {"p10": 0.9, "p14": 0.06, "p20": 0.04}, 8, 14),  # the farthest value that enough decisions reach
        ({}, {"p10": 0.9, "p14": 0.01, "p20": 0.09}, 8, 20),
        ({"price": (0, 2)}, {"p10": 0.5, "p15": 0.5}, 8, 14),  # at most 2
        ({"price": (0, 0.4)}, {"p10": 0.5, "p13": 0.5}, 8, 12.4),  # less than the distance of values
        ({"price": (3, 4)}, {"p10": 0.5, "p13": 0.5}, 8, 15),  # at least 3
        ({"price": (3, 9)}, {"p10": 0.5, "p1": 0.5}, 1, 12),  # but not beyond the grid
        ({"price": (0, 2)}, {"p6": 0.5, "p14": 0.5}, 6, 14),
    ],
)
def test_an_end_moves_towards_what_is_decided(steps, told, low, high):
    assert widened(START, steps, GRID, shares(**told)) == {"price": (low, high)}


def test_reach_shows_the_next_value_even_if_it_is_farther_than_a_step():
    assert reach(START, {"price": (0, 2.5)}, GRID) == {"price": (5.5, 14.5)}
    assert reach(START, {"price": (0, 0.2)}, GRID) == {"price": (7.0, 13.0)}
    assert reach(START, {}, GRID) == {"price": (-np.inf, np.inf)}
    assert reach({"price": (1.0, 20.0)}, {"price": (0, 2)}, GRID) == {"price": (1.0, 20.0)}


def test_small_steps_reach_the_next_value_after_several_releases():
    window = START
    for _ in range(10):
        window = widened(window, {"price": (0, 0.1)}, GRID, shares(p13=1.0))
    assert distances(window, "price", GRID["price"])[12] == 0.0  # 12 + 10 x 0.1 is 13 but for rounding


def test_allowed_actions_are_in_the_window_and_bounds_come_first():
    actions = dpb.Actions(
        PRICES, bounds=lambda people: {"price": (people["age"] / 10, 30)}, explore=dpb.Range(4.5, 6.5)
    ).beside(PEOPLE)
    ages = np.array([[(age - 18) / 72, 0.0] for age in (20, 60, 90)])
    allowed = actions.allowed(ages, actions.window)
    assert [np.flatnonzero(row).tolist() for row in allowed] == [[4, 5], [5], [8]]
    free = dpb.Actions(PRICES, explore=dpb.Range(4.5, 6.5)).beside(PEOPLE)
    assert np.flatnonzero(free.allowed(ages, free.window)[0]).tolist() == [4, 5]
    assert free.allowed(ages) is None


def test_available_actions_outside_the_window_are_offered_if_no_other_is():
    actions = dpb.Actions(PRICES, bounds=lambda people: {"price": (6, 20)}, explore=dpb.Range(8, 12)).beside(
        PEOPLE
    )
    available = np.zeros((3, 20), dtype=bool)
    available[0, [8, 14]] = available[1, [2, 14]] = available[2, [2, 3]] = True
    found = actions.offered(np.zeros((3, 2)), available, window=actions.window)
    assert [np.flatnonzero(row).tolist() for row in found] == [[8], [14], [2, 3]]


def test_decisions_beyond_reach_move_no_end():
    actions = dpb.Actions(PRICES, explore=dpb.Range(8, 12), step=2)
    assert actions.widened(START, shares(p18=1.0)) == START
    assert actions.widened(START, shares(p14=1.0)) == {"price": (8, 14)}


def test_a_window_of_several_columns_has_their_own_steps():
    schema = dpb.Schema(
        price=dpb.Range(1, 5, steps=5), size=dpb.Ordered([1, 2, 4]), by=dpb.Categories([1, 2])
    )
    actions = dpb.Actions(
        schema, explore={"price": dpb.Range(2, 3), "size": dpb.Range(1, 2)}, step={"size": (1, 4)}
    )
    told = np.zeros((5, 3, 2))
    told[4, 1, 0] = 1.0
    assert actions.widened(actions.window, told.ravel()) == {"price": (2, 5), "size": (1, 2)}
    assert actions.beside(PEOPLE).allowed(np.zeros((1, 2)), actions.window).sum() == 2 * 2 * 2


@pytest.mark.parametrize(
    ("explore", "step", "said"),
    [
        ((8, 12), None, "explore"),
        ({"prize": dpb.Range(8, 12)}, None, "explore"),
        ({}, None, "explore"),
        (dpb.Range(8.1, 8.9), None, "no value of 'price'"),
        (dpb.Range(30, 40), None, "no value of 'price'"),
        (dpb.Range(8, 12, steps=3), None, "two ends only"),
        (None, 2, "needs explore="),
        (dpb.Range(8, 12), 0, "step"),
        (dpb.Range(8, 12), (2, 1), "above the most"),
        (dpb.Range(8, 12), (1, 2, 3), "step"),
        (dpb.Range(8, 12), (-1, 2), "step"),
        (dpb.Range(8, 12), "2", "step"),
        (dpb.Range(8, 12), float("nan"), "step"),
        (dpb.Range(8, 12), {"prize": 2}, "step"),
    ],
)
def test_what_does_not_fit_is_refused(explore, step, said):
    with pytest.raises(InvalidParameter, match=said):
        dpb.Actions(PRICES, explore=explore, step=step)


def test_explore_and_step_are_written_and_read():
    actions = dpb.Actions(PRICES, value=dpb.values.Revenue(), explore=dpb.Range(8, 12), step=(0.5, 2))
    told = json.loads(json.dumps(actions.to_config()))
    assert (told["explore"], told["step"]) == ({"price": [8.0, 12.0]}, {"price": [0.5, 2.0]})
    again = dpb.Actions.from_config(told)
    assert (again.window, again.step) == (actions.window, actions.step)
    assert again.to_config() == actions.to_config()
    assert "explore" not in dpb.Actions(PRICES).to_config()
    assert read_window({"price": [8, 12]}) == START
    for wrong in ({"price": [12, 8]}, {"price": [8, float("nan")]}, {"price": ["8", 12]}):
        with pytest.raises(InvalidParameter):
            read_window(wrong)


def policy(actions, **options):
    given = {"reward_range": (0, 1), "horizon": 1500, "privacy": dpb.JointDP(epsilon=8, delta=1e-6)}
    return dpb.central.GPBandit(
        contexts=PEOPLE, actions=actions, noise=dpb.SimulatedNoise(0), **(given | options)
    )


def run(one, rounds, *, first=0, limit=16):
    """Return all actions: everybody buys below the limit."""
    chosen = []
    for begin in range(first, first + rounds, 50):
        people = {"age": [20 + i % 60 for i in range(50)], "region": ["north", "south"] * 25}
        batch = one.ask_batch(people, users=range(begin, begin + 50))
        one.tell_batch(batch.ids, (np.array(batch.chosen) < limit).astype(float))
        chosen += batch.chosen
    return np.array(chosen)


REVENUE = {"value": dpb.values.Revenue(), "shape": {"price": "decreasing"}}


def test_decisions_keep_to_the_window_which_moves_by_steps_after_releases():
    one = policy(dpb.Actions(PRICES, explore=dpb.Range(5, 7), step=2, **REVENUE))
    first, windows = one.batch_boundaries[0], [one.diagnostics()["window"]]
    assert windows == [{"price": (5.0, 7.0)}]
    for begin in range(0, 1450, 50):
        chosen = run(one, 50, first=begin)
        low, high = one.diagnostics()["window"]["price"]
        assert low <= chosen.min() <= chosen.max() <= high
        if begin + 50 <= first:
            assert set(chosen) == {5.0, 6.0, 7.0}
        windows.append({"price": (low, high)})
    ends = np.array([window["price"] for window in windows])
    assert (np.diff(ends[:, 1]) >= 0).all()
    assert np.diff(ends[:, 1]).max() <= 2.0
    assert ends[-1, 1] >= 11  # the best price is 15
    assert one.recommend({"age": 40, "region": "north"}) >= 10


def test_a_published_function_and_a_restored_policy_have_the_window(tmp_path):
    one = policy(dpb.Actions(PRICES, explore=dpb.Range(5, 7), step=2, **REVENUE))
    who = {"age": 40, "region": "north"}
    assert one.publish(prior=True).recommend(who) in (5.0, 6.0, 7.0)
    run(one, 300)
    published = one.publish()
    assert published.window == one.diagnostics()["window"] != {"price": (5.0, 7.0)}
    curve, (low, high) = published.curve(who), published.window["price"]
    assert [one for one, fits in zip(curve.actions, curve.allowed, strict=True) if fits] == [
        price for price in one.arms if low <= price <= high
    ]
    assert (
        published.recommend(who)
        == one.recommend(who)
        == curve.actions[int(np.argmax(np.where(curve.allowed, curve.value, -np.inf)))]
    )
    assert published.recommend(who, available=[2.0]) == 2.0
    again = type(published).from_json(published.to_json())
    assert again.window == published.window
    one.save(tmp_path / "state")
    other = dpb.central.GPBandit.load(tmp_path / "state")
    assert other.diagnostics()["window"] == one.diagnostics()["window"]
    assert np.array_equal(run(one, 100, first=300), run(other, 100, first=300))
    told = json.loads(published.to_json())
    del told["window"]
    with pytest.raises(dpb.errors.CorruptState, match="window"):
        type(published).from_json(json.dumps(told))


def test_a_window_changes_no_release_before_it_and_costs_nothing():
    plain, explored = (
        policy(dpb.Actions(PRICES, **REVENUE, **given)) for given in ({}, {"explore": dpb.Range(5, 7)})
    )
    assert plain.guarantee.certificate == explored.guarantee.certificate
    said = " ".join(explored.guarantee.explain().split()) + " ".join(explored.guarantee.annex().split())
    assert "widens after releases" in said
    assert "widens after releases" not in plain.guarantee.explain() + plain.guarantee.annex()


def test_a_log_has_no_window():
    with pytest.raises(InvalidParameter, match="explore= is for policies"):
        dpb.central.ExploreThenCommit(
            contexts=PEOPLE,
            actions=dpb.Actions(PRICES, explore=dpb.Range(8, 12)),
            reward_range=(0, 1),
            horizon=500,
            privacy=dpb.JointDP(epsilon=8, delta=1e-6),
            tuning=dpb.central.ExploreTuning(logged="steps"),
        )
