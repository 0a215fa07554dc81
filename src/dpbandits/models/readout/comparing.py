"""Comparison of a policy with its control from the sums that a running policy released.

`compare_groups` reads all looks so far. Each interval comes twice: `interval` holds with the stated
confidence if the comparison is read once, `always` holds at all looks together. See `estimates` and
`boundaries`.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.readout.boundaries import any_number_level, planned_levels
from dpbandits.models.readout.estimates import Contrast, Interval, Side
from dpbandits.models.readout.sums import Group, Look, Metric

__all__ = ["SAMPLE_RATIO_THRESHOLD", "ReadMetric", "Readings", "compare_groups", "crossed", "plain_numbers"]

SAMPLE_RATIO_THRESHOLD = 0.001
"""P-value of the sample-ratio check below which the groups cannot be compared as they are."""

Ends = tuple[float, float]


@dataclass(frozen=True)
class ReadMetric:
    """Estimates of one metric, in the metric's units; intervals are (low, high).

    Attributes:
        name: Name of the metric.
        control: Mean of the control group.
        control_interval: Its interval.
        policy: Mean of the policy group.
        policy_interval: Its interval.
        difference: Policy minus control, by look.
        interval: Interval of the difference, for a comparison that is read once.
        always: Interval of the difference that holds at all looks together.
        p_value: Two-sided p-value of the hypothesis of no difference, for a comparison that is read once.
        ratio: Policy over control; nan where the control's mean is not positive, or `low` is negative.
        ratio_interval: Its interval; the upper end is infinite where the control's mean may be zero.
        harm: True if the metric is a guardrail: each end of its intervals holds with the stated confidence.
    """

    name: str
    control: float
    control_interval: Ends
    policy: float
    policy_interval: Ends
    difference: float
    interval: Ends
    always: Ends
    p_value: float
    ratio: float
    ratio_interval: Ends
    harm: bool


@dataclass(frozen=True)
class Readings:
    """Comparison of a policy with its control after some looks.

    Attributes:
        metrics: Estimates of every metric.
        looks: Number of looks that were read.
        planned_looks: Number of planned looks, or None if it is open.
        confidence: Confidence of the intervals.
        rounds: Public numbers of rounds of the control and of the policy group.
        answered: Estimated shares of answered rounds of the control and of the policy group.
        sample_ratio: P-value of the hypothesis that both groups answer equally often.
        comparable: False if `sample_ratio` is below `SAMPLE_RATIO_THRESHOLD`.
    """

    metrics: tuple[ReadMetric, ...]
    looks: int
    planned_looks: int | None
    confidence: float
    rounds: tuple[int, int]
    answered: tuple[float, float]
    sample_ratio: float
    comparable: bool

    def to_json(self) -> dict[str, Any]:
        """Return the readings as plain values for JSON; numbers that are not finite become None."""
        plain: dict[str, Any] = plain_numbers(asdict(self))
        return plain


def plain_numbers(value: Any) -> Any:
    """Return a value with tuples as lists, for JSON; numbers that are not finite become None."""
    if isinstance(value, dict):
        return {key: plain_numbers(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain_numbers(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def compare_groups(
    looks: Sequence[Look],
    metrics: Sequence[Metric],
    *,
    planned_looks: int | None,
    confidence: float = 0.95,
    reached: float | None = None,
) -> Readings:
    """Compare the policy group with the control group over all looks so far.

    Args:
        looks: Released sums of the looks so far, in order.
        metrics: Public descriptions of the M metrics.
        planned_looks: Number of looks that the whole comparison has, fixed before it began. None means that
            looks may go on for ever; `always` is then wider.
        confidence: Confidence of the intervals.
        reached: Share of all planned rounds after the last of `looks`, if that look ended early.

    Raises:
        InvalidParameter: No look has rounds of both groups, there are more looks than planned, or the numbers
            of metrics differ. All of these are public.
    """
    _check_planned(planned_looks, len(looks))
    usable = _usable(looks)
    if not usable:
        raise InvalidParameter("no look has rounds of both groups: there is nothing to compare")
    contrast, side = _contrast(usable, metrics), _side(metrics, confidence)
    answers = Contrast(*_answers(usable))
    low, span = _units(metrics)
    shift = np.maximum(low / span, 0.0)
    control, policy = contrast.control.interval(side), contrast.policy.interval(side)
    ratio, ratio_ends = contrast.ratio(side, shift=shift)
    no_ratio = low < 0.0
    fixed = contrast.interval(side)
    always = contrast.interval(_always_level(contrast, planned_looks, side, reached))
    check = float(answers.equal())
    p_values = contrast.equal()
    read = tuple(
        ReadMetric(
            name=metric.name,
            control=float(low[i] + span[i] * contrast.control.mean[i]),
            control_interval=_ends(control, i, low[i], span[i]),
            policy=float(low[i] + span[i] * contrast.policy.mean[i]),
            policy_interval=_ends(policy, i, low[i], span[i]),
            difference=float(span[i] * contrast.difference[i]),
            interval=_ends(fixed, i, 0.0, span[i]),
            always=_ends(always, i, 0.0, span[i]),
            p_value=float(p_values[i]),
            ratio=math.nan if no_ratio[i] else float(ratio[i]),
            ratio_interval=(math.nan, math.nan) if no_ratio[i] else _ends(ratio_ends, i, 0.0, 1.0),
            harm=metric.harm,
        )
        for i, metric in enumerate(metrics)
    )
    return Readings(
        metrics=read,
        looks=len(looks),
        planned_looks=planned_looks,
        confidence=confidence,
        rounds=(sum(look.control.rounds for look in looks), sum(look.policy.rounds for look in looks)),
        answered=(float(answers.control.mean), float(answers.policy.mean)),
        sample_ratio=check,
        comparable=check >= SAMPLE_RATIO_THRESHOLD,
    )


def crossed(
    looks: Sequence[Look],
    metrics: Sequence[Metric],
    *,
    harm: str,
    above: float,
    planned_looks: int | None,
    confidence: float = 0.95,
    first: int = 1,
    reached: float | None = None,
) -> int | None:
    """Return the first look, from 1, at which a metric's difference is proven to be above a bound; else None.

    The lower end of the interval that holds at all looks together is above the bound. So the chance that
    this ever happens while the true difference is at most `above` is at most 1 - confidence.

    Args:
        looks: Released sums of the looks so far, in order.
        metrics: Public descriptions of the metrics.
        harm: Name of the metric to watch, of which more is worse.
        above: Largest difference policy - control that is accepted, in the metric's units.
        planned_looks: Number of looks that the whole comparison has, or None if it is open.
        confidence: One minus the accepted chance of a false stop.
        first: First look to judge, from 1, if those before it were judged already.
        reached: Share of all planned rounds after the last of `looks`, if that look ended early.

    Raises:
        InvalidParameter: No metric has this name; see also `compare_groups`.
    """
    names = [metric.name for metric in metrics]
    if harm not in names:
        raise InvalidParameter(f"no metric is named {harm!r}: {', '.join(names)}")
    _check_planned(planned_looks, len(looks))
    place = names.index(harm)
    watched = [metrics[place]._replace(harm=True)]
    one = [
        look._replace(policy=_only(look.policy, place), control=_only(look.control, place)) for look in looks
    ]
    side, span = _side(watched, confidence), watched[0].high - watched[0].low
    for k in range(first, len(looks) + 1):
        usable = _usable(one[:k])
        if not usable:
            continue
        contrast = _contrast(usable, watched)
        early = reached if k == len(looks) else None
        low, _ = contrast.interval(_always_level(contrast, planned_looks, side, early))
        if span * float(low[0]) > above:
            return k
    return None


def _check_planned(planned: int | None, looks: int) -> None:
    if planned is not None and _checks.integer(planned, name="planned_looks", minimum=1) < looks:
        raise InvalidParameter(f"there are {looks} looks, and {planned} were planned")


def _side(metrics: Sequence[Metric], confidence: float) -> FloatArray:
    """Return the chance (M,) with which one end may exclude the truth; a guardrail has all of it."""
    chance = 1.0 - _checks.probability(confidence, name="confidence")
    return np.array([chance if metric.harm else 0.5 * chance for metric in metrics])


def _always_level(
    contrast: Contrast, planned: int | None, side: FloatArray, reached: float | None
) -> FloatArray:
    """Return the level (M,) at which the latest look is read so that all looks hold together."""
    increments = contrast.increments
    rows = [
        any_number_level(row, side=float(chance))
        if planned is None
        else planned_levels(row, planned, side=float(chance), reached=reached)[-1]
        for row, chance in zip(increments, side, strict=True)
    ]
    return np.array(rows)


def _units(metrics: Sequence[Metric]) -> tuple[FloatArray, FloatArray]:
    low = np.array([metric.low for metric in metrics], dtype=float)
    return low, np.array([metric.high for metric in metrics], dtype=float) - low


def _ends(ends: Interval, i: int, low: float, span: float) -> Ends:
    return float(low + span * ends[0][i]), float(low + span * ends[1][i])


def _only(group: Group, place: int) -> Group:
    return group._replace(
        sums=np.asarray(group.sums)[place : place + 1],
        squares=np.asarray(group.squares)[place : place + 1],
        sum_laws=group.sum_laws[place : place + 1],
        square_laws=group.square_laws[place : place + 1],
    )


def _usable(looks: Sequence[Look]) -> list[Look]:
    """Return the looks that have rounds of both groups. The others say nothing about a difference."""
    return [look for look in looks if look.policy.rounds and look.control.rounds]


def _weights(looks: Sequence[Look]) -> FloatArray:
    """Return the share (J,) of all rounds that each look has."""
    rounds = np.array([look.policy.rounds + look.control.rounds for look in looks], dtype=float)
    return np.asarray(rounds / rounds.sum())


def _public(groups: Sequence[Group], weights: FloatArray) -> dict[str, Any]:
    return {
        "weights": weights,
        "rounds": np.array([group.rounds for group in groups], dtype=float),
        "squared_rounds": np.array([group.squared_rounds for group in groups], dtype=float),
        "overlap": np.array([group.overlap for group in groups], dtype=float),
        "users": np.array([group.users for group in groups], dtype=float),
    }


def _contrast(looks: Sequence[Look], metrics: Sequence[Metric]) -> Contrast:
    weights, count = _weights(looks), len(metrics)

    def side(groups: Sequence[Group]) -> Side:
        if any(len(group.sums) != count or len(group.sum_laws) != count for group in groups):
            raise InvalidParameter(f"every group needs one sum for each of {count} metrics")
        return Side(
            **_public(groups, weights),
            sums=np.array([group.sums for group in groups], dtype=float).T,
            squares=np.array([group.squares for group in groups], dtype=float).T,
            laplace=np.array([[law.laplace for law in group.sum_laws] for group in groups]).T,
            gaussian=np.array([[law.gaussian for law in group.sum_laws] for group in groups]).T,
            square_sd=np.array([[law.sd for law in group.square_laws] for group in groups]).T,
        )

    return Contrast(side([look.policy for look in looks]), side([look.control for look in looks]))


def _answers(looks: Sequence[Look]) -> tuple[Side, Side]:
    """Return the counts of answers of the policy and of the control as arrays of yes/no outcomes."""

    def side(groups: Sequence[Group]) -> Side:
        parts = max(len(group.answered_laws) for group in groups)
        laws = [law for k in range(parts) for law in (group.answered_laws[k] for group in groups)]
        first = np.repeat([1.0, 0.0], [len(groups), len(laws) - len(groups)])
        public = _public(groups, _weights(looks))
        public = {name: np.tile(array, parts) for name, array in public.items()}
        public |= {name: first * public[name] for name in ("squared_rounds", "overlap")}
        return Side(
            **public,
            sums=first * np.tile([group.answered - 0.5 * group.rounds for group in groups], parts),
            squares=np.full(len(laws), np.nan),
            laplace=np.array([law.laplace for law in laws]),
            gaussian=np.array([law.gaussian for law in laws]),
            square_sd=np.zeros(len(laws)),
        )

    return side([look.policy for look in looks]), side([look.control for look in looks])
