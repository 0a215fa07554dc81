"""`js/src/service.d.ts` says of requests and answers what the OpenAPI document says."""

import re
import subprocess

import pytest

from js.driver import JS
from service.conftest import Caller
from service.test_schema import operations

TYPES = (JS / "src" / "service.d.ts").read_text()
TSC = JS / "node_modules" / ".bin" / "tsc"


def interfaces() -> dict[str, dict[str, bool]]:
    """Name -> member -> whether it may be left out."""
    found = {}
    for name, body in re.findall(r"^export interface (\w+) \{\n(.*?)^\}", TYPES, flags=re.M | re.S):
        found[name] = {one: mark == "?" for one, mark in re.findall(r"^  (\w+)(\??):", body, flags=re.M)}
    return found


def routes() -> dict[str, tuple[str, str]]:
    """Method and path -> types of the request and the answer."""
    rows = re.findall(r'^  "([A-Z]+ [^"]+)": \{ request: (\w+); answer: (\w+) \};', TYPES, flags=re.M)
    return {place: (request, answer) for place, request, answer in rows}


def test_every_type_has_the_members_of_the_document(admin: Caller) -> None:
    schemas, named = admin.get("/openapi.json").json()["components"]["schemas"], interfaces()
    del named["Routes"]
    assert len(named) >= 20
    for name, members in named.items():
        required = set(schemas[name].get("required", ()))
        assert members == {one: one not in required for one in schemas[name]["properties"]}, name


def test_words_of_a_member_are_those_of_the_document(admin: Caller) -> None:
    schemas, compared = admin.get("/openapi.json").json()["components"]["schemas"], 0
    for name, body in re.findall(r"^export interface (\w+) \{\n(.*?)^\}", TYPES, flags=re.M | re.S):
        for member, kind in re.findall(r"^  (\w+)\??:\s*((?:[\s|]*\"[\w-]+\")+);", body, flags=re.M):
            words = set(re.findall(r'"([\w-]+)"', kind))
            assert words == set(schemas[name]["properties"][member]["enum"]), (name, member)
            compared += 1
    assert compared >= 6


def test_routes_that_pages_may_use_have_types(admin: Caller) -> None:
    found = {}
    for (method, path), one in operations(admin).items():
        if path.startswith(("/ofrep/", "/v1/policies/{policy}/decisions", "/v1/policies/{policy}/rewards")):
            body = one.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            answer = one["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
            request = body.get("$ref", "never").rpartition("/")[2]
            found[f"{method.upper()} {path}"] = (request, answer.rpartition("/")[2])
    assert routes() == found


@pytest.mark.skipif(not TSC.exists(), reason="tsc is not there: `make js` or `npm ci` in js/ installs it")
def test_tsc_takes_what_fits_and_finds_what_does_not() -> None:
    done = subprocess.run(
        [str(TSC), "--project", "test"], cwd=JS, capture_output=True, text=True, timeout=120, check=False
    )
    assert (done.returncode, done.stdout) == (0, "")
    assert (JS / "test" / "service.ts").read_text().count("@ts-expect-error") == 3
