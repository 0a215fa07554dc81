"""`ProductRelease`: marginal tables for contexts and arms with public features.

The release is that of `dpbandits.central.marginals.actions`: bins of the arms' columns stand in the tables
where arms would stand. Predictions are effects of contexts times functions of the arms' columns, which all
arms share. With enough people per arm, every arm also has an effect of its own, and a block one more table:
the sum of reward - beta of every arm, over all contexts. Its prior draws an arm's own effect towards zero,
which is the shared prediction.

**Privacy.** A block has q tables of context cells by bins of arms. It has one more table of arms if
`learns_alone` says so, which reads public arguments only. The table with the arms' columns is public, so the
bin of an arm is a public function of the arm. Blocks take the columns in turn, by their number.

A round adds R - beta to one entry of each of the q tables and to the entry of its arm in the table of arms.
Here R and beta are the integers of `release`, with |R - beta| <= c. Replacing the round moves two entries of
each table, by |R - beta| and |R' - beta'|, or one entry by their sum. This is 2 c per table in L1, and
2 (q + 1) c in all with the table of arms. All sums have noise of this sensitivity. Numbers of arms, bins and
columns of arms do not enter. Counts are those of `release`: they hold no arms. The proof of `release` covers
both.

**Products that come and go.** The features of a new product are part of its public announcement
(`dpbandits.central.arm_changes`), so its bin is a public function of it too. A block has rows for the bins
of the products that were offered in it, and its table of arms has an entry for each of them. Both sets are
fixed before the release. A round still adds R - beta to one entry of each of the q + 1 tables, or nothing if
its product was not offered in its block. So the sensitivity stays 2 (q + 1) c, also if the replaced round has
a product that came or went. For every product that was ever offered, the subtracted beta is a function of the
user's own context and product, clipped to the same bounds.

A new product is predicted from the effects of its features. Its own effect has the prior law. Retired
products keep their places among the weights, as the effects that all products share rest on them.
"""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpbandits._reading import reading
from dpbandits._typing import IntArray
from dpbandits.central.arm_changes import ArmHistory
from dpbandits.central.marginals.action_release import ActionRelease
from dpbandits.central.marginals.learning import Heard
from dpbandits.central.marginals.release import Drawn, MarginalRelease
from dpbandits.errors import CorruptState
from dpbandits.models.marginals import Effects
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.tables import Products

__all__ = ["ProductRelease", "learns_alone"]

FIRST_SHARES, PEOPLE = (0.03, 0.1, 1.0 / 3.0), 700.0
"""Shares of the horizon that bound the first block, and its users at epsilon 1; see `action_release`."""

GROWTH, LAST_SHARE = 1.3, 0.9
"""Growth of blocks, and the share of the horizon after which there is no release."""

BINS = 24
"""Most bins of arms in a block."""

FREEDOM = 6.0
"""Functions of arms that all bins together tell most about, where tables are chosen."""

TOLD_ALONE = 20.0
"""Epsilon of a round times users per arm, from which arms have an effect of their own."""


def learns_alone(epsilon: float, people: float) -> bool:
    """Return True if every arm has an effect of its own: a public rule.

    Args:
        epsilon: Epsilon of one round.
        people: Users per arm.
    """
    return epsilon * people >= TOLD_ALONE


class ProductRelease(ActionRelease):
    """Marginal tables with bins of the arms' columns in place of arms; see the module."""

    thompson_scale = 0.6
    freedom: ClassVar[float] = FREEDOM

    def _basis(self) -> ActionBasis:
        products, privacy = self._setup.actions, self._setup.privacy
        people = (self._setup.horizon or 10_000) / products.n_arms
        self._alone = learns_alone(privacy.epsilon / privacy.rounds_per_user, people)
        self._known: tuple[ArmHistory, Products, dict[Any, ActionFeatures]] = self.history, products, {}
        return ActionBasis(products.sizes, products.ordered, products.rows, self._alone)

    def _own_reader(self, effects: Effects) -> Any:
        reader = super()._own_reader(effects)
        self._rule = replace(self._rule, clipped=False)
        return replace(reader, rule=self._rule)

    def _features_at(self, version: int) -> ActionFeatures:
        if not self.history.changes:
            return self._own
        if self._known[0] is not self.history:
            with reading("the features of new products", CorruptState):
                products = self._setup.actions.extended(self.history.products)
            if products.n_arms != len(self.history.labels):
                raise CorruptState("a change of arms lacks the features of a new product")
            self._known = self.history, products, {}
        _, products, features = self._known
        known, offered = self.history.known(version), tuple(self.history.offered(version).tolist())
        if (known, offered) not in features:
            own = self._own
            features[known, offered] = ActionFeatures(
                base=own.base,
                sizes=own.sizes,
                ordered=own.ordered,
                rows=products.rows[:known],
                alone=own.alone,
                offered=None if len(offered) == known else offered,
            )
        return features[known, offered]

    def _rows(self, block: int) -> IntArray:
        if not self.history.changes:
            return self._own.across.basis.bins_of_some(BINS, block)
        bins = self._features_at(len(self.blocks) + 1).across.basis.bins_of_some(BINS, block)
        rows, held = np.full(len(bins), -1, dtype=np.int64), self._offered_in(block)
        rows[held] = np.unique(bins[held], return_inverse=True)[1].ravel()
        return rows

    def _heard(self, number: int, one: Drawn, beliefs: list[Any]) -> tuple[Heard, list[tuple[float, Any]]]:
        told, answered = super()._heard(number, one, beliefs)
        if told.alone is not None and told.arms is not None:
            alone = np.zeros(len(beliefs[-1].mean))
            alone[told.arms] = told.alone
            told = told._replace(alone=alone)
        return told, answered

    def _with_arms(self, version: int, belief: Any, weights: Any) -> tuple[Any, Any]:
        if not self.history.changes:
            return belief, weights
        before = self._features_at(version - 1).across
        belief = replace(belief, offered=self.history.offered(version))
        found: tuple[Any, Any] = self._reader_at(version).joined(belief, weights, before)
        return found

    def _own_blocks(self, census: int) -> tuple[int, ...]:
        if self._setup.horizon is None:
            return super()._own_blocks(census)
        rounds = self._setup.longest
        return self._grown(rounds, PEOPLE, shares=FIRST_SHARES, growth=GROWTH, last_share=LAST_SHARE)

    def can_change(self) -> str | None:
        """Return None if arms may be added and retired, or else the reason why not."""
        return MarginalRelease.can_change(self)
