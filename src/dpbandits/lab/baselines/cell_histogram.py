"""`CellHistogram`: a simple private histogram over a grid of cells, with pure epsilon.

A public grid divides contexts into few cells. Blocks double in length. At the end of a block, successes and
failures of every pair of a cell and an arm are released with fresh noise. Rounds of the first block are
answered at random. Later rounds get the arm with the best estimate in their cell. Estimates use all releases,
and are shrunk towards the arm's mean over all cells.

Privacy: epsilon-joint DP. A round with a reward y, scaled to [0, 1], adds the integers s = round(2^20 y) and
2^20 - s to the two counts of one pair, which is 2^20 in L1. A round without a reward adds nothing. Replacing
a round changes the counts of its block in L1 by 2^21 at most. So k rounds of a user change all blocks
together by k 2^21 at most. `CellSums.release` adds discrete Laplace noise of rate at most epsilon/(k 2^21).
Hence the probability of any sequence of releases changes by a factor of at most exp(epsilon), by the product
over blocks in `dpbandits.privacy.cell_sums`, which uses no other property of the sums. The grid is public,
and everything else is computed from releases and public coins.
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
"""Integer that a success or failure of weight 1 adds to a count."""

PEOPLE_A_COUNT = 20
"""Number of rounds per pair of a cell and an arm, at epsilon 1, from which the default `most_cells` follows.

It was chosen on tuning tables.
"""

MOST_OF_COLUMN = 8
"""Largest number of cells into which one column is cut."""

SHRINKAGE = 10.0
"""Weight of the arm's mean over all cells in a cell's estimate, in rounds.

The standard deviation of a count's noise is added to this weight.
"""


class PublicGrid:
    """A public grid of cells: intervals of numbers, groups of neighbouring categories, and single arms.

    Every column begins as one interval. The columns are halved in turn, as long as the grid has at most
    `most` cells.

    Args:
        domain: Boxes and arms. If the last part is `Arms`, each arm has its own cells.
        most: Largest number of cells. If the last part of the domain is `Arms`, the grid has at least one
            cell for each of these arms, even if `most` is smaller.
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
        """Return the cell number (...) of each point (..., d).

        The cells of one context with each of the arms have consecutive numbers.
        """
        shape = np.array(self.shape)
        places = np.floor((points - self._low) / self._width * shape).astype(np.int64)
        return np.asarray(np.ravel_multi_index(tuple(np.moveaxis(places, -1, 0)), self.shape, mode="clip"))


def _bounds(part: Domain) -> tuple[FloatArray, FloatArray, int]:
    """Return lower and upper bounds of a part's columns, and the largest number of cells of each column.

    The bounds of a column of codes are half a code outside, so that a code lies in the middle of its
    interval.
    """
    if isinstance(part, Box):
        return part.low, part.high, MOST_OF_COLUMN
    if isinstance(part, Arms):
        return np.array([-0.5]), np.array([part.n_arms - 0.5]), min(part.n_arms, MOST_OF_COLUMN)
    raise InvalidParameter("a grid of cells needs a domain of boxes and arms")


class CellHistogram(CrudePolicy):
    """A policy that counts successes and failures in cells, and is greedy after a random first block.

    Args:
        contexts, arms, domain, reward_range, horizon, privacy: See `central.GPBandit`. Delta is not used.
        most_cells: Largest number of pairs of a cell and an arm. The default is computed from horizon and
            epsilon.
        tuning: See `CrudeTuning`.
        **options: `seed`, `noise`, `account`; see `PolicyOptions`.

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
            raise InvalidParameter(f"most_cells is {self.most_cells}, expected at most {LONGEST_HORIZON}")
        self.grid = PublicGrid(domain=self.domain, most=self.most_cells)
        self._mechanism = CellSums(
            epsilon=privacy.epsilon, rounds_per_user=privacy.rounds_per_user, noise=self.noise
        )
        self._released = np.zeros((0, 2 * self.grid.n_cells), dtype=np.int64)
        self._public = np.zeros((2, self.grid.n_cells))  # successes, failures
        self._mean, self._deviation = self._estimates()

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of epsilon-joint DP, with delta 0."""
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
        cells = self.grid.locate(actions)[told]
        unit = self.reward_range.to_centred(rewards[told]) + 0.5
        successes = np.clip(np.rint(ONE * unit), 0, ONE)
        sums = np.concatenate(self._counts(cells, successes, ONE - successes)).astype(np.int64)
        return self._mechanism.release(sums)

    def _counts(self, cells: IntArray, successes: FloatArray, failures: FloatArray) -> FloatArray:
        """Return the sums of successes and of failures in each of C cells, shape (2, C)."""
        size = self.grid.n_cells
        return np.stack([np.bincount(cells, own, size) for own in (successes, failures)])

    def _fit(self) -> None:
        self._mean, self._deviation = self._estimates()

    def _estimates(self) -> tuple[FloatArray, FloatArray]:
        """Return the centred mean reward of each of C cells, (C,), and its standard deviation, (C,).

        Every cell belongs to one arm. Its mean is shrunk to the arm's mean over all cells, and the arm's
        mean to the mean over all arms.
        """
        blocks = len(self._released)
        successes, failures = self._public + self._released.sum(axis=0).reshape(2, -1) / ONE
        total = 0.5 * (successes - failures).reshape(-1, self.grid.n_arms)
        people = np.maximum(0.0, (successes + failures).reshape(total.shape))
        noise = np.sqrt(2.0 * blocks) * self._mechanism.scale / ONE  # deviation of a count's noise
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
        cells = self.grid.locate(points)
        mean, deviation = self._mean[cells], self._deviation[cells]
        return self.reward_range.from_centred(mean), self.reward_range.width * deviation
