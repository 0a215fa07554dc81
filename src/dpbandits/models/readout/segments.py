r"""Comparison of a policy with its control in each cell of one public column, such as each region.

**Releases.** The cell of a user is private, so the number of rounds in a cell is a noisy count. A round adds
s = z - 1/2 to the sum of its cell, 4 s^2 = (2z - 1)^2 to the squares, and 1 to the count.

**Sensitivity of one round.** Let counts carry the weight a and squares the weight 1/4, so that a cell moves
by (s, s^2, a). If replacing a user leaves the cell the same, this is at most 1 in L1 (see `sums.Group`).
If the cell changes, one cell loses what it had and another one gains. In L1 that is
|s| + |s'| + s^2 + s'^2 + 2a <= 3/2 + 2a. In L2 it is the root of s^2 + s'^2 + s^4 + s'^4 + 2a^2, at most
5/8 + 2a^2. Without squares these are 1 + 2a and the root of 1/2 + 2a^2. All bounds are met by z = 0 and
z' = 1. A user with at most k rounds moves k times as much.

**Estimate.** Looks are added up. Rounds of the policy group are weighted by share/(1 - share) of their look,
so that both groups have the same mix of looks if the share of the control changed. For a cell with the
weighted count N and sum S, the mean is 1/2 + S/N. Its noise is that of (S - s N)/N with the true s, so the
noise of the count enters with the factor s. This needs a count well above its noise, so cells with smaller
counts are not read; the interval of such a cell is all values. The intervals of all cells hold together.

**Which cells are read.** A rule on N alone would read cells whose counts noise has made large. Then the error
of S - s N would be this noise times -s, and not zero on average. Let s0 be the mean of all cells, and c and b
the standard deviations of the noise of N and of S. The noise of N + s0 (c/b)^2 S is not correlated with that
of S - s0 N. So the rule is on this number. If s is near s0, it says little about the error of the mean.

**Many cells.** P-values are adjusted by Holm's method (1979). Intervals have the confidence together, by
Bonferroni's inequality.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.models.readout.comparing import plain_numbers
from dpbandits.models.readout.estimates import Contrast, Side
from dpbandits.models.readout.sums import Metric, NoiseScales

__all__ = ["CellTable", "ReadCell", "cell_contrast", "holm", "segments"]

LEAST_COUNT = 8.0
"""Smallest number by which a cell is read, in standard deviations of its noise.

Dividing by a count with a larger error would change the law of the noise. `reproduction.tuning.readout`
compares values.
"""


class CellTable(NamedTuple):
    """Released sums of one group in C cells over J looks.

    Attributes:
        counts: Released numbers (C, J) of rounds.
        sums: Released sums (C, J) of z - 1/2.
        squares: Released sums (C, J) of (2z - 1)^2; nan for a yes/no metric.
        count_law: Noise of each count, in rounds.
        sum_law: Noise of each sum.
        square_law: Noise of each entry of `squares`.
    """

    counts: FloatArray
    sums: FloatArray
    squares: FloatArray
    count_law: NoiseScales
    sum_law: NoiseScales
    square_law: NoiseScales


@dataclass(frozen=True)
class ReadCell:
    """Estimates for one cell, in the metric's units.

    Attributes:
        name: Name of the cell.
        enough: False if a noisy count is too small. Estimates are then nan and the interval is all values.
        control: Mean of the control group.
        policy: Mean of the policy group.
        difference: Policy minus control.
        interval: Interval of the difference; all cells' intervals hold together.
        p_value: P-value of no difference, adjusted for the number of cells by Holm's method.
    """

    name: str
    enough: bool
    control: float
    policy: float
    difference: float
    interval: tuple[float, float]
    p_value: float

    def to_json(self) -> dict[str, Any]:
        """Return the estimates as plain values for JSON, None where there is none."""
        plain: dict[str, Any] = plain_numbers(asdict(self))
        return plain


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values (..., C) adjusted for C hypotheses by Holm's method.

    Example:
        >>> holm(np.array([0.01, 0.04, 0.02])).round(3).tolist()
        [0.03, 0.04, 0.04]
    """
    order = np.argsort(p_values, axis=-1)
    ranked = np.take_along_axis(p_values, order, axis=-1)
    steps = np.arange(p_values.shape[-1], 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(ranked * steps, axis=-1), 1.0)
    found = np.empty_like(adjusted)
    np.put_along_axis(found, order, adjusted, axis=-1)
    return found


