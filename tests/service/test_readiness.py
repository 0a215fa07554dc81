"""Whether a service is ready: every word is said while it is true, quickly, and is taken back."""

import resource
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from dpbandits.service import readiness
from dpbandits.service.backups import back_up
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import CUSTOMERS, Caller, Hands, served


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "BEAT_SECONDS", 0.02)
    monkeypatch.setattr(readiness, "LATE_SECONDS", 0.3)


def becomes(caller: Caller, *reasons: str, seconds: float = 60.0) -> None:
    """It says exactly these before long, and does not wait for a store that is held until it has said so."""
    becomes_one_of(caller, list(reasons), seconds=seconds)


def becomes_one_of(caller: Caller, *expected: list[str], seconds: float = 60.0) -> None:
    """The same, of any one of these."""
    until = time.monotonic() + seconds
    nobody = Caller(caller.client, None)
    while True:
        reply = nobody.get("/v1/ready")
        said = reply.json().get("reasons", [])
        assert (reply.status_code == 200) == (said == [])
        if said in expected:
            break
        assert time.monotonic() < until, said
        time.sleep(0.01)
    assert nobody.get("/v1/live").json() == nobody.get("/v1/health").json() == {"status": "up"}


def test_it_is_ready(admin: Caller) -> None:
    becomes(admin)
    assert Caller(admin.client, None).get("/v1/ready").json() == {"status": "ready"}


class _Disk(NamedTuple):
    free: int


def test_a_disk_that_is_almost_full(admin: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", lambda _: _Disk(1 << 20))
        becomes(admin, "disk")
    becomes(admin)


def test_a_clock_that_has_jumped(service: Service, admin: Caller, hands: Hands) -> None:
    becomes(admin)
    hands.wrong = 1e6
    becomes(admin, "clock")
    hands.wrong = 0.0
    becomes(admin)


def test_a_store_that_cannot_be_written(admin: Caller) -> None:
    """As on a full disk: no file of this process may become longer than a page."""
    becomes(admin)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        becomes(admin, "store")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    becomes(admin)


def test_a_store_that_another_program_holds(service: Service, admin: Caller, folder: Path) -> None:
    import sqlite3

    becomes(admin)
    other = sqlite3.connect(folder / "service.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    becomes(admin, "store")
    other.execute("ROLLBACK")
    other.close()
    becomes(admin)


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    (tmp_path / "witness").mkdir(mode=0o700)
    return tmp_path / "witness"


def test_a_witness_that_does_not_answer(folder: Path, witness: Path) -> None:
    with served(Service(folder, settings=Settings(witness=str(witness)))) as admin:
        becomes(admin)
        witness.rename(witness.with_name("elsewhere"))
        becomes(admin, "witness")
        witness.with_name("elsewhere").rename(witness)
        becomes(admin)


def test_a_witness_that_knows_another_ledger(folder: Path, witness: Path) -> None:
    with served(Service(folder, settings=Settings(witness=str(witness)))) as admin:
        becomes(admin)
        (path,) = witness.glob("*.witness")
        path.unlink()
        becomes(admin, "ledger")


def test_a_copy(service: Service, admin: Caller, folder: Path, tmp_path: Path) -> None:
    back_up(folder, tmp_path / "copy")
    with served(Service(tmp_path / "copy"), admin.token) as reader:
        becomes(reader, "copy")


@contextmanager
def frozen(address: str) -> Iterator[None]:
    """Nobody can read or write the tables of a database meanwhile."""
    import psycopg

    with psycopg.connect(address) as connection:
        connection.execute("LOCK TABLE facts IN ACCESS EXCLUSIVE MODE")
        yield


def test_a_database_that_does_not_answer(folder: Path) -> None:
    settings = Settings(database=databases.any_kind())
    with served(Service(folder, settings=settings)) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        becomes(admin)
        with frozen(settings.database):  # whichever step meets the lock waits for it, and is named
            becomes_one_of(admin, ["connection"], ["store"])
        becomes(admin)


def test_a_database_that_is_down(folder: Path) -> None:
    import psycopg

    settings = Settings(database=databases.own())
    name = settings.database.partition("?")[0].rpartition("/")[2]
    server = settings.database.replace(f"/{name}?", "/postgres?")
    with (
        psycopg.connect(server, autocommit=True) as operator,
        served(Service(folder, settings=settings)) as admin,
    ):
        becomes(admin)
        operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false".encode())
        operator.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        nobody, began = Caller(admin.client, None), time.monotonic()
        while nobody.get("/v1/ready").status_code == 200:
            assert time.monotonic() - began < 60.0
            time.sleep(0.01)
        assert nobody.get("/v1/live").status_code == 200
        operator.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true".encode())
        becomes(admin)
