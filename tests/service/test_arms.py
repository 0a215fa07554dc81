"""Arms that are added and retired over HTTP."""

from bisect import bisect_right
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPTuning
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.policy.bookkeeping import RoundBook
from dpbandits.service.core import Service
from dpbandits.service.engines import ServedBandit
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller, served
from service.test_http import answered, refused

ARMS = "/v1/policies/offers/arms"
RETIRE = f"{ARMS}:retire"


def decided(shop: Caller, start: int, stop: int) -> list[Any]:
    """Arms of decisions for new users; the reward of `chat` is 1, and of any other arm 0."""
    arms = []
    for number in range(start, stop):
        answer = answered(shop.decide(f"v{number}"))
        answered(shop.reward(answer["id"], float(answer["arm"] == "chat")))
        arms.append(answer["arm"])
    return arms


def test_a_change_is_in_effect_from_the_next_release_on(shop: Caller) -> None:
    decided(shop, 0, 30)
    found = answered(shop.post(ARMS, {"arm": "chat", "like": "call", "minimum": 0.3}))
    assert found["arms"] == ["mail", "call", "nothing"] == answered(shop.get("/v1/policies/offers"))["arms"]
    (change,) = found["changes"]
    assert {key: change[key] for key in ("event", "arm", "release", "rounds", "like", "minimum")} == {
        "event": "arm added",
        "arm": "chat",
        "release": 2,
        "rounds": 30,
        "like": "call",
        "minimum": 0.3,
    }
    answered(shop.post(RETIRE, {"arm": "mail"}))
    assert "chat" not in decided(shop, 30, 44)  # 42 rounds and the lag
    later = decided(shop, 44, 120)
    assert "chat" in later
    assert "mail" not in later
    now = answered(shop.get(ARMS))
    assert now["arms"] == ["call", "nothing", "chat"]
    assert answered(shop.get("/v1/policies/offers"))["arms"] == now["arms"]
    assert answered(shop.get("/v1/policies"))["policies"][0]["arms"] == now["arms"]
    assert [one["event"] for one in now["changes"]] == ["arm added", "arm retired"]
    published = PublishedPosterior.from_json(shop.get("/v1/policies/offers/policy").text)
    assert published.arms == ("call", "nothing", "chat")
    stated = answered(shop.get("/v1/policies/offers/guarantee"))
    assert "hanges of arms" in stated["statement"]


def test_the_same_request_again_is_one_change_and_one_event(shop: Caller) -> None:
    first, again = (answered(shop.post(ARMS, {"arm": "chat", "like": "call"})) for _ in range(2))
    assert first == again
    answered(shop.post(RETIRE, {"arm": "call"}))
    answered(shop.post(RETIRE, {"arm": "call"}))
    assert len(answered(shop.get(ARMS))["changes"]) == 2
    events = [one["what"] for one in answered(shop.get("/v1/events"))["events"]]
    assert (events.count("arm-added"), events.count("arm-retired")) == (1, 1)


