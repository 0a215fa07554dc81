"""Policies that choose numbers, over HTTP."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.export import decide_by
from dpbandits.export.decisions import read
from dpbandits.service.core import Service
from dpbandits.service.desk.pictures import learned
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller, served
from service.test_http import answered, refused

PRICES = {
    "columns": [{"name": "price", "type": "Range", "low": 1, "high": 9, "steps": 9}],
    "value": {"type": "Revenue", "price": "price", "cost": 1},
    "shape": {"price": "decreasing"},
}
ASKED = {name: value for name, value in OFFERS.items() if name != "arms"} | {
    "name": "prices",
    "actions": PRICES,
}


WEST = {"type": "ByCategory", "column": "region", "ends": [["north", 9], ["south", 9], ["west", 6]]}
SAFE = PRICES | {
    "bounds": {"type": "Within", "action": "price", "low": 2, "high": WEST},
    "explore": {"price": [3, 5]},
    "step": {"price": [0, 1]},
}
PRICED = ASKED | {"actions": SAFE}
"""With a named value, a shape, named bounds and a window."""


def begun(shop: Caller, **changed: Any) -> dict[str, Any]:
    return answered(shop.post("/v1/policies", {**ASKED, **changed}), 201)


def of_the_library(**options: Any) -> dpb.central.GPBandit:
    return dpb.central.GPBandit(
        contexts=dpb.Schema.from_config({"type": "Schema", "columns": ASKED["contexts"]}),
        actions=dpb.Actions(
            dpb.Schema(price=dpb.Range(1, 9, steps=9)),
            value=dpb.values.Revenue(cost=1),
            shape={"price": "decreasing"},
            **options,
        ),
        reward_range=(0, 1),
        horizon=400,
        privacy=dpb.JointDP(**ASKED["privacy"]),
        tuning=dpb.central.GPTuning(lag=2, **ASKED["tuning"]),
    )


def test_decisions_are_the_librarys_numbers(shop: Caller) -> None:
    begun(shop)
    policy = of_the_library()
    for number in range(8):
        answer = answered(shop.decide(f"v{number}", policy="prices"))
        decision = policy.ask(AGNES, user=f"v{number}")
        assert (answer["action"], answer["arm"]) == (decision.action, decision.action)
        answered(shop.reward(answer["id"], 1, policy="prices"))
    body = {"id": "again", "user": "w", "context": AGNES}
    results = answered(shop.post("/v1/policies/prices/decisions:batch", {"decisions": [body]}))["results"]
    assert results[0]["decision"]["action"] in policy.arms
    described = answered(shop.get("/v1/policies/prices"))
    assert described["actions"] == PRICES
    assert described["arms"] == list(policy.arms)


def test_several_columns_are_objects_and_a_published_policy_decides(shop: Caller) -> None:
    columns = [*PRICES["columns"], {"name": "channel", "type": "Categories", "values": ["mail", "call"]}]
    begun(shop, actions=PRICES | {"columns": columns})
    for number in range(60):
        answer = answered(shop.decide(f"v{number}", policy="prices"))
        assert set(answer["action"]) == {"price", "channel"}
        answered(shop.reward(answer["id"], float(answer["action"]["price"] < 5), policy="prices"))
    published = dpb.central.PublishedPosterior.from_json(shop.get("/v1/policies/prices/policy").text)
    context = {"age": 30.0, "region": "north"}
    assert decide_by(read(published.to_decisions()), context) == published.recommend(context)


def test_decisions_over_http_keep_to_a_window_as_those_of_the_library_do(shop: Caller) -> None:
    explored = {"explore": {"price": [2, 3]}, "step": {"price": [0, 1]}}
    begun(shop, actions=PRICES | explored)
    policy, prices = of_the_library(explore=dpb.Range(2, 3), step=1), []
    for number in range(90):
        answer = answered(shop.decide(f"v{number}", policy="prices"))
        prices.append(answer["action"])
        answered(shop.reward(answer["id"], float(answer["action"] < 7), policy="prices"))
    before = policy.batch_boundaries[0]
    assert prices[:before] == [policy.ask(AGNES, user=f"v{n}").action for n in range(before)]
    assert {2.0, 3.0} == set(prices[:before]) < set(prices)  # the window has widened
    told = shop.get("/v1/policies/prices/policy").json()
    published = dpb.central.PublishedPosterior.from_json(shop.get("/v1/policies/prices/policy").text)
    assert told["window"] == {"price": list(published.window["price"])}
    assert answered(shop.get("/v1/policies/prices"))["actions"] == PRICES | explored


def test_named_bounds_over_http(shop: Caller) -> None:
    bounds = {
        "type": "Within",
        "action": "price",
        "low": 3,
        "high": {"type": "ByCategory", "column": "region", "ends": [["north", 9], ["south", 9], ["west", 4]]},
    }
    begun(shop, actions=PRICES | {"bounds": bounds})
    answers = [answered(shop.decide(f"v{number}", policy="prices"))["action"] for number in range(30)]
    assert AGNES["region"] == "west"
    assert {3.0, 4.0} == set(answers)


@pytest.mark.parametrize(
    "actions",
    [
        {**PRICES, "bounds": {"type": "Within", "action": "price", "low": 5, "high": 4}},
        {**PRICES, "bounds": {"type": "Outcome"}},
        {**PRICES, "explore": {"price": [3, 2]}},
        {**PRICES, "explore": {"prize": [2, 3]}},
        {**PRICES, "step": {"price": [0, 1]}},
        {**PRICES, "value": {"type": "Revenue", "price": "prize"}},
        {**PRICES, "value": {"type": "lambda price, mean: price * mean"}},
        {**PRICES, "shape": {"price": "up"}},
        {**PRICES, "bounds": "lambda people: {}"},
        {"columns": []},
        {"columns": [{"name": "price", "type": "Range", "low": 1, "high": 9, "steps": 1000}]},
    ],
)
def test_what_does_not_fit_is_refused(shop: Caller, actions: dict[str, Any]) -> None:
    refused(shop.post("/v1/policies", ASKED | {"actions": actions}), "invalid", 422)


def test_arms_and_actions_exclude_each_other(shop: Caller) -> None:
    refused(shop.post("/v1/policies", ASKED | {"arms": ["a", "b"]}), "invalid", 422)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"columns": {"price": {"low": 1, "high": 9}}}, "body.actions.columns is not a list"),
        ({"bounds": {"type": "Within", "column": "price"}}, "a Within, which has action, low, high"),
    ],
)
def test_malformed_actions_are_told_what_was_expected(shop: Caller, changed: Any, said: str) -> None:
    found = refused(shop.post("/v1/policies", ASKED | {"actions": PRICES | changed}), "invalid", 422)
    assert said in found["detail"]


def of_both(shop: Caller, **changed: Any) -> None:
    """Begin a policy whose actions have two columns, a value, a shape, bounds and a window."""
    channel = {"name": "channel", "type": "Categories", "values": ["mail", "call"]}
    begun(shop, **(PRICED | {"actions": SAFE | {"columns": [*PRICES["columns"], channel]}} | changed))


def evaluated(caller: Caller, flag: str = "/prices", **context: Any) -> dict[str, Any]:
    asked = {"context": {"targetingKey": "u-1", **AGNES, **context}}
    return answered(caller.post(f"/ofrep/v1/evaluate/flags{flag}", asked))


def test_a_flag_is_the_number(shop: Caller) -> None:
    begun(shop, **PRICED)
    found = evaluated(shop)
    assert found["value"] in (3.0, 4.0, 5.0)
    assert found["variant"] == json.dumps(found["value"])
    told = shop.reward(found["metadata"]["decision"], 1, policy="prices")
    assert answered(told) == {"outcome": "counted"}
    assert evaluated(shop) == found


def test_a_flag_of_several_columns_is_an_object_for_one_and_for_all(shop: Caller) -> None:
    of_both(shop)
    one = evaluated(shop)
    every = {flag["key"]: flag for flag in evaluated(shop, "")["flags"]}
    for found in (one, every["prices"]):
        assert set(found["value"]) == {"price", "channel"}
        assert 3 <= found["value"]["price"] <= 5
        assert json.loads(found["variant"]) == found["value"]
    assert every["offers"]["value"] in OFFERS["arms"]


def test_a_fallback_has_its_action(shop: Caller) -> None:
    label = "price=4.0, channel=mail"
    of_both(shop, settings={"fallback": label})
    action = {"price": 4.0, "channel": "mail"}
    answer = answered(shop.decide("v", policy="prices", context={"age": 17, "region": "west"}))
    assert (answer["fallback"], answer["arm"], answer["action"]) == (True, label, action)
    bodies = [
        {"id": f"b{n}", "user": f"b{n}", "context": {"age": 17 + n, "region": "west"}} for n in range(2)
    ]
    both = answered(shop.post("/v1/policies/prices/decisions:batch", {"decisions": bodies}))["results"]
    assert [one["decision"]["fallback"] for one in both] == [True, False]
    assert both[0]["decision"]["action"] == action
    found = evaluated(shop, age=17)
    assert (found["reason"], found["value"]) == ("DEFAULT", action)


def test_a_service_that_is_closed_in_the_middle_goes_on_as_the_library_does(folder: Path) -> None:
    explored = {"explore": {"price": [2, 3]}, "step": {"price": [0, 1]}}
    policy, token, prices = of_the_library(explore=dpb.Range(2, 3), step=1), None, []
    for life in range(3):
        with served(Service(folder), token) as caller:
            if not life:
                token = caller.token
                answered(caller.post("/v1/populations", CUSTOMERS), 201)
                begun(caller, actions=PRICES | explored)
            for number in range(7 * life, 7 * life + 7):
                prices.append(answered(caller.decide(f"v{number}", policy="prices"))["action"])
                assert (
                    answered(caller.decide(f"v{number // 2}", policy="prices"))["action"]
                    == prices[number // 2]
                )
    assert prices == [policy.ask(AGNES, user=f"v{number}").action for number in range(21)]


def test_pages_say_what_is_best_by_value_within_bounds_and_window(shop: Caller) -> None:
    begun(shop, **PRICED)
    for number in range(60):
        answer = answered(shop.decide(f"v{number}", policy="prices"))
        answered(shop.reward(answer["id"], float(answer["action"] < 8), policy="prices"))
    text = shop.get("/v1/policies/prices/policy").text
    found, published = learned(text), dpb.central.PublishedPosterior.from_json(text)
    chosen = [arm for arm in found.arms if arm.share > 0]
    low, high = published.window["price"]
    assert (found.window, [arm for arm in chosen if not low <= arm.label <= high]) == (published.window, [])
    people = {"age": np.repeat(np.linspace(18, 90, 200), 3), "region": ["north", "south", "west"] * 200}
    best = np.array(published.recommend_batch(people))
    shares = [np.mean(best == arm.label) for arm in found.arms]
    assert [arm.share for arm in found.arms] == pytest.approx(shares, abs=0.25)  # of 128 contexts there
    free, *rest = found.arms
    chances = np.array([arm.value / (arm.label - 1) for arm in rest])
    assert free.value == 0  # nothing is earned at the cost
    assert 1 + 1e-9 >= chances[0] > chances[-1] >= 0
    assert np.diff(chances).max() <= 1e-9  # the declared shape
