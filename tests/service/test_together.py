"""A batch is answered in one pass where it can be, and as its members would be one by one."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service.core import Service
from dpbandits.service.engines import StoredBook
from dpbandits.service.settings import Settings
from dpbandits.service.writer import Crowded
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller, served
from service.databases import any_kind

AT = "/v1/policies/offers"
LEARNED = 30
"""Rounds, with rewards, after which the first release decides."""


def person(number: int, **more: Any) -> dict[str, Any]:
    region = ("north", "south", "west")[number % 3]
    return {
        "id": f"v{number}",
        "user": number,
        "context": {"age": 18 + number % 70, "region": region},
        **more,
    }


def learned(caller: Caller, **more: Any) -> None:
    assert caller.post("/v1/populations", CUSTOMERS).status_code == 201
    assert caller.post("/v1/policies", {**OFFERS, **more}).status_code == 201
    for number in range(LEARNED):
        found = caller.post(f"{AT}/decisions", person(number)).json()
        assert caller.reward(found["id"], found["arm"] == "call").status_code == 200


def batched(caller: Caller, bodies: list[dict[str, Any]]) -> list[dict[str, Any]]:
    answer = caller.post(f"{AT}/decisions:batch", {"decisions": bodies})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return found


def alone(caller: Caller, body: dict[str, Any]) -> dict[str, Any]:
    answer = caller.post(f"{AT}/decisions", body)
    return {"decision" if answer.status_code == 200 else "problem": answer.json()}


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many of each pass were answered by it."""
    found: list[int] = []
    for name in ("decide_together", "reward_together"):
        own = getattr(Service, name)

        def counting(self: Service, *arguments: Any, own: Any = own) -> Any:
            future = own(self, *arguments)
            future.add_done_callback(lambda done: found.append(sum(one is not None for one in done.result())))
            return future

        monkeypatch.setattr(Service, name, counting)
    return found


@pytest.mark.parametrize("fallback", [None, "nothing"])
def test_a_pass_answers_as_one_by_one(tmp_path: Path, passes: list[int], fallback: str | None) -> None:
    """Two copies of a folder: ids, arms, releases, refusals and statuses are equal."""
    service = Service(tmp_path / "one")
    with served(service) as caller:
        learned(caller, settings={"fallback": fallback, "wait_seconds": 50.0})
        token = caller.token
    shutil.copytree(tmp_path / "one", tmp_path / "other")
    bodies = [person(number) for number in range(100, 110)]
    bodies[3] = person(103, deferred=True)
    bodies[5]["context"] = {"age": "old"}
    bodies[7]["context"] = {"age": 17.0, "region": "moon"}
    found = []
    for name, ask in (("one", batched), ("other", lambda who, all_: [alone(who, one) for one in all_])):
        with served(Service(tmp_path / name), token) as caller:
            results = ask(caller, bodies)
            for result in results:
                result.get("decision", {}).pop("expires_at", None)
            ids = [result.get("decision", result.get("problem"))["id"] for result in results]
            found.append((results, [caller.get(f"{AT}/decisions/{one}").json() for one in ids]))
    assert passes == [10]
    for one, other in zip(found[0][0], found[1][0], strict=True):
        assert one == other
    assert found[0] == found[1]
    refused = {result["problem"]["status"] for result in found[0][0] if "problem" in result}
    assert refused == (set() if fallback else {422})
    assert {one["status"] for one in found[0][1]} == {"pending", "deferred", "refused"}


def test_who_needs_more_than_a_pass_is_answered_after_it(admin: Caller, passes: list[int]) -> None:
    learned(admin)
    bodies = [
        person(0),  # answered before: the stored answer
        person(1) | {"context": AGNES},  # another body
        person(2) | {"id": "v2-again"},  # has had all rounds
        person(100),
        person(100),  # twice the same
        person(100) | {"id": "v100-again"},  # the same user
        person(101, available=["mail"]),
        person(102, candidates=[[1.0]]),
        {"id": "nobody", "context": AGNES},
        {"id": "none", "user": "none"},
    ]
    found = batched(admin, bodies)
    assert passes == [1, 0]
    assert found[0] == alone(admin, person(0))
    assert found[3] == found[4] == alone(admin, person(100))
    assert found[6]["decision"]["arm"] == "mail"
    told = {place: one["problem"]["type"] for place, one in enumerate(found) if "problem" in one}
    assert told == {
        1: "urn:dpbandits:other-body",
        2: "urn:dpbandits:user-has-had-all",
        5: "urn:dpbandits:user-has-had-all",
        7: "urn:dpbandits:invalid",
        8: "urn:dpbandits:invalid",
        9: "urn:dpbandits:invalid",
    }


