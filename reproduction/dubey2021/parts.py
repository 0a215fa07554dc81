"""Ablation of the published tree in Table 1: one part changed at a time, at the table's extreme epsilons.

Worlds, seeds, coins and noise are those of `table-1`.
"""

import warnings
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any, ClassVar

from dpbandits._typing import Seed
from dpbandits.central.published import Dubey2021
from dpbandits.errors import InvalidParameter
from dpbandits.lab.study import Cell, Record
from dpbandits.privacy.definitions import JointDP, LargeDelta
from reproduction.dubey2021.cells import TREE, make_policy
from reproduction.dubey2021.tree import Parts, simulate_tree
from reproduction.dubey2021.worlds import TABLE_WORLDS
from reproduction.experiments import Item

__all__ = ["ITEM", "OF_THE_SAME_PROMISE", "PARTS", "WHOLE", "PartsCell"]

WHOLE = "as published"
PARTS = {
    WHOLE: Parts(),
    "no noise drawn": Parts(noise=0.0),
    "ten times the shift": Parts(shift=10.0),
    "a tenth of beta_t": Parts(radius=0.1),
    "beta_t 0": Parts(radius=0.0),
    "estimate 0": Parts(estimate=0.0),
}
"""By name. From epsilon .1 to 10 the shift falls to a tenth: ten times it is that of .1."""

OF_THE_SAME_PROMISE = tuple(name for name, parts in PARTS.items() if name != WHOLE and parts.noise == 1.0)
"""Those whose noise is that of the promise: what else is changed reads releases only."""


@dataclass(frozen=True, kw_only=True)
class PartsCell(Cell):
    """The published tree with the noise that it needs, one part of it changed.

    Args:
        world: one of `TABLE_WORLDS`.
        column: one of `PARTS`.
        epsilon, delta: the promise.
    """

    world: str
    column: str
    epsilon: float
    delta: float = 0.1

    measures: ClassVar = {
        "regret": ("regret", "standard_error"),
        "random": ("random", None),
        "bonus": ("bonus", "bonus_se"),
        "apart": ("apart", None),
    }

    def policy(self, seed: Seed) -> Dubey2021:
        """The published one."""
        with warnings.catch_warnings(action="ignore", category=LargeDelta):
            promise = JointDP(epsilon=self.epsilon, delta=self.delta)
            policy = make_policy(TREE, self.world, promise, seed)
        if not isinstance(policy, Dubey2021):
            raise InvalidParameter("the column has another policy")
        return policy

    @property
    def settings(self) -> dict[str, Any]:
        """The policy's public configuration, and what is changed."""
        return {"policy": self.policy(0).to_config(), "parts": asdict(PARTS[self.column])}

    def simulate(self, seed: Seed) -> Record:
        """One run; see `simulate_tree`."""
        return simulate_tree(self.policy(seed), self.world, seed, parts=PARTS[self.column])


ITEM = Item(
    about="the published tree of Table 1, one part of it changed at a time",
    cells=tuple(
        PartsCell(world=world, column=column, epsilon=epsilon)
        for world, epsilon, column in product(TABLE_WORLDS, (10.0, 0.1), PARTS)
    ),
    key=("world", "column", "epsilon"),
    shown="world | epsilon:g | column | regret:.0f | standard_error:.1f | random:.0f | bonus:.3f | apart:.3f",
    reps=5,
)
