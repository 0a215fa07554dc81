"""`LinearTree`: a linear contextual bandit with a binary tree of noisy sums (Shariff and Sheffet 2018).

LinUCB uses the sums of x x^T and y x. Here a binary tree with Gaussian noise releases them every round, and
the noisy Gram matrix is shifted so that it stays positive definite. Dubey2021 is the same scheme with Fourier
features, so this policy is `central.published.Dubey2021` with linear features.

Of the paper only the abstract was available. So the noise is the exact noise of `TreeRelease`, the radius is
that of Dubey2021, and the shift is its sharp bound. The paper's constants and its Wishart noise are not
implemented.

Privacy: (epsilon, delta)-joint DP, replace one user's decision sets and rewards. A round adds x x^T and y x
to at most one node on each level of the tree. The sensitivity and the proof for streams are those of
`TreeRelease`. They need only that the norm of features is at most one, which is shown at `LinearFeatures`.
"""

from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import domains
from dpbandits._config import Configured
from dpbandits._typing import FloatArray
from dpbandits.central.published import Dubey2021, Dubey2021Tuning
from dpbandits.domains import Arms, Box, Domain, Product, RewardRange
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines.private_ridge import scaled_columns
from dpbandits.models.features import Features
from dpbandits.models.features.base import FEATURES, NORM_BOUND, checked_points
from dpbandits.models.features.mercer import ArmFeatures
from dpbandits.policy import PolicyOptions
from dpbandits.privacy.definitions import JointDP

__all__ = ["LinearFeatures", "LinearTree"]


@FEATURES.add("LinearFeatures", domain=domains.from_config)
class LinearFeatures(Features, Configured):
    """Linear features: a constant, every number, and an indicator of every category, with norm at most one.

    Let u be the columns scaled to [-1, 1], with categories as indicators, and d the number of columns of the
    domain. The features are (1, u/sqrt(d))/sqrt(2). Their squared norm (1 + |u|^2/d)/2 is at most one, since
    a column adds at most one to |u|^2.

    Args:
        domain: Domain of boxes and arms.
    """

    def __init__(self, *, domain: Domain) -> None:
        self._parts = domain.parts if isinstance(domain, Product) else (domain,)
        if not all(isinstance(part, Box | Arms) for part in self._parts):
            raise InvalidParameter("linear features need a domain of boxes and arms")
        self.domain = domain
        widths = (part.n_arms if isinstance(part, Arms) else part.dim for part in self._parts)
        self.n_features = 1 + sum(widths)
        self.supports = ((0, self.n_features),)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the features (..., m) of points (..., d)."""
        points, lead = checked_points(X, self.domain.dim)
        u = scaled_columns(self._parts, points) / np.sqrt(self.domain.dim)
        phi = np.sqrt(0.5) * NORM_BOUND * np.concatenate([np.ones((len(u), 1)), u], axis=1)
        return np.asarray(phi.reshape(*lead, self.n_features))


class LinearTree(Dubey2021):
    """LinUCB with a binary tree of noisy sums; see the module.

    Args:
        domain: Domain of boxes and arms. If the last part is `Arms`, each arm has its own weights.
        reward_range, horizon, privacy: See `central.published.Dubey2021`.
        tuning: See `Dubey2021Tuning`. The default of its `spectral_bound` is "sharp" here.
        **options: `seed`, `noise`, `account`; see `PolicyOptions`.

    Privacy: (epsilon, delta)-joint DP; proof in the module.

    References:
        Shariff, Sheffet: Differentially Private Contextual Linear Bandits (2018).
    """

    kind = "baselines.LinearTree"

    def __init__(
        self,
        *,
        domain: Domain,
        reward_range: RewardRange | tuple[float, float],
        horizon: int | None,
        privacy: JointDP,
        tuning: Dubey2021Tuning | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        super().__init__(
            domain=domain,
            reward_range=reward_range,
            horizon=horizon,
            privacy=privacy,
            features=_features_of(domain),
            tuning=Dubey2021Tuning(spectral_bound="sharp") if tuning is None else tuning,
            **options,
        )


def _features_of(domain: Any) -> Features:
    last = domain.parts[-1] if isinstance(domain, Product) else None
    if not isinstance(domain, Product) or not isinstance(last, Arms):
        return LinearFeatures(domain=domain)
    rest = domain.parts[:-1]
    base = LinearFeatures(domain=rest[0] if len(rest) == 1 else Product(*rest))
    return ArmFeatures(base=base, arm_column=domain.dim - 1, n_arms=last.n_arms)
