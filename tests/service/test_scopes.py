"""Who may do what: every route with every scope's token, and without one."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service.core import Service
from dpbandits.service.gate import Doorkeeper
from dpbandits.service.problems import Problem
from dpbandits.service.settings import Settings
from dpbandits.service.tokens import LONGEST, SCOPES, withdraw
from service.conftest import AGNES, CUSTOMERS, OFFERS, Caller, Hands, served
from service.test_local import ASKED as TIPS
from service.test_local import PEOPLE as PEOPLE_OF_DEVICES
from service.test_outsourced import AT, DOSES, PATIENTS, curator_of, release_of

DECISION = {"id": "x", "user": "x", "context": AGNES}
ONE = "/v1/policies/offers/decisions/d1-0"

ROUTES: dict[tuple[str, str], tuple[set[str], str, Any]] = {
    ("get", "/metrics"): ({"admin", "read"}, "/metrics", None),
    ("get", "/v1/health"): (set(SCOPES), "/v1/health", None),
    ("get", "/v1/live"): (set(SCOPES), "/v1/live", None),
    ("get", "/v1/ready"): (set(SCOPES), "/v1/ready", None),
    ("get", "/v1/events"): ({"admin"}, "/v1/events", None),
    ("post", "/v1/tokens"): ({"admin"}, "/v1/tokens", {"label": "mine", "scopes": ["admin"]}),
    ("get", "/v1/tokens"): ({"admin"}, "/v1/tokens", None),
    ("delete", "/v1/tokens/{identity}"): ({"admin"}, "/v1/tokens/none", None),
    ("post", "/v1/tokens/{identity}:rotate"): ({"admin"}, "/v1/tokens/none:rotate", {}),
    ("post", "/v1/populations"): ({"admin"}, "/v1/populations", CUSTOMERS),
    ("get", "/v1/populations"): ({"admin", "read"}, "/v1/populations", None),
    ("get", "/v1/populations/{population}"): ({"admin", "read"}, "/v1/populations/customers", None),
    ("post", "/v1/policies:preview"): ({"admin"}, "/v1/policies:preview", OFFERS),
    ("post", "/v1/policies"): ({"admin"}, "/v1/policies", OFFERS),
    ("get", "/v1/policies"): ({"admin", "read"}, "/v1/policies", None),
    ("get", "/v1/policies/{policy}"): ({"admin", "read"}, "/v1/policies/offers", None),
    ("patch", "/v1/policies/{policy}"): ({"admin"}, "/v1/policies/offers", {}),
    ("get", "/v1/policies/{policy}/policy"): ({"admin", "read"}, "/v1/policies/offers/policy", None),
    ("get", "/v1/policies/{policy}/guarantee"): ({"admin", "read"}, "/v1/policies/offers/guarantee", None),
    ("get", "/v1/policies/{policy}/readout"): ({"admin", "read"}, "/v1/policies/offers/readout", None),
    ("post", "/v1/policies/{policy}/readout:end"): ({"admin"}, "/v1/policies/offers/readout:end", None),
    ("get", "/v1/policies/{policy}/releases"): ({"admin", "read"}, "/v1/policies/offers/releases", None),
    ("get", "/v1/policies/{policy}/arms"): ({"admin", "read"}, "/v1/policies/offers/arms", None),
    ("post", "/v1/policies/{policy}/arms"): ({"admin"}, "/v1/policies/offers/arms", {"arm": "chat"}),
    ("post", "/v1/policies/{policy}/arms:retire"): (
        {"admin"},
        "/v1/policies/offers/arms:retire",
        {"arm": "mail"},
    ),
    ("get", "/v1/policies/{policy}/raw"): ({"admin"}, "/v1/policies/offers/raw", None),
    ("post", "/v1/policies/{policy}/decisions"): ({"decide"}, "/v1/policies/offers/decisions", DECISION),
    ("post", "/v1/policies/{policy}/decisions:batch"): (
        {"decide"},
        "/v1/policies/offers/decisions:batch",
        {"decisions": [DECISION]},
    ),
    ("post", "/v1/policies/{policy}/decisions:check"): (
        {"decide"},
        "/v1/policies/offers/decisions:check",
        {"contexts": [AGNES]},
    ),
    ("get", "/v1/policies/{policy}/decisions/{decision}"): ({"decide"}, ONE, None),
    ("post", "/v1/policies/{policy}/decisions/{decision}:activate"): ({"decide"}, f"{ONE}:activate", None),
    ("post", "/v1/policies/{policy}/decisions/{decision}:abandon"): ({"decide"}, f"{ONE}:abandon", None),
    ("put", "/v1/policies/{policy}/decisions/{decision}/reward"): (
        {"reward"},
        f"{ONE}/reward",
        {"reward": 1},
    ),
    ("post", "/v1/policies/{policy}/rewards:batch"): (
        {"reward"},
        "/v1/policies/offers/rewards:batch",
        {"rewards": [{"decision": "d1-0", "reward": 1}]},
    ),
    ("post", "/ofrep/v1/evaluate/flags/{policy}"): (
        {"decide"},
        "/ofrep/v1/evaluate/flags/offers",
        {"context": {"targetingKey": "x", **AGNES}},
    ),
    ("post", "/ofrep/v1/evaluate/flags"): (
        {"decide", "read"},
        "/ofrep/v1/evaluate/flags",
        {"context": AGNES},
    ),
    ("post", "/v1/local"): ({"admin"}, "/v1/local", {"name": "x", "population": "customers", "spec": {}}),
    ("get", "/v1/local/{survey}/readout"): ({"admin", "read"}, "/v1/local/x/readout", None),
    ("get", "/v1/local/{survey}/policy"): ({"report"}, "/v1/local/x/policy", None),
    ("post", "/v1/local/{survey}/reports"): ({"report"}, "/v1/local/x/reports", None),
    ("post", "/v1/outsourced:preview"): ({"admin"}, "/v1/outsourced:preview", DOSES),
    ("post", "/v1/outsourced"): ({"admin"}, "/v1/outsourced", DOSES),
    ("get", "/v1/outsourced"): ({"admin", "read"}, "/v1/outsourced", None),
    ("get", "/v1/outsourced/{exchange}"): ({"admin", "read", "curate", "model"}, AT, None),
    ("delete", "/v1/outsourced/{exchange}"): ({"admin"}, AT, None),
    ("put", "/v1/outsourced/{exchange}/release"): ({"curate"}, f"{AT}/release", {"description": {}}),
    ("get", "/v1/outsourced/{exchange}/release"): ({"curate", "model"}, f"{AT}/release", None),
    ("post", "/v1/outsourced/{exchange}/questions"): ({"model"}, f"{AT}/questions", {"rows": [0]}),
    ("get", "/v1/outsourced/{exchange}/questions"): ({"model"}, f"{AT}/questions", None),
    ("post", "/v1/outsourced/{exchange}/work"): ({"curate"}, f"{AT}/work", {"worker": "w"}),
    ("put", "/v1/outsourced/{exchange}/questions/{row}/answer"): (
        {"curate"},
        f"{AT}/questions/0/answer",
        {"answer": 0.5},
    ),
}
"""Route -> the scopes that may use it, a path of it, and a body."""


WHOLE_SERVICE = {("get", "/metrics"), ("get", "/v1/events")}
"""Routes that refuse every token with limits."""

LISTS: dict[tuple[str, str], dict[str, list[Any]]] = {
    ("get", "/v1/populations"): {"populations": []},
    ("get", "/v1/policies"): {"policies": []},
    ("get", "/v1/outsourced"): {"exchanges": []},
    ("post", "/ofrep/v1/evaluate/flags"): {"flags": []},
}
"""Routes that list everything, and what they answer a token whose limits have nothing of it."""

ITS_OWN = {("get", "/v1/tokens"), ("post", "/v1/tokens")}
ITS_OWN |= {("get", f"/v1/{name}") for name in ("health", "live", "ready")}
"""Routes that have tests of their own, or need no token. Every other route answers a token with limits as if
what the path or the body names did not exist: a route that does not look at the limits fails the test."""


def test_the_table_has_every_route(admin: Caller) -> None:
    paths = admin.client.get("/openapi.json").json()["paths"]
    assert {(method, path) for path, methods in paths.items() for method in methods} == set(ROUTES)


def test_each_scope_opens_its_own_routes_and_no_other(shop: Caller) -> None:
    callers = {scope: shop.with_scopes(scope) for scope in SCOPES}
    nobody = Caller(shop.client, None)
    for (method, route), (scopes, path, body) in ROUTES.items():
        for scope, caller in callers.items():
            reply = caller(method.upper(), path, body)
            allowed = scope in scopes
            assert (reply.status_code != 403) == allowed, (scope, method, route, reply.text)
            assert reply.status_code < 500
        if scopes != set(SCOPES):
            assert nobody(method.upper(), path, body).status_code == 401, route


def tables(service: Service) -> dict[str, list[Any]]:
    """Everything that the store holds."""
    with service.store.reading() as reads:
        names = [row[0] for row in reads.rows("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: reads.rows(f"SELECT * FROM {name}") for name in names}  # noqa: S608


def test_an_attacker_with_any_scope_reads_and_writes_nothing_outside_it(
    service: Service, shop: Caller, tmp_path: Path
) -> None:
    """With names, ids and bodies that are all right, so that nothing but the scope stands in the way."""
    decision = shop.decide("v1").json()["id"]
    for body in (PATIENTS, PEOPLE_OF_DEVICES):
        assert shop.post("/v1/populations", body).status_code == 201
    assert shop.post("/v1/outsourced", DOSES).status_code == 201
    assert shop("PUT", f"{AT}/release", release_of(curator_of(), tmp_path / "release")).status_code == 200
    assert shop.post(f"{AT}/questions", {"rows": [0]}).status_code == 200
    assert shop.post("/v1/local", {**TIPS, "name": "x"}).status_code == 201
    callers = {scope: shop.with_scopes(scope) for scope in SCOPES}
    other = shop.post("/v1/tokens", {"label": "another's", "scopes": ["admin"]}).json()["id"]
    before, said = tables(service), set()
    for scope, caller in callers.items():
        for (method, route), (scopes, path, body) in ROUTES.items():
            if scope in scopes:
                continue
            reply = caller(method.upper(), path.replace("d1-0", decision).replace("/none", f"/{other}"), body)
            assert reply.status_code == 403, (scope, method, route)
            said.add(reply.json()["errorDetails" if "/ofrep/" in route else "detail"])
    assert tables(service) == before
    assert all(one.startswith("This needs a token with the scope ") for one in said)


@pytest.fixture
def everything(shop: Caller, tmp_path: Path) -> Caller:
    """A shop with a decision, an outsourced table with a question, and a local policy."""
    shop.decide("v1")
    for body in (PATIENTS, PEOPLE_OF_DEVICES):
        assert shop.post("/v1/populations", body).status_code == 201
    assert shop.post("/v1/outsourced", DOSES).status_code == 201
    assert shop("PUT", f"{AT}/release", release_of(curator_of(), tmp_path / "release")).status_code == 200
    assert shop.post(f"{AT}/questions", {"rows": [0]}).status_code == 200
    assert shop.post("/v1/local", {**TIPS, "name": "x"}).status_code == 201
    return shop


def with_limits(caller: Caller, *scopes: str, **limits: list[str]) -> Caller:
    made = caller.post("/v1/tokens", {"label": "limited", "scopes": list(scopes or SCOPES), **limits})
    assert made.status_code == 201, made.text
    return Caller(caller.client, made.json()["token"])


@pytest.mark.parametrize("limits", [{"policies": ["other"]}, {"populations": ["elsewhere"]}], ids=str)
def test_what_a_token_does_not_reach_is_answered_as_if_it_did_not_exist(
    service: Service, everything: Caller, limits: dict[str, list[str]]
) -> None:
    limited = with_limits(everything, **limits)
    other = str(everything.with_scopes("read").token).split("_")[1]
    before = tables(service)
    for (method, route), (_, path, body) in ROUTES.items():
        if (method, route) in ITS_OWN:
            continue
        reply = limited(method.upper(), path.replace("/none", f"/{other}"), body)
        if (method, route) in LISTS:
            assert reply.json() == LISTS[method, route], route
            continue
        refused = 403 if (method, route) in WHOLE_SERVICE else 404
        assert reply.status_code == refused, (method, route, reply.text)
        if refused == 404 and route != "/v1/populations":  # where who may opens what is not there
            absent = path.replace("/offers", "/no").replace("/doses", "/no").replace("/customers", "/no")
            absent = absent.replace("/x/", "/no/")
            named = {**body, "population": "no"} if body and "population" in body else body
            there = reply.json() | ({"key": "no"} if "/ofrep/" in route else {})  # the last part of the path
            assert limited(method.upper(), absent, named).json() == there, (method, route)
    assert tables(service) == before


@pytest.mark.parametrize("policies", [None, ["offers", "doses", "x"]], ids=["populations", "both"])
def test_a_token_reaches_what_its_limits_have_as_one_without_limits(
    everything: Caller, policies: list[str] | None
) -> None:
    populations = ["customers", "patients", "people"]
    limits = {"populations": populations} if policies is None else {"policies": policies}
    limited = with_limits(everything, **{"populations": populations, **limits})
    for (method, route), (_, path, _body) in ROUTES.items():
        if method == "get" and (method, route) not in WHOLE_SERVICE and "{decision}" not in route:
            reply, unlimited = limited.get(path), everything.get(path)
            known = 409 if route.endswith("/readout") else 200  # no policy here has a readout
            assert reply.status_code == unlimited.status_code == known, (route, reply.text)
            if route not in ("/v1/populations", "/v1/tokens"):
                assert reply.content == unlimited.content, route
    assert limited.decide("v2").status_code == 200
    assert limited.post("/v1/policies", OFFERS).status_code == 201  # the same again
    names = [one["name"] for one in limited.get("/v1/populations").json()["populations"]]
    assert names == sorted(populations)
    assert limited.decide("v3", policy="none").status_code == 404


def test_each_list_of_limits_narrows_the_other(everything: Caller) -> None:
    here = with_limits(everything, policies=["offers", "new"], populations=["customers", "elsewhere"])
    assert here.get("/v1/policies/offers").status_code == 200
    assert with_limits(everything, policies=["offers"]).get("/v1/policies/offers").status_code == 200
    assert with_limits(everything, policies=["offers"]).get("/v1/populations/customers").status_code == 404
    apart = with_limits(everything, policies=["offers"], populations=["elsewhere"])
    assert apart.get("/v1/policies/offers").status_code == 404
    assert here.post("/v1/policies", {**OFFERS, "name": "other"}).status_code == 403
    assert here.post("/v1/policies", {**OFFERS, "name": "new"}).status_code == 201
    assert here.get("/v1/policies/new").status_code == 200


def test_a_limited_admin_makes_and_sees_tokens_within_its_limits_alone(everything: Caller) -> None:
    mine, within = ["customers", "elsewhere"], {"populations": ["customers"]}
    admin = with_limits(everything, "admin", populations=mine)
    asked: dict[str, Any] = {"label": "x", "scopes": ["admin"]}
    beyond = ({}, {"policies": ["offers"]}, {"populations": ["customers", "patients"]})
    for limits in beyond:
        assert admin.post("/v1/tokens", {**asked, **limits}).status_code == 403, limits
    made = admin.post("/v1/tokens", {**asked, **within}).json()
    assert admin.post("/v1/tokens", {**asked, **within, "policies": ["offers"]}).status_code == 201
    narrow = with_limits(everything, "admin", policies=["offers"])
    for limits in ({}, within, {**within, "policies": ["offers"]}, {"policies": ["offers", "x"]}):
        assert narrow.post("/v1/tokens", {**asked, **limits}).status_code == 403, limits
    listed = admin.get("/v1/tokens").json()["tokens"]
    assert len(listed) == 3  # its own, and those that it made
    assert all({*one["populations"]} <= {*mine} for one in listed)
    patients = everything.post("/v1/tokens", {**asked, "populations": ["patients"]}).json()["id"]
    assert admin("DELETE", f"/v1/tokens/{patients}").status_code == 404
    assert admin.post(f"/v1/tokens/{patients}:rotate", {}).status_code == 404
    assert admin.post(f"/v1/tokens/{made['id']}:rotate", {}).status_code == 200
    assert admin("DELETE", f"/v1/tokens/{made['id']}").status_code == 204


def test_tokens_are_listed_without_their_texts(shop: Caller) -> None:
    asked = {"label": "the till", "scopes": ["decide"], "seconds": 60, "policies": ["offers"]}
    made = shop.post("/v1/tokens", asked).json()
    reply = shop.get("/v1/tokens")
    [one] = [one for one in reply.json()["tokens"] if one["id"] == made["id"]]
    assert (one["label"], one["scopes"]) == ("the till", ["decide"])
    assert (one["policies"], one["populations"]) == (["offers"], None)
    assert one["ends_at"] - one["made_at"] == pytest.approx(60)
    assert made["token"] not in reply.text
    assert shop("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert made["id"] not in shop.get("/v1/tokens").text


def test_a_rotated_token_is_the_same_token_and_its_old_text_ends_with_the_overlap(
    shop: Caller, service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = shop.post("/v1/tokens", {"label": "x", "scopes": ["decide"], "policies": ["offers"]}).json()
    old, at = Caller(shop.client, made["token"]), f"/v1/tokens/{made['id']}:rotate"
    first = old.decide("v1").json()
    lost = Caller(shop.client, shop.post(at, {"overlap_seconds": 100}).json()["token"])
    assert lost.token != old.token
    assert [one.decide("v1").json() for one in (old, lost)] == [first] * 2  # its ids are still its own
    new = Caller(shop.client, shop.post(at, {"overlap_seconds": 100}).json()["token"])  # no answer had come
    assert [one.decide("v1").status_code for one in (old, lost, new)] == [200, 401, 200]
    now = service.now()
    monkeypatch.setattr(service, "now", lambda: now + 101)
    assert [one.decide("v1").status_code for one in (old, new)] == [401, 200]
    newest = Caller(shop.client, shop.post(at, {"overlap_seconds": 0, "seconds": 50}).json()["token"])
    assert [one.decide("v1").status_code for one in (new, newest)] == [401, 200]
    monkeypatch.setattr(service, "now", lambda: now + 152)
    assert newest.decide("v1").status_code == 401
    assert shop.post(at, {}).status_code == 404


def test_a_text_that_was_replaced_ends_with_its_token_at_the_latest(shop: Caller, service: Service) -> None:
    """Whether the rotation brings the token's end nearer, or moves it away."""
    for seconds, rotated in ((None, 60), (60, 86400)):
        made = shop.post("/v1/tokens", {"label": "x", "scopes": ["read"], "seconds": seconds}).json()
        at = f"/v1/tokens/{made['id']}:rotate"
        said = shop.post(at, {"overlap_seconds": 7200, "seconds": rotated}).json()
        assert said["old_text_ends_at"] <= service.now() + 60
        assert said["ends_at"] == pytest.approx(service.now() + rotated, abs=30)


