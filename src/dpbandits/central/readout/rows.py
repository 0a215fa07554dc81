"""`Rows`: groups of all rounds, and outcomes of those whose look is not released yet. Outcomes are secret."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.readout.groups import NEITHER, Groups
from dpbandits.central.readout.lattice import Lattice
from dpbandits.errors import CorruptState

__all__ = ["GroupRows", "Rows"]

_DIGEST = 16
_USER = np.dtype(f"V{_DIGEST}")
_FIRST = 1024


class GroupRows(NamedTuple):
    """Rounds of one group at one look, n of them, with M metrics; secret but for the last four numbers.

    Attributes:
        values: Integers (n, M).
        answered: Mask (n,) of rounds with a reward that counts.
        people: Number of each round's user, (n,).
        rounds: Number n of rounds, which is public.
        users: Number of users, which is public.
        squared_rounds, overlap: Public numbers; see `models.readout.Group`.
    """

    values: IntArray
    answered: BoolArray
    people: IntArray
    rounds: int
    users: int
    squared_rounds: int
    overlap: int


class Rows:
    """Second record of a policy's rounds; see `policy.bookkeeping.Companion`.

    A round's values are the public defaults until a reward that counts is told.

    Args:
        lattice: Metrics as integers.
        groups: Rule for the groups of rounds.

    Attributes:
        columns: Number of metrics beside the reward.
        closed: Number of first rounds whose looks are released. Their outcomes are gone.
        stopped: First round that is in no group, as the readout was stopped; None if it was not.
    """

    def __init__(self, lattice: Lattice, groups: Groups) -> None:
        self._lattice, self._groups = lattice, groups
        self.columns = len(lattice.outcomes) - 1
        self.closed = 0
        self.stopped: int | None = None
        self._asked = 0
        self._codes = np.zeros(0, dtype=np.int8)
        self._values = np.zeros((0, len(lattice.outcomes)), dtype=np.int64)
        self._answered = np.zeros(0, dtype=np.bool_)
        self._digests = np.zeros((0, _DIGEST), dtype=np.uint8)
        self._seen, self._had = np.zeros(0, dtype=_USER), np.zeros(0, dtype=np.int64)

    def __repr__(self) -> str:
        return "Rows()"

    def coming(self, start: int, count: int, digests: Sequence[bytes]) -> NDArray[np.int8]:
        """Return the groups (count,) of rounds from `start` on, which are not entered yet."""
        if self.stopped is not None and start >= self.stopped:
            return np.full(count, NEITHER, dtype=np.int8)
        return self._groups.of(digests, start, count)

    def codes(self, start: int, stop: int) -> NDArray[np.int8]:
        """Return the groups of rounds start..stop-1 that were entered."""
        return self._codes[start:stop]

    def entered(self, start: int, count: int, digests: Sequence[bytes]) -> None:
        """Record rounds with the public defaults as their values."""
        stop, open_ = start + count, start + count - self.closed
        if stop > len(self._codes):
            self._codes = _grown(self._codes, stop)
        if open_ > len(self._values):
            self._values, self._answered = _grown(self._values, open_), _grown(self._answered, open_)
            self._digests = _grown(self._digests, open_)
        here = slice(start - self.closed, open_)
        self._codes[start:stop] = self.coming(start, count, digests)
        self._values[here], self._answered[here] = self._lattice.defaults, False
        if digests:
            self._digests[here] = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(count, _DIGEST)
        self._asked = stop

    def told(self, rounds: IntArray, rewards: FloatArray, metrics: FloatArray | None) -> None:
        """Record rewards (k,) that count, and metrics (k, M - 1), NaN where missing, before their look."""
        beside = np.full((len(rounds), self.columns), np.nan) if metrics is None else metrics
        still = rounds >= self.closed
        places = rounds[still] - self.closed
        self._values[places] = self._lattice.read(np.column_stack([rewards[still], beside[still]]))
        self._answered[places] = True

    def of_group(self, code: int, start: int, stop: int) -> GroupRows:
        """Return the rounds start..stop-1 that are in the group with this code."""
        places = np.flatnonzero(self._codes[start:stop] == code) + start - self.closed
        people, overlap = np.arange(len(places)), 0
        if self._groups.by_user and len(places):
            distinct, people = np.unique(self._users(places), return_inverse=True)
            at = np.minimum(np.searchsorted(self._seen, distinct), max(0, len(self._seen) - 1))
            if len(self._seen):
                before = np.where(self._seen[at] == distinct, self._had[at], 0)
                overlap = int(before @ np.bincount(people))
        visits = np.bincount(people)
        values, answered = self._values[places], self._answered[places]
        return GroupRows(values, answered, people, len(places), len(visits), int((visits**2).sum()), overlap)

    def _users(self, places: IntArray | slice) -> NDArray[np.void]:
        return np.ascontiguousarray(self._digests[places]).view(_USER)[:, 0]

    def close(self, stop: int) -> None:
        """Delete the outcomes of rounds before `stop`, whose looks are released."""
        if stop > self.closed:
            if self._groups.by_user and self._lattice.repeats:
                every = np.concatenate([self._seen, self._users(slice(0, stop - self.closed))])
                had = np.concatenate([self._had, np.ones(len(every) - len(self._had), dtype=np.int64)])
                self._seen, places = np.unique(every, return_inverse=True)
                self._had = np.bincount(places, weights=had).astype(np.int64)
            kept = slice(stop - self.closed, None)
            self._values, self._answered = self._values[kept].copy(), self._answered[kept].copy()
            self._digests, self.closed = self._digests[kept].copy(), stop

    def erase(self, stop: int) -> None:
        """Replace the outcomes of rounds before `stop`, whose looks are not released, by the defaults."""
        gone = slice(max(0, min(stop, self._asked) - self.closed))
        self._values[gone], self._answered[gone] = self._lattice.defaults, False

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the secret arrays of a saved state, by name."""
        kept = self._asked - self.closed
        stopped = -1 if self.stopped is None else self.stopped
        return {
            "readout_rounds": np.array([self._asked, self.closed, stopped], dtype=np.int64),
            "readout_groups": self._codes[: self._asked],
            "readout_values": self._values[:kept],
            "readout_answered": self._answered[:kept],
            "readout_people": self._digests[:kept],
            "readout_seen": self._seen.view(np.uint8).reshape(-1, _DIGEST),
            "readout_had": self._had,
        }

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], *, asked: int) -> None:
        """Replace the rounds by the arrays of a saved state with `asked` rounds.

        Raises:
            CorruptState: The arrays contradict each other.
        """
        known, closed, stopped = (int(number) for number in arrays["readout_rounds"])
        codes, values = arrays["readout_groups"], arrays["readout_values"]
        answered, digests = arrays["readout_answered"], arrays["readout_people"]
        seen, had = arrays["readout_seen"], arrays["readout_had"]
        kept, kinds = known - closed, (codes.dtype, values.dtype, answered.dtype, digests.dtype)
        fits = 0 <= closed <= known == asked and -1 <= stopped <= known
        fits &= kinds == (np.int8, np.int64, np.bool_, np.uint8) and codes.shape == (known,)
        fits &= values.shape == (kept, self.columns + 1) and answered.shape == (kept,)
        fits &= digests.shape == (kept, _DIGEST) and bool(np.isin(codes, (NEITHER, 0, 1)).all())
        fits &= seen.dtype == np.uint8 and had.dtype == np.int64 and seen.shape == (len(had), _DIGEST)
        if not fits or (np.abs(values) > self._lattice.units).any():
            raise CorruptState("the saved rounds of the readout contradict each other")
        self._asked, self.closed = known, closed
        self.stopped = None if stopped < 0 else stopped
        self._codes, self._values, self._answered, self._digests = codes, values, answered, digests
        self._seen, self._had = np.ascontiguousarray(seen).view(_USER).reshape(-1), had


def _grown(array: Any, length: int) -> Any:
    """Return a copy of an array, padded with zeros to at least `length` and at least twice its length."""
    grown = np.zeros((max(length, 2 * len(array), _FIRST), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
