"""`ReadoutResult`: answer of a readout after its looks so far, computed from releases and public numbers."""

from dataclasses import dataclass, field
from typing import Any

from dpbandits._seen import Seen, said
from dpbandits.central.readout.run import ReadoutRun
from dpbandits.domains import RewardRange
from dpbandits.errors import ProtocolError
from dpbandits.models.readout import CellTable, Look, Metric, ReadCell, Readings, ReadMetric, compare_groups
from dpbandits.models.readout import segments as compare_cells
from dpbandits.privacy.definitions import JointDP

__all__ = ["ReadoutResult", "read_looks"]

NO_LOOK = (
    "readout: no look with rounds of both groups was released yet: the first is due after {first} rounds"
)

EARLIER = " More looks follow: if you decide before the last one, use the interval for all looks, {always}."

ENDED = " The comparison ended early: use the interval for all looks, {always}."

ENDED_SEGMENTS = (
    " Intervals in segments hold as stated only if nobody ended the comparison because of an earlier look."
)

TOO_LITTLE = (
    " There is too little data for an answer: compared with the rewards themselves, the interval is too wide."
)

CLIPPED = (
    " Values of {name} outside {low:g} to {high:g} count as the nearer bound, so a difference beyond these "
    "bounds is hidden."
)

UNEQUAL = (
    " The groups answer unequally often, {policy:.1%} of the policy's rounds and {control:.1%} of the "
    "control's (p = {p:.2g}): the difference may come from missing answers."
)

STOPPED = " The stop rule is met: {harm} exceeds that of the control by more than {above:g}."


