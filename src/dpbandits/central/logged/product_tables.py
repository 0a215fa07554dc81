"""Marginal tables of a log whose arms have public features: `ExploreThenCommit(arms=Products(...))`.

The tables are those of `dpbandits.central.logged.tables`, with bins of the arms' columns in place of arms. As
online (`dpbandits.central.marginals.product_release`), effects of the features are shared by all arms. With
enough rows per arm, every arm also has an effect of its own, and there is one more table, of all arms.

**Contribution of a row.** The integer of a row is that of `dpbandits.central.logged.tables`: at most U in
size for every propensity. The row adds it to one entry of each of q tables, the cell of its context in the
row of its arm's bin. If there is a table of arms, it adds the same integer to the entry of its arm. Counts
hold no arms. The bin of an arm is a public function of the arm, as the table with the features is public.

**Sensitivity.** Every table of the sums, the table of arms included, has one entry to which a row adds. So
the proof of `dpbandits.central.logged.tables` holds with q + 1 in place of q. The sensitivities are
2 (q + 1) U k in L1, and k sqrt(4 (q + 1) U^2 + 2 t W^2) in L2 together with counts.
Numbers of arms, bins and features do not enter.

**Expectation.** Rows are weighted by 1/(K p), so a sum is in expectation that of evenly drawn arms, as far as
weights are not cut.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.logged.action_tables import ActionTableRelease
from dpbandits.central.logged.tables import TableRelease
from dpbandits.central.marginals.actions import ActionRule
from dpbandits.central.marginals.product_release import BINS, FREEDOM, learns_alone
from dpbandits.models.features import Features
from dpbandits.models.marginals import EffectFeatures
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.tables import Products

__all__ = ["ProductTableRelease"]

MOST_BINS = 48
"""Most bins of arms by which every column is cut.

Two scratch seeds chose it, without a committed result. `python -m reproduction.tuning.products --logs`
compares bins of all columns with bins of the first ones.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProductTableRelease(ActionTableRelease):
    """The mechanism that releases the tables of a log of products, and the computation of the function."""

    freedom = FREEDOM

    @property
    def actions(self) -> Any:
        """Table of products, which stands where a grid of actions would."""
        return self.products

    @property
    def products(self) -> Products:
        """Arms with their features."""
        found: Products = self.menu.products  # type: ignore[assignment]
        return found

    @cached_property
    def n_alone(self) -> int:
        """Number of entries of the table of arms; 0 without it."""
        rows = self.horizon / self.products.n_arms
        return self.products.n_arms * learns_alone(self.privacy.epsilon / self.privacy.rounds_per_user, rows)

    @cached_property
    def even(self) -> FloatArray:
        """Shares (K,) of the arms if they are drawn evenly."""
        return np.full(self.products.n_arms, 1.0 / self.products.n_arms)

    # Rows are read as those of arms without features.
    codes = TableRelease.codes
    check_weights = TableRelease.check_weights
    even_propensity = TableRelease.even_propensity

    @cached_property
    def row_of(self) -> IntArray:
        """Bin (K,) of every arm: by all columns, or by the first ones if all give more than `MOST_BINS`."""
        found: IntArray = np.unique(self._basis.bins(BINS), return_inverse=True)[1].ravel()
        return self._basis.bins_of_some(BINS, 0) if found.max() >= MOST_BINS else found

    @cached_property
    def _basis(self) -> ActionBasis:
        own = self.products
        return ActionBasis(own.sizes, own.ordered, own.rows, bool(self.n_alone))

    def _features_of(self, base: EffectFeatures) -> Features:
        own = self._basis
        return ActionFeatures(base=base, sizes=own.sizes, ordered=own.ordered, rows=own.rows, alone=own.alone)

    @property
    def _rule(self) -> ActionRule:
        low, width = self.reward_range.low, self.reward_range.width
        return ActionRule(self.products, low, width, clipped=False)
