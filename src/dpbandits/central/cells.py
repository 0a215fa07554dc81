"""Rewards summed in public cells with discrete Laplace noise: pure epsilon, for domains of few dimensions.

A reward adds to one cell, so the sensitivity does not depend on the number of cells. Every block has its own
noise; `dpbandits.privacy.cell_sums` has the proof. The release needs no delta, no horizon and no allowance
for rounding. With many columns too many cells are needed. Beyond about four dimensions the matrix mechanism
on features (`feature_release`) learns more.

A block has three steps:

1. *Design*, from past releases and public coins. The policy of these releases chooses from public decision
   sets. The chosen points, and some uniform ones, are clustered in the coordinates F^T phi, where phi are
   features and F F^T is the posterior covariance. In these coordinates two points are far apart only where
   the function is still uncertain. A cell consists of the points nearest to one cluster's centre, and each
   block has few cells. The design also predicts each cell's number of users and mean feature vector. If real
   decision sets differ from the public ones, that costs reward, never privacy.
2. *Draw*: centred rewards are summed in cells, and noise is added. (Separate sums of successes and failures
   would also give the number of users in a cell, at a quarter of the precision. On tuning seeds they earned
   less for every block length.)
3. *Fit*: `dpbandits.models.cell_regression`.

Privacy: pure epsilon. Noise is added to raw data in `CellRelease.draw` only.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._memory import FLOAT
from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.foresight import Foresight, foresight
from dpbandits.central.kinds import BlockRows, Findings, MechanismKind, Past, ScheduleSize, Setup
from dpbandits.central.regression import REWARD_VARIANCE
from dpbandits.central.schedule import check_boundaries, fading_blocks, growing_blocks
from dpbandits.central.statement import Setting, cell_release_guarantee
from dpbandits.errors import CorruptState, InvalidParameter
from dpbandits.models.cell_regression import posterior_from_cells
from dpbandits.models.decision_sets import PublicSets, public_rows
from dpbandits.models.features import in_fixed_shapes
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.policy import PublicCoins
from dpbandits.privacy.cell_sums import CENTRED, CellSums
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.guarantee import Guarantee, MechanismRecord

__all__ = ["CellDesign", "CellPast", "CellRelease"]

N_FEATURES = 16
"""Default number of features of candidates."""

FIRST_BLOCK, GROWTH = 30, 1.15
"""Number of rounds in the first block, and ratio of the lengths of consecutive blocks."""

LAST_SHARE = 0.95
"""Share of the horizon after which there is no release, because too few rounds are left to use it."""

UNIFORM_SHARE = 0.4
"""Share of uniform points among those that are clustered; the others come from public decision sets."""

UNIFORM_WEIGHT = 0.1
"""Weight of a uniform point, in users, when the number of users in a cell is predicted.

With weight 1, the sum 0 of a cell that nobody visits looked like mean rewards in the middle of the range.
Some runs then never tried such a cell again.
"""

FEWEST_CELLS, MOST_CELLS = 5, 24
"""Smallest and largest number of cells of a block; chosen on tuning seeds, like the other numbers here."""

PEOPLE_A_CELL = 8
"""Smallest number of users per cell at epsilon 1, in blocks with more than the fewest cells."""

COUNT_ERROR = 0.1
"""Assumed relative standard deviation of the number of users in a cell about the predicted number."""

CERTAIN, ALARM = 6.0, 1e-6
"""Thresholds of the diagnostics' warning about cells with more users than predicted.

The first is a number of standard deviations of the number of users in a cell, up to which chance explains an
excess. The second is the probability that noise alone causes the warning.
"""

OTHER_LAW = (
    "{cells} released sums are larger than the expected numbers of users in their cells allow. Users bring "
    "other candidates than the public law of decision sets, and predictions are wrong: use "
    "GPTuning(release='features'), or pass GPTuning(public_decision_sets=...) with sets like theirs, known "
    "without their data."
)

ROUNDS_OF_CLUSTERING = 6

PLACE_DIGITS = 9
ONE_PLACE = 10.0**-PLACE_DIGITS
"""Distance below which two centres count as equal.

