"""Feature flags: what OpenFeature's clients send, and the answers that OFREP's document describes."""

import json
from typing import Any

import pytest

import dpbandits as dpb
from dpbandits.service.core import Service
from dpbandits.service.decisions import FLAGS_A_TOKEN
from dpbandits.service.settings import Settings
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller

FLAG, FLAGS = "/ofrep/v1/evaluate/flags/offers", "/ofrep/v1/evaluate/flags"
ERRORS = {"PARSE_ERROR", "TARGETING_KEY_MISSING", "INVALID_CONTEXT", "GENERAL"}
REASONS = {"STATIC", "DEFAULT", "TARGETING_MATCH", "SPLIT", "CACHED", "DISABLED", "UNKNOWN", "STALE", "ERROR"}


def evaluated(caller: Caller, user: str | None = "u-1", flag: str = FLAG, **more: Any) -> Any:
    key = {} if user is None else {"targetingKey": user}
    return caller.post(flag, {"context": {**key, **AGNES, **more}})


def is_evaluation(found: dict[str, Any]) -> bool:
    """Whether it is OFREP's evaluationSuccess."""
    kinds = (bool, str, int, float)
    return (
        isinstance(found["key"], str)
        and found["reason"] in REASONS
        and isinstance(found["variant"], str)
        and isinstance(found["value"], kinds)
        and all(isinstance(value, kinds) for value in found["metadata"].values())
    )


def failure(reply: Any, status: int, code: str, key: str | None = "offers") -> str:
    """What OFREP's failure says in words."""
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json"), reply.text
    found = reply.json()
    assert found.get("key") == key
    assert found["errorCode"] == code
    assert code in ERRORS or (status, code) == (404, "FLAG_NOT_FOUND")
    return str(found["errorDetails"])


def test_an_evaluation_is_a_decision_and_its_reward_counts(shop: Caller) -> None:
    found = evaluated(shop).json()
    assert is_evaluation(found)
    assert (found["key"], found["reason"], found["variant"]) == ("offers", "SPLIT", found["value"])
    assert found["value"] in OFFERS["arms"]
    assert (found["metadata"]["release"], found["metadata"]["fallback"]) == (0, False)
    told = shop.reward(found["metadata"]["decision"], 1).json()
    assert told == {"outcome": "counted"}


def test_a_repetition_is_the_same_decision_and_takes_no_round(shop: Caller) -> None:
    first = evaluated(shop).json()
    assert evaluated(shop).json() == first
    assert evaluated(shop, page="/home", at=1767225600.5).json() == first  # these are no columns
    other = shop.with_scopes("decide")
    assert failure(evaluated(other), 400, "GENERAL")  # another caller's ids are its own; the round is taken
    assert shop.decide("v1", user="u-2").json()["fallback"] is False


