"""Settings of `GPTuning` in a request are the library's own, also with workers and after a restart."""

import json
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import dpbandits as dpb
from dpbandits.policy import kept
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.service.budgets import promise_of
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import CUSTOMERS, OFFERS, PEOPLE, Caller

ROUNDS = 90
FADES = {"blocks": [30, 60, 90], "forget": 30, "lag": 2}
COUNTS = {"blocks": [30, 60, 90], "census": True, "lag": 2}
MIXED = {"blocks": [30, 60, 90], "release": "features", "n_features": 3, "lag": 2}
NEITHER = {**COUNTS, "census": False}


BEGAN = "[ ] Disjoint users: Nobody whose data is in the published function given to warm_start"
SOME = dpb.JointDP(epsilon=1, delta=1e-6)


def asked_with(tuning: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**OFFERS, "horizon": ROUNDS, "tuning": tuning, **more}


def of_the_library(tuning: dict[str, Any], privacy: dpb.JointDP = SOME) -> dpb.central.GPBandit:
    return dpb.central.GPBandit(
        contexts=dpb.Schema.from_config({"type": "Schema", "columns": PEOPLE}),
        arms=OFFERS["arms"],
        reward_range=(0, 1),
        horizon=ROUNDS,
        privacy=privacy,
        tuning=dpb.central.GPTuning(**tuning),
        noise=SimulatedNoise(7),
    )


