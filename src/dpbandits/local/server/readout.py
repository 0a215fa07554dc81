"""The answer of a readout under local privacy, from the counts of randomised bits.

A report is 1 with probability q + (p - q) s, with s the outcome's share of its range. So a report is a yes/no
metric of its own, whose 0 stands for the outcome share -q/(p - q) and whose 1 for (1 - q)/(p - q). Its mean
is the mean outcome, and its binomial variance includes sampling and randomisation. The intervals of
`dpbandits.models.readout.estimates` for yes/no metrics without noise apply, in units of the bit; they
evaluate the variance at the value that is tested.

`always` holds at all times together: it is the interval for any number of looks, with the information
counted in reports and narrowest at the expected number of devices.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import bdtr, bdtrc

from dpbandits import _checks
from dpbandits._seen import Seen, said
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import ProtocolError
from dpbandits.local.contract.readout import CONTROL, POLICY, ReadoutSpec
from dpbandits.models.readout import SAMPLE_RATIO_THRESHOLD, ReadMetric, plain_numbers
from dpbandits.models.readout.boundaries import TIGHTEST, any_number_level
from dpbandits.models.readout.estimates import Contrast, Interval, Side

__all__ = ["LocalReadoutResult", "group_sizes", "outcome_intervals", "read_outcomes"]

_LEAST_LEVEL = 1e-12
"""Smallest error probability of one end.

With a smaller one there are too few reports, and the interval for all times is the whole range.
"""


@dataclass(frozen=True, repr=False)
class LocalReadoutResult(Seen):
    """Comparison of a policy with its control from reports of devices.

    Attributes:
        reward: Estimates and intervals, in the units of the outcome. `interval` holds if the readout is read
            once, `always` if it is read at any times.
        sentence: The answer in words, and what qualifies it.
        reports: Numbers of reports of the control and of the policy group.
        share: Public share of devices in the control group.
        sample_ratio: P-value of the hypothesis that devices report with equal chances in both groups.
        comparable: False if `sample_ratio` is below `SAMPLE_RATIO_THRESHOLD`.
        confidence: Confidence of the intervals.
        epsilon: Epsilon of each report.
    """

    reward: ReadMetric
    sentence: str
    reports: tuple[int, int]
    share: float
    sample_ratio: float
    comparable: bool
    confidence: float
    epsilon: float

    def __repr__(self) -> str:
        return said(self, reports=sum(self.reports), difference=self.reward.difference)

    def explain(self) -> str:
        """Return the answer in words, and what it cost."""
        one = self.reward
        return (
            f"{self.sentence}\n\nControl: {one.control:.4g} ({_ends(one.control_interval, '.4g')}). Policy: "
            f"{one.policy:.4g} ({_ends(one.policy_interval, '.4g')}). Each device sent one report, which is "
            f"{self.epsilon:g}-locally differentially private. The intervals include sampling and "
            "randomised response, and reading them costs no further privacy."
        )

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain values for JSON; numbers that are not finite become None."""
        plain: dict[str, Any] = plain_numbers(asdict(self))
        return plain


def outcome_intervals(
    spec: ReadoutSpec, reports: IntArray, ones: IntArray, *, confidence: float = 0.95
) -> tuple[Contrast, Interval, Interval]:
    """Return the comparison of R readouts in units of the reported bit, and two intervals of each difference.

    Args:
        spec: Contract of the readouts.
        reports: Numbers of reports of the control and of the policy group (R, 2), above 0.
        ones: Numbers of these reports whose bit is 1, (R, 2).
        confidence: Confidence of the intervals.

    Returns:
        The comparison; the interval for a readout that is read once, as two arrays (R,); and the interval
        that holds at all times. Divide a difference by p - q to get shares of the outcome's range.
    """
    n, bits = np.asarray(reports, dtype=np.float64)[..., None], np.asarray(ones)[..., None]

    def group(which: int) -> Side:
        rounds, zeros = n[..., which, :], np.zeros_like(n[..., which, :])
        return Side(
            weights=zeros + 1.0,
            rounds=rounds,
            squared_rounds=rounds,
            overlap=zeros,
            sums=bits[..., which, :] - 0.5 * rounds,
            squares=zeros + np.nan,
            laplace=zeros,
            gaussian=zeros,
            square_sd=zeros,
            users=rounds,
        )

    contrast = Contrast(group(POLICY), group(CONTROL))
    side = 0.5 * (1.0 - _checks.probability(confidence, name="confidence"))
    first, total = spec.n_users / TIGHTEST, n.sum(axis=(-2, -1))
    level = any_number_level(np.stack([np.full_like(total, first), total - first], axis=-1), side=side)
    low, high = contrast.interval(np.maximum(level, _LEAST_LEVEL))
    few = level < _LEAST_LEVEL
    return contrast, contrast.interval(side), (np.where(few, -1.0, low), np.where(few, 1.0, high))


