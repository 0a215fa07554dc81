"""A crude private histogram: what an hour gives, at pure epsilon.

A public grid parts contexts into few cells; blocks that double; at a block's end every pair of a cell and an
arm releases its successes and its failures with fresh noise; the first block is answered at random, and every
later round by the arm that did best in its cell, by all releases together, drawn towards what the arm earned
elsewhere.

Privacy: epsilon-joint DP, and the proof is short. A round that was told a reward y, scaled to [0, 1], adds
the integers s = round(2^20 y) and 2^20 - s to the two counts of one pair, another adds nothing: at most 2^20
in absolute values. Replacing a round moves the counts of its block by at most 2^21 in L1, and k rounds of a
user move all blocks together by at most k 2^21. `CellSums.release` adds discrete Laplace noise of rate at
most epsilon/(k 2^21), so that the probability of any stream of releases changes by a factor of at most
exp(epsilon): the product over blocks in `dpbandits.privacy.cell_sums`, which uses nothing else of what is
summed. The grid is public, and all else is computed from releases and public coins.
"""

from dataclasses import replace
from typing import Any, Unpack

import numpy as np

from dpbandits import _checks, domains
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.statement import Setting, cell_release_guarantee
from dpbandits.central.tuning import LONGEST_HORIZON
from dpbandits.domains import Arms, Box, Domain, Product
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines.crude import CrudePolicy, CrudeTuning
from dpbandits.policy import PolicyOptions
from dpbandits.privacy.cell_sums import CellSums
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord

__all__ = ["CellHistogram", "PublicGrid"]

ONE = 1 << 20
"""A success, or a failure, as an integer."""

PEOPLE_A_COUNT = 20
"""At epsilon 1: rounds of the horizon for every pair of a cell and an arm; chosen on tuning tables."""

MOST_OF_COLUMN = 8
"""Cells along one column."""

SHRINKAGE = 10.0
"""Rounds at its arm's mean that a cell begins with, beside one for each standard deviation of its noise."""


class PublicGrid:
    """Cells of points: intervals of numbers, groups of neighbouring categories, and every arm by itself.

    Every column begins as one cell; in turn, each is cut twice as finely while all stay within `most`.

    Args:
        domain: boxes and arms side by side; if the last column is of arms, each has cells of its own.
        most: cells in all, but never fewer than those arms.
    """

    def __init__(self, *, domain: Domain, most: int) -> None:
        parts = domain.parts if isinstance(domain, Product) else (domain,)
        bounds = [_bounds(part) for part in parts]
        self._low = np.concatenate([low for low, _, _ in bounds])
        self._width = np.concatenate([high - low for low, high, _ in bounds])
        finest = np.concatenate([np.full(len(low), limit) for low, _, limit in bounds])
        shape, last = np.ones_like(finest), parts[-1]
        self.n_arms = last.n_arms if isinstance(last, Arms) else 1
        if isinstance(last, Arms):
            shape[-1] = finest[-1] = last.n_arms
        finer = True
        while finer:
            finer = False
            for column in range(len(shape)):
                cut = shape.copy()
                cut[column] = min(finest[column], 2 * shape[column])
                if shape[column] < cut[column] and np.prod(cut.astype(np.float64)) <= most:
                    shape, finer = cut, True
        self.shape = tuple(shape.tolist())
        self.n_cells = int(np.prod(shape))

    def locate(self, points: FloatArray) -> IntArray:
        """Cells (...) of points (..., d); those of one context that differ in the arm follow each other."""
        shape = np.array(self.shape)
        places = np.floor((points - self._low) / self._width * shape).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), self.shape, mode="clip"))


def _bounds(part: Domain) -> tuple[FloatArray, FloatArray, int]:
    """Lower and upper bounds of columns, codes in the middle of their intervals, and most cells of each."""
    if isinstance(part, Box):
        return part.low, part.high, MOST_OF_COLUMN
    if isinstance(part, Arms):
        return np.array([-0.5]), np.array([part.n_arms - 0.5]), min(part.n_arms, MOST_OF_COLUMN)
    raise InvalidParameter("a grid of cells is of boxes and arms")


