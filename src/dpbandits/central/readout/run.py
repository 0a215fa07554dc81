"""`ReadoutRun`: the looks of one policy's readout, its control group's arms, and what was released.

A look covers the rounds after the look before, up to its own end. The ends divide the horizon, less a
`reporting_delay` in rounds, into equal parts. A look is released before the next ask after its deadline, as a
block is. Ends and deadlines depend on numbers and times of asks only. Every round up to the last end is in
exactly one look. A reward counts for the readout if it counts for the policy, and is told before its look is
released.

`end` makes the look that is running the last one. Sums in segments begin with their noise, which is drawn at
the first look, and every look adds its rounds. So they are never kept without noise. They are released once,
when no look follows: after the last look, after `end`, or after the rule has stopped the readout.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.kinds import Setup
from dpbandits.central.published_function import PublishedPosterior
from dpbandits.central.readout.budget import BothNoises
from dpbandits.central.readout.declared import UNIFORM, Readout, ToldMetric
from dpbandits.central.readout.groups import CONTROL, NAMES, POLICY, Groups
from dpbandits.central.readout.lattice import MOST_ROUNDS, Lattice
from dpbandits.central.readout.rows import Rows
from dpbandits.central.readout.segments import SegmentSums
from dpbandits.domains import RewardRange
from dpbandits.domains.arms import Arms, Label
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter, ProtocolError
from dpbandits.models.readout import CellTable, Group, Look, Metric, crossed
from dpbandits.models.ties import first_best
from dpbandits.policy import PublicCoins, uniform_choice
from dpbandits.policy.bookkeeping import is_plain
from dpbandits.policy.deadlines import Deadlines
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.release_terms import Release
from dpbandits.tables import Schema

__all__ = ["ReadoutRun"]

PURPOSES = ("readout: policy", "readout: control")
"""Purposes of both groups' sums in the log of releases, in the order of the groups' codes."""

AT_LOOKS, OF_SEGMENTS = (
    tuple(f"{what} of the {group} group{when}" for group in NAMES[:2])
    for what, when in (("sums of outcomes", " at a look"), ("sums of rewards in segments", ""))
)
"""Names of both groups' sums in the statement."""

IN_SEGMENTS = ("readout: segments, policy", "readout: segments, control")
"""Purposes of both groups' sums in segments, in the same order."""

PUBLIC_NUMBERS = 4
"""Number of public integers of a group at a look: rounds, users, squared rounds, overlap."""


class _Released(NamedTuple):
    """Released look: noisy integers (2, D) and public numbers (2, 4) of the policy and the control group."""

    sums: IntArray
    public: IntArray


