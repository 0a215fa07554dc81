"""What the routes do, over HTTP."""

import json
from bisect import bisect_right
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import StateError
from dpbandits.service.budgets import promise_of
from dpbandits.service.core import Service
from internals.workers import folding
from service.conftest import AGNES, CUSTOMERS, DEFAULTS, OFFERS, PEOPLE, Caller, Hands, of_the_library, served


def answered(reply: Any, status: int = 200) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    found: dict[str, Any] = reply.json()
    return found


def refused(reply: Any, slug: str, status: int) -> dict[str, Any]:
    assert reply.headers["content-type"] == "application/problem+json"
    found = answered(reply, status)
    assert (found["type"], found["status"]) == (f"urn:dpbandits:{slug}", status)
    return found


def test_a_decision_is_the_librarys_own(shop: Caller) -> None:
    policy = of_the_library()
    for number in range(8):
        answer = answered(shop.decide(f"v{number}"))
        decision = policy.ask(AGNES, user=f"v{number}")
        assert (answer["arm"], answer["propensity"]) == (decision.arm, decision.propensity)
        assert (answer["release"], answer["fallback"]) == (0, False)


@pytest.mark.parametrize("junk", ["unknown", "", None, [1], {"value": 1}])
def test_a_reward_of_a_batch_that_does_not_fit_changes_no_other(shop: Caller, junk: object) -> None:
    ids = [answered(shop.decide(f"v{number}"))["id"] for number in range(3)]
    told = [{"decision": one, "reward": reward} for one, reward in zip(ids, (1, junk, 0), strict=True)]
    results = answered(shop.post("/v1/policies/offers/rewards:batch", {"rewards": told}))["results"]
    assert results[0] == results[2] == {"outcome": "counted"}
    assert (results[1]["problem"]["status"], "unknown" in str(results[1])) == (422, False)


@pytest.mark.parametrize(
    "changed",
    [{"user": ""}, {"user": True}, {"context": "unknown"}, {"context": None}, {"more": 1}, {"id": 7}],
)
def test_a_decision_of_a_batch_that_does_not_fit_changes_no_other(
    shop: Caller, changed: dict[str, Any]
) -> None:
    bodies = [{"id": f"v{number}", "user": f"v{number}", "context": AGNES} for number in range(3)]
    bodies[1] |= changed
    results = answered(shop.post("/v1/policies/offers/decisions:batch", {"decisions": bodies}))["results"]
    assert [set(one) for one in results] == [{"decision"}, {"problem"}, {"decision"}]


def test_the_same_id_and_body_give_the_stored_answer_and_another_body_a_conflict(shop: Caller) -> None:
    first = answered(shop.decide("v1"))
    assert answered(shop.decide("v1")) == first
    refused(shop.decide("v1", context={"age": 45, "region": "west"}), "other-body", 409)
    assert answered(shop.decide("v1")) == first
    assert answered(shop.decide("v2"))["id"] != first["id"]


def test_ids_are_a_tokens_own(shop: Caller) -> None:
    other = shop.with_scopes("decide")
    first, second = answered(shop.decide("v1", user="a")), answered(other.decide("v1", user="b"))
    assert first["id"] != second["id"]


def test_an_answer_says_by_how_many_releases_it_was_made(shop: Caller) -> None:
    """From the decision on at which a release takes effect, that one included."""
    asked, rounds = {**DEFAULTS, "name": "defaults"}, 150
    boundaries = answered(shop.post("/v1/policies:preview", asked))["releases_after_rounds"]
    answered(shop.post("/v1/policies", asked), 201)
    said = [answered(shop.decide(f"v{number}", policy="defaults"))["release"] for number in range(rounds)]
    assert said == [bisect_right(boundaries, number) for number in range(rounds)]
    assert said[-1] >= 2


def test_a_user_has_so_many_rounds(shop: Caller) -> None:
    answered(shop.decide("v1", user="u"))
    refused(shop.decide("v2", user="u"), "user-has-had-all", 409)
    assert (
        answered(shop.decide("v2", user="w"))["fallback"] is False
    )  # a refusal that took nothing keeps no id


