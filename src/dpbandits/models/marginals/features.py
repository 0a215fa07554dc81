"""`EffectFeatures`: main effects and interactions of a context as a feature map of norm at most one."""

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import domains
from dpbandits._typing import FloatArray, IntArray
from dpbandits.domains import Arms, Box, Domain, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.base import FEATURES, Features, checked_points
from dpbandits.models.marginals.effects import Effects

__all__ = ["EffectFeatures"]


@FEATURES.add("EffectFeatures", domain=domains.from_config)
class EffectFeatures(Features):
    """The features of `Effects` over boxes and arms side by side, divided by their greatest length.

    Args:
        domain: of encoded contexts.

    Raises:
        InvalidParameter: parts of another kind.
    """

    def __init__(self, *, domain: Domain) -> None:
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
        self.domain, self.effects = domain, Effects.of(categories)
        self._low, self._width = np.concatenate(lows), np.concatenate(widths)
        self.n_features = self.effects.n_weights
        self.supports = ((0, self.n_features),)
        self.scale = float(np.sqrt(self.effects.greatest_square)) * (1.0 + 2.0**-40)

    def levels(self, X: ArrayLike) -> IntArray:
        """(n, d) levels of points (n, d)."""
        points, _ = checked_points(X, self.domain.dim)
        return self.effects.levels((points - self._low) / self._width)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Feature vectors (..., m) of points (..., d)."""
        _, lead = checked_points(X, self.domain.dim)
        return np.asarray(self.effects(self.levels(X)) / self.scale).reshape(*lead, self.n_features)
