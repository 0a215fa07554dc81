"""Budget and durability of an object that is no ask/tell policy: charge first, commit, then let it leave."""

import uuid
from collections.abc import Callable
from os import PathLike

from dpbandits.errors import InvalidParameter
from dpbandits.state import State, StateStore
from dpbandits.state.ledger import Ledger

__all__ = ["Durable"]


class Durable:
    """One object's lineage: its account, where it is kept, and how far it has gone.

    Args:
        describe: (lineage, position) -> the object's whole state now.
        ledger, account: where every spending is charged, and the witness of saved copies.
        lineage, position, store: of a state that is taken up again.
    """

    def __init__(
        self,
        describe: Callable[[str, int], State],
        *,
        ledger: Ledger | None = None,
        account: str | None = None,
        lineage: str | None = None,
        position: int = 0,
        store: StateStore | None = None,
    ) -> None:
        if ledger is None and account is not None:
            raise InvalidParameter("account: names an account of `ledger`; pass both")
        self._describe = describe
        self._ledger = ledger
        self._account = account
        self._store = store
        self._uncommitted: State | None = None
        self.lineage = uuid.uuid4().hex if lineage is None else lineage
        self.position = position

    @property
    def witnessed(self) -> bool:
        """Whether a ledger refuses a second copy of a saved state."""
        return self._ledger is not None

    def charge(self, purpose: str, *, epsilon: float, delta: float = 0.0) -> None:
        """Spend from the account; the same purpose is charged once, also after a crash."""
        if self._ledger is not None and self._account is not None:
            charge_id = f"{self.lineage}:{purpose}"
            self._ledger.charge(self._account, charge_id=charge_id, epsilon=epsilon, delta=delta)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to `path`, and keep it current there at every spending from now on."""
        self._store = StateStore(path, ledger=self._ledger)
        self.commit()

    def commit(self) -> None:
        """Make the present state durable, if a path is known.

        A state that an earlier attempt failed to write goes first, unchanged, as the ledger may have
        witnessed it; it may be older than the present one, which is written in any case.
        """
        if self._store is None:
            return
        if self._uncommitted is not None:
            self._write(self._store, self._uncommitted)
        self._write(self._store, self._describe(self.lineage, self.position + 1))

    def _write(self, store: StateStore, state: State) -> None:
        self._uncommitted = state
        store.commit(state)
        self.position = state.position
        self._uncommitted = None
