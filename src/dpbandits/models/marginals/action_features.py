"""`ActionFeatures`: feature map of effects of a context times functions of an action."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.features.base import FEATURES, Features, checked_points
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.models.marginals.actions import ActionEffects
from dpbandits.models.marginals.features import EffectFeatures

__all__ = ["ActionFeatures"]


def _rows(given: Any) -> tuple[tuple[int, ...], ...] | None:
    return None if given is None else tuple(tuple(map(int, row)) for row in given)


@FEATURES.add("ActionFeatures", base=FEATURES.read, sizes=tuple, ordered=tuple, rows=_rows, offered=tuple)
class ActionFeatures(Features):
    """The features of `ActionEffects`: points are encoded contexts followed by the code of an action.

    Args:
        base: Features of contexts, with `Effects`.
        sizes: Number of levels of each column of the actions.
        ordered: True for columns with an order.
        rows: Levels of every action; None for the full grid.
        alone: True if every action has a function of its own.
        offered: Places (k,) in `rows` of the actions whose codes are 0 .. k - 1; None for all actions. The
            weights are those of all actions.
    """

    row_by_row = True

    def __init__(
        self,
        *,
        base: EffectFeatures,
        sizes: Sequence[int],
        ordered: Sequence[bool],
        rows: Sequence[Sequence[int]] | None = None,
        alone: bool = False,
        offered: Sequence[int] | None = None,
    ) -> None:
        if not isinstance(base, EffectFeatures):
            raise InvalidParameter("base: expected EffectFeatures")
        self.base = base
        self.sizes, self.ordered = tuple(map(int, sizes)), tuple(map(bool, ordered))
        self.rows, self.alone = _rows(rows), bool(alone)
        basis = ActionBasis(self.sizes, self.ordered, self.rows, self.alone)
        self.across = ActionEffects(base.effects, basis)
        table = self.across.basis.table
        longest = float(np.sqrt((table**2).sum(axis=1).max())) * (1.0 + 2.0**-40)
        self._table = table / longest
        self.offered = None if offered is None else tuple(map(int, offered))
        places = np.arange(len(table)) if offered is None else np.array(self.offered, dtype=np.int64)
        if not len(places) or places.min() < 0 or places.max() >= len(table) or (np.diff(places) < 1).any():
            raise InvalidParameter("offered: expected increasing places of actions in rows")
        self._offered = self._table[places]
        self.n_arms, self.arm_column = len(places), base.domain.dim
        self.n_features = self.across.n_weights
        self.supports = ((0, self.n_features),)
        self.scale = base.scale
        self.ratio = self.across.products(base.ratio[None], np.full((1, table.shape[1]), longest))[0]

    def __call__(self, X: ArrayLike) -> FloatArray:
        """Return feature vectors (..., J) of points (..., d + 1)."""
        points, lead = checked_points(X, self.arm_column + 1)
        codes = points[:, -1]
        if not np.all((codes >= 0) & (codes < self.n_arms) & (codes == np.floor(codes))):
            raise InvalidData(f"actions: expected codes 0 .. {self.n_arms - 1}")
        phi = self.across.products(self.base(points[:, :-1]), self._offered[codes.astype(np.int64)])
        return phi.reshape(*lead, self.n_features)

    def of_actions(self, weights: FloatArray) -> FloatArray:
        """Return the weights (..., k, m) of the features `base` of every offered action, from joint weights
        (..., J).
        """
        return self.across.of_actions(weights, self._offered)

    def of_every(self, weights: FloatArray) -> FloatArray:
        """Return all actions' weights (..., K, m), also of those that are not offered; see `of_actions`."""
        return self.across.of_actions(weights, self._table)
