"""`StoredLife`: persistence of a policy that is created or folded: state in a scratch file, log in the store.

To fold is to add a block's rounds and noise to a policy's state; see `folding`. The library reads and writes
a state as a file; the service stores it in a row of `states`. While a policy is created or a block is
folded, the file is in a private folder (`scratch`), which is removed afterwards, or at the next start if the
process died (`swept`). Rounds since the last state are rows of `slots`.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.arm_changes import ARMS, ArmChange
from dpbandits.errors import CorruptState, ProtocolError, StateError
from dpbandits.policy import round_log
from dpbandits.policy.bookkeeping import NOBODY, RoundStatus
from dpbandits.service.store import Reads
from dpbandits.state.files import locked, private_folder
from dpbandits.state.journal import Record
from dpbandits.state.live import Life, Reach

__all__ = ["TOGETHER", "Rounds", "StoredLife", "rounds_of", "scratch", "slot_of", "swept"]

TOGETHER = 2000
"""Largest number of rounds that a fold reads, changes or removes in one transaction, to keep waits short."""

_ROUNDS = (
    "SELECT person, chosen, status, reward, metrics FROM slots WHERE policy = ? AND slot >= ? AND slot < ? "
    "ORDER BY slot"
)

_LOCK = "lock"
"""Name of the file that a process locks while it uses its folder."""


def slot_of(ask: str) -> int:
    """Return the slot from a policy's own id of a decision; raise CorruptState if the text is no such id."""
    digits = ask.split("-")[1] if ask.count("-") == 2 else ""
    if not (digits.isascii() and digits.isdigit()):
        raise CorruptState("the store has an invalid id of a decision")
    return int(digits)


class Rounds(NamedTuple):
    """Consecutive rounds of a policy: raw data.

    Attributes:
        first: first round.
        upto: round after the last one; n may be less than `upto - first` if rounds are missing.
        people: users, 16 bytes each; empty without user ids.
        actions: chosen actions, shape (n, d).
        status: `RoundStatus` of the rounds, shape (n,).
        rewards: rewards, shape (n,), NaN if there is none.
        metrics: metrics that were told with each reward, 8 bytes each; None if there are none.
    """

    first: int
    upto: int
    people: bytes
    actions: FloatArray
    status: IntArray
    rewards: FloatArray
    metrics: tuple[bytes | None, ...] = ()

    def __repr__(self) -> str:
        return "Rounds()"


def rounds_of(
    reading: Callable[[], AbstractContextManager[Reads]], policy: str, first: int, upto: int
) -> list[Rounds]:
    """Return the rounds of a policy from `first` to before `upto`, in parts of at most `TOGETHER` rounds.

    Each part is read in its own transaction, so that a long block does not pin an old snapshot. A reward that
    comes meanwhile may be in the result or not: the next fold reads its round again.
    """
    found = []
    for start in range(first, upto, TOGETHER):
        stop = min(start + TOGETHER, upto)
        with reading() as reads:
            rows = reads.rows(_ROUNDS, policy, start, stop)
        people, chosen, status, rewards, metrics = zip(*rows, strict=True) if rows else ((),) * 5
        part = Rounds(
            start,
            stop,
            b"".join(one for one in people if one is not None),
            np.frombuffer(b"".join(chosen), dtype="<f8").reshape(len(rows), -1 if rows else 0),
            np.array(status, dtype=np.int64),
            np.array(rewards, dtype=np.float64),  # None is NaN
            metrics,
        )
        found.append(part)
    return found


