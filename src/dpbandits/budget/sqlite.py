r"""`SQLiteLedger`: a durable ledger in one SQLite file, shared by any number of processes.

What is detected, and when
--------------------------
Every row has a checksum. The *book*, a single row, has two sums over all rows, their numbers of rows, the
number of events so far, and a running digest of all this. The sums are of hashes of 2048 bits with a secret
salt, added modulo 2^2048 (Bellare and Micciancio 1997).

=====================================================  =======================================================
change                                                 detected
=====================================================  =======================================================
a bit flipped in a row                                 when the row is read: an account at every charge to it
an account, a lineage or the book changed, removed,    at opening
or rolled back to an older version of itself
a charge removed or added                              at opening
a charge changed                                       when it is repeated, and by `verify`
a truncated file                                       at opening
any of these in a ledger of up to 2,000 charges        at opening, which reads all of it
the file deleted, or rolled back as a whole            with a witness: at the next call. Without one: never
rows, sums and digest rewritten so that they fit       with a witness: at opening (a charge of a large ledger:
                                                       by `verify`). Without one: never
the same, and one event added that never happened      never: a witness knows the past, not the writer
=====================================================  =======================================================

The rows that a large ledger does not read at opening cannot give back budget, because the spent budget is in
the account's own row. A lost charge can only be charged once more. A program that may write to the file may
also charge, open accounts and forge the next event. Checksums protect against faulty disks, and witnesses
against copies. File modes protect against other users: a file that they may write to, or may replace in a
writable folder, is refused at every call.

The witness
-----------
`witness=` is an external counter of this ledger's events, which detects a rollback of the file
(`dpbandits.state.witness`). Under a lock file beside the ledger each call

1. **compares** the witness's last position with the book;
2. **commits** position n + 1 to the file, durably;
3. **tells** the witness n + 1 and the book's digest, with compare-and-set;

and returns after all three. So nothing is released for a charge that the witness does not know. The other
order would be wrong: a ledger that died between telling and committing would look like one that was rolled
back by one event. The next call finds one of these cases:

==================  =============  =====================================  ===================================
file                witness        cause                                  result
==================  =============  =====================================  ===================================
n, digest d         n, digest d    none, or a crash before the commit     continue
n + 1, after d      n, digest d    crash before telling, or no answer     told now: the event counts
n                   n + 1 or more  rollback, or a copy has continued      `ForkedState`
n                   n, other       another copy, or an altered file       `ForkedState`
n + 2 or more       n              not this ledger's witness              `ForkedState`
n                   nothing        it lost its data, or is another one    `IncompatibleState`, but told now at
                                                                          n = 0 and for a first witness
none                n              the file was deleted                   `ForkedState`
==================  =============  =====================================  ===================================

In the second row the interrupted call never returned, so nothing was computed from its charge. Under the same
id it is the same charge. A witness that answers late or never blocks all users of the ledger, who wait for
each other. `dpbandits.state.witness` describes further attacks.
"""

import hashlib
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from dataclasses import astuple, dataclass, replace
from decimal import Decimal, InvalidOperation
from os import PathLike
from pathlib import Path
from typing import Any

from dpbandits._calls import worded
from dpbandits.budget.accounts import Balance, Charge, Terms
from dpbandits.budget.amounts import UNKNOWN
from dpbandits.budget.ledger import Ledger
from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, StateError
from dpbandits.state.files import locked, refuse_if_others_write, sync_directory, write_durably
from dpbandits.state.witness import AppendOnlyWitness, Witness, new_witness

__all__ = ["SQLiteLedger"]

APPLICATION_ID = 0x44504C47  # "DPLG", in the database's own header
SCHEMA_VERSION = 1

READ_WHOLE = 2_000
"""Largest number of charges of a ledger that is read whole at opening; `benchmarks/ledger.py` times it."""

