"""A private readout over HTTP: groups, metrics, looks, and the answer."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dpbandits as dpb
from dpbandits.policy import kept
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.service.answers import Named, example_of
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from internals.workers import die_at_looks
from service import databases
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller, Hands, served
from service.test_http import answered, refused
from service.test_retention import told_the_time

READOUT = {
    "control": {"arm": "nothing", "share": 0.3},
    "metrics": {"complaint": "bool", "revenue": {"low": 0, "high": 500}},
    "looks": 3,
    "segments": "region",
}
ASKED = {name: value for name, value in OFFERS.items() if name not in ("tuning", "horizon")} | {
    "name": "read",
    "horizon": 90,
    "tuning": {"blocks": [20, 50, 89], "n_features": 3, "reporting_delay": 1},
    "readout": READOUT,
}
LOOKS = "/v1/policies/read/readout"
SEGMENTS = [f"region {name}" for name in ("north", "south", "west")]


def begun(shop: Caller, **changed: Any) -> dict[str, Any]:
    return answered(shop.post("/v1/policies", {**ASKED, **changed}), 201)


def of_the_library(**changed: Any) -> dpb.central.GPBandit:
    readout = {**READOUT, **changed}
    return dpb.central.GPBandit(
        contexts=dpb.Schema.from_config({"type": "Schema", "columns": ASKED["contexts"]}),
        arms=ASKED["arms"],
        reward_range=(0, 1),
        horizon=90,
        privacy=dpb.JointDP(**ASKED["privacy"]),
        tuning=dpb.central.GPTuning(**ASKED["tuning"]),
        readout=dpb.Readout.from_config(readout),
    )


def told(caller: Caller, decision: str, reward: object, metrics: object) -> Any:
    body = {"reward": reward, "metrics": metrics}
    return caller.put(f"/v1/policies/read/decisions/{decision}/reward", body)


def outcome(number: int) -> tuple[float, dict[str, Any]]:
    return float(number % 3 == 0), {"complaint": number % 7 == 0, "revenue": 10.0 * (number % 30)}


def decided(caller: Caller, start: int, stop: int) -> list[dict[str, Any]]:
    """Ask without users in rounds start..stop-1, one after the other, and tell each outcome at once."""
    found = []
    for number in range(start, stop):
        body = {"id": f"v{number}", "context": AGNES}
        found.append(answered(caller.post("/v1/policies/read/decisions", body)))
        assert answered(told(caller, found[-1]["id"], *outcome(number))) == {"outcome": "counted"}
    return found


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise that can be drawn again."""
    monkeypatch.setattr(kept, "SecureNoise", lambda: SimulatedNoise(7))


@pytest.fixture
def address() -> str:
    return databases.any_kind()


@pytest.fixture
def two(folder: Path, address: str) -> Iterator[tuple[Caller, Caller]]:
    """Callers of two workers of one database."""
    settings = Settings(database=address)
    with served(Service(folder, settings=settings)) as one:
        answered(one.post("/v1/populations", CUSTOMERS), 201)
        begun(one)
        with served(Service(folder, settings=settings), one.token) as other:
            yield one, other


def test_two_workers_do_what_the_library_does(two: tuple[Caller, Caller]) -> None:
    policy, places = of_the_library(), {"policy": 0, "control": 0}
    for number in range(90):
        caller = two[number % 2]
        answer = answered(caller.decide(f"v{number}", policy="read"))
        places[answer["group"]] += 1
        if answer["group"] == "control":
            assert (answer["arm"], answer["propensity"]) == ("nothing", 1.0)
        if number < 20:  # uniform arms, before any noise
            assert answer["arm"] in policy.arms
        reward, metrics = outcome(number)
        assert answered(told(two[1 - number % 2], answer["id"], reward, metrics)) == {"outcome": "counted"}
    assert min(places.values()) > 10
    for caller in two:
        found = released(caller, 3)
        assert (found["planned_looks"], found["ends"]) == (3, [29, 59, 89])
    readings = found["result"]["readings"]
    assert sum(readings["rounds"]) == 89  # the last reward would come after the last look
    assert 0 <= places["control"] - readings["rounds"][0] <= 1
    assert [one["name"] for one in readings["metrics"]] == ["reward", "complaint", "revenue"]
    assert found["result"]["sentence"]
    assert [one["name"] for one in found["result"]["segments"]] == SEGMENTS
    assert alike(found, example_of(Named("Readout")))


def alike(found: Any, example: Any) -> bool:
    """Return True if an answer has the members of its documented example."""
    if isinstance(example, dict) and "readings" in example:
        found, example = {**found, "learning": 0}, {**example, "learning": 0}  # any promise
    if isinstance(example, dict) and isinstance(found, dict):
        return found.keys() == example.keys() and all(alike(found[one], example[one]) for one in found)
    return not isinstance(example, list) or not example or alike(found[0], example[0])


