"""Ma2025, Algorithm 2 (LDPMAB without auxiliary data), with additions of the authors' public code.

Users choose uniformly among the remaining arms of their bin. For every active bin and arm they report
U = 1[bin, arm] and V = reward 1[bin, arm], each with Laplace(4/epsilon) noise. In a bin of depth s that has
been active for t users, with n users in all and n_e = n min(1, epsilon)^2,

    f_k = sum V_k / sum U_k,    r_k = sqrt(2 log2(n_e)) sqrt(max(sum U_k, t/epsilon^2)) / |sum U_k|.

Arm l is eliminated if f_l + 2 max(r_l, tau) < max_k f_k - 2 max(r_k, tau). That is, the intervals of
half-width 2 r, or of the bin's bias tau_s = 2 sqrt(dim) 2^(-s/dim), do not overlap. A bin is replaced by its
children when every remaining arm has r_k < tau_s. The depth is at most log2(2 n epsilon^2) dim/(2 + 2 dim)
and at most log2(2 n) dim/(2 + dim).

Radius constant, warm start and depth bound are those of the authors' public code; its noise is not (see the
documentation's page on the public code). It differs from the printed algorithm,
`dpbandits.local.published.ma2025`, in five points:

- half-widths are at least tau;
- estimates are clipped to [0, 1];
- the depth is bounded;
- a bin is halved when every remaining arm has a small radius (the paper: some arm);
- the warm start is floor(log2 n_e)^2 users (the paper: ln(n)^2).

Stored contracts and results call the learner `ma2025`, so specs use this name.

Privacy: epsilon-LDP for one report by each user (sensitivity 4 in L1 over U and V together). The noise is
enforced with `paper-laplace`, and `simulated` with floating-point noise.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.learners.elimination import EliminatingLearner

__all__ = ["Ma2025VariantConstants", "Ma2025VariantRule"]


@dataclass(frozen=True, kw_only=True)
class Ma2025VariantConstants:
    """Constants of the algorithm, which must be known before the first report.

    Attributes:
        n_users: The horizon n.
        epsilon: Privacy parameter of every report.
        radius: Intervals have half-width radius * r; 2 in the paper, 1 in the public code.
        bias: The factor in tau_s = bias * 2^(-s/dim); None for the paper's 2 sqrt(dim), 1 in the public
            code.
    """

    n_users: int
    epsilon: float
    radius: float = 2.0
    bias: float | None = None


class Ma2025VariantRule(EliminatingLearner):
    """Algorithm 2 of Ma2025 with additions of the public code; arguments as for `BinLearner`.

    Its constants are `Ma2025VariantConstants`.
    """

    Constants = Ma2025VariantConstants
    kept: ClassVar[tuple[str, ...]] = (*EliminatingLearner.kept, "_count", "_reward", "_users")
    constants: Ma2025VariantConstants

    def _begin(self) -> None:
        super()._begin()
        n, epsilon, dim = self.constants.n_users, self.constants.epsilon, self.partition.dim
        effective = max(2.0, n * min(1.0, epsilon) ** 2)
        self._log_term = math.sqrt(2.0 * math.log2(effective))
        self._warm_start = int(math.log2(effective)) ** 2
        plain = math.log2(2.0 * n) * dim / (2.0 + dim)
        private = math.log2(max(1.0, 2.0 * n * epsilon**2)) * dim / (2.0 + 2.0 * dim)
        self.max_depth = int(max(0.0, min(plain, private)))
        shape = self._active.shape
        self._count, self._reward = np.zeros(shape), np.zeros(shape)
        self._users = np.zeros((shape[0], 1))

    @classmethod
    def _constants_of(cls, spec: Spec) -> Ma2025VariantConstants:
        return cls.Constants(n_users=spec.n_users or 1, epsilon=spec.privacy.epsilon, **spec.tuning.constants)

    def learn(self, sums: VersionSums) -> None:
        """Add the sums of U and of V = (signed + U)/2 of one version."""
        self._count[sums.at] += sums.count
        self._reward[sums.at] += (sums.signed + sums.count) / 2.0
        self._users[sums.leaves] += sums.n

    def intervals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return estimates f and radii r of the leaves' arms, (L, K) each, and tau of the leaves, (L, 1)."""
        leaves = self.partition.leaves
        count, users = self._count[leaves], self._users[leaves]
        known = (np.abs(count) > 0.0) & (users >= self._warm_start)
        size = np.where(known, np.abs(count), 1.0)
        spread = np.sqrt(np.maximum(np.maximum(count, users / self.constants.epsilon**2), 0.0))
        radius = np.where(known, self._log_term * spread / size, np.inf)
        mean = np.where(known, np.clip(self._reward[leaves] / np.where(known, count, 1.0), 0.0, 1.0), 0.5)
        return mean, radius, self._tau(leaves)

    def _tau(self, leaves: IntArray) -> FloatArray:
        """Return tau of L bins, (L, 1).

        It bounds the difference between a bin's mean reward and mean rewards within it.
        """
        dim = self.partition.dim
        bias = 2.0 * math.sqrt(dim) if self.constants.bias is None else self.constants.bias
        return np.asarray(bias * 2.0 ** (-self.partition.depth[leaves] / dim))[:, None]

    def bounds(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return estimates, half-widths max(radius r, tau), and True where r < tau, (L, K) each."""
        mean, radius, tau = self.intervals()
        return mean, np.maximum(self.constants.radius * radius, tau), radius < tau

    def may_split(self, leaves: IntArray) -> BoolArray:
        """Return True for each of n leaves that is less deep than the largest depth, shape (n,)."""
        return np.asarray(self.partition.depth[leaves] < self.max_depth)
