"""`RowLedger`: the ledger of a service whose store several processes share, in the store's own tables.

What is put is written in one piece when the event ends: in the write transaction that the thread has open, or
in one of its own. Each row is compared as it is set, so an event that rests on what another one has changed
meanwhile changes nothing, whatever locks it had: a lineage goes on from the very position and digest that
were read, an account from the very sums.

The database keeps its rows whole, with its own checksums where it has them; `SQLiteLedger` has seals of its
own, and a witness elsewhere, which this one has not: a database that is put back to an older copy is not
noticed.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

from dpbandits._reading import reading
from dpbandits.errors import CorruptState, ForkedState
from dpbandits.service.store import Reads, Store, TryAgain, Writes
from dpbandits.state.ledger import Balance, Charge, Contents, Entries, Ledger, Terms, Witness

__all__ = ["RowLedger"]


class RowLedger(Ledger):
    """The ledger; see the module.

    Args:
        store: has the tables `accounts`, `charges` and `lineages`.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def contents(self) -> Contents:
        """All rows."""
        with self._reading() as entries:
            return entries.everything()

    @contextmanager
    def _event(self) -> Iterator[Entries]:
        if (current := self._store.current) is not None:
            rows = _Rows(current)
            yield rows
            rows.put(current)
            return
        with self._store.writing() as writes:
            rows = _Rows(writes)
            yield rows
            rows.put(writes)

    @contextmanager
    def _reading(self) -> Iterator["_Rows"]:
        if (current := self._store.current) is not None:
            yield _Rows(current)
        else:
            with self._store.reading() as reads:
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

    def everything(self) -> Contents:
        """All rows."""
        rows = self._reads.rows
        return Contents(
            {
                row[0]: _balance(*row[1:])
                for row in rows("SELECT name, terms, spent, simulated FROM accounts")
            },
            {
                (row[0], row[1]): _charge(*row[2:])
                for row in rows("SELECT account, charge_id, spent, simulated FROM charges")
            },
            {row[0]: Witness(*row[1:]) for row in rows("SELECT lineage, position, digest FROM lineages")},
        )

    def _row(self, kind: str, name: str, query: str) -> tuple[Any, ...] | None:
        if isinstance(self._reads, Writes):
            rows = self._reads.locked(query, name)
        else:
            rows = self._reads.rows(query, name)
        self._found[kind, name] = found = rows[0] if rows else None
        return found

    def put(self, writes: Writes) -> None:
        """Write what was put, each row over the one that was found.

        Raises:
            ForkedState: a lineage has gone on meanwhile; nothing may be kept.
            TryAgain: an account has.
        """
        for name, balance in self._accounts.items():
            found, spent = self._found.get(("account", name)), balance.spent
            row = _amounts(spent), int(spent.simulated)
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
            writes.run(
                "INSERT INTO charges VALUES (?, ?, ?, ?)",
                account,
                charge_id,
                _amounts(charge),
                int(charge.simulated),
            )
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


def _amounts(charge: Charge) -> str:
    return json.dumps([str(amount) for amount in charge.amounts])


def _balance(terms: str, amounts: str, simulated: int) -> Balance:
    with reading("an account of the ledger", CorruptState):
        return Balance.of(Terms.from_json(terms), _charge(amounts, simulated))


def _charge(amounts: str, simulated: int) -> Charge:
    with reading("an amount of the ledger", CorruptState):
        return Charge.of(map(Decimal, json.loads(amounts)), simulated=bool(simulated))
