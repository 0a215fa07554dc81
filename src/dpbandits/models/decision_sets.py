"""Public decision sets, fixed before any data: sets of candidates like those that a policy expects.

The estimated Gram matrix of a block is shrunk towards the mean Gram matrix of these sets. The sets are
public draws, and choices in them follow released policies, so they cost no privacy. If real decision sets
differ from them, only utility is lost.
"""

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import Arms, Domain, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models.features import Features, Placed

__all__ = ["PublicSets", "public_rows", "uniform_decision_sets"]

PUBLIC_SETS = 400
"""Number of decision sets that are drawn if none are declared; their
mean of phi phi^T has an error of about 5%.
"""

PUBLIC_CANDIDATES = 25

ROWS_AT_ONCE = 1_000
"""Number of rows whose features are computed at a time."""


def uniform_decision_sets(domain: Domain, *, n_sets: int, n_candidates: int, seed: Seed) -> FloatArray:
    """Return decision sets, shape (n_sets, n, d), drawn from the public uniform law of `domain`.

    If the last part of a product domain is `Arms`, a set is one context with every arm, and `n_candidates`
    is not used. Otherwise a set has `n_candidates` independent points.
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
    """Return the total number of candidates in the decision sets that `PublicSets.of` would return."""
    if sets is not None and not isinstance(sets, str):
        return int(np.prod(sets.shape[:2]))
    arms = domain.parts[-1] if isinstance(domain, Product) else None
    return PUBLIC_SETS * (arms.n_arms if isinstance(arms, Arms) else PUBLIC_CANDIDATES)


class PublicSets:
    """Features of S public decision sets of n candidates, and mean Gram matrices of chosen candidates.

    Gram matrices phi phi^T are zero between supports. They are stored by blocks, one per support, as C
    entries. Feature vectors have m entries, and at most w that are not zero.

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
        """Return the mean of phi phi^T over all candidates, as blocks (C,)."""
        return np.asarray(self._placed.gram(self._supports) / (len(self) * self.sets.shape[1]))

    @property
    def rows(self) -> FloatArray:
        """Features (S n, w) of all candidates, each without the zeros of other supports, as a view."""
        return self._placed.phi

    def best(self, weights: FloatArray) -> Placed:
        """Return the features of the candidate with the highest score under weights[s], for each set s.

        Args:
            weights: Feature weights, shape (S, m).
        """
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
        """Return the mean of phi phi^T over each set's best candidate under weights[s], as blocks (C,).

        Args:
            weights: Feature weights, shape (S, m).
        """
        return self.best(weights).gram(self._supports) / len(self)

    @classmethod
    def of(
        cls, features: Features, domain: Domain, sets: FloatArray | str | None, *, seed: Seed
    ) -> "PublicSets":
        """Return the declared decision sets (S, n, d), or `PUBLIC_SETS` uniform sets if none are declared.

        Without arms in the domain, a uniform set has `PUBLIC_CANDIDATES` points.
        """
        if sets is not None and not isinstance(sets, str):
            return cls(features, sets)
        global _drawn  # noqa: PLW0603  # a cache of one: a study builds thousands of equal policies
        if _drawn is None or _drawn[0] is not features or _drawn[1] is not domain or _drawn[2] != seed:
            size = {"n_sets": PUBLIC_SETS, "n_candidates": PUBLIC_CANDIDATES}
            _drawn = features, domain, seed, cls(features, uniform_decision_sets(domain, **size, seed=seed))
        return _drawn[3]


_drawn: tuple[Features, Domain, Seed, PublicSets] | None = None
