"""Named bounds of actions."""

import json

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.tables.bounds import Both, ByCategory, Linear, Within

PEOPLE = dpb.Schema(
    age=dpb.Range(20, 80), region=dpb.Categories(["north", "south"]), old=dpb.Categories([0, 1])
)
GRID = dpb.Schema(price=dpb.Range(1, 9, steps=9), size=dpb.Ordered([1, 2, 4]))
NAMED = Both(
    (
        Within("price", low=ByCategory("region", {"north": 2, "south": 4}), high=Linear("age", 3, 0.1)),
        Within("size", high=2),
    )
)


def of_the_user(people):
    return {
        "price": (np.where(people["region"] == "north", 2, 4), 3 + 0.1 * people["age"]),
        "size": (0, 2),
    }


def test_named_bounds_allow_what_the_same_function_allows():
    contexts = PEOPLE.domain.sample(500, np.random.default_rng(0))
    named, own = (dpb.Actions(GRID, bounds=one).beside(PEOPLE) for one in (NAMED, of_the_user))
    assert np.array_equal(named.allowed(contexts), own.allowed(contexts))
    assert 2 <= named.allowed(contexts).sum(axis=1).min() < named.allowed(contexts).sum(axis=1).max()


def test_named_bounds_are_written_and_read():
    actions = dpb.Actions(GRID, bounds=NAMED, value=dpb.values.Revenue())
    again = dpb.Actions.from_config(json.loads(json.dumps(actions.to_config())))
    assert again.bounds == NAMED
    assert again.to_config() == actions.to_config()
    numbered = Within("price", high=ByCategory("old", {0: 5, 1: 6}))
    told = json.loads(json.dumps(dpb.Actions(GRID, bounds=numbered).to_config()))
    assert dpb.Actions.from_config(told).bounds == numbered


def test_ends_that_meet_at_a_context_never_exchange():
    ends = Within("price", low=Linear("age", 0.1, 0.3), high=Linear("age", 0.1 + 0.2 - 0.2, 0.1 * 3))
    ages = np.linspace(20, 80, 10_001)
    low, high = ends({"age": ages})["price"]
    assert (low <= high).all()


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: Within("price", low="5"), "low"),
        (lambda: Within("price", high=float("nan")), "high"),
        (lambda: Within(3), "action"),
        (lambda: Linear("age", 1, float("inf")), "slope"),
        (lambda: ByCategory("region", {}), "ends"),
        (lambda: ByCategory("region", {"north": "2"}), "ends"),
        (lambda: Both(()), "parts"),
        (lambda: Both((Within("price"), Within("price", low=2))), "parts"),
        (lambda: Both((Linear("age", 1, 1),)), "parts"),
    ],
)
def test_ends_that_do_not_fit_are_refused(build, said):
    with pytest.raises(InvalidParameter, match=said):
        build()


@pytest.mark.parametrize(
    "bounds",
    [
        Within("prize", low=2),
        Within("price", low=Linear("income", 1, 1)),
        Within("price", low=Linear("region", 1, 1)),
        Within("price", low=ByCategory("age", {20: 1})),
        Within("price", low=ByCategory("region", {"north": 2})),
        Within("price", low=ByCategory("region", {"north": 2, "south": 3, "west": 4})),
        Within("price", low=7.999, high=Linear("age", 0, 0.1)),  # crosses at the age of 80 only
        Within("price", low=ByCategory("region", {"north": 2, "south": 7}), high=Linear("age", 0, 0.3)),
    ],
)
def test_bounds_are_checked_for_every_context_at_construction(bounds):
    with pytest.raises(InvalidParameter, match="bounds"):
        dpb.central.GPBandit(
            contexts=PEOPLE,
            actions=dpb.Actions(GRID, bounds=bounds),
            reward_range=(0, 1),
            horizon=1000,
            privacy=dpb.JointDP(epsilon=4, delta=1e-6),
        )


def test_a_policy_with_named_bounds_is_saved_and_published(tmp_path):
    policy = dpb.central.GPBandit(
        contexts=PEOPLE,
        actions=dpb.Actions(GRID, bounds=NAMED, explore={"price": dpb.Range(3, 4)}),
        reward_range=(0, 1),
        horizon=1000,
        privacy=dpb.JointDP(epsilon=4, delta=1e-6),
        noise=dpb.SimulatedNoise(0),
    )
    people = {"age": np.linspace(20, 80, 300), "region": ["north", "south"] * 150, "old": [0, 1] * 150}
    batch = policy.ask_batch(people, users=range(300))
    policy.tell_batch(batch.ids, [one["price"] < 6 for one in batch.chosen])
    policy.ask({"age": 30, "region": "north", "old": 1}, user="next")
    policy.save(tmp_path / "state")
    other, published = dpb.central.GPBandit.load(tmp_path / "state"), policy.publish()
    again = type(published).from_json(published.to_json())
    best = published.recommend_batch(people)
    assert again.recommend_batch(people) == best
    assert other.publish().recommend_batch(people) == best
    for one, age, region in zip(best, people["age"], people["region"], strict=True):
        assert (2 if region == "north" else 4) <= one["price"] <= 3 + 0.1 * age
        assert one["size"] <= 2
