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
"""

from dataclasses import replace
from typing import Any, ClassVar

from dpbandits._typing import IntArray
from dpbandits.central.marginals.action_release import ActionRelease
from dpbandits.models.marginals import Effects
from dpbandits.models.marginals.action_basis import ActionBasis

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
        return ActionBasis(products.sizes, products.ordered, products.rows, self._alone)

    def _own_reader(self, effects: Effects) -> Any:
        reader = super()._own_reader(effects)
        self._rule = replace(self._rule, clipped=False)
        return replace(reader, rule=self._rule)

    def _rows(self, block: int) -> IntArray:
        return self._own.across.basis.bins_of_some(BINS, block)

    def _own_blocks(self, census: int) -> tuple[int, ...]:
        if self._setup.horizon is None:
            return super()._own_blocks(census)
        rounds = self._setup.longest
        return self._grown(rounds, PEOPLE, shares=FIRST_SHARES, growth=GROWTH, last_share=LAST_SHARE)

    def can_change(self) -> str | None:
        """Return the reason why arms cannot be added or retired."""
        return "its arms are products of a table, which is fixed"
