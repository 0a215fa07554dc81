"""`PrivateRidge`: a simple private ridge regression, which every private method here must beat.

It uses quadratic features of the encoded context, separate for every arm. Blocks double in length. At a
block's end its Gram matrix and vector are released together with fresh noise. The sums of all releases are
made positive semidefinite and solved with a ridge. The first block is answered at random, and every later
round greedily.

Privacy: (epsilon, delta)-joint DP. With a feature vector phi, ||phi|| <= 1, and a reward z in [-1, 1] a
round contributes (phi phi^T, z phi). Replace it by (psi psi^T, y psi), with unit vectors and c = phi.psi.
This changes the pair by a squared distance of 2 - 2 c^2 + z^2 + y^2 - 2 z y c, which is convex in z and in
y. For z, y = +-1 it is at most 4 + 2 |c| - 2 c^2, which is largest at |c| = 1/2, where it is 9/2. Shorter
vectors and other arms (c = 0) give less. So the joint sensitivity is 3/sqrt(2). `GramVectorMechanism` at
ratio 1 enforces both bounds on integers. Every round belongs to one block, so the guarantee of one block's
release holds for the releases of all blocks together. Everything else is computed from releases and public
coins.
"""

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import domains
from dpbandits._config import Configured
from dpbandits._memory import FLOAT, check_fits
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.arguments import check_kinds
from dpbandits.central.statement import Setting, block_release_guarantee
from dpbandits.domains import Arms, Box, Domain, Product
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines.crude import CrudePolicy, CrudeTuning
from dpbandits.models.features import Features, block_entries, in_fixed_shapes
from dpbandits.models.features.base import FEATURES, checked_points
from dpbandits.models.features.mercer import ArmFeatures
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import PolicyOptions
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord
from dpbandits.privacy.prefix_sums import BlockRelease, identity

__all__ = ["PrivateRidge", "QuadraticFeatures", "scaled_columns"]

PRIOR_VARIANCE = 0.2
"""Prior variance of a feature's weight, in squared widths of the reward range."""

REWARD_VARIANCE = 0.25
"""Largest variance of a reward, in squared widths of the reward range."""

RIDGE = 0.3
"""Addition to the ridge, as a multiple of the largest eigenvalue of the noise; chosen on tuning tables."""


def scaled_columns(parts: Sequence[Domain], points: FloatArray) -> FloatArray:
    """Return points (n, d) with numbers scaled to [-1, 1] and categories as indicators, (n, columns).

    The squares of each row add up to at most d.
    """
    columns, at = [], 0
    for part in parts:
        own = points[:, at : at + part.dim]
        at += part.dim
        if isinstance(part, Box):
            columns.append(2.0 * (own - part.low) / (part.high - part.low) - 1.0)
        elif isinstance(part, Arms):
            columns.append((own == np.arange(part.n_arms)).astype(np.float64))
    return np.concatenate(columns, axis=1)


