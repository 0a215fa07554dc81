"""Ma2025, Algorithm 3 (LDPMAB with auxiliary data), with additions of the authors' public code.

Sources initialise the tree of `dpbandits.local.published.ma2025_variant`; the algorithm as printed is
`dpbandits.local.published.ma2025`.

Sources m = 1..M are processed one after another, in any order, then the target, m = 0. Their users report U
and V of the bins and arms that are active at that moment, with Laplace(4/epsilon_m) noise. In a bin, with n_m
the number of users of crowd m since it became active and n_e = max_m n_m min(1, epsilon_m)^2,

    weight (27): lambda_m = min(1, epsilon_m^2 U_m/n_m), 0 before n_m >= floor(log2 n_e)^2,

    estimate: f = sum_m lambda_m V_m / sum_m lambda_m U_m,

    radius (28): r = sqrt(2 log2 n_e) sqrt(sum_m lambda_m^2 max(U_m, n_m/epsilon_m^2))/|sum_m lambda_m U_m|.

These weights minimise the radius: max(U_m, n_m/epsilon_m^2) is V_m's variance up to a constant, and the best
weight U_m/max(U_m, n_m/epsilon_m^2) is lambda_m. Elimination, splits and the bias tau_s are those of
Algorithm 2 (`dpbandits.local.published.ma2025_variant`). The depth is bounded by the largest, over all
crowds, of the two bounds there with n_m (M + 1) for n.

The paper leaves constants open in (28), in the warm start and in the depth; they are taken from the authors'
public code. Its noise, and its sums that are added again for every batch, are not taken over. Here a weight
is at least 0: a negative noisy count would otherwise give a negative weight.

Privacy: epsilon_m-LDP for one report by each user of crowd m; see `dpbandits.local.published.ma2025_variant`.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.published.ma2025_variant import Ma2025VariantConstants, Ma2025VariantRule

__all__ = ["Ma2025TransferConstants", "Ma2025TransferRule"]


@dataclass(frozen=True, kw_only=True)
class Ma2025TransferConstants(Ma2025VariantConstants):
    """Constants of the algorithm, which must be known before the first report.

    Attributes:
        source_users: Number of users n_m of each source.
        source_epsilons: Privacy parameter epsilon_m of each source.
    """

    source_users: tuple[int, ...] = ()
    source_epsilons: tuple[float, ...] = ()


class Ma2025TransferRule(Ma2025VariantRule):
    """Algorithm 3 of Ma2025 with additions of the public code; arguments as for `BinLearner`.

    Its constants are `Ma2025TransferConstants`. Without sources it is Algorithm 2, except that cells with a
    negative noisy count are not used.

    Raises:
        InvalidParameter: the two lists of sources differ in length.
    """

    Constants = Ma2025TransferConstants
    constants: Ma2025TransferConstants

    def _begin(self) -> None:
        super()._begin()
        constants, partition = self.constants, self.partition
        if len(constants.source_users) != len(constants.source_epsilons):
            raise InvalidParameter("source_epsilons: expected as many as source_users")
        sizes = np.array([constants.n_users, *constants.source_users], dtype=np.float64)
        self._epsilons = np.array([constants.epsilon, *constants.source_epsilons])
        effective = max(2.0, float((sizes * np.minimum(1.0, self._epsilons) ** 2).max()))
        self._log_term = math.sqrt(2.0 * math.log2(effective))
        self._warm_start = int(math.log2(effective)) ** 2
        dim, pooled = partition.dim, 2.0 * sizes * len(sizes)
        plain = np.log2(np.maximum(1.0, pooled)) * dim / (2.0 + dim)
        private = np.log2(np.maximum(1.0, pooled * self._epsilons**2)) * dim / (2.0 + 2.0 * dim)
        self.max_depth = int(np.minimum(plain, private)[sizes > 0].max(initial=0.0))
        shape = (partition.n_nodes, self.n_arms, len(sizes))
        self._count, self._reward = np.zeros(shape), np.zeros(shape)
        self._users = np.zeros((partition.n_nodes, 1, len(sizes)))

    def learn(self, sums: VersionSums, *, crowd: int = 0) -> None:
        """Add the sums of U and V of one version, with arms chosen by users.

        `crowd` has the meaning of that in `Ma2025Rule.learn`.
        """
        if sums.arms is not None:
            raise InvalidParameter("sums: Algorithm 3 expects arms chosen by users")
        if not 0 <= crowd < len(self._epsilons):
            raise InvalidParameter("crowd: expected 0 for the target, or the number of a source")
        leaves = sums.leaves
        self._count[leaves, :, crowd] += sums.count
        self._reward[leaves, :, crowd] += (sums.signed + sums.count) / 2.0
        self._users[leaves, :, crowd] += sums.n

    def intervals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return estimates f and radii r of the leaves' arms, (L, K) each, and tau of the leaves, (L, 1)."""
        leaves = self.partition.leaves
        count, users = self._count[leaves], self._users[leaves]
        begun = users >= self._warm_start
        per_user = count / np.where(begun, users, 1.0)
        weight = np.where(begun, np.clip(self._epsilons**2 * per_user, 0.0, 1.0), 0.0)
        total = (weight * count).sum(axis=2)
        known = total > 0.0
        safe = np.where(known, total, 1.0)
        spread = np.sqrt((weight**2 * np.maximum(count, users / self._epsilons**2)).sum(axis=2))
        radius = np.where(known, self._log_term * spread / safe, np.inf)
        mean = np.clip((weight * self._reward[leaves]).sum(axis=2) / safe, 0.0, 1.0)
        return np.where(known, mean, 0.5), radius, self._tau(leaves)
