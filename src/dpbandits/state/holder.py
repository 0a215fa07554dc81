"""`Holder`: what everything with a state does the same way: one process, one thread, one lineage, one charge.

Policies, explore-then-commit and its phases, a device's client, the local server and the curator each own a
`Holder`, and ask it

- for a **turn** before whatever learns, draws, answers or saves: one thread at a time, never in a fork;
- to **charge** the ledger's account before anything is drawn, under an id that a retry repeats;
- to **record** every release in a log that only grows (`ReleaseLog`), before its noise is drawn;
- to **commit** the whole state before anything computed from it leaves, and to keep the saved copy current;
- where it lives in a folder (`bind`), to **note** what happens between commits before it is answered.

What was promised is part of the state: `promise` says which account pays, whether a ledger witnesses, and
what was released on which terms; it is saved with the rest, and `take_up` goes by it.

Where a ledger witnesses, whoever takes a state up becomes its one holder (`take_over`): a new position is
witnessed at once, and every other copy, running or not, is refused at its next turn.

A class that owns one inherits from `Held`, which refuses copies, and marks its methods with `in_turn`.
"""

import os
import secrets
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
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
    """A state that was read, where it is kept, and its witness."""

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
    """The last committed state at `path`; see `StateStore.load`.

    Raises:
        MissingState: nothing was ever saved there.
        ForkedState: the ledger has seen this lineage go further than this copy.
        CorruptState, IncompatibleState: the file is torn, or another object's or version's; or another ledger
            than this one witnessed it.
    """
    store = StateStore(path, ledger=ledger, key=key)
    if ledger is not None and adopt:
        there = read_state(path, key) if Path(path).exists() else None
        if there is not None and _witnessed(there) and ledger.last(there.lineage) is None:
            raise IncompatibleState(
                "another ledger than this one has witnessed the state: pass that one; only a state that none "
                "has witnessed is adopted"
            )
    state = store.load(adopt=adopt)
    if (state.kind, state.version) != (kind, version):
        raise IncompatibleState(
            f"expected state of {kind} version {version}, got {state.kind!r} version {state.version}"
        )
    return Saved(state, store, ledger)


