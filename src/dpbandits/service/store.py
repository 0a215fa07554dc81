"""`Store`: the service's tables and transactions on them. `SQLiteStore` has them in one file.

A store gives snapshots (`reading`) and one write transaction per thread (`writing`). Statements are in the
SQL that SQLite and PostgreSQL share, with `?` for arguments. Stores differ in how a transaction begins,
how rows are locked (`locked`, `claimed`), and the names of a few types (`in_dialect`). SQLite serves one
process and locks no rows. `PostgresStore` serves any number of processes.

| table | one row is | raw data in it |
|---|---|---|
| `facts` | a fact of the whole store: its version, the latest trusted time | - |
| `tokens` | a token: digests of its text and the one before, scopes, limits, made, ending, withdrawn | - |
| `sessions` | a session of the desk: digest of its cookie, its token's id, its end | - |
| `populations` | users who share a privacy budget: an account of the ledger | - |
| `policies` | a policy: its request, settings and status | - |
| `decisions` | a decision: keyed digests of its request, the answer, its status and reward | arms, rewards |
| `releases` | a release of a policy, with the published function | - |
| `surveys` | a local policy: its population and its spec | - |
| `exchanges` | an outsourced table: its population, its guarantee, the curator's release | - |
| `questions` | a row that the modeler requested, and the curator's answer | answers |
| `events` | an entry for operators: an alarm, or an administrative act and its token | - |
| `progress` | a policy: number of rounds, place of the next release, configuration, salt | the salt |
| `slots` | a round that is in no release yet: user, action, status, reward | all of it |
| `people` | a user's number of rounds of a policy | a keyed digest |
| `states` | a policy's state at its last release | all of it |
| `survey_log` | a version of a local policy, or counts of reports that a worker accepted | - |
| `survey_states` | state of a local policy's server after some of these rows | - |
| `accounts`, `charges`, `lineages`, `book` | the ledger's rows; see `dpbandits.service.row_ledger` | - |

All engines have the same tables. A store of another version is refused.
"""

import re
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from dpbandits.errors import CorruptState, IncompatibleState, ProtocolError, StateError
from dpbandits.state.files import refuse_if_others_write, write_durably

__all__ = [
    "NUMBER",
    "OTHERWISE",
    "TABLES",
    "VERSION",
    "Ahead",
    "NotKnown",
    "Reads",
    "Row",
    "SQLiteStore",
    "Store",
    "TryAgain",
    "Writes",
    "in_dialect",
    "note_event",
    "note_fact",
]

VERSION = 1
"""Version of the tables' definitions."""

