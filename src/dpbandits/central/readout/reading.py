"""`ReadoutResult`: answer of a readout after its looks so far, computed from releases and public numbers."""

from dataclasses import dataclass
from typing import Any

from dpbandits._seen import Seen, said
from dpbandits.central.readout.declared import REWARD
from dpbandits.central.readout.run import ReadoutRun
from dpbandits.errors import ProtocolError
from dpbandits.models.readout import Readings, ReadMetric, compare_groups
from dpbandits.privacy.definitions import JointDP

__all__ = ["ReadoutResult", "read_looks"]

NO_LOOK = (
    "readout: no look with rounds of both groups was released yet: the first is due after {first} rounds"
)

EARLIER = " More looks follow: if you decide before the last one, use the interval for all looks, {always}."

ENDED = " The comparison ended early: use the interval for all looks, {always}."

CLIPPED = " Values of {name} outside {low:g} to {high:g} count as the nearer bound."

UNEQUAL = (
    " The groups answer unequally often, {policy:.1%} of the policy's rounds and {control:.1%} of the "
    "control's (p = {p:.2g}): the difference may come from missing answers."
)

STOPPED = " The rule has stopped: {harm} exceeds that of the control by more than {above:g}."


@dataclass(frozen=True, repr=False)
class ReadoutResult(Seen):
    """Comparison of a policy with its control group.

    Attributes:
        readings: Estimates, intervals and the check of the sample ratio.
        sentence: The answer about the reward, in words.
        stopped: Number of the look, from 1, at which the rule of `Readout.stop` stopped; None if it did not.
        learning: Promise to which learning was calibrated, so that the readout could be paid.
        sums: Standard deviation of the noise of a sum of rewards at a look, in rounds of the full range, of
            the policy group and of the control group.
    """

    readings: Readings
    sentence: str
    stopped: int | None
    learning: JointDP
    sums: tuple[float, float]

    @property
    def reward(self) -> ReadMetric:
        """Estimates of the reward."""
        return self.readings.metrics[0]

    def __getitem__(self, name: str) -> ReadMetric:
        """Return the estimates of the metric of this name."""
        for one in self.readings.metrics:
            if one.name == name:
                return one
        raise KeyError(name)

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
        lines += [
            "",
            f"Learning was calibrated to epsilon {self.learning.epsilon:.4g} to pay for the readout. The "
            f"noise of a sum at a look has the standard deviation {self.sums[0]:.3g} in the policy group and "
            f"{self.sums[1]:.3g} in the control group, in rounds of the full range.",
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
        }


def read_looks(run: ReadoutRun, *, confidence: float) -> ReadoutResult:
    """Return the result of the durable looks.

    Raises:
        ProtocolError: No look with rounds of both groups was released.
    """
    looks = run.looks(run.settled)
    if not any(look.policy.rounds and look.control.rounds for look in looks):
        raise ProtocolError(NO_LOOK.format(first=run.ends[0]))
    planned = len(run.ends)
    readings = compare_groups(looks, run.metrics, planned_looks=planned, confidence=confidence)
    stopped, stop = run.stopped_at(run.settled), run.readout.stop
    sentence = _sentence(readings)
    bounds = run.outcomes[0].bounds
    if bounds.clip:
        sentence += CLIPPED.format(name=REWARD, low=bounds.low, high=bounds.high)
    if readings.looks < planned:
        low, high = readings.metrics[0].always
        said_of = EARLIER if run.rows.stopped is None else ENDED
        sentence += said_of.format(always=f"{low:+.4g} to {high:+.4g}")
    if not readings.comparable:
        control, policy = readings.answered
        sentence += UNEQUAL.format(control=control, policy=policy, p=readings.sample_ratio)
    if stopped is not None and stop is not None:
        sentence += STOPPED.format(harm=stop.harm, above=stop.above)
    return ReadoutResult(readings, sentence, stopped, run.learning, run.sum_sds)


def _sentence(readings: Readings) -> str:
    """Return the answer about the reward in words."""
    reward, (control, policy) = readings.metrics[0], readings.rounds
    low, high = reward.interval
    if low > 0.0:
        answer = "earns more than the control"
    elif high < 0.0:
        answer = "earns less than the control"
    else:
        answer = "is not shown to differ from the control"
    return (
        f"After {readings.looks} of {readings.planned_looks} looks, with {policy} rounds of the policy and "
        f"{control} of the control, the policy {answer}: mean reward {reward.policy:.4g} against "
        f"{reward.control:.4g}, difference {reward.difference:+.4g}, {readings.confidence:.0%} interval "
        f"{low:+.4g} to {high:+.4g}."
    )