A matrix product may round a point differently in another row, by about 1e-15. Without this tolerance one
point of a finite domain could become two cells, with its users in either of them.
"""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CellDesign:
    """Public design of a block with C cells.

    Attributes:
        embedding: Matrix (m, m) that maps features to the coordinates in which points are clustered.
        centres: Centres (C, m) of the cells in these coordinates; a point belongs to the nearest centre.
        counts: Predicted number of users in every cell, (C,).
        features: Predicted mean feature vector of the users in every cell, (C, m).
    """

    embedding: FloatArray
    centres: FloatArray
    counts: FloatArray
    features: FloatArray

    def locate(self, features: FloatArray) -> IntArray:
        """Return the cell of each of n feature vectors (n, m), shape (n,)."""
        return _nearest(features @ self.embedding, self.centres)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CellPast(Past):
    """Data of the first k blocks; all of it is released or public.

    Attributes:
        sums: Released integers (k, C), in units of `cell_sums.CENTRED`. C is `MOST_CELLS`.
        counts: Predicted number of users in every cell, (k, C); blocks with fewer cells have zeros at the
            end.
        features: Predicted mean feature vectors of users in every cell, (k, C, m).
    """

    sums: IntArray
    counts: FloatArray
    features: FloatArray

    @property
    def count(self) -> int:
        """Number of blocks released."""
        return len(self.sums)

    def released(self, count: int) -> IntArray:
        """Return the first `count` releases, (count, C), in units of `cell_sums.CENTRED`."""
        return self.sums[:count].copy()

    def with_block(self, released: IntArray, design: CellDesign) -> "CellPast":
        """Return the past with one more block; entries for cells that the block does not have are zero."""

        def more(past: Any, block: Any) -> Any:
            padded = np.zeros(past.shape[1:], dtype=past.dtype)
            padded[: len(block)] = block
            return np.concatenate([past, padded[None]])

        return CellPast(
            sums=more(self.sums, released),
            counts=more(self.counts, design.counts),
            features=more(self.features, design.features),
        )

    def arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of a state, by name."""
        return {
            "released": self.sums,
            "cell_counts": self.counts,
            "cell_features": self.features,
        }