TABLES: tuple[str, ...] = (
    "CREATE TABLE facts (name TEXT PRIMARY KEY NOT NULL, value TEXT NOT NULL)",
    """CREATE TABLE tokens (
        id TEXT PRIMARY KEY NOT NULL, digest BLOB NOT NULL UNIQUE, label TEXT NOT NULL, scopes TEXT NOT
        NULL, made_at REAL NOT NULL, ends_at REAL, withdrawn_at REAL, limits TEXT NOT NULL, previous BLOB
        UNIQUE, previous_ends_at REAL)""",
    "CREATE TABLE sessions (digest BLOB PRIMARY KEY NOT NULL, token TEXT NOT NULL, ends_at REAL NOT NULL)",
    """CREATE TABLE populations (
        name TEXT PRIMARY KEY NOT NULL, asked TEXT NOT NULL, made_at REAL NOT NULL)""",
    """CREATE TABLE policies (
        id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, population TEXT NOT NULL, asked TEXT NOT
        NULL, settings TEXT NOT NULL, status TEXT NOT NULL, revision INTEGER NOT NULL, made_at REAL NOT
        NULL)""",
    """CREATE TABLE decisions (
        number INTEGER PRIMARY KEY, policy TEXT NOT NULL, token TEXT NOT NULL, asked_as BLOB NOT NULL,
        body BLOB NOT NULL, ask TEXT, status TEXT NOT NULL, answer TEXT, reward REAL,
        asked_at REAL NOT NULL, due_at REAL, metrics TEXT, UNIQUE (policy, token, asked_as))""",
    """CREATE TABLE releases (
        policy TEXT NOT NULL, version INTEGER NOT NULL, rounds INTEGER NOT NULL, made_at REAL NOT NULL,
        published TEXT, PRIMARY KEY (policy, version))""",
    """CREATE TABLE surveys (
        id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, population TEXT NOT NULL,
        spec TEXT NOT NULL, made_at REAL NOT NULL)""",
    """CREATE TABLE events (
        number INTEGER PRIMARY KEY, at REAL NOT NULL, what TEXT NOT NULL, subject TEXT NOT NULL,
        told TEXT NOT NULL, token TEXT NOT NULL DEFAULT '')""",
    """CREATE TABLE progress (
        policy TEXT PRIMARY KEY NOT NULL, asked INTEGER NOT NULL, due INTEGER, released INTEGER NOT NULL,
        config TEXT NOT NULL, salt BLOB NOT NULL)""",
    """CREATE TABLE slots (
        policy TEXT NOT NULL, slot INTEGER NOT NULL, person BLOB, chosen BLOB NOT NULL,
        status INTEGER NOT NULL, reward REAL, metrics BLOB, PRIMARY KEY (policy, slot))""",
    """CREATE TABLE people (
        policy TEXT NOT NULL, person BLOB NOT NULL, rounds INTEGER NOT NULL,
        PRIMARY KEY (policy, person))""",
    """CREATE TABLE states (
        policy TEXT PRIMARY KEY NOT NULL, held INTEGER NOT NULL, content BLOB NOT NULL)""",
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY NOT NULL, terms TEXT NOT NULL, spent TEXT NOT NULL, simulated INTEGER NOT
        NULL)""",
    """CREATE TABLE charges (
        account TEXT NOT NULL, charge_id TEXT NOT NULL, spent TEXT NOT NULL, simulated INTEGER NOT NULL,
        PRIMARY KEY (account, charge_id))""",
    """CREATE TABLE lineages (
        lineage TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL)""",
    "CREATE INDEX events_of ON events (subject, at)",
    """CREATE TABLE exchanges (
        id TEXT PRIMARY KEY NOT NULL, name TEXT NOT NULL UNIQUE, population TEXT NOT NULL, asked TEXT NOT
        NULL, status TEXT NOT NULL, description TEXT, inputs BLOB, at TEXT, made_at REAL NOT NULL)""",
    """CREATE TABLE questions (
        exchange TEXT NOT NULL, number INTEGER NOT NULL, place INTEGER NOT NULL, worker BLOB,
        status TEXT NOT NULL, answer REAL, answered_at REAL, PRIMARY KEY (exchange, number))""",
    "CREATE INDEX questions_answered ON questions (answered_at) WHERE answer IS NOT NULL",
    "CREATE INDEX decisions_due_of ON decisions (policy, due_at) WHERE due_at IS NOT NULL",
    """CREATE TABLE survey_log (
        survey TEXT NOT NULL, number INTEGER NOT NULL, kind TEXT NOT NULL, content BLOB NOT NULL,
        PRIMARY KEY (survey, number))""",
    """CREATE TABLE survey_states (
        survey TEXT PRIMARY KEY NOT NULL, number INTEGER NOT NULL, content BLOB NOT NULL)""",
    "CREATE TABLE book (position INTEGER NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (position))",
)
"""Statements that create the tables of an empty store."""

Row = tuple[Any, ...]

_TOGETHER = 200

MOST_IDLE = 8
"""Largest number of idle read connections that are kept open. Each has its own page cache."""

OTHERWISE = "another worker was there meanwhile"
"""Message for a statement that changed an unexpected number of rows."""


def in_dialect(statement: str, names: Mapping[str, str]) -> str:
    """Return a statement with an engine's own names of types, given by `names`.

    Longer names are replaced first.
    """
    for name in sorted(names, key=len, reverse=True):
        statement = re.sub(rf"\b{name}\b", names[name], statement)
    return statement


class TryAgain(StateError):
    """Raised if another process was faster or must act first.

    Nothing was done; try again after `after` seconds.
    """

    def __init__(self, words: str, *, after: float = 0.0) -> None:
        super().__init__(words)
        self.after = after


class NotKnown(StateError):
    """Raised if the connection was lost during the commit, which may or may not have taken place."""


class Reads:
    """Queries on one consistent state of the tables.

    Args:
        connection: DB-API connection with an open transaction.
    """

    lock: ClassVar[tuple[str, str]] = "", ""
    """Suffixes that make a query lock its rows.

    With the first, it waits for locked rows; with the second, it skips them.

    Both are empty in a store with a single writer, and in a transaction that only reads.
    """

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, sql: str, *arguments: object) -> list[Row]:
        """Return all rows of a query."""
        found: list[Row] = self._connection.execute(sql, arguments).fetchall()
        return found

    def one(self, sql: str, *arguments: object) -> Row | None:
        """Return the first row of a query, or None."""
        found: Row | None = self._connection.execute(sql, arguments).fetchone()
        return found

    def large(self, sql: str, *arguments: object) -> bytes | None:
        """Return the column `value` of a query of at most one row; None without a row.

        The value may be large.

        Texts are returned in UTF-8. The transaction may hold locks.
        """
        row = self.one(sql, *arguments)
        value = None if row is None else row[0]
        return value.encode() if isinstance(value, str) else value

    def locked(self, sql: str, *arguments: object, skip: bool = False) -> list[Row]:
        """Return the rows of a query that reads one table, and lock them until the commit.

        `skip` leaves out rows that another transaction has locked, instead of waiting for them.
        """
        return self.rows(sql + self.lock[skip], *arguments)

    def among(self, sql: str, values: Sequence[object], *arguments: object, lock: str = "") -> list[Row]:
        """Return the rows of a query that ends with IN, for many values.

        `lock` names the column in whose order the rows are locked; empty for no locks. `arguments` come
        before the values.
        """
        found: list[Row] = []
        for first in range(0, len(values), _TOGETHER):
            some = values[first : first + _TOGETHER]
            text = f"{sql}({', '.join('?' * len(some))})"
            if lock:
                found += self.locked(f"{text} ORDER BY {lock}", *arguments, *some)
            else:
                found += self.rows(text, *arguments, *some)
        return found


class Ahead(NamedTuple):
    """A query that is sent early, together with others; see `Writes.ahead`.

    Attributes:
        order: sort key of the queries, the same in every worker, so that locks are taken in one order:
            "progress" and the policy, then "round" and its number, and "then" for queries without locks.
        sql: query; if it locks, it reads one table only.
        arguments: arguments of the query.
        lock: True if the rows are locked until the commit.
    """

    order: tuple[str, int]
    sql: str
    arguments: tuple[object, ...]
    lock: bool = False


NUMBER = Ahead(("number", 0), "", ())
"""Early query for the number of a decision that will be inserted."""


class Writes(Reads):
    """The open write transaction. Other transactions see its changes after the commit, which is durable.

    Callbacks are registered by `when`: `kept` runs after the commit, `lost` after a rollback of the
    transaction or to the last `mark`, and `last` right before the commit.
    """

    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    """Statement that begins a write transaction."""
    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)
    """Exceptions that a statement may raise."""
    looks_ahead: ClassVar[bool] = False
    """True if it saves time to send queries early; see `ahead`."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._last: list[Callable[[], None]] = []
        self._kept: list[Callable[[], None]] = []
        self._lost: list[Callable[[], None]] = []
        self._marks: tuple[int, int, int] | None = None

    def run(self, sql: str, *arguments: object) -> int:
        """Execute a statement; return the number of rows that it changed."""
        return int(self._connection.execute(sql, arguments).rowcount)

    def later(self, sql: str, *arguments: object, changes: int = 1) -> None:
        """Execute a statement now, or together with a later statement. `settled` sends deferred statements.

        Raises:
            TryAgain: the statement changed more or fewer rows than `changes`; raised here or by the
                statement that it was sent with. Then everything since the mark is rolled back, or, if the
                mark is gone, the whole transaction.
        """
        if self.run(sql, *arguments) != changes:
            raise TryAgain(OTHERWISE)

    def settled(self) -> None:
        """Send all statements that `later` has deferred."""

    def ahead(self, queries: Sequence[Ahead]) -> None:
        """Send several queries in one message. An embedded store ignores them.

        The next `rows`, `one` or `locked` with the same SQL and arguments returns the result of this query,
        once. So a call has to read a row before it changes the row.
        """

    def seen(self, query: Ahead) -> list[Row] | None:
        """Return the rows that `ahead` has read for a query.

        It is None if it has not, or if a call has used them already.
        """
        return None

    def forget_ahead(self) -> None:
        """Drop the unused results of `ahead`, which may be out of date."""

    def enter_many(self, table: str, columns: str, rows: Sequence[Row]) -> list[int]:
        """Insert rows into a table whose rows are numbered; return the new numbers."""
        numbers = self.numbers(table, len(rows))
        given = [(number, *row) for number, row in zip(numbers, rows, strict=True)]
        self.many(f"{table} (number, {columns})", given)
        return numbers

    def numbers(self, table: str, count: int) -> list[int]:
        """Return unused numbers for the next rows of a table."""
        row = self.one(f"SELECT COALESCE(MAX(number), 0) FROM {table}")  # noqa: S608 - a name of ours
        first = 1 + int(row[0] if row else 0)
        return list(range(first, first + count))

    def many(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows into a table. `table` may name the columns; otherwise each row has all columns."""
        self.later_rows(f"INSERT INTO {table} {{rows}}", rows)

    def later_rows(self, sql: str, rows: Sequence[Row], *arguments: object) -> None:
        """Do `later` for a statement with many rows of values.

        The values replace `{rows}` in the statement, and come before `arguments`. Each row of values has to
        change one row of a table.
        """
        for first in range(0, len(rows), _TOGETHER):
            some = rows[first : first + _TOGETHER]
            marks = f"({', '.join('?' * len(some[0]))})"
            values = [value for row in some for value in row]
            text = sql.format(rows=f"VALUES {', '.join([marks] * len(some))}")
            self.later(text, *values, *arguments, changes=len(some))

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """Keep the transaction open while the `with` block does other work.

        Otherwise it may be ended as idle.
        """
        yield

    def when(
        self,
        *,
        last: Callable[[], None] | None = None,
        kept: Callable[[], None] | None = None,
        lost: Callable[[], None] | None = None,
    ) -> None:
        """Register callbacks: `kept` after the commit, or `lost` if the work so far is rolled back.

        `last` runs right before the commit, so that locks which it takes are held only during the commit.
        """
        if last is not None:
            self._last.append(last)
        if kept is not None:
            self._kept.append(kept)
        if lost is not None:
            self._lost.append(lost)

    def mark(self) -> None:
        """Set the savepoint to which `back` rolls back."""
        self._connection.execute("SAVEPOINT one")
        self._marks = len(self._kept), len(self._lost), len(self._last)

    def unmark(self) -> None:
        """Release the savepoint of `mark`. The changes since then belong to the transaction."""
        self._connection.execute("RELEASE one")
        self._marks = None

    def back(self) -> None:
        """Roll back to the savepoint of `mark`, and run the `lost` callbacks since then."""
        if self._marks is None:
            raise ProtocolError("there is no savepoint")
        kept, lost, last = self._marks
        self._connection.execute("ROLLBACK TO one")
        self._connection.execute("RELEASE one")
        self._marks = None
        del self._kept[kept:], self._last[last:]
        undone, self._lost[lost:] = self._lost[lost:], []
        for call in undone:
            call()

    def apart(self, call: Callable[[], object]) -> Exception | None:
        """Run `call` as a part of the marked work.

        If it fails, roll back this part alone, and return the error.
        """
        self.unmark()
        self.mark()
        try:
            call()
            self.settled()
        except Exception as error:  # noqa: BLE001 - for the caller
            self.back()
            self.mark()
            return error
        self.unmark()
        self.mark()
        return None

    def finish(self) -> None:
        """Commit the transaction, and run the `kept` callbacks."""
        self._commit()
        for call in self._kept:
            call()

    def undo(self) -> None:
        """Roll the transaction back, and run the `lost` callbacks."""
        with suppress(*self.errors):  # a failed commit may have rolled back already
            self._connection.execute("ROLLBACK")
        for call in self._lost:
            call()

    def _commit(self) -> None:
        while self._last:
            self._last.pop(0)()
        self.settled()
        self._connection.execute("COMMIT")


def note_fact(writes: Writes, name: str, value: str) -> None:
    """Insert a row into the table `facts`, or replace its value."""
    writes.run(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value
    )


def note_event(writes: Writes, at: float, what: str, subject: str, told: str = "", *, by: str = "") -> None:
    """Insert an event for operators, in public words and names.

    `by` is the id of the token that acted; empty if the service itself or a command acted.
    """
    row = at, what, subject, told, by
    writes.run("INSERT INTO events (at, what, subject, told, token) VALUES (?, ?, ?, ?, ?)", *row)


class Store(ABC):
    """Tables of the service; see the module."""

    def __init__(self) -> None:
        self._own = threading.local()

    @property
    def current(self) -> Writes | None:
        """The open write transaction of this thread, or None."""
        return getattr(self._own, "writes", None)

    @current.setter
    def current(self, writes: Writes | None) -> None:
        self._own.writes = writes

    def clock(self, reads: Reads) -> float:
        """Return seconds since 1970 by the clock that all processes of the store share."""
        return time.time()

    @property
    def comes_first(self) -> bool:
        """True in threads that decisions wait for. These use reserved connections."""
        return getattr(self._own, "first", False)

    @comes_first.setter
    def comes_first(self, first: bool) -> None:
        self._own.first = first

    @contextmanager
    def _ended(self, writes: Writes) -> Iterator[Writes]:
        """Commit the write transaction at the end of the `with` block, or roll it back after an exception."""
        self.current = writes
        try:
            yield writes
            writes.finish()
        except BaseException:
            writes.undo()
            raise
        finally:
            self.current = None

    @abstractmethod
    def reading(self) -> AbstractContextManager[Reads]:
        """Open a snapshot of the committed state. Any number of snapshots may be open, in any thread."""

    def seeing(self) -> AbstractContextManager[Reads]:
        """Return the open write transaction of this thread, or, if there is none, a new snapshot as
        `reading` does.
        """
        current = self.current
        return self.reading() if current is None else nullcontext(current)

    @abstractmethod
    def writing(self) -> AbstractContextManager[Writes]:
        """Open this thread's write transaction.

        It is durable when the `with` block ends; an exception rolls back.

        Raises:
            StateError: the store was busy for too long, or could not be written.
            NotKnown: the commit may or may not have taken place.
        """

    @contextmanager
    def claimed(self, sql: str, *arguments: object) -> Iterator[Callable[[], Writes] | None]:
        """Hold an exclusive claim on the row of a query while the `with` block runs.

        Yield a function that returns the write transaction for the results of the block, or None if another
        process has claimed the row. In a store that processes share, the transaction is open from the
        beginning and locks the row.
        """
        with ExitStack() as transaction:
            yield lambda: transaction.enter_context(self.writing())

    def left(self) -> str | None:
        """Return the reason why the store is out of service, such as a move of its content.

        The result is None if it is in service.
        """
        with self.reading() as reads:
            row = reads.one("SELECT value FROM facts WHERE name = 'moving'")
        return None if row is None else str(row[0])

    def moving(self) -> AbstractContextManager[Writes]:
        """Open a write transaction that excludes all others, also in a store that is not in service."""
        return self.writing()

    def go_on_numbering(self, writes: Writes) -> None:
        """Set the numbering of new rows to continue after the last row.

        Some stores do so anyway, and do nothing here.
        """

    @abstractmethod
    def close(self) -> None:
        """Close the store."""

    @property
    def now_writing(self) -> Writes:
        """Open write transaction of this thread; raises ProtocolError if none is open."""
        current = self.current
        if current is None:
            raise ProtocolError("this needs an open write transaction")
        return current

    def make_tables(self, run: Callable[[str], Any], *, have: int, names: Mapping[str, str]) -> None:
        """Create the tables if the store has none (`have` is 0).

        Raise IncompatibleState if `have` is another version.
        """
        if have not in (0, VERSION):
            raise IncompatibleState(
                f"the store has version {have}, this release knows {VERSION}: use the release that wrote it"
            )
        if not have:
            for statement in TABLES:
                run(in_dialect(statement, names))
            run(f"INSERT INTO facts VALUES ('version', '{VERSION}')")  # noqa: S608 - a number


class SQLiteStore(Store):
    """Tables in an SQLite file of mode 0600, in WAL mode. A commit returns once it is on disk.

    Args:
        path: file, created if it does not exist.
        timeout: seconds to wait for another program that locks the file.

    Raises:
        CorruptState: the file is not a store.
        IncompatibleState: the store has another version.
        StateError: the file cannot be opened, or other users of the machine may write to it.
    """

    def __init__(self, path: Path, *, timeout: float = 10.0) -> None:
        super().__init__()
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
            self._begin_tables()

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA secure_delete = ON")  # erased data is overwritten
        # 2 MiB: the system caches pages as well. With 32 MiB connections used more memory and were no faster.
        connection.execute("PRAGMA cache_size = -2048")
        return connection

    @staticmethod
    def copy(path: Path, to: Path) -> None:
        """Copy the committed state of a store's file, also while a service writes.

        Raise StateError on failure.
        """
        write_durably(to, b"", exclusive=True)
        with _in_words(), closing(sqlite3.connect(path)) as known, closing(sqlite3.connect(to)) as copied:
            copied.execute("PRAGMA synchronous = FULL")
            known.backup(copied)

    def _begin_tables(self) -> None:
        connection = self._writer
        connection.execute("BEGIN IMMEDIATE")
        known = connection.execute("SELECT name FROM sqlite_master WHERE name = 'facts'").fetchone()
        have = 0
        if known is not None:
            row = connection.execute("SELECT value FROM facts WHERE name = 'version'").fetchone()
            have = int(row[0])
        elif connection.execute("SELECT name FROM sqlite_master").fetchone() is not None:
            raise CorruptState("the file is another program's database, not the service's store")
        self.make_tables(connection.execute, have=have, names={})
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
            if self._closed or len(self._idle) >= MOST_IDLE:
                connection.close()
            else:
                self._idle.append(connection)

    @contextmanager
    def writing(self) -> Iterator[Writes]:  # noqa: D102
        with self._lock:
            if self.current is not None:
                raise ProtocolError("a write transaction is open already")
            with _in_words():
                self._writer.execute(Writes.begin)
            with _in_words(), self._ended(Writes(self._writer)) as writes:
                yield writes

    def close(self) -> None:  # noqa: D102
        self._closed = True
        with self._lock:
            while self._idle:
                self._idle.pop().close()
            self._writer.close()


@contextmanager
def _in_words() -> Iterator[None]:
    """Turn SQLite's errors into the library's errors, because their texts may contain arguments of
    statements.
    """
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            raise CorruptState("the service's store is not an SQLite database, or is damaged") from None
        raise StateError(f"the service's store could not be used ({name}); nothing was recorded") from None