@pytest.mark.parametrize(
    ("value", "again", "outcome"), [(1, 0, "counted"), (0.5, 0.5, "counted"), (True, None, "counted")]
)
def test_a_reward_counts_once(shop: Caller, value: Any, again: Any, outcome: str) -> None:
    decision = answered(shop.decide("v1"))["id"]
    assert answered(shop.reward(decision, value)) == {"outcome": outcome}
    assert answered(shop.reward(decision, 0.25)) == {"outcome": "duplicate"}
    assert answered(shop.get(f"/v1/policies/offers/decisions/{decision}")) == {"status": "counted"}


def test_a_reward_off_the_range_waits_on(shop: Caller) -> None:
    decision = answered(shop.decide("v1"))["id"]
    refused(shop.reward(decision, 1.5), "invalid", 422)
    assert answered(shop.reward(decision, 1)) == {"outcome": "counted"}


def test_a_late_reward_is_no_error(shop: Caller) -> None:
    first = answered(shop.decide("v0"))["id"]
    for number in range(1, 40):
        last = answered(shop.decide(f"v{number}"))
    assert last["release"] == 1
    assert answered(shop.reward(first, 1)) == {"outcome": "late"}
    assert answered(shop.reward(first, 1)) == {"outcome": "duplicate"}
    releases = answered(shop.get("/v1/policies/offers/releases"))["releases"]
    assert [one["version"] for one in releases] == [1]


def test_a_bad_context_takes_its_round_and_says_why_to_its_caller(shop: Caller) -> None:
    bad = {"context": {"age": 44}}
    first = refused(shop.decide("v1", **bad), "invalid", 422)
    assert "region" in first["detail"]
    assert "taken" in first["detail"]
    assert refused(shop.decide("v1", **bad), "invalid", 422) == first
    refused(shop.decide("v2", user="v1"), "user-has-had-all", 409)
    assert answered(shop.reward(first["id"], 1)) == {"outcome": "late"}


def test_a_fallback_is_said(admin: Caller) -> None:
    answered(admin.post("/v1/populations", CUSTOMERS), 201)
    answered(admin.post("/v1/policies", {**OFFERS, "settings": {"fallback": "nothing"}}), 201)
    answered(admin.decide("v1", user="u"))
    second = answered(admin.decide("v2", user="u"))
    assert (second["arm"], second["fallback"], second["propensity"]) == ("nothing", True, None)
    assert answered(admin.decide("v2", user="u")) == second
    assert answered(admin.reward(second["id"], 1)) == {"outcome": "late"}


