"""Users who bring their own epsilon: several classes of reports about the same bins become one.

A user's class is one of the spec's public `epsilons`; it travels in the open, and the report keeps that
class's epsilon. The server adds up each class by itself and combines the unbiased estimates with weights
proportional to 1/variance. These weights depend on public numbers only: epsilon, the number of cells, and
how many reports of each class were accepted.

**What must hold.** Class and (context, reward) are independent. Whoever chooses epsilon by looking at the
own context or reward tells the server about it, which no mechanism can hide, and bends the estimates: bins
whose people choose large epsilons seem to hold more people than they do, and an arm whose lucky people
choose large epsilons seems better than it is.

Privacy: post-processing of reports, each private under its own class's epsilon.
"""

from collections.abc import Sequence

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.reports import Moments, ReportMechanism

__all__ = ["class_weights", "combined_estimate"]


def class_weights(mechanisms: Sequence[ReportMechanism], reports: Sequence[int]) -> FloatArray:
    """(C,) weights of classes, proportional to 1/variance of a signed estimate, with mean 1 over reports.

    Args:
        mechanisms: one a class, over the same cells.
        reports: (C,) accepted reports of each.

    Example:
        >>> from dpbandits.privacy.reports import SignedTernary
        >>> weak, strong = (SignedTernary(n_cells=4, epsilon=e) for e in (0.5, 2.0))
        >>> class_weights([weak, strong], [100, 100]).round(2)
        array([0.15, 1.85])
    """
    n = np.asarray(reports, dtype=np.float64)
    precision = np.array(
        [1.0 / float(one.moments.signed_variance(np.array(1.0 / one.n_cells))) for one in mechanisms]
    )
    if n.sum() <= 0.0:
        raise InvalidParameter("reports: expected at least one")
    return np.asarray(n.sum() * precision / (n * precision).sum())


def combined_estimate(
    parts: Sequence[tuple[ReportMechanism, IntArray, int]],
) -> tuple[FloatArray, FloatArray, int, Moments]:
    """Signed sums and counts of all classes together, as if one mechanism had made them.

    Args:
        parts: mechanism, integer sums and number of reports of every class that has any.

    Returns:
        (cells,) signed sums, (cells,) counts, the number of reports, and the moments per report. The
        moments bound the variance from above where a cell's count varies with who came.
    """
    if len(parts) == 1:
        mechanism, sums, n = parts[0]
        signed, count = mechanism.estimate(sums, n)
        return signed, count, n, mechanism.moments
    numbers = [n for _, _, n in parts]
    weights = class_weights([mechanism for mechanism, _, _ in parts], numbers)
    total = sum(numbers)
    estimates = [mechanism.estimate(sums, n) for mechanism, sums, n in parts]
    signed = sum(weight * one for weight, (one, _) in zip(weights, estimates, strict=True))
    count = sum(weight * one for weight, (_, one) in zip(weights, estimates, strict=True))
    squares = [weight**2 * n / total for weight, n in zip(weights.tolist(), numbers, strict=True)]

    def mixed(name: str) -> float:
        values = [float(getattr(mechanism.moments, name)) for mechanism, _, _ in parts]
        return float(np.dot(squares, values))

    # Who falls into a cell varies by share (1 - share) a report, times the mean squared weight.
    moments = Moments(
        signed_own=mixed("signed_own"),
        signed_other=mixed("signed_other"),
        count_own=mixed("count_own") + sum(squares) - 1.0,
        count_other=mixed("count_other"),
    )
    return np.asarray(signed), np.asarray(count), total, moments
