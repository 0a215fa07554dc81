"""`StateStore`: commits that a crash can interrupt anywhere, and one going-on copy of each state.

A release is drawn once. So whatever a policy computes from fresh noise must be durable before it
leaves, and must be the only continuation of what was there before. `commit(state)` does three things
in this order, each durable before the next, and returns after all of them:

1. **prepare**: the whole state goes to `PATH.next`;
2. **witness**: `ledger.advance(lineage, position, digest)`, compare-and-set;
3. **replace**: `PATH.next` is renamed over `PATH`.

The caller lets the release out only after `commit` has returned. A crash in between, position p being
the last one committed and p + 1 the one under way:

| crash | `PATH` | `PATH.next` | ledger | `load()` |
|---|---|---|---|---|
| before or while preparing | p | missing, torn or whole | p | removes `.next`, returns p |
| after preparing | p | p + 1 | p | removes `.next`, returns p |
| after the witness | p | p + 1 | p + 1 | renames, returns p + 1 |
| after replacing | p + 1 | - | p + 1 | returns p + 1 |

In the first two rows nothing of p + 1 has left, so another p + 1 may be drawn; the witness has not
seen the first one, and it is gone. In the last two the witness binds the lineage to this p + 1, and
that is what comes back: the same release, whether or not it had left. A crash inside `load` or a
repeated `commit` leads to one of these rows again. A failed `commit` may be repeated with the same
state: the witness and the rename are idempotent.

Of two copies of one state (a restored backup, a cloned machine), the first to advance at the ledger
goes on and the other gets `ForkedState`, before it has changed anything. Without a ledger this is
checked against `PATH` alone: two copies at two places are then an unchecked assumption.

Stores in several processes on one path take turns through a lock file, `PATH.lock`.
"""

from os import PathLike
from pathlib import Path
from typing import NamedTuple

from dpbandits.errors import CorruptState, ForkedState, IncompatibleState
from dpbandits.state.container import State
from dpbandits.state.files import found, locked, open_regular, replace_durably, sync_directory, write_durably
from dpbandits.state.format import Identity, Texts, decode, encode, read_identity
from dpbandits.state.sealing import StateKey
from dpbandits.state.witness import Payer, Witness, check_advance

__all__ = ["StateStore"]


