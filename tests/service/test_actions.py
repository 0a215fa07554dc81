"""Policies that choose numbers, over HTTP."""

from typing import Any

import pytest

import dpbandits as dpb
from dpbandits.export import decide_by
from dpbandits.export.decisions import read
from service.conftest import AGNES, OFFERS, Caller
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
    for number in range(150):
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


def test_a_fallback_has_the_action_too(shop: Caller) -> None:
    columns = [*PRICES["columns"], {"name": "channel", "type": "Categories", "values": ["mail", "call"]}]
    settings = {"settings": {"fallback": "price=4.0, channel=call"}}
    begun(shop, actions=PRICES | {"columns": columns}, **settings)
    answer = answered(
        shop.post("/v1/policies/prices/decisions", {"id": "v", "user": "v", "context": {"age": "x"}})
    )
    assert answer["fallback"]
    assert (answer["arm"], answer["action"]) == ("price=4.0, channel=call", {"price": 4.0, "channel": "call"})


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
