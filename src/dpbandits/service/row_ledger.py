"""`RowLedger`: the privacy ledger of a service, in the tables of its store.

An event is written at its end, in one transaction: the open write transaction of the thread, or its own. Each
update compares the old row. So an event based on rows that changed meanwhile changes nothing, even without
locks: a lineage continues from the position and digest that were read, an account from the sums.

Rows have no seals, unlike those of `dpbandits.budget.SQLiteLedger`: their integrity is up to the database.
A state that was altered does not fit its lineage's digest and is refused.

The witness
-----------
The witness detects a rollback of the database. Every transaction that changes a row of the ledger adds a row
to the table `book`, as its last statement: the next position and a random word. `witness=` is an external
counter outside of the database that remembers the latest row (`dpbandits.state.witness`). `settle` compares
the two and sends the witness the rows that it lacks:

| the book | the witness is at | meaning | result |
|---|---|---|---|
| ends with that position and word | n | both agree | go on |
| has k later rows | n | other workers went on, or died before they told | the k rows are sent, in order |
| lacks the position, or has another word there | n | an older copy of the database, or another one | `ForkedState` |
| is in any state | nothing | the witness is new, or has lost its memory | accepted if the database never had a witness, else refused |
| says that the witness knows more | n | the witness is a copy, or was rolled back itself | `ForkedState` |

All workers use one witness. The fact `witnessed` is the position that the witness is known to have. Each
event records the position known before it, and a worker that starts adds a row, sends it and records that. So
a copy of the witness that has fallen behind is refused. If a worker starts with a copy, the workers with the
original are refused from then on. A rollback of the database also rolls back `witnessed`: then a copy of the
witness that lacks the newest rows accepts the database. Therefore copies of the witness are not supported.

A worker settles before every charge, before it continues a state, and before a release decides or is shown.
So no release is visible that the witness does not know, and none is drawn on a database that is behind its
witness. A release that was committed and not told to the witness has decided for nobody.
"""  # noqa: E501 - a table

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from decimal import Decimal
from typing import Any

from dpbandits._reading import reading
from dpbandits.budget.accounts import Balance, Charge, Terms
from dpbandits.budget.ledger import Entries, Ledger
from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, StateError
from dpbandits.service.store import Reads, Store, TryAgain, Writes
from dpbandits.state.witness import AppendOnlyWitness, Witness

__all__ = ["RowLedger"]

_NAME = "database"
"""Name of the lineage under which the witness stores the position of the table `book`."""

_TURNS = 20
"""Largest number of attempts to update the witness while other workers change it."""


