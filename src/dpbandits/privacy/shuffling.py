r"""Privacy amplification by shuffling: `shuffled`, a certificate for a shuffler that you supply.

This package has no shuffler, so no policy's `guarantee` uses this certificate.

**Setting.** Each of n honest people sends one report. All use one mechanism, fixed beforehand, with pure
epsilon0-DP of each report. A shuffler shows the n reports in random order and nothing else. Neighbouring
inputs replace one person's data.

======  ================================================================================
symbol  meaning
======  ================================================================================
E       e^epsilon0
a, b    densities of the replaced person's report, before and after
[x]     max(0, x)
delta   smallest delta at eps, which is in [0, epsilon0]
M, -m   E - e^eps and 1 - E e^eps; both M and m are at least 0
W       M with probability 1/(E+1), -m with probability 1/(E+1), and else 0
======  ================================================================================

**Formal guarantee.** delta <= E[W_1 + ... + W_n]/n, with n independent copies of W.

**Proof.** 1. At every y the report of everybody else has a density of at least u = max(a, b)/E, by
epsilon0-DP. Let c be the integral of u. Then each of the others draws from u/c with probability c,
independently. Reveal the reports of all others who do not; they are the same before and after. What remains
is a random order of N reports: one from a or b, and N - 1 from u/c, where N - 1 is Binomial(n-1, c).

2. Given N, the density of these reports y, relative to N draws from u/c, is (c/N) sum_j a(y_j)/u(y_j), or
that with b. So delta is at most the mean of (c/N) [V_1 + ... + V_N], with V = (a - e^eps b)/u at a draw from
u/c. As P(N) c/N = Binomial(n, c)(N)/n, this is the mean of [V_1 + ... + V_n]/n, where now V = 0 with
probability 1 - c.

3. At every y, (a, b) = s (E, 1) + t (1, E) with s, t >= 0, and u <= s + t. Also u V = a - e^eps b = s M -
t m. So mass u at V and mass s + t - u at 0 have the same total and mean as mass s at M and mass t at -m. Both
V and 0 lie in [-m, M], where a convex function is at most its chord. So its integral over the former is at
most that over the latter. Now integrate over y: a and b have the integral 1, so s and t have 1/(E+1). Hence V
is at most W in the convex order. Sums of independent variables keep this order, and [.] is convex.  QED.

**Numerical form.** Step 2 is the privacy blanket of Balle, Bell, Gascon and Nissim (2019), and W has the
clones of Feldman, McMillan and Talwar (2021, 2023), of probability 2/(E+1). Let C be
Binomial(n-1, 2/(E+1)), A Binomial(C, 1/2), D Bernoulli(E/(E+1)), N = C + 1. The bound is the divergence of
(A + D, N - A - D) from the same with 1 - D in place of D. Let k be the smallest integer with
k M >= (N - k) m, and B Binomial(N-1, 1/2). Then the bound is the mean over N of
(M P(B >= k-1) - m P(B >= k))/(E+1).

**Closed form.** Let x be the first of the two counts. The likelihood ratio is (E x + N - x)/(x + E (N - x)) =
(1 + r v)/(1 - r v), with v = 2 x/N - 1 and r = (E-1)/(E+1). Let L = log(2/delta) and n - 1 >= 4 (E+1) L.

- C <= (n-1)/(E+1) has probability at most exp(-(n-1)/(4 (E+1))) <= delta/2, by Chernoff's bound. Otherwise N
  >= n/(E+1).
- A - C/2 > (C L/2)^.5 has probability at most delta/2, by Hoeffding's inequality. Otherwise, as x <= A + 1,
  v <= (2 L/N)^.5 + 1/N <= (2 L (E+1)/n)^.5 + (E+1)/n.

So epsilon = log((1 + r v)/(1 - r v)) with the last value of v, if it is below 1.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import betainc

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.calibration import LARGEST_EPSILON, MARGIN, narrowed, within_range
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.guarantee import Assumption
from dpbandits.privacy.sentences import unchecked

__all__ = ["Shuffled", "shuffled"]

_SMALLEST = 1e-6
"""Smallest epsilon0 that is accepted."""

_MOST = 10**9
"""Number of people from which on more do not count, which is safe: their reports only hide others."""

_ROUNDING = 1e-9
"""Relative amount by which probabilities are rounded outwards. Tests find errors of them below 1e-12."""

_TAIL = 80.0
"""Numbers of clones that are left out have a probability of at most 2 e^-80, which is added to delta."""

_PLACES = 2048
"""Largest number of places at which the sum over numbers of clones is evaluated."""

_ASSUMPTIONS = (
    unchecked(
        "shuffler",
        "A shuffler removes everything from a report but its content, and shows the reports of a batch in "
        "random order. It shows and links nothing else, such as times, versions or addresses.",
    ),
    unchecked(
        "honest people",
        "The reports of at least the stated number of honest people arrive in the batch, one of each. "
        "Forged, repeated and lost reports do not count.",
    ),
    unchecked(
        "one mechanism",
        "All these people use one mechanism, fixed before the batch, and the report depends on nothing else.",
    ),
)


@dataclass(frozen=True, kw_only=True)
class Shuffled:
    """Certificate of n shuffled reports; see the module for what must hold.

    Attributes:
        epsilon0: Privacy loss of one report before shuffling.
        people: Number n of honest people in a batch, who send one report each.
        delta: Failure probability of the guarantee.
    """

    epsilon0: float
    people: int
    delta: float

    def __post_init__(self) -> None:
        if not _SMALLEST <= _checks.number(self.epsilon0, name="epsilon0") <= LARGEST_EPSILON:
            raise InvalidParameter(f"epsilon0: expected a number from {_SMALLEST:g} to {LARGEST_EPSILON:g}")
        _checks.settle(self, people=_checks.integer)
        within_range(self.delta)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """Conditions that you make hold. This package checks none of them."""
        return _ASSUMPTIONS

    @property
    def epsilon(self) -> float:
        """Privacy loss after shuffling at `delta`, computed numerically and rounded up."""
        target = self.delta * (1.0 - MARGIN)
        if self.delta_at(0.0) <= target:
            return 0.0
        found = narrowed(lambda epsilon: self.delta_at(epsilon) > target, 0.0, self.epsilon0, width=1e-10)
        return min(found[1], self.epsilon0)

    @property
    def closed_form(self) -> float:
        """Privacy loss after shuffling at `delta` by a formula, which is larger than `epsilon`."""
        far, n = 1.0 + math.exp(self.epsilon0), min(self.people, _MOST)
        log = math.log(2.0 / self.delta)
        v = math.sqrt(2.0 * log * far / n) + far / n
        if v >= 1.0 or n - 1 < 4.0 * far * log:
            return self.epsilon0
        return min(self.epsilon0, 2.0 * math.atanh(math.tanh(0.5 * self.epsilon0) * v) * (1.0 + _ROUNDING))

    def delta_at(self, epsilon: float) -> float:
        """Return a delta at which the shuffled reports are (`epsilon`, delta)-DP, rounded up."""
        loss = _checks.number(epsilon, name="epsilon", exclusive=False)
        if loss >= self.epsilon0:
            return 0.0
        small = math.exp(-self.epsilon0)
        up = -math.expm1(loss - self.epsilon0) / (1.0 + small)  # M / (E+1)
        down = small * math.expm1(loss + self.epsilon0) / (1.0 + small)  # m / (E+1)
        n, weights = self._clones
        k = np.ceil(n * (down / (up + down)))
        # P(B >= k) = I_{1/2}(k, N - k), which is 1 for k = 0 and 0 for k = N
        reach = [
            np.where(at <= 0.0, 1.0, betainc(np.maximum(at, 1.0), np.maximum(n - at, 1.0), 0.5))
            for at in (k - 1.0, k)
        ]
        first, second = reach[0] * (1.0 + _ROUNDING), np.where(k < n, reach[1], 0.0) * (1.0 - _ROUNDING)
        each = np.clip(up * first - down * second, 0.0, 1.0)
        return min(1.0, float(weights @ each) * (1.0 + _ROUNDING) + 2.0 * math.exp(-_TAIL))

    @cached_property
    def _clones(self) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """Values of N (P,) and weights (P,), whose sum of a decreasing function is at least its mean over N.

        Probabilities of all values within the tails are divided by their sum. Neighbouring values are merged
        into the smallest: another clone never raises delta, as it can be added to any set of reports.
        """
        others = min(self.people, _MOST) - 1
        mean = others * 2.0 / (1.0 + math.exp(self.epsilon0))
        log_odds = math.log(2.0) - math.log(math.expm1(self.epsilon0))  # of a clone
        # Chernoff: beyond these distances lie at most e^-TAIL each
        below = math.sqrt(2.0 * mean * _TAIL)
        low, high = max(0, math.floor(mean - below)), min(others, math.ceil(mean + below + _TAIL))
        clones = np.arange(low, high + 1, dtype=np.float64)
        logs = np.log((others - clones[:-1]) / (clones[:-1] + 1.0)) + log_odds
        logs = np.concatenate([[0.0], np.cumsum(logs)])
        weights = np.exp(logs - logs.max())
        step = -(-len(clones) // _PLACES)
        starts = np.arange(0, len(clones), step)
        return clones[starts] + 1.0, np.add.reduceat(weights, starts) / weights.sum()


@worded
def shuffled(local: Any, people: int, delta: float) -> Shuffled:
    """Return the certificate of privacy amplification by shuffling for local reports.

    This package has no shuffler: no `guarantee` uses this certificate, and its assumptions are unchecked.

    Args:
        local: Privacy loss epsilon0 of one report, a `LocalDP`, or a `local.Spec` with one epsilon.
        people: Number of honest people in a batch, who send one report each. A version is a batch. Of
            several batches with different people, pass the smallest.
        delta: Failure probability, from 1e-15 to 1.

    Raises:
        InvalidParameter: A number is out of range, or reports have no single pure epsilon.

    Example:
        >>> found = shuffled(2.0, people=10_000, delta=1e-6)
        >>> round(found.epsilon, 3), round(found.closed_form, 3)
        (0.114, 0.24)
        >>> [one.enforced for one in found.assumptions]
        [False, False, False]
    """
    promise = getattr(local, "privacy", local)
    if getattr(local, "epsilons", ()):
        raise InvalidParameter("local: users choose an epsilon, expected a spec with one epsilon for all")
    if isinstance(promise, LocalDP):
        promise = promise.epsilon
    elif isinstance(promise, bool) or not isinstance(promise, int | float | np.number):
        raise InvalidParameter("local: expected a number, a LocalDP or a local.Spec, whose delta is 0")
    return Shuffled(epsilon0=float(promise), people=people, delta=delta)
