"""Files of every release since 0.1.0 open in this version, with the same answers."""

import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest

import dpbandits as dpb
from compatibility.files import CROWD, HERE, POLICIES, of_policy, of_published, of_server, of_service, routes
from dpbandits.central.published_function import PublishedFunction
from dpbandits.export import decide_by
from dpbandits.local import DurableServer, Spec
from dpbandits.service.core import Service
from service.conftest import served

RELEASES = sorted(path for path in HERE.iterdir() if (path / "expected.json").exists())


@pytest.fixture(params=RELEASES, ids=[path.name for path in RELEASES])
def release(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of the files of one release: opening them may write."""
    return shutil.copytree(request.param, tmp_path / "files")


def expected(release: Path, name: str) -> Any:
    return json.loads((release / "expected.json").read_text())[name]


def holds(new: Any, old: Any) -> bool:
    """Return True if `new` has everything that `old` has, with the same values; it may have more."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and holds(new[key], value) for key, value in old.items())
    return bool(new == old)


@pytest.mark.parametrize("name", POLICIES)
def test_a_running_policy_goes_on(release: Path, name: str) -> None:
    ledger = dpb.SQLiteLedger(release / "policies" / f"{name}.sqlite")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a copy on another machine is said to be one
        policy = dpb.central.GPBandit.open(release / "policies" / name, ledger=ledger)
    with policy:
        assert holds(of_policy(policy), expected(release, f"policies/{name}"))
        assert policy.tell(policy.pending[0], 1.0)
        policy.ask(*(() if policy.contexts is None else (CROWD[0],)), user="new")
    assert float(f"{ledger.balance('people').spent_epsilon:.6g}") == expected(release, f"ledgers/{name}")


@pytest.mark.parametrize("name", POLICIES)
def test_a_published_function_decides_as_it_did(release: Path, name: str) -> None:
    folder, told = release / "published" / name, expected(release, f"published/{name}")
    published = PublishedFunction.load(folder)
    assert holds(of_published(published, people=name != "cells"), told)
    published.save(release / "again")
    assert (release / "again" / "policy.json").read_bytes() == (folder / "policy.json").read_bytes()
    if name != "cells":
        exported = json.loads((release / "published" / f"{name}.decisions.json").read_text())
        assert [decide_by(exported, person) for person in CROWD] == told["decided"]


def test_reports_are_counted_once(release: Path) -> None:
    spec = Spec.from_json((release / "spec.json").read_text())
    assert spec.digest.hex() == expected(release, "spec")
    reports = [bytes.fromhex(line) for line in (release / "reports.txt").read_text().split()]
    with DurableServer.open(spec, release / "local") as server:
        assert of_server(server) == expected(release, "local")
        assert server.absorb(reports).repeated == len(reports)


def test_a_service_answers_as_before(release: Path) -> None:
    found, told = of_service(release / "service"), expected(release, "service")
    assert set(told.pop("fields")) <= set(found.pop("fields"))
    assert found == told


def test_routes_keep_their_fields(release: Path) -> None:
    """A request of that release is taken still, and an answer has what it had."""
    with served(Service(release / "new")) as caller:
        now = routes(caller.get("/openapi.json").json())
    for route, then in json.loads((release / "routes.json").read_text()).items():
        assert route in now
        assert set(now[route]["needs"]) <= set(then["needs"]), route
        assert set(then["takes"]) <= set(now[route]["takes"]), route
        assert set(then["answers"]) <= set(now[route]["answers"]), route


def test_there_are_files_of_a_release() -> None:
    assert RELEASES
