"""Ma2025, Algorithms 2 and 3, as printed, with the undetermined constant as an argument.

Users choose uniformly among the remaining arms of their bin. For every active bin and arm they report
U = 1[bin, arm] and V = reward 1[bin, arm], each with Laplace(4/epsilon) noise. Sources m = 1..M come one
after another before the target, m = 0, with arms of their own. In a bin of depth s, with t_m the number of
users of crowd m since the bin was made, n the size of the largest crowd, and 0/0 = 0,

    weight (27): lambda_m = min(|epsilon_m^2 sum U_m/t_m|, 1[t_m >= ln(n)^2])

    estimate (26): f = sum_m lambda_m sum V_m / sum_m lambda_m sum U_m

    radius (28): r = sqrt(C_n sum_m lambda_m^2 max(t_m/epsilon_m^2, sum U_m)) / |sum_m lambda_m sum U_m|

    bias (17): tau_s = 2 sqrt(dim) 2^(-s/dim)

An arm is eliminated if f + 2 r < f' - 2 r' for another arm; both radii must be known. A bin is halved along
one of its longest edges when r < tau_s for some remaining arm. Its halves start with empty sums and its
remaining arms. C_n = constant * ln(n): the paper calls the constant absolute and known, and gives it in a
supplement that was not available.

Without sources (26) and (28) are Algorithm 2's (13) and (14), and the weights cancel. Two points differ from
the text. Before any crowd has reached its warm start, r would be 0/0 = 0, and every bin would be halved at
once, repeatedly. Here a bin is halved only if some r is above 0. The server updates when a version is full,
and the paper after every user.

A public coin picks among the longest edges, as in Algorithm 1 (`local.contract.spec.KEYED`).

Privacy: epsilon_m-LDP for one report by each user of crowd m (sensitivity 4 in L1 over U and V together). The
noise is enforced with `paper-laplace`, and `simulated` with floating-point noise.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.learners.elimination import EliminatingLearner

__all__ = ["Ma2025Constants", "Ma2025Rule"]


@dataclass(frozen=True, kw_only=True)
class Ma2025Constants:
    """Constants of the algorithms, which must be known before the first report.

    Attributes:
        n_users: The target's horizon n_P.
        epsilon: Privacy parameter of every report of the target.
        constant: The constant c in C_n = c ln(n).
        source_users: Number of users n_m of each source.
        source_epsilons: Privacy parameter epsilon_m of each source.
    """

    n_users: int
    epsilon: float
    constant: float = 1.0
    source_users: tuple[int, ...] = ()
    source_epsilons: tuple[float, ...] = ()


class Ma2025Rule(EliminatingLearner):
    """Algorithms 2 and 3 of Ma2025 as printed, with `Ma2025Constants`; arguments as for `BinLearner`.

    Raises:
        InvalidParameter: the two lists of sources differ in length, or the constant is not above 0.
    """

    Constants = Ma2025Constants
    kept: ClassVar[tuple[str, ...]] = (*EliminatingLearner.kept, "_count", "_reward", "_users")
    constants: Ma2025Constants

    def _begin(self) -> None:
        super()._begin()
        constants = self.constants
        if len(constants.source_users) != len(constants.source_epsilons):
            raise InvalidParameter("source_epsilons: expected as many as source_users")
        if not constants.constant > 0.0:
            raise InvalidParameter("constant: expected a number above 0")
        self._epsilons = np.array([constants.epsilon, *constants.source_epsilons])
        log = math.log(max(2, constants.n_users, *constants.source_users))
        self._spread, self._warm_start = constants.constant * log, log**2
        shape = (self.partition.n_nodes, self.n_arms, len(self._epsilons))
        self._count, self._reward = np.zeros(shape), np.zeros(shape)
        self._users = np.zeros((shape[0], 1, shape[2]))

    @classmethod
    def _constants_of(cls, spec: Spec) -> Ma2025Constants:
        constants: dict[str, Any] = dict(spec.tuning.constants)
        return cls.Constants(n_users=spec.n_users or 1, epsilon=spec.privacy.epsilon, **constants)

    def learn(self, sums: VersionSums, *, crowd: int = 0) -> None:
        """Add the sums of U and of V = (signed + U)/2 of one version.

        `crowd` is 0 for the target, m for source m.

        Raises:
            InvalidParameter: the spec has no source with this number.
        """
        if not 0 <= crowd < len(self._epsilons):
            raise InvalidParameter("crowd: expected 0 for the target, or the number of a source")
        at = (sums.leaves, slice(None)) if sums.arms is None else (sums.leaves, sums.arms)
        self._count[(*at, crowd)] += sums.count
        self._reward[(*at, crowd)] += (sums.signed + sums.count) / 2.0
        self._users[sums.leaves, :, crowd] += sums.n

    def intervals(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return estimates f and radii r of the leaves' arms, (L, K) each, and tau of the leaves, (L, 1).

        An unknown radius is infinite, and its estimate is 0.
        """
        leaves = self.partition.leaves
        count, users = self._count[leaves], self._users[leaves]
        begun = (users >= self._warm_start) & (users > 0.0)
        safe = np.where(begun, users, 1.0)
        weight = np.where(begun, np.minimum(1.0, np.abs(self._epsilons**2 * count / safe)), 0.0)
        total = (weight * count).sum(axis=2)
        known = total != 0.0
        divisor = np.where(known, total, 1.0)
        variance = (weight**2 * np.maximum(users / self._epsilons**2, count)).sum(axis=2)
        radius = np.where(known, np.sqrt(self._spread * variance) / np.abs(divisor), np.inf)
        mean = np.where(known, (weight * self._reward[leaves]).sum(axis=2) / divisor, 0.0)
        dim = self.partition.dim
        tau = 2.0 * math.sqrt(dim) * 2.0 ** (-self.partition.depth[leaves] / dim)
        return mean, radius, np.asarray(tau)[:, None]

    def bounds(self) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return estimates, half-widths 2 r, and True where r < tau, (L, K) each."""
        mean, radius, tau = self.intervals()
        return mean, 2.0 * radius, radius < tau

    def ready(self, active: BoolArray, narrow: BoolArray) -> BoolArray:
        """Return True for each bin in which some remaining arm has a narrow interval, shape (L,)."""
        return np.asarray((active & narrow).any(axis=1))

    def may_split(self, leaves: IntArray) -> BoolArray:
        """Return True for each of n leaves that can be halved exactly, shape (n,).

        The paper has no bound on the depth.
        """
        return self.partition.splittable(leaves)
