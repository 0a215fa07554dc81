"""`Store`: the service's tables, and transactions on them; `SQLiteStore` keeps them in one file.

A store knows no policy and no HTTP. It gives a snapshot to read (`reading`) and one write transaction at a
time (`writing`), in the SQL that SQLite and PostgreSQL share, with `?` for arguments. Whatever keeps the
tables elsewhere passes `tests/service/test_stores.py`.

| table | one row is | raw data in it |
|---|---|---|
| `facts` | a fact of the whole store: its version, the latest time it has seen | - |
| `tokens` | a token: digest, scopes, when made, ending, withdrawn | - |
| `populations` | people who are protected together: an account of the ledger | - |
| `policies` | a policy: what was asked for, its settings, its status | - |
| `rounds` | a record of a policy's log of rounds since its last state | contexts, rewards |
| `decisions` | an answer: keyed digests of who asked what, the arm, what became of it | arms, rewards |
| `releases` | a release of a policy, and the function that was published then | - |
| `surveys` | a local policy: its population and its spec | - |
| `events` | what an operator should know: alarms, tokens made, policies begun | - |

Migrations are numbered; a store of a later version than this code knows is refused.
"""

import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from dpbandits.errors import CorruptState, IncompatibleState, ProtocolError, StateError
from dpbandits.state.files import refuse_if_others_write, write_durably

__all__ = ["MIGRATIONS", "Reads", "SQLiteStore", "Store", "Writes", "note_event"]

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE facts (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
        """CREATE TABLE tokens (
            id TEXT PRIMARY KEY NOT NULL, digest BLOB NOT NULL UNIQUE, label TEXT NOT NULL, scopes TEXT NOT
            NULL, made_at REAL NOT NULL, ends_at REAL, withdrawn_at REAL)""",
        """CREATE TABLE populations (
            name TEXT PRIMARY KEY NOT NULL, asked TEXT NOT NULL, made_at REAL NOT NULL)""",
        """CREATE TABLE policies (
            id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, population TEXT NOT NULL, asked TEXT NOT
            NULL, settings TEXT NOT NULL, status TEXT NOT NULL, revision INTEGER NOT NULL, made_at REAL NOT
            NULL)""",
        """CREATE TABLE rounds (
            policy TEXT NOT NULL, number INTEGER NOT NULL, kind BLOB NOT NULL, content BLOB NOT NULL,
            digest BLOB NOT NULL, PRIMARY KEY (policy, number))""",
        """CREATE TABLE decisions (
            number INTEGER PRIMARY KEY, policy TEXT NOT NULL, token TEXT NOT NULL, asked_as BLOB NOT NULL,
            body BLOB NOT NULL, ask TEXT, status TEXT NOT NULL, answer TEXT, reward REAL,
            asked_at REAL NOT NULL, due_at REAL, UNIQUE (policy, token, asked_as))""",
        "CREATE INDEX decisions_due ON decisions (due_at) WHERE due_at IS NOT NULL",
        """CREATE TABLE releases (
            policy TEXT NOT NULL, version INTEGER NOT NULL, rounds INTEGER NOT NULL, made_at REAL NOT NULL,
            published TEXT, PRIMARY KEY (policy, version))""",
        """CREATE TABLE surveys (
            id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, population TEXT NOT NULL,
            spec TEXT NOT NULL, made_at REAL NOT NULL)""",
        """CREATE TABLE events (
            number INTEGER PRIMARY KEY, at REAL NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL,
            told TEXT NOT NULL)""",
    ),
)
"""Statements that bring a store from each version to the next; the first makes an empty one version 1."""

Row = tuple[Any, ...]