@dataclass(frozen=True, repr=False)
class ReadoutResult(Seen):
    """Comparison of a policy with its control group.

    Attributes:
        readings: Estimates, intervals and the check of the sample ratio.
        sentence: The answer about the reward, in words, and what qualifies it.
        stopped: Number of the look, from 1, at which the rule of `Readout.stop` stopped; None if it did not.
        learning: Promise to which learning was calibrated, so that the readout could be paid.
        sums: Standard deviation of the noise of a sum of rewards at a look, in rounds of the full range, of
            the policy group and of the control group.
        looks: Released sums of every look so far.
        metrics: Public descriptions of the metrics.
        segments: Comparison of the reward in each segment; empty before the last look, or without segments.
        tables: Released sums in segments of the policy and of the control group; None before their release.
        reached: Share of all planned rounds that are in a look, if the last look ended early; else None.
    """

    readings: Readings
    sentence: str
    stopped: int | None
    learning: JointDP
    sums: tuple[float, float]
    looks: tuple[Look, ...] = field(compare=False)
    metrics: tuple[Metric, ...]
    segments: tuple[ReadCell, ...] = ()
    tables: tuple[CellTable, CellTable] | None = field(default=None, compare=False)
    reached: float | None = None

    @property
    def reward(self) -> ReadMetric:
        """Estimates of the reward."""
        return self.readings.metrics[0]

    def __getitem__(self, name: str) -> ReadMetric:
        for one in self.readings.metrics:
            if one.name == name:
                return one
        raise KeyError(name)

    def by_look(self) -> tuple[Readings, ...]:
        """Return the readings as they were after each look, from the first with rounds of both groups."""
        first = next(k for k, look in enumerate(self.looks, start=1) if _both(look))
        return tuple(
            compare_groups(
                self.looks[:k],
                self.metrics,
                planned_looks=self.readings.planned_looks,
                confidence=self.readings.confidence,
                reached=self.reached if k == len(self.looks) else None,
            )
            for k in range(first, len(self.looks) + 1)
        )

    def __repr__(self) -> str:
        return said(self, looks=self.readings.looks, planned_looks=self.readings.planned_looks)

    def explain(self) -> str:
        """Return the answer in words, with a line for each metric and what the readout cost."""
        lines = [self.sentence, ""]
        lines += [
            f"{one.name}: policy {one.policy:.4g}, control {one.control:.4g}, difference "
            f"{one.difference:+.4g} ({one.interval[0]:+.4g} to {one.interval[1]:+.4g}; for all looks "
            f"{one.always[0]:+.4g} to {one.always[1]:+.4g})"
            for one in self.readings.metrics
        ]
        if self.segments:
            lines += ["", "The reward in segments, which were read once. All their intervals hold together."]
        lines += [
            f"{one.name}: too few rounds to compare"
            if not one.enough
            else f"{one.name}: policy {one.policy:.4g}, control {one.control:.4g}, difference "
            f"{one.difference:+.4g} ({one.interval[0]:+.4g} to {one.interval[1]:+.4g}; p = {one.p_value:.2g})"
            for one in self.segments
        ]
        lines += [
            "",
            f"Learning has epsilon {self.learning.epsilon:.4g}. The rest of the promise pays for the "
            f"readout. At each look, noise changes the sum of rewards by about {self.sums[0]:.3g} times the "
            f"width of the reward's range in the policy group, and {self.sums[1]:.3g} times in the "
            "control group.",
        ]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values for JSON."""
        return {
            "readings": self.readings.to_json(),
            "sentence": self.sentence,
            "stopped": self.stopped,
            "learning": self.learning.to_config(),
            "sums": list(self.sums),
            "segments": [one.to_json() for one in self.segments],
        }


def read_looks(run: ReadoutRun, *, confidence: float) -> ReadoutResult:
    """Return the result of the durable looks.

    Raises:
        ProtocolError: No look with rounds of both groups was released.
    """
    looks = run.looks(run.settled)
    if not any(map(_both, looks)):
        raise ProtocolError(NO_LOOK.format(first=run.ends[0]))
    planned = len(run.ends)
    readings = compare_groups(
        looks, run.metrics, planned_looks=planned, confidence=confidence, reached=run.reached
    )
    segments = _in_segments(run, confidence)
    stopped, stop = run.stopped_at(run.settled), run.readout.stop
    sentence = _sentence(readings)
    if _too_wide(readings.metrics[0], run.outcomes[0].bounds):
        sentence += TOO_LITTLE
    for one in run.outcomes:
        if one.bounds.clip:
            sentence += CLIPPED.format(name=one.name, low=one.bounds.low, high=one.bounds.high)
    if readings.looks < planned or run.reached is not None:
        low, high = readings.metrics[0].always
        said_of = EARLIER if run.rows.ended is None else ENDED
        sentence += said_of.format(always=f"{low:+.4g} to {high:+.4g}")
        sentence += ENDED_SEGMENTS if segments else ""
    if not readings.comparable:
        control, policy = readings.answered
        sentence += UNEQUAL.format(control=control, policy=policy, p=readings.sample_ratio)
    if stopped is not None and stop is not None:
        sentence += STOPPED.format(harm=stop.harm, above=stop.above)
    known = run.learning, run.sum_sds, looks, run.metrics, segments, run.cells, run.reached
    return ReadoutResult(readings, sentence, stopped, *known)


def _in_segments(run: ReadoutRun, confidence: float) -> tuple[ReadCell, ...]:
    released, segments = run.cells, run.segments
    if released is None or segments is None:
        return ()
    policy, control = released
    return compare_cells(
        [f"{segments.column} {name}" for name in segments.names],
        policy,
        control,
        run.metrics[0],
        shares=[run.readout.control.share],
        confidence=confidence,
        most_rounds=run.most_rounds,
    )


def _sentence(readings: Readings) -> str:
    reward, (control, policy) = readings.metrics[0], readings.rounds
    low, high = reward.interval
    if low > 0.0:
        answer = "earns more than the control"
    elif high < 0.0:
        answer = "earns less than the control"
    else:
        answer = "is not shown to differ from the control"
    return (
        f"The policy {answer}: its mean reward is {reward.policy:.4g} against {reward.control:.4g}, a "
        f"difference of {reward.difference:+.4g} ({readings.confidence:.0%} interval {low:+.4g} to "
        f"{high:+.4g}). This was read after {readings.looks} of {readings.planned_looks} looks, with "
        f"{policy:,} rounds of the policy and {control:,} of the control."
    )


def _too_wide(reward: ReadMetric, bounds: RewardRange) -> bool:
    """Return True if the interval holds 0 and reaches as far as the mean reward, or half the range."""
    low, high = reward.interval
    mean = min(max(reward.policy, reward.control), bounds.high) - bounds.low
    return low <= 0.0 <= high and high - low > min(2.0 * mean, bounds.width)


def _both(look: Look) -> bool:
    return look.policy.rounds > 0 and look.control.rounds > 0
