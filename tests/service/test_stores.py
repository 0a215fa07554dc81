"""The contract of every store: what the service leans on, whatever keeps the tables.

On SQLite, on Debian's PostgreSQL and on the one in a wheel.
"""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from dpbandits.errors import (
    CorruptState,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
    StateError,
)
from dpbandits.service import decisions
from dpbandits.service import writer as writing
from dpbandits.service.store import (
    NUMBER,
    TABLES,
    VERSION,
    Ahead,
    NotKnown,
    SQLiteStore,
    Store,
    TryAgain,
    Writes,
)
from dpbandits.service.writer import Writer
from service import databases

FACT = "INSERT INTO facts VALUES (?, ?)"


@pytest.fixture(params=["sqlite", *databases.KINDS])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store
    if request.param == "sqlite":
        made = SQLiteStore(tmp_path / "service.db", timeout=0.2)
    else:
        made = opened(databases.fresh(request.param))
    yield made
    made.close()


def opened(address: str) -> Store:
    from dpbandits.service.postgres import PostgresStore

    return PostgresStore(address)


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


UPDATE = "UPDATE facts SET value = ? WHERE name = ?"


def test_what_is_left_for_later_is_done_in_its_place(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "100%", "0")
        writes.mark()
        writes.later(UPDATE, "50%?", "100%")
        assert writes.one("SELECT value FROM facts WHERE name = '100%'") == ("50%?",)
        writes.later(UPDATE, "1", "100%")
        writes.later(UPDATE, "2", "100%")
        writes.unmark()
    assert facts(store) == {"100%": "2"}
    with store.writing() as writes:
        writes.later(UPDATE, "3", "100%")
    assert facts(store) == {"100%": "3"}