# Decimals are stored as text, because SQLite's numbers are binary floats. SQLite has no checksums, so every
# row ends with one: a flipped bit must not become budget.
_TABLES = (
    """CREATE TABLE accounts (
        name TEXT PRIMARY KEY NOT NULL, terms TEXT NOT NULL, accountant TEXT NOT NULL, before TEXT NOT NULL,
        spent_epsilon TEXT NOT NULL, spent_delta TEXT NOT NULL, spent_rho TEXT NOT NULL,
        spent_mu2 TEXT NOT NULL, spent_distance TEXT NOT NULL, simulated INTEGER NOT NULL, seal TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE charges (
        account TEXT NOT NULL REFERENCES accounts (name), charge_id TEXT NOT NULL,
        epsilon TEXT NOT NULL, delta TEXT NOT NULL, rho TEXT NOT NULL,
        mu2 TEXT NOT NULL, distance TEXT NOT NULL, simulated INTEGER NOT NULL, seal TEXT NOT NULL,
        PRIMARY KEY (account, charge_id)
    ) WITHOUT ROWID""",
    """CREATE TABLE lineages (
        lineage TEXT PRIMARY KEY NOT NULL, position INTEGER NOT NULL, digest TEXT NOT NULL, seal TEXT NOT NULL
    ) WITHOUT ROWID""",
    """CREATE TABLE book (
        id INTEGER PRIMARY KEY CHECK (id = 1), salt TEXT NOT NULL, witnessed TEXT NOT NULL,
        position INTEGER NOT NULL, previous TEXT NOT NULL, digest TEXT NOT NULL,
        n_kept INTEGER NOT NULL, kept TEXT NOT NULL, n_charges INTEGER NOT NULL, charges TEXT NOT NULL,
        seal TEXT NOT NULL
    )""",
)

_LARGEST_TOTAL = 2000
"""Largest exponent of a stored sum. No sum of admitted amounts, or of their squares, has more digits."""

_HASH_BYTES = 256
_MODULUS = 1 << (8 * _HASH_BYTES)