def _side(table: CellTable, factors: FloatArray, most_rounds: int) -> tuple[Side, BoolArray]:
    """Return one group's cells, and which (..., C) have enough rounds.

    A cell has 2J columns: its weighted sums, and zeros that carry the noise of its weighted counts.
    """
    total, sums = (factors * table.counts).sum(-1), (factors * table.sums).sum(-1)
    length = float(np.sqrt((factors**2).sum()))
    count_sd, sum_sd = table.count_law.sd, table.sum_law.sd
    whole = np.clip(sums.sum(-1) / np.maximum(total.sum(-1), 1.0), -0.5, 0.5)[..., None]
    share = whole * (count_sd / sum_sd) ** 2 if sum_sd > 0.0 else np.zeros_like(whole)
    least = LEAST_COUNT * length * np.hypot(count_sd, share * sum_sd)
    enough = (total + share * sums >= least) & (total >= 1.0)
    n = np.where(enough, total, 1.0)
    centre = np.clip(np.where(enough, sums, 0.0) / n, -0.5, 0.5)
    noise = (length / n) ** 2 * (table.sum_law.sd**2 + (centre * table.count_law.sd) ** 2)
    known = np.isnan(table.squares).any(-1)
    # the noise of the count moves the mean of squares, too: by 1/4 of it at most
    second = np.where(known, 0.25, (factors * table.squares).sum(-1) / (4.0 * n))
    second_sd = np.where(known, 0.0, 0.25 * (length / n) * np.hypot(table.square_law.sd, table.count_law.sd))
    errors = second_sd**2 + 4.0 * centre**2 * noise + 2.0 * noise**2

    def columns(one: FloatArray, other: FloatArray) -> FloatArray:
        shape = (*total.shape, factors.size)
        return np.concatenate([np.broadcast_to(one, shape), np.broadcast_to(other, shape)], axis=-1)

    shift = np.abs(centre)[..., None] * factors
    rounds = np.where(enough[..., None], np.maximum(table.counts, 0.0), 1.0) * factors**2 * most_rounds
    none = np.zeros(1)
    return Side(
        weights=np.ones((*total.shape, 2 * factors.size)),
        rounds=columns(n[..., None], n[..., None]),
        squared_rounds=columns(rounds, none),
        overlap=columns(none, none),
        sums=columns(np.where(enough[..., None], factors * table.sums, 0.0), none),
        squares=columns(none * np.nan, none),
        laplace=columns(factors * table.sum_law.laplace, shift * table.count_law.laplace),
        gaussian=columns(factors * table.sum_law.gaussian, shift * table.count_law.gaussian),
        square_sd=columns(none, none),
        users=columns(n[..., None], n[..., None]),
        moments=(second - centre**2 + noise, errors),
    ), enough


def cell_contrast(
    policy: CellTable, control: CellTable, shares: FloatArray, *, most_rounds: int = 1
) -> tuple[Contrast, BoolArray]:
    """Return the comparison in each cell, and which cells (..., C) have enough rounds of both groups.

    Args:
        policy: Cells of the policy group; arrays may have further leading axes.
        control: Cells of the control group.
        shares: Public share (J,) of the control in each look.
        most_rounds: Largest number of rounds of a user.
    """
    odds = shares / (1.0 - shares)
    one, first = _side(policy, odds / odds.max(), most_rounds)
    two, second = _side(control, np.ones_like(odds), most_rounds)
    return Contrast(one, two), first & second


def segments(
    names: Sequence[str],
    policy: CellTable,
    control: CellTable,
    metric: Metric,
    *,
    shares: Sequence[float],
    confidence: float = 0.95,
    most_rounds: int = 1,
) -> tuple[ReadCell, ...]:
    """Compare the policy group with the control group in each cell, for a comparison that is read once.

    Args:
        names: Public names of the C cells.
        policy: Released sums of the policy group.
        control: Released sums of the control group.
        metric: Public description of the metric.
        shares: Public share of the control in each of the J looks, in (0, 1).
        confidence: Probability with which all intervals hold together.
        most_rounds: Largest number of rounds of a user; sampling variances are multiplied by it.

    Raises:
        InvalidParameter: The shapes of the tables do not fit the names and shares; all of these are public.
    """
    shape = (len(names), len(shares))
    if any(np.shape(part) != shape for table in (policy, control) for part in table[:3]):
        raise InvalidParameter(
            f"counts, sums and squares of {shape[0]} cells and {shape[1]} looks are (cells, looks)"
        )
    chance = (1.0 - _checks.probability(confidence, name="confidence")) * (1.0 if metric.harm else 0.5)
    public = np.array([_checks.probability(share, name="shares") for share in shares])
    contrast, enough = cell_contrast(policy, control, public, most_rounds=most_rounds)
    low, high = contrast.interval(chance / len(names))
    p_values = holm(np.where(enough, contrast.equal(), 1.0))
    span = metric.high - metric.low
    return tuple(
        ReadCell(
            name=name,
            enough=bool(enough[i]),
            control=metric.low + span * float(contrast.control.mean[i]) if enough[i] else np.nan,
            policy=metric.low + span * float(contrast.policy.mean[i]) if enough[i] else np.nan,
            difference=span * float(contrast.difference[i]) if enough[i] else np.nan,
            interval=(span * float(low[i]), span * float(high[i])) if enough[i] else (-span, span),
            p_value=float(p_values[i]),
        )
        for i, name in enumerate(names)
    )