def test_an_early_end_is_one_for_two_workers_and_the_policy_serves_everybody_afterwards(
    two: tuple[Caller, Caller],
) -> None:
    end = "/v1/policies/read/readout:end"
    refused(two[0].post(end, {}), "conflict", 409)
    for number in range(40):
        answer = answered(two[number % 2].decide(f"v{number}", policy="read"))
        assert answered(told(two[0], answer["id"], *outcome(number))) == {"outcome": "counted"}
    assert answered(two[0].get(LOOKS))["over"] is False
    for caller in (*two, two[0]):
        answered(caller.post(end, {}))
    later = [answered(two[number % 2].decide(f"v{number}", policy="read")) for number in range(40, 70)]
    assert {answer.get("group") for answer in later} == {"policy", None}
    found = [answered(caller.get(LOOKS)) for caller in two]
    assert found[0] == found[1] == answered(two[1].post(end, {}))
    assert (found[0]["over"], found[0]["looks"]) == (True, 2)
    assert sum(found[0]["result"]["readings"]["rounds"]) == 39  # the last round is within its delay
    assert [one["name"] for one in found[0]["result"]["segments"]] == SEGMENTS
    assert "ended early" in found[0]["result"]["sentence"]


NO_IDS = {**ASKED, "privacy": {**ASKED["privacy"], "user_ids": False}}


def of_the_same_noise(**changed: Any) -> dpb.central.GPBandit:
    """The library's policy without user ids: groups of rounds do not depend on a secret key then."""
    readout = dpb.Readout.from_config({**READOUT, **changed})
    policy = of_the_library()
    config = {**policy.to_config(), "readout": readout.to_config()}
    config["privacy"] = dpb.JointDP(**NO_IDS["privacy"]).to_config()
    return dpb.central.GPBandit.from_config(config)


def as_one(caller: Caller, policy: dpb.central.GPBandit, start: int, stop: int) -> None:
    """Demand that rounds start..stop-1 have the arms and groups of the library's policy."""
    for answer, number in zip(decided(caller, start, stop), range(start, stop), strict=True):
        decision = policy.ask(AGNES)
        reward, metrics = outcome(number)
        policy.tell(decision.id, reward, **metrics)
        assert (answer["arm"], answer["group"]) == (decision.arm, decision.group), number


def released(caller: Caller, looks: int) -> dict[str, Any]:
    """Wait until so many looks are there, and return the answer."""
    for _ in range(500):
        found: dict[str, Any] = answered(caller.get(LOOKS))
        if found["looks"] >= looks:
            break
        time.sleep(0.02)
    assert found["looks"] == looks
    return found


@pytest.mark.usefixtures("quiet")
def test_looks_are_those_of_the_library_though_the_service_is_closed_between_them(folder: Path) -> None:
    policy, token = of_the_same_noise(), None
    for start in range(0, 90, 18):  # ends of blocks and looks, and places in between
        with served(Service(folder), token) as caller:
            if not start:
                token = caller.token
                answered(caller.post("/v1/populations", CUSTOMERS), 201)
                begun(caller, privacy=NO_IDS["privacy"])
            as_one(caller, policy, start, start + 18)
    with served(Service(folder), token) as caller:
        found = released(caller, 3)
    assert found["result"] == json.loads(json.dumps(policy.readout().to_json()))


@pytest.mark.usefixtures("quiet")
def test_looks_are_those_of_the_library_though_the_clock_is_wrong(
    service: Service, shop: Caller, hands: Hands
) -> None:
    begun(shop, privacy=NO_IDS["privacy"])
    policy = of_the_same_noise()
    for start, wrong in ((0, 0.0), (30, 4e8), (60, -4e8)):
        hands.wrong = wrong
        told_the_time(service)
        as_one(shop, policy, start, start + 30)
    assert released(shop, 3)["result"] == json.loads(json.dumps(policy.readout().to_json()))


@pytest.mark.parametrize(
    "changed",
    [
        {"tuning": {"lag": 2}},
        {"settings": {"mode": "shadow"}},
        {"readout": {**READOUT, "control": {"arm": "fax"}}},
        {"readout": {**READOUT, "stop": {"harm": "noise"}}},
        {"readout": {**READOUT, "metrics": {"complaint": "number"}}},
        {"readout": {**READOUT, "metrics": {"complaint": {"low": 3, "high": 2}}}},
        {"readout": {**READOUT, "minimum": [["fax", 0.1]]}},
    ],
)
def test_what_does_not_fit_is_refused(shop: Caller, changed: dict[str, Any]) -> None:
    refused(shop.post("/v1/policies", {**ASKED, **changed}), "invalid", 422)


