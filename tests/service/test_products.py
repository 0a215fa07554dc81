"""Policies whose arms have features, over HTTP."""

from typing import Any

import pytest

import dpbandits as dpb
from service.conftest import AGNES, OFFERS, Caller
from service.test_http import answered, refused

ROWS = [{"product": f"p{place}", "kind": ["tea", "mug"][place % 2], "price": place} for place in range(10)]
COLUMNS = [
    {"name": "kind", "type": "Categories", "values": ["tea", "mug"]},
    {"name": "price", "type": "Range", "low": 0, "high": 10},
]
PRODUCTS: dict[str, Any] = {"name": "product", "columns": COLUMNS, "rows": ROWS}
ASKED = {name: value for name, value in OFFERS.items() if name != "arms"} | {
    "name": "shop",
    "products": PRODUCTS,
}


def test_decisions_are_the_librarys_products(shop: Caller) -> None:
    answered(shop.post("/v1/policies", ASKED), 201)
    columns = dpb.Schema(kind=dpb.Categories(["tea", "mug"]), price=dpb.Range(0, 10))
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema.from_config({"type": "Schema", "columns": ASKED["contexts"]}),
        arms=dpb.Products(ROWS, columns=columns, name="product"),
        reward_range=(0, 1),
        horizon=400,
        privacy=dpb.JointDP(**ASKED["privacy"]),
        tuning=dpb.central.GPTuning(lag=2, **ASKED["tuning"]),
    )
    for number in range(8):
        answer = answered(shop.decide(f"v{number}", policy="shop"))
        assert answer["arm"] == policy.ask(AGNES, user=f"v{number}").arm
        answered(shop.reward(answer["id"], 1, policy="shop"))
    described = answered(shop.get("/v1/policies/shop"))
    assert described["products"] == PRODUCTS
    assert described["arms"] == list(policy.arms or ())


@pytest.mark.parametrize(
    "products",
    [
        PRODUCTS | {"rows": ROWS[:1]},
        PRODUCTS | {"rows": [*ROWS, ROWS[0]]},
        PRODUCTS | {"rows": [*ROWS, {"product": "p11", "kind": "boat", "price": 1}]},
        PRODUCTS | {"columns": [{"name": "weight", "type": "Range", "low": 0, "high": 1}]},
    ],
)
def test_what_does_not_fit_is_refused(shop: Caller, products: dict[str, Any]) -> None:
    refused(shop.post("/v1/policies", ASKED | {"products": products}), "invalid", 422)


def test_arms_and_products_exclude_each_other(shop: Caller) -> None:
    refused(shop.post("/v1/policies", ASKED | {"arms": ["a", "b"]}), "invalid", 422)


def test_a_product_is_added_with_features_and_retired(shop: Caller) -> None:
    answered(shop.post("/v1/policies", ASKED), 201)
    new = {"arm": "new", "features": {"kind": "mug", "price": 3.5}, "minimum": 0.4}
    for features in (None, {"kind": "mug"}, {"kind": "boat", "price": 1}, {"kind": "mug", "price": [1]}):
        body = {name: own for name, own in (new | {"features": features}).items() if own is not None}
        refused(shop.post("/v1/policies/shop/arms", body), "invalid", 422)
    first, again = (answered(shop.post("/v1/policies/shop/arms", new)) for _ in range(2))
    assert first == again
    assert first["changes"][0]["features"] == new["features"]
    retired = str(ROWS[0]["product"])
    answered(shop.post("/v1/policies/shop/arms:retire", {"arm": retired}))
    arms = []
    for number in range(120):
        answer = answered(shop.decide(f"v{number}", policy="shop"))
        answered(shop.reward(answer["id"], float(answer["arm"] == "new"), policy="shop"))
        arms.append(answer["arm"])
    assert "new" in arms
    assert retired not in arms[-60:]
    described = answered(shop.get("/v1/policies/shop"))
    assert described["arms"][-1] == "new"
    assert described["products"] == PRODUCTS
