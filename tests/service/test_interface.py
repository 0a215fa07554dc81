"""What a client is written from: names and types in the OpenAPI document, its page, and pages' requests."""

import json
import re
from html import unescape
from typing import Any

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.service.settings import Settings
from service.conftest import AGNES, Caller
from service.test_schema import operations

SHOP, OTHER = "https://shop.example.org", "https://evil.example.org"
DECISIONS = "/v1/policies/offers/decisions"


def test_every_operation_has_a_name_of_its_own_that_is_a_name_in_any_language(admin: Caller) -> None:
    names = [one["operationId"] for one in operations(admin).values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", name) for name in names)


@pytest.mark.parametrize(
    ("method", "path", "name", "answer"),
    [
        ("post", "/v1/policies/{policy}/decisions", "decide", "Decision"),
        ("post", "/v1/policies/{policy}/decisions:batch", "decide_batch", "Decisions"),
        ("put", "/v1/policies/{policy}/decisions/{decision}/reward", "tell_reward", "Outcome"),
        ("post", "/v1/policies", "begin_policy", "Policy"),
        ("get", "/v1/policies/{policy}/releases", "list_releases", "ListReleasesAnswer"),
    ],
)
def test_names_and_types_that_clients_were_generated_with(
    admin: Caller, method: str, path: str, name: str, answer: str
) -> None:
    one = operations(admin)[method, path]
    (done,) = [found for code, found in one["responses"].items() if int(code) < 300]
    assert one["operationId"] == name
    assert done["content"]["application/json"]["schema"] == {"$ref": f"#/components/schemas/{answer}"}


def test_every_answer_in_json_has_a_type_with_members(admin: Caller) -> None:
    schemas, typed = admin.get("/openapi.json").json()["components"]["schemas"], 0
    for place, one in operations(admin).items():
        for code, answer in one["responses"].items():
            content = answer.get("content", {}).get("application/json")
            if int(code) < 300 and content is not None:
                assert schemas[content["schema"]["$ref"].rpartition("/")[2]]["properties"], place
                typed += 1
    assert typed > 30
    decision = schemas["Decision"]
    assert decision["required"] == ["id", "release", "fallback", "propensity"]
    assert "null" not in json.dumps(decision["properties"]["arm"])  # it may be left out, and is never null


def lacking(kind: dict[str, Any], example: Any, schemas: dict[str, Any]) -> set[str]:
    """Members of an example that its type does not name."""
    while "$ref" in kind:
        kind = schemas[kind["$ref"].rpartition("/")[2]]
    if isinstance(example, list):
        return {name for one in example for name in lacking(kind.get("items", {}), one, schemas)}
    kinds = [one for one in kind.get("anyOf", [kind]) if one != {"type": "null"}]
    if not isinstance(example, dict) or len(kinds) > 1:
        return set()
    if kinds != [kind]:
        return lacking(kinds[0], example, schemas)
    members = kind.get("properties")
    if members is None:  # any object
        return set()
    named = set(example) & set(members)
    return set(example) - named | {
        one for name in named for one in lacking(members[name], example[name], schemas)
    }


def test_a_type_names_every_member_of_its_example(admin: Caller) -> None:
    """So a member that is added to an answer, and to its example, is added to the type as well."""
    schemas, compared = admin.get("/openapi.json").json()["components"]["schemas"], 0
    for place, one in operations(admin).items():
        for code, answer in one["responses"].items():
            content = answer.get("content", {}).get("application/json", {})
            if int(code) < 300 and "example" in content:
                assert lacking(content["schema"], content["example"], schemas) == set(), place
                compared += 1
    assert compared > 30


def test_the_page_of_the_document_names_every_route_and_needs_nothing_from_elsewhere(admin: Caller) -> None:
    reply = Caller(admin.client, None).get("/docs")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")
    page = unescape(reply.text)
    for (method, path), one in operations(admin).items():
        assert f"{method.upper()} {path}" in page
        assert one["summary"] in page
    assert '"region": "west"' in page  # examples of requests
    assert "://" not in re.sub(r"<pre>.*?</pre>", "", reply.text, flags=re.DOTALL)
    assert set(re.findall(r'(?:href|src)="([^"#]+)"', reply.text)) == {"/", "/desk/desk.css", "/openapi.json"}


def preflight(caller: Caller, path: str, origin: str, method: str = "POST") -> Any:
    asked = {"Access-Control-Request-Method": method, "Access-Control-Request-Headers": "authorization"}
    return caller.client.request("OPTIONS", path, headers={"Origin": origin, **asked})


def test_what_needs_no_token_is_written_once(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document takes long to write, and anybody may ask for it."""
    paths = ("/openapi.json", "/docs")
    first = [admin.client.get(path) for path in paths]
    assert [one.status_code for one in first] == [200, 200]

    def never(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("dpbandits.service.documented.Documented.openapi", never)
    for one, path in zip(first, paths, strict=True):
        again = admin.client.get(path)
        assert (again.content, again.headers["content-type"]) == (one.content, one.headers["content-type"])


def test_no_request_is_sent_elsewhere(admin: Caller) -> None:
    """A redirection would send a body again, over HTTP if the proxy does not say how it was asked."""
    reply = admin.client.post("/v1/tokens/", json={}, follow_redirects=False)
    assert reply.status_code == 404
    assert "location" not in reply.headers


def test_without_the_setting_no_page_of_another_origin_may_read_anything(shop: Caller) -> None:
    assert preflight(shop, DECISIONS, SHOP).status_code == 405
    reply = shop.decide("v1")
    assert not any(name.startswith("access-control") for name in reply.headers)


@pytest.mark.parametrize("settings", [Settings(cors_origins=(SHOP,))])
def test_pages_of_named_origins_may_decide_and_no_others(shop: Caller) -> None:
    asked = preflight(shop, DECISIONS, SHOP)
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, SHOP)
    assert preflight(shop, DECISIONS, OTHER).status_code == 400
    body = {"id": "v1", "user": "u", "context": AGNES}
    for origin, seen in ((SHOP, SHOP), (OTHER, None)):
        reply = shop.post(DECISIONS, body, Origin=origin)
        assert reply.headers.get("access-control-allow-origin") == seen
        assert "access-control-allow-credentials" not in reply.headers
    refused = Caller(shop.client, None).post(DECISIONS, body, Origin=SHOP)
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, SHOP)


@pytest.mark.parametrize("settings", [Settings(cors_origins=[SHOP])])  # type: ignore[arg-type]
def test_only_routes_of_devices_and_decisions_are_open_to_pages(admin: Caller) -> None:
    """Every route, so that one which is added is closed until somebody opens it."""
    opened = {path for (_, path) in operations(admin) if preflight(admin, named(path), SHOP).is_success}
    policy = "/v1/policies/{policy}"
    assert opened == {
        f"{policy}/decisions",
        f"{policy}/decisions:batch",
        f"{policy}/decisions:check",
        f"{policy}/decisions/{{decision}}",
        f"{policy}/decisions/{{decision}}/reward",
        f"{policy}/decisions/{{decision}}:activate",
        f"{policy}/decisions/{{decision}}:abandon",
        f"{policy}/rewards:batch",
        "/v1/local/{survey}/policy",
        "/v1/local/{survey}/reports",
        "/ofrep/v1/evaluate/flags/{policy}",
        "/ofrep/v1/evaluate/flags",
    }
    for path in ("/login", "/", "/v1/tokens"):
        assert preflight(admin, path, SHOP).status_code in (404, 405), path


def named(path: str) -> str:
    return re.sub(r"\{[a-z]+\}", "x", path)


@pytest.mark.parametrize("origins", ["https://shop.example.org", ["*"], ["null"], [f"{SHOP}/"], [7], 7])
def test_an_origin_that_is_none_is_refused(origins: Any) -> None:
    with pytest.raises(InvalidParameter, match="cors_origins: expected a list of origins"):
        Settings(cors_origins=origins)
