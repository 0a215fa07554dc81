"""Exchanges on a database: caps, answers and shares of the work hold over all processes that serve."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpbandits.service import exchanges
from dpbandits.service.backups import into_database, into_folder
from dpbandits.service.core import Service
from dpbandits.service.problems import Problem
from dpbandits.service.settings import Settings
from service import databases
from service.conftest import Caller, served
from service.test_outsourced import AT, DOSES, PATIENTS, answered, curator_of, refused, release_of, spent


@pytest.fixture
def settings() -> Settings:
    return Settings(database=databases.any_kind())


def opened(admin: Caller, folder: Path) -> None:
    """The release is there; it answers four of its five rows."""
    answered(admin.post("/v1/populations", PATIENTS), 201)
    answered(admin.post("/v1/outsourced", DOSES), 201)
    answered(admin("PUT", f"{AT}/release", release_of(curator_of(), folder)))


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """What each of them gave, or the Problem that it raised."""
    found: list[Any] = [None] * len(calls)

    def make(place: int) -> None:
        try:
            found[place] = calls[place]()
        except Problem as problem:
            found[place] = problem

    threads = [threading.Thread(target=make, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    return found


def test_what_is_asked_and_answered_at_once(folder: Path, settings: Settings, tmp_path: Path) -> None:
    first, second = (Service(folder, settings=settings) for _ in range(2))
    with served(first) as admin, served(second, admin.token):
        opened(admin, tmp_path / "release")
        admin.post("/v1/outsourced", DOSES)  # the same request pays nothing more
        assert spent(admin)["epsilon"] == "2.0"
        workers = (first, second)

        def ask(row: int) -> Callable[[], Any]:
            return lambda: (
                workers[row % 2].write(lambda writes: exchanges.ask(writes, "doses", [row])).result(60.0)
            )

        found = at_once([ask(row) for row in range(5)])
        assert sum(isinstance(one, Problem) for one in found) == 1  # the cap is four

        def work(place: int) -> Callable[[], Any]:
            service = workers[place]
            return lambda: service.write(
                lambda writes: exchanges.open_work(writes, service.keys, "doses", worker=f"w{place}", most=2)
            ).result(60.0)["rows"]

        shares = at_once([work(0), work(1)])
        assert [len(one) for one in shares] == [2, 2]
        assert not set(shares[0]) & set(shares[1])

        def tell(value: float) -> Callable[[], Any]:
            service = workers[value > 0.5]
            return lambda: service.write(
                lambda writes: exchanges.answer(writes, "doses", shares[0][0], value, 0.0)
            ).result(60.0)

        told = at_once([tell(0.25), tell(0.75)])
        assert sum(isinstance(one, Problem) for one in told) == 1  # one answer, ever
        refused(admin.post(f"{AT}/questions", {"rows": [0, 1, 2, 3, 4]}), "no-rounds-left", 409)


def test_there_and_back(folder: Path, settings: Settings, tmp_path: Path) -> None:
    with served(Service(folder)) as admin:
        opened(admin, tmp_path / "release")
        asked = answered(admin.post(f"{AT}/questions", {"rows": [2, 0]}))
        release, token = admin.get(f"{AT}/release").json(), admin.token
    into_database(folder, settings=settings)
    with served(Service(folder, settings=settings), token) as admin:
        assert admin.get(f"{AT}/release").json() == release
        assert answered(admin.get(f"{AT}/questions")) == asked
        assert answered(admin.post(f"{AT}/work", {"worker": "ward", "most": 2})) == {"rows": [2, 0]}
        answered(admin("PUT", f"{AT}/questions/2/answer", {"answer": 0.5}))
        refused(admin("PUT", f"{AT}/questions/2/answer", {"answer": 0.25}), "conflict", 409)
    into_folder(folder, tmp_path / "home", settings=settings)
    with served(Service(tmp_path / "home"), token) as admin:
        rows = answered(admin.get(f"{AT}/questions"))["questions"]
        assert [(row["row"], row["answer"]) for row in rows] == [(2, 0.5), (0, None)]
        assert spent(admin)["epsilon"] == "2.0"