class StoredLife(Life):
    """Persistence of a policy that is created or folded: its state is a file, its log the table `slots`.

    A state holds no users. The table `people` enforces the contribution bound in the transaction of each
    decision; with users in the state, each fold would have to read all users that the policy ever had. A fold
    checks the bound on the rounds that it reads.

    Args:
        policy: id of the policy.
        folder: folder of the state.
        rounds: all rounds since the last release, from `rounds_of`.
        held: number of rounds that the state holds.
        rounds_per_user: contribution bound; None for no bound.
        arm_changes: all changes of arms that were announced, in order.
        metrics: number of metrics beside the reward; None without a readout. With a readout the state holds
            the users, because their groups depend on them.
    """

    def __init__(
        self,
        policy: str,
        folder: Path,
        *,
        rounds: Sequence[Rounds] = (),
        held: int = 0,
        rounds_per_user: int | None = None,
        arm_changes: Sequence[ArmChange] = (),
        metrics: int | None = None,
    ) -> None:
        self._policy, self._folder, self._rounds = policy, folder, rounds
        self._held, self._most, self._arm_changes = held, rounds_per_user, arm_changes
        self._metrics = metrics

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
        if any(len(part.status) < part.upto - part.first for part in self._rounds):
            raise CorruptState("rounds are gone from the store")
        for change in self._arm_changes:  # the state skips those that it has
            yield Record(ARMS, change.to_bytes())
        if self._most is not None:
            _check_users(b"".join(part.people for part in self._rounds), self._most)
        for part in self._rounds:
            new = slice(max(self._held - part.first, 0), None)
            if len(part.status[new]):
                named = [NOBODY] * (len(part.people) // len(NOBODY))
                if self._metrics is not None:
                    named = [part.people[at : at + 16] for at in range(0, len(part.people), 16)]
                refused = part.status[new] == RoundStatus.REFUSED
                start = max(self._held, part.first)
                yield Record(round_log.ASK, round_log.pack_ask(start, named[new], part.actions[new], refused))
            told, gone = part.status == RoundStatus.TOLD, part.status == RoundStatus.ABANDONED
            either = told | gone
            if either.any():
                slots = part.first + np.flatnonzero(either)
                beside = _matrix(part.metrics, self._metrics or 0)[either] if self._metrics else None
                packed = round_log.pack_tell(slots, part.rewards[either], told[either], gone[either], beside)
                yield Record(round_log.TELL, packed)

    def begin(self, lineage: str, position: int) -> None:  # noqa: D102
        pass

    def append(self, kind: bytes, content: bytes) -> None:
        """Raise ProtocolError, because a fold answers no request and so has nothing to record."""
        raise ProtocolError("a fold takes no rounds: ask the policy that follows its releases")

    def refuse_leftovers(self) -> None:  # noqa: D102
        pass


def _matrix(metrics: Sequence[bytes | None], count: int) -> FloatArray:
    none = np.full(count, np.nan).astype("<f8").tobytes()
    found = np.frombuffer(b"".join(bytes(one) if one else none for one in metrics), dtype="<f8")
    if found.size != len(metrics) * count:
        raise CorruptState("the metrics in the store contradict the policy's readout")
    return found.reshape(-1, count).astype(np.float64)


def _check_users(people: bytes, most: int) -> None:
    """Raise CorruptState if a user has more than `most` of the rounds whose users are in `people`."""
    halves = np.frombuffer(people, dtype="<u8").reshape(-1, 2)
    halves = halves[np.lexsort((halves[:, 1], halves[:, 0]))]
    if (halves[most:] == halves[: max(len(halves) - most, 0)]).all(axis=1).any():
        raise CorruptState("the store has more of a user's rounds than rounds_per_user")


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Open a private temporary folder, which is removed at the end of the `with` block."""
    private_folder(folder, what="states under way")
    with ExitStack() as files:
        with locked(folder / _LOCK):  # so that `swept` does not remove the folder before it is locked
            found = Path(files.enter_context(tempfile.TemporaryDirectory(dir=folder)))
            files.enter_context(locked(found / _LOCK, wait=False))
        yield found


def swept(folder: Path) -> None:
    """Remove the temporary folders that dead processes left. The lock of such a folder is free.

    Process ids are no evidence, because in a container every start of a service has the same ones.
    """
    with locked(private_folder(folder, what="states under way") / _LOCK):
        for one in folder.iterdir():
            if one.is_dir() and not one.is_symlink():
                with suppress(StateError), locked(one / _LOCK, wait=False):
                    shutil.rmtree(one, ignore_errors=True)