@worded
class SQLiteLedger(Ledger):
    """A ledger in an SQLite file of mode 0600.

    Every call is one transaction on its own connection, so that threads and forked processes may share the
    object. Only one process at a time writes to the file (`BEGIN IMMEDIATE`). A call returns after its
    transaction has reached the disk. The file must be on a file system with working locks.

    Without a witness, a ledger that is restored from a backup forgets later charges. Then restore states and
    ledger together, and never continue both the backup and the original. With a witness such a rollback is
    detected. The module lists what else is detected, and when.

    Args:
        path: Path of the file. It is created if it is missing, unless the witness knows it.
        timeout: Seconds to wait for another process's transaction.
        witness: External counter that detects a rollback of the file. A ledger that was opened with one
            always needs it.
        name: Name of this ledger at the witness. Give each ledger its own name if several share a witness.

    Raises:
        CorruptState: The file is not an SQLite database, or is damaged.
        IncompatibleState: The file is another program's database, has another version, or needs its witness.
        ForkedState: The witness knows another copy of the file, or a newer one.
        StateError: The file could not be opened, or locked in time; others may write to it; or the witness
            did not answer.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        timeout: float = 30.0,
        witness: AppendOnlyWitness | None = None,
        name: str = "ledger",
    ) -> None:
        new_witness(name, 0, "-")  # checks the name
        self._path = Path(path).resolve()
        self._timeout = timeout
        self._witness = witness
        self._name = name
        refuse_if_others_write(self._path, what="the ledger")
        with self._alone():
            self._create()
            with self._transaction() as connection:  # excludes other writers during the check
                _check_sound(connection, self._path)
                book = _book(connection)
                self._compare(book, opening=True)
                if witness is not None and book.witnessed != name:
                    _write_book(connection, replace(book, witnessed=name))

    def verify(self) -> None:
        """Read every row and compare all of them with the book; see the module. 100,000 charges take seconds.

        Raises:
            CorruptState: A row was changed, removed or added.
        """
        with self._reading() as entries:
            _check_whole(entries.connection, entries.book)

    # -- transactions ---------------------------------------------------------------------------

    def _connection(self) -> AbstractContextManager[sqlite3.Connection]:
        refuse_if_others_write(self._path, what="the ledger")
        return _connected(self._path, self._timeout)

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")

    def _alone(self) -> AbstractContextManager[None]:
        """Return the lock that guards calls with a witness, or a null context without a witness."""
        if self._witness is None:
            return nullcontext()
        return locked(self._path.with_name(self._path.name + ".witness-lock"))

    @contextmanager
    def _event(self) -> Iterator["_Entries"]:
        """Open the rows in a transaction. If it changes them, the witness is told before this returns."""
        with self._alone():
            with self._transaction() as connection:
                entries = _Entries(connection)
                before = entries.book
                self._compare(before)
                yield entries
                entries.close()
            if self._witness is not None and entries.book.position > before.position:
                self._tell(entries.book, self._witness)

    @contextmanager
    def _reading(self) -> Iterator["_Entries"]:
        with self._alone(), self._connection() as connection:
            connection.execute("BEGIN")
            entries = _Entries(connection)
            self._compare(entries.book)
            yield entries

    # -- the witness ----------------------------------------------------------------------------

    def _compare(self, book: "_Book", *, opening: bool = False) -> None:
        if self._witness is not None:
            self._settle(book, self._witness, opening=opening)
        elif book.witnessed:
            raise IncompatibleState(
                "this ledger has a witness, which detects a rollback of the file: open it with witness="
            )

    def _settle(self, book: "_Book", witness: AppendOnlyWitness, *, opening: bool) -> None:
        """Compare the book with the witness, and tell the witness a last event that it missed."""
        if book.witnessed not in ("", self._name):
            raise IncompatibleState("the witness knows this ledger by another name: pass name=")
        last = witness.last(self._name)
        if last == Witness(book.position, book.digest):
            return
        if last is None and not (opening and (book.position == 0 or not book.witnessed)):
            raise IncompatibleState(
                f"the witness has never seen this ledger, which is at position {book.position}: pass the "
                "witness that it was opened with; if that one has lost its data, find out why first"
            )
        if last is None or last == Witness(book.position - 1, book.previous):
            self._tell(book, witness)
            return
        raise ForkedState(
            f"the witness has seen this ledger at position {last.position}, the file is at position "
            f"{book.position} or has another digest: it was restored or altered, or another copy has "
            "continued; use the newest file"
        )

    def _tell(self, book: "_Book", witness: AppendOnlyWitness) -> None:
        witness.advance(self._name, position=book.position, digest=book.digest)

    def _create(self) -> None:
        """Create a complete new ledger at the path, unless there is a file already.

        It is built under another name and hard-linked into place, which never replaces another process's
        file. So a ledger file is never empty, and an empty file is a damaged one.
        """
        path = self._path
        if path.exists():
            return
        if not path.parent.is_dir():
            raise StateError("the ledger's folder does not exist: create it first")
        if self._witness is not None and self._witness.last(self._name) is not None:
            raise ForkedState(
                "the witness knows a ledger of this name, and there is no file: restore the newest one, or "
                "give a new ledger another name="
            )
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
        write_durably(temporary, b"", exclusive=True)  # with mode 0600, which SQLite keeps
        try:
            with _connected(temporary, self._timeout) as connection:
                connection.execute("BEGIN IMMEDIATE")
                for statement in _TABLES:
                    connection.execute(statement)
                connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
                _write_book(connection, _Book.new())
                connection.execute("COMMIT")
            with suppress(FileExistsError):
                path.hardlink_to(temporary)
        finally:
            temporary.unlink()
        sync_directory(path.parent)


@contextmanager
def _connected(path: Path, timeout: float) -> Iterator[sqlite3.Connection]:
    """Open a new connection in autocommit mode. SQLite's errors become errors of this library."""
    # mode=rw: a deleted ledger must be an error and not a fresh budget.
    address = f"{path.as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=timeout, isolation_level=None)) as connection:
            # EXTRA also syncs the removal of the rollback journal, which is the commit.
            connection.execute("PRAGMA synchronous = EXTRA")
            yield connection
    except sqlite3.OperationalError as error:
        raise StateError(
            f"the ledger could not be used ({_reason(error)}): repeat the call, which is safe, "
            "or look at the file's permissions, disk and other users"
        ) from None
    except sqlite3.DatabaseError as error:
        raise CorruptState(
            f"the ledger is not an SQLite database, or is damaged ({_reason(error)}): restore a backup"
        ) from None
    except UnicodeDecodeError:  # in a name, or in SQLite's message about it, after a flipped bit
        raise CorruptState("the ledger has text that is not UTF-8: restore it from a backup") from None


def _reason(error: sqlite3.Error) -> str:
    """Return the name of SQLite's error code, because the error's message could quote data."""
    return getattr(error, "sqlite_errorname", None) or type(error).__name__