def test_what_was_left_for_later_is_undone_with_its_mark(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
        writes.mark()
        writes.later(UPDATE, "2", "one")
        writes.back()
    assert facts(store) == {"one": "1"}
    with suppress(KeyError), store.writing() as writes:
        writes.later(UPDATE, "2", "one")
        raise KeyError
    assert facts(store) == {"one": "1"}


def of_two(writes: Writes) -> None:
    """A statement that should change a row and finds none."""
    writes.later(UPDATE, "2", "two")


ENDS: dict[str, Callable[[Writes], Any]] = {
    "next": lambda writes: writes.one("SELECT 1"),
    "settled": lambda writes: writes.settled(),
    "commit": lambda writes: writes.finish(),
    "unmark": lambda writes: (writes.unmark(), writes.finish()),
}


@pytest.mark.parametrize("end", list(ENDS))
def test_one_for_later_that_changes_other_rows_is_tried_again(store: Store, end: str) -> None:
    def left(writes: Writes) -> None:
        of_two(writes)
        ENDS[end](writes)

    def use() -> None:
        with store.writing() as writes:
            writes.run(FACT, "one", "1")
            writes.mark()
            left(writes)

    with pytest.raises(TryAgain):
        use()
    assert facts(store) == {}


def test_one_for_later_that_was_done_apart_is_undone_alone(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
        writes.mark()
        assert isinstance(writes.apart(lambda: of_two(writes)), TryAgain)
        writes.unmark()
    assert facts(store) == {"one": "1"}


@pytest.mark.parametrize("failing", [False, True])
@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("kind", databases.KINDS)
def test_what_fails_after_its_mark_is_gone_fails_all_of_the_transaction(
    kind: str, sent: bool, failing: bool
) -> None:
    store = opened(databases.fresh(kind))

    def use() -> None:
        with store.writing() as writes:
            writes.run(FACT, "one", "1")
            writes.mark()
            if sent:  # so that the database has the mark
                writes.run(FACT, "more", "1")
            writes.later(FACT if failing else UPDATE, "one" if failing else "2", "two")
            writes.unmark()
            writes.mark()
            for again in (
                lambda: writes.run(FACT, "three", "1"),
                writes.back,
                lambda: writes.one("SELECT 1"),
            ):
                with pytest.raises(StateError):  # of the first call, in the middle of the second
                    again()

    with pytest.raises(StateError):
        use()
    assert facts(store) == {}
    store.close()


def test_a_large_state_comes_back_as_it_is(store: Store) -> None:
    content = bytes(range(256)) * (3 << 12)
    with store.writing() as writes:
        writes.mark()
        writes.run(FACT, "one", "0")
        writes.later(UPDATE, "1", "one")
        writes.run("INSERT INTO states VALUES (?, ?, ?)", "p%s?", 1, content)
        changed = writes.run("UPDATE states SET held = ?, content = ? WHERE policy = ?", 2, content, "p%s?")
        assert changed == 1
        writes.unmark()
    with store.reading() as reads:
        policy, held, found = reads.rows("SELECT * FROM states")[0]
    assert (policy, held, bytes(found), facts(store)) == ("p%s?", 2, content, {"one": "1"})


def test_what_was_asked_for_ahead_is_found_once(store: Store) -> None:
    if isinstance(store, SQLiteStore):  # nothing is gained there
        return
    query = "SELECT value FROM facts WHERE name = ?"
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
        locking, other = Ahead(("a", 0), query, ("one",), lock=True), Ahead(("b", 0), query, ("one",))
        writes.ahead([other, NUMBER, locking, NUMBER, other])
        assert writes.seen(locking) == writes.seen(other) == [("1",)]
        writes.later(UPDATE, "2", "one")
        assert writes.locked(query, "one") == [("1",)]
        assert writes.one(query, "one") == ("1",)  # as it was then: whoever changes it has asked before
        assert writes.locked(query, "one") == [("2",)]
        assert writes.one(query, "one") == ("2",)
        writes.ahead([])


@pytest.mark.parametrize("failing", ["later", "other", "first"])
def test_a_call_whose_statement_fails_is_undone_alone(
    store: Store,
    failing: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writing, "LONGEST_WAIT", 0.2)
    writer = Writer(store)
    ready = threading.Event()
    first = writer.submit(lambda writes: ready.wait(60.0))  # the others wait, and share a transaction
    before = writer.submit(lambda writes: writes.run(FACT, "before", "1"))

    def fails(writes: Writes) -> str:
        if failing == "first":
            writes.run(FACT, "before", "1")
        writes.run(FACT, "undone", "1")
        writes.later(FACT if failing == "later" else UPDATE, "before", "1")
        return "done"

    failed = writer.submit(fails)
    after = writer.submit(lambda writes: writes.run(FACT, "after", "1"))
    ready.set()
    assert first.result(60.0)
    with pytest.raises(Exception, match=r"UNIQUE|busy|meanwhile"):
        failed.result(60.0)
    assert (before.result(60.0), after.result(60.0)) == (1, 1)
    writer.close()
    assert facts(store) == {"before": "1", "after": "1"}


def test_what_a_call_says_of_itself_ahead_and_cannot_be_harms_no_other(store: Store) -> None:
    writer = Writer(store)
    ready = threading.Event()
    first = writer.submit(lambda writes: ready.wait(60.0))

    def wrong(writes: Writes) -> Iterator[list[Ahead]]:
        yield [Ahead(("then", 0), "SELECT value FROM facts", ())]
        raise ZeroDivisionError

    odd = writer.submit(lambda writes: writes.run(FACT, "odd", "1"), ahead=wrong)
    other = writer.submit(lambda writes: writes.run(FACT, "other", "1"))
    ready.set()
    assert first.result(60.0)
    assert (odd.result(60.0), other.result(60.0)) == (1, 1)
    writer.close()
    assert facts(store) == {"odd": "1", "other": "1"}


@pytest.mark.parametrize("way", ["run", "later", "ahead"])
def test_a_text_that_cannot_be_sent_harms_no_other(store: Store, way: str) -> None:
    """It fails before anything reaches the database, so that no mark of the database's is where ours is."""
    writer = Writer(store)
    ready, torn = threading.Event(), "torn \ud800"
    first = writer.submit(lambda writes: ready.wait(60.0))
    before = writer.submit(lambda writes: writes.later(FACT, "before", "1"))

    def looks(writes: Writes) -> Iterator[list[Ahead]]:
        yield [Ahead(("then", 0), "SELECT value FROM facts WHERE name = ?", (torn,))]

    def fails(writes: Writes) -> None:
        writes.later(FACT, "undone", "1")
        {"run": writes.run, "later": writes.later, "ahead": writes.one}[way](
            "SELECT value FROM facts WHERE name = ?" if way == "ahead" else FACT,
            *((torn,) if way == "ahead" else (torn, "1")),
        )

    failed = writer.submit(fails, about="one", ahead=looks if way == "ahead" else None)
    after = writer.submit(lambda writes: writes.run(FACT, "after", "1"), about="two")
    ready.set()
    assert first.result(60.0)
    with pytest.raises((InvalidData, UnicodeEncodeError)):
        failed.result(60.0)
    assert (before.result(60.0), after.result(60.0)) == (None, 1)
    writer.close()
    assert facts(store) == {"before": "1", "after": "1"}


def test_a_zero_byte_is_kept_or_refused_alone(store: Store) -> None:
    with store.writing() as writes:
        writes.mark()
        writes.later(FACT, "before", "1")
        writes.unmark()
        writes.mark()
        if not isinstance(store, SQLiteStore):
            with pytest.raises(InvalidData, match="no zero byte"):
                writes.run(FACT, "zero \0", "1")
        writes.back()
        writes.run(FACT, "after", "1")
    assert facts(store) == {"before": "1", "after": "1"}


def test_an_error_is_told_with_what_it_rests_on(store: Store) -> None:
    """Who is told that a name is taken must find it taken, so the commit of who has taken it comes first."""
    writer = Writer(store)
    ready, told = threading.Event(), []

    def fails() -> None:
        told.append(taken.done())
        raise StateError("at the commit")

    def takes(writes: Writes) -> None:
        writes.run(FACT, "name", "1")
        writes.when(last=fails)

    def finds(writes: Writes) -> str:
        if writes.one("SELECT value FROM facts WHERE name = 'name'") is not None:
            raise ProtocolError("the name is taken")
        return "free"

    first = writer.submit(lambda writes: ready.wait(60.0))
    taking, taken = writer.submit(takes), writer.submit(finds)
    ready.set()
    first.exception(60.0)
    with pytest.raises(StateError, match="at the commit"):
        taking.result(60.0)
    with suppress(StateError):  # told with the commit that failed, or asked again
        assert taken.result(60.0) == "free"
    writer.close()
    assert told
    assert not any(told)
    assert facts(store) == {}


def test_nobody_is_answered_before_the_commit(store: Store) -> None:
    writer = Writer(store)

    def fails() -> None:
        raise StateError("at the commit")

    def call(writes: Writes) -> str:
        writes.run(FACT, "one", "1")
        writes.when(last=fails)
        return "done"

    failed = writer.submit(call)
    with pytest.raises(StateError, match="at the commit"):
        failed.result(60.0)
    writer.close()
    assert facts(store) == {}


def test_who_waits_is_called_when_it_is_known(store: Store) -> None:
    told: list[str] = []

    def waiting(writes: Writes, name: str) -> None:
        writes.when(kept=lambda: told.append(f"{name} kept"), lost=lambda: told.append(f"{name} lost"))

    with store.writing() as writes:
        waiting(writes, "first")
        writes.mark()
        waiting(writes, "second")
        assert told == []
        writes.back()
        assert told == ["second lost"]
        writes.mark()
        waiting(writes, "third")
        writes.unmark()
        assert told == ["second lost"]
    assert told == ["second lost", "first kept", "third kept"]
    with suppress(KeyError), store.writing() as writes:
        waiting(writes, "fourth")
        raise KeyError
    assert told[3:] == ["fourth lost"]


def test_what_is_claimed_is_written_in_one_transaction(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
    query = "SELECT value FROM facts WHERE name = 'one'"
    with store.claimed(query) as begin:
        assert begin is not None
        begin().run(UPDATE, "2", "one")
    assert facts(store) == {"one": "2"}
    with suppress(KeyError), store.claimed(query) as begin:
        assert begin is not None
        begin().run(UPDATE, "3", "one")
        raise KeyError
    assert facts(store) == {"one": "2"}
    if isinstance(store, SQLiteStore):  # of one process
        return
    found = []

    def second() -> None:
        with store.claimed(query) as begin:
            found.append(begin)

    with store.claimed(query):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(60.0)
    assert found == [None]


def test_a_snapshot_does_not_move(store: Store) -> None:
    with store.reading() as reads:
        assert reads.one("SELECT name FROM facts WHERE name = ?", "late") is None
        with store.writing() as writes:
            writes.run(FACT, "late", "1")
        assert reads.one("SELECT name FROM facts WHERE name = ?", "late") is None
    assert facts(store) == {"late": "1"}


def test_readers_write_nothing(store: Store) -> None:
    with pytest.raises(StateError, match=r"SQLITE|25006"), store.reading() as reads:
        reads.rows("INSERT INTO facts VALUES ('mine', '1')")
    assert facts(store) == {}


@pytest.mark.parametrize("size", [1, 16384, 16385, 5 * 16384, 300_000])
def test_a_large_value_comes_back_whole_in_a_transaction_that_locks(store: Store, size: int) -> None:
    text, content = (
        "é" * (size // 2) + "x" * (size % 2),
        bytes(range(256)) * (size // 256) + b"x" * (size % 256),
    )
    with store.writing() as writes:
        writes.run(FACT, "text", text)
        writes.run("INSERT INTO states VALUES ('p', 0, ?)", content)
    sql = "SELECT value FROM facts WHERE name = ?", "SELECT content AS value FROM states WHERE policy = ?"
    with store.writing() as writes:
        writes.mark()
        assert writes.large(sql[0], "text") == text.encode()
        assert writes.large(sql[1], "p") == content
        writes.unmark()
        assert writes.large(sql[0], "nobody") is None
        assert writes.large("SELECT person AS value FROM slots WHERE slot = ?", 1) is None
    with store.reading() as reads:
        assert reads.large(sql[0], "text") == text.encode()


def test_values_come_back_as_they_were(store: Store) -> None:
    values = ("a", b"\x00\xff", 1 << 40, 0.1, None)
    with store.writing() as writes:
        writes.run("INSERT INTO states VALUES (?, ?, ?)", "p", 1 << 40, b"\x00\xff")
        columns = "tokens (id, digest, label, scopes, made_at, ends_at, limits)"
        row = "a", b"\x00\xff", 0.1, None
        writes.run(f"INSERT INTO {columns} VALUES (?, ?, 'x', 'y', ?, ?, 'z')", *row)  # noqa: S608
    with store.reading() as reads:
        token = reads.one("SELECT id, digest, made_at, ends_at FROM tokens")
        record = reads.one("SELECT held, content FROM states")
    assert token == (values[0], values[1], values[3], values[4])
    assert record == (values[2], values[1])


def test_a_number_is_taken_once(store: Store) -> None:
    with store.writing() as writes:
        writes.run("INSERT INTO survey_log VALUES ('p', 1, 'counted', ?)", b"A")
    with pytest.raises(StateError, match=r"SQLITE|23505"), store.writing() as writes:
        writes.run("INSERT INTO survey_log VALUES ('p', 1, 'counted', ?)", b"A")


def test_who_changes_a_row_that_another_has_locked_waits_and_sees_what_it_became(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "count", "0")
    entered, seen = threading.Event(), []

    def second() -> None:
        entered.wait(60.0)
        with store.writing() as writes:
            seen.append(writes.locked("SELECT value FROM facts WHERE name = 'count'"))
            writes.run("UPDATE facts SET value = value || '2' WHERE name = 'count'")

    thread = threading.Thread(target=second)
    thread.start()
    with store.writing() as writes:
        assert writes.locked("SELECT value FROM facts WHERE name = 'count'") == [("0",)]
        entered.set()
        with pytest.raises(ProtocolError), store.writing():
            pass
        time.sleep(0.05)
        assert seen == []
        writes.run("UPDATE facts SET value = value || '1' WHERE name = 'count'")
    thread.join(60.0)
    assert seen == [[("01",)]]
    assert facts(store) == {"count": "012"}


def test_what_another_has_locked_can_be_passed_over(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
        writes.run(FACT, "two", "2")
    query = "SELECT name FROM facts WHERE value IN ('1', '2') AND name <> 'version' ORDER BY name"
    seen = []

    def second() -> None:
        with store.writing() as writes:
            seen.extend(writes.locked(query, skip=True))

    with store.writing() as writes:
        writes.locked("SELECT name FROM facts WHERE name = 'one'")
        if not isinstance(store, SQLiteStore):
            thread = threading.Thread(target=second)
            thread.start()
            thread.join(60.0)
            assert seen == [("two",)]
    second()
    assert seen[-2:] == [("one",), ("two",)]


def test_a_statement_that_failed_undoes_what_follows_the_mark_alone(store: Store) -> None:
    with store.writing() as writes:
        writes.run(FACT, "one", "1")
        writes.mark()
        with pytest.raises(sqlite3.Error if isinstance(store, SQLiteStore) else StateError):
            writes.run("INSERT INTO nothing_like_it VALUES (1)")
        writes.back()
        writes.run(FACT, "two", "2")
    assert facts(store) == {"one": "1", "two": "2"}


def test_rows_are_numbered_by_the_store(store: Store) -> None:
    numbers = []
    for _ in range(3):
        with store.writing() as writes:
            row = writes.one(
                "INSERT INTO events (at, what, subject, told) VALUES (?, 'x', 'y', 'z') RETURNING number", 1.5
            )
            numbers.append(None if row is None else row[0])
    assert sorted(set(numbers)) == numbers
    assert len(numbers) == 3


def test_a_missing_number_is_kept_as_one(store: Store) -> None:
    with store.writing() as writes:
        writes.run("INSERT INTO slots VALUES ('p', 1, NULL, ?, 1, ?, ?)", b"", None, None)
        writes.run("UPDATE slots SET reward = CAST(? AS DOUBLE PRECISION)", 0.1)
    with store.reading() as reads:
        assert reads.one("SELECT person, reward FROM slots") == (None, 0.1)


def test_a_database_is_opened_again_and_by_several_at_once() -> None:
    address, made = databases.any_kind(), []
    threads = [threading.Thread(target=lambda: made.append(opened(address))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(made) == 4
    with made[0].writing() as writes:
        writes.run(FACT, "one", "1")
    assert [facts(store) for store in made] == [{"one": "1"}] * 4
    for store in made:
        store.close()


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_lacks_some_texts_is_refused(encoding: str) -> None:
    with pytest.raises(StateError, match="not in UTF-8"):
        opened(databases.encoded(encoding))


@pytest.mark.parametrize(("said", "found"), [("", 15_000), ("&tcp_user_timeout=3000", 3000)])
def test_a_connection_whose_other_end_vanished_is_given_up_in_seconds(
    said: str, found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What libpq is told; with the system's own limits a worker would wait for hours."""
    from dpbandits.service import postgres

    given: list[dict[str, Any]] = []

    class Pool(postgres.ConnectionPool[Any]):
        def __init__(self, address: str, **options: Any) -> None:
            super().__init__(address, **options)
            with self.connection_class.connect(address, **options["kwargs"]) as connection:
                given.append(connection.info.get_parameters())

    monkeypatch.setattr(postgres, "ConnectionPool", Pool)
    address = databases.any_kind() + said
    opened(address).close()
    assert int(given[0]["tcp_user_timeout"]) == found
    assert int(given[0]["keepalives_idle"]) + 2 * 3 <= 15


def test_a_transaction_whose_statement_failed_is_never_said_to_be_kept() -> None:
    store = opened(databases.any_kind())
    told: list[str] = []

    def failing() -> None:
        with store.writing() as writes:
            writes.run(FACT, "one", "1")
            writes.when(kept=lambda: told.append("kept"), lost=lambda: told.append("lost"))
            with suppress(StateError):
                writes.run("INSERT INTO nothing_like_it VALUES (1)")

    with pytest.raises(StateError, match="undone"):
        failing()
    assert (told, facts(store)) == (["lost"], {})
    store.close()


def test_a_connection_that_the_database_ended_is_replaced_and_a_lost_commit_is_not_taken_for_undone() -> None:
    import psycopg

    address = databases.any_kind()
    store = opened(address)
    other = psycopg.connect(address, autocommit=True)

    def end() -> None:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")

    def write(name: str, *, then: Callable[[], None] = lambda: None, more: bool = False) -> None:
        with store.writing() as writes:
            writes.run(FACT, name, "1")
            then()
            if more:
                writes.run(FACT, f"{name} more", "1")

    end()
    write("one")
    assert facts(store) == {"one": "1"}
    with pytest.raises(NotKnown):
        write("two", then=end)
    with pytest.raises(StateError, match="nothing was recorded"):
        write("two", then=end, more=True)
    assert facts(store) == {"one": "1"}
    store.close()
    other.close()


def test_a_database_that_may_forget_what_it_acknowledged_is_refused() -> None:
    with pytest.raises(StateError, match="synchronous_commit"):
        opened(f"{databases.any_kind()}%20-csynchronous_commit%3Doff")


def test_another_programs_database_and_a_wrong_address_are_refused() -> None:
    import psycopg

    address = databases.any_kind()
    with psycopg.connect(address, autocommit=True) as other:
        other.execute("CREATE TABLE mine (x INTEGER)")
    with pytest.raises(CorruptState):
        opened(address)
    for wrong in ("mysql://somewhere/x", "postgresql://[", "somewhere/x"):
        with pytest.raises(InvalidParameter) as refused:
            opened(wrong)
        assert wrong not in str(refused.value)


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(b"no database at all, and long enough to be sure of it" * 100)
    (tmp_path / "noise").chmod(0o600)
    with pytest.raises(CorruptState):
        SQLiteStore(tmp_path / "noise")


def test_another_version_is_refused(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "service.db")
    with store.writing() as writes:
        writes.run("UPDATE facts SET value = ? WHERE name = 'version'", str(VERSION + 1))
    store.close()
    with pytest.raises(IncompatibleState, match="use the release that"):
        SQLiteStore(tmp_path / "service.db")


def test_a_file_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "service.db"
    path.touch()
    path.chmod(0o666)
    with pytest.raises(StateError, match="chmod"):
        SQLiteStore(path)


class _Asked:
    """Keeps what it is asked, and finds nothing."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    def one(self, statement: str, *values: object) -> None:
        self.statements.append(statement)

    def rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        self.statements.append(statement)
        return []

    def locked(self, statement: str, *values: object, skip: bool = False) -> list[tuple[object, ...]]:
        return self.rows(statement)


def test_what_the_clock_looks_for_is_found_without_reading_all_decisions() -> None:
    """Every second; with ten million decisions a scan would take minutes."""
    asked: Any = _Asked()
    decisions.overdue(asked, now=1.0)
    decisions.Decisions(asked, asked, asked, mismatches=1).sweep(asked, policy="p", now=1.0)
    database = sqlite3.connect(":memory:")
    for statement in TABLES:
        database.execute(statement)
    for statement in asked.statements:
        values = ["1"] * statement.count("?")
        plan = [row[3] for row in database.execute(f"EXPLAIN QUERY PLAN {statement}", values)]
        assert not any(step.startswith("SCAN decisions") or "B-TREE" in step for step in plan), plan