def test_a_policy_without_a_readout(shop: Caller) -> None:
    refused(shop.get("/v1/policies/offers/readout"), "conflict", 409)
    decision = answered(shop.decide("v1"))
    assert "group" not in decision
    body = {"reward": 1, "metrics": {"complaint": False}}
    refused(shop.put(f"/v1/policies/offers/decisions/{decision['id']}/reward", body), "invalid", 422)
    assert answered(shop.reward(decision["id"], 1)) == {"outcome": "counted"}


JUNK = [None, "no", "nan", [1], {"a": 1}, 10**400, -(10**400), 2, -1, 0.5, 1e308]


@pytest.mark.usefixtures("quiet")
def test_a_value_that_cannot_be_read_counts_as_the_default_one_by_one_and_in_batches(shop: Caller) -> None:
    begun(shop, privacy=NO_IDS["privacy"])
    policy = of_the_same_noise()
    for number in range(90):
        decision = answered(shop.post("/v1/policies/read/decisions", {"id": f"v{number}", "context": AGNES}))
        policy.tell(policy.ask(AGNES).id, 1.0, complaint=number % 2 == 0, revenue=0)
        junk = JUNK[number % len(JUNK)]
        complaint = True if number % 2 == 0 else junk
        metrics = {"complaint": complaint, "revenue": junk if junk not in (2, 0.5) else -3}
        if number % 3:
            assert answered(told(shop, decision["id"], 1, metrics)) == {"outcome": "counted"}
        else:
            body = {"rewards": [{"decision": decision["id"], "reward": 1, "metrics": metrics}]}
            found = answered(shop.post("/v1/policies/read/rewards:batch", body))
            assert found["results"] == [{"outcome": "counted"}]
    assert released(shop, 3)["result"] == json.loads(json.dumps(policy.readout().to_json()))


def test_an_unknown_metric_of_one_reward_does_not_affect_the_others(shop: Caller) -> None:
    begun(shop)
    ids = [answered(shop.decide(f"v{number}", policy="read"))["id"] for number in range(3)]
    names = ("complaint", "complain", "revenue")
    rewards = [
        {"decision": one, "reward": 1, "metrics": {name: 1}} for one, name in zip(ids, names, strict=True)
    ]
    found = answered(shop.post("/v1/policies/read/rewards:batch", {"rewards": rewards}))["results"]
    assert [one.get("outcome") for one in found] == ["counted", None, "counted"]
    assert found[1]["problem"]["status"] == 422
    assert "complain" not in json.dumps(found[1])


@pytest.mark.parametrize("kind", ["folder", "database"])
def test_the_raw_export_has_the_metrics_until_they_are_erased(
    folder: Path, hands: Hands, address: str, kind: str
) -> None:
    service = Service(folder, settings=Settings(database=address if kind == "database" else ""))
    with served(service) as shop:
        answered(shop.post("/v1/populations", CUSTOMERS), 201)
        begun(shop)
        ids = [answered(shop.decide(f"v{number}", policy="read"))["id"] for number in range(6)]
        given = [{"complaint": True, "revenue": "much"}, {}, *({"revenue": 20.25 + one} for one in range(4))]
        for one, metrics in zip(ids[:2], given, strict=False):
            assert answered(told(shop, one, 1, metrics)) == {"outcome": "counted"}
        pairs = zip(ids[2:], given[2:], strict=True)
        rewards = [{"decision": one, "reward": 0, "metrics": metrics} for one, metrics in pairs]
        answered(shop.post("/v1/policies/read/rewards:batch", {"rewards": rewards}))
        lines = [json.loads(line) for line in shop.get("/v1/policies/read/raw").text.splitlines()[1:]]
        assert [line["id"] for line in lines] == ids
        expected = [{"complaint": 1.0, "revenue": None}, None, *given[2:]]
        assert [line.get("metrics") for line in lines] == expected
        hands.passed += 31 * 86400.0
        told_the_time(service)
        hands.passed += 86400.0  # rounds in no release are erased a little later
        told_the_time(service)
        assert shop.get("/v1/policies/read/raw").text.count("\n") == 1  # the warning
        for table in ("decisions", "slots"):
            query = f"SELECT metrics FROM {table}"  # noqa: S608
            assert service.read(lambda reads, query=query: reads.rows(query)) == [(None,)] * 6


