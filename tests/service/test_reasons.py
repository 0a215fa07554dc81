"""Why a decision was not answered, as its caller is told; and the dry run that says it beforehand."""

import logging
import math
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as tried
from hypothesis import strategies as st

from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from dpbandits.tables import Categories, Cycle, DateRange, Range, Schema
from dpbandits.tables.menu import Menu
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller

CHECK = "/v1/policies/offers/decisions:check"
SECRET = "patient-4711"

WRONG: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"age": SECRET, "region": "west"}, [("age", "is not a number")]),
    ({"age": [44], "region": "west"}, [("age", "is not a number")]),
    ({"age": 17, "region": "west"}, [("age", "is outside the declared range")]),
    ({"age": 44, "region": SECRET}, [("region", "is not one of the categories")]),
    ({"age": None, "region": "west"}, [("age", "is missing")]),
    ({"age": 900}, [("age", "is outside the declared range"), ("region", "is missing")]),
    ({}, [("age", "is missing"), ("region", "is missing")]),
]


def told(answer: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["column"], one["rule"]) for one in answer["faults"]]


@pytest.fixture
def shop_with_fallback(admin: Caller) -> Caller:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    assert admin.post("/v1/policies", {**OFFERS, "settings": {"fallback": "nothing"}}).status_code == 201
    return admin


