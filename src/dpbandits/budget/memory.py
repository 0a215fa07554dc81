"""`MemoryLedger`: a ledger in the memory of one process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple, NoReturn

from dpbandits.budget.accounts import Balance, Charge
from dpbandits.budget.ledger import Entries, Ledger
from dpbandits.errors import ProtocolError
from dpbandits.state.witness import Witness

__all__ = ["MemoryLedger"]


class MemoryLedger(Ledger):
    """A ledger in the memory of one process, for tests, notebooks and simulations.

    Example:
        >>> from dpbandits.privacy.definitions import JointDP
        >>> ledger = MemoryLedger()
        >>> account = ledger.open_account("study", privacy=JointDP(0.3))
        >>> for charge in "abc":
        ...     balance = ledger.charge("study", charge_id=charge, cost=JointDP(0.1))
        >>> balance.remaining_epsilon
        Decimal('0.0')
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries = _InMemory({}, {}, {})

    @contextmanager
    def _event(self) -> Iterator[Entries]:
        with self._lock:
            yield self._entries

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "a MemoryLedger cannot be copied or pickled: two copies would each spend the whole budget. Share "
            "the object, or use a SQLiteLedger, which processes share by its file"
        )


class _InMemory(NamedTuple):
    accounts: dict[str, Balance]
    charges: dict[tuple[str, str], Charge]
    witnesses: dict[str, Witness]

    def account(self, name: str) -> Balance | None:
        return self.accounts.get(name)

    def charge(self, account: str, charge_id: str) -> Charge | None:
        return self.charges.get((account, charge_id))

    def lineage(self, lineage: str) -> Witness | None:
        return self.witnesses.get(lineage)

    def put_account(self, name: str, balance: Balance) -> None:
        self.accounts[name] = balance

    def put_charge(self, account: str, charge_id: str, charge: Charge) -> None:
        self.charges[account, charge_id] = charge

    def put_lineage(self, lineage: str, witness: Witness) -> None:
        self.witnesses[lineage] = witness