class ReadoutRun:
    """Readout of one policy.

    Args:
        readout: Public arguments.
        reward_range: Range of the reward.
        contexts: Columns of a context, which segments need.
        labels: Labels of the policy's arms.
        horizon: Number of rounds.
        delay: `GPTuning.reporting_delay`.
        privacy: Whole promise.
        learned: Certificate of the policy's learning; every kind has one.
        learning: Promise to which learning is calibrated.
        noise: Noise source.
        coins: Public coins of the policy.
        charged: True if an account of a ledger is charged.

    Attributes:
        learning: Promise to which learning is calibrated.
        readout, noises: Public arguments and the noise of both groups' sums.
        rows: Groups and outcomes of the rounds, for `RoundBook.companion`.
        ends: Number of rounds up to the end of each look.
        deadlines: Deadlines of the looks.
        segments: Segments of the contexts; None without segments.
        settled: Number of looks that are durable.

    Raises:
        InvalidParameter: The arguments do not fit together.
    """

    def __init__(
        self,
        readout: Readout,
        *,
        reward_range: RewardRange,
        contexts: Schema | None,
        labels: Sequence[Label],
        horizon: int,
        delay: int | timedelta,
        privacy: JointDP,
        learned: Certificate | None,
        learning: JointDP,
        noise: NoiseSource,
        coins: PublicCoins,
        charged: bool,
    ) -> None:
        self.readout, self.learning, self._coins = readout, learning, coins
        self.outcomes: tuple[ToldMetric, ...] = readout.outcomes(reward_range)
        self._places = {one.name: place for place, one in enumerate(self.outcomes[1:])}
        self.lattice = Lattice(self.outcomes, privacy.rounds_per_user > 1)
        rounds = horizon - (0 if isinstance(delay, timedelta) else delay)
        if rounds < readout.looks:
            raise InvalidParameter(f"readout: {readout.looks} looks need more rounds than {max(0, rounds)}")
        self.ends = tuple(rounds * number // readout.looks for number in range(1, readout.looks + 1))
        self.deadlines = Deadlines(self.ends, delay)
        self._delay = horizon - rounds
        self.segments = None
        if readout.segments is not None and contexts is not None:
            unit, squared = int(self.lattice.units[0]), not self.outcomes[0].yes_no
            self.segments = SegmentSums.of(readout.segments, contexts, unit=unit, squared=squared)
        groups = Groups(coins, readout.control.share, privacy.user_ids)
        self.rows = Rows(self.lattice, groups, self.segments, self.ends[-1])
        self._rounds_per_user = privacy.rounds_per_user
        if learned is None:
            raise InvalidParameter("readout: nothing is proven of the policy's learning")
        self.noises = BothNoises.planned(
            learned, privacy, noise, self.lattice, readout, segments=self.segments, charged=charged
        )
        self._arms = Arms(tuple(labels))
        self._looks: tuple[_Released, ...] = ()
        self.settled = 0
        self._settled_end: int | None = None
        self._judged: tuple[int, int | None] = 0, None
        self._coming: NDArray[np.int8] = np.zeros(0, dtype=np.int8)

    def __repr__(self) -> str:
        return f"ReadoutRun(looks={self.settled})"

    @property
    def bytes_needed(self) -> float:
        """Bytes of the outcomes of the rounds of the longest look, and of every round's group."""
        longest = int(np.diff((0, *self.ends)).max())
        return 2.0 * longest * (8 * len(self.outcomes) + 19) + 2.0 * self.ends[-1]

    # -- groups and the control's arms ------------------------------------------------------------

    def admit(self, start: int, count: int, digests: Sequence[bytes]) -> None:
        """Find the groups of the rounds that are asked next."""
        self._coming = self.rows.coming(start, count, digests)

    def instead(
        self,
        chosen: IntArray,
        propensities: FloatArray,
        candidates: FloatArray,
        available: BoolArray | None,
        start: int,
    ) -> tuple[IntArray, FloatArray]:
        """Return rows and propensities (B,), with the control's for its rounds and after a stop.

        Args:
            chosen: Rows (B,) that the policy chose.
            propensities: Probabilities of these rows, NaN where not known.
            candidates: Decision sets (B, n, d), contexts followed by the arm's code.
            available: Mask of available rows (B, n); None if all are available.
            start: Round of the first set.
        """
        served = self._coming == CONTROL
        if self.rows.stopped is not None and start >= self.rows.stopped:
            served = np.ones(len(served), dtype=np.bool_)
        if not served.any():
            return chosen, propensities
        theirs, chances = self._served(candidates, available, start)
        return np.where(served, theirs, chosen), np.where(served, chances, propensities)

    def _served(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray]:
        arm, (count, n) = self.readout.control.arm, candidates.shape[:2]
        ties = self._coins.uniform("readout/control", start, start + count, 1)[:, 0]
        rows, chances = uniform_choice(ties, n, available)
        if isinstance(arm, PublishedPosterior):
            mean = arm.at_points(candidates.reshape(count * n, -1))[0].reshape(count, n)
            mean = mean if available is None else np.where(available, mean, -np.inf)
            return np.asarray(first_best(mean, unit=arm.reward_range.width)), np.ones(count)
        if arm == UNIFORM:
            return rows, chances
        fits = candidates[..., -1] == self._arms.code(arm)
        fits &= True if available is None else available
        found = fits.any(axis=1)
        return np.where(found, fits.argmax(axis=1), rows), np.where(found, 1.0, chances)

    @property
    def coming(self) -> tuple[str | None, ...]:
        """`Decision.group` of the rounds that `admit` was called for last."""
        return tuple(NAMES[code] for code in self._coming.tolist())

    def names(self, start: int, stop: int) -> tuple[str | None, ...]:
        """Return `Decision.group` of rounds start..stop-1."""
        return tuple(NAMES[code] for code in self.rows.codes(start, stop).tolist())

    def learns(self, start: int, stop: int) -> BoolArray:
        """Return a mask of the rounds start..stop-1 that learning may use: those of the policy group."""
        return np.asarray(self.rows.codes(start, stop) == POLICY)

    def read(self, metrics: Mapping[str, Any] | None, count: int) -> FloatArray:
        """Return told metrics (count, M - 1), in their units: NaN where missing, infinity where unreadable.

        Raises:
            InvalidData: A name is not that of a metric, or there is another number of values.
        """
        if not isinstance(metrics, Mapping | None) and not hasattr(metrics, "keys"):
            raise InvalidData("metrics: expected a dict of values by the names of metrics")
        told = {} if metrics is None else dict(metrics)
        if not told.keys() <= self._places.keys():
            known = ", ".join(self._places) or "none beside the reward"
            raise InvalidData(f"metrics: an unknown name; the readout has {known}")
        found = np.full((count, len(self._places)), np.nan)
        for name, place in self._places.items():
            if name in told:
                values = _checks.column(told[name], name=name)
                if values.shape != (count,):
                    raise InvalidData(f"{name} has shape {values.shape}, expected ({count},)")
                found[:, place] = values
        return found

    def read_one(self, metrics: Mapping[str, Any]) -> list[float] | None:
        """Return one round's metrics (M - 1,) as `read` does; None if that has to read or refuse them."""
        found = [math.nan] * len(self._places)
        for name, value in metrics.items():
            if name not in self._places or not is_plain(value):
                return None
            found[self._places[name]] = float(value)
        return found

    # -- releases ---------------------------------------------------------------------------------

    @property
    def drawn(self) -> int:
        """Number of looks that were drawn, durable or not."""
        return len(self._looks)

    @property
    def planned(self) -> int:
        """Number of all looks: fewer than `Readout.looks` if the readout has ended early."""
        ended = self.rows.ended
        return len(self.ends) if ended is None else bisect_left(self.ends, ended) + 1

    def reach(self, looks: int) -> int:
        """Return the number of first rounds that are in the first `looks` looks."""
        end, ended = (0, *self.ends)[looks], self.rows.ended
        return end if ended is None else min(end, ended)

    @property
    def reached(self) -> float | None:
        """Share of the planned rounds that are in a look, if the last look has ended early; else None."""
        ended = self.rows.ended
        return None if ended is None or ended in self.ends else ended / self.ends[-1]

    @property
    def unsaved(self) -> bool:
        """True if something was drawn, or has ended, that may not be durable."""
        return self.drawn > self.settled or self.rows.ended != self._settled_end

    @property
    def finished(self) -> bool:
        """True if no look follows, and this is durable."""
        return self.settled == self.planned and not self.unsaved

    def due(self, asked: int) -> bool:
        """Return True if a look is due after `asked` asks."""
        if self.drawn == self.planned:
            return False
        return self.rows.ended is not None or self.drawn < self.deadlines.due(asked)

    def end(self, asked: int) -> None:
        """End the readout with the rounds whose delay has passed after `asked` asks.

        Raises:
            ProtocolError: No round has its delay.
        """
        if self.rows.ended is None and self.drawn < self.planned:
            reached = max(self.reach(self.drawn), asked - self._delay)
            if reached <= 0:
                raise ProtocolError("end_readout: no round has passed its reporting_delay")
            self.rows.ended = reached

    def uses(self, noise: NoiseSource) -> tuple[Release, ...]:
        """Return all purposes of noise, for the log of releases: both of looks, then both of segments."""
        drawn = [self.drawn] * 2 + [min(self.drawn, 1)] * 2
        return tuple(
            Release(purpose=purpose, record=record, noise=noise, drawn=number, charge="")
            for (purpose, record), number in zip(self._records, drawn, strict=False)
        )

    @cached_property
    def _records(self) -> tuple[tuple[str, MechanismRecord], ...]:
        noises = self.noises
        kinds = [(PURPOSES, (noises.policy, noises.control), AT_LOOKS, self.readout.looks)]
        if noises.segments is not None:
            kinds.append((IN_SEGMENTS, noises.segments, OF_SEGMENTS, 1))
        return tuple(
            (purpose, own.record(name, most))
            for purposes, both, names, most in kinds
            for purpose, own, name in zip(purposes, both, names, strict=True)
        )

    @property
    def records(self) -> tuple[MechanismRecord, ...]:
        """Descriptions of all noise, for the statement."""
        return tuple(record for _, record in self._records)

    def coming_uses(self, noise: NoiseSource) -> tuple[Release, ...]:
        """Return the purposes of the noise that `release` draws next: at the first look also of segments."""
        return self.uses(noise)[: 2 if self.drawn else None]

    def release(self, noise: NoiseSource) -> None:
        """Draw the look that is due; an interrupt leaves either no change or a complete one."""
        cells = self.rows.in_segments
        if self.segments is not None and self.noises.segments is not None and not self.drawn:
            drawn = [own.draw(noise).reshape(self.segments.shape) for own in self.noises.segments]
            cells = 0, np.array(drawn)
        start, stop = self.reach(self.drawn), self.reach(self.drawn + 1)
        sums, public = [], []
        for code, own in ((POLICY, self.noises.policy), (CONTROL, self.noises.control)):
            rows = self.rows.of_group(code, start, stop)
            exact = self.lattice.sums(rows.values, rows.answered, rows.people, gaussian=own.gaussian)
            sums.append(exact + own.draw(noise))
            public.append([rows.rounds, rows.users, rows.squared_rounds, rows.overlap])
        found = _Released(np.array(sums), np.array(public, dtype=np.int64))
        self._looks, self.rows.in_segments = (*self._looks, found), cells

    def close(self, asked: int) -> None:
        """Delete the outcomes of the rounds whose looks were drawn, and stop after `asked` rounds if due."""
        stop = self.readout.stop
        ends = stop is not None and stop.then is not None and self.rows.stopped is None
        if ends and self.stopped_at(self.drawn) is not None:
            self.rows.ended, self.rows.stopped = self.reach(self.drawn), asked
        self.rows.close(self.reach(self.drawn))

    def settle(self) -> None:
        """Note that everything that was drawn is durable."""
        self.settled, self._settled_end = self.drawn, self.rows.ended

    # -- post-processing --------------------------------------------------------------------------

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Public descriptions of the metrics, the reward first."""
        stop = self.readout.stop
        return tuple(
            Metric(
                name=one.name,
                low=one.bounds.low,
                high=one.bounds.high,
                default=one.default,
                yes_no=one.yes_no,
                harm=stop is not None and stop.harm == one.name,
            )
            for one in self.outcomes
        )

    def looks(self, count: int) -> tuple[Look, ...]:
        """Return the first `count` released looks."""
        share = self.readout.control.share
        return tuple(
            Look(
                policy=self._group(one, POLICY),
                control=self._group(one, CONTROL),
                share=share,
            )
            for one in self._looks[:count]
        )

    @property
    def cells(self) -> tuple[CellTable, CellTable] | None:
        """Released sums in segments of the policy and of the control group, once no look follows."""
        noises, segments, released = self.noises.segments, self.segments, self.rows.in_segments
        if noises is None or segments is None or released is None or not self.finished:
            return None
        pairs = zip(released[1], noises, strict=True)
        policy, control = (segments.table(one, own.law_of) for one, own in pairs)
        return policy, control

    @property
    def most_rounds(self) -> int:
        """Largest number of rounds of a user."""
        return self._rounds_per_user

    def stopped_at(self, count: int) -> int | None:
        """Return the first of `count` looks, from 1, at which the rule has stopped; None if it has not."""
        stop = self.readout.stop
        if stop is None or not count:
            return None
        seen, found = self._judged
        if found is None and seen < count:
            found = crossed(
                self.looks(count),
                self.metrics,
                harm=stop.harm,
                above=stop.above,
                planned_looks=len(self.ends),
                first=seen + 1,
                reached=self.reached if count == self.planned else None,
            )
            self._judged = count, found
        return found if found is not None and found <= count else None

    @property
    def sum_sds(self) -> tuple[float, float]:
        """Standard deviation of a look's sum of rewards, in rounds of the full range: policy and control."""
        policy, control = (
            own.sd * float(self.lattice.scales(gaussian=own.gaussian)[0][0])
            for own in (self.noises.policy, self.noises.control)
        )
        return policy, control

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers and what releases say of the rule."""
        stop = self.readout.stop
        found = {
            "looks_released": self.settled,
            "look_ends": list(self.ends),
            "control_share": self.readout.control.share,
            "noise_sd": list(self.sum_sds),
        }
        if stop is not None:
            found |= {"stop": {**stop.to_config(), "stopped_at_look": self.stopped_at(self.settled)}}
        return found

    def _group(self, one: _Released, code: int) -> Group:
        own = (self.noises.policy, self.noises.control)[code]
        m, squared = len(self.outcomes), self.lattice.squared
        of_sums, of_squares = self.lattice.scales(gaussian=own.gaussian)
        released, public = one.sums[code], one.public[code].tolist()
        squares = np.full(m, np.nan)
        squares[squared] = released[m:-1] * of_squares[squared]
        return Group(
            rounds=public[0],
            users=public[1],
            squared_rounds=public[2],
            overlap=public[3],
            sums=released[:m] * of_sums,
            squares=squares,
            answered=self.lattice.answers(released, public[0]),
            sum_laws=tuple(own.law_of(step) for step in of_sums.tolist()),
            square_laws=tuple(own.law_of(step) for step in np.nan_to_num(of_squares).tolist()),
            answered_laws=tuple(own.law_of(abs(step)) for step in self.lattice.of_answers),
        )

    # -- state ------------------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """Return the durable looks and the rule's state as public JSON, for `follow`."""
        looks = [[one.sums.tolist(), one.public.tolist()] for one in self._looks[: self.settled]]
        shown = {"looks": looks, "closed": self.rows.closed}
        shown |= {"stopped": self.rows.stopped, "ended": self.rows.ended}
        known = self.rows.in_segments if self.finished else None
        return shown | {"segments": None if known is None else known[1].tolist()}

    def follow(self, shown: Mapping[str, Any]) -> None:
        """Take over what `shown` has returned in the process that releases the looks."""
        self._looks = tuple(
            _Released(*(np.array(part, dtype=np.int64) for part in one)) for one in shown["looks"]
        )
        self.rows.stopped, self.rows.ended = shown["stopped"], shown["ended"]
        if shown["segments"] is not None:
            self.rows.in_segments = self.rows.ended or 0, np.array(shown["segments"], dtype=np.int64)
        self.settle()

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the secret arrays of a saved state, by name."""
        count, size = len(self._looks), self.lattice.size
        found = {
            **self.rows.arrays(),
            "readout_sums": np.array([one.sums for one in self._looks], dtype=np.int64).reshape(
                count, 2, size
            ),
            "readout_public": np.array([one.public for one in self._looks], dtype=np.int64).reshape(
                count, 2, PUBLIC_NUMBERS
            ),
        }
        kept = self.deadlines.arrays()
        return found | {f"readout_{name}": array for name, array in kept.items()}

    def restore(self, arrays: Mapping[str, np.ndarray[Any, Any]], *, asked: int) -> None:
        """Restore the arrays of a saved state with `asked` rounds.

        Raises:
            CorruptState: The arrays contradict each other or the configuration.
        """
        sums, public = arrays["readout_sums"], arrays["readout_public"]
        count = len(sums)
        fits = sums.dtype == public.dtype == np.int64 and count <= len(self.ends)
        fits &= sums.shape == (count, 2, self.lattice.size) and public.shape == (count, 2, PUBLIC_NUMBERS)
        if not fits:
            raise CorruptState("the saved looks contradict the saved configuration")
        self.rows.restore(arrays, asked=asked)
        self._looks = tuple(_Released(*one) for one in zip(sums, public, strict=True))
        if count > self.planned or self.rows.closed != self.reach(count):
            raise CorruptState("the saved rounds of the readout contradict its looks")
        if self.segments is not None and (self.rows.in_segments is None) != (count == 0):
            raise CorruptState("the saved sums in segments contradict the saved looks")
        names = ("deadlines",) if "readout_deadlines" in arrays else ()
        self.deadlines.restore({name: arrays[f"readout_{name}"] for name in names})
        self.settle()


def check_supported(readout: Readout, setup: Setup, *, release: str) -> None:
    """Raise `InvalidParameter` for another type, and if a policy cannot have this readout.

    Args:
        readout: Public arguments of the readout.
        setup: Public arguments of the policy, with the whole promise.
        release: Kind of release.
    """
    _checks.an(readout, Readout, name="readout", pass_='readout=Readout(control=Control(arm="nothing"))')
    menu, privacy, tuning = setup.menu, setup.privacy, setup.tuning
    if menu is None or setup.actions is not None:
        raise InvalidParameter(
            "readout: needs contexts= and a list of arms=; actions=, Products and domain= have no readout yet"
        )
    if setup.horizon is None or tuning.lag or tuning.decision_sets == "public":
        raise InvalidParameter("readout: needs a known horizon, GPTuning(lag=0) and private decision sets")
    if privacy.rounds_per_user > (MOST_ROUNDS if privacy.user_ids else 1):
        raise InvalidParameter(
            f"readout: a user stays in one group, so several rounds a user need user ids, and are at most "
            f"{MOST_ROUNDS}"
        )
    if readout.segments is not None:
        SegmentSums.of(readout.segments, menu.contexts, unit=1, squared=False)
    arm, labels = readout.control.arm, menu.arms
    if isinstance(arm, PublishedPosterior):
        same = arm.menu is not None and arm.menu.contexts.to_config() == menu.contexts.to_config()
        if not same or arm.arms != labels.labels:
            raise InvalidParameter(
                "Control: the published function has other contexts or arms than the policy"
            )
    elif (arm == UNIFORM) == (labels.code(arm) >= 0):
        raise InvalidParameter(
            "Control: expected the label of an arm, or 'uniform', which must not be the label of an arm"
        )
    most = 1.0 / labels.n_arms
    if readout.minimum and release != "marginals":
        raise InvalidParameter("minimum: needs GPTuning(release='marginals'), whose propensities are known")
    if any(labels.code(label) < 0 or least > most for label, least in readout.minimum.items()):
        raise InvalidParameter(
            f"minimum: expected labels of arms, each with a share of at most one over their number, {most:g}"
        )