class Holder:
    """One object's lineage: its account, where it is kept, and how far it has gone.

    Args:
        describe: method (lineage, position) -> the object's whole state now; None where nothing is saved. It
            is held weakly, so that the memory of an object that nobody uses is free at once.
        what: how messages call the object.
        account: pays for every release; its ledger witnesses saved copies.
        lineage: of an object that has one already; a fresh one by default.
        nested: why a turn inside a turn is refused; None where it is allowed.

    Attributes:
        log: what was released; see `ReleaseLog`.
        paid: whether the state that was taken up names the account that pays.
        lived: whether that state lived in a folder.
        follows: how far the log in that folder reached then; see `Life`.
        adopted: whether it was saved without a ledger first: copies of that time are not refused.
        lineage, position: of the state; see `State`.
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
        """Return what of a promise is not configuration, for the public part of a state: JSON."""
        return {
            "account": self._account,
            "witnessed": self.witnessed,
            "adopted": self.adopted,
            "live": self._live is not None,
            "releases": self.log.to_json(),
        }

    def take_up(self, saved: Saved, *, account: Account | None = None, opening: bool = False) -> None:
        """Go on where a saved state stands, keep it current there, and let its ledger witness.

        The account that pays is the state's own. A state that says nothing of an account takes the one that
        is given.

        Args:
            saved: from `saved_state`.
            account: pays for what is yet to be charged; None where nothing is.
            opening: whether the folder is opened that the state lives in, with what was noted beside it.

        Raises:
            InvalidParameter: an account for a state that has one, or none for one that needs it.
            IncompatibleState: a ledger has witnessed the state and none came; or the state lives in a folder,
                which has to be opened.
            CorruptState: what the state says of its releases cannot be read.
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
        """Take over the log of releases; returns the account that pays."""
        with reading("what a state says of its releases", CorruptState):
            own, witnessed, live = promise["account"], promise["witnessed"], promise["live"]
            adopted = promise["adopted"]
            flags = all(isinstance(flag, bool) for flag in (witnessed, adopted, live))
            if not isinstance(own, str | None) or not flags:
                raise CorruptState("the account of a state cannot be read")
            releases = ReleaseLog.from_json(promise["releases"])
        if live and not opening:
            raise IncompatibleState(
                f"this {self._what} lives in its folder, which holds more than this file: open the folder"
            )
        if witnessed and ledger is None:
            raise IncompatibleState(
                f"a ledger witnesses this {self._what}, so that no second copy of it goes on: pass it"
            )
        if own is not None and account is not None:
            raise InvalidParameter(
                f"account: the account that pays is part of this {self._what}'s state; leave it out"
            )
        if ledger is not None and own is None and account is None:
            raise InvalidParameter(
                f"this {self._what} was saved without an account, and its ledger needs one that pays: pass "
                "account="
            )
        self.log, self.paid, self.lived = releases, own is not None, live
        self.adopted = adopted or (ledger is not None and not witnessed)
        return own or account

    def take_over(self) -> None:
        """Become the one holder of a state that was taken up, where a ledger witnesses: commit it anew.

        A crash in between leaves the state at this position or at the one before, and either can be taken up.
        """
        if self._ledger is not None or self._live is not None:
            self.commit()

    # -- living in a folder ----------------------------------------------------------------------------

    def bind(self, live: Life | None, replay: Callable[[bytes, bytes], None] | None = None) -> None:
        """Live in a folder from now on, whose state the next commit writes; None: in none.

        Args:
            live: the folder, held.
            replay: method that makes a change again that was noted, unless it was made; held weakly.
        """
        self._live, self._replay = live, None if replay is None else WeakMethod(replay)
        if live is not None:
            live.prepare(self.lineage, self.position)

    @property
    def live(self) -> bool:
        """Return whether what happens is noted in a folder before it is answered."""
        return self._live is not None

    def note(self, kind: bytes, content: bytes) -> None:
        """Make durable what is about to happen; if the turn is interrupted, the next one makes it happen."""
        if self._live is not None:
            self._noted = self._live.records, kind, content
            self._live.append(kind, content)

    def close(self) -> None:
        """Leave the folder to another process, after a call under way; nothing more is answered.

        In a forked process nothing happens: the folder is the parent's.
        """
        if self._live is None or os.getpid() != self._process:
            return
        with self._lock:
            self._closed = True
            self._live.close()

    def _recover(self) -> None:
        """Make what was noted last, if it counts and whatever interrupted it; what is made stays as it is."""
        replay = None if self._replay is None else self._replay()
        if self._noted is None or self._live is None or replay is None:
            return
        before, kind, content = self._noted
        if self._live.records == before:  # appending it raised
            self._live.settle()
        if self._live.records > before:
            replay(kind, content)
        self._noted = None

    def __repr__(self) -> str:
        return f"Holder(lineage={self.lineage[:8]!r})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a Holder cannot be copied or pickled: it stands for one object")

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One thread at a time, and only in the process that built or loaded the object.

        The process is asked first: in a forked child a thread that is not there may hold the lock.
        `in_turn` has all of it once more, written out: what changes here changes there.

        Raises:
            ForkedState: this process was forked from the one that holds the object; or another copy of the
                object was loaded since, and its ledger says so.
            StateError: the ledger could not be asked.
            ProtocolError: this thread is having its turn already, and nested turns are refused.
        """
        self._refuse_call()
        with self._lock:
            if self._thread is None:
                self._begin_turn()
            before, self._thread = self._thread, threading.get_ident()
            try:
                yield
                if before is None:
                    self._noted = None  # all of it was made
            finally:
                self._thread = before

    def _refuse_call(self) -> None:
        """Refuse a call before the lock is taken; see `turn`."""
        self.refuse_fork()
        if self._nested is not None and self._thread == threading.get_ident():
            raise ProtocolError(self._nested)

    def _begin_turn(self) -> None:
        """Begin the first of nested turns, under the lock; see `turn`."""
        if self._closed:
            raise ProtocolError(f"this {self._what} was closed: open its folder again")
        self._check_overtaken()
        self._recover()

    def refuse_fork(self) -> None:
        """ForkedState in a forked process: to be asked before any lock, which may be held there for ever."""
        if os.getpid() != self._process:
            raise ForkedState(
                f"this process was forked from the one that holds the {self._what}: build, open or load it "
                "after the fork, in one process"
            )

    def _check_overtaken(self) -> None:
        """Refuse to go on where another copy was taken up; the next commit settles an own one that failed."""
        if self._ledger is None or self._store is None or self._uncommitted is not None:
            return
        last = self._ledger.last(self.lineage)
        if self._forked or (last is not None and last.position > self.position):
            self._forked = True
            raise self._overtaken()

    def _overtaken(self) -> ForkedState:
        return ForkedState(
            f"another copy of this {self._what} has gone on: load the state where that copy keeps it"
        )

    @property
    def ledger(self) -> Payer | None:
        """The witness, for what is witnessed beside the state."""
        return self._ledger

    @property
    def witnessed(self) -> bool:
        """Return whether a ledger refuses a second copy of a saved state."""
        return self._ledger is not None

    @property
    def charged(self) -> bool:
        """Return whether a ledger's account pays."""
        return self._account is not None

    @property
    def account(self) -> str | None:
        """The account that pays, where one does."""
        return self._account

    def charge_id(self, purpose: str | None = None) -> str | None:
        """The id of a charge in this life, the same at every retry; None where no account pays."""
        if self._account is None:
            return None
        return self.lineage if purpose is None else f"{self.lineage}:{purpose}"

    def charge(self, purpose: str | None = None, *, cost: Any) -> None:
        """Spend from the account; the same purpose is charged once, also after a crash."""
        charge_id = self.charge_id(purpose)
        if self._ledger is not None and self._account is not None and charge_id is not None:
            self._ledger.charge(self._account, charge_id=charge_id, cost=cost)

    def record(self, purpose: str, number: int, terms: Mapping[str, Any], *, charge: str | None) -> None:
        """Enter a release into the log before its noise is drawn; to enter it again does nothing.

        Args:
            purpose: what is released, such as "block".
            number: of the release among those of its purpose, from 0.
            terms: JSON, the same for all that are released alike; see `ReleaseLog`.
            charge: the purpose that `charge` was called with, "#" standing for number + 1; "" for None. None
                where nothing is charged here.
        """
        paid = None if charge is None else self.charge_id(charge or None)
        self.log.enter(purpose, number, {**terms, "charge": paid, "witnessed": self.witnessed})

    def save(self, path: str | PathLike[str], *, key: StateKey | None = None) -> None:
        """Write the state to `path`, and keep it current there at every commit from now on.

        After a failure the object is kept where it was kept before. If that is nowhere, nothing more leaves
        until a save succeeds: the state that could not be written may have been witnessed.
        """
        if self._live is not None and Path(path).resolve() != self._live.state:
            raise ProtocolError(
                f"this {self._what} lives in its folder and is saved there: close it and move the folder"
            )
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
        describe = None if self._describe is None else self._describe()
        if self._store is None or describe is None:
            return
        if self._forked:
            raise self._overtaken()
        if self._uncommitted is not None:
            store, state = self._uncommitted
            self._write(self._store if self._store.seals_like(store) else store, state)
        present = describe(self.lineage, self.position + 1)
        # What was drawn is not always part of a state (an answer is not). Two copies that draw under one
        # number must differ all the same, or the second would pass for a repetition of the first.
        mark = {"commit": secrets.token_hex(16)}
        log = {} if self._live is None else {"log": self._live.reach}
        self._write(self._store, replace(present, secret={**present.secret, **mark, **log}))
        if self._live is not None:  # not after an earlier state: it lacks what was noted since
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
    """The error of an attempt to copy or pickle an object that has a `Holder`."""
    return ProtocolError(f"a {type(thing).__name__} cannot be copied or pickled: {harm}. {moving}")


class Held(Seen):
    """Base of what has a `Holder`: it cannot be copied or pickled."""

    _holder: Holder
    _harm: ClassVar[str] = HARM
    """Why nothing is copied."""
    _moving: ClassVar[str] = MOVING
    """Advice on what to do instead of copying."""

    def __reduce__(self) -> NoReturn:
        raise no_copy(self, self._harm, self._moving)


class _HasHolder(Protocol):
    _holder: Holder


_H = TypeVar("_H", bound=_HasHolder)


def in_turn(method: Callable[Concatenate[_H, _P], _R]) -> Callable[Concatenate[_H, _P], _R]:
    """Method decorator: whatever learns, draws or saves does so one call at a time, in one process."""

    @wraps(method)
    def guarded(self: _H, /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        # `Holder.turn`, written out: a context manager of Python's costs as much as all the rest of a turn,
        # and so do calls that find nothing to refuse and nothing to begin with
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
            except TypeError as error:  # as in `worded`
                problem = misfit(error, method, (self, *arguments), options)
                if problem is None:
                    raise
                raise problem from None
            finally:
                holder._thread = before

    return guarded
