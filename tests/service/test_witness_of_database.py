"""A database that is put back to an older copy is noticed by who remembers, outside of it, how far it was."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dpbandits.errors import ForkedState, IncompatibleState, StateError
from dpbandits.privacy.definitions import JointDP
from dpbandits.service import core
from dpbandits.service.core import Service
from dpbandits.service.folding import Folding
from dpbandits.service.row_ledger import RowLedger
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore, Store
from dpbandits.state.witness import FileWitness
from internals.workers import folding
from service import databases
from service.conftest import CUSTOMERS, Caller, served
from service.test_desk import login, page
from service.test_workers import SHORT, releases, the_policy

TABLES = (
    "facts",
    "tokens",
    "populations",
    "policies",
    "decisions",
    "releases",
    "events",
    "progress",
    "slots",
)
TABLES += ("people", "states", "accounts", "charges", "lineages", "book")


def everything(store: Store) -> dict[str, list[Any]]:
    """What a backup has."""
    with store.reading() as reads:
        return {table: reads.rows(f"SELECT * FROM {table}") for table in TABLES}  # noqa: S608


def put_back(store: Store, held: dict[str, list[Any]]) -> None:
    with store.writing() as writes:
        for table, rows in held.items():
            writes.run(f"DELETE FROM {table}")  # noqa: S608
            writes.many(table, rows)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    made = tmp_path / "outside"
    made.mkdir(mode=0o700)
    return made


@pytest.fixture
def settings(outside: Path) -> Settings:
    return Settings(database=databases.any_kind(), witness=str(outside))


@pytest.fixture
def worker(
    folder: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[Service, Caller]]:
    """Folds when it is told to; a policy has answered all of its first block."""
    monkeypatch.setattr(core, "FOLD_SECONDS", 1e6)
    monkeypatch.setattr(Folding, "wake", lambda _: None)
    service = Service(folder, settings=settings)
    with served(service) as one:
        assert one.post("/v1/populations", CUSTOMERS).status_code == 201
        assert one.post("/v1/policies", SHORT).status_code == 201
        for number in range(8):
            assert one.decide(f"v{number}").status_code == 200
        yield service, one


def the_desk(one: Caller) -> Any:
    """The page that shows what a policy has learned."""
    cookie = str(login(one, str(one.token)).cookies["dpbandits_desk"])
    shown = page(one, "/desk/policies/offers", cookie)
    one.client.cookies.clear()
    return shown


def test_an_older_copy_releases_and_charges_nothing_and_serves_nobody(
    worker: tuple[Service, Caller], folder: Path, settings: Settings
) -> None:
    service, one = worker
    policy, older = the_policy(service), everything(service.store)
    assert folding(service).fold(policy) == 1
    assert one.decide("v8").json()["release"] == 1
    put_back(service.store, older)
    with pytest.raises(ForkedState, match="older copy"):
        folding(service).fold(policy)
    assert releases(one) == []
    assert one.get("/v1/policies/offers/policy").status_code == 503
    assert one.post("/v1/populations", {**CUSTOMERS, "name": "others"}).status_code == 503
    with pytest.raises(ForkedState, match="older copy"):
        Service(folder, settings=settings)


def test_a_release_that_was_drawn_again_elsewhere_decides_for_nobody(
    worker: tuple[Service, Caller], settings: Settings
) -> None:
    """By who has no witness; the others see another word at the place that they know."""
    service, one = worker
    policy, older = the_policy(service), everything(service.store)
    assert folding(service).fold(policy) == 1
    first = one.get("/v1/policies/offers/policy")
    assert first.status_code == 200
    put_back(service.store, older)
    blind = RowLedger(service.store)
    with service.store.reading() as reads:
        position, digest = reads.one("SELECT position, digest FROM lineages WHERE lineage = ?", policy) or (
            0,
            "",
        )
    for step in range(1, 4):
        blind.advance(policy, position=position + step, digest=f"{digest}{step}")
    assert one.get("/v1/policies/offers/policy").status_code == 503


def test_what_the_witness_was_not_told_is_not_shown_until_it_is(
    worker: tuple[Service, Caller], outside: Path
) -> None:
    service, one = worker
    outside.rename(outside.with_name("away"))
    with pytest.raises(StateError):
        folding(service).fold(the_policy(service))
    outside.with_name("away").rename(outside)

    def silent(*_: object, **__: object) -> None:
        raise StateError("the witness does not answer")

    with pytest.MonkeyPatch.context() as broken:
        broken.setattr(FileWitness, "advance", silent)
        assert folding(service).fold(the_policy(service)) == 1
        assert one.get("/v1/policies/offers/policy").status_code == 503
        context = {"age": 40, "region": "west"}
        assert the_desk(one).status_code == 503
        waiting = service.decide("offers", "t", {"id": "v8", "user": "v8", "context": context})
        assert isinstance(waiting.exception(60.0), StateError)
    before = FileWitness(outside).last("database")
    assert the_desk(one).status_code == 200
    assert one.decide("v8").json()["release"] == 1
    after = FileWitness(outside).last("database")
    assert before is not None
    assert after is not None
    assert after.position == before.position + 1


def test_every_worker_needs_the_witness_and_one_that_remembers(
    worker: tuple[Service, Caller], folder: Path, settings: Settings, tmp_path: Path
) -> None:
    with pytest.raises(IncompatibleState, match="every worker"):
        Service(folder, settings=Settings(database=settings.database))
    (tmp_path / "empty").mkdir(mode=0o700)
    with pytest.raises(IncompatibleState, match="lost its memory"):
        Service(folder, settings=Settings(database=settings.database, witness=str(tmp_path / "empty")))


def test_a_copy_of_the_witness_that_has_fallen_behind_is_refused(tmp_path: Path, outside: Path) -> None:
    """Else a database that is put back to where it was copied is the newest by it, and released before."""
    store = SQLiteStore(tmp_path / "service.db")
    one, idle = (RowLedger(store, witness=FileWitness(outside)) for _ in range(2))
    one.begin()
    idle.begin()
    there = tmp_path / "there"
    shutil.copytree(outside, there)
    copied = RowLedger(store, witness=FileWitness(there))
    for position in range(2):
        one.advance("policy", position=position, digest=str(position))
    for refused in (copied.begin, copied.settle, lambda: copied.open_account("a", privacy=JointDP(1))):
        with pytest.raises(ForkedState, match="is a copy"):
            refused()
    idle.advance("policy", position=2, digest="2")
    one.settle()
    store.close()


def test_who_begins_with_a_copy_of_the_witness_is_noticed_by_all_others(
    tmp_path: Path, outside: Path
) -> None:
    store = SQLiteStore(tmp_path / "service.db")
    one = RowLedger(store, witness=FileWitness(outside))
    one.begin()
    shutil.copytree(outside, tmp_path / "there")
    copied = RowLedger(store, witness=FileWitness(tmp_path / "there"))
    copied.begin()
    with pytest.raises(ForkedState, match="is a copy"):
        one.advance("policy", position=0, digest="0")
    copied.advance("policy", position=0, digest="0")
    store.close()


def test_what_another_worker_told_meanwhile_is_no_copy(tmp_path: Path, outside: Path) -> None:
    """Between asking the witness and reading the database, others may go on."""
    store = SQLiteStore(tmp_path / "service.db")
    other = RowLedger(store, witness=FileWitness(outside))
    other.begin()

    class Slow(FileWitness):
        """Its answer to who asks is old by two events."""

        asked = 0

        def last(self, lineage: str) -> Any:
            found, self.asked = super().last(lineage), self.asked + 1
            if self.asked == 1:
                for position in range(2):
                    other.advance("policy", position=position, digest=str(position))
            return found

    slow = Slow(outside)
    assert RowLedger(store, witness=slow).settle() == 2
    assert slow.asked == 2
    store.close()


def test_workers_that_tell_one_witness_at_once(tmp_path: Path, outside: Path) -> None:
    store = SQLiteStore(tmp_path / "service.db")
    ledgers = [RowLedger(store, witness=FileWitness(outside)) for _ in range(4)]
    for ledger in ledgers:
        ledger.begin()

    def charge(place: int) -> None:
        ledgers[place].open_account(f"a{place}", privacy=JointDP(1))
        for number in range(5):
            ledgers[place].charge(f"a{place}", charge_id=str(number), cost=JointDP(0.1))

    threads = [threading.Thread(target=charge, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    last = FileWitness(outside).last("database")
    with store.reading() as reads:
        rows = reads.rows("SELECT position, digest FROM book ORDER BY position")
    assert [row[0] for row in rows] == list(range(28))
    assert last == rows[-1]
    store.close()


def test_a_transaction_that_is_undone_leaves_no_row_in_the_book(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "service.db")
    ledger = RowLedger(store)
    with store.writing() as writes:
        writes.mark()
        ledger.open_account("a", privacy=JointDP(1))
        writes.back()
        ledger.open_account("b", privacy=JointDP(1))
    with store.reading() as reads:
        assert reads.rows("SELECT position FROM book") == [(0,)]
    store.close()