def test_a_request_id_tells_rounds_of_one_user_apart(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    privacy = {**OFFERS["privacy"], "rounds_per_user": 2}
    assert admin.post("/v1/policies", {**OFFERS, "privacy": privacy}).status_code == 201
    found = [evaluated(admin, requestId=one).json()["metadata"]["decision"] for one in ("a", "a", "b", "b")]
    assert found[0] == found[1] != found[2] == found[3]
    assert "rounds" in failure(evaluated(admin, requestId="c"), 400, "GENERAL")


def test_a_policy_that_counts_no_users_is_a_flag_as_well(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    privacy = {**OFFERS["privacy"], "user_ids": False}
    assert admin.post("/v1/policies", {**OFFERS, "privacy": privacy}).status_code == 201
    first = evaluated(admin).json()
    assert is_evaluation(first)
    assert evaluated(admin).json() == first
    other = evaluated(admin, requestId="b").json()
    assert is_evaluation(other)
    assert other["metadata"]["decision"] != first["metadata"]["decision"]


@pytest.mark.parametrize("settings", [Settings(mismatches_per_hour=2)])
def test_guesses_of_a_context_are_noticed_and_soon_answered_no_more(shop: Caller) -> None:
    evaluated(shop)
    for age in (20, 21):
        assert "another request" in failure(evaluated(shop, age=age), 400, "GENERAL")
    blocked = [evaluated(shop, age=age) for age in (22, 44)]
    assert [one.status_code for one in blocked] == [429, 429]  # the right one as well
    assert int(blocked[0].headers["retry-after"]) >= 1
    assert evaluated(shop, targetingKey="u-99").status_code == 200
    assert evaluated(shop, targetingKey="u-99").status_code == 200  # nobody else waits for it


def test_nobody_is_shown_how_many_attributes_have_changed(shop: Caller) -> None:
    evaluated(shop)
    shown = [shop.get("/v1/events").json(), shop.get("/metrics").text.count("other_bodies_total 0.0")]
    failure(evaluated(shop, age=20), 400, "GENERAL")
    assert [shop.get("/v1/events").json(), shop.get("/metrics").text.count("other_bodies_total 0.0")] == shown


@pytest.mark.parametrize("settings", [Settings(mismatches_per_hour=1)])
def test_a_token_that_guesses_for_many_people_is_answered_no_more(shop: Caller) -> None:
    for user in range(FLAGS_A_TOKEN):
        evaluated(shop, targetingKey=f"u-{user}")
        failure(evaluated(shop, targetingKey=f"u-{user}", age=20), 400, "GENERAL")
    evaluated(shop, targetingKey="u-last")
    assert evaluated(shop, targetingKey="u-last").status_code == 429


def test_refusals_have_the_form_of_the_protocol(shop: Caller) -> None:
    assert "targetingKey" in failure(evaluated(shop, None), 400, "TARGETING_KEY_MISSING")
    assert failure(shop.post(FLAG, {"context": {"targetingKey": 7}}), 400, "INVALID_CONTEXT")
    assert failure(shop.post(FLAG, {"context": "x"}), 400, "INVALID_CONTEXT")
    said = failure(evaluated(shop, age="young", region="mars"), 400, "INVALID_CONTEXT")
    assert "age is not a number; region is not one of the categories" in said
    assert "young" not in said
    headers = {"Authorization": f"Bearer {shop.token}", "Content-Type": "application/json"}
    assert failure(shop.client.post(FLAG, content=b"{", headers=headers), 400, "PARSE_ERROR")
    assert failure(
        shop.post(f"{FLAGS}/none", {"context": {"targetingKey": "u"}}), 404, "FLAG_NOT_FOUND", "none"
    )
    assert failure(Caller(shop.client, None).post(FLAG, {}), 401, "GENERAL")
    assert failure(shop.with_scopes("read").post(FLAG, {}), 403, "GENERAL")
    assert shop("PATCH", "/v1/policies/offers", {"status": "paused"}, If_Match="*").status_code == 200
    assert "paused" in failure(evaluated(shop, "u-9"), 400, "GENERAL")
    assert failure(shop.post(FLAGS, {"context": 7}), 400, "INVALID_CONTEXT", None)
    big = {"context": {"targetingKey": "u", "x": "y" * (5 << 20)}}
    assert failure(shop.post(FLAG, big), 413, "GENERAL")


def test_a_fallback_is_a_default_and_says_why(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    assert admin.post("/v1/policies", {**OFFERS, "settings": {"fallback": "nothing"}}).status_code == 201
    found = evaluated(admin, age=17).json()
    assert is_evaluation(found)
    assert (found["reason"], found["value"]) == ("DEFAULT", "nothing")
    assert found["metadata"]["reason"] == "context"
    assert found["metadata"]["faults"] == "age is outside the declared range"
    assert evaluated(admin, age=17).json() == found


@pytest.mark.parametrize("arms", [[True, False], [1, 2], [0.5, 1.5]])
def test_values_have_the_type_of_the_arms(admin: Caller, arms: list[Any]) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    assert admin.post("/v1/policies", {**OFFERS, "arms": arms}).status_code == 201
    found = evaluated(admin).json()
    assert is_evaluation(found)
    assert (type(found["value"]), json.loads(found["variant"])) == (type(arms[0]), found["value"])


def kept(service: Service) -> list[Any]:
    with service.store.reading() as reads:
        return [
            reads.rows(f"SELECT * FROM {name}")  # noqa: S608
            for name in ("decisions", "slots", "people", "progress", "events")
        ]


def test_all_flags_are_recommendations_and_take_no_round(service: Service, shop: Caller) -> None:
    for number in range(30):
        shop.decide(f"v{number}", context={"age": 20 + number, "region": "north"})
    before = kept(service)
    reply = shop.with_scopes("read").post(FLAGS, {"context": {"targetingKey": "u-1", **AGNES}})
    (found,) = reply.json()["flags"]
    assert is_evaluation(found)
    assert (found["key"], found["reason"], found["metadata"]) == ("offers", "STATIC", {"release": 1})
    published = dpb.central.PublishedPosterior.from_json(shop.get("/v1/policies/offers/policy").text)
    assert found["value"] == published.recommend(AGNES)
    assert kept(service)[:-1] == before[:-1]  # but for the token's event


def test_all_flags_are_sent_again_only_if_they_are_others(shop: Caller) -> None:
    body = {"context": {"targetingKey": "u-1", **AGNES}}
    first = shop.post(FLAGS, body)
    again = shop.post(FLAGS, body, If_None_Match=f'"other", {first.headers["etag"]}')
    assert (again.status_code, again.content) == (304, b"")
    assert again.headers["etag"] == first.headers["etag"]
    for number in range(30):
        shop.decide(f"v{number}")
    later = shop.post(FLAGS, body, If_None_Match=first.headers["etag"])
    assert later.status_code == 200
    assert later.json()["flags"][0]["metadata"] == {"release": 1}


def test_all_flags_name_active_policies_with_arms_within_the_tokens_limits(shop: Caller) -> None:
    more = {name: value for name, value in OFFERS.items() if name not in ("contexts", "arms")}
    more |= {"domain": {"type": "Box", "low": [0], "high": [1]}, "name": "doses"}
    more |= {"kernel": {"type": "SquaredExponential", "lengthscale": 0.3}, "population": "others"}
    others = {"name": "others", "privacy": {"epsilon": 9, "delta": 1e-4}}
    assert shop.post("/v1/populations", others).status_code == 201
    for body in (more, {**OFFERS, "name": "tips", "population": "others"}):
        assert shop.post("/v1/policies", body).status_code == 201
    context = {"context": AGNES}
    assert [one["key"] for one in shop.post(FLAGS, context).json()["flags"]] == ["offers", "tips"]
    limited = {"label": "x", "scopes": ["decide"], "policies": ["tips"]}
    few = Caller(shop.client, shop.post("/v1/tokens", limited).json()["token"])
    assert [one["key"] for one in few.post(FLAGS, context).json()["flags"]] == ["tips"]
    assert failure(evaluated(few), 404, "FLAG_NOT_FOUND")
    assert "candidates" in failure(evaluated(shop, flag=f"{FLAGS}/doses"), 400, "GENERAL", "doses")
    assert shop("PATCH", "/v1/policies/tips", {"status": "paused"}, If_Match="*").status_code == 200
    (one,) = shop.post(FLAGS, {"context": {"age": 7}}).json()["flags"]
    assert (one["key"], one["errorCode"], "value" in one) == ("offers", "INVALID_CONTEXT", False)
