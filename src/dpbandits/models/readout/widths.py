"""Width of an interval before any data: how large a holdout an answer takes."""

import numpy as np

from dpbandits import _checks
from dpbandits.errors import InvalidParameter
from dpbandits.models.readout.boundaries import any_number_level, planned_levels
from dpbandits.models.readout.sums import NoiseScales
from dpbandits.models.readout.tails import quantile

__all__ = ["half_width"]


def half_width(
    rounds: int,
    *,
    share: float,
    looks: int,
    policy_law: NoiseScales,
    control_law: NoiseScales,
    rate: float | None = None,
    sd: float | None = None,
    always: bool = False,
    planned: bool = True,
    confidence: float = 0.95,
) -> float:
    """Return half the width of the interval of a difference after all looks, in units of z in [0, 1].

    The variance of the difference is v/(share n) + v/((1 - share) n). Each of J equal looks adds the noise
    of one sum of both groups: c^2/(share n)^2 + p^2/((1 - share) n)^2. The quantile is that of the
    normal and Laplace parts together.

    Args:
        rounds: Number n of rounds of both groups over all looks, one for each user.
        share: Share of the control, in (0, 1).
        looks: Number J of looks.
        policy_law: Noise p of one released sum of the policy group.
        control_law: Noise c of one released sum of the control group.
        rate: Rate of a yes/no metric; its variance v is rate (1 - rate).
        sd: Standard deviation of z for other metrics. Give one of `rate` and `sd`.
        always: True for the interval that holds at all looks together.
        planned: False if the number of looks is open; this matters only with `always`.
        confidence: Confidence of the interval.

    Raises:
        InvalidParameter: An argument is outside its range, or not exactly one of `rate` and `sd` is given.

    Example:
        >>> none = NoiseScales()
        >>> round(half_width(10_000, share=0.1, looks=4, policy_law=none, control_law=none, rate=0.3), 4)
        0.0299
    """
    n, h = _checks.integer(rounds, name="rounds", minimum=1), _checks.probability(share, name="share")
    J = _checks.integer(looks, name="looks", minimum=1)
    if (rate is None) == (sd is None):
        raise InvalidParameter("give either rate= of a yes/no metric or sd= of another one")
    v = float(rate) * (1.0 - float(rate)) if rate is not None else float(sd or 0.0) ** 2
    ours, theirs = n * h, n * (1.0 - h)
    variance = (
        v / ours + v / theirs + J * ((control_law.gaussian / ours) ** 2 + (policy_law.gaussian / theirs) ** 2)
    )
    scales = np.array([control_law.laplace / ours, policy_law.laplace / theirs] * J)
    side = 0.5 * (1.0 - _checks.probability(confidence, name="confidence"))
    level = side
    if always:
        equal = np.ones(J)
        level = float(
            planned_levels(equal, J, side=side)[-1] if planned else any_number_level(equal, side=side)
        )
    return float(quantile(level, np.sqrt(variance), scales))