def test_a_batch_longer_than_a_block_waits_for_the_releases_between(admin: Caller, passes: list[int]) -> None:
    learned(admin)
    found = batched(admin, [person(number) for number in range(100, 160)])
    releases = [one["decision"]["release"] for one in found]
    assert releases == sorted(releases)
    assert releases[0] == 1
    assert releases[-1] >= 3
    assert sum(passes) == 60
    assert len(passes) == len(set(releases))
    found = batched(admin, [person(number) for number in range(200, 600)])  # the horizon is 400
    assert sum("decision" in one for one in found) == OFFERS["horizon"] - LEARNED - 60
    assert {one["problem"]["type"] for one in found if "problem" in one} == {"urn:dpbandits:no-rounds-left"}


@pytest.mark.parametrize("database", [False, True])
def test_rewards_of_a_pass_become_what_they_would_one_by_one(
    tmp_path: Path, passes: list[int], database: bool
) -> None:
    settings = Settings(database=any_kind() if database else "")
    with served(Service(tmp_path / "data", settings=settings)) as admin:
        learned(admin)
        known = [one["decision"]["id"] for one in batched(admin, [person(n) for n in range(100, 107)])]
        assert passes == [7]
        assert admin.post(f"{AT}/decisions/{known[5]}:abandon").status_code == 200
        refused = alone(admin, {"id": "r", "user": "r", "context": {}})["problem"]["id"]
        told = [(known[0], 1), (known[1], 0.5), (known[2], 7), (known[3], True), (known[0], 0), ("x", 1)]
        told += [(known[5], 1), (refused, 1)]
        body = {"rewards": [{"decision": one, "reward": reward} for one, reward in told]}
        first = admin.post(f"{AT}/rewards:batch", body).json()["results"]
        again = admin.post(f"{AT}/rewards:batch", body).json()["results"]
        statuses = [admin.get(f"{AT}/decisions/{one}").json()["status"] for one in known]
    assert [one.get("outcome", one.get("problem", {}).get("status")) for one in first] == [
        *("counted", "counted", 422, "counted", "duplicate", 404, "duplicate", "late")
    ]
    assert [one.get("outcome", one.get("problem", {}).get("status")) for one in again] == [
        *("duplicate", "duplicate", 422, "duplicate", "duplicate", 404, "duplicate", "late")
    ]
    assert statuses == ["counted", "counted", "pending", "counted", "pending", "abandoned", "pending"]


def test_rounds_are_taken_in_the_order_of_a_batch_whatever_somebody_brings(admin: Caller) -> None:
    """Else what one person brings would move others to another round, and perhaps to another block."""
    learned(admin)
    bodies = [person(number) for number in range(100, 108)]
    bodies[2]["available"] = ["mail", "call"]
    bodies[3]["context"] = {"age": None}
    bodies[5] = {"id": "v105", "user": 105}
    bodies[6]["user"] = 0  # has had all rounds: takes none
    found = batched(admin, bodies)
    ids = [one.get("decision", one.get("problem")).get("id") for one in found]
    numbers = [int(one[1:].partition("-")[0], 16) for one in ids if one is not None]
    assert ids[6] is None
    assert len(numbers) == 7
    assert numbers == sorted(numbers)


def test_a_batch_of_which_a_part_was_answered_is_not_turned_away(
    admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal of the whole batch says that nothing was done."""
    learned(admin)
    passes, together = [1], Service.decide_together

    def crowded(service: Service, *arguments: Any) -> Any:
        if not passes:
            raise Crowded("too many wait")
        passes.pop()
        return together(service, *arguments)

    monkeypatch.setattr(Service, "decide_together", crowded)
    found = batched(admin, [person(100), person(101, available=["mail"]), person(102)])
    assert found[1]["decision"]["arm"] == "mail"
    assert all("decision" in one for one in found)
    refused = admin.post(f"{AT}/decisions:batch", {"decisions": [person(103), person(104)]})
    assert refused.status_code == 429


def test_a_policy_that_was_paused_while_a_batch_waited_for_it_decides_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another worker may pause a policy while the row of its rounds is waited for."""
    service, hold = Service(tmp_path / "data"), StoredBook.hold
    pausing = "UPDATE policies SET status = 'paused', revision = revision + 1 WHERE status = 'active'"

    def paused(book: StoredBook) -> None:
        hold(book)
        service.store.now_writing.run(pausing)

    with served(service) as admin:
        learned(admin)
        monkeypatch.setattr(StoredBook, "hold", paused)
        found = batched(admin, [person(100), person(101)])
    assert [one["problem"]["type"] for one in found] == ["urn:dpbandits:conflict"] * 2