# -- the book ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Book:
    """The book: counts and sums of all rows, and the ledger's position.

    Fields are in the order of the table's columns.

    `kept` is the sum over accounts and lineages, which are few; `charges` is the sum over charges. `digest`
    is computed from all fields and from the digest before. The salt hides the fields from readers of
    digests.
    """

    salt: str
    witnessed: str = ""
    position: int = 0
    previous: str = ""
    digest: str = ""
    n_kept: int = 0
    kept: int = 0
    n_charges: int = 0
    charges: int = 0

    @classmethod
    def new(cls) -> "_Book":
        return cls(secrets.token_hex(32))._with_digest()

    def moved(self, kept: int, n_kept: int, charges: int, n_charges: int) -> "_Book":
        """Return the book after one more event, which changed the sums and counts by these amounts."""
        return replace(
            self,
            position=self.position + 1,
            previous=self.digest,
            n_kept=self.n_kept + n_kept,
            kept=(self.kept + kept) % _MODULUS,
            n_charges=self.n_charges + n_charges,
            charges=(self.charges + charges) % _MODULUS,
        )._with_digest()

    def _with_digest(self) -> "_Book":
        sums = (self.previous, self.position, self.n_kept, self.kept, self.n_charges, self.charges)
        key = bytes.fromhex(self.salt)
        return replace(self, digest=hashlib.blake2b(repr(sums).encode(), key=key, digest_size=32).hexdigest())

    def hashed(self, table: str, row: tuple[object, ...]) -> int:
        """Return the hash of a row, which is the number that the row adds to a sum."""
        text = repr((self.salt, table, row)).encode(errors="surrogatepass")
        return int.from_bytes(hashlib.shake_128(text).digest(_HASH_BYTES), "big")

    def checked(self) -> "_Book":
        """Return the book unchanged. Raise CorruptState if its digest does not fit its fields."""
        if self._with_digest() != self:
            raise _damaged()
        return self


def _book(connection: sqlite3.Connection) -> _Book:
    row = connection.execute("SELECT * FROM book").fetchone()
    if row is None:
        raise _damaged()
    try:
        _, *values = _unsealed(row)
        values[6], values[8] = int(values[6], 16), int(values[8], 16)  # kept and charges
        return _Book(*values).checked()
    except (ValueError, TypeError):
        raise _damaged() from None


def _write_book(connection: sqlite3.Connection, book: _Book) -> None:
    *fields, kept, n_charges, charges = astuple(book)
    row = (1, *fields, f"{kept:x}", n_charges, f"{charges:x}")
    connection.execute(f"INSERT OR REPLACE INTO book VALUES ({_marks(row)})", (*row, _seal(row)))  # noqa: S608


class _Entries:
    """Rows of the ledger in one transaction, and the changes that it makes to the book's sums."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.book = _book(connection)
        self._kept = self._n_kept = self._charges = self._n_charges = 0
        self._changed = False

    def account(self, name: str) -> Balance | None:
        row = self._row("accounts", "name = ?", name)
        return None if row is None else _balance(row)

    def charge(self, account: str, charge_id: str) -> Charge | None:
        row = self._row("charges", "account = ? AND charge_id = ?", account, charge_id)
        return None if row is None else _charge(row)

    def lineage(self, lineage: str) -> Witness | None:
        row = self._row("lineages", "lineage = ?", lineage)
        if row is None:
            return None
        _, position, digest = row
        if not isinstance(position, int) or not isinstance(digest, str):
            raise CorruptState("the ledger has a malformed lineage: restore it from a backup")
        return Witness(position, digest)

    def put_account(self, name: str, balance: Balance) -> None:
        spent, before = balance.spent, " ".join(map(str, balance.before.amounts))
        row = (name, balance.terms.to_json(), balance.accountant, before)
        self._keep("accounts", "name = ?", (*row, *map(str, spent.amounts), int(spent.simulated)))

    def put_lineage(self, lineage: str, witness: Witness) -> None:
        self._keep("lineages", "lineage = ?", (lineage, *witness))

    def put_charge(self, account: str, charge_id: str, charge: Charge) -> None:
        row = (account, charge_id, *map(str, charge.amounts), int(charge.simulated))
        self._insert("charges", row, verb="INSERT")
        self._charges += self.book.hashed("charges", row)
        self._n_charges += 1

    def close(self) -> None:
        """Write the book after this transaction, if it changed any row."""
        if self._changed:
            self.book = self.book.moved(self._kept, self._n_kept, self._charges, self._n_charges)
            _write_book(self.connection, self.book)

    def _row(self, table: str, where: str, *keys: str) -> tuple[Any, ...] | None:
        row = self.connection.execute(f"SELECT * FROM {table} WHERE {where}", keys).fetchone()  # noqa: S608
        return None if row is None else _unsealed(row)

    def _keep(self, table: str, where: str, row: tuple[Any, ...]) -> None:
        before = self._row(table, where, row[0])
        if before is None:
            self._n_kept += 1
        else:
            self._kept -= self.book.hashed(table, before)
        self._kept += self.book.hashed(table, row)
        self._insert(table, row, verb="INSERT OR REPLACE")

    def _insert(self, table: str, row: tuple[Any, ...], *, verb: str) -> None:
        sealed = (*row, _seal(row))
        self.connection.execute(f"{verb} INTO {table} VALUES ({_marks(row)})", sealed)
        self._changed = True


# -- rows -------------------------------------------------------------------------------------------


def _balance(row: tuple[Any, ...]) -> Balance:
    _, terms, accountant, before, *spent, simulated = row
    try:
        return Balance(
            Terms.from_json(terms),
            Charge.of(map(_decimal, spent), simulated=bool(simulated)),
            accountant,
            Charge.of(map(_decimal, before.split(" "))),
        )
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError):
        raise CorruptState("the ledger has a malformed account: restore it from a backup") from None


def _charge(row: tuple[Any, ...]) -> Charge:
    _, _, *amounts, simulated = row
    return Charge.of(map(_decimal, amounts), simulated=bool(simulated))


def _marks(row: tuple[Any, ...]) -> str:
    return ", ".join("?" * (len(row) + 1))


def _seal(row: tuple[object, ...]) -> str:
    """Return the checksum of a row's values, which detects errors of the disk, not attacks."""
    return hashlib.blake2b(repr(row).encode(errors="surrogatepass"), digest_size=8).hexdigest()


