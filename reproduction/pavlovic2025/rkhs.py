"""Worlds for USCA: sums of kernel sections over (action, context).

An `RKHSWorld` is f(w) = sum_j a_j k(w, z_j), with uniform centres z_j and standard normal weights a_j. f is
scaled to sup |f| = 1 over its cells. Rewards are f plus normal noise, clipped to [-B, B], B = 1.2. The seed
determines everything. For evaluation only: worlds return true means.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.errors import InvalidParameter
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins

__all__ = ["FINER", "SETTINGS", "RKHSSetting", "RKHSWorld", "rkhs_setting"]

CENTRES = 15
NOISE_SD = 0.1
BOUND = 1.2


@dataclass(frozen=True, eq=False)
class RKHSSetting:
    """Public parameters that all worlds of one kind share.

    Attributes:
        name: for tables.
        kernel: over (action, context) columns.
        actions, contexts: public cells; contexts are drawn from their law.
    """

    name: str
    kernel: Kernel
    actions: CellMeasure
    contexts: CellMeasure

    @property
    def reward_range(self) -> tuple[float, float]:
        """(-1.2, 1.2)."""
        return (-BOUND, BOUND)

    def world(self, seed: Seed) -> "RKHSWorld":
        """One function."""
        return RKHSWorld(self, seed)


@dataclass(frozen=True, eq=False)
class RKHSWorld:
    """One function of a setting.

    Args:
        setting: kind of world.
        seed: keys centres, weights, contexts and noise.
    """

    setting: RKHSSetting
    seed: Seed

    @cached_property
    def means(self) -> FloatArray:
        """(A, C) f at every cell, sup |f| = 1."""
        setting = self.setting
        points = CellMeasure.product(setting.actions, setting.contexts).points
        low, high = points.min(axis=0), points.max(axis=0)
        coins = PublicCoins(self.seed)
        centres = low + (high - low) * coins.uniform("rkhs/centres", 0, CENTRES, points.shape[1])
        weights = coins.normal("rkhs/weights", 0, CENTRES, 1)[:, 0]
        values = setting.kernel(points, centres) @ weights
        return np.asarray((values / np.abs(values).max()).reshape(setting.actions.size, -1))

    def contexts(self, start: int, stop: int) -> IntArray:
        """Context cells of rounds start..stop-1."""
        uniforms = PublicCoins(self.seed).uniform("rkhs/contexts", start, stop, 1)[:, 0]
        return self.setting.contexts.cells_at(uniforms)

    def rewards(self, start: int, stop: int, actions: IntArray) -> FloatArray:
        """Rewards of rounds start..stop-1 for action cells (B,)."""
        noise = NOISE_SD * PublicCoins(self.seed).normal("rkhs/noise", start, stop, 1)[:, 0]
        return np.asarray(np.clip(self.means[actions, self.contexts(start, stop)] + noise, -BOUND, BOUND))

    def loss(self, chosen: IntArray) -> float:
        """Mean loss, over the law of contexts, of one action a context cell (C,)."""
        gaps = self.means.max(axis=0) - self.means[chosen, np.arange(self.means.shape[1])]
        return float(self.setting.contexts.weights @ gaps)

    def loss_of_law(self, law: FloatArray, context: int) -> float:
        """Expected loss at one context cell of a law over actions (A,)."""
        column = self.means[:, context]
        return float(column.max() - law @ column)

    @property
    def random_loss(self) -> float:
        """Mean loss of a uniformly random action."""
        return float(self.setting.contexts.weights @ (self.means.max(axis=0) - self.means.mean(axis=0)))


def _setting(name: str, kernel: Kernel, actions: tuple[int, ...], contexts: tuple[int, ...]) -> RKHSSetting:
    """Cells along each action column and each context column, which run from 0 to 1."""
    measures = (
        CellMeasure.product(*(CellMeasure.uniform(low=0.0, high=1.0, cells=cells) for cells in columns))
        for columns in (actions, contexts)
    )
    return RKHSSetting(name, kernel, *measures)


SETTINGS = {
    one.name: one
    for one in (
        _setting("SE .2 in 1+1", SquaredExponential(lengthscale=0.2), (48,), (48,)),
        _setting("SE .5 in 1+1", SquaredExponential(lengthscale=0.5), (48,), (48,)),
        _setting("Matern-5/2 .3 in 1+1", Matern(nu=2.5, lengthscale=0.3), (48,), (48,)),
        _setting("SE .3 in 2+1", SquaredExponential(lengthscale=0.3), (20, 20), (32,)),
    )
}
"""The four settings of the results page."""

FINER = {
    one.name: one
    for one in (
        _setting(f"SE .2 in 1+1, {cells} actions", SquaredExponential(lengthscale=0.2), (cells,), (48,))
        for cells in (6, 12, 24, 48, 96, 192)
    )
}
"""The first with its interval of actions cut into fewer and more cells: what a continuum comes to."""


def rkhs_setting(name: str) -> RKHSSetting:
    """A setting by name.

    Raises:
        InvalidParameter: no such setting.

    Example:
        >>> world = rkhs_setting("SE .2 in 1+1").world(1_000_000)
        >>> world.means.shape, round(float(abs(world.means).max()), 6)
        ((48, 48), 1.0)
    """
    known = SETTINGS | FINER
    if name not in known:
        raise InvalidParameter(f"setting: expected one of {sorted(known)}")
    return known[name]
