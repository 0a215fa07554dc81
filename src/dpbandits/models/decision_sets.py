"""Public decision sets: the candidates that a policy expects, fixed before any data.

The Gram matrix of a block is shrunk towards the one of these decision sets. They are public draws with
choices by released policies, so they cost no privacy. If real decision sets differ, only utility is lost.
"""

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Arms, Domain, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import Features, Placed

__all__ = ["PublicSets", "public_rows", "uniform_decision_sets"]

PUBLIC_SETS = 400
"""Number of sets that are drawn if none are declared. The mean of phi phi^T then has an error of about 5%."""

PUBLIC_CANDIDATES = 25

ROWS_AT_ONCE = 1_000
"""Number of rows whose features are computed at a time."""


def uniform_decision_sets(domain: Domain, *, n_sets: int, n_candidates: int, seed: Seed) -> FloatArray:
    """Return decision sets (n_sets, n, d) under the public uniform law of `domain`.

    If the last part of a product domain is `Arms`, a set is one context with every arm, and `n_candidates` is
    not used. Otherwise a set has `n_candidates` independent points.
    """
    rng = np.random.Generator(np.random.Philox(key=seed))
    if isinstance(domain, Product) and isinstance(domain.parts[-1], Arms):
        arms = domain.parts[-1]
        contexts = domain.sample(n_sets, rng)
        sets = np.repeat(contexts[:, None, :], arms.n_arms, axis=1)
        sets[:, :, -1] = np.arange(arms.n_arms)
        return sets
    return domain.sample(n_sets * n_candidates, rng).reshape(n_sets, n_candidates, domain.dim)


def public_rows(domain: Domain, sets: FloatArray | str | None) -> int:
    """Return the number of candidates in all sets of `PublicSets.of`."""
    if sets is not None and not isinstance(sets, str):
        return int(np.prod(sets.shape[:2]))
    arms = domain.parts[-1] if isinstance(domain, Product) else None
    return PUBLIC_SETS * (arms.n_arms if isinstance(arms, Arms) else PUBLIC_CANDIDATES)


class PublicSets:
    """Features of public decision sets, and the mean of phi phi^T over rows chosen in them.

    Args:
        features: Feature map of the policy.
        sets: Public decision sets, shape (S, n, d).
    """

    def __init__(self, features: Features, sets: FloatArray) -> None:
        if sets.ndim != 3 or 0 in sets.shape:
            raise InvalidParameter(f"public decision sets: expected shape (S, n, d), got {sets.shape}")
        self.sets, self._supports = sets, features.supports
        points = sets.reshape(-1, sets.shape[-1])
        parts = [
            features.placed(
                points[start : start + ROWS_AT_ONCE], through=lambda own, some: own.of_known(some)
            )
            for start in range(0, len(points), ROWS_AT_ONCE)
        ]
        self._placed = Placed(*map(np.concatenate, zip(*parts, strict=True)))

    def __len__(self) -> int:
        return len(self.sets)

    def mean_gram_uniform(self) -> FloatArray:
        """Return the mean (C,) of phi phi^T by blocks if every row is equally likely."""
        return np.asarray(self._placed.gram(self._supports) / (len(self) * self.sets.shape[1]))

    @property
    def rows(self) -> FloatArray:
        """Features (S n, w) of all candidates, each in its support, without a copy."""
        return self._placed.phi

    def best(self, weights: FloatArray) -> Placed:
        """Return the features of the best row of each set s under weights[s], for weights (S, m)."""
        support, phi = self._placed
        each = (*self.sets.shape[:2], phi.shape[1])
        if len(self._supports) == 1:
            scores = np.matmul(phi.reshape(each), weights[:, :, None])[:, :, 0]
        else:
            starts = np.array([low for low, _ in self._supports])[support].reshape(each[:2])
            scores = np.zeros(each[:2])
            for column in range(each[2]):  # phi is zero beyond the end of a support
                places = np.minimum(starts + column, weights.shape[1] - 1)
                scores += phi[:, column].reshape(each[:2]) * np.take_along_axis(weights, places, axis=1)
        chosen = np.arange(len(self)) * each[1] + np.argmax(scores, axis=1)
        return Placed(support[chosen], phi[chosen])

    def mean_gram_of_best(self, weights: FloatArray) -> FloatArray:
        """Return the mean (C,) of phi phi^T by blocks over the best row of set s under weights[s] (S, m)."""
        return self.best(weights).gram(self._supports) / len(self)

    @classmethod
    def of(
        cls, features: Features, domain: Domain, sets: FloatArray | str | None, *, seed: Seed
    ) -> "PublicSets":
        """Return the declared sets (S, n, d), else `PUBLIC_SETS` uniform ones of `PUBLIC_CANDIDATES`."""
        if sets is not None and not isinstance(sets, str):
            return cls(features, sets)
        global _drawn  # noqa: PLW0603  # a cache of one: a study builds thousands of equal policies
        if _drawn is None or _drawn[0] is not features or _drawn[1] is not domain or _drawn[2] != seed:
            size = {"n_sets": PUBLIC_SETS, "n_candidates": PUBLIC_CANDIDATES}
            _drawn = features, domain, seed, cls(features, uniform_decision_sets(domain, **size, seed=seed))
        return _drawn[3]


_drawn: tuple[Features, Domain, Seed, PublicSets] | None = None
