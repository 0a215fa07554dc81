"""`StateStore`: commits that survive a crash at any point, and refusal of a second copy of a state.

A release is drawn once. So everything that a policy computes from fresh noise must be durable before it is
returned, and must be the only continuation of the state before. `commit(state)` takes three steps in this
order, each of which is durable before the next:

1. **prepare**: the whole state is written to `PATH.next`;
2. **witness**: `ledger.advance(lineage, position, digest)`, compare-and-set;
3. **replace**: `PATH.next` is renamed over `PATH`.

The caller returns the release only after `commit` has returned.

Crashes
-------
Let p be the last committed position and p + 1 the one under way.

| crash | `PATH` | `PATH.next` | ledger | `load()` |
|---|---|---|---|---|
| before or while preparing | p | missing, torn or whole | p | removes `.next`, returns p |
| after preparing | p | p + 1 | p | removes `.next`, returns p |
| after the witness | p | p + 1 | p + 1 | renames, returns p + 1 |
| after replacing | p + 1 | - | p + 1 | returns p + 1 |

In the first two rows nothing of state p + 1 was returned to anybody, so another state p + 1 may be drawn. The
ledger has not recorded the first one, and its file is removed. In the last two rows the ledger has bound the
lineage to this state p + 1. `load` returns it: the same release, whether or not it was returned before. A
crash inside `load` or a repeated `commit` leads to one of these rows again. A failed `commit` may be repeated
with the same state: recording and renaming are idempotent.

Forks
-----
Of two copies of one state (a restored backup, a cloned machine), the first that advances the ledger
continues. The other copy gets `ForkedState` before it has changed anything. Without a ledger only `PATH` is
checked. It is then an unchecked assumption that there is no copy elsewhere.

Stores in several processes on one path exclude each other with a lock file, `PATH.lock`.
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
    """Durable state of one object at one path. The module lists what a crash can leave.

    Args:
        path: Path of the state file, in a directory that exists. `path.next` and `path.lock` are in the same
            directory. All three have mode 0600. `path.next` is as secret as the state.
        ledger: Ledger that detects forks and rollbacks. Use one ledger for all copies of a state.
        key: Key that encrypts and decrypts the state; see `StateKey`.
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

        Release nothing computed from the state before this returns. Committing the same state again does
        nothing.

        Raises:
            ForkedState: Another copy of this state has continued; nothing was changed.
            IncompatibleState: The path has a state of another lineage; nothing was changed.
            CorruptState: The path has a damaged file or no state; nothing was changed.
            StateError: The ledger or the lock could not be used; repeat the commit.
            MissingState: The path's folder does not exist.
            OSError: Writing failed; repeat the commit when the disk has space.
        """
        data, digest = encode(state, self._key, self._texts)
        new = Witness(state.position, digest)
        with found(f"there is no folder {self._path.parent}: make it, then save again"), locked(self._lock):
            # Checked before writing: a stale copy must not overwrite the `.next` of the copy that continued,
            # which may be the only file with that state.
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
        """Finish or discard an interrupted commit, and return the last committed state.

        Args:
            adopt: True accepts a state whose lineage the ledger has never seen, such as one saved without a
                ledger, and records its position. You must then know that no other copy has continued.

        Raises:
            MissingState: Nothing was committed here.
            ForkedState: The state is not at the position that the ledger has recorded.
            IncompatibleState: The format has another version, or the ledger has never seen the lineage.
            CorruptState: The file is torn, altered or not a state file.
        """
        with found(f"nothing was saved at {self._path}: pass the path of a save"), locked(self._lock):
            if self._ledger is None:
                return self._load_alone()
            return self._load_witnessed(self._ledger, adopt=adopt)

    def seals_like(self, other: "StateStore") -> bool:
        """Return True if both stores write a state as equal bytes, so that its digest is equal."""
        return self._key is other._key

    def __repr__(self) -> str:
        return "StateStore()"

    # -- the steps of a commit ------------------------------------------------------------------

    def _check_witness(self, lineage: str, new: Witness) -> bool:
        """Return True if the ledger has already recorded `new`.

        Raises:
            ForkedState: The ledger has recorded a position that `new` does not follow.
        """
        if self._ledger is None:
            return True  # nothing to record
        last = self._ledger.last(lineage)
        check_advance(last, new)
        return last == new

    def _check_occupant(self, state: State, new: Witness) -> bool:
        """Return True if the file at `path` is this state; raise an error if it may not be replaced."""
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
                "cannot replace: another copy has continued, load that one"
            )
        return False

    def _occupant(self) -> Identity:
        """Return the identity of the state at `path`, from a cache if the file was not changed since."""
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
        except ForkedState:  # another copy was faster: no `load` may finish this commit
            self._discard_next()
            raise

    # -- the outcomes of a crash ----------------------------------------------------------------

    def _load_witnessed(self, ledger: Payer, *, adopt: bool) -> State:
        pending = self._read_next()
        if pending is not None and ledger.last(pending.lineage) == pending.witness:
            replace_durably(self._next, self._path)
            return pending.state
        # Nothing is removed before the ledger has confirmed `path`: it may be the wrong ledger.
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
                f"{last.position}: another copy has continued, or file and ledger are not from the same time"
            )
        self._discard_next()
        return committed.state

    def _load_alone(self) -> State:
        """Return the state without asking a ledger; finish an interrupted commit if its file is complete.

        It is always correct to finish: either nothing of that commit was released, or a ledger that was not
        passed here has recorded it.
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
        """Return the state of an interrupted commit; None if its file is missing or torn."""
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
    """Return numbers that change if the file at the path is replaced or written to."""
    seen = path.lstat()
    return seen.st_dev, seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


class _Saved(NamedTuple):
    """State that was read from a file, with its position and digest."""

    state: State
    witness: Witness

    @property
    def lineage(self) -> str:
        return self.state.lineage

    def follows(self, earlier: "_Saved") -> bool:
        return self.lineage == earlier.lineage and self.witness.position == earlier.witness.position + 1
