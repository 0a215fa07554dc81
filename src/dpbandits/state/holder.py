"""Budget and durability of an object that is no ask/tell policy: charge first, commit, then let it leave."""

import os
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import update_wrapper
from os import PathLike
from typing import Concatenate, NoReturn, ParamSpec, Protocol, TypeVar

from dpbandits.errors import ForkedState, InvalidParameter, ProtocolError, StateError
from dpbandits.state import State, StateKey, StateStore
from dpbandits.state.ledger import Ledger

__all__ = ["Durable", "in_turn"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


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
        self._forked = False
        self.lineage = uuid.uuid4().hex if lineage is None else lineage
        self.position = position
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "this object cannot be copied or pickled: two copies would release twice, and its memory holds "
            "raw data. Use save and load to move it, to_config and from_config to build another"
        )

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One thread at a time, and only in the process that built or loaded the object."""
        if os.getpid() != self._process:
            raise ForkedState(
                "this process was forked from the one that holds the object: build or load it after the "
                "fork, in one process"
            )
        with self._lock:
            yield

    @property
    def witnessed(self) -> bool:
        """Whether a ledger refuses a second copy of a saved state."""
        return self._ledger is not None

    @property
    def charged(self) -> bool:
        """Whether a ledger's account pays."""
        return self._ledger is not None and self._account is not None

    def charge(self, purpose: str, *, epsilon: float, delta: float = 0.0) -> None:
        """Spend from the account; the same purpose is charged once, also after a crash."""
        if self._ledger is not None and self._account is not None:
            charge_id = f"{self.lineage}:{purpose}"
            self._ledger.charge(self._account, charge_id=charge_id, epsilon=epsilon, delta=delta)

    def save(self, path: str | PathLike[str], key: StateKey | None = None) -> None:
        """Write the state to `path`, and keep it current there at every spending from now on."""
        before = self._store
        self._store = StateStore(path, ledger=self._ledger, key=key)
        try:
            self.commit()
        except (StateError, OSError):
            self._store = before  # where the object was kept so far it still is
            raise

    def commit(self) -> None:
        """Make the present state durable, if a path is known.

        A state that an earlier attempt failed to write goes first, unchanged, as the ledger may have
        witnessed it; it may be older than the present one, which is written in any case.
        """
        if self._store is None:
            return
        if self._forked:
            raise ForkedState(
                "another copy of this object has gone on: load the state where that copy keeps it"
            )
        if self._uncommitted is not None:
            self._write(self._store, self._uncommitted)
        present = self._describe(self.lineage, self.position + 1)
        # What was drawn is not always part of a state (an answer is not). Two copies that draw under one
        # number must differ all the same, or the second would pass for a repetition of the first.
        mark = {"commit": secrets.token_hex(16)}
        self._write(self._store, replace(present, secret={**present.secret, **mark}))

    def _write(self, store: StateStore, state: State) -> None:
        self._uncommitted = state
        try:
            store.commit(state)
        except ForkedState:
            self._forked = True
            raise
        self.position = state.position
        self._uncommitted = None


class _Held(Protocol):
    _durable: Durable


_H = TypeVar("_H", bound=_Held)


def in_turn(method: Callable[Concatenate[_H, _P], _R]) -> Callable[Concatenate[_H, _P], _R]:
    """Method decorator: whatever learns, draws or saves does so one call at a time, in one process."""

    def guarded(self: _H, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        with self._durable.turn():
            return method(self, *arguments, **options)

    update_wrapper(guarded, method)
    return guarded