@cache
def elsewhere() -> str:
    """A published function of other people's data, in which "call" is the best arm of everybody."""
    policy = of_the_library({"blocks": [60, 90]}, privacy=dpb.JointDP(epsilon=50, delta=1e-6))
    for number in range(ROUNDS):
        decision = policy.ask({"age": 18 + number % 60, "region": "west"}, user=f"u{number}")
        policy.tell(decision.id, float(decision.arm == "call"))
    return policy.publish().to_json()


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("tuning", [FADES, COUNTS, MIXED], ids=["forget", "census", "features"])
@pytest.mark.parametrize("shared", [False, True], ids=["restarted", "two workers"])
def test_every_decision_is_the_librarys_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tuning: dict[str, Any], shared: bool, warm: bool
) -> None:
    monkeypatch.setattr(kept, "SecureNoise", partial(SimulatedNoise, 7))
    begun = {"warm_start": {"function": json.loads(elsewhere()), "disjoint": True}} if warm else {}
    settings = Settings(database=databases.any_kind() if shared else "")
    policy = of_the_library(tuning)
    if warm:
        policy.warm_start(dpb.central.PublishedPosterior.from_json(elsewhere()), disjoint=True)
    workers = [Service(folder, settings=settings) for _ in range(1 + shared)]
    try:
        workers[0].ledger.open_account("customers", privacy=promise_of(CUSTOMERS["privacy"]))
        workers[0].begin_policy({**asked_with(tuning, **begun), "settings": {}}, by="")
        released, first = set(), ""
        for number in range(ROUNDS):
            if number == 45 and not shared:
                workers[0].close()
                workers[0] = Service(folder, settings=settings)
            context = {"age": 18 + number % 60, "region": ("north", "south", "west")[number % 3]}
            body = {"id": f"v{number}", "user": f"v{number}", "context": context}
            answer = json.loads(workers[number % len(workers)].decide("offers", "t", body).result(60.0))
            decision = policy.ask(context, user=f"v{number}")
            assert (answer["arm"], answer["propensity"]) == (decision.arm, decision.propensity), number
            released.add(answer["release"])
            first = answer["arm"] if number == 0 else first
            value = float(answer["arm"] == OFFERS["arms"][number // 45])
            assert workers[number // 2 % len(workers)].reward("offers", answer["id"], value).result(60.0)
            policy.tell(decision.id, value)
        assert released == {0, 1, 2}
        if warm:
            assert first == "call"  # before anybody was told
        text, _ = workers[-1].published("offers")
        published, own = json.loads(text), policy.publish()
    finally:
        for worker in workers:
            worker.close()
    law = dpb.central.PublishedPosterior.from_json(text)
    assert law.recommend_batch([context, PERSON]) == own.recommend_batch([context, PERSON])
    mechanisms = [one["name"] for one in published["guarantee"]["mechanisms"]]
    assert mechanisms == [one.name for one in own.guarantee.mechanisms]
    assert published["guarantee"]["epsilon"] == own.guarantee.epsilon


PERSON = {"age": 70, "region": "west"}


def learned(admin: Caller, name: str, tuning: dict[str, Any]) -> Any:
    """The arm that is recommended after people have changed: first one arm is good, and then the other."""
    columns = [PEOPLE[1]]
    asked = asked_with(tuning, name=name, contexts=columns, arms=["mail", "call"], privacy=PLENTY)
    assert admin.post("/v1/policies", asked).status_code == 201
    for number in range(ROUNDS):
        context = {"region": "west"}
        answer = admin.decide(f"v{number}", policy=name, context=context).json()
        good = "mail" if number < 60 else "call"
        assert admin.reward(answer["id"], int(answer["arm"] == good), policy=name).status_code == 200
    text = admin.get(f"/v1/policies/{name}/policy").text
    return dpb.central.PublishedPosterior.from_json(text).recommend({"region": "west"})


PLENTY = {"epsilon": 100, "delta": 1e-6}


def test_a_policy_that_forgets_follows_people_who_change(admin: Caller) -> None:
    people = {"name": "customers", "privacy": {"epsilon": 1000, "delta": 1e-5}}
    assert admin.post("/v1/populations", people).status_code == 201
    found = {
        name: learned(admin, name, {"blocks": [15, 30, 45, 60, 75, 90], "lag": 0, **tuning})
        for name, tuning in (("forgets", {"forget": 10}), ("remembers", {}))
    }
    assert found == {"forgets": "call", "remembers": "mail"}


@pytest.mark.parametrize(
    ("tuning", "said"),
    [
        ({"forget": 1}, "forget"),
        ({"forget": 30, "census": True}, "census"),
        ({"census": "yes"}, "census"),
        ({"forget": 2.5}, "forget"),
    ],
)
def test_what_the_library_refuses_is_refused_in_its_words(
    admin: Caller, tuning: dict[str, Any], said: str
) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    for path in ("/v1/policies:preview", "/v1/policies"):
        reply = admin.post(path, asked_with({"blocks": [30, 60, 90], **tuning}))
        assert reply.status_code == 422
        assert said in reply.json()["detail"]
    assert admin.get("/v1/policies").json() == {"policies": []}


@pytest.mark.parametrize("tuning", [COUNTS, NEITHER], ids=["census", "without"])
def test_a_census_is_named_in_the_guarantee_and_can_be_left_out(
    admin: Caller, tuning: dict[str, Any]
) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    assert admin.post("/v1/policies", asked_with(tuning)).status_code == 201
    stated = admin.get("/v1/policies/offers/guarantee").json()["guarantee"]
    assert ("census" in json.dumps(stated)) == tuning["census"]


def test_a_warm_start_is_in_the_statement_and_costs_nothing_here(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    begins = {"function": json.loads(elsewhere()), "disjoint": True}
    asked = asked_with(FADES, warm_start=begins)
    warm, cold = (admin.post("/v1/policies:preview", one).json() for one in (asked, asked_with(FADES)))
    assert warm["cost"] == cold["cost"]
    assert [BEGAN in one["statement"] for one in (warm, cold)] == [True, False]
    begun = admin.post("/v1/policies", asked)
    assert (begun.status_code, sorted(begun.json()["warm_start"])) == (201, ["disjoint", "sha256"])
    assert admin.post("/v1/policies", asked).json() == begun.json()  # the same request begins nothing
    assert admin.post("/v1/policies", asked_with(FADES)).status_code == 409
    assert BEGAN in admin.get("/v1/policies/offers/guarantee").json()["statement"]


@pytest.mark.parametrize(
    ("begins", "said"),
    [
        ({"function": {}, "disjoint": True}, "expected a function"),
        ({"function": None, "disjoint": True}, "warm_start"),
        ({"disjoint": True}, "warm_start"),
        ({"function": "the one above", "disjoint": False}, "other people"),
        ({"function": "of other columns", "disjoint": True}, "other contexts"),
    ],
)
def test_a_warm_start_that_does_not_fit_is_refused_in_plain_words(
    admin: Caller, begins: dict[str, Any], said: str
) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    asked = asked_with(FADES, warm_start=begins)
    if isinstance(begins.get("function"), str):
        other = begins["function"] == "of other columns"
        asked["warm_start"] = {**begins, "function": json.loads(elsewhere())}
        asked["contexts"] = PEOPLE[:1] if other else PEOPLE
    for path in ("/v1/policies:preview", "/v1/policies"):
        reply = admin.post(path, asked)
        assert (reply.status_code, said in reply.json()["detail"]) == (422, True), reply.text
    (part, *_) = admin.get("/v1/populations/customers").json()["parts"]
    assert part["spent"] == "0"
