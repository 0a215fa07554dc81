"""`Store`: the service's tables, and transactions on them; `SQLiteStore` keeps them in one file.

A store knows no policy and no HTTP. It gives a snapshot to read (`reading`) and one write transaction a
thread (`writing`), in the SQL that SQLite and PostgreSQL share, with `?` for arguments. What differs is said
here: how a transaction begins, how a row is kept from other processes until the commit (`locked`,
`claimed`), and the names of a few types (`in_dialect`). SQLite is the case of one process: it locks no rows,
because nobody else writes. `PostgresStore` is the other store.

| table | one row is | raw data in it |
|---|---|---|
| `facts` | a fact of the whole store: its version, the latest time it has seen | - |
| `tokens` | a token: digests of its text and the one before, scopes, limits, made, ending, withdrawn | - |
| `sessions` | a session of the desk: digest of its cookie, its token's id, when it ends | - |
| `populations` | people who are protected together: an account of the ledger | - |
| `policies` | a policy: what was asked for, its settings, its status | - |
| `decisions` | an answer: keyed digests of who asked what, the arm, what became of it | arms, rewards |
| `releases` | a release of a policy, and the function that was published then | - |
| `surveys` | a local policy: its population and its spec | - |
| `exchanges` | an outsourced table: its population, its promise, what the curator published | - |
| `questions` | a row that the modeler asked for, and the curator's answer | answers |
| `events` | what an operator should know: alarms, and what was done, by which token | - |
| `progress` | a policy: rounds asked, when its next release is due, its configuration, its salt | the salt |
| `slots` | a round that no release holds yet: who, what was chosen, what became of it | all of it |
| `people` | a person's rounds of a policy | a keyed digest |
| `states` | a policy's state at its last release | all of it |
| `survey_log` | a local policy's version, or counts of reports that a worker took | - |
| `survey_states` | what a local policy's server knew after so many of these | - |
| `accounts`, `charges`, `lineages`, `book` | the ledger's rows; see `dpbandits.service.row_ledger` | - |

One list of tables serves every engine; a store of another version is refused.
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
"""Version of the tables."""

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
        asked_at REAL NOT NULL, due_at REAL, UNIQUE (policy, token, asked_as))""",
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
        status INTEGER NOT NULL, reward REAL, PRIMARY KEY (policy, slot))""",
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
"""Statements that make the tables of an empty store."""

Row = tuple[Any, ...]

_TOGETHER = 200

MOST_IDLE = 8
"""Connections of readers that are kept for the next ones; each has its own cache of pages."""

OTHERWISE = "another worker was there meanwhile"
"""Message of a statement that has changed other rows than it should."""


def in_dialect(statement: str, names: Mapping[str, str]) -> str:
    """A statement with an engine's own names of types, the longest first."""
    for name in sorted(names, key=len, reverse=True):
        statement = re.sub(rf"\b{name}\b", names[name], statement)
    return statement


class TryAgain(StateError):
    """Another process was faster, or has to be waited for: nothing was done; try again `after` seconds."""

    def __init__(self, words: str, *, after: float = 0.0) -> None:
        super().__init__(words)
        self.after = after


class NotKnown(StateError):
    """The connection was lost at the commit: whether it took place is not known."""


class Reads:
    """Statements on one consistent state of the tables.

    Args:
        connection: of Python's DB-API, in a transaction.
    """

    lock: ClassVar[tuple[str, str]] = "", ""
    """Ends of a query whose rows others may not change until the commit: it waits for them, or passes over
    those that others have. They are empty where nobody else writes, and in a transaction that only reads."""

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

    def large(self, sql: str, *arguments: object) -> bytes | None:
        """Return the `value`, which may be large, of a query of at most one row; None if there is no row.

        The transaction may hold locks. Texts are in UTF-8.
        """
        row = self.one(sql, *arguments)
        value = None if row is None else row[0]
        return value.encode() if isinstance(value, str) else value

    def locked(self, sql: str, *arguments: object, skip: bool = False) -> list[Row]:
        """Return rows of a query of one table, which nobody else changes until the commit.

        `skip` leaves out what somebody else has locked, instead of waiting.
        """
        return self.rows(sql + self.lock[skip], *arguments)

    def among(self, sql: str, values: Sequence[object], *arguments: object, lock: str = "") -> list[Row]:
        """Rows of a query that ends with IN, for many values; kept from others in the order of `lock`."""
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
    """A query that is made before its turn, together with others; see `Writes.ahead`.

    Attributes:
        order: what is locked first, the same in every worker: "progress" and the policy, then "round" and
            its number; what locks nothing is asked for "then".
        sql, arguments: the query, of one table where it locks.
        lock: whether its rows are kept from others.
    """

    order: tuple[str, int]
    sql: str
    arguments: tuple[object, ...]
    lock: bool = False


NUMBER = Ahead(("number", 0), "", ())
"""The number of a decision that will be entered."""


