"""Bodies that are none, full disks, callers that stop in the middle: nothing is changed or leaked."""

import asyncio
import errno
import json
import threading
from collections.abc import MutableMapping
from typing import Any

import pytest

from dpbandits.service import writer
from dpbandits.service.core import Service
from dpbandits.service.gate import Gate
from dpbandits.service.problems import Problem
from dpbandits.service.settings import Settings
from dpbandits.service.tokens import Token
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller

AT = "/v1/policies/offers/decisions"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[" * 100_000,
        b'{"id":"x","user":"x","context":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}",
        b'{"id":"x","user":' + b"9" * 5000 + b"}",
        b'{"id":"x","user":"x","context":{"age":1e400,"region":"west"},"deferred":1}',
        b'{"id":"\\ud800","user":true}',
        b'{"id":"x","id":"y","user":"x","context":null,"arm":"mail"}',
    ],
)
def test_bodies_that_are_none(shop: Caller, body: bytes) -> None:
    named = {"Authorization": f"Bearer {shop.token}", "Content-Type": "application/json"}
    reply = shop.client.post(AT, content=body, headers=named)
    assert 400 <= reply.status_code < 500, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    assert shop.decide("first").json()["id"].startswith("d1-")


def test_strange_texts_are_texts(shop: Caller) -> None:
    named = {"Authorization": f"Bearer {shop.token}", "Content-Type": "application/json"}
    for number, text in enumerate(("\\u0000", "x' OR 1=1 --", "\\u202e")):
        body = f'{{"id":"{text}","user":"{number}-{text}","context":{json.dumps(AGNES)}}}'
        replies = [shop.client.post(AT, content=body, headers=named) for _ in range(2)]
        assert [one.status_code for one in replies] == [200, 200], replies[0].text
        assert replies[0].json() == replies[1].json()


def test_arms_of_strange_texts(admin: Caller) -> None:
    assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
    arms = ["\ud800", "b"]
    text = json.dumps({**OFFERS, "arms": arms})
    named = {"Authorization": f"Bearer {admin.token}", "Content-Type": "application/json"}
    reply = admin.client.post("/v1/policies", content=text.encode(), headers=named)
    assert reply.status_code < 500


def test_a_full_disk_takes_nothing_and_goes_on_when_there_is_room(service: Service, shop: Caller) -> None:
    before = shop.decide("v0").json()
    full = 503
    pages = service.write(lambda writes: writes.one("PRAGMA page_count")).result()
    assert pages is not None
    service.write(lambda writes: writes.one(f"PRAGMA max_page_count = {pages[0]}")).result()
    answers = [shop.decide(f"v{number}", user="u" * 400 + str(number)) for number in range(1, 60)]
    refused = [one for one in answers if one.status_code == full]
    assert refused
    assert {one.json()["type"] for one in refused} == {"urn:dpbandits:not-recorded"}
    service.write(lambda writes: writes.one("PRAGMA max_page_count = 1000000")).result()
    assert shop.decide("v0").json() == before
    again = [shop.decide(f"v{number}", user="u" * 400 + str(number)) for number in range(1, 60)]
    assert {one.status_code for one in again} == {200}
    kept = [pair for pair in zip(answers, again, strict=True) if pair[0].status_code == 200]
    assert all(first.json() == second.json() for first, second in kept)
    with service.store.reading() as reads:
        asks = [row[0] for row in reads.rows("SELECT ask FROM decisions ORDER BY number")]
    assert sorted(int(ask.split("-")[1]) for ask in asks) == list(range(60))


def test_a_disk_that_is_full_at_a_release_takes_nothing(
    service: Service, shop: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A state passes through a file: whoever needs the release is told that nothing was recorded."""
    monkeypatch.setattr(writer, "LONGEST_WAIT", 0.05)
    answers = [shop.decide(f"v{number}").json() for number in range(20)]

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    refused = []
    with monkeypatch.context() as broken:
        broken.setattr("dpbandits.state.store.write_durably", full)
        for number in range(20, 50):
            reply = shop.decide(f"v{number}")
            if reply.status_code == 200:
                answers.append(reply.json())
            else:
                refused.append(number)
                assert reply.json()["type"] == "urn:dpbandits:not-recorded"
    assert refused
    assert {one["release"] for one in answers} == {0}
    assert shop.get("/v1/policies/offers/releases").json() == {"releases": []}
    assert [shop.decide(f"v{number}").json() for number in range(len(answers))] == answers
    monkeypatch.undo()
    later = [shop.decide(f"v{number}") for number in refused]
    assert {one.status_code for one in later} == {200}
    assert later[-1].json()["release"] >= 1
    with service.store.reading() as reads:
        asks = [row[0] for row in reads.rows("SELECT ask FROM decisions ORDER BY number")]
    assert sorted(int(ask.split("-")[1]) for ask in asks) == list(range(50))


def test_two_tabs_with_one_id_have_one_decision_and_one_reward(service: Service, shop: Caller) -> None:
    body = {"id": "v1", "user": "u", "context": AGNES}
    waiting = threading.Event()
    service.writer.submit(lambda writes: waiting.wait(60.0))  # so that all of them wait together
    same = [service.decide("offers", "t", dict(body)) for _ in range(8)]
    others = [service.decide("offers", "t", {**body, "user": f"w{number}"}) for number in range(3)]
    elsewhere = service.decide("offers", "t2", {**body, "user": "x"})
    waiting.set()
    answers = [one.result(60.0) for one in same]
    assert all(one == answers[0] for one in answers)
    for other in others:
        with pytest.raises(Problem, match="other-body"):
            other.result(60.0)
    own = json.loads(answers[0])["id"]
    assert json.loads(elsewhere.result(60.0))["id"] != own
    rewards = [service.reward("offers", own, value) for value in (0.25, 0.5, 0.75)]
    assert [one.result(60.0) for one in rewards] == ["counted", "duplicate", "duplicate"]
    with service.store.reading() as reads:
        assert reads.rows("SELECT reward FROM decisions ORDER BY number") == [(0.25,), (None,)]


def through(gate: Gate, *messages: MutableMapping[str, Any]) -> list[MutableMapping[str, Any]]:
    """What a gate sends to somebody who sends these messages, and then nothing."""
    sent: list[MutableMapping[str, Any]] = []
    waiting = list(messages)

    async def receive() -> MutableMapping[str, Any]:
        if not waiting:
            await asyncio.sleep(60)
        return waiting.pop(0)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"authorization", b"")]}
    asyncio.run(gate(scope, receive, send))
    return sent


async def unreached(*_: object) -> None:
    raise AssertionError


async def somebody(*_: object) -> Token:
    return Token("somebody", frozenset(), None)


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([{"type": "http.request", "body": b"{", "more_body": True}], 408),
        ([{"type": "http.request", "body": b"x" * 1000, "more_body": True}] * 3, 413),
        ([{"type": "http.disconnect"}], 400),
    ],
)
def test_who_stops_in_the_middle_reaches_no_route(messages: list[Any], status: int) -> None:
    gate = Gate(unreached, Settings(longest_request=0.05, largest_body=2048), somebody, lambda *_: None)
    sent = through(gate, *messages)
    assert [one.get("status") for one in sent] == [status, None]


def test_a_method_that_is_none_is_not_a_label(shop: Caller) -> None:
    assert shop("ZQ7CANARY", "/v1/policies").status_code == 405
    text = shop.get("/metrics").text
    assert "ZQ7CANARY" not in text
    assert 'method="OTHER"' in text
