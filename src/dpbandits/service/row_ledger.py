"""`RowLedger`: the ledger of a service, in the tables of its store.

What is put is written in one piece when the event ends: in the write transaction that the thread has open, or
in one of its own. Each row is compared as it is set, so an event that rests on what another one has changed
meanwhile changes nothing, whatever locks it had: a lineage goes on from the very position and digest that
were read, an account from the very sums.

Rows have no seals, as those of `dpbandits.budget.SQLiteLedger` have: the store keeps them whole, PostgreSQL
with checksums where it has them, and SQLite without. A state that was changed does not fit its lineage's
digest, and is refused.

The witness
-----------
Every transaction that changes a row of the ledger adds one to `book`, as its last statement: the next
position, and a word that is drawn anew and says nothing. `witness=` names somebody outside of the database
who remembers how far the book has gone (`dpbandits.state.witness`). `settle` holds the two against each other
and tells the witness what it has not heard:

| book | witness | what happened | what follows |
|---|---|---|---|
| has its position and word, and no more | n | nothing | go on |
| has them, and k more | n | others have gone on, or died before telling | the k are told now, in order |
| has not, or another word there | n | an older copy of the database, or another one | `ForkedState` |
| any | nothing | it lost its memory, or is new | told now where none ever was; else refused |
| was told more than it says | n | it is a copy, or was put back itself | `ForkedState` |

All workers ask one witness. The fact `witnessed` is how far the database knows that it was told: each event
notes what was told before it, and a worker that begins adds a row, tells it and notes that. So a witness that
lacks anything of it is not the one: a copy that has fallen behind is refused, and the others are as soon as a
worker begins with a copy. What was noted is forgotten with the rest when the database is put back. A copy
that lacks what the newest witness knows takes such a database for the newest, so copies are not supported.

Before anything is charged, before a state is taken up, and before a release decides for anybody or is shown,
a worker settles. So nothing has left by a release that the witness does not know, and no release is drawn on
a database that is behind the witness that it asks. What was committed and not told has decided for nobody.
"""

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
"""Name of the book at the witness."""

_TURNS = 20
"""Times to look again where other workers tell the witness meanwhile."""


class RowLedger(Ledger):
    """The ledger; see the module. All workers have one `witness`."""

    def __init__(self, store: Store, *, witness: AppendOnlyWitness | None = None) -> None:
        self._store, self._witness = store, witness

    def begin(self) -> None:
        """Hold the database against the witness for the first time; every worker begins with it.

        Raises:
            ForkedState: the witness knows more than the database, another one, or less than it was told.
            IncompatibleState: the database had a witness, and this is none, or knows nothing.
            StateError: the witness did not answer.
        """
        with self._store.reading() as reads:
            witnessed = reads.one("SELECT value FROM facts WHERE name = 'witnessed'") is not None
        if self._witness is None:
            if witnessed:
                raise IncompatibleState(
                    "the database has a witness, which notices when it is put back to an older copy: name it "
                    "(witness = ... of service.toml) for every worker"
                )
            return
        self.settle(first=not witnessed)
        with self._store.writing() as writes:
            _enter(writes)  # whoever has another witness lacks this, and is refused
        told = self.settle(first=not witnessed)
        with self._store.writing() as writes:
            writes.locked("SELECT value FROM facts WHERE name = 'version'")
            writes.run("INSERT INTO facts VALUES ('witnessed', '') ON CONFLICT (name) DO NOTHING")
            _note(writes, told)

    def check(self) -> bool:
        """Hold a database that is only read against its witness; whether both have met. Raises as `begin`."""
        with self._store.reading() as reads:
            witnessed = reads.one("SELECT value FROM facts WHERE name = 'witnessed'") is not None
        return witnessed and self.settle() >= 0

    def settle(self, *, first: bool = False) -> int:
        """Return the position that the witness knows, or -1 if there is none; see the module.

        `first`: no witness ever knew this database, and this one begins where the book is. Raises as `begin`.
        """
        if self._witness is None:
            return -1
        told = -1  # by what the database said before the witness was asked
        for _ in range(_TURNS):
            last = self._witness.last(_NAME)  # first: the book is no older than what is read of it then
            if last is None and not first:
                raise IncompatibleState(
                    "the witness has never seen this database: pass the one that has; if that one has lost "
                    "its memory, find out why before anything else"
                )
            reached = -1 if last is None else last.position
            if reached < told:
                raise ForkedState(
                    "the witness lacks what the database's witness was told: it is a copy, or was put back; "
                    "give all workers the same one, which has seen the most"
                )
            missed, told = self._missed(last)
            if reached < told:
                continue  # another worker told it since it was asked
            with suppress(ForkedState):  # another worker told it meanwhile
                for witness in missed:
                    self._witness.advance(_NAME, position=witness.position, digest=witness.digest)
                return missed[-1].position if missed else reached
        raise TryAgain("other workers have been telling the witness for too long")

    def _missed(self, last: Witness | None) -> tuple[list[Witness], int]:
        """Return what the book has beyond `last`, or its last row; and how far at least the witness knows."""
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
                f"the witness has seen this database at position {last.position}, and the database has not "
                "been there: it was put back to an older copy, or is another one; nothing is released or "
                "charged here, go on with the newest one. A new database needs an empty witness"
            )
        return found[1:], told

    def _tell(self) -> None:
        """Tell the witness of what was committed; where it cannot be told, who needs it told is refused."""
        with suppress(StateError):
            self.settle()

    def go_on(self, lineage: str, before: Witness, after: Witness) -> None:
        """Witness that a state has gone from one position to a later one, in one step.

        Raises:
            ForkedState: it is not at `before`; nothing may be kept.
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
    """Rows as an event finds them, and what is to be put."""

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
        """Write what was put, each row over the one that was found; whether there was anything.

        Raises:
            ForkedState: a lineage has gone on meanwhile; nothing may be kept.
            TryAgain: an account has.
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
    """Add the next row to the book, and note what was told; whoever else wants to waits until the commit."""
    writes.locked("SELECT value FROM facts WHERE name = 'version'")
    row = writes.one("SELECT MAX(position) FROM book")
    position = 0 if row is None or row[0] is None else int(row[0]) + 1
    writes.run("INSERT INTO book VALUES (?, ?)", position, secrets.token_hex(32))
    _note(writes, told)


def _noted(reads: Reads) -> int:
    """How far the witness was told, at least."""
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
