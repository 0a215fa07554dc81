"""A service moves from its folder into a database and back: it goes on in one place, whatever interrupts."""

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import pytest

from dpbandits.errors import CorruptState, ForkedState, StateError
from dpbandits.service import backups
from dpbandits.service.backups import into_database, into_folder
from dpbandits.service.core import Service
from dpbandits.service.postgres import PostgresStore
from dpbandits.service.settings import Settings
from dpbandits.service.store import SQLiteStore, Writes, note_event
from service import databases, test_local
from service.conftest import CUSTOMERS, Caller, served
from service.processes import packed_reports
from service.test_workers import SHORT, releases


@pytest.fixture
def moved_to() -> Settings:
    return Settings(database=databases.any_kind())


def begun(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """A folder in the middle of its second block: its token, and what was answered."""
    with served(Service(folder)) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        assert admin.post("/v1/policies", SHORT).status_code == 201
        answers = [admin.decide(f"v{number}").json() for number in range(12)]
        for answer in answers[1::2]:
            admin.reward(answer["id"], 1)
        assert releases(admin) == [6]
        return admin.token or "", answers


def goes_on(admin: Caller, answers: list[dict[str, Any]], first: int, blocks: list[int]) -> None:
    """What was answered is answered, users have had their rounds, and rewards that are awaited count."""
    for number, answer in enumerate(answers):
        assert admin.decide(f"v{number}").json() == answer
    again = admin.decide("again", user="v3").json()
    assert again["type"] == "urn:dpbandits:user-has-had-all"
    assert admin.reward(answers[first]["id"], 0.5).json() == {"outcome": "counted"}
    assert admin.reward(answers[first + 1]["id"], 0.5).json() == {"outcome": "duplicate"}
    assert admin.reward(answers[2]["id"], 0.5).json() == {"outcome": "late"}
    assert releases(admin) == blocks
    parts = admin.get("/v1/populations/customers").json()["parts"]
    assert [part["spent"] for part in parts if part["spent"] != "0"] == SPENT


SPENT: list[str] = []


def spent(folder: Path, token: str) -> list[str]:
    with served(Service(folder), token) as admin:
        found = admin.get("/v1/populations/customers").json()["parts"]
    return [part["spent"] for part in found if part["spent"] != "0"]


def test_there_and_back(
    folder: Path, tmp_path: Path, moved_to: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, answers = begun(folder)
    monkeypatch.setitem(globals(), "SPENT", spent(folder, token))
    into_database(folder, settings=moved_to)
    with pytest.raises(StateError, match="goes on in a database"):
        Service(folder)
    with served(Service(folder, settings=moved_to), token) as admin:
        goes_on(admin, answers, 8, [6])
        answers += [admin.decide(f"v{number}").json() for number in range(12, 23)]
        assert {answer["release"] for answer in answers[12:22]} == {1}
        assert answers[22]["release"] == 2
        assert releases(admin) == [6, 20]
        for number in (20, 22):
            admin.reward(answers[number - (number == 22)]["id"], 1)
    home = tmp_path / "home"
    into_folder(folder, home, settings=moved_to)
    with pytest.raises(StateError, match="moved into a folder"):
        Service(folder, settings=moved_to)
    store = PostgresStore(moved_to.database)
    with store.reading() as reads:  # nothing raw is left
        for table in ("slots", "people", "states", "progress", "decisions", "tokens"):
            assert reads.rows(f"SELECT * FROM {table}") == []  # noqa: S608
    store.close()
    with served(Service(home), token) as admin:
        for number, answer in enumerate(answers):
            assert admin.decide(f"v{number}").json() == answer
        assert admin.reward(answers[22]["id"], 1).json() == {"outcome": "counted"}
        assert admin.reward(answers[20]["id"], 1).json() == {"outcome": "duplicate"}
        assert admin.reward(answers[14]["id"], 1).json() == {"outcome": "late"}
        assert admin.decide("again", user="v15").json()["type"] == "urn:dpbandits:user-has-had-all"
        assert admin.decide("more").json()["release"] == 2
    assert spent(home, token) == SPENT


def test_each_place_has_a_witness_of_its_own(folder: Path, tmp_path: Path) -> None:
    def witnessed(name: str, database: str = "") -> Settings:
        (tmp_path / name).mkdir(mode=0o700, exist_ok=True)
        return Settings(witness=str(tmp_path / name), database=database)

    in_folder, left = witnessed("first"), witnessed("first", databases.any_kind())
    there = witnessed("between", left.database)
    with served(Service(folder, settings=in_folder)) as admin:
        assert admin.post("/v1/populations", CUSTOMERS).status_code == 201
        token = admin.token or ""
    into_database(folder, settings=left)
    with pytest.raises(ForkedState):
        Service(folder, settings=left)
    Service(folder, settings=there).close()
    into_folder(folder, tmp_path / "home", settings=there)
    Service(tmp_path / "home", settings=witnessed("second")).close()
    again = witnessed("second", databases.any_kind())
    into_database(tmp_path / "home", settings=again)
    last = witnessed("third", again.database)
    with served(Service(tmp_path / "home", settings=last), token) as admin:
        assert admin.get("/v1/populations/customers").status_code == 200


def test_what_was_left_cannot_go_on_even_without_its_note(folder: Path, moved_to: Settings) -> None:
    begun(folder)
    into_database(folder, settings=moved_to)
    store = SQLiteStore(folder / "service.db")
    with store.writing() as writes:
        writes.run("DELETE FROM facts WHERE name = 'moving'")
    store.close()
    service = Service(folder)
    policy = service.read(lambda reads: reads.one("SELECT id FROM policies") or ("",))[0]
    with pytest.raises(CorruptState, match="gone from the store"):
        service.write(lambda writes: service.engines.use(writes, policy)).result()
    last = service.ledger.last(policy)
    assert last is not None
    assert last.digest.startswith("moved:")
    with served(service) as admin:  # its tokens are gone: it is given a new one
        assert admin.decide("more").status_code == 503
        assert admin.post("/v1/policies", {**SHORT, "name": "more"}).status_code == 404


@pytest.mark.parametrize("at", ["fill", "retire", "finish"])
def test_a_move_that_is_interrupted_goes_on(
    folder: Path, moved_to: Settings, at: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, answers = begun(folder)
    original = getattr(backups, at)

    def interrupted(*arguments: Any) -> None:
        if at != "finish":
            original(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(backups, at, interrupted)
        with pytest.raises(KeyboardInterrupt):
            into_database(folder, settings=moved_to)
    with pytest.raises(StateError, match=r"being filled|service copy"):
        Service(folder, settings=moved_to)
    into_database(folder, settings=moved_to)
    into_database(folder, settings=moved_to)  # again changes nothing
    with served(Service(folder, settings=moved_to), token) as admin:
        assert admin.decide("v3").json() == answers[3]
        assert admin.decide("more").json()["release"] == 1


def test_a_move_back_that_is_interrupted_goes_on(
    folder: Path, tmp_path: Path, moved_to: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    token, answers = begun(folder)
    into_database(folder, settings=moved_to)
    original = backups.fill

    def interrupted(*arguments: Any) -> None:
        original(*arguments)
        raise KeyboardInterrupt

    home = tmp_path / "home"
    with monkeypatch.context() as patched:
        patched.setattr(backups, "fill", interrupted)
        with pytest.raises(KeyboardInterrupt):
            into_folder(folder, home, settings=moved_to)
    with pytest.raises(StateError):
        Service(home)
    with served(Service(folder, settings=moved_to), token) as admin:  # the database is as it was
        answers.append(admin.decide("v12").json())
    into_folder(folder, home, settings=moved_to)
    with served(Service(home), token) as admin:
        assert admin.decide("v12").json() == answers[12]


def test_a_worker_that_was_not_stopped_acknowledges_nothing_in_what_was_left(
    folder: Path, tmp_path: Path, moved_to: Settings
) -> None:
    with served(Service(folder)) as admin:
        assert admin.post("/v1/populations", test_local.PEOPLE).status_code == 201
        assert admin.post("/v1/local", test_local.ASKED).status_code == 201
        sent = test_local.reports(admin, 2)
    into_database(folder, settings=moved_to)
    worker, under_way, go_on = Service(folder, settings=moved_to), threading.Event(), threading.Event()
    assert worker.surveys.absorb_each("tips", [packed_reports(sent[:1])]) == [
        {"accepted": 1, "not_counted": 0}
    ]

    def late(writes: Writes) -> None:
        note_event(writes, 1.0, "late", "somebody")
        under_way.set()
        go_on.wait(60.0)

    with ThreadPoolExecutor(2) as threads:
        acknowledged = worker.write(late)
        assert under_way.wait(60.0)
        moved = threads.submit(into_folder, folder, tmp_path / "home", settings=moved_to)
        done, _ = wait([moved], timeout=0.5)
        assert not done  # it waits for who has begun
        go_on.set()
        acknowledged.result(60.0)
        moved.result(60.0)
    for refused in (
        lambda: worker.write(lambda writes: note_event(writes, 2.0, "lost", "somebody")).result(60.0),
        lambda: worker.surveys.absorb_each("tips", [packed_reports(sent[1:])]),
        lambda: worker.ledger.advance("lineage", position=1, digest="0"),
    ):
        with pytest.raises(StateError, match=r"out of service|gone from the store"):
            refused()
    worker.close()
    store = SQLiteStore(tmp_path / "home" / "service.db")
    with store.reading() as reads:
        assert reads.rows("SELECT at FROM events WHERE subject = 'somebody'") == [(1.0,)]
    store.close()


def test_local_policies_go_along_there_and_back(folder: Path, tmp_path: Path, moved_to: Settings) -> None:
    with served(Service(folder)) as admin:
        assert admin.post("/v1/populations", test_local.PEOPLE).status_code == 201
        assert admin.post("/v1/local", test_local.ASKED).status_code == 201
        assert admin.post("/v1/local", {**test_local.ASKED, "name": "idle"}).status_code == 409
        token, sent = admin.token or "", test_local.reports(admin, 12)
        assert test_local.send(admin, packed_reports(sent[:3]))[1] == {"accepted": 3, "not_counted": 0}
        shown = admin.get("/v1/local/tips/policy").text
        spent = admin.get("/v1/populations/people").text
    into_database(folder, settings=moved_to)
    with served(Service(folder, settings=moved_to), token) as admin:
        assert admin.get("/v1/local/tips/policy").text == shown
        assert admin.get("/v1/populations/people").text == spent
        assert test_local.send(admin, packed_reports(sent[:6]))[1] == {"accepted": 3, "not_counted": 3}
        assert admin.post("/v1/local", test_local.ASKED).status_code == 201  # the same one
    home = tmp_path / "home"
    into_folder(folder, home, settings=moved_to)
    store = PostgresStore(moved_to.database)
    with store.reading() as reads:
        assert reads.rows("SELECT * FROM survey_log") == reads.rows("SELECT * FROM survey_states") == []
    store.close()
    for _ in range(2):  # what it knows is in its log
        with served(Service(home), token) as admin:
            assert admin.get("/v1/local/tips/policy").text == shown
            assert admin.get("/v1/populations/people").text == spent
            assert test_local.send(admin, packed_reports(sent[:6]))[1] == {"accepted": 0, "not_counted": 6}
    with served(Service(home), token) as admin:
        assert test_local.send(admin, packed_reports(sent))[1] == {"accepted": 6, "not_counted": 6}


def test_another_services_database_is_not_written_over(
    folder: Path, tmp_path: Path, moved_to: Settings
) -> None:
    Service(tmp_path / "other", settings=moved_to).close()
    begun(folder)
    with pytest.raises(StateError, match="of its own"):
        into_database(folder, settings=moved_to)
    Service(folder).close()