@pytest.mark.parametrize(
    ("path", "body", "status", "slug"),
    [
        (ARMS, {"arm": "mail"}, 422, "invalid"),
        (ARMS, {"arm": "chat", "like": "fax"}, 422, "invalid"),
        (ARMS, {"arm": "chat", "minimum": 0.9}, 422, "invalid"),
        (RETIRE, {"arm": "fax"}, 422, "invalid"),
        (RETIRE.replace("offers", "nobody"), {"arm": "mail"}, 404, "not-found"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    shop: Caller, path: str, body: dict[str, Any], status: int, slug: str
) -> None:
    refused(shop.post(path, body), slug, status)
    assert answered(shop.get(ARMS))["changes"] == []
    decided(shop, 0, 3)


def test_a_fallback_is_an_arm_that_is_not_retired(shop: Caller) -> None:
    settings = {"settings": {"fallback": "mail"}}
    answered(shop("PATCH", "/v1/policies/offers", settings, If_Match="*"))
    refused(shop.post(RETIRE, {"arm": "mail"}), "conflict", 409)
    assert answered(shop.get(ARMS))["changes"] == []
    answered(shop("PATCH", "/v1/policies/offers", {"settings": {"fallback": "call"}}, If_Match="*"))
    answered(shop.post(RETIRE, {"arm": "mail"}))
    refused(shop("PATCH", "/v1/policies/offers", settings, If_Match="*"), "invalid", 422)


def test_available_takes_an_announced_arm(shop: Caller) -> None:
    decided(shop, 0, 30)
    answered(shop.post(ARMS, {"arm": "chat"}))
    body = {"context": AGNES, "available": ["chat", "call"]}
    announced = answered(shop.decide("announced", **body))
    assert announced["arm"] == "call"
    decided(shop, 31, 50)
    assert answered(shop.decide("offered", context=AGNES, available=["chat"]))["arm"] == "chat"


def test_a_service_goes_on_with_the_changes_of_its_folder(folder: Path) -> None:
    service = Service(folder)
    token = service.first_token
    with served(service) as shop:
        answered(shop.post("/v1/populations", CUSTOMERS), 201)
        answered(shop.post("/v1/policies", OFFERS), 201)
        decided(shop, 0, 30)
        answered(shop.post(ARMS, {"arm": "chat", "minimum": 0.4}))
    with served(Service(folder), token) as shop:
        assert answered(shop.get(ARMS))["changes"][0]["arm"] == "chat"
        decided(shop, 30, 44)
        assert "chat" in decided(shop, 44, 90)
        answered(shop.post(RETIRE, {"arm": "mail"}))
    with served(Service(folder), token) as shop:
        decided(shop, 90, 120)
        assert answered(shop.get(ARMS))["arms"] == ["call", "nothing", "chat"]
        assert "mail" not in decided(shop, 120, 200)


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize("asked", [15, 40])
def test_whoever_follows_decides_as_whoever_releases(lag: int, asked: int) -> None:
    """After 40 rounds one release would hold the arm: blocks of ten rounds are planned, like the first."""

    def built() -> ServedBandit:
        return ServedBandit(
            contexts=dpb.Schema(x=dpb.Range(0, 1)),
            arms=["a", "b"],
            reward_range=(0, 1),
            horizon=100,
            privacy=dpb.JointDP(epsilon=5, delta=1e-6),
            noise=dpb.SimulatedNoise(3),
            tuning=GPTuning(release="marginals", blocks=[10, 30, 60, 80], lag=lag, census=False),
        )

    policy, follower, rng = built(), built(), np.random.default_rng(1)
    texts: list[str] = []
    chosen: list[Any] = []
    for number, x in enumerate(rng.random(100).tolist()):
        if number in policy.batch_boundaries:
            texts.append(policy.publish().to_json())
        if number == asked:
            policy.add_arm("c", like="b")
            policy.retire_arm("a")
        decision = policy.ask({"x": x}, user=number)
        chosen.append(decision.arm)
        policy.tell(decision.id, float(number % 3 == 0))
    begun = 30 if asked == 15 else 50
    assert {"c"} <= set(chosen[begun + lag :]) <= {"b", "c"}
    assert policy.blocks == ((10, 30, 60, 80) if asked == 15 else (10, 30, 50, 60, 70, 80, 90))

    @cache
    def release_of(version: int) -> PublishedPosterior | None:
        return PublishedPosterior.from_json(texts[version - 1]) if version else None

    named = {"dim": policy.domain.dim, "horizon": 100, "rounds_per_user": 1, "user_ids": True}
    book = RoundBook(**named, lineage="12345678")
    follower.follow(book, lambda slot: release_of(bisect_right(policy.batch_boundaries, slot)))
    follower.know_arms([one.to_config() for one in policy.arm_changes])
    again = np.random.default_rng(1).random(100).tolist()
    assert [follower.ask({"x": x}, user=number).arm for number, x in enumerate(again)] == chosen