def test_a_fallback_that_is_not_available_is_no_answer(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    assert admin.post("/v1/policies", {**OFFERS, "settings": {"fallback": "nothing"}}).status_code == 201
    refused(admin.decide("v1", context={}, available=["mail", "call"]), "invalid", 422)
    assert admin.decide("v2", context={}, available=["mail", "nothing"]).json()["arm"] == "nothing"


def test_shadow_records_the_callers_own_arm(admin: Caller) -> None:
    answered(admin.post("/v1/populations", CUSTOMERS), 201)
    answered(admin.post("/v1/policies", {**OFFERS, "settings": {"mode": "shadow"}}), 201)
    refused(admin.decide("v0"), "invalid", 422)
    for number in range(6):
        answer = answered(admin.decide(f"v{number}", arm="call"))
        assert (answer["arm"], answer["propensity"]) == ("call", None)
        assert answer["would_choose"] in OFFERS["arms"]


def test_what_is_available_is_chosen(shop: Caller) -> None:
    arms = {answered(shop.decide(f"v{number}", available=["mail", "call"]))["arm"] for number in range(12)}
    assert arms == {"mail", "call"}


def test_candidates_are_chosen_among(admin: Caller) -> None:
    answered(admin.post("/v1/populations", CUSTOMERS), 201)
    asked = {name: value for name, value in OFFERS.items() if name not in ("contexts", "arms")}
    asked |= {
        "domain": {"type": "Box", "low": [0], "high": [1]},
        "kernel": {"type": "SquaredExponential", "lengthscale": 0.3},
    }
    answered(admin.post("/v1/policies", asked), 201)
    rows = [[0.1], [0.5], [0.9]]
    answer = answered(admin.decide("v1", context=None, candidates=rows))
    assert answer["action"] == rows[answer["index"]]
    point = answered(admin.decide("v2", context=None))
    assert 0 <= point["action"][0] <= 1
    refused(admin.decide("v3", context=None, candidates=[["x"]]), "invalid", 422)


def test_a_batch_is_answered_each_by_itself(shop: Caller) -> None:
    bodies = [{"id": f"b{n}", "user": user, "context": AGNES} for n, user in enumerate(["u", "w", "u"])]
    results = answered(shop.post("/v1/policies/offers/decisions:batch", {"decisions": bodies}))["results"]
    assert [sorted(one) for one in results] == [["decision"], ["decision"], ["problem"]]
    told = [
        {"decision": results[0]["decision"]["id"], "reward": 1},
        {"decision": results[0]["decision"]["id"], "reward": 1},
        {"decision": "d1-0", "reward": 1},
    ]
    outcomes = answered(shop.post("/v1/policies/offers/rewards:batch", {"rewards": told}))["results"]
    assert outcomes[:2] == [{"outcome": "counted"}, {"outcome": "duplicate"}]
    assert outcomes[2]["problem"]["status"] == 404


def test_deferred_decisions_are_activated_or_abandoned(shop: Caller) -> None:
    at = "/v1/policies/offers/decisions"
    one = answered(shop.decide("v1", deferred=True))["id"]
    assert answered(shop.get(f"{at}/{one}")) == {"status": "deferred"}
    assert answered(shop.post(f"{at}/{one}:activate")) == {"status": "pending"}
    assert answered(shop.post(f"{at}/{one}:activate")) == {"status": "pending"}
    two = answered(shop.decide("v2", deferred=True))["id"]
    assert answered(shop.post(f"{at}/{two}:abandon")) == {"status": "abandoned"}
    assert answered(shop.post(f"{at}/{two}:activate")) == {"status": "abandoned"}
    assert answered(shop.reward(two, 1)) == {"outcome": "duplicate"}
    assert answered(shop.reward(one, 1)) == {"outcome": "counted"}


@pytest.mark.parametrize(
    ("used", "deferred", "status", "outcome"),
    [
        ({"wait_seconds": 60, "default_reward": 0.25}, False, "defaulted", "duplicate"),
        ({"wait_seconds": 60}, False, "lost", "late"),
        ({"wait_seconds": 60, "default_reward": 0.25}, True, "expired", "late"),
    ],
)
def test_after_the_wait(
    service: Service,
    admin: Caller,
    hands: Hands,
    used: dict[str, float],
    deferred: bool,
    status: str,
    outcome: str,
) -> None:
    answered(admin.post("/v1/populations", CUSTOMERS), 201)
    answered(admin.post("/v1/policies", {**OFFERS, "settings": used}), 201)
    answer = answered(admin.decide("v1", deferred=deferred))
    hands.passed += used["wait_seconds"] - 30.0
    service.tick().result()
    assert answered(admin.get(f"/v1/policies/offers/decisions/{answer['id']}"))["status"] in (
        "pending",
        "deferred",
    )
    hands.passed += 30.0
    service.tick().result()
    hands.wrong -= 1e9  # a clock that is set back takes nothing back
    service.tick().result()
    assert answered(admin.get(f"/v1/policies/offers/decisions/{answer['id']}")) == {"status": status}
    assert answered(admin.reward(answer["id"], 1)) == {"outcome": outcome}
    assert answered(admin.decide("v2"))["expires_at"] >= answer["expires_at"] + 60


def test_a_policy_that_cannot_be_used_stops_nothing_of_others(folder: Path, hands: Hands) -> None:
    settings = {"wait_seconds": 60, "default_reward": 0.25}
    with served(Service(folder)) as admin:
        token = admin.token
        answered(admin.post("/v1/populations", CUSTOMERS), 201)
        for name in ("offers", "others"):
            answered(admin.post("/v1/policies", {**OFFERS, "name": name, "settings": settings}), 201)
        broken, well = (answered(admin.decide("v1", policy=name)) for name in ("offers", "others"))
    again = Service(folder)
    with again.store.writing() as writes:
        writes.run("DELETE FROM progress WHERE policy = (SELECT id FROM policies WHERE name = 'offers')")
    with served(again, token) as admin:
        hands.passed += 32 * 86400.0
        with pytest.raises(StateError):
            again.tick().result()
        found = [
            answered(admin.get(f"/v1/policies/{name}/decisions/{one['id']}"))["status"]
            for name, one in (("offers", broken), ("others", well))
        ]
        assert found == ["pending", "defaulted"]
        assert len(admin.get("/v1/policies/others/raw").text.splitlines()) == 1  # erased
        assert len(admin.get("/v1/policies/offers/raw").text.splitlines()) == 1


def test_the_published_function_is_the_librarys_and_its_etag_its_version(shop: Caller) -> None:
    reply = shop.get("/v1/policies/offers/policy")
    function = dpb.central.PublishedPosterior.from_json(reply.text)
    assert function.recommend(AGNES) in OFFERS["arms"]
    etag = reply.headers["etag"]
    assert shop.get("/v1/policies/offers/policy", If_None_Match=etag).status_code == 304
    for number in range(40):
        answered(shop.decide(f"v{number}"))
    later = shop.get("/v1/policies/offers/policy", If_None_Match=etag)
    assert later.status_code == 200
    assert later.headers["etag"] != etag
    assert shop.get("/v1/policies/offers/policy").text == later.text


def test_functions_are_written_down_as_they_are_released(service: Service, shop: Caller) -> None:
    for number in range(48):
        answered(shop.decide(f"v{number}"))
    service.tick().result()
    with service.store.reading() as reads:
        kept = reads.rows("SELECT version, published FROM releases ORDER BY version")
    assert kept[-1][1] == shop.get("/v1/policies/offers/policy").text
    assert [version for version, _ in kept] == [0, 1, 2]  # the first is what is believed before any data
    for _, text in kept:
        assert dpb.central.PublishedPosterior.from_json(text).to_json() == text


def test_a_release_is_made_while_others_are_answered(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.ledger.open_account("customers", privacy=promise_of(CUSTOMERS["privacy"]))
    tuning = {"blocks": [6, 60], "n_features": 3, "lag": 20}
    service.begin_policy({**OFFERS, "horizon": 60, "tuning": tuning, "settings": {}}, by="")
    to_json, made = dpb.central.PublishedPosterior.to_json, []

    def decided(number: int) -> Any:
        body = {"id": f"v{number}", "user": f"v{number}", "context": AGNES}
        return json.loads(service.decide("offers", "t", body).result(60.0))

    def slowly(function: dpb.central.PublishedPosterior) -> str:
        made.append(decided(99))
        return to_json(function)

    monkeypatch.setattr(dpb.central.PublishedPosterior, "to_json", slowly)
    for number in range(7):
        decided(number)
    folding(service).turn()  # or its own thread
    service.close()
    assert [one["release"] for one in made] == [0]


def test_who_cancels_a_tick_stops_no_later_one(service: Service, admin: Caller) -> None:
    """As the application does when it ends."""
    for _ in range(20):
        service.tick().cancel()
    service.tick().result(60.0)


def test_the_guarantee_is_prose_and_json(shop: Caller) -> None:
    found = answered(shop.get("/v1/policies/offers/guarantee"))
    guarantee = dpb.privacy.Guarantee.from_json(json.dumps(found["guarantee"]))
    assert found["statement"] == guarantee.explain()
    assert guarantee.status == "enforced"


def test_a_policy_that_does_not_fit_is_refused_and_nothing_is_kept(admin: Caller) -> None:
    answered(
        admin.post("/v1/populations", {"name": "customers", "privacy": {"epsilon": 1.5, "delta": 1e-6}}), 201
    )
    seen = answered(admin.post("/v1/policies:preview", OFFERS))
    assert seen["fits"]
    assert seen["releases_after_rounds"]
    assert answered(admin.get("/v1/populations/customers"))["parts"][0]["spent"] == "0"
    answered(admin.post("/v1/policies", OFFERS), 201)
    spent = answered(admin.get("/v1/populations/customers"))
    assert spent["parts"] == seen["population"]["after"]["parts"]
    second = {**OFFERS, "name": "second", "privacy": {"epsilon": 1.4, "delta": 1e-6}}
    assert not answered(admin.post("/v1/policies:preview", second))["fits"]
    refused(admin.post("/v1/policies", second), "budget-exceeded", 409)
    assert answered(admin.get("/v1/populations/customers")) == spent
    refused(admin.get("/v1/policies/second"), "not-found", 404)


def test_beginning_again_is_the_same_policy(shop: Caller) -> None:
    spent = answered(shop.get("/v1/populations/customers"))
    answered(shop.post("/v1/policies", OFFERS), 201)
    assert answered(shop.get("/v1/populations/customers")) == spent
    refused(shop.post("/v1/policies", {**OFFERS, "horizon": 500}), "conflict", 409)


def test_changes_rest_on_what_was_read(shop: Caller) -> None:
    at = "/v1/policies/offers"
    etag = shop.get(at).headers["etag"]
    refused(shop("PATCH", at, {"status": "paused"}), "needs-if-match", 428)
    assert answered(shop("PATCH", at, {"status": "paused"}, If_Match=etag))["status"] == "paused"
    refused(shop("PATCH", at, {"status": "active"}, If_Match=etag), "changed-meanwhile", 412)
    refused(shop.decide("v1"), "conflict", 409)
    etag = shop.get(at).headers["etag"]
    assert answered(shop("PATCH", at, {"status": "retired"}, If_Match=etag))["status"] == "retired"
    refused(shop("PATCH", at, {"status": "active"}, If_Match="*"), "conflict", 409)


def test_a_beginning_that_fails_has_paid_nothing_and_stops_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with served(Service(folder)) as admin:
        answered(admin.post("/v1/populations", CUSTOMERS), 201)
        answered(admin.post("/v1/policies", {**OFFERS, "name": "others"}), 201)
        spent = answered(admin.get("/v1/populations/customers"))

        def fails(*_: object, **__: object) -> None:
            raise StateError("as where the disk is full once the account has paid")

        with monkeypatch.context() as broken:
            broken.setattr("dpbandits.state.holder.Holder.save", fails)
            refused(admin.post("/v1/policies", OFFERS), "not-recorded", 503)
        assert answered(admin.get("/v1/populations/customers")) == spent
        refused(admin.get("/v1/policies/offers"), "not-found", 404)
        answered(admin.decide("v1", policy="others"))
        answered(admin.post("/v1/policies", {**OFFERS, "horizon": 500}), 201)
        answered(admin.decide("v1"))


def test_two_services_never_share_a_folder(service: Service, folder: Path) -> None:
    with pytest.raises(StateError, match="uses this folder"):
        Service(folder)
    service.close()


def test_a_service_goes_on_where_it_stood(folder: Path) -> None:
    with served(Service(folder)) as admin:
        answered(admin.post("/v1/populations", CUSTOMERS), 201)
        answered(admin.post("/v1/policies", OFFERS), 201)
        answers = [answered(admin.decide(f"v{number}")) for number in range(48)]
        answered(admin.reward(answers[-1]["id"], 1))
        text = admin.get("/v1/policies/offers/policy").text
        token = admin.token
    again = Service(folder)
    assert again.first_token is None
    with served(again, token) as admin:
        assert answered(admin.decide("v7")) == answers[7]
        assert answered(admin.decide("new"))["release"] == answers[-1]["release"] >= 1
        assert admin.get("/v1/policies/offers/policy").text == text
        assert answered(admin.reward(answers[-1]["id"], 1)) == {"outcome": "duplicate"}
        assert answered(admin.reward(answers[-2]["id"], 1)) == {"outcome": "counted"}


def test_problems_quote_nothing(shop: Caller) -> None:
    canary = "canary-8d1f"
    for reply in (
        shop.decide("v1", **{canary: 1}),
        shop.decide(canary * 50),
        shop.decide("v1", context={"age": canary, "region": canary, canary: 1}),
        shop.decide("v2", available=[canary]),
        shop.decide("v3", deferred=canary),
        shop.reward(canary, 1),
        shop.reward("d1-00", canary),
        shop.post("/v1/policies", {**OFFERS, canary: canary}),
        shop.post("/v1/policies", {**OFFERS, "name": canary.upper()}),
        shop.get(f"/v1/{canary}"),
        shop.get(f"/v1/policies/{canary}"),
    ):
        assert reply.status_code in (404, 422), reply.text
        assert canary not in reply.text


def test_numbers_that_are_none(shop: Caller) -> None:
    decision = answered(shop.decide("v1"))["id"]
    at = f"/v1/policies/offers/decisions/{decision}/reward"
    for body in (
        '{"reward":NaN}',
        '{"reward":Infinity}',
        '{"reward":1e999}',
        '{"reward":null}',
        '{"reward":',
        "[]",
    ):
        reply = shop.client.put(
            at,
            content=body,
            headers={"Authorization": f"Bearer {shop.token}", "Content-Type": "application/json"},
        )
        assert reply.status_code in (400, 422), (body, reply.text)
    assert answered(shop.reward(decision, 1)) == {"outcome": "counted"}


def test_a_refusal_names_members_of_messages_and_nothing_that_a_caller_named(shop: Caller) -> None:
    at = "/v1/policies/offers"
    found = answered(shop.post(f"{at}/rewards:batch", {"rewards": [{"reward": 1}]}))["results"]
    assert found[0]["problem"]["detail"] == "decision is missing."
    found = refused(shop.post(f"{at}/rewards:batch", {"agnes_has_debts": 1}), "invalid", 422)
    assert found["detail"] == "body.rewards is missing; body.member is not known here."
    found = refused(shop.decide("v1", agnes_has_debts=True), "invalid", 422)
    assert found["detail"] == "body.member is not known here."
    decision = answered(shop.decide("v2"))["id"]
    found = refused(shop.reward(decision, "agnes_has_debts"), "invalid", 422)
    assert found["detail"] == "body.reward is not a number and is not true or false."
    found = refused(shop.post(f"{at}/decisions:check", {"contexts": [{}, "agnes_has_debts"]}), "invalid", 422)
    assert found["detail"] == "body.contexts.1 is not an object."
    headers = {"Authorization": f"Bearer {shop.token}", "Content-Type": "application/json"}
    for path in ("decisions", "decisions:check"):
        reply = shop.client.post(f"{at}/{path}", content="agnes_has_debts", headers=headers)
        assert refused(reply, "malformed", 400)["detail"] == "body is no JSON."


def test_releases_move_with_the_rounds_and_the_rows_are_forgotten(service: Service, shop: Caller) -> None:
    rng = np.random.default_rng(1)
    for number in range(100):
        answer = answered(
            shop.decide(f"v{number}", context={"age": int(rng.integers(18, 90)), "region": "west"})
        )
        answered(shop.reward(answer["id"], float(rng.integers(2))))
    releases = answered(shop.get("/v1/policies/offers/releases"))["releases"]
    assert [one["version"] for one in releases] == list(range(1, len(releases) + 1))
    assert len(releases) == answer["release"] >= 3
    with service.store.reading() as reads:
        slots = [row[0] for row in reads.rows("SELECT slot FROM slots ORDER BY slot")]
    assert slots == list(range(releases[-1]["rounds"], 100))


def test_people_are_the_contexts(shop: Caller) -> None:
    assert answered(shop.get("/v1/policies/offers"))["contexts"] == PEOPLE
