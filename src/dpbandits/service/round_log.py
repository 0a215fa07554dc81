"""`StoredLife`: a policy while it begins or is folded: its state in a file for so long, its log in the store.

A state is read from and written to a file, and lies otherwise in a row of `states`. While a policy begins, or
a block of it is folded, the file is in a private folder (`scratch`), which is removed; where a process died
meanwhile, at the next start (`swept`). Rounds since the last state are rows of `slots`.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import numpy as np

from dpbandits.errors import CorruptState, ProtocolError, StateError
from dpbandits.policy import round_log
from dpbandits.policy.bookkeeping import RoundStatus
from dpbandits.service.store import Reads, Row
from dpbandits.state.files import locked, private_folder
from dpbandits.state.journal import Record
from dpbandits.state.live import Life, Reach

__all__ = ["StoredLife", "rounds_of", "scratch", "slot_of", "swept"]

_LOCK = "lock"
"""A file that a process holds while it uses the folder that it is in."""


def slot_of(ask: str) -> int:
    """The slot of a policy's own id of a decision; CorruptState where it is none."""
    digits = ask.split("-")[1] if ask.count("-") == 2 else ""
    if not (digits.isascii() and digits.isdigit()):
        raise CorruptState("the store holds something that is no decision of a policy")
    return int(digits)


def rounds_of(reads: Reads, policy: str, *, upto: int) -> list[Row]:
    """Rounds of a policy before one: slot, person, chosen, status and reward, in their order."""
    return reads.rows(
        "SELECT slot, person, chosen, status, reward FROM slots WHERE policy = ? AND slot < ? ORDER BY slot",
        policy,
        upto,
    )


class StoredLife(Life):
    """Life of a policy while it begins or is folded: its state is in a file for so long, its log in `slots`.

    Args:
        policy: whose.
        folder: for the state.
        rounds: that are given to the policy, from `rounds_of`.
        upto: how many it has had then.
        held: rounds that its state holds.
    """

    def __init__(
        self, policy: str, folder: Path, *, rounds: Sequence[Row] = (), upto: int = 0, held: int = 0
    ) -> None:
        self._policy, self._folder, self._rounds = policy, folder, rounds
        self._upto, self._held = upto, held

    def __repr__(self) -> str:
        return "StoredLife()"

    @property
    def state(self) -> Path:  # noqa: D102
        return self._folder / "policy.state"

    @property
    def lineage(self) -> str:  # noqa: D102
        return self._policy

    @property
    def reach(self) -> Reach:  # noqa: D102
        return Reach(0, 0, "")

    @property
    def records(self) -> int:  # noqa: D102
        return 0

    def earlier(  # noqa: D102
        self, lineage: str, position: int, *, lived: bool, follows: Reach | None
    ) -> Iterator[Record]:
        rows = self._rounds
        slots = np.array([row[0] for row in rows], dtype=np.int64)
        status = np.array([row[3] for row in rows], dtype=np.int64)
        fresh = slots >= self._held
        if not np.array_equal(slots[fresh], np.arange(self._held, self._upto)):
            raise CorruptState("rounds are gone from the store")
        new = rows[len(rows) - int(fresh.sum()) :]
        if new:
            actions = np.frombuffer(b"".join(row[2] for row in new), dtype="<f8").reshape(len(new), -1)
            people = [bytes(row[1]) for row in new if row[1] is not None]
            refused = status[fresh] == RoundStatus.REFUSED
            yield Record(round_log.ASK, round_log.pack_ask(self._held, people, actions, refused))
        told, gone = status == RoundStatus.TOLD, status == RoundStatus.ABANDONED
        either = told | gone
        if either.any():
            rewards = np.array([row[4] for row in rows], dtype=np.float64)[either]  # None is NaN
            yield Record(
                round_log.TELL,
                round_log.pack_tell(slots[either], rewards, told[either], gone[either]),
            )

    def begin(self, lineage: str, position: int) -> None:  # noqa: D102
        pass

    def append(self, kind: bytes, content: bytes) -> None:
        """Nothing is asked or told here."""
        raise ProtocolError("rounds of this policy are asked where it is followed")

    def refuse_leftovers(self) -> None:  # noqa: D102
        pass


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """A private folder that is gone afterwards; those of processes that died are gone before."""
    private_folder(folder, what="states under way")
    with ExitStack() as files:
        with locked(folder / _LOCK):  # nobody sweeps between the two
            found = Path(files.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            files.enter_context(locked(found / _LOCK, wait=False))
        yield found


def swept(folder: Path) -> None:
    """Remove what processes that died have left in `scratch`: nobody holds its lock.

    Numbers of processes would not tell: in a container each life of a service has the same ones.
    """
    with locked(private_folder(folder, what="states under way") / _LOCK):
        for one in folder.iterdir():
            if one.is_dir() and not one.is_symlink():
                with suppress(StateError), locked(one / _LOCK, wait=False):
                    shutil.rmtree(one, ignore_errors=True)
