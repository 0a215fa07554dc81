"""`Rows`: groups of all rounds, and outcomes of those whose look is not released yet. Outcomes are secret.

Sums in segments of closed rounds are kept with their noise, also in secret, until no look follows.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.readout.groups import CONTROL, NEITHER, POLICY, Groups
from dpbandits.central.readout.lattice import Lattice
from dpbandits.central.readout.segments import NOWHERE, SegmentSums
from dpbandits.errors import CorruptState

__all__ = ["GroupRows", "Rows"]

_DIGEST = 16
_USER = np.dtype(f"V{_DIGEST}")
_FIRST = 1024
_NO_ROUNDS: tuple[int, int, Sequence[bytes], NDArray[np.int8]] = 0, 0, (), np.zeros(0, dtype=np.int8)


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

    def __repr__(self) -> str:
        return f"GroupRows(rounds={self.rounds})"


class Rows:
    """Second record of a policy's rounds; see `policy.bookkeeping.Companion`.

    A round's values are the public defaults until a reward that counts is told.

    Args:
        lattice: Metrics as integers.
        groups: Rule for the groups of rounds.
        segments: Segments of the contexts; None without segments.
        planned: Number of first rounds that are planned to be in a look.

    Attributes:
        columns: Number of metrics beside the reward.
        closed: Number of first rounds whose looks are released. Their outcomes are gone.
        ended: Number of first rounds that are in a look, if the readout ended early; None if it did not.
            Later users of the control group are in no group: the policy serves them, and learns nothing.
        stopped: First round at which everybody gets the control's arm, as the rule has stopped the readout;
            None if it has not.
        in_segments: Number of first rounds, and their noisy sums (2, C, 2 or 3) in segments of the policy and
            the control group; None without segments, or before the first look.
    """

    def __init__(self, lattice: Lattice, groups: Groups, segments: SegmentSums | None, planned: int) -> None:
        self._lattice, self._groups, self._segments, self._planned = lattice, groups, segments, planned
        self.columns = len(lattice.outcomes) - 1
        self.closed = 0
        self.ended: int | None = None
        self.stopped: int | None = None
        self.in_segments: tuple[int, IntArray] | None = None
        self._asked = 0
        self._found = _NO_ROUNDS
        self._codes = np.zeros(0, dtype=np.int8)
        self._values = np.zeros((0, len(lattice.outcomes)), dtype=np.int64)
        self._answered = np.zeros(0, dtype=np.bool_)
        self._digests = np.zeros((0, _DIGEST), dtype=np.uint8)
        self._places = np.zeros(0, dtype=np.int16)  # segments of rounds
        self._seen, self._had = np.zeros(0, dtype=_USER), np.zeros(0, dtype=np.int64)

    def __repr__(self) -> str:
        return "Rows()"

    def coming(self, start: int, count: int, digests: Sequence[bytes]) -> NDArray[np.int8]:
        """Return the groups (count,) of rounds from `start` on, which are not entered yet."""
        if self.stopped is not None and start >= self.stopped:
            return np.full(count, NEITHER, dtype=np.int8)
        if self._found[:3] != (start, count, digests):  # the same rounds are entered next
            self._found = start, count, digests, self._groups.of(digests, start, count)
        found = self._found[3]
        return found if self.ended is None else np.where(found == CONTROL, NEITHER, found).astype(np.int8)

    @property
    def _until(self) -> int:
        """Number of first rounds that are in a look. Nothing is kept of the outcomes of later rounds."""
        return self._planned if self.ended is None else self.ended

    @property
    def _open(self) -> int:
        return max(0, min(self._asked, self._until) - self.closed)

    def codes(self, start: int, stop: int) -> NDArray[np.int8]:
        """Return the groups of rounds start..stop-1 that were entered."""
        return self._codes[start:stop]

    def entered(
        self, start: int, digests: Sequence[bytes], actions: FloatArray, refused: BoolArray | None
    ) -> None:
        """Record rounds with the public defaults as their values."""
        count, stop = len(actions), start + len(actions)
        if stop > len(self._codes):
            self._codes = _grown(self._codes, stop)
        self._codes[start:stop], self._found = self.coming(start, count, digests), _NO_ROUNDS
        self._asked, first = stop, max(0, start - self.closed)
        kept = max(0, self._open - first)
        if not kept:
            return
        here, open_ = slice(first, first + kept), self._open
        if open_ > len(self._values):
            self._values, self._answered = _grown(self._values, open_), _grown(self._answered, open_)
            self._digests = _grown(self._digests, open_)
            self._places = _grown(self._places, open_)
        self._values[here], self._answered[here] = self._lattice.defaults, False
        if digests:
            read = np.frombuffer(b"".join(digests), dtype=np.uint8).reshape(count, _DIGEST)
            self._digests[here] = read[:kept]
        if self._segments is not None:
            self._places[here] = self._segments.codes(actions, refused)[:kept]

    def told(self, rounds: IntArray, rewards: FloatArray, metrics: FloatArray | None) -> None:
        """Record rewards (k,) that count, and metrics (k, M - 1), NaN where missing, before their look."""
        beside = np.full((len(rounds), self.columns), np.nan) if metrics is None else metrics
        still = (rounds >= self.closed) & (rounds < self._until)
        places = rounds[still] - self.closed
        self._values[places] = self._lattice.read(np.column_stack([rewards[still], beside[still]]))
        self._answered[places] = True

    def told_one(self, index: int, reward: float, metrics: Sequence[float] | None) -> None:
        """Record one reward that counts, as `told` does, without arrays for it."""
        if self.closed <= index < self._until:
            beside = [math.nan] * self.columns if metrics is None else metrics
            self._values[index - self.closed] = self._lattice.read_one((reward, *beside))
            self._answered[index - self.closed] = True

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
        """Delete the outcomes of rounds before `stop`, whose looks are released, and add them to segments.

        An interrupt leaves either no change or a complete one, so that no outcome is in two looks.
        """
        if stop <= self.closed:
            return
        seen, had = self._seen, self._had
        if self._groups.by_user and self._lattice.repeats:
            every = np.concatenate([seen, self._users(slice(0, stop - self.closed))])
            each = np.concatenate([had, np.ones(len(every) - len(had), dtype=np.int64)])
            seen, places = np.unique(every, return_inverse=True)
            had = np.bincount(places, weights=each).astype(np.int64)
        in_segments = self._summed_up(stop)
        kept = slice(stop - self.closed, stop - self.closed + max(0, min(self._asked, self._until) - stop))
        values, answered = self._values[kept].copy(), self._answered[kept].copy()
        digests, segments = self._digests[kept].copy(), self._places[kept].copy()
        # Nothing is called while this statement assigns, so no signal is handled in between.
        (
            self._values,
            self._answered,
            self._digests,
            self._places,
            self._seen,
            self._had,
            self.closed,
            self.in_segments,
        ) = values, answered, digests, segments, seen, had, stop, in_segments

    def _summed_up(self, stop: int) -> tuple[int, IntArray] | None:
        if self._segments is None or self.in_segments is None:
            return self.in_segments
        start, before = self.in_segments
        here, codes = slice(start - self.closed, stop - self.closed), self._codes[start:stop]
        rewards, places = self._values[here, 0], self._places[here]
        own = [codes == code for code in (POLICY, CONTROL)]
        sums = [self._segments.sums(places[mask], rewards[mask]) for mask in own]
        return stop, before + np.array(sums)

    def erase(self, stop: int) -> None:
        """Replace the outcomes of rounds before `stop`, whose looks are not released, by the defaults.

        These rounds are in no segment.
        """
        gone = slice(max(0, min(stop, self._asked, self._until) - self.closed))
        self._values[gone], self._answered[gone] = self._lattice.defaults, False
        self._places[gone] = NOWHERE

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the secret arrays of a saved state, by name."""
        kept = self._open
        early = [-1 if one is None else one for one in (self.stopped, self.ended)]
        none = np.zeros((0, 0, 0), dtype=np.int64)
        return {
            "readout_rounds": np.array([self._asked, self.closed, *early], dtype=np.int64),
            "readout_groups": self._codes[: self._asked],
            "readout_values": self._values[:kept],
            "readout_answered": self._answered[:kept],
            "readout_people": self._digests[:kept],
            "readout_places": self._places[:kept],
            "readout_in_segments": none if self.in_segments is None else self.in_segments[1],
            "readout_seen": self._seen.view(np.uint8).reshape(-1, _DIGEST),
            "readout_had": self._had,
        }

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], *, asked: int) -> None:
        """Replace the rounds by the arrays of a saved state with `asked` rounds.

        Raises:
            CorruptState: The arrays contradict each other.
        """
        known, closed, stopped, ended = (int(number) for number in arrays["readout_rounds"])
        codes, values = arrays["readout_groups"], arrays["readout_values"]
        answered, digests = arrays["readout_answered"], arrays["readout_people"]
        seen, had = arrays["readout_seen"], arrays["readout_had"]
        places, in_segments = arrays["readout_places"], arrays["readout_in_segments"]
        kept = max(0, min(known, self._planned if ended < 0 else ended) - closed)
        kinds = codes.dtype, values.dtype, answered.dtype, digests.dtype
        fits = 0 <= closed <= known == asked and -1 <= stopped <= known and -1 <= ended <= known
        fits &= places.dtype == np.int16 and places.shape == (kept,) and in_segments.dtype == np.int64
        shapes = [(0, 0, 0)] if self._segments is None else [(0, 0, 0), (2, *self._segments.shape)]
        fits &= in_segments.shape in shapes
        fits &= kinds == (np.int8, np.int64, np.bool_, np.uint8) and codes.shape == (known,)
        fits &= values.shape == (kept, self.columns + 1) and answered.shape == (kept,)
        fits &= digests.shape == (kept, _DIGEST) and bool(np.isin(codes, (NEITHER, 0, 1)).all())
        fits &= seen.dtype == np.uint8 and had.dtype == np.int64 and seen.shape == (len(had), _DIGEST)
        if not fits or (np.abs(values) > self._lattice.units).any():
            raise CorruptState("the saved rounds of the readout contradict each other")
        self._asked, self.closed = known, closed
        self.stopped, self.ended = (None if one < 0 else one for one in (stopped, ended))
        self._codes, self._values, self._answered, self._digests = codes, values, answered, digests
        self._places, self.in_segments = places, (closed, in_segments) if in_segments.size else None
        self._seen, self._had = np.ascontiguousarray(seen).view(_USER).reshape(-1), had


def _grown(array: Any, length: int) -> Any:
    grown = np.zeros((max(length, 2 * len(array), _FIRST), *array.shape[1:]), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
