r"""A histogram of reports, one bucket a report, with the noise of two aggregators: pure epsilon.

A report names one of L buckets: it is a unit vector of Z^L. A batch is the sum of its reports. Each of two
aggregators adds independent discrete Laplace noise to every bucket, P(j) proportional to exp(-rate |j|), with

    rate <= epsilon / (2 k),    k = reports_per_user.

**Sensitivity.** Replacing a report moves its batch by e_b - e_b', at most 2 in L1. The bound is reached by
two different buckets. A user with at most k reports, in one batch or several, moves all batches together by
at most 2 k in L1 (triangle inequality). The number of reports of a batch does not change.

**Formal guarantee.** Let one aggregator be honest: it adds each report at most once, draws its noise once for
a batch, and tells nobody its noise or its shares. Let the view of everybody else consist of the released
sums, the noise of the other aggregator, and shares that are independent of the reports. For any number of
batches, each of which may depend on all earlier sums, this view is epsilon-DP for replacing one user.

**Proof.** Fix two neighbouring sets of reports and the view before a batch. Given the other aggregator's
noise, the released sum is that noise plus the exact sum plus the honest noise. So the batch's view is a
function of that noise, which is drawn independently of the reports, and of the exact sum plus the honest
noise. Let v be the difference of the exact sums. The ratio of the probabilities of one outcome z is a product
of factors exp(-rate (|z_i| - |z_i + v_i|)) <= exp(rate |v_i|), so at most exp(rate |v|_1). Along every path
the ratios of the batches multiply, and the sum of |v|_1 is at most 2 k. So the product is at most
exp(2 k rate) <= exp(epsilon).  QED.

The noise of the dishonest aggregator is not counted: it may be known, or left out. Additive shares over a
field are independent of the report. Shares that are expanded from a seed, and encrypted in transit, are so
for computationally bounded parties only, and then the guarantee is computational too.

Other reports that a dishonest party drops, repeats or invents move the sum equally for both neighbours.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpbandits import _checks
from dpbandits._typing import IntArray
from dpbandits.errors import InvalidData
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.definitions import DistributedDP
from dpbandits.privacy.guarantee import MechanismRecord
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.samplers import check_rate

__all__ = ["AGGREGATORS", "ReportHistogram"]

AGGREGATORS = 2
"""Number of aggregators, each of which adds noise."""


@dataclass(frozen=True, kw_only=True)
class ReportHistogram:
    """Mechanism of the aggregators: exact sums of one-hot reports, and the noise of one aggregator.

    Args:
        length: Public number L of buckets.
        privacy: Promise; see the module.

    Raises:
        InvalidParameter: A number is out of its range, or no noise fits the promise.

    Example:
        >>> histogram = ReportHistogram(length=3, privacy=DistributedDP(epsilon=1))
        >>> histogram.counted(np.array([0, 2, 2])).tolist()
        [1, 0, 2]
        >>> round(histogram.noise_variance**0.5, 1)  # of both aggregators together
        4.0
    """

    length: int
    privacy: DistributedDP

    def __post_init__(self) -> None:
        _checks.settle(self, length=_checks.integer)
        _checks.an(self.privacy, DistributedDP, name="privacy", pass_="privacy=DistributedDP(epsilon=1)")
        check_rate(self.rate)  # raises here, and not at the first release, if no noise fits the promise

    @property
    def sensitivity(self) -> int:
        """Largest L1 change of all batches together when one user's reports are replaced."""
        return 2 * self.privacy.reports_per_user

    @property
    def rate(self) -> float:
        """Rate of each aggregator's noise: the largest float64 below epsilon / sensitivity."""
        return math.nextafter(self.privacy.epsilon / self.sensitivity, 0.0)

    @property
    def noise_variance(self) -> float:
        """Variance of the noise of a bucket, that of both aggregators together."""
        kept = math.exp(-self.rate)
        return AGGREGATORS * 2.0 * kept / (1.0 - kept) ** 2

    def counted(self, buckets: IntArray) -> IntArray:
        """Return the exact sum (L,) of n reports with these buckets (n,).

        Raises:
            InvalidData: The buckets are not integers from 0 to L - 1.
        """
        given = np.asarray(buckets)
        if given.ndim != 1 or given.dtype.kind not in "iu":
            raise InvalidData(f"buckets: shape {given.shape}, expected (n,) integers")
        if len(given) and not (0 <= given.min() and given.max() < self.length):
            raise InvalidData(f"buckets: expected numbers from 0 to {self.length - 1}")
        return np.bincount(given, minlength=self.length).astype(np.int64)

    def noise(self, source: NoiseSource) -> IntArray:
        """Draw the noise (L,) of one aggregator for one batch. Call it once for a batch."""
        return source.integer_laplace(self.rate, self.length)

    def record(self, releases: int) -> MechanismRecord:
        """Return the description for a statement, with one aggregator's noise, in at most `releases` sums."""
        return MechanismRecord(
            name="histogram of reports, one bucket a report; the noise of one of the two aggregators",
            law="discrete Laplace",
            scale=1.0 / self.rate,
            sensitivity=float(self.sensitivity),
            certificate=PureDP(self.privacy.epsilon),
            releases=releases,
            unit="in reports, L1 over buckets",
        )