def group_sizes(spec: ReadoutSpec, reports: IntArray) -> FloatArray:
    """Return the p-value (R,) of R pairs of group sizes (R, 2), if devices report with equal chances.

    It is twice the smaller exact binomial tail.
    """
    k, n = reports[..., CONTROL], reports.sum(-1)
    tails = np.minimum(bdtr(k, n, spec.share), bdtrc(np.maximum(k - 1, 0), n, spec.share))
    return np.asarray(np.minimum(2.0 * tails, 1.0))


def read_outcomes(
    spec: ReadoutSpec, reports: tuple[int, int], ones: tuple[int, int], *, confidence: float = 0.95
) -> LocalReadoutResult:
    """Return the comparison of both groups; arguments as for `outcome_intervals`, for one readout.

    Raises:
        ProtocolError: A group has no reports.
    """
    if not all(reports):
        raise ProtocolError("readout: no answer yet, as a group has no reports")
    contrast, once, always = outcome_intervals(
        spec, np.array([reports]), np.array([ones]), confidence=confidence
    )
    p, q = map(float, spec.protocol.bit.rates)
    low, width = spec.reward_range.low, spec.reward_range.width
    unit, side = width / (p - q), 0.5 * (1.0 - confidence)

    def mean(bit: FloatArray) -> float:
        return low + unit * (float(bit[0]) - q)

    def within(ends: Interval) -> tuple[float, float]:
        """Return the interval of a mean, without values that no outcomes have."""
        first, last = (min(max(mean(end), low), low + width) for end in ends)
        return first, last

    def apart(ends: Interval) -> tuple[float, float]:
        first, last = (min(max(unit * float(end[0]), -width), width) for end in ends)
        return first, last

    ratio, ratio_ends = math.nan, (math.nan, math.nan)
    if low >= 0.0:
        found, ends = contrast.ratio(side, shift=low / unit - q)
        ratio, ratio_ends = float(found[0]), (float(ends[0][0]), float(ends[1][0]))
    reward = ReadMetric(
        name="reward",
        control=mean(contrast.control.mean),
        control_interval=within(contrast.control.interval(side)),
        policy=mean(contrast.policy.mean),
        policy_interval=within(contrast.policy.interval(side)),
        difference=unit * float(contrast.difference[0]),
        interval=apart(once),
        always=apart(always),
        p_value=float(contrast.equal()[0]),
        ratio=ratio,
        ratio_interval=ratio_ends,
        harm=False,
    )
    sizes = float(group_sizes(spec, np.array(reports)))
    return LocalReadoutResult(
        reward=reward,
        sentence=_sentence(spec, reward, reports, confidence=confidence, sizes=sizes),
        reports=reports,
        share=spec.share,
        sample_ratio=sizes,
        comparable=sizes >= SAMPLE_RATIO_THRESHOLD,
        confidence=confidence,
        epsilon=spec.privacy.epsilon,
    )


def _ends(ends: tuple[float, float], form: str = "+.4g") -> str:
    return f"{ends[0]:{form}} to {ends[1]:{form}}"


def _sentence(
    spec: ReadoutSpec, found: ReadMetric, reports: tuple[int, int], *, confidence: float, sizes: float
) -> str:
    low, high = found.interval
    if low > 0.0:
        answer = "earns more than the control"
    elif high < 0.0:
        answer = "earns less than the control"
    else:
        answer = "is not shown to differ from the control"
    text = (
        f"The policy {answer}: its mean outcome is {found.policy:.4g} against {found.control:.4g}, a "
        f"difference of {found.difference:+.4g} ({confidence:.0%} interval {_ends(found.interval)}). "
        f"{reports[POLICY]:,} devices of the policy group and {reports[CONTROL]:,} of the control group "
        f"reported. If you read before you know when to stop, use the interval for all times, "
        f"{_ends(found.always)}. Missing outcomes count as {spec.missing:g}, and outcomes outside "
        f"{spec.reward_range.low:g} to {spec.reward_range.high:g} as the nearer bound."
    )
    if sizes < SAMPLE_RATIO_THRESHOLD:
        text += (
            f" The numbers of reports do not fit the control's share of {spec.share:.1%} (p = {sizes:.2g}): "
            "the groups cannot be compared as they are."
        )
    return text