def test_a_flag_tells_the_group_of_its_user(shop: Caller) -> None:
    begun(shop)
    found = {}
    for number in range(20):
        context = {"targetingKey": f"u{number}", **AGNES}
        flag = answered(shop.post("/ofrep/v1/evaluate/flags/read", {"context": context}))
        group = flag["metadata"]["group"]
        assert group == "policy" or flag["value"] == "nothing"
        found[number] = group
    assert set(found.values()) == {"policy", "control"}
    lines = [json.loads(line) for line in shop.get("/v1/policies/read/raw").text.splitlines()[1:]]
    assert [line["group"] for line in lines] == list(found.values())


STOPS = {
    "stop": {"harm": "complaint", "above": 0.01, "then": "control"},
    "metrics": {"complaint": "bool"},
    "weights": {"complaint": 5},
}


@pytest.mark.usefixtures("quiet")
def test_a_rule_that_stops_serves_the_control_from_the_same_round_on_as_the_library(shop: Caller) -> None:
    answered(shop.post("/v1/populations", {"name": "many", "privacy": {"epsilon": 49, "delta": 1e-5}}), 201)
    privacy = {"epsilon": 45, "delta": 1e-6, "user_ids": False}
    begun(shop, population="many", privacy=privacy, readout={**READOUT, **STOPS})
    config = of_the_same_noise(**STOPS).to_config() | {"privacy": dpb.JointDP(**privacy).to_config()}
    policy, arms = dpb.central.GPBandit.from_config(config), []
    for number in range(90):
        answer = answered(shop.post("/v1/policies/read/decisions", {"id": f"v{number}", "context": AGNES}))
        decision = policy.ask(AGNES)
        assert (answer["arm"], answer.get("group")) == (decision.arm, decision.group), number
        harmed = {"complaint": decision.group == "policy"}
        policy.tell(decision.id, 0.5, **harmed)
        answered(told(shop, answer["id"], 0.5, harmed))
        arms.append((answer["arm"], answer.get("group")))
    assert arms[-1] == ("nothing", None)
    result = released(shop, 1)["result"]
    assert result["stopped"] == 1
    assert set(arms[30:]) == {("nothing", None)}


def test_a_look_that_dies_before_it_is_stored_is_made_once(folder: Path) -> None:

    def life() -> None:
        """Serve until the first look was computed, and die before it is stored."""
        die_at_looks(folder.parent)
        with served(Service(folder)) as caller:
            (folder.with_name("token")).write_text(str(caller.token))
            answered(caller.post("/v1/populations", CUSTOMERS), 201)
            begun(caller)
            for number in range(40):
                answered(caller.decide(f"v{number}", policy="read"))

    child = os.fork()
    if not child:
        try:
            life()
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    drawn = json.loads(folder.with_name("computed-1").read_text())
    service = Service(folder)
    with served(service, folder.with_name("token").read_text()) as caller:
        first = released(caller, 1)
        for number in range(40):  # repeated requests have the stored answers, and take no rounds
            answered(caller.decide(f"v{number}", policy="read"))
        assert released(caller, 1) == first
        fact = service.read(lambda reads: reads.rows("SELECT value FROM facts WHERE name LIKE 'readout %'"))
    (stored,) = (json.loads(value)["looks"] for (value,) in fact)
    assert stored[0][1] == drawn[1]  # the public numbers
    assert stored[0][0] != drawn[0]  # noise that nobody saw was drawn again


def test_an_early_end_whose_look_dies_before_it_is_stored_is_made_once(folder: Path) -> None:
    end = "/v1/policies/read/readout:end"

    def life() -> None:
        """End the comparison, and die when its last look was computed."""
        die_at_looks(folder.parent)
        with served(Service(folder)) as caller:
            (folder.with_name("token")).write_text(str(caller.token))
            answered(caller.post("/v1/populations", CUSTOMERS), 201)
            begun(caller)
            for number in range(20):
                answered(caller.decide(f"v{number}", policy="read"))
            answered(caller.post(end, {}))
            answered(caller.decide("v20", policy="read"))  # waits for the end

    child = os.fork()
    if not child:
        try:
            life()
        finally:
            os._exit(1)
    assert os.WIFSIGNALED(os.waitpid(child, 0)[1])
    drawn = json.loads(folder.with_name("computed-1").read_text())
    with served(Service(folder), folder.with_name("token").read_text()) as caller:
        groups = {answered(caller.decide(f"w{number}", policy="read")).get("group") for number in range(30)}
        assert groups == {"policy", None}
        found = answered(caller.get(LOOKS))
        assert (found["looks"], found["over"]) == (1, True)
        assert sum(found["result"]["readings"]["rounds"]) == drawn[1][0][0] + drawn[1][1][0] == 19
        assert answered(caller.post(end, {})) == found
