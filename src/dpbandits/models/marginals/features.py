"""Feature map `EffectFeatures`: main effects and interactions of a context, with norm at most one."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import domains
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import Arms, Box, Domain, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.base import FEATURES, Features, checked_points
from dpbandits.models.marginals.census import Cuts, located
from dpbandits.models.marginals.designing import LARGEST_TABLE
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.posterior import Relevance

__all__ = ["EffectFeatures", "tables_hold"]


def tables_hold(contexts: Domain) -> bool:
    """Return True if reward tables can hold more than two thirds of the columns of encoded contexts.

    A column of more than `LARGEST_TABLE` categories fits in no reward table, so its effect is not learned.
    """
    parts = contexts.parts if isinstance(contexts, Product) else (contexts,)
    left_out = sum(isinstance(part, Arms) and part.n_arms > LARGEST_TABLE for part in parts)
    return 3 * left_out < contexts.dim


def _pairs(found: Sequence[Sequence[int]] | None) -> tuple[tuple[int, int], ...] | None:
    return None if found is None else tuple((int(i), int(j)) for i, j in found)


def _cuts(found: Sequence[Sequence[float]] | None) -> Cuts | None:
    return None if found is None else tuple(tuple(float(cut) for cut in own) for own in found)


@FEATURES.add("EffectFeatures", domain=domains.from_config, pairs=_pairs, fine=bool, cuts=_cuts)
class EffectFeatures(Features):
    """Feature map of `Effects` over products of boxes and arms, scaled by the prior variances of `Relevance`.

    If every weight has variance scale^2, the reward function has prior variance one on average over levels.

    Args:
        domain: Domain of encoded contexts.
        pairs: Columns (i, j), i < j, whose interactions are features, in order; None for all that are small.
        fine: True if ranges have more cosines; see `Effects`.
        cuts: Inner ends of each column's levels, as shares of its range, strictly increasing in (0, 1); ()
            for equal levels and for categories. None if no column has cuts.

    Attributes:
        effects: Functions that are the features, up to a factor each.
        ratio: Weight of each feature that is equivalent to a weight of one in `effects`, shape (m,).

    Raises:
        InvalidParameter: The domain has other parts, pairs have columns that do not exist or are too large,
            or cuts have another form.
    """

    row_by_row = True  # features are looked up, and multiplied one by one

    def __init__(
        self,
        *,
        domain: Domain,
        pairs: Sequence[tuple[int, int]] | None = None,
        fine: bool = False,
        cuts: Sequence[Sequence[float]] | None = None,
    ) -> None:
        parts = domain.parts if isinstance(domain, Product) else (domain,)
        categories: list[int | None] = []
        lows, widths = [], []
        for part in parts:
            if isinstance(part, Arms):
                categories.append(part.n_arms)
                lows.append(np.zeros(1))
                widths.append(np.ones(1))
            elif isinstance(part, Box):
                categories += [None] * part.dim
                lows.append(part.low)
                widths.append(part.high - part.low)
            else:
                raise InvalidParameter("effects are of boxes and arms")
        self.domain, self.pairs, self.fine = domain, None if pairs is None else tuple(pairs), fine
        self.effects = replace(Effects.of(categories, fine=fine), pairs=self.pairs)
        known = {
            (i, j) for i, j in combinations(range(len(categories)), 2) if self.effects.small_enough(i, j)
        }
        if self.pairs is not None and (
            not known.issuperset(self.pairs) or self.pairs != tuple(sorted({*self.pairs}))
        ):
            raise InvalidParameter(
                "pairs are of two columns (i, j), i < j, in order, and their effects are few"
            )
        self.cuts = _cuts(cuts)
        if self.cuts is not None and not self._are_cuts(self.cuts):
            raise InvalidParameter("cuts: for each column the increasing inner ends of its levels, or none")
        self._low, self._width = np.concatenate(lows), np.concatenate(widths)
        self.n_features = self.effects.n_weights
        self.supports = ((0, self.n_features),)
        prior = Relevance.prior(self.effects).variances
        shares = prior / prior.sum()  # every term has variance one, times its share
        self.scale = float(np.sqrt(self.effects.greatest_square(shares))) * (1.0 + 2.0**-40)
        self.ratio = self.scale / np.sqrt(shares[self.effects.term_of])

    def shares(self, X: ArrayLike) -> FloatArray:
        """Return points (..., d) as an array (n, d), with every range of the domain scaled to [0, 1]."""
        points, _ = checked_points(X, self.domain.dim)
        return np.asarray((points - self._low) / self._width)

    def levels(self, X: ArrayLike) -> IntArray:
        """Return the levels (n, d) of points (..., d)."""
        return self._levels_at(self.shares(X))

    def _levels_at(self, shares: FloatArray) -> IntArray:
        levels = self.effects.levels(shares)
        return levels if self.cuts is None else located(shares, levels, self.cuts)

    def bins(self, X: ArrayLike, count: int) -> IntArray:
        """Return the bin of each column of points, shape (n, d), with `count` equal bins of each range."""
        points, _ = checked_points(X, self.domain.dim)
        cut = np.floor(count * ((points - self._low) / self._width)).astype(np.int64)
        return np.asarray(np.clip(cut, 0, count - 1))

    def _are_cuts(self, cuts: Cuts) -> bool:
        sizes, ordered = self.effects.sizes, self.effects.ordered
        return len(cuts) == len(sizes) and all(
            not own or (is_range and len(own) == size - 1 and bool(np.all(np.diff((0.0, *own, 1.0)) > 0.0)))
            for own, size, is_range in zip(cuts, sizes, ordered, strict=True)
        )

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return the feature vectors (..., m) of points (..., d)."""
        return self._features_at(self.shares(X)).reshape(*np.shape(X)[:-1], self.n_features)

    def of_known(self, points: FloatArray) -> FloatArray:
        """Return the feature vectors (..., m) of points (..., d) that are known to lie in the domain."""
        shares = (points.reshape(-1, points.shape[-1]) - self._low) / self._width
        return self._features_at(shares).reshape(*points.shape[:-1], self.n_features)

    def _features_at(self, shares: FloatArray) -> FloatArray:
        phi = self.effects(self._levels_at(shares))
        phi /= self.ratio
        return phi
