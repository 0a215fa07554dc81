"""`Holder`: locking, charging, logging and saving, for every object with a durable state.

Policies, explore-then-commit and its phases, a device's client, the local server and the curator each have a
`Holder` with these operations:

- **turn**: a lock around every method that learns, draws, answers or saves. One thread at a time can hold
  it, and no forked process;
- **charge**: the ledger's account is charged before noise is drawn, under an id that is equal at every
  retry;
- **record**: every release is entered in an append-only log (`ReleaseLog`) before its noise is drawn;
- **commit**: the whole state is made durable before anything computed from it is returned;
- **note**: an object with a folder (`bind`) logs each event between commits before the event is answered.

The state includes a `promise`: the account that is charged, whether a ledger detects copies, and the
releases with their terms. `take_up` continues with this promise.

With a ledger, an object that loads a state takes it over (`take_over`): the ledger records a new position at
once. Every other copy of the state is refused at its next turn.

A class that owns a `Holder` inherits from `Held`, which refuses copies, and marks its methods with
`in_turn`.
"""

import os
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import wraps
from os import PathLike
from pathlib import Path
from threading import get_ident
from typing import Any, ClassVar, Concatenate, NamedTuple, NoReturn, ParamSpec, Protocol, TypeVar
from weakref import WeakMethod

from dpbandits._calls import misfit
from dpbandits._reading import reading
from dpbandits._seen import Seen
from dpbandits.errors import (
    CorruptState,
    ForkedState,
    IncompatibleState,
    InvalidParameter,
    ProtocolError,
    StateError,
)
from dpbandits.state.container import State
from dpbandits.state.format import read_state
from dpbandits.state.live import Life, Reach
from dpbandits.state.release_log import ReleaseLog
from dpbandits.state.sealing import StateKey
from dpbandits.state.store import StateStore
from dpbandits.state.witness import Account, Payer, witness_of