def _unsealed(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a row's values without its checksum. Raise CorruptState if the checksum does not fit."""
    *values, seal = row
    if seal != _seal(tuple(values)):
        raise CorruptState("a row of the ledger was changed: restore it from a backup")
    return tuple(values)


def _decimal(text: object) -> Decimal:
    try:
        value = Decimal(text) if isinstance(text, str) else None
    except InvalidOperation:
        value = None
    if value == UNKNOWN:
        return UNKNOWN
    if value is None or not value.is_finite() or value < 0 or abs(value.adjusted()) > _LARGEST_TOTAL:
        raise CorruptState("the ledger has a malformed amount: restore it from a backup")
    return value


def _damaged() -> CorruptState:
    return CorruptState("the ledger is damaged and charges may be lost: restore it from a backup")


# -- soundness --------------------------------------------------------------------------------------


def _check_sound(connection: sqlite3.Connection, path: Path) -> None:
    """Raise an error for another program's database, or for damage that could hide spent budget."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
    (page_size,) = connection.execute("PRAGMA page_size").fetchone()
    if n_pages == 0:
        raise _damaged()
    if application != APPLICATION_ID:
        raise IncompatibleState("the file is another program's database, not a ledger")
    if version != SCHEMA_VERSION:
        raise IncompatibleState(
            f"the ledger has version {version}, this release uses version {SCHEMA_VERSION}"
        )
    # SQLite reads missing bytes of the last page as zeros.
    if n_pages * page_size != path.stat().st_size:
        raise _damaged()
    book = _book(connection)
    (n_charges,) = connection.execute("SELECT COUNT(*) FROM charges").fetchone()
    if n_charges != book.n_charges:
        raise _damaged()
    if n_charges <= READ_WHOLE:
        _check_whole(connection, book)
    else:
        _check_kept(connection, book)


def _check_kept(connection: sqlite3.Connection, book: _Book) -> dict[str, Balance]:
    """Compare accounts and lineages with the book's sum `kept`; return the accounts' balances."""
    accounts, lineages = (
        [_unsealed(row) for row in connection.execute(f"SELECT * FROM {table}")]  # noqa: S608
        for table in ("accounts", "lineages")
    )
    kept = sum(book.hashed("accounts", row) for row in accounts)
    kept += sum(book.hashed("lineages", row) for row in lineages)
    balances = {row[0]: _balance(row) for row in accounts}
    if (len(accounts) + len(lineages), kept % _MODULUS) != (book.n_kept, book.kept):
        raise _damaged()
    return balances


def _check_whole(connection: sqlite3.Connection, book: _Book) -> None:
    """Compare every row with the book, and the spent budget of each account with its charges."""
    if connection.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
        raise _damaged()
    balances = _check_kept(connection, book)
    totals = dict.fromkeys(balances, Charge())
    n_charges = charges = 0
    for row in map(_unsealed, connection.execute("SELECT * FROM charges")):
        charges += book.hashed("charges", row)
        n_charges += 1
        if row[0] not in totals:  # a charge to a missing account
            raise _damaged()
        totals[row[0]] = totals[row[0]].plus(_charge(row))
    if (n_charges, charges % _MODULUS) != (book.n_charges, book.charges):
        raise _damaged()
    if any(balance.spent != totals[name] for name, balance in balances.items()):
        raise _damaged()
