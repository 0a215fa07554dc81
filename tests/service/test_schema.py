"""The OpenAPI document says what the routes do; see `schema.py` for what schemathesis makes of it."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from service.conftest import Caller
from service.test_local import PEOPLE
from service.test_outsourced import AT, PATIENTS, curator_of, release_of

SCHEMA = Path(__file__).with_name("schema.py")
JSON = "application/json"


def operations(admin: Caller) -> dict[tuple[str, str], dict[str, Any]]:
    paths = admin.get("/openapi.json").json()["paths"]
    return {(method, path): one for path, methods in paths.items() for method, one in methods.items()}


def test_every_route_has_examples_and_names_its_statuses(admin: Caller) -> None:
    document = admin.get("/openapi.json").json()
    for (method, path), one in operations(admin).items():
        for code, answer in one["responses"].items():
            content = answer.get("content", {})
            if int(code) >= 400:
                form = JSON if path.startswith("/ofrep/") else "application/problem+json"
                assert set(content) == {form}, (method, path, code)
            elif code not in ("204", "304"):
                assert all("example" in kind for kind in content.values()), (method, path, code)
                assert content, (method, path, code)
        (body,) = one.get("requestBody", {"content": {"none": None}})["content"].values()
        if body is not None and "example" not in body:
            named = body["schema"]["$ref"].rpartition("/")[2]
            assert document["components"]["schemas"][named]["examples"], (method, path)
        for parameter in one.get("parameters", ()):
            if parameter["in"] == "path":
                assert parameter["schema"]["examples"], (method, path, parameter["name"])


def test_a_text_in_a_path_is_one_that_every_store_can_keep(admin: Caller) -> None:
    """Refused at the door: what a database cannot be sent never shares a transaction with other callers."""
    refused = 0
    for (method, path), one in operations(admin).items():
        for parameter in one.get("parameters", ()):
            if parameter["in"] == "path" and parameter["schema"]["type"] == "string":
                if parameter["name"] != "event":  # a caller's own id, of which a digest is kept
                    assert parameter["schema"]["pattern"] == "^[!-~]+$", (method, path, parameter["name"])
                for odd in ("%00", "a%00b", "%EF%BF%BD", "a%0A", "a%20b"):
                    sent = re.sub(r"\{[a-z]+\}", odd, path)
                    answer = admin(method.upper(), sent, one.get("requestBody") and {})
                    unfit = 400 if path.startswith("/ofrep/") else 422
                    assert answer.status_code in (404, unfit), (method, sent, answer.status_code)
                    refused += answer.status_code == unfit
    assert refused > 100
    label = {"label": "two\0lines", "scopes": ["read"]}
    assert admin.post("/v1/tokens", label).status_code == 422


def test_the_examples_are_what_is_answered(admin: Caller, tmp_path: Path) -> None:
    """Each request of the document, in an order that makes sense, has an answer with the members it shows."""
    found = operations(admin)
    schemas = admin.get("/openapi.json").json()["components"]["schemas"]
    named = {"identity": admin.post("/v1/tokens", {"label": "x", "scopes": ["read"]}).json()["id"]}
    for body in ({**PATIENTS, "privacy": {**PATIENTS["privacy"], "epsilon": 9}}, PEOPLE):
        assert admin.post("/v1/populations", body).status_code == 201
    first = [
        ("post", f"/v1/{one}")
        for one in ("populations", "policies", "policies/{policy}/decisions", "outsourced", "local")
    ]
    left_out = [
        ("put", "/v1/outsourced/{exchange}/release"),  # a description is too long to be shown whole
        ("post", "/v1/local/{survey}/reports"),  # bytes
        ("get", "/v1/policies/{policy}/readout"),  # the example has none: `test_readout`
        ("post", "/v1/policies/{policy}/readout:end"),
        ("get", "/v1/local/{survey}/readout"),  # the example is none: `test_local`
    ]
    turns = ("post", "get", "put", "patch", "delete")
    rest = sorted(set(found) - set(first) - set(left_out), key=lambda one: (turns.index(one[0]), one[1]))
    for method, path in first + rest:
        one, here, body = found[method, path], path, None
        for parameter in one.get("parameters", ()):
            if parameter["in"] == "path":
                name = parameter["name"]
                here = here.replace(f"{{{name}}}", named.get(name, str(parameter["schema"]["examples"][0])))
        if "requestBody" in one:
            title = one["requestBody"]["content"][JSON]["schema"]["$ref"].rpartition("/")[2]
            text = json.dumps(schemas[title]["examples"][0])
            body = json.loads(re.sub(r"d1-[0-9a-f]{32}", named.get("decision", ""), text))
        reply = admin(method.upper(), here, body, **({"If_Match": "*"} if method == "patch" else {}))
        assert reply.status_code < 300, (method, path, reply.text)
        example = one["responses"][str(reply.status_code)].get("content", {}).get(JSON, {}).get("example")
        if example is not None:
            assert missing(reply.json(), example) == set(), (method, path, reply.text)
        if path == "/v1/policies/{policy}/decisions":
            named["decision"] = reply.json()["id"]
        if path == "/v1/local":
            assert admin("PUT", f"{AT}/release", release_of(curator_of(), tmp_path / "r")).status_code == 200


def missing(answer: Any, example: Any) -> set[str]:
    """Members that an example shows and the answer has not; an empty list shows none."""
    if isinstance(example, dict):
        lacking = set(example) - set(answer)
        return lacking.union(*(missing(answer[name], example[name]) for name in set(example) - lacking))
    if isinstance(example, list) and answer:
        return missing(answer[0], example[0]) if example else set()
    return set()


def whole(examples: int, seed: int, *phases: str) -> dict[str, Any]:
    if importlib.util.find_spec("schemathesis") is None:
        pytest.skip("schemathesis makes up what is sent: pip install 'dpbandits[dev]'")
    done = subprocess.run(
        [sys.executable, str(SCHEMA), str(examples), str(seed), *phases],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_a_little_of_the_schema() -> None:
    assert whole(1, 1, "examples,fuzzing")["cases"] > 60


@pytest.mark.slow
def test_the_whole_schema() -> None:
    assert whole(20, 1)["cases"] > 1000