__all__ = ["Held", "Holder", "Saved", "in_turn", "no_copy", "saved_state"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Saved(NamedTuple):
    """State that was read, with its store and the ledger that detects other copies of it."""

    state: State
    store: StateStore
    ledger: Payer | None


def saved_state(
    path: str | PathLike[str],
    *,
    kind: str,
    version: int,
    ledger: Payer | None = None,
    key: StateKey | None = None,
    adopt: bool = False,
) -> Saved:
    """Return the last committed state at `path`; see `StateStore.load`.

    Raises:
        MissingState: Nothing was saved at the path.
        ForkedState: The ledger has recorded a later commit, by another copy of this state.
        CorruptState: The file is torn or altered.
        IncompatibleState: The file belongs to another kind of object, another version or another ledger.
    """
    store = StateStore(path, ledger=ledger, key=key)
    if ledger is not None and adopt:
        there = read_state(path, key) if Path(path).exists() else None
        if there is not None and _witnessed(there) and ledger.last(there.lineage) is None:
            raise IncompatibleState(
                "the state was saved with another ledger: pass that one. adopt=True is for states that were "
                "saved without a ledger"
            )
    state = store.load(adopt=adopt)
    if (state.kind, state.version) != (kind, version):
        raise IncompatibleState(
            f"expected state of {kind} version {version}, got {state.kind!r} version {state.version}"
        )
    return Saved(state, store, ledger)


class Holder:
    """Lock, account, store and lineage of one object with a durable state.

    Args:
        describe: Method that returns the object's whole state, from lineage and position; None if nothing is
            saved. Only a weak reference is kept, so that an unused object is freed at once.
        what: Noun for the object in error messages.
        account: Account that is charged for every release. Its ledger detects copies of a saved state.
        lineage: Lineage of the object. Default: a fresh random one.
        nested: Error text for a turn inside a turn; None if nested turns are allowed.

    Attributes:
        log: Releases so far; see `ReleaseLog`.
        paid: True if the state that was taken up names the account that is charged.
        lived: True if that state was saved in a folder with a log of events (`Life`).
        follows: End of that log when the state was saved; see `Life`.
        adopted: True if the state was first saved without a ledger. Copies made at that time are not
            detected.
        lineage: Lineage of the state; see `State`.
        position: Position of the state; see `State`.
    """

    def __init__(
        self,
        describe: Callable[[str, int], State] | None = None,
        *,
        what: str = "policy",
        account: Account | None = None,
        lineage: str | None = None,
        nested: str | None = None,
    ) -> None:
        self._describe = None if describe is None else WeakMethod(describe)
        self._what, self._nested = what, nested
        self._ledger, self._account = witness_of(account), None if account is None else account.name
        self._store: StateStore | None = None
        self._uncommitted: tuple[StateStore, State] | None = None
        self._forked = False
        self.log = ReleaseLog()
        self.paid = self.adopted = self.lived = False
        self.follows: Reach | None = None
        self._live: Life | None = None
        self._replay: WeakMethod[Callable[[bytes, bytes], None]] | None = None
        self._noted: tuple[int, bytes, bytes] | None = None
        self._closed = False
        self.lineage = uuid.uuid4().hex if lineage is None else lineage
        self.position = 0
        self._lock = threading.RLock()
        self._thread: int | None = None
        self._process = os.getpid()

    @property
    def promise(self) -> dict[str, Any]:
        """Account, ledger and log of releases, as JSON for the public part of a state."""
        return {
            "account": self._account,
            "witnessed": self.witnessed,
            "adopted": self.adopted,
            "live": self._live is not None,
            "releases": self.log.to_json(),
        }

    def take_up(self, saved: Saved, *, account: Account | None = None, opening: bool = False) -> None:
        """Continue from a saved state, with its store, ledger and account.

        A state that names an account continues with this account. Any other state gets the account that is
        passed.

        Args:
            saved: State from `saved_state`.
            account: Account for further charges; None if nothing is charged, or if the state names an
                account.
            opening: True if the state's folder is opened together with its log of events.

        Raises:
            InvalidParameter: An account is passed for a state that names one, or is missing.
            IncompatibleState: The state was saved with a ledger and none is passed; or the state belongs to
                a folder, which must be opened instead.
            CorruptState: The state's promise cannot be read.
        """
        name = None if account is None else account.name
        log = saved.state.secret.get("log")
        with reading("how far the log of rounds reached", CorruptState):
            self.follows = None if log is None else Reach(int(log[0]), int(log[1]), str(log[2]))
        promise = saved.state.public.get("promise")
        self.adopted = saved.ledger is not None
        if promise is not None:
            name = self._take_up_promise(promise, ledger=saved.ledger, account=name, opening=opening)
        self.lineage, self.position = saved.state.lineage, saved.state.position
        self._store, self._ledger, self._account = saved.store, saved.ledger, name

    def _take_up_promise(
        self, promise: Any, *, ledger: Payer | None, account: str | None, opening: bool
    ) -> str | None:
        """Restore the log of releases, and return the name of the account that is charged, or None."""
        with reading("what a state says of its releases", CorruptState):
            own, witnessed, live = promise["account"], promise["witnessed"], promise["live"]
            adopted = promise["adopted"]
            flags = all(isinstance(flag, bool) for flag in (witnessed, adopted, live))
            if not isinstance(own, str | None) or not flags:
                raise CorruptState("the account of a state cannot be read")
            releases = ReleaseLog.from_json(promise["releases"])
        if live and not opening:
            raise IncompatibleState(
                f"this {self._what} is saved in a folder with more files than this one: open the folder"
            )
        if witnessed and ledger is None:
            raise IncompatibleState(
                f"this {self._what} was saved with a ledger, which refuses a second copy: pass ledger="
            )
        if own is not None and account is not None:
            raise InvalidParameter(
                f"account: this {self._what}'s state names the account that is charged; leave account= out"
            )
        if ledger is not None and own is None and account is None:
            raise InvalidParameter(
                f"this {self._what} was saved without an account, and its ledger needs one to charge: pass "
                "account="
            )
        self.log, self.paid, self.lived = releases, own is not None, live
        self.adopted = adopted or (ledger is not None and not witnessed)
        return own or account

    def take_over(self) -> None:
        """Commit the state that was taken up, at a new position, so that a ledger refuses all other copies.

        A crash leaves the state at the new position or at the position before. Either can be taken up.
        """
        if self._ledger is not None or self._live is not None:
            self.commit()

    # -- a folder with a log of events -----------------------------------------------------------------

    def bind(self, live: Life | None, replay: Callable[[bytes, bytes], None] | None = None) -> None:
        """Log events in a folder from now on. The next commit writes the state there.

        Args:
            live: Locked folder; None for no folder.
            replay: Method that applies a logged event, unless it was applied before. Only a weak reference
                is kept.
        """
        self._live, self._replay = live, None if replay is None else WeakMethod(replay)
        if live is not None:
            live.prepare(self.lineage, self.position)

    @property
    def live(self) -> bool:
        """True if events are logged in a folder before they are answered."""
        return self._live is not None

    def note(self, kind: bytes, content: bytes) -> None:
        """Log an event durably before it is applied. If the turn is interrupted, the next turn applies the
        event.
        """
        if self._live is not None:
            self._noted = self._live.records, kind, content
            self._live.append(kind, content)

    def close(self) -> None:
        """Wait for a running call, then unlock the folder. Further calls are refused.

        In a forked process this does nothing: the folder belongs to the parent.
        """
        if self._live is None or os.getpid() != self._process:
            return
        with self._lock:
            self._closed = True
            self._live.close()

    def _recover(self) -> None:
        """Apply the last logged event, if its record counts and the turn that logged it was interrupted."""
        replay = None if self._replay is None else self._replay()
        if self._noted is None or self._live is None or replay is None:
            return
        before, kind, content = self._noted
        if self._live.records == before:  # `append` raised: `settle` finds out whether the record counts
            self._live.settle()
        if self._live.records > before:
            replay(kind, content)
        self._noted = None

    def __repr__(self) -> str:
        return f"Holder(lineage={self.lineage[:8]!r})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a Holder cannot be copied or pickled: it belongs to one object")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Return a context manager that holds the object's lock for one thread.

        Only the process that built or loaded the object may use it. This is checked before the lock is
        acquired, because in a forked child a thread of the parent may hold the lock for ever. `in_turn`
        repeats this code; change both together.

        Raises:
            ForkedState: This process was forked from the one with the object; or the ledger shows that
                another copy of the object was loaded.
            StateError: The ledger could not be reached.
            ProtocolError: This thread already holds the lock, and nested turns are refused.
        """
        self._refuse_call()
        with self._lock:
            if self._thread is None:
                self._begin_turn()
            before, self._thread = self._thread, threading.get_ident()
            try:
                yield
                if before is None:
                    self._noted = None  # the turn ended without an error, so the event was applied
            finally:
                self._thread = before

    @contextmanager
    def still(self) -> Iterator[None]:
        """Return a context manager during which no other thread has a turn, for methods that only read.

        It makes none of the checks of a turn: objects can be read after `close`, and in a forked process,
        which has no other thread.
        """
        with self._lock if os.getpid() == self._process else nullcontext():
            yield

    def _refuse_call(self) -> None:
        """Raise those errors of `turn` that can be found without the lock."""
        self.refuse_fork()
        if self._nested is not None and self._thread == threading.get_ident():
            raise ProtocolError(self._nested)

    def _begin_turn(self) -> None:
        """Check for copies and apply an interrupted event, at the start of an outermost turn; see `turn`."""
        if self._closed:
            raise ProtocolError(f"this {self._what} was closed: open its folder again")
        self._check_overtaken()
        self._recover()

    def refuse_fork(self) -> None:
        """Raise `ForkedState` in a forked process. Call this before acquiring a lock, as `turn` explains."""
        if os.getpid() != self._process:
            raise ForkedState(
                f"this process was forked from the one with the {self._what}: build, open or load it after "
                "the fork, in one process"
            )

    def _check_overtaken(self) -> None:
        """Raise `ForkedState` if the ledger shows that another copy was taken over."""
        # After a failed commit the ledger may be one position ahead: the next commit finds out.
        if self._ledger is None or self._store is None or self._uncommitted is not None:
            return
        last = self._ledger.last(self.lineage)
        if self._forked or (last is not None and last.position > self.position):
            self._forked = True
            raise self._overtaken()

    def _overtaken(self) -> ForkedState:
        return ForkedState(
            f"another copy of this {self._what} has continued: load the state from that copy's path"
        )

    @property
    def ledger(self) -> Payer | None:
        """Ledger that detects copies of the state; None if there is none."""
        return self._ledger

    @property
    def witnessed(self) -> bool:
        """True if a ledger refuses a second copy of a saved state."""
        return self._ledger is not None

    @property
    def charged(self) -> bool:
        """True if a ledger's account is charged."""
        return self._account is not None

    @property
    def account(self) -> str | None:
        """Name of the account that is charged; None if there is none."""
        return self._account

    def charge_id(self, purpose: str | None = None) -> str | None:
        """Return the id of a charge, which is equal at every retry; None without an account."""
        if self._account is None:
            return None
        return self.lineage if purpose is None else f"{self.lineage}:{purpose}"

    def charge(self, purpose: str | None = None, *, cost: Any) -> None:
        """Charge the account with a cost. Each purpose is charged once, also if the call is repeated after a
        crash.
        """
        charge_id = self.charge_id(purpose)
        if self._ledger is not None and self._account is not None and charge_id is not None:
            self._ledger.charge(self._account, charge_id=charge_id, cost=cost)

    def record(self, purpose: str, number: int, terms: Mapping[str, Any], *, charge: str | None) -> None:
        """Enter a release into the log before its noise is drawn. Entering it again does nothing.

        Args:
            purpose: Statistic that is released, such as "block".
            number: Number of the release within its purpose, from 0.
            terms: Terms of the noise as JSON; see `ReleaseLog`. Releases with equal terms share an entry.
            charge: Purpose that was passed to `charge`, with "#" in place of number + 1; "" if no purpose
                was passed. None if nothing is charged for the release.
        """
        paid = None if charge is None else self.charge_id(charge or None)
        self.log.enter(purpose, number, {**terms, "charge": paid, "witnessed": self.witnessed})

    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the state to `path` now, and at every later commit.

        After a failure the object continues to use its earlier path. Without an earlier path it releases
        nothing until a save succeeds, because the ledger may have recorded the state that could not be
        written.
        """
        if self._live is not None and Path(path).resolve() != self._live.state:
            raise ProtocolError(
                f"this {self._what} is saved in its folder: close it and move the folder instead"
            )
        before = self._store
        self._store = StateStore(path, ledger=self._ledger, key=key)
        try:
            self.commit()
        except (StateError, OSError):
            self._store = self._store if before is None else before
            raise

    def commit(self) -> None:
        """Make the current state durable, if it has a path. Call this before using anything that was drawn.

        A state that an earlier attempt failed to write is written first, unchanged, because the ledger may
        have recorded its digest. Then the current state is written. If the key has changed since the earlier
        attempt, the earlier state goes to the store of that attempt, as its digest would change with another
        key.

        Raises:
            ForkedState: Another copy has continued. This object releases nothing any more.
            StateError, OSError: Nothing was saved; commit again.
        """
        describe = None if self._describe is None else self._describe()
        if self._store is None or describe is None:
            return
        if self._forked:
            raise self._overtaken()
        if self._uncommitted is not None:
            store, state = self._uncommitted
            self._write(self._store if self._store.seals_like(store) else store, state)
        present = describe(self.lineage, self.position + 1)
        # A random mark makes the states of two copies differ at the same position, even if what they drew is
        # not part of the state (an answer is not). Else the second would pass for a repeated commit.
        mark = {"commit": secrets.token_hex(16)}
        log = {} if self._live is None else {"log": self._live.reach}
        self._write(self._store, replace(present, secret={**present.secret, **mark, **log}))
        if self._live is not None:  # only after the current state: an earlier one lacks later events
            self._live.begin(self.lineage, self.position)

    def _write(self, store: StateStore, state: State) -> None:
        self._uncommitted = store, state
        try:
            store.commit(state)
        except ForkedState:
            self._forked = True
            raise
        self.position = state.position
        self._uncommitted = None


def _witnessed(state: State) -> bool:
    promise = state.public.get("promise")
    return isinstance(promise, dict) and promise.get("witnessed") is True


HARM = "two copies would release twice, and its memory holds raw data"
MOVING = "Use save and load to move it, to_config and from_config to build another"


def no_copy(thing: object, harm: str = HARM, moving: str = MOVING) -> ProtocolError:
    """Return the error for an attempt to copy or pickle an object with a `Holder`."""
    return ProtocolError(f"a {type(thing).__name__} cannot be copied or pickled: {harm}. {moving}")


class Held(Seen):
    """Base class of objects with a `Holder`, which cannot be copied or pickled."""

    _holder: Holder
    _harm: ClassVar[str] = HARM
    """Reason why a copy would do harm, as text for the error message."""
    _moving: ClassVar[str] = MOVING
    """Advice on what to do instead of copying, as text for the error message."""

    def __reduce__(self) -> NoReturn:
        raise no_copy(self, self._harm, self._moving)


class _HasHolder(Protocol):
    _holder: Holder


_H = TypeVar("_H", bound=_HasHolder)


def in_turn(method: Callable[Concatenate[_H, _P], _R]) -> Callable[Concatenate[_H, _P], _R]:
    """Return the method wrapped in the lock of `Holder.turn`: one call at a time, in one process."""

    @wraps(method)
    def guarded(self: _H, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        # This repeats `Holder.turn`, and calls its checks only if they could do something. A context manager
        # and the calls would cost as much time as the rest of a turn.
        holder = self._holder
        if os.getpid() != holder._process or holder._nested is not None:
            holder._refuse_call()
        with holder._lock:
            before = holder._thread
            if before is None and (holder._closed or holder._ledger is not None or holder._noted is not None):
                holder._begin_turn()
            holder._thread = get_ident()
            try:
                result = method(self, *arguments, **options)
                if before is None:
                    holder._noted = None
                return result
            except TypeError as error:  # arguments that do not fit get a clearer error, as in `worded`
                problem = misfit(error, method, (self, *arguments), options)
                if problem is None:
                    raise
                raise problem from None
            finally:
                holder._thread = before

    return guarded
