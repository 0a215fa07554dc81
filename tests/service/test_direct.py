"""Routes that are answered ahead of the framework: each answer is the framework's own, byte for byte."""

import itertools
import json
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from fastapi import FastAPI

import dpbandits
from dpbandits.service import application, gate, readiness
from dpbandits.service.core import Service
from service.conftest import AGNES, Caller

AT = "/v1/policies/offers"

Headers = dict[str, str]


@pytest.fixture
def framed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the requests that reached the framework."""
    found: list[str] = []
    whole = FastAPI.__call__

    async def noting(self: FastAPI, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            found.append(scope["path"])
        await whole(self, scope, receive, send)

    monkeypatch.setattr(FastAPI, "__call__", noting)
    return found


def sent(caller: Caller, method: str, path: str, body: bytes, headers: Headers) -> tuple[int, Any, bytes]:
    own = {"X-Request-Id": "0123456789abcdef"}
    if caller.token is not None:
        own["Authorization"] = f"Bearer {caller.token}"
    answer = caller.client.request(method, path, content=body, headers=own | headers)
    return answer.status_code, sorted(answer.headers.multi_items()), answer.content


PLAIN = {"Content-Type": "application/json"}
FRAMED = {"Content-Type": "application/json; charset=utf-8"}
"""The same to the framework, and never answered ahead of it."""


def bodies(shop: Caller) -> dict[str, tuple[str, str, Any]]:
    """Requests, all of which may be repeated."""
    known = shop.decide("known").json()["id"]
    deferred = shop.decide("deferred", deferred=True).json()["id"]
    late = {"id": "f", "user": "known", "context": AGNES}
    return {
        "a decision again": ("POST", f"{AT}/decisions", {"id": "known", "user": "known", "context": AGNES}),
        "another body": ("POST", f"{AT}/decisions", {"id": "known", "user": "known", "context": {"age": 1}}),
        "a user who has had all": ("POST", f"{AT}/decisions", late),
        "no such policy": ("POST", "/v1/policies/none/decisions", late),
        "candidates": ("POST", f"{AT}/decisions", late | {"candidates": [[1.0]]}),
        "a batch": (
            "POST",
            f"{AT}/decisions:batch",
            {"decisions": [{"id": "known", "user": "known", "context": AGNES}, late, {"id": 5}, 7]},
        ),
        "a reward again": ("PUT", f"{AT}/decisions/{known}/reward", {"reward": 1}),
        "out of range": ("PUT", f"{AT}/decisions/{deferred}/reward", {"reward": 7}),
        "of no decision": ("PUT", f"{AT}/decisions/d1-00/reward", {"reward": True}),
        "rewards": (
            "POST",
            f"{AT}/rewards:batch",
            {"rewards": [{"decision": known, "reward": 1}, {"decision": "x", "reward": 2}, {"reward": 1}]},
        ),
    }


def test_what_fits_is_answered_ahead_of_the_framework_as_by_it(shop: Caller, framed: list[str]) -> None:
    asked = bodies(shop)
    shop.reward(shop.decide("known").json()["id"], 0.5)
    del framed[:]
    for name, (method, path, body) in asked.items():
        text = json.dumps(body).encode()
        ours = sent(shop, method, path, text, PLAIN)
        assert not framed, name
        assert sent(shop, method, path, text, FRAMED) == ours, name
        assert len(framed) == 1, name
        del framed[:]


@pytest.mark.parametrize("token", [None, "dpb_none", "read", "limited"])
def test_a_token_that_may_not_is_refused_in_the_same_words(
    shop: Caller, framed: list[str], token: str | None
) -> None:
    asked = bodies(shop)
    other = shop.with_scopes("read") if token == "read" else Caller(shop.client, token)
    if token == "limited":
        limits = {"label": "x", "scopes": ["decide", "reward"], "policies": ["others"]}
        other = Caller(shop.client, shop.post("/v1/tokens", limits).json()["token"])
    for method, path, body in asked.values():
        text = json.dumps(body).encode()
        ours = sent(other, method, path, text, PLAIN)
        assert ours[0] == {"read": 403, "limited": 404}.get(token or "", 401)
        assert ours == sent(other, method, path, text, FRAMED)


WHOLE = json.dumps({"id": "one", "user": "one", "context": AGNES}).encode()
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "torn": WHOLE[:-5],
    "no JSON": b"\xff\xfe{}",
    "deep": b"[" * 100_000,
    "a long number": b'{"id": "x", "user": ' + b"9" * 10_000 + b"}",
    "a list": b"[]",
    "null": b"null",
    "another member": b'{"id": "x", "password": "secret"}',
    "a number for the id": b'{"id": 7}',
    "no id": b"{}",
    "NaN": b'{"id": "x", "arm": NaN}',
    "a reward of a text": b'{"reward": "1"}',
    "an infinite reward": b'{"reward": Infinity}',
    "no list": b'{"decisions": {"id": "x"}, "rewards": 7}',
    "an empty list": b'{"decisions": [], "rewards": []}',
    "half a character": b'{"id": "\\ud800"}',
}
PATHS = (
    ("POST", f"{AT}/decisions"),
    ("POST", f"{AT}/decisions:batch"),
    ("PUT", f"{AT}/decisions/d1-00/reward"),
    ("POST", f"{AT}/rewards:batch"),
)


def test_what_does_not_fit_is_refused_by_the_framework(shop: Caller) -> None:
    for (name, body), (method, path) in itertools.product(HOSTILE.items(), PATHS):
        ours = sent(shop, method, path, body, PLAIN)
        assert ours == sent(shop, method, path, body, FRAMED), (name, path)
        assert 400 <= ours[0] < 500, (name, path)
        assert b"secret" not in ours[2]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", f"{AT}/decisions", 405),
        ("POST", f"{AT}/decisions/", 404),
        ("POST", f"/{AT}/decisions", 404),
        ("POST", "/v1/policies//decisions", 404),
        ("POST", "/v1/policies/a/b/decisions", 404),
        ("POST", "/v1/policies/a%2Fb/decisions", 404),
        ("POST", "/v1/policies/a%20b/decisions", 422),
        ("POST", "/v1/policies/a%0A/decisions", 422),
        ("POST", f"/v1/policies/{'a' * 65}/decisions", 422),
        ("POST", "/v1/populations/offers/decisions", 404),
        ("PUT", f"{AT}/decisions/a:b/reward", 404),
        ("PUT", f"{AT}/decisions/{'a' * 101}/reward", 422),
        ("PUT", f"{AT}/decisions//reward", 404),
    ],
)
def test_another_path_is_the_frameworks(shop: Caller, method: str, path: str, status: int) -> None:
    own = {"Authorization": f"Bearer {shop.token}"} | PLAIN
    body = WHOLE if method == "POST" else b'{"reward": 1}'
    found = shop.client.request(method, path, content=body, headers=own, follow_redirects=False)
    assert found.status_code == status, found.text
    assert shop.decide("still").status_code == 200


def test_without_a_media_type_or_with_another_one_nothing_is_taken(shop: Caller) -> None:
    for media in ({}, {"Content-Type": "text/plain"}, {"Content-Type": "application/jsonx"}):
        status, _, _ = sent(shop, "POST", f"{AT}/decisions", WHOLE, media)
        assert status == 422
    status, _, _ = sent(shop, "POST", f"{AT}/decisions", WHOLE, {"Content-Type": "Application/JSON"})
    assert status == 200


FILES = {"": 24, "service/": 10}
"""Files of the package, and of its service, that a decision passes at most between request and answer."""


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is done beside the answers, in the threads that answer."""
    monkeypatch.setattr(application, "TICK_SECONDS", 1e6)
    monkeypatch.setattr(gate, "WATCH_SECONDS", 1e6)
    monkeypatch.setattr(readiness, "BEAT_SECONDS", 1e6)


@pytest.mark.usefixtures("alone")
def test_a_decision_passes_few_files(service: Service, shop: Caller) -> None:
    """Files whose functions run in the event loop's thread or the writer's while a decision is answered. Of
    three decisions the one with the fewest: what is done once, at the start, may come in between.
    """
    root = f"{Path(dpbandits.__file__).parent}/"
    passed: list[set[str]] = []

    def noted(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(root):
            passed[-1].add(frame.f_code.co_filename.removeprefix(root))

    portal = shop.client.portal
    assert portal is not None
    for number in range(30):
        assert shop.decide(f"before-{number}").status_code == 200
    for number in range(3):
        passed.append(set())
        for traced in (noted, None):
            service.write(lambda _, traced=traced: sys.setprofile(traced)).result()
            portal.call(sys.setprofile, traced)
            if traced is not None:
                assert shop.decide(f"v{number}").status_code == 200
    fewest = min(passed, key=len)
    for under, most in FILES.items():
        found = sorted(name for name in fewest if name.startswith(under))
        assert 0 < len(found) <= most, "\n".join(found)