class Writes(Reads):
    """The one open write transaction. What it changes is there for others, and durable, once it is kept.

    `kept` and `lost` are called when it is known which: after the commit, or after everything (or everything
    since the last `mark`) was undone. `last` is called before the commit, as a part of it.
    """

    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    """How a write transaction begins."""
    errors: ClassVar[tuple[type[Exception], ...]] = (sqlite3.Error,)
    """Exceptions that a statement may raise."""
    looks_ahead: ClassVar[bool] = False
    """True if queries that are made ahead of their turn save time."""

    def __init__(self, connection: Any) -> None:
        super().__init__(connection)
        self._last: list[Callable[[], None]] = []
        self._kept: list[Callable[[], None]] = []
        self._lost: list[Callable[[], None]] = []
        self._marks: tuple[int, int, int] | None = None

    def run(self, sql: str, *arguments: object) -> int:
        """Execute a statement; how many rows it changed."""
        return int(self._connection.execute(sql, arguments).rowcount)

    def later(self, sql: str, *arguments: object, changes: int = 1) -> None:
        """A statement of which nothing is asked but that it changes so many rows.

        It may wait for what follows, and share its message to the database; `settled` waits no longer.

        Raises:
            TryAgain: it has changed more or fewer; raised here, or by what it waited for. Then nothing is
                kept of what it is part of: what follows the mark, or, if the mark is gone, the transaction.
        """
        if self.run(sql, *arguments) != changes:
            raise TryAgain(OTHERWISE)

    def settled(self) -> None:
        """Whatever may wait is done; see `later`."""

    def ahead(self, queries: Sequence[Ahead]) -> None:
        """Make queries in one message, where messages take time; a store in this process gains nothing.

        `rows`, `one` and `locked` of the same words and arguments then give what was found, the first time:
        whoever changes a row asks for it first.
        """

    def seen(self, query: Ahead) -> list[Row] | None:
        """Return the rows that `ahead` has found and nobody has asked for yet."""
        return None

    def forget_ahead(self) -> None:
        """Forget what `ahead` has found and nobody has asked for yet: it may have changed."""

    def enter_many(self, table: str, columns: str, rows: Sequence[Row]) -> list[int]:
        """Insert rows of a table whose rows are numbered; their numbers."""
        numbers = self.numbers(table, len(rows))
        given = [(number, *row) for number, row in zip(numbers, rows, strict=True)]
        self.many(f"{table} (number, {columns})", given)
        return numbers

    def numbers(self, table: str, count: int) -> list[int]:
        """Numbers that the next rows of a table may have."""
        row = self.one(f"SELECT COALESCE(MAX(number), 0) FROM {table}")  # noqa: S608 - a name of ours
        first = 1 + int(row[0] if row else 0)
        return list(range(first, first + count))

    def many(self, table: str, rows: Sequence[Row]) -> None:
        """Insert rows of a table, of all columns or those that are named."""
        self.later_rows(f"INSERT INTO {table} {{rows}}", rows)

    def later_rows(self, sql: str, rows: Sequence[Row], *arguments: object) -> None:
        """`later` of a statement about many rows, which stand where it says `{rows}`, before its `arguments`.

        Each of them has to change one row of a table.
        """
        for first in range(0, len(rows), _TOGETHER):
            some = rows[first : first + _TOGETHER]
            marks = f"({', '.join('?' * len(some[0]))})"
            values = [value for row in some for value in row]
            text = sql.format(rows=f"VALUES {', '.join([marks] * len(some))}")
            self.later(text, *values, *arguments, changes=len(some))

    @contextmanager
    def kept_alive(self) -> Iterator[None]:
        """While other work is done, nobody takes the transaction for one whose process is gone."""
        yield

    def when(
        self,
        *,
        last: Callable[[], None] | None = None,
        kept: Callable[[], None] | None = None,
        lost: Callable[[], None] | None = None,
    ) -> None:
        """Call `kept` after the commit of what was done so far, or `lost` where it was undone instead.

        `last` is called at the end of the transaction: what it locks is locked for no longer than a commit.
        """
        if last is not None:
            self._last.append(last)
        if kept is not None:
            self._kept.append(kept)
        if lost is not None:
            self._lost.append(lost)

    def mark(self) -> None:
        """From here on `back` undoes."""
        self._connection.execute("SAVEPOINT one")
        self._marks = len(self._kept), len(self._lost), len(self._last)

    def unmark(self) -> None:
        """Keep what was done since the mark."""
        self._connection.execute("RELEASE one")
        self._marks = None

    def back(self) -> None:
        """Undo what was done since the mark and was not committed."""
        if self._marks is None:
            raise ProtocolError("nothing is marked")
        kept, lost, last = self._marks
        self._connection.execute("ROLLBACK TO one")
        self._connection.execute("RELEASE one")
        self._marks = None
        del self._kept[kept:], self._last[last:]
        undone, self._lost[lost:] = self._lost[lost:], []
        for call in undone:
            call()

    def apart(self, call: Callable[[], object]) -> Exception | None:
        """Do a part of what was marked; its error, if it failed: then it alone is undone."""
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
        """Commit, and call what waits for it."""
        self._commit()
        for call in self._kept:
            call()

    def undo(self) -> None:
        """Roll back, and call what waits for that."""
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
    """Write a fact down, over what was said of it before."""
    writes.run(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", name, value
    )