class CellRelease(MechanismKind[CellDesign, CellPast]):
    """Kind of release: sums of rewards in public cells with pure epsilon.

    Args:
        setup: Public arguments of the policy.

    Raises:
        InvalidParameter: Arguments do not fit together, there are arms, or decision sets are public.
    """

    name = "cells"
    mechanism: CellSums
    prior_variance = 0.25
    thompson_scale = 0.2

    def __init__(self, setup: Setup) -> None:
        tuning = setup.tuning
        if setup.tuning.decision_sets == "public":
            raise InvalidParameter(
                "release='cells' gains nothing from public decision sets: leave decision_sets out, or take "
                "release='features'"
            )
        self.features = setup.learned_in(of_rows=N_FEATURES)
        if len(self.features.supports) > 1:
            raise InvalidParameter(
                "release='cells' is for points of a domain, and features of separate arms share no cell: "
                "take release='features'"
            )
        ends = tuning.blocks
        if ends is None:
            share = 1.0 if setup.horizon is None else LAST_SHARE
            ends = growing_blocks(setup.longest, first=FIRST_BLOCK, growth=GROWTH, last_share=share)
            ends = fading_blocks(ends, tuning.forget, longest=setup.longest)
        self.blocks = check_boundaries(ends, setup.longest)
        self.tuning = self.filled(tuning, blocks=self.blocks)
        self._setup = setup
        self.mechanism = CellSums(
            epsilon=setup.privacy.epsilon, rounds_per_user=setup.privacy.rounds_per_user, noise=setup.noise
        )

    def bytes_needed(self) -> float:
        """Estimate memory in bytes; the estimate is linear in every public number."""
        setup, m, held = self._setup, self.features.n_features, ScheduleSize.of(self.blocks, self._setup)
        rows = public_rows(setup.domain, self.tuning.public_decision_sets)
        past, locating = held.blocks * MOST_CELLS * (m + 2), held.longest * (2 * m + 3 * MOST_CELLS)
        return FLOAT * (2 * past + 2 * rows * m + locating) + held.book

    def record(self) -> MechanismRecord:
        """Return the description of the noise, for the log of releases."""
        return self.mechanism.record(len(self.blocks))

    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """Return the pure epsilon-joint DP guarantee, which is the same before, during and after the run."""
        width = self._setup.reward_range.width
        return cell_release_guarantee(privacy, self.record(), width=width, setting=setting)

    def nothing(self) -> CellPast:
        """Return the past before any release."""
        m = self.features.n_features
        return CellPast(
            sums=np.zeros((0, MOST_CELLS), dtype=np.int64),
            counts=np.zeros((0, MOST_CELLS)),
            features=np.zeros((0, MOST_CELLS, m)),
        )

    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> CellDesign:
        """Return the cells of a block, with predicted users in them."""
        setup, law, size = self._setup, posterior or self.prior, self.features.n_features
        sets = PublicSets.of(self.features, setup.domain, self.tuning.public_decision_sets, seed=setup.seed)
        order = np.argsort(coins.uniform(f"public points/{block}", 0, len(sets.rows), 1)[:, 0])
        points = sets.rows[order[: len(sets)]]
        weights = np.ones(len(points))
        if posterior is not None:
            normals = coins.normal(f"public sets/{block}", 0, len(sets), size)
            anywhere = points[: round(len(sets) * UNIFORM_SHARE / (1.0 - UNIFORM_SHARE))]
            points = np.concatenate([anywhere, sets.best(self.weights(posterior, normals)).phi])
            weights = np.where(np.arange(len(points)) < len(anywhere), UNIFORM_WEIGHT, 1.0)
        centres = _clustered(points @ law.factor, self._n_cells(block), seed=block)
        nearest = _nearest(points @ law.factor, centres)
        weighed = weights * (nearest == np.arange(len(centres))[:, None])
        people = weighed.sum(axis=1)
        return CellDesign(
            embedding=law.factor,
            centres=centres,
            counts=people * (self.rounds(block) / weights.sum()),
            features=weighed @ points / np.maximum(people, UNIFORM_WEIGHT)[:, None],
        )

    def _n_cells(self, block: int) -> int:
        privacy = self._setup.privacy
        each = PEOPLE_A_CELL * (privacy.rounds_per_user / privacy.epsilon) ** 2
        return int(np.clip(self.rounds(block) / each, FEWEST_CELLS, MOST_CELLS))

    def draw(self, block: int, rows: BlockRows, design: CellDesign, past: CellPast) -> CellPast:
        """Return the past with the release of a block; raw rewards are summed and noised here."""
        actions, rewards, told, _ = rows
        cells = design.locate(in_fixed_shapes(self.features, actions))[told]
        unit = self._setup.reward_range.to_centred(rewards[told]) + 0.5
        sums = self.mechanism.encode(cells, unit, n_cells=len(design.centres))
        return past.with_block(self.mechanism.release(sums), design)

    def fit(self, past: CellPast) -> WeightPosterior | None:
        """Return the posterior of the weights, for centred rewards in a range of width 1; None before any
        release.
        """
        if not past.count:
            return None
        return posterior_from_cells(
            np.asarray(past.sums * CENTRED),
            counts=past.counts,
            count_error=COUNT_ERROR,
            features=past.features,
            noise_sd=self.mechanism.noise_sd,
            prior=self.prior,
            kept=self.kept(past.count),
        )

    def diagnostics(self) -> dict[str, Any]:
        """Return public numbers about the noise."""
        return {"cell_noise_sd": self.mechanism.noise_sd}

    def foresight(self) -> Foresight:
        """Return the forecast of the run from public numbers alone, if its horizon is known."""
        blocks, n_cells = len(self.blocks), self._n_cells(len(self.blocks) - 1)
        return foresight(
            self.features,
            self._setup.domain,
            rounds=round(self._setup.learning_share * self.blocks[-1]),
            noise_sd=self.mechanism.noise_sd * float(np.sqrt(blocks * n_cells / self.features.n_features)),
            prior_variance=self.weight_variance,
            reward_variance=REWARD_VARIANCE,
        )

    def findings(self, past: CellPast, count: int) -> Findings:
        """Compare the size of released sums with the predicted number of users in each cell.

        A centred reward is at most half the width of its range. So a sum that exceeds half the predicted
        number of users, by more than noise and chance explain, comes from more users than predicted.
        """
        people = past.counts[:count]
        expected = people * (1.0 + COUNT_ERROR) + CERTAIN * np.sqrt(people)
        noise = self.mechanism.noise_sd / np.sqrt(2.0) * np.log(max(1, people.size) / ALARM)
        crowded = int((np.abs(past.sums[:count]) * CENTRED > 0.5 * expected + noise).sum())
        found = [OTHER_LAW.format(cells=crowded)] if crowded else []
        return Findings({"crowded_cells": crowded}, found)

    def taken_up(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> CellPast:
        """Return the past that a state saved.

        Raises:
            CorruptState: This configuration does not write such arrays.
        """
        names = ("released", "cell_counts", "cell_features")
        sums, counts, features = (arrays[name] for name in names)
        k, m = len(sums), self.features.n_features
        shapes, kinds = (
            (sums.shape, counts.shape, features.shape),
            (sums.dtype, counts.dtype, features.dtype),
        )
        fits = shapes == ((k, MOST_CELLS), (k, MOST_CELLS), (k, MOST_CELLS, m))
        fits = fits and kinds == (np.int64, np.float64, np.float64)
        finite = np.isfinite(counts).all() and np.isfinite(features).all() and (counts >= 0.0).all()
        if k > len(self.blocks) or not fits or not finite:
            raise CorruptState("the saved releases contradict the saved configuration")
        return CellPast(sums=sums, counts=counts, features=features)


def _nearest(points: FloatArray, centres: FloatArray) -> IntArray:
    from scipy.spatial.distance import cdist  # imported here: other releases do not need it

    apart = cdist(points, centres)
    return np.asarray((apart <= apart.min(axis=1, keepdims=True) + ONE_PLACE).argmax(axis=1))


def _clustered(points: FloatArray, n_cells: int, *, seed: int) -> FloatArray:
    """Return the centres (C, m) of clusters of public points (n, m); `seed` is public.

    If there are no more points than cells, each point is a centre, and further centres repeat the last one.
    """
    from scipy.cluster.vq import kmeans2  # imported here: other releases do not need it

    distinct = points[np.unique(points.round(PLACE_DIGITS), axis=0, return_index=True)[1]]
    if len(distinct) <= n_cells:
        return np.concatenate([distinct, np.repeat(distinct[-1:], n_cells - len(distinct), axis=0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty cluster has no expected users
        centres, _ = kmeans2(points, n_cells, iter=ROUNDS_OF_CLUSTERING, minit="++", seed=seed)
    return np.asarray(centres)