def test_what_is_too_long_for_a_token_asks_nobody(shop: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def looked_up(reads: Any, keys: Any, text: str, now: float) -> None:
        asked.append(text)

    monkeypatch.setattr("dpbandits.service.tokens.token_of", looked_up)
    for length in (LONGEST, LONGEST + 1, 60_000):
        assert Caller(shop.client, "x" * length).get("/v1/policies").status_code == 401
    assert [len(one) for one in asked] == [LONGEST]


def test_ids_that_are_guessed_or_belong_elsewhere_are_none(
    service: Service, shop: Caller, tmp_path: Path
) -> None:
    decision = shop.decide("v1").json()["id"]
    assert shop.post("/v1/policies", {**OFFERS, "name": "more"}).status_code == 201
    with served(Service(tmp_path / "elsewhere")) as theirs:
        for body, at in ((CUSTOMERS, "populations"), (OFFERS, "policies")):
            assert theirs.post(f"/v1/{at}", body).status_code == 201
        foreign = theirs.decide("v1").json()["id"]
    number, _, secret = decision.partition("-")
    guesses = [foreign, number, f"{number}-", f"d2-{secret}", decision.upper(), f"{decision}0", decision[:-1]]
    guesses += [
        f"{number}-{secret[:place]}{'1' if secret[place] == '0' else '0'}{secret[place + 1 :]}"
        for place in (0, 7, 31)
    ]
    before, said = tables(service), set()
    for policy, guess in [("offers", guess) for guess in guesses] + [("more", decision)]:
        at = f"/v1/policies/{policy}/decisions/{guess}"
        for reply in (
            shop.reward(guess, 1, policy=policy),
            shop.get(at),
            shop.post(f"{at}:activate"),
            shop.post(f"{at}:abandon"),
        ):
            assert reply.status_code == 404, (guess, reply.text)
            said.add(reply.text)
    assert len(said) == 1
    for policy, several in (("offers", guesses), ("more", [decision, foreign])):
        told = {"rewards": [{"decision": guess, "reward": 1} for guess in several]}
        results = shop.post(f"/v1/policies/{policy}/rewards:batch", told).json()["results"]
        assert [one["problem"]["status"] for one in results] == [404] * len(several)
    assert tables(service) == before
    assert shop.reward(decision, 1).json() == {"outcome": "counted"}


def test_a_replay_by_another_token_is_another_request_and_confirms_nothing(shop: Caller) -> None:
    """Whoever has another token, and guesses ids and contexts, is answered as for ids that nobody used."""
    thief, body = shop.with_scopes("decide"), {"user": "agnes", "context": AGNES}
    first = shop.decide("v1", **body).json()
    used, unused = thief.decide("v1", **body), thief.decide("v2", **body)
    assert (used.status_code, used.json()) == (unused.status_code, unused.json())  # agnes has had her round
    assert used.json()["type"] == "urn:dpbandits:user-has-had-all"
    assert shop.decide("v1", **body).json() == first


def test_a_refused_token_changes_nothing(shop: Caller) -> None:
    reader = shop.with_scopes("read", "report")
    before = shop.get("/v1/policies/offers").json()
    for method, path, body in (
        ("POST", "/v1/policies/offers/decisions", DECISION),
        ("PATCH", "/v1/policies/offers", {"status": "retired"}),
        ("POST", "/v1/policies", {**OFFERS, "name": "mine"}),
    ):
        assert reader(method, path, body).status_code == 403
    assert shop.get("/v1/policies/offers").json() == before
    assert [one["name"] for one in shop.get("/v1/policies").json()["policies"]] == ["offers"]
    answer = shop.post("/v1/policies/offers/decisions", DECISION)
    assert answer.json()["id"].startswith("d1-")


def test_a_token_that_was_withdrawn_or_has_ended_is_refused(shop: Caller, hands: Hands) -> None:
    made = shop.post("/v1/tokens", {"label": "x", "scopes": ["read"]}).json()
    reader = Caller(shop.client, made["token"])
    assert reader.get("/v1/policies").status_code == 200
    assert shop("DELETE", f"/v1/tokens/{made['id']}").status_code == 204
    assert reader.get("/v1/policies").status_code == 401
    made = shop.post("/v1/tokens", {"label": "x", "scopes": ["read"], "seconds": 10}).json()
    brief = Caller(shop.client, made["token"])
    assert brief.get("/v1/policies").status_code == 200
    hands.passed += 11.0
    assert brief.get("/v1/policies").status_code == 401


def test_a_token_that_is_withdrawn_while_it_is_looked_up_is_not_remembered(
    service: Service, admin: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = admin.post("/v1/tokens", {"label": "x", "scopes": ["read"]}).json()
    headers = [(b"authorization", f"Bearer {made['token']}".encode())]
    request, door, read = {"type": "http", "headers": headers}, Doorkeeper(service), service.read

    def withdrawn_meanwhile(call: Any) -> Any:  # as another thread may, between the store and the door
        found = read(call)
        service.write(lambda writes: withdraw(writes, made["id"], service.now())).result()
        door.forget()
        return found

    monkeypatch.setattr(service, "read", withdrawn_meanwhile)
    asyncio.run(door.token(request))  # it was none of the withdrawn when it was read
    monkeypatch.setattr(service, "read", read)
    with pytest.raises(Problem, match="no-token"):
        asyncio.run(door.token(request))


def test_tokens_are_not_kept(shop: Caller, folder: Any) -> None:
    secret = (shop.token or "").split("_", 2)[2].encode()  # it may hold others
    for path in folder.rglob("*"):
        if path.is_file():
            assert secret not in path.read_bytes(), path.name


@pytest.mark.parametrize("settings", [Settings(requests_per_second=1.0, largest_body=2048)])
def test_a_token_comes_so_often_and_brings_so_much(admin: Caller) -> None:
    reply = admin.post("/v1/tokens", {"label": "x" * 3000, "scopes": ["read"]})
    assert (reply.status_code, reply.json()["type"]) == (413, "urn:dpbandits:too-large")
    replies = [admin.get("/v1/policies") for _ in range(50)]
    slow = [one for one in replies if one.status_code == 429]
    assert slow
    assert int(slow[0].headers["retry-after"]) >= 1
    assert replies[0].status_code == 200


@pytest.mark.parametrize("settings", [Settings(mismatches_per_hour=3)])
def test_guesses_of_a_body_are_soon_answered_no_more(shop: Caller) -> None:
    shop.decide("v1")
    guess = {"region": "west"}
    replies = [shop.decide("v1", context={"age": age, **guess}) for age in (18, 19, 20)]
    assert [one.status_code for one in replies] == [409] * 3
    later = [shop.decide("v1", context={"age": age, **guess}) for age in (21, 44)]
    assert [one.status_code for one in later] == [429, 429]  # the right one, too: nothing is compared
    assert later[0].json() == later[1].json()
    assert shop.decide("v2").status_code == 200  # new ids go on
    alarms = [one["what"] for one in shop.get("/v1/events").json()["events"]]
    assert alarms.count("other-body") == 3
    assert "dpbandits_other_bodies_total 3.0" in shop.get("/metrics").text
