"""`SQLiteLedger`: a durable ledger in one file, shared by any number of processes."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from decimal import Decimal, InvalidOperation
from pathlib import Path

from dpbandits.errors import CorruptState, IncompatibleState, StateError
from dpbandits.state._files import sync_directory
from dpbandits.state.ledger import (
    Amount,
    Balance,
    Witness,
    charge_amounts,
    check_advance,
    check_same_charge,
    check_same_limits,
    found,
    new_account,
    new_witness,
)

__all__ = ["SQLiteLedger"]

APPLICATION_ID = 0x44504C47  # "DPLG", in the database's own header
SCHEMA_VERSION = 1

# Decimals are kept as text: SQLite's numbers are binary floats.
_SCHEMA = (
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY NOT NULL,
        epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        spent_epsilon TEXT NOT NULL, spent_delta TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE charges (
        account TEXT NOT NULL REFERENCES accounts (name), charge_id TEXT NOT NULL,
        epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        PRIMARY KEY (account, charge_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE witnesses (
        lineage TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

# No sum of amounts that `exact` admits has more digits before or after the point.
_LARGEST_TOTAL = 1000

# Closing any descriptor of a file drops all POSIX locks that the process holds on it, so a ledger
# is created under this lock: no connection of another thread can exist before it is closed.
_CREATION = threading.Lock()


class SQLiteLedger:
    """A ledger in an SQLite file of mode 0600.

    Every call is one transaction on its own connection, so that threads and forked processes may
    share the object. Writers take turns (`BEGIN IMMEDIATE`), and a call returns after its
    transaction has reached the disk. The file must be on a file system with working locks.

    A ledger restored from a backup forgets what was charged since: restore states and ledger
    together, and never run on both.

    Args:
        path: the file; created where it does not exist.
        timeout: seconds to wait for another process's transaction.

    Raises:
        CorruptState: the file is no SQLite database, or a damaged one.
        IncompatibleState: it is another program's database, or of another version.
        StateError: it could not be locked in time, or not be opened.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0) -> None:
        self._path = Path(path).resolve()
        self._timeout = timeout
        self._create_file()
        with self._transaction() as connection:
            _check_identity(connection)

    def open_account(self, name: str, *, epsilon: Amount, delta: Amount = 0.0) -> None:
        """See `Ledger.open_account`."""
        opened = new_account(name, epsilon, delta)
        with self._transaction() as connection:
            existing = _account(connection, name)
            if existing is not None:
                check_same_limits(name, existing, opened)
                return
            connection.execute(
                "INSERT INTO accounts VALUES (?, ?, ?, '0', '0')",
                (name, str(opened.epsilon), str(opened.delta)),
            )

    def charge(self, account: str, *, charge_id: str, epsilon: Amount, delta: Amount = 0.0) -> Balance:
        """See `Ledger.charge`."""
        amounts = charge_amounts(charge_id, epsilon, delta)
        with self._transaction() as connection:
            balance = found(_account(connection, account), account)
            earlier = connection.execute(
                "SELECT epsilon, delta FROM charges WHERE account = ? AND charge_id = ?", (account, charge_id)
            ).fetchone()
            if earlier is not None:
                check_same_charge((_decimal(earlier[0]), _decimal(earlier[1])), amounts)
                return balance
            balance = balance.charged(*amounts, account=account)
            connection.execute(
                "INSERT INTO charges VALUES (?, ?, ?, ?)", (account, charge_id, *map(str, amounts))
            )
            connection.execute(
                "UPDATE accounts SET spent_epsilon = ?, spent_delta = ? WHERE name = ?",
                (str(balance.spent_epsilon), str(balance.spent_delta), account),
            )
            return balance

    def balance(self, account: str) -> Balance:
        """See `Ledger.balance`."""
        with self._connection() as connection:
            return found(_account(connection, account), account)

    def advance(self, lineage: str, *, position: int, digest: str) -> None:
        """See `Ledger.advance`."""
        witness = new_witness(lineage, position, digest)
        with self._transaction() as connection:
            check_advance(_witness(connection, lineage), witness)
            connection.execute("INSERT OR REPLACE INTO witnesses VALUES (?, ?, ?)", (lineage, *witness))

    def last(self, lineage: str) -> Witness | None:
        """See `Ledger.last`."""
        with self._connection() as connection:
            return _witness(connection, lineage)

    def __repr__(self) -> str:
        return "SQLiteLedger()"

    # -- connections ----------------------------------------------------------------------------

    def _create_file(self) -> None:
        """An empty file with mode 0600, which SQLite takes for an empty database."""
        with _CREATION:
            try:
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            except FileExistsError:
                return
            os.close(descriptor)
            sync_directory(self._path.parent)

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of its own, in autocommit; SQLite's errors become ours."""
        try:
            # mode=rw: a ledger that was deleted is an error, not a fresh budget.
            address = f"{self._path.as_uri()}?mode=rw"
            with closing(
                sqlite3.connect(address, uri=True, timeout=self._timeout, isolation_level=None)
            ) as connection:
                # EXTRA: also the removal of the rollback journal, which is the commit, is on disk.
                connection.execute("PRAGMA synchronous = EXTRA")
                yield connection
        except sqlite3.OperationalError as error:
            raise StateError(
                f"the ledger could not be used ({_reason(error)}): repeat the call, which is safe, "
                "or look at the file's permissions, disk and other users"
            ) from None
        except sqlite3.DatabaseError as error:
            raise CorruptState(f"the ledger is no SQLite database or damaged ({_reason(error)})") from None

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction, alone in the file; rolled back when anything is raised inside."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")


def _reason(error: sqlite3.Error) -> str:
    """The name of SQLite's error code: its message could quote data."""
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


def _check_identity(connection: sqlite3.Connection) -> None:
    """Create the tables in an empty database; refuse another program's."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (n_tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if application == version == n_tables == 0:
        for statement in _SCHEMA:
            connection.execute(statement)
    elif application != APPLICATION_ID:
        raise IncompatibleState("the file is another program's database, not a ledger")
    elif version != SCHEMA_VERSION:
        raise IncompatibleState(
            f"the ledger has version {version}, this release uses version {SCHEMA_VERSION}"
        )


def _account(connection: sqlite3.Connection, name: str) -> Balance | None:
    row = connection.execute(
        "SELECT epsilon, delta, spent_epsilon, spent_delta FROM accounts WHERE name = ?", (name,)
    ).fetchone()
    return None if row is None else Balance(*map(_decimal, row))


def _witness(connection: sqlite3.Connection, lineage: str) -> Witness | None:
    row = connection.execute(
        "SELECT position, digest FROM witnesses WHERE lineage = ?", (lineage,)
    ).fetchone()
    if row is None:
        return None
    position, digest = row
    if not isinstance(position, int) or not isinstance(digest, str):
        raise CorruptState("the ledger holds something that is no witness: restore it from a backup")
    return Witness(position, digest)


def _decimal(text: object) -> Decimal:
    try:
        value = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        value = None
    if value is None or not value.is_finite() or value < 0 or abs(value.adjusted()) > _LARGEST_TOTAL:
        raise CorruptState("the ledger holds something that is no budget: restore it from a backup")
    return value
