"""Released sums of one look at a running comparison, and the noise that they carry.

A look covers a range of rounds; every round lies in exactly one look. The rounds of a look belong to two
groups: users whom the policy serves, and users whom the control serves. All numbers are public or released.

A value y of a metric enters as z = (y - low)/(high - low), clipped to [0, 1]. A missing value enters as the
metric's public default, so that the number of values is the public number of rounds.
"""

import math
from typing import NamedTuple

from dpbandits._typing import FloatArray

__all__ = ["Group", "Look", "Metric", "NoiseScales"]


class NoiseScales(NamedTuple):
    """Noise of one released number: independent Laplace and Gaussian parts; zero means that a part is absent.

    Attributes:
        laplace: Scale b of the Laplace part, in units of the released number; its variance is 2 b^2.
        gaussian: Standard deviation of the Gaussian part, in units of the released number.
    """

    laplace: float = 0.0
    gaussian: float = 0.0

    @property
    def sd(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(2.0 * self.laplace**2 + self.gaussian**2)


class Metric(NamedTuple):
    """Public description of one metric.

    Attributes:
        name: Name by which readings show the metric.
        low: Value that counts as z = 0.
        high: Value that counts as z = 1. Larger values are clipped to it.
        default: Value of a missing answer.
        yes_no: True if only z = 0 and z = 1 occur, so that the variance follows from the mean.
        harm: True for a guardrail, of which more is worse. Each end of its interval then holds with the
            stated confidence on its own.
    """

    name: str
    low: float
    high: float
    default: float
    yes_no: bool
    harm: bool


class Group(NamedTuple):
    """Public and released numbers of one group in one look, for M metrics.

    Let user u have m_u rounds of this look, and let t_u be the sum of 2z - 1 over them. `squares` is the
    noisy sum over users of t_u^2/m_u. For users with one round this is the sum of (2z - 1)^2.

    **Sensitivity.** Replacing one user moves t/2 and t^2/(4m) together by at most m in L1, as t/2 alone. Let
    t = m(b + a) and t' = m(b - a), so |a| + |b| <= 1. Then |t - t'|/2 + |t^2 - t'^2|/(4m) = m |a|(1 + |b|),
    at most m (1 - |b|)(1 + |b|) <= m. In L2, t/2 and c t^2/m move by m |a| sqrt(1 + 16 c^2 b^2), at most m
    for c <= .8325. So squares cost nothing if noise of one scale is added to t/2 and to t^2/(4m) (Laplace),
    or to t/2 and to c t^2/m (Gaussian).

    Attributes:
        rounds: Public number n of asks of this group in this look.
        users: Public number of distinct users among them.
        squared_rounds: Public sum of m_u^2 over these users; equals `rounds` if each user has one round.
        overlap: Public sum over these users of m_u times the user's rounds in all earlier looks; 0 if no
            user returns in a later look.
        sums: Released sums (M,) of z - 1/2 over the rounds.
        squares: Released sums (M,) of t_u^2/m_u over the users; nan where they were not released. They may
            be left out for a yes/no metric. If users then have several rounds, intervals are wider.
        answered: Number of rounds with an answer, from released sums.
        sum_laws: Noise of each entry of `sums` (M,).
        square_laws: Noise of each entry of `squares` (M,), in units of t^2/m.
        answered_laws: Independent parts of the noise of `answered`, in rounds.
    """

    rounds: int
    users: int
    squared_rounds: int
    overlap: int
    sums: FloatArray
    squares: FloatArray
    answered: float
    sum_laws: tuple[NoiseScales, ...]
    square_laws: tuple[NoiseScales, ...]
    answered_laws: tuple[NoiseScales, ...]


class Look(NamedTuple):
    """Numbers of both groups at one look.

    Attributes:
        policy: Group that the policy serves.
        control: Group that the control serves.
        share: Public share of users that the control serves in this look, in (0, 1).
    """

    policy: Group
    control: Group
    share: float