def note_event(writes: Writes, at: float, what: str, subject: str, told: str = "", *, by: str = "") -> None:
    """Let the operator know: words and names that are public.

    `by` is the id of the token that acted; empty where the service acted itself, or a command beside it.
    """
    row = at, what, subject, told, by
    writes.run("INSERT INTO events (at, what, subject, told, token) VALUES (?, ?, ?, ?, ?)", *row)


class Store(ABC):
    """The tables; see the module."""

    def __init__(self) -> None:
        self._own = threading.local()

    @property
    def current(self) -> Writes | None:
        """The write transaction that this thread has open."""
        return getattr(self._own, "writes", None)

    @current.setter
    def current(self, writes: Writes | None) -> None:
        self._own.writes = writes

    def clock(self, reads: Reads) -> float:
        """Seconds since 1970 by the clock that all processes of the store share; see `service.clock`."""
        return time.time()

    @property
    def comes_first(self) -> bool:
        """True in a thread that decisions wait for: it has a connection when all others are in use."""
        return getattr(self._own, "first", False)

    @comes_first.setter
    def comes_first(self, first: bool) -> None:
        self._own.first = first

    @contextmanager
    def _ended(self, writes: Writes) -> Iterator[Writes]:
        """This thread's write transaction, kept when the block is left, and undone by what it raises."""
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
        """One consistent state of what is committed; any number at a time, from any thread."""

    def seeing(self) -> AbstractContextManager[Reads]:
        """Return the write transaction that this thread has open, or else what `reading` returns."""
        current = self.current
        return self.reading() if current is None else nullcontext(current)

    @abstractmethod
    def writing(self) -> AbstractContextManager[Writes]:
        """This thread's write transaction: durable when the block is left; after an exception nothing has
        happened.

        Raises:
            StateError: the store could not be had in time, or not be written.
            NotKnown: whether it is durable is not known.
        """

    @contextmanager
    def claimed(self, sql: str, *arguments: object) -> Iterator[Callable[[], Writes] | None]:
        """Let no other process do what the row of a query stands for, while the block is run.

        Gives a call that returns the write transaction in which the block writes what it has found; where
        processes share the store, it is open from the beginning and holds the row. None: another process has
        the row.
        """
        with ExitStack() as transaction:
            yield lambda: transaction.enter_context(self.writing())

    def left(self) -> str | None:
        """Return why the store serves nobody, such as that its content was moved; None where it serves."""
        with self.reading() as reads:
            row = reads.one("SELECT value FROM facts WHERE name = 'moving'")
        return None if row is None else str(row[0])

    def moving(self) -> AbstractContextManager[Writes]:
        """Open a write transaction that excludes all others, also in a store that is not in service."""
        return self.writing()

    def go_on_numbering(self, writes: Writes) -> None:
        """Number rows on after the last that is there; by default they are."""

    @abstractmethod
    def close(self) -> None:
        """Leave the store."""

    @property
    def now_writing(self) -> Writes:
        """The write transaction that this thread has open; ProtocolError where none is."""
        current = self.current
        if current is None:
            raise ProtocolError("this takes place in the writer's transaction alone")
        return current

    def make_tables(self, run: Callable[[str], Any], *, have: int, names: Mapping[str, str]) -> None:
        """Make the tables of an empty store, `have` 0; IncompatibleState for those of another version."""
        if have not in (0, VERSION):
            raise IncompatibleState(
                f"the store has version {have}, this release knows {VERSION}: use the release that wrote it"
            )
        if not have:
            for statement in TABLES:
                run(in_dialect(statement, names))
            run(f"INSERT INTO facts VALUES ('version', '{VERSION}')")  # noqa: S608 - a number


class SQLiteStore(Store):
    """The tables in an SQLite file of mode 0600, in WAL mode, every commit on disk before it returns.

    Args:
        path: the file, made where it does not exist.
        timeout: seconds to wait for another program that holds the file.

    Raises:
        CorruptState: the file is no store.
        IncompatibleState: it has another version.
        StateError: it cannot be opened, or others may write to it.
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
        connection.execute("PRAGMA secure_delete = ON")  # what is erased is overwritten
        # 2 MiB: the system keeps pages, too. With 32 MiB each connection grew to that, and was no faster.
        connection.execute("PRAGMA cache_size = -2048")
        return connection

    @staticmethod
    def copy(path: Path, to: Path) -> None:
        """Copy a store's file as it is committed, though a service writes to it; StateError if that fails."""
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
    """SQLite's errors as the library's: its texts can hold what a statement was given."""
    try:
        yield
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        if name in ("SQLITE_CORRUPT", "SQLITE_NOTADB"):
            raise CorruptState("the service's store is no SQLite database, or a damaged one") from None
        raise StateError(f"the service's store could not be used ({name}); nothing was recorded") from None
