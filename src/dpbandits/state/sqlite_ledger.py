"""`SQLiteLedger`: a durable ledger in one file, shared by any number of processes."""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from decimal import Decimal, InvalidOperation
from os import PathLike
from pathlib import Path
from typing import Any

from dpbandits.errors import CorruptState, IncompatibleState, StateError
from dpbandits.state.files import sync_directory, write_durably
from dpbandits.state.ledger import (
    Amount,
    Balance,
    Witness,
    add,
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
SCHEMA_VERSION = 2

# Decimals are kept as text: SQLite's numbers are binary floats. It has no checksums either: every row ends
# with one of its own, so that a flipped bit is no budget.
_SCHEMA = (
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY NOT NULL,
        epsilon TEXT NOT NULL, delta TEXT NOT NULL,
        spent_epsilon TEXT NOT NULL, spent_delta TEXT NOT NULL, seal TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE charges (
        account TEXT NOT NULL REFERENCES accounts (name), charge_id TEXT NOT NULL,
        epsilon TEXT NOT NULL, delta TEXT NOT NULL, seal TEXT NOT NULL,
        PRIMARY KEY (account, charge_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE witnesses (
        lineage TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL, seal TEXT NOT NULL
    ) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

# No sum of amounts that `exact` admits has more digits before or after the point.
_LARGEST_TOTAL = 1000


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

    def __init__(self, path: str | PathLike[str], *, timeout: float = 30.0) -> None:
        self._path = Path(path).resolve()
        self._timeout = timeout
        _create(self._path, self._timeout)
        with self._transaction() as connection:  # nobody else is writing meanwhile
            _check_sound(connection, self._path)

    def open_account(self, name: str, *, epsilon: Amount, delta: Amount = 0.0) -> None:
        """See `Ledger.open_account`."""
        opened = new_account(name, epsilon, delta)
        with self._transaction() as connection:
            existing = _account(connection, name)
            if existing is not None:
                check_same_limits(name, existing, opened)
                return
            row = (name, str(opened.epsilon), str(opened.delta), "0", "0")
            connection.execute("INSERT INTO accounts VALUES (?, ?, ?, ?, ?, ?)", (*row, _seal(row)))

    def charge(self, account: str, *, charge_id: str, epsilon: Amount, delta: Amount = 0.0) -> Balance:
        """See `Ledger.charge`."""
        amounts = charge_amounts(charge_id, epsilon, delta)
        with self._transaction() as connection:
            balance = found(_account(connection, account), account)
            earlier = connection.execute(
                "SELECT * FROM charges WHERE account = ? AND charge_id = ?", (account, charge_id)
            ).fetchone()
            if earlier is not None:
                _, _, *charged = _unsealed(earlier)
                check_same_charge((_decimal(charged[0]), _decimal(charged[1])), amounts)
                return balance
            balance = balance.charged(*amounts, account=account)
            paid = (account, charge_id, *map(str, amounts))
            connection.execute("INSERT INTO charges VALUES (?, ?, ?, ?, ?)", (*paid, _seal(paid)))
            limits = (str(balance.epsilon), str(balance.delta))
            spent = (str(balance.spent_epsilon), str(balance.spent_delta))
            connection.execute(
                "UPDATE accounts SET spent_epsilon = ?, spent_delta = ?, seal = ? WHERE name = ?",
                (*spent, _seal((account, *limits, *spent)), account),
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
            row = (lineage, *witness)
            connection.execute("INSERT OR REPLACE INTO witnesses VALUES (?, ?, ?, ?)", (*row, _seal(row)))

    def last(self, lineage: str) -> Witness | None:
        """See `Ledger.last`."""
        with self._connection() as connection:
            return _witness(connection, lineage)

    def __repr__(self) -> str:
        return "SQLiteLedger()"

    # -- connections ----------------------------------------------------------------------------

    def _connection(self) -> AbstractContextManager[sqlite3.Connection]:
        return _connected(self._path, self._timeout)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """A write transaction, alone in the file; rolled back when anything is raised inside."""
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")


@contextmanager
def _connected(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """A connection of its own, in autocommit; SQLite's errors become ours."""
    # mode=rw: a ledger that was deleted is an error, not a fresh budget.
    address = f"{path.as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)) as connection:
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
    except UnicodeDecodeError:  # a name or SQLite's own message about it, after a flipped bit
        raise CorruptState("the ledger holds text that is none: restore it from a backup") from None


def _reason(error: sqlite3.Error) -> str:
    """The name of SQLite's error code: its message could quote data."""
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


def _create(path: Path, timeout: float) -> None:
    """Put a complete new ledger at `path` unless there is a file.

    It is built aside and linked into place, which never replaces another process's. So a ledger
    is at no time empty, and an empty file is a damaged one.
    """
    if path.exists():
        return
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    write_durably(temporary, b"", exclusive=True)  # with mode 0600, which SQLite keeps
    try:
        with _connected(temporary, timeout) as connection:
            connection.execute("BEGIN IMMEDIATE")
            for statement in _SCHEMA:
                connection.execute(statement)
            connection.execute("COMMIT")
        with suppress(FileExistsError):
            path.hardlink_to(temporary)
    finally:
        temporary.unlink()
    sync_directory(path.parent)


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    """Refuse another program's database, and one that is damaged in a way that could hide spending."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    damaged = CorruptState("the ledger is damaged and what was charged may be lost: restore it from a backup")
    if n_pages == 0:
        raise damaged
    if application != APPLICATION_ID:
        raise IncompatibleState("the file is another program's database, not a ledger")
    if version != SCHEMA_VERSION:
        raise IncompatibleState(
            f"the ledger has version {version}, this release uses version {SCHEMA_VERSION}"
        )
    # SQLite takes missing bytes of the last page for zeros.
    if n_pages * page_size != path.stat().st_size:
        raise damaged
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise damaged
    for row in connection.execute("SELECT * FROM witnesses"):
        _unsealed(row)
    # Rows that are gone have no seal to miss; the totals and the charges vouch for each other.
    totals: dict[str, tuple[Decimal, Decimal]] = {}
    for account, _, *amounts in map(_unsealed, connection.execute("SELECT * FROM charges")):
        epsilon, delta = totals.get(account, (Decimal(0), Decimal(0)))
        totals[account] = (add(epsilon, _decimal(amounts[0])), add(delta, _decimal(amounts[1])))
    for account, _, _, *spent in map(_unsealed, connection.execute("SELECT * FROM accounts")):
        if tuple(map(_decimal, spent)) != totals.pop(account, (Decimal(0), Decimal(0))):
            raise damaged
    if totals:  # charges of an account that is gone
        raise damaged


def _account(connection: sqlite3.Connection, name: str) -> Balance | None:
    row = connection.execute("SELECT * FROM accounts WHERE name = ?", (name,)).fetchone()
    return None if row is None else Balance(*map(_decimal, _unsealed(row)[1:]))


def _witness(connection: sqlite3.Connection, lineage: str) -> Witness | None:
    row = connection.execute("SELECT * FROM witnesses WHERE lineage = ?", (lineage,)).fetchone()
    if row is None:
        return None
    _, position, digest = _unsealed(row)
    if not isinstance(position, int) or not isinstance(digest, str):
        raise CorruptState("the ledger holds something that is no witness: restore it from a backup")
    return Witness(position, digest)


def _seal(row: tuple[object, ...]) -> str:
    """Checksum of a row's values: against a disk's errors, not against people."""
    return hashlib.blake2b(repr(row).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _unsealed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row's values, once its seal has vouched for them."""
    *values, seal = row
    if seal != _seal(tuple(values)):
        raise CorruptState("a row of the ledger was changed: restore it from a backup")
    return tuple(values)


def _decimal(text: object) -> Decimal:
    try:
        value = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        value = None
    if value is None or not value.is_finite() or value < 0 or abs(value.adjusted()) > _LARGEST_TOTAL:
        raise CorruptState("the ledger holds something that is no budget: restore it from a backup")
    return value