class CellHistogram(CrudePolicy):
    """Successes and failures in cells, greedy after a random first block.

    Args:
        contexts, arms, domain, reward_range, horizon, privacy: as `central.GPBandit`; delta is not used.
        most_cells: of the grid, arms included; by default by horizon and epsilon.
        tuning: see `CrudeTuning`.
        **options: `seed`, `noise`, `account`.

    Privacy: epsilon-joint DP, replace one user's contribution; proof in the module.
    """

    kind = "baselines.CellHistogram"
    _mechanism: CellSums

    def __init__(
        self,
        *,
        horizon: int,
        privacy: JointDP,
        most_cells: int | None = None,
        domain: domains.Domain | None = None,
        contexts: Any = None,
        arms: Any = None,
        reward_range: Any = (0.0, 1.0),
        tuning: CrudeTuning | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        super().__init__(
            domain=domain,
            contexts=contexts,
            arms=arms,
            reward_range=reward_range,
            horizon=horizon,
            privacy=privacy,
            tuning=tuning,
            **options,
        )
        people = horizon * min(1.0, privacy.epsilon / privacy.rounds_per_user)
        most = max(1, int(people / PEOPLE_A_COUNT)) if most_cells is None else most_cells
        self.most_cells = _checks.integer(most, name="most_cells")
        if self.most_cells > LONGEST_HORIZON:
            raise InvalidParameter(f"most_cells: expected at most {LONGEST_HORIZON}, more than any horizon")
        self.grid = PublicGrid(domain=self.domain, most=self.most_cells)
        self._mechanism = CellSums(
            epsilon=privacy.epsilon, rounds_per_user=privacy.rounds_per_user, noise=self.noise
        )
        self._released = np.zeros((0, 2 * self.grid.n_cells), dtype=np.int64)
        self._public = np.zeros((2, self.grid.n_cells))  # successes, failures
        self._mean, self._deviation = self._estimates()

    @property
    def guarantee(self) -> Guarantee:
        """Pure epsilon-joint DP."""
        setting = Setting.of(self._holder, noise=self.noise, user_ids=self.user_ids)
        return cell_release_guarantee(
            self.privacy, self._record(), width=self.reward_range.width, setting=setting
        )

    def _record(self) -> MechanismRecord:
        return replace(
            self._mechanism.record(len(self.blocks)),
            name="successes and failures in public cells",
            step=1.0 / ONE,
        )

    def _draw(self, block: int, actions: FloatArray, rewards: FloatArray, told: BoolArray) -> IntArray:
        """Where raw data meets noise."""
        cells = self.grid.locate(actions)[told]
        unit = self.reward_range.to_centred(rewards[told]) + 0.5
        successes = np.clip(np.rint(ONE * unit), 0, ONE)
        sums = np.concatenate(self._counts(cells, successes, ONE - successes)).astype(np.int64)
        return self._mechanism.release(sums)

    def _counts(self, cells: IntArray, successes: FloatArray, failures: FloatArray) -> FloatArray:
        """(2, C) sums in cells; of integers, exact in any order."""
        size = self.grid.n_cells
        return np.stack([np.bincount(cells, own, size) for own in (successes, failures)])

    def _fit(self) -> None:
        self._mean, self._deviation = self._estimates()

    def _estimates(self) -> tuple[FloatArray, FloatArray]:
        """(C,) centred means of cells and their deviations: shrunk to the arm's mean, that to all arms'."""
        blocks = len(self._released)
        successes, failures = self._public + self._released.sum(axis=0).reshape(2, -1) / ONE
        total = 0.5 * (successes - failures).reshape(-1, self.grid.n_arms)
        people = np.maximum(0.0, (successes + failures).reshape(total.shape))
        noise = np.sqrt(2.0 * blocks) * self._mechanism.scale / ONE  # of a count
        most = SHRINKAGE + noise * np.sqrt(len(total))
        everyone = total.sum() / (people.sum() + most)
        of_arm = (total.sum(axis=0) + most * everyone) / (people.sum(axis=0) + most)
        held = people + SHRINKAGE + noise
        mean = np.clip((total + (SHRINKAGE + noise) * of_arm) / held, -0.5, 0.5)
        deviation = np.sqrt(0.25 * (people + SHRINKAGE) + 0.5 * noise**2) / held
        return mean.ravel(), deviation.ravel()

    def _learn_public(self, points: FloatArray, rewards: FloatArray) -> None:
        unit = self.reward_range.to_centred(rewards) + 0.5
        self._public = self._public + self._counts(self.grid.locate(points), unit, 1.0 - unit)
        self._fit()

    def _scores(self, candidates: FloatArray) -> FloatArray:
        return self._mean[self.grid.locate(candidates)]

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The deviation counts noise and rewards, and not that a cell is coarse."""
        cells = self.grid.locate(points)
        mean, deviation = self._mean[cells], self._deviation[cells]
        return self.reward_range.from_centred(mean), self.reward_range.width * deviation
