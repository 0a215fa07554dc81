"""The contract of every store: what the service leans on, whatever keeps the tables."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dpbandits.errors import CorruptState, IncompatibleState, ProtocolError, StateError
from dpbandits.service.store import MIGRATIONS, SQLiteStore, Store, Writes

FACT = "INSERT INTO facts VALUES (?, ?)"


@pytest.fixture(params=["sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made = SQLiteStore(tmp_path / "service.db", timeout=0.2)
    yield made
    made.close()


def facts(store: Store) -> dict[str, str]:
    with store.reading() as reads:
        return {row[0]: row[1] for row in reads.rows("SELECT name, value FROM facts") if row[0] != "version"}


def test_a_block_that_is_left_is_kept_and_one_that_raises_is_not(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "kept", "1")
    with suppress(KeyError), store.writing() as writes:
        writes.run(FACT, "lost", "1")
        raise KeyError
    assert facts(store) == {"kept": "1"}


def test_nobody_sees_what_is_not_committed(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
        assert facts(store) == {}
        writes.keep()
        assert facts(store) == {"one": "1"}
        writes.run(FACT, "two", "2")
    assert facts(store) == {"one": "1", "two": "2"}


def test_what_was_kept_survives_what_follows(store: Store) -> None:
    with suppress(KeyError), store.writing() as writes:
        writes.run(FACT, "one", "1")
        writes.keep()
        writes.run(FACT, "two", "2")
        raise KeyError
    assert facts(store) == {"one": "1"}


def test_back_undoes_what_follows_the_mark_alone(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
        writes.mark()
        writes.run(FACT, "two", "2")
        writes.back()
        writes.mark()
        writes.run(FACT, "three", "3")
        writes.unmark()
    assert facts(store) == {"one": "1", "three": "3"}


def test_a_mark_goes_on_over_keep(store: Store) -> None:
    with store.writing() as writes:
        writes.mark()
        writes.run(FACT, "one", "1")
        writes.keep()
        writes.run(FACT, "two", "2")
        writes.back()
    assert facts(store) == {"one": "1"}


def test_who_waits_is_called_when_it_is_known(store: Store) -> None:
    told: list[str] = []

    def waiting(writes: Writes, name: str) -> None:
        writes.when(kept=lambda: told.append(f"{name} kept"), lost=lambda: told.append(f"{name} lost"))

    with store.writing() as writes:
        waiting(writes, "first")
        writes.mark()
        waiting(writes, "second")
        assert told == []
        writes.keep()  # in the middle of the second
        assert told == ["first kept"]
        writes.back()
        assert told == ["first kept", "second lost"]
        writes.mark()
        waiting(writes, "third")
        writes.unmark()
    assert told == ["first kept", "second lost", "third kept"]
    with suppress(KeyError), store.writing() as writes:
        waiting(writes, "fourth")
        raise KeyError
    assert told[3:] == ["fourth lost"]


def test_a_snapshot_does_not_move(store: Store) -> None:
    with store.reading() as reads:
        assert reads.one("SELECT name FROM facts WHERE name = ?", "late") is None
        with store.writing() as writes:
            writes.run(FACT, "late", "1")
        assert reads.one("SELECT name FROM facts WHERE name = ?", "late") is None
    assert facts(store) == {"late": "1"}


def test_readers_write_nothing(store: Store) -> None:
    with pytest.raises(StateError, match="SQLITE"), store.reading() as reads:
        reads.rows("INSERT INTO facts VALUES ('mine', '1')")
    assert facts(store) == {}


def test_values_come_back_as_they_were(store: Store) -> None:
    values = ("a", b"\x00\xff", 1 << 40, 0.1, None)
    with store.writing() as writes:
        writes.run("INSERT INTO rounds VALUES (?, ?, ?, ?, ?)", "p", 1 << 40, b"A", b"\x00\xff", b"")
        writes.run("INSERT INTO tokens VALUES (?, ?, 'x', 'y', ?, ?, NULL)", "a", b"\x00\xff", 0.1, None)
    with store.reading() as reads:
        token = reads.one("SELECT id, digest, made_at, ends_at FROM tokens")
        record = reads.one("SELECT number, content FROM rounds")
    assert token == (values[0], values[1], values[3], values[4])
    assert record == (values[2], values[1])


def test_a_number_is_taken_once(store: Store) -> None:
    with store.writing() as writes:
        writes.run("INSERT INTO rounds VALUES ('p', 1, ?, ?, ?)", b"A", b"", b"")
    with pytest.raises(StateError, match="SQLITE"), store.writing() as writes:
        writes.run("INSERT INTO rounds VALUES ('p', 1, ?, ?, ?)", b"A", b"", b"")


def test_one_writes_at_a_time(store: Store) -> None:
    entered, order = threading.Event(), []

    def second() -> None:
        entered.wait(10.0)
        with store.writing() as writes:
            order.append("second")
            writes.run(FACT, "second", "2")

    thread = threading.Thread(target=second)
    thread.start()
    with store.writing() as writes:
        entered.set()
        writes.run(FACT, "first", "1")
        with pytest.raises(ProtocolError), store.writing():
            pass
        order.append("first")
    thread.join(10.0)
    assert order == ["first", "second"]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"no database at all, and long enough to be sure of it" * 100)
    (tmp_path / "noise").chmod(0o600)
    with pytest.raises(CorruptState):
        SQLiteStore(tmp_path / "noise")


def test_a_later_version_is_refused(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "service.db")
    with store.writing() as writes:
        writes.run("UPDATE facts SET value = ? WHERE name = 'version'", str(len(MIGRATIONS) + 1))
    store.close()
    with pytest.raises(IncompatibleState, match="use the release that"):
        SQLiteStore(tmp_path / "service.db")


def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "service.db"
    path.touch()
    path.chmod(0o666)
    with pytest.raises(StateError, match="chmod"):
        SQLiteStore(path)