class RowLedger(Ledger):
    """Ledger of a service; see the module. All workers need the same `witness`."""

    def __init__(self, store: Store, *, witness: AppendOnlyWitness | None = None) -> None:
        self._store, self._witness = store, witness

    def begin(self) -> None:
        """Compare the database with the witness when a worker starts.

        Raises:
            ForkedState: the witness has seen a later state of the database, or another database, or has
                forgotten something.
            IncompatibleState: the database has a witness, and the given one is none or empty.
            StateError: the witness did not answer.
        """
        with self._store.reading() as reads:
            witnessed = reads.one("SELECT value FROM facts WHERE name = 'witnessed'") is not None
        if self._witness is None:
            if witnessed:
                raise IncompatibleState(
                    "the database has a witness, which detects a rollback to an older copy: name it "
                    "(witness = ... of service.toml) for every worker"
                )
            return
        self.settle(first=not witnessed)
        with self._store.writing() as writes:
            _enter(writes)  # another witness lacks this row and is refused
        told = self.settle(first=not witnessed)
        with self._store.writing() as writes:
            writes.locked("SELECT value FROM facts WHERE name = 'version'")
            writes.run("INSERT INTO facts VALUES ('witnessed', '') ON CONFLICT (name) DO NOTHING")
            _note(writes, told)

    def check(self) -> bool:
        """Compare a read-only database with its witness. Return True if the database has a witness.

        Errors are those of `begin`.
        """
        with self._store.reading() as reads:
            witnessed = reads.one("SELECT value FROM facts WHERE name = 'witnessed'") is not None
        return witnessed and self.settle() >= 0

    def settle(self, *, first: bool = False) -> int:
        """Compare book and witness, send missing rows, and return the position of the witness; -1 for none.

        With `first`, the database never had a witness: then this witness starts at the end of the book.
        Errors are those of `begin`.
        """
        if self._witness is None:
            return -1
        told = -1  # position of `witnessed` that was read before the witness was asked
        for _ in range(_TURNS):
            last = self._witness.last(_NAME)  # first, so that the book is read at a later time
            if last is None and not first:
                raise IncompatibleState(
                    "the witness has never seen this database: pass the one that has; if that one has lost "
                    "its memory, find out why before anything else"
                )
            reached = -1 if last is None else last.position
            if reached < told:
                raise ForkedState(
                    "the witness lacks what the database's witness was told: it is a copy, or was rolled "
                    "back; give all workers the same one, which has seen the most"
                )
            missed, told = self._missed(last)
            if reached < told:
                continue  # another worker has told the witness since
            with suppress(ForkedState):  # another worker has told the witness meanwhile
                for witness in missed:
                    self._witness.advance(_NAME, position=witness.position, digest=witness.digest)
                return missed[-1].position if missed else reached
        raise TryAgain("other workers have been telling the witness for too long")

    def _missed(self, last: Witness | None) -> tuple[list[Witness], int]:
        """Return the rows of the book after `last`, and the stored fact `witnessed`."""
        with self._store.seeing() as reads:
            told = _noted(reads)
            if last is None:
                rows = reads.rows("SELECT position, digest FROM book ORDER BY position DESC LIMIT 1")
                return [Witness(int(row[0]), str(row[1])) for row in rows], told
            rows = reads.rows(
                "SELECT position, digest FROM book WHERE position >= ? ORDER BY position", last.position
            )
        found = [Witness(int(row[0]), str(row[1])) for row in rows]
        if not found or found[0] != last:
            raise ForkedState(
                f"the witness has seen this database at position {last.position}, which the database lacks: "
                "it was rolled back to an older copy, or is another one. Nothing is released or charged "
                "here: serve the newest copy. A new database needs an empty witness"
            )
        return found[1:], told

    def _tell(self) -> None:
        """Tell the witness of committed rows.

        If this fails, a later `settle` raises before the rows are used.
        """
        with suppress(StateError):
            self.settle()

    def go_on(self, lineage: str, before: Witness, after: Witness) -> None:
        """Advance a lineage from the position `before` to the later position `after`.

        Raises:
            ForkedState: the lineage is not at `before`; roll back.
        """
        with self._event() as entries:
            if entries.lineage(lineage) != before:
                raise ForkedState("another process has gone on with this state")
            entries.put_lineage(lineage, after)

    @contextmanager
    def _event(self) -> Iterator[Entries]:
        current = self._store.current
        with self._store.writing() if current is None else nullcontext(current) as writes:
            told = self.settle()
            rows = _Rows(writes)
            yield rows
            if rows.put(writes):
                writes.when(last=lambda: _enter(writes, told), kept=self._tell)

    @contextmanager
    def _reading(self) -> Iterator["_Rows"]:
        with self._store.seeing() as reads:
            yield _Rows(reads)