@pytest.mark.parametrize(("context", "faults"), WRONG)
def test_a_fallback_says_which_column_breaks_which_rule_and_no_value(
    shop_with_fallback: Caller,
    context: dict[str, Any],
    faults: list[tuple[str, str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG):
        reply = shop_with_fallback.decide("v1", context=context)
        again = shop_with_fallback.decide("v1", context=context)
    answer = reply.json()
    assert (reply.status_code, answer["fallback"], answer["arm"]) == (200, True, "nothing")
    assert (answer["reason"], told(answer)) == ("context", faults)
    assert again.json() == answer  # the stored answer
    seen = reply.text + caplog.text + shop_with_fallback.get("/metrics").text
    assert SECRET not in seen
    assert "is missing" not in caplog.text
    assert "reason" not in caplog.text


def test_a_reason_is_stored_and_outlives_a_change_of_the_fallback(shop_with_fallback: Caller) -> None:
    first = shop_with_fallback.decide("v1", context={"age": 17}).json()
    change = {"settings": {"fallback": None}}
    assert shop_with_fallback("PATCH", "/v1/policies/offers", change, If_Match="*").status_code == 200
    assert shop_with_fallback.decide("v1", context={"age": 17}).json() == first
    refused = shop_with_fallback.decide("v2", context={"age": 17})
    assert refused.status_code == 422
    assert (refused.json()["reason"], told(refused.json())) == ("context", told(first))


def test_a_batch_says_of_each_why(shop_with_fallback: Caller) -> None:
    bodies = [{"id": f"v{n}", "user": f"v{n}", "context": context} for n, (context, _) in enumerate(WRONG)]
    for _ in range(2):
        reply = shop_with_fallback.post("/v1/policies/offers/decisions:batch", {"decisions": bodies})
        answers = [one["decision"] for one in reply.json()["results"]]
        assert [(one["reason"], told(one)) for one in answers] == [("context", faults) for _, faults in WRONG]


def test_other_fallbacks_have_a_reason_too(shop_with_fallback: Caller) -> None:
    assert "reason" not in shop_with_fallback.decide("v0").json()
    for number, sent, reason in (
        ("v1", {"user": "v0"}, "user-has-had-all"),
        ("v2", {"available": ["nothing", "fax"]}, "available"),
        ("v3", {"available": []}, "available"),
    ):
        answer = shop_with_fallback.decide(number, **sent).json()
        assert (answer["fallback"], answer["reason"], "faults" in answer) == (True, reason, False), number
    body = {"id": "v4", "context": AGNES}
    answer = shop_with_fallback.post("/v1/policies/offers/decisions", body).json()
    assert (answer["fallback"], answer["reason"]) == (True, "user")


def test_when_no_round_is_left_the_fallback_says_so(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    asked = {**OFFERS, "horizon": 3, "tuning": {"blocks": [3]}, "settings": {"fallback": "call"}}
    assert admin.post("/v1/policies", asked).status_code == 201
    answers = [admin.decide(f"v{number}").json() for number in range(4)]
    assert [one.get("reason") for one in answers] == [None, None, None, "no-rounds-left"]


def test_what_others_sent_changes_no_reason(shop_with_fallback: Caller) -> None:
    """Two services that differ in what everybody else brought say the same to one caller."""
    before = shop_with_fallback.decide("v1", context={"age": 17, "region": SECRET}).json()
    for number in range(5):
        shop_with_fallback.decide(f"w{number}", context={"age": 18 + number, "region": "south"})
    after = shop_with_fallback.decide("v2", context={"age": 17, "region": SECRET}).json()
    assert told(before) == told(after)


def test_a_dry_run_finds_the_same_and_takes_nothing(service: Service, shop_with_fallback: Caller) -> None:
    def kept() -> list[Any]:
        with service.store.reading() as reads:
            return [
                reads.rows(f"SELECT * FROM {name}")  # noqa: S608
                for name in ("decisions", "slots", "people", "progress", "events", "facts")
            ]

    caller, before = shop_with_fallback.with_scopes("decide"), None
    before = kept()
    contexts = [AGNES, *(context for context, _ in WRONG)]
    reply = caller.post(CHECK, {"contexts": contexts})
    assert reply.status_code == 200
    assert SECRET not in reply.text
    good, *bad = reply.json()["results"]
    assert good == {"fits": True, "faults": [], "replaced": [], "ignored": 0}
    assert [(one["fits"], told(one)) for one in bad] == [(False, faults) for _, faults in WRONG]
    assert kept() == before
    assert caller.decide("v1").json()["release"] == 0  # the first round is still there


def test_a_dry_run_says_what_is_replaced_and_how_much_is_ignored(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    columns = [
        {"name": "age", "type": "Range", "low": 18, "high": 90, "clip": True, "missing": 40},
        {"name": "region", "type": "Categories", "values": ["north", "other"], "unknown": "other"},
    ]
    assert admin.post("/v1/policies", {**OFFERS, "contexts": columns}).status_code == 201
    contexts = [{"age": 200, "region": "mars"}, {"region": "north", "aeg": 44}]
    first, second = admin.post(CHECK, {"contexts": contexts}).json()["results"]
    assert first == {
        "fits": True,
        "faults": [],
        "replaced": [
            {"column": "age", "rule": "is outside the declared range"},
            {"column": "region", "rule": "is not one of the categories"},
        ],
        "ignored": 0,
    }
    assert (second["replaced"], second["ignored"]) == ([{"column": "age", "rule": "is missing"}], 1)


def test_a_policy_of_candidates_has_no_columns_to_check(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    asked = {name: value for name, value in OFFERS.items() if name not in ("contexts", "arms")}
    asked |= {
        "domain": {"type": "Box", "low": [0], "high": [1]},
        "kernel": {"type": "SquaredExponential", "lengthscale": 0.3},
    }
    assert admin.post("/v1/policies", asked).status_code == 201
    assert admin.post(CHECK, {"contexts": [{}]}).status_code == 422
    assert admin.post(CHECK.replace("offers", "none"), {"contexts": [{}]}).status_code == 404
    refused = admin.decide("v1", context=None, candidates=[["x"]])
    assert (refused.status_code, refused.json()["reason"]) == (422, "candidates")


@pytest.mark.parametrize("settings", [Settings(requests_per_second=2.0)])
def test_a_dry_run_is_limited_as_a_decision_is(service: Service, admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    many = admin.post(CHECK, {"contexts": [AGNES] * 50})  # each counts as a request
    assert (many.status_code, int(many.headers["retry-after"]) >= 1) == (429, True)
    assert 429 in [admin.post(CHECK, {"contexts": [AGNES]}).status_code for _ in range(12)]


CELLS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 200)
    | st.floats()
    | st.sampled_from(["", "NA", "none", "44", "north", "true", "2024-01-05", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)
COLUMNS = {
    "age": Range(18, 90),
    "share": Range(0, 1, clip=True, missing=0.5),
    "region": Categories(["north", "south"]),
    "kind": Categories([1, 2, 3], unknown=3),
    "flag": Categories([True, False], missing=True),
    "since": DateRange("2024-01-01", "2024-02-01"),
    "hour": Cycle(24),
    "day": Cycle("week", missing=0),
}
RULES = {
    "is missing",
    "is not a number",
    "is not a date or time",
    "is not one of the categories",
    "is outside the declared range",
}
"""All that is ever said of a cell: fixed words, so none of them repeats a value."""

MENU = Menu(contexts=Schema(**COLUMNS), arms=["a", "b"])


@tried(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.fixed_dictionaries({}, optional=dict.fromkeys(COLUMNS, CELLS)))
def test_a_context_has_a_fault_exactly_where_it_cannot_be_read(context: dict[str, Any]) -> None:
    (found,) = MENU.findings([context])
    refused = any(one.refused for one in found)
    assert refused == math.isnan(MENU.point(context)[0])
    assert {one.rule for one in found} <= RULES
    assert len({one.column for one in found}) == len(found)
