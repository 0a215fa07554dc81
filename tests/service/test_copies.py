"""A copied or restored store is told by what is outside of it: the name of the instance, and the witness."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dpbandits.errors import ForkedState, MissingState, StateError
from dpbandits.service.backups import adopt, into_database, unnoticed_copies
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import CUSTOMERS, OFFERS, Caller, served


@pytest.fixture(params=["folder", "database"])
def shared(request: pytest.FixtureRequest) -> str:
    """The database, if it is in one."""
    return "" if request.param == "folder" else databases.any_kind()


def begun(folder: Path, settings: Settings) -> str:
    """The token of a service that has a policy."""
    with served(Service(folder, settings=settings)) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        assert admin.post("/v1/policies", OFFERS).status_code == 201
        assert admin.decide("v0").status_code == 200
        return admin.token or ""


def only_reads(caller: Caller) -> bool:
    refused = caller.decide("new")
    assert caller.get("/v1/policies/offers/policy").status_code == 200
    reasons = caller.get("/v1/ready").json().get("reasons", [])
    if refused.status_code == 200:
        assert "copy" not in reasons
        return False
    assert refused.json()["type"] == "urn:dpbandits:read-only"
    assert "copy" in reasons
    return True


@pytest.mark.parametrize("name", ["", "staging"])
def test_under_another_name_or_none_it_is_a_copy(folder: Path, shared: str, name: str) -> None:
    here = Settings(instance="shop-1", database=shared)
    token = begun(folder, here)
    for _ in range(2):  # as a container that is begun again
        with served(Service(folder, settings=here), token) as admin:
            assert not only_reads(admin)
    elsewhere = Settings(instance=name, database=shared)
    with served(Service(folder, settings=elsewhere), token) as admin:
        assert only_reads(admin)
    with served(Service(folder, settings=here), token) as admin:  # a wrong name has changed nothing
        assert not only_reads(admin)
    assert adopt(folder, settings=elsewhere, nothing_since=True) is True
    with served(Service(folder, settings=elsewhere), token) as admin:
        assert not only_reads(admin)
    if name:
        with served(Service(folder, settings=here), token) as admin:
            assert only_reads(admin)
    with pytest.raises(MissingState):
        adopt(folder, settings=elsewhere)


def test_a_copy_under_another_name_is_closed_where_nobody_knows_what_was_done(
    folder: Path, tmp_path: Path
) -> None:
    token = begun(folder, Settings(instance="shop-1"))
    shutil.copytree(folder, tmp_path / "copy")
    assert adopt(tmp_path / "copy", settings=Settings(instance="shop-2")) is False
    with served(Service(tmp_path / "copy", settings=Settings(instance="shop-2")), token) as admin:
        assert admin.decide("v1").json()["type"] == "urn:dpbandits:conflict"


def test_a_name_is_given_at_any_start(folder: Path) -> None:
    token = begun(folder, Settings())
    named = Settings(instance="shop-1")
    with served(Service(folder, settings=named), token) as admin:
        assert not only_reads(admin)
    with served(Service(folder), token) as admin:
        assert only_reads(admin)


def test_two_folders_are_not_served_with_one_witness(folder: Path, tmp_path: Path) -> None:
    """Also where the copy is as far as the original, and has its name: it would have drawn a block again."""
    (tmp_path / "witness").mkdir(mode=0o700)
    settings = Settings(instance="shop-1", witness=str(tmp_path / "witness"))
    token = begun(folder, settings)
    shutil.copytree(folder, tmp_path / "copy")
    with served(Service(folder, settings=settings), token) as admin:
        with pytest.raises(StateError, match="one is a copy"):
            Service(tmp_path / "copy", settings=settings)
        assert admin.decide("v1").status_code == 200  # the original goes on
    with pytest.raises(ForkedState):
        Service(tmp_path / "copy", settings=settings)
    with served(Service(folder, settings=settings), token) as admin:
        assert not only_reads(admin)


def test_a_copy_is_not_moved(folder: Path) -> None:
    begun(folder, Settings(instance="shop-1"))
    with pytest.raises(StateError, match="not adopted"):
        into_database(folder, settings=Settings(database=databases.any_kind()))


def test_every_start_says_what_it_means_that_nothing_outside_knows_it(tmp_path: Path) -> None:
    assert unnoticed_copies(Settings(instance="shop-1")) == unnoticed_copies(Settings(witness="w")) == ""
    said = "nobody notices, and a block may be released twice"
    assert said in unnoticed_copies(Settings())
    foreign = "it belongs to the instance 'shop-1', and the settings name 'shop-2'"
    for name, lines in (("", (1, 0)), ("shop-1", (0, 0)), ("shop-2", (0, 1))):
        command = [sys.executable, "-m", "dpbandits", "serve", "--port", "0", "--data", str(tmp_path / "new")]
        server = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "DPBANDITS_INSTANCE": name},
        )
        assert server.stdout is not None
        assert server.stdout.readline().startswith("http://")
        server.terminate()
        _, log = server.communicate(timeout=60)
        assert (log.count(said), log.count(foreign)) == lines


def test_a_witness_that_does_not_exist_is_named_by_its_setting(tmp_path: Path) -> None:
    with pytest.raises(StateError, match="witness: the folder"):
        Service(tmp_path / "data", settings=Settings(witness=str(tmp_path / "none")))