class _Rows:
    def __init__(self, reads: Reads) -> None:
        self._reads = reads
        self._found: dict[tuple[str, str], tuple[Any, ...] | None] = {}
        self._accounts: dict[str, Balance] = {}
        self._charges: dict[tuple[str, str], Charge] = {}
        self._lineages: dict[str, Witness] = {}

    def account(self, name: str) -> Balance | None:
        row = self._row("account", name, "SELECT terms, spent, simulated FROM accounts WHERE name = ?")
        return None if row is None else _balance(*row)

    def charge(self, account: str, charge_id: str) -> Charge | None:
        row = self._reads.one(
            "SELECT spent, simulated FROM charges WHERE account = ? AND charge_id = ?", account, charge_id
        )
        return None if row is None else _charge(*row)

    def lineage(self, lineage: str) -> Witness | None:
        row = self._row("lineage", lineage, "SELECT position, digest FROM lineages WHERE lineage = ?")
        return None if row is None else Witness(int(row[0]), str(row[1]))

    def put_account(self, name: str, balance: Balance) -> None:
        self._accounts[name] = balance

    def put_charge(self, account: str, charge_id: str, charge: Charge) -> None:
        self._charges[account, charge_id] = charge

    def put_lineage(self, lineage: str, witness: Witness) -> None:
        self._lineages[lineage] = witness

    def _row(self, kind: str, name: str, query: str) -> tuple[Any, ...] | None:
        rows = self._reads.locked(query, name)
        self._found[kind, name] = found = rows[0] if rows else None
        return found

    def put(self, writes: Writes) -> bool:
        """Write the changes if the rows are still as they were read; return True if there was any change.

        Raises:
            ForkedState: a lineage was changed meanwhile; roll back.
            TryAgain: an account was changed meanwhile; roll back.
        """
        for name, balance in self._accounts.items():
            found, spent = self._found.get(("account", name)), balance.spent
            before = [str(amount) for amount in balance.before.amounts]
            row = json.dumps([_amounts(spent), balance.accountant, before]), int(spent.simulated)
            if found is None:
                writes.run("INSERT INTO accounts VALUES (?, ?, ?, ?)", name, balance.terms.to_json(), *row)
            elif not writes.run(
                "UPDATE accounts SET spent = ?, simulated = ? WHERE name = ? AND spent = ?",
                *row,
                name,
                found[1],
            ):
                raise TryAgain("another process has charged the account meanwhile")
        for (account, charge_id), charge in self._charges.items():
            booked = account, charge_id, _amounts(charge), int(charge.simulated)
            writes.run("INSERT INTO charges VALUES (?, ?, ?, ?)", *booked)
        for lineage, witness in self._lineages.items():
            found = self._found.get(("lineage", lineage))
            if found is None:
                writes.run("INSERT INTO lineages VALUES (?, ?, ?)", lineage, *witness)
            elif not writes.run(
                "UPDATE lineages SET position = ?, digest = ? "
                "WHERE lineage = ? AND position = ? AND digest = ?",
                *witness,
                lineage,
                *found,
            ):
                raise ForkedState("another process has gone on with this state")
        return bool(self._accounts or self._charges or self._lineages)


def _enter(writes: Writes, told: int = -1) -> None:
    """Add a row to the book under a lock until the commit, and record the position that the witness knows
    (`told`).
    """
    writes.locked("SELECT value FROM facts WHERE name = 'version'")
    row = writes.one("SELECT MAX(position) FROM book")
    position = 0 if row is None or row[0] is None else int(row[0]) + 1
    writes.run("INSERT INTO book VALUES (?, ?)", position, secrets.token_hex(32))
    _note(writes, told)


def _noted(reads: Reads) -> int:
    """Return the position that the witness is known to have; -1 for none."""
    row = reads.one("SELECT value FROM facts WHERE name = 'witnessed'")
    return int(row[0]) if row is not None and row[0] else -1


def _note(writes: Writes, told: int) -> None:
    if told > _noted(writes):
        writes.run("UPDATE facts SET value = ? WHERE name = 'witnessed'", str(told))


def _amounts(charge: Charge) -> str:
    return json.dumps([str(amount) for amount in charge.amounts])


def _balance(terms: str, sums: str, simulated: int) -> Balance:
    with reading("an account of the ledger", CorruptState):
        amounts, accountant, before = json.loads(sums)
        spent, decided_at = _charge(amounts, simulated), Charge.of(map(Decimal, before))
        return Balance(Terms.from_json(terms), spent, accountant, decided_at)


def _charge(amounts: str, simulated: int) -> Charge:
    with reading("an amount of the ledger", CorruptState):
        return Charge.of(map(Decimal, json.loads(amounts)), simulated=bool(simulated))