@FEATURES.add("QuadraticFeatures", domain=domains.from_config)
class QuadraticFeatures(Features, Configured):
    """Quadratic features: a constant, numbers, indicators of categories, and their squares and products.

    Let u be the columns scaled to [-1, 1], with categories as indicators, and d the number of columns. The
    features are half of the symmetric square of (1, u/sqrt(d)), with norm (1 + |u|^2/d)/2 <= 1. Two features
    are left out: the product of two categories of one column, which is zero, and the square of an indicator,
    which equals the indicator.

    Args:
        domain: Domain of boxes and arms.
    """

    def __init__(self, *, domain: Domain) -> None:
        parts = domain.parts if isinstance(domain, Product) else (domain,)
        if not all(isinstance(part, Box | Arms) for part in parts):
            raise InvalidParameter("quadratic features need a domain of boxes and arms")
        self.domain, column, owner, numeric = domain, 0, [], []
        for part in parts:
            widths = [part.n_arms] if isinstance(part, Arms) else [1] * part.dim
            for width in widths:
                owner += [column] * width
                numeric += [isinstance(part, Box)] * width
                column += 1
        owners, numbers = np.array(owner), np.array(numeric)
        first, second = np.triu_indices(len(owners))
        kept = (owners[first] != owners[second]) | ((first == second) & numbers[first])
        self._first, self._second = first[kept], second[kept]
        self._parts, self._scale = parts, 1.0 / np.sqrt(domain.dim)
        self.n_features = 1 + len(owners) + int(kept.sum())
        self.supports = ((0, self.n_features),)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the features (..., m) of points (..., d)."""
        points, lead = checked_points(X, self.domain.dim)
        u = self._scale * scaled_columns(self._parts, points)
        twice = np.where(self._first == self._second, 1.0, np.sqrt(2.0))
        products = twice * u[:, self._first] * u[:, self._second]
        phi = 0.5 * np.concatenate([np.ones((len(u), 1)), np.sqrt(2.0) * u, products], axis=1)
        return phi.reshape(*lead, self.n_features)


class PrivateRidge(CrudePolicy):
    """Private ridge regression on quadratic features, greedy after a random first block.

    Args:
        contexts, arms, domain, reward_range, horizon, privacy: See `central.GPBandit`.
        features: Features of norm at most one. Default: `QuadraticFeatures`; with `arms`, those of contexts,
            separate for every arm.
        tuning: See `CrudeTuning`.
        **options: `seed`, `noise`, `account`; see `PolicyOptions`.

    Privacy: (epsilon, delta)-joint DP, replace one user's contribution; proof in the module.
    """

    kind = "baselines.PrivateRidge"
    features: Features
    _mechanism: BlockRelease

    def __init__(
        self,
        *,
        horizon: int,
        privacy: JointDP,
        features: Features | None = None,
        domain: domains.Domain | None = None,
        contexts: Any = None,
        arms: Any = None,
        reward_range: Any = (0.0, 1.0),
        tuning: CrudeTuning | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        check_kinds(features=features, optional=("features",))
        super().__init__(
            domain=domain,
            contexts=contexts,
            arms=arms,
            reward_range=reward_range,
            horizon=horizon,
            privacy=privacy,
            tuning=tuning,
            **options,
        )
        if features is None and isinstance(self.domain, Product) and self.menu is not None:
            base = QuadraticFeatures(domain=Product(*self.domain.parts[:-1]))
            features = ArmFeatures(base=base, arm_column=self.domain.dim - 1, n_arms=self.menu.n_arms)
        self.features = QuadraticFeatures(domain=self.domain) if features is None else features
        released = len(self.blocks) * block_entries(self.features.supports)
        check_fits(FLOAT * 3 * (self.features.n_features**2 + released), instead="take fewer columns or arms")
        self._mechanism = BlockRelease(
            factor=identity(len(self.blocks)),
            mechanism=GramVectorMechanism(
                n_features=self.features.n_features,
                supports=self.features.supports,
                ratio=1.0,
                rounds_per_user=privacy.rounds_per_user,
            ),
            noise=self.noise,
            epsilon=privacy.epsilon,
            delta=privacy.delta,
            max_rounds=horizon,
        )
        self._released = np.zeros((0, self._mechanism.mechanism.size), dtype=np.int64)
        self._public = np.zeros((self.features.n_features, self.features.n_features + 1))  # Gram, and vector
        self._posterior = WeightPosterior.prior(PRIOR_VARIANCE, self.features.supports)

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of (epsilon, delta)-joint DP."""
        setting = Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids)
        return block_release_guarantee(
            self.privacy,
            self._mechanism,
            width=self.reward_range.width,
            setting=setting,
            public_decision_sets=False,
        )

    def _record(self) -> MechanismRecord:
        return self._mechanism.record()

    def _draw(self, block: int, actions: FloatArray, rewards: FloatArray, told: BoolArray) -> IntArray:
        sums = np.zeros((block + 1, self._released.shape[1]), dtype=np.int64)  # earlier blocks have weight 0
        phi = in_fixed_shapes(self.features, actions)[told]
        sums[block] = self._mechanism.mechanism.encode(phi, self.reward_range.to_centred(rewards[told]))
        return self._mechanism.release(block, sums)

    def _fit(self) -> None:
        blocks, mechanism = len(self._released), self._mechanism
        gram, vector = self._public[:, :-1], self._public[:, -1]
        if blocks:
            summed = mechanism.block_estimates(self._released).sum(axis=0)
            noisy, sums = mechanism.mechanism.from_coordinates(summed)
            gram, vector = gram + noisy, vector + sums
        mean, factors = np.zeros_like(vector), []
        for low, high in self.features.supports:
            noise = mechanism.gram_noise_sd * np.sqrt(2.0 * blocks * (high - low))  # largest eigenvalue
            values, vectors = np.linalg.eigh(gram[low:high, low:high])
            precision = np.maximum(values, 0.0) + REWARD_VARIANCE / PRIOR_VARIANCE + RIDGE * noise
            mean[low:high] = vectors @ (vectors.T @ vector[low:high] / precision)
            factors.append(vectors * np.sqrt(REWARD_VARIANCE / precision))
        self._posterior = WeightPosterior(mean=mean, factors=factors, supports=self.features.supports)

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        phi, centred = self.features(points), self.reward_range.to_centred(rewards)
        self._public = self._public + phi.T @ np.column_stack([phi, centred])
        self._fit()

    def _scores(self, candidates: FloatArray) -> FloatArray:
        return self.features.project(candidates, self._posterior.mean[:, None])[..., 0]

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        mean, spread = self._posterior.predict(self.features(points))
        return self.reward_range.from_centred(mean), self.reward_range.width * spread