class Reads:
    """Statements on one consistent state of the tables.

    Args:
        connection: of Python's DB-API, in a transaction.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, sql: str, *arguments: object) -> list[Row]:
        """All rows of a query."""
        found: list[Row] = self._connection.execute(sql, arguments).fetchall()
        return found

    def one(self, sql: str, *arguments: object) -> Row | None:
        """The first row of a query, or None."""
        found: Row | None = self._connection.execute(sql, arguments).fetchone()
        return found


class Writes(Reads):
    """The one open write transaction. What it changes is there for others, and durable, once it is kept.

    `kept` and `lost` are called when it is known which: after a commit, or after everything since the last
    commit (or the last `mark`) was undone.
    """

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._kept: list[Callable[[], None]] = []
        self._lost: list[Callable[[], None]] = []
        self._marks: tuple[int, int] | None = None

    def run(self, sql: str, *arguments: object) -> int:
        """Execute a statement; how many rows it changed."""
        return int(self._connection.execute(sql, arguments).rowcount)

    def when(self, *, kept: Callable[[], None] | None = None, lost: Callable[[], None] | None = None) -> None:
        """Call `kept` after the commit of what was done so far, or `lost` where it was undone instead."""
        if kept is not None:
            self._kept.append(kept)
        if lost is not None:
            self._lost.append(lost)

    def mark(self) -> None:
        """From here on `back` undoes."""
        self._connection.execute("SAVEPOINT one")
        self._marks = len(self._kept), len(self._lost)

    def unmark(self) -> None:
        """What was done since the mark stays."""
        self._connection.execute("RELEASE one")
        self._marks = None

    def back(self) -> None:
        """Undo what was done since the mark and was not committed."""
        if self._marks is None:
            raise ProtocolError("nothing is marked")
        kept, lost = self._marks
        self._connection.execute("ROLLBACK TO one")
        self._connection.execute("RELEASE one")
        self._marks = None
        del self._kept[kept:]
        undone, self._lost[lost:] = self._lost[lost:], []
        for call in undone:
            call()

    def apart(self, call: Callable[[], object]) -> Exception | None:
        """Do a part of what was marked; its error, if it failed: then it alone is undone."""
        self.unmark()
        self.mark()
        try:
            call()
        except Exception as error:  # noqa: BLE001 - for the caller
            self.back()
            self.mark()
            return error
        self.unmark()
        self.mark()
        return None

    def keep(self) -> None:
        """Commit what was done so far, and go on; what follows a mark can be undone from here on only."""
        marked = self._marks
        self._end("COMMIT")
        self._connection.execute("BEGIN IMMEDIATE")
        done, mine = (len(self._kept), len(self._lost)) if marked is None else marked
        kept, self._kept, self._lost = self._kept[:done], self._kept[done:], self._lost[mine:]
        if marked is not None:
            self.mark()
            self._marks = 0, 0
        for call in kept:
            call()

    def finish(self) -> None:
        """Commit, and call what waits for it."""
        self._end("COMMIT")
        for call in self._kept:
            call()

    def undo(self) -> None:
        """Roll back to the last commit, and call what waits for that."""
        with suppress(sqlite3.Error):  # a failed commit may have rolled back already
            self._end("ROLLBACK")
        for call in self._lost:
            call()

    def _end(self, how: str) -> None:
        self._connection.execute(how)


def note_event(writes: Writes, at: float, what: str, subject: str, told: str = "") -> None:
    """Let the operator know: words and names that are public."""
    writes.run("INSERT INTO events (at, what, subject, told) VALUES (?, ?, ?, ?)", at, what, subject, told)


class Store(ABC):
    """The tables; see the module."""

    current: Writes | None = None
    """The write transaction that is open."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Reads]:
        """One consistent state of what is committed; any number at a time, from any thread."""

    @abstractmethod
    def writing(self) -> AbstractContextManager[Writes]:
        """The write transaction: durable when the block is left; after an exception nothing has happened.

        Raises:
            StateError: the store could not be had in time, or not be written.
        """

    @abstractmethod
    def close(self) -> None:
        """Leave the store."""

    @property
    def now_writing(self) -> Writes:
        """The write transaction that is open; ProtocolError where none is."""
        if self.current is None:
            raise ProtocolError("this takes place in the writer's transaction alone")
        return self.current


class SQLiteStore(Store):
    """The tables in an SQLite file of mode 0600, in WAL mode, every commit on disk before it returns.

    Args:
        path: the file, made where it does not exist.
        timeout: seconds to wait for another program that holds the file.

    Raises:
        CorruptState: the file is no store.
        IncompatibleState: it has a later version.
        StateError: it cannot be opened, or others may write to it.
    """

    def __init__(self, path: Path, *, timeout: float = 10.0) -> None:
        self._path, self._timeout = path, timeout
        self._lock = threading.RLock()
        self._idle: list[sqlite3.Connection] = []
        self._closed = False
        if not path.exists():
            write_durably(path, b"", exclusive=True)
        refuse_if_others_write(path, what="the service's store")
        with _in_words():
            self._writer = self._connected()
            if self._writer.execute("PRAGMA journal_mode = WAL").fetchone() != ("wal",):
                raise StateError(
                    "the service's store needs a file system with shared memory, for SQLite's WAL"
                )
            self._migrate()

    def __repr__(self) -> str:
        return "SQLiteStore()"

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
        connection.execute("PRAGMA cache_size = -32768")  # 32 MiB
        return connection

    def _migrate(self) -> None:
        connection = self._writer
        connection.execute("BEGIN IMMEDIATE")
        known = connection.execute("SELECT name FROM sqlite_master WHERE name = 'facts'").fetchone()
        have = 0
        if known is not None:
            row = connection.execute("SELECT value FROM facts WHERE name = 'version'").fetchone()
            have = int(row[0])
        elif connection.execute("SELECT name FROM sqlite_master").fetchone() is not None:
            raise CorruptState("the file is another program's database, not the service's store")
        if have > len(MIGRATIONS):
            raise IncompatibleState(
                f"the store has version {have}, this release knows {len(MIGRATIONS)}: use the release that "
                "wrote it"
            )
        for step in MIGRATIONS[have:]:
            for statement in step:
                connection.execute(statement)
        if have < len(MIGRATIONS):
            text = str(len(MIGRATIONS))
            connection.execute(
                "INSERT INTO facts VALUES ('version', ?) ON CONFLICT (name) DO UPDATE SET value = ?",
                (text, text),
            )
        connection.execute("COMMIT")

    @contextmanager
    def reading(self) -> Iterator[Reads]:  # noqa: D102
        try:
            connection = self._idle.pop()
        except IndexError:
            with _in_words():
                connection = self._connected()
                connection.execute("PRAGMA query_only = ON")
        try:
            with _in_words():
                connection.execute("BEGIN")
                yield Reads(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if self._closed:
                connection.close()
            else:
                self._idle.append(connection)

    @contextmanager
    def writing(self) -> Iterator[Writes]:  # noqa: D102
        with self._lock:
            if self.current is not None:
                raise ProtocolError("a write transaction is open already")
            with _in_words():
                self._writer.execute("BEGIN IMMEDIATE")
            self.current = writes = Writes(self._writer)
            try:
                with _in_words():
                    yield writes
                    writes.finish()
            except BaseException:
                writes.undo()
                raise
            finally:
                self.current = None

    def close(self) -> None:  # noqa: D102
        self._closed = True
        with self._lock:
            while self._idle:
                self._idle.pop().close()
            self._writer.close()


@contextmanager
def _in_words() -> Iterator[None]:
    """SQLite's errors as the library's: its texts can hold what a statement was given."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            raise CorruptState("the service's store is no SQLite database, or a damaged one") from None
        raise StateError(f"the service's store could not be used ({name}); nothing was recorded") from None
