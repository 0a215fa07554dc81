"""`Holder`: what everything with a state does the same way: one process, one thread, one lineage, one charge.

Policies, explore-then-commit and its phases, a device's client, the local server and the curator each own a
`Holder`, and ask it

- for a **turn** before whatever learns, draws, answers or saves: one thread at a time, never in a fork;
- to **charge** the ledger's account before anything is drawn, under an id that a retry repeats;
- to **commit** the whole state before anything computed from it leaves, and to keep the saved copy current.

A class that owns one inherits from `Held`, which refuses copies, and marks its methods with `in_turn`.
"""

import os
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import update_wrapper
from os import PathLike
from typing import ClassVar, Concatenate, NamedTuple, NoReturn, ParamSpec, TypeVar

from dpbandits.errors import ForkedState, InvalidParameter, ProtocolError, StateError
from dpbandits.state.container import State
from dpbandits.state.ledger import Amount, Ledger
from dpbandits.state.migration import Migrations, migrated
from dpbandits.state.sealing import StateKey
from dpbandits.state.store import StateStore

__all__ = ["Held", "Holder", "Saved", "in_turn", "saved_state"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Saved(NamedTuple):
    """A state that was read, where it is kept, and its witness."""

    state: State
    store: StateStore
    ledger: Ledger | None


def saved_state(
    path: str | PathLike[str],
    *,
    kind: str,
    version: int,
    steps: Migrations | None = None,
    ledger: Ledger | None = None,
    key: StateKey | None = None,
    adopt: bool = False,
) -> Saved:
    """The last committed state at `path`, in the present layout; see `StateStore.load` and `migrated`.

    Raises:
        FileNotFoundError: nothing was ever saved there.
        ForkedState: the ledger has seen this lineage go further than this copy.
        CorruptState, IncompatibleState: the file is torn, or another object's or version's.
    """
    store = StateStore(path, ledger=ledger, key=key)
    state = migrated(store.load(adopt=adopt), kind=kind, version=version, steps=steps)
    return Saved(state, store, ledger)


class Holder:
    """One object's lineage: its account, where it is kept, and how far it has gone.

    Args:
        describe: (lineage, position) -> the object's whole state now; None where nothing is saved.
        what: how messages call the object.
        ledger, account: where every spending is charged, and the witness of saved copies; both or neither.
        lineage: of an object that has one already; a fresh one by default.
        nested: why a turn inside a turn is refused; None where it is allowed.
    """

    def __init__(
        self,
        describe: Callable[[str, int], State] | None = None,
        *,
        what: str = "policy",
        ledger: Ledger | None = None,
        account: str | None = None,
        lineage: str | None = None,
        nested: str | None = None,
    ) -> None:
        if (ledger is None) != (account is None):
            raise InvalidParameter(
                "ledger, account: pass both or neither: the account pays, and it is the ledger's"
            )
        self._describe, self._what, self._nested = describe, what, nested
        self._ledger, self._account = ledger, account
        self._store: StateStore | None = None
        self._uncommitted: tuple[StateStore, State] | None = None
        self._forked = False
        self.lineage = uuid.uuid4().hex if lineage is None else lineage
        self.position = 0
        self._lock = threading.RLock()
        self._thread: int | None = None
        self._process = os.getpid()

    def take_up(self, saved: Saved, *, account: str | None = None) -> None:
        """Go on where a saved state stands, keep it current there, and let its ledger witness.

        Args:
            saved: from `saved_state`.
            account: pays for what is yet to be charged; None where nothing is.
        """
        if account is not None and saved.ledger is None:
            raise InvalidParameter("account: names an account of `ledger`; pass both")
        self.lineage, self.position = saved.state.lineage, saved.state.position
        self._store, self._ledger, self._account = saved.store, saved.ledger, account

    def __repr__(self) -> str:
        return f"Holder(lineage={self.lineage[:8]!r})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a Holder cannot be copied or pickled: it stands for one object")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One thread at a time, and only in the process that built or loaded the object.

        The process is asked first: in a forked child a thread that is not there may hold the lock.

        Raises:
            ForkedState: this process was forked from the one that holds the object.
            ProtocolError: this thread is having its turn already, and nested turns are refused.
        """
        if os.getpid() != self._process:
            raise ForkedState(
                f"this process was forked from the one that holds the {self._what}: build, open or load it "
                "after the fork, in one process"
            )
        if self._nested is not None and self._thread == threading.get_ident():
            raise ProtocolError(self._nested)
        with self._lock:
            before, self._thread = self._thread, threading.get_ident()
            try:
                yield
            finally:
                self._thread = before

    @property
    def ledger(self) -> Ledger | None:
        """The witness, for what is witnessed beside the state."""
        return self._ledger

    @property
    def witnessed(self) -> bool:
        """Whether a ledger refuses a second copy of a saved state."""
        return self._ledger is not None

    @property
    def charged(self) -> bool:
        """Whether a ledger's account pays."""
        return self._account is not None

    def charge(self, purpose: str | None = None, *, epsilon: Amount, delta: Amount = 0.0) -> None:
        """Spend from the account; the same purpose is charged once, also after a crash."""
        if self._ledger is not None and self._account is not None:
            charge_id = self.lineage if purpose is None else f"{self.lineage}:{purpose}"
            self._ledger.charge(self._account, charge_id=charge_id, epsilon=epsilon, delta=delta)

    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the state to `path`, and keep it current there at every commit from now on.

        After a failure the object is kept where it was kept before. If that is nowhere, nothing more leaves
        until a save succeeds: the state that could not be written may have been witnessed.
        """
        before = self._store
        self._store = StateStore(path, ledger=self._ledger, key=key)
        try:
            self.commit()
        except (StateError, OSError):
            self._store = self._store if before is None else before
            raise

    def commit(self) -> None:
        """Make the present state durable, if a path is known; called before anything drawn is used.

        A state that an earlier attempt failed to write goes first, unchanged, as the ledger may have
        witnessed it; it may be older than the present one, which is written in any case. Sealed with another
        key it would be another file, so then it goes where it was to go.

        Raises:
            ForkedState: another copy has gone on; nothing of this one leaves any more.
            StateError, OSError: nothing was saved; commit again.
        """
        if self._store is None or self._describe is None:
            return
        if self._forked:
            raise ForkedState(
                f"another copy of this {self._what} has gone on: load the state where that copy keeps it"
            )
        if self._uncommitted is not None:
            store, state = self._uncommitted
            self._write(self._store if self._store.seals_like(store) else store, state)
        present = self._describe(self.lineage, self.position + 1)
        # What was drawn is not always part of a state (an answer is not). Two copies that draw under one
        # number must differ all the same, or the second would pass for a repetition of the first.
        mark = {"commit": secrets.token_hex(16)}
        self._write(self._store, replace(present, secret={**present.secret, **mark}))

    def _write(self, store: StateStore, state: State) -> None:
        self._uncommitted = store, state
        try:
            store.commit(state)
        except ForkedState:
            self._forked = True
            raise
        self.position = state.position
        self._uncommitted = None


class Held:
    """Base of what has a `Holder`: it cannot be copied or pickled."""

    _holder: Holder
    _harm: ClassVar[str] = "two copies would release twice, and its memory holds raw data"
    """Why nothing is copied."""
    _moving: ClassVar[str] = "Use save and load to move it, to_config and from_config to build another"
    """What to do instead of copying."""

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            f"a {type(self).__name__} cannot be copied or pickled: {self._harm}. {self._moving}"
        )


_H = TypeVar("_H", bound=Held)


def in_turn(method: Callable[Concatenate[_H, _P], _R]) -> Callable[Concatenate[_H, _P], _R]:
    """Method decorator: whatever learns, draws or saves does so one call at a time, in one process."""

    def guarded(self: _H, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        with self._holder.turn():
            return method(self, *arguments, **options)

    update_wrapper(guarded, method)
    return guarded