class StateStore:
    """One path's durable state; see the module's page for what a crash can leave.

    Args:
        path: the state file. `path.next` and `path.lock` live beside it, in a directory that must
            exist; all have mode 0600 and, but for the lock, hold what the state holds.
        ledger: the witness of lineages. Use one ledger for all copies of a state.
        key: seals what is written, and opens what is read; see `StateKey`.
    """

    def __init__(
        self, path: str | PathLike[str], ledger: Payer | None = None, key: StateKey | None = None
    ) -> None:
        self._path = Path(path).resolve()
        self._next = self._path.with_name(self._path.name + ".next")
        self._lock = self._path.with_name(self._path.name + ".lock")
        self._ledger = ledger
        self._key = key
        self._texts = Texts()
        self._left: tuple[tuple[int, ...], Identity] | None = None

    def commit(self, state: State) -> None:
        """Make `state` durable as the only continuation of its lineage.

        Nothing computed from the state may leave before this returns. Committing the same state
        again does nothing.

        Raises:
            ForkedState: another copy of this state has gone on; nothing was changed.
            IncompatibleState: the path holds a state of another lineage; nothing was changed.
            CorruptState: the path holds a damaged file or no state; nothing was changed.
            StateError: the ledger or the lock could not be used; repeat the commit.
            MissingState: the path's folder is not there.
            OSError: the disk refused; repeat the commit when there is room.
        """
        data, digest = encode(state, self._key, self._texts)
        new = Witness(state.position, digest)
        with found(f"there is no folder {self._path.parent}: make it, then save again"), locked(self._lock):
            # Asked before writing: a stale copy must not overwrite the `.next` of the copy that
            # went on, which may be the only one there is.
            witnessed = self._check_witness(state.lineage, new)
            committed = self._check_occupant(state, new)
            if committed and witnessed:
                return
            if not (witnessed and self._is_whole(self._next, digest)):
                self._prepare(data)
            if not witnessed:
                self._witness(state.lineage, new)
            replace_durably(self._next, self._path)
            self._left = _stamp(self._path), Identity(state.kind, state.lineage, state.position, digest)

    def load(self, *, adopt: bool = False) -> State:
        """The last committed state, after finishing or discarding an interrupted commit.

        Args:
            adopt: accept a state whose lineage the ledger has never seen (saved without a ledger,
                say) and witness it where it stands. Whether another copy has gone on elsewhere is
                then yours to know.

        Raises:
            MissingState: nothing was ever committed here.
            ForkedState: the state is not where the ledger has witnessed it to be.
            IncompatibleState: another format version, or a lineage that this ledger has never seen.
            CorruptState: torn or altered, or not a state file.
        """
        with found(f"nothing was saved at {self._path}: pass the path of a save"), locked(self._lock):
            if self._ledger is None:
                return self._load_alone()
            return self._load_witnessed(self._ledger, adopt=adopt)

    def seals_like(self, other: "StateStore") -> bool:
        """Return whether one state becomes the same bytes, and so has one witness, here and there."""
        return self._key is other._key

    def __repr__(self) -> str:
        return "StateStore()"

    # -- the steps of a commit ------------------------------------------------------------------

    def _check_witness(self, lineage: str, new: Witness) -> bool:
        """Return whether the ledger has witnessed `new` already; ForkedState where it never can."""
        if self._ledger is None:
            return True  # there is nobody to ask
        last = self._ledger.last(lineage)
        check_advance(last, new)
        return last == new

    def _check_occupant(self, state: State, new: Witness) -> bool:
        """Return whether `path` holds this very state; raises if it may not be replaced."""
        try:
            occupant = self._occupant()
        except FileNotFoundError:
            return False
        if occupant.lineage != state.lineage:
            raise IncompatibleState(
                "the path holds a state of another lineage: choose another path, or move that file away"
            )
        if occupant.digest == new.digest:
            return True
        if occupant.position >= new.position:
            raise ForkedState(
                f"the path holds position {occupant.position} of this state, which position {new.position} "
                "cannot replace: another copy has gone on, load it from there"
            )
        return False

    def _occupant(self) -> Identity:
        """Return what is at `path`: it is known if the file is the very one that this object left there."""
        if self._left is not None and _stamp(self._path) == self._left[0]:
            return self._left[1]
        return read_identity(self._path)

    def _prepare(self, data: bytes) -> None:
        try:
            write_durably(self._next, data)
        except OSError:
            self._next.unlink(missing_ok=True)
            raise

    def _witness(self, lineage: str, new: Witness) -> None:
        if self._ledger is None:
            return
        try:
            self._ledger.advance(lineage, position=new.position, digest=new.digest)
        except ForkedState:  # another copy was faster: nobody may finish this one
            self._discard_next()
            raise

    # -- the outcomes of a crash ----------------------------------------------------------------

    def _load_witnessed(self, ledger: Payer, *, adopt: bool) -> State:
        pending = self._read_next()
        if pending is not None and ledger.last(pending.lineage) == pending.witness:
            replace_durably(self._next, self._path)
            return pending.state
        # Nothing is removed before the ledger has confirmed `path`: it could be the wrong ledger.
        committed = self._read(self._path)
        last = ledger.last(committed.lineage)
        if last is None:
            if not adopt:
                raise IncompatibleState(
                    "this ledger has never seen the state's lineage: pass the ledger it was saved with, or "
                    "adopt=True if it was saved without one and no copy of it has gone on"
                )
            ledger.advance(
                committed.lineage, position=committed.witness.position, digest=committed.witness.digest
            )
        elif last != committed.witness:
            if pending is None and self._next.exists() and last.position == committed.witness.position + 1:
                raise CorruptState(
                    f"position {last.position} was witnessed and its file, beside the state, is damaged: "
                    "restore that file from a backup"
                )
            raise ForkedState(
                f"the state is at position {committed.witness.position}, the ledger has witnessed position "
                f"{last.position}: another copy has gone on, or file and ledger are not from the same time"
            )
        self._discard_next()
        return committed.state

    def _load_alone(self) -> State:
        """Without a ledger: an interrupted commit that is whole is finished.

        Nothing of it has left, or a ledger that we were not given has witnessed it; finishing is
        right either way.
        """
        pending = self._read_next()
        try:
            committed = self._read(self._path)
        except FileNotFoundError:
            if pending is None:
                raise
        else:
            if pending is None or not pending.follows(committed):
                self._discard_next()
                return committed.state
        replace_durably(self._next, self._path)
        return pending.state

    def _read_next(self) -> "_Saved | None":
        """Return the state of an interrupted commit, or None if it is missing or torn."""
        try:
            return self._read(self._next)
        except (FileNotFoundError, CorruptState):
            return None

    def _is_whole(self, path: Path, digest: str) -> bool:
        try:
            return self._read(path).witness.digest == digest
        except (FileNotFoundError, CorruptState, IncompatibleState):
            return False

    def _read(self, path: Path) -> "_Saved":
        with open_regular(path) as (file, size):
            state, digest = decode(file, size, self._key)
        return _Saved(state, Witness(state.position, digest))

    def _discard_next(self) -> None:
        if self._next.exists():
            self._next.unlink()
            sync_directory(self._next.parent)


def _stamp(path: Path) -> tuple[int, ...]:
    """Return numbers that change if a file is replaced or written to."""
    seen = path.lstat()
    return seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


class _Saved(NamedTuple):
    """A state as a file holds it."""

    state: State
    witness: Witness

    @property
    def lineage(self) -> str:
        return self.state.lineage

    def follows(self, earlier: "_Saved") -> bool:
        return self.lineage == earlier.lineage and self.witness.position == earlier.witness.position + 1
