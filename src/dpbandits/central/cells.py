"""Rewards summed in public cells, with discrete Laplace noise: pure epsilon, for domains of few dimensions.

A one-hot contribution moves by as much whatever the number of cells, every block has noise of its own, and
nothing is mixed: see `dpbandits.privacy.cell_sums`, where the proof stands. It needs no delta, no horizon and
no allowance for rounding. One-hot in many columns needs too many cells: beyond about four dimensions mixed
sums of features learn more.

A block, step by step:

1. *Design*, from past releases and public coins. Public decision sets are answered by the block's released
   policy; their chosen points, and some uniform ones (a wrong law costs reward, never privacy), are
   clustered in the coordinates F^T phi, F F^T the posterior covariance: what is known no longer separates
   points, and what is not known yet does. A cell is what lies nearest to one centre. Few cells ask few
   questions, the ones that matter now, and later blocks ask others. With the cells come predictions: how many
   people each will have, and their mean feature vector.
2. *Draw*: centred rewards are summed in cells. (Successes and failures apart tell how many people a cell had,
   at a quarter of the precision: on tuning seeds they lost, at every length of a block.)
3. *Fit*: `dpbandits.models.cell_regression`.

Privacy: pure epsilon; raw data meets noise in `CellRelease.draw`.
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
"""Features of candidates, where their number is not said."""

FIRST_BLOCK, GROWTH = 30, 1.15
"""Rounds in the first block, and how much longer each is than the last."""

LAST_SHARE = 0.95
"""No release after this share of the horizon: too few rounds would be left to use it."""

UNIFORM_SHARE = 0.4
"""Share of uniform points among those that cells are made from; the others come from public decision sets."""

UNIFORM_WEIGHT = 0.1
"""Weight of a uniform point among the people expected. With 1 a cell that nobody visits reports 0, the middle
of the range, as if people had been there: some runs then never tried it again."""

FEWEST_CELLS, MOST_CELLS = 5, 24
"""Numbers of cells of a block; chosen on tuning seeds, like the other numbers here."""

PEOPLE_A_CELL = 8
"""At epsilon 1, in blocks long enough for more than the fewest cells."""

COUNT_ERROR = 0.1
"""Believed relative deviation of the people in a cell from those that are expected."""

CERTAIN, ALARM = 6.0, 1e-6
"""Standard deviations of the number of people in a cell that chance may explain, and the probability with
which noise alone makes diagnostics warn."""

OTHER_LAW = (
    "{cells} released sums are larger than the people expected in their cells can make them. People bring "
    "other candidates than the public law of decision sets has, and predictions are wrong: take "
    "GPTuning(release='features'), or pass GPTuning(public_decision_sets=...) with sets like theirs, known "
    "without their data."
)

ROUNDS_OF_CLUSTERING = 6

PLACE_DIGITS = 9
ONE_PLACE = 10.0**-PLACE_DIGITS
"""Centres that differ by less are one place. A matrix product may round a point otherwise in another row, by
about 1e-15. Without this, one point of a finite domain makes two cells, and its people go to either."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class CellDesign:
    """Public design of a block.

    Attributes:
        embedding: (m, m) from features to the coordinates that points are clustered in.
        centres: (C, m) there: a point belongs to the nearest.
        counts: (C,) people expected in every cell.
        features: (C, m) their mean feature vectors.
    """

    embedding: FloatArray
    centres: FloatArray
    counts: FloatArray
    features: FloatArray

    def locate(self, features: FloatArray) -> IntArray:
        """Cells (n,) of feature vectors (n, m)."""
        return _nearest(features @ self.embedding, self.centres)


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class CellPast(Past):
    """Data of the first k blocks; all of it is released or public.

    Attributes:
        sums: (k, C) integers, in units of `cell_sums.CENTRED`.
        counts: (k, C) people expected; C is `MOST_CELLS`, and of blocks with fewer the rest is 0.
        features: (k, C, m) their mean feature vectors.
    """

    sums: IntArray
    counts: FloatArray
    features: FloatArray

    @property
    def count(self) -> int:
        """Number of blocks released."""
        return len(self.sums)

    def released(self, count: int) -> IntArray:
        """(count, C), in units of `cell_sums.CENTRED`."""
        return self.sums[:count].copy()

    def with_block(self, released: IntArray, design: CellDesign) -> "CellPast":
        """The past with one block more; of the places that it does not need none is released."""

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
    """Histograms of rewards over public cells, pure epsilon.

    Args:
        setup: public arguments of the policy.

    Raises:
        InvalidParameter: arguments that do not fit; contexts and arms, or public decision sets.
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
        """See `Kind.bytes_needed`; the estimate is linear in every public number."""
        setup, m, held = self._setup, self.features.n_features, ScheduleSize.of(self.blocks, self._setup)
        rows = public_rows(setup.domain, self.tuning.public_decision_sets)
        past, locating = held.blocks * MOST_CELLS * (m + 2), held.longest * (2 * m + 3 * MOST_CELLS)
        return FLOAT * (2 * past + 2 * rows * m + locating) + held.book

    def record(self) -> MechanismRecord:
        """Its one use of noise, for the log of releases."""
        return self.mechanism.record(len(self.blocks))

    def guarantee(self, privacy: JointDP, setting: Setting) -> Guarantee:
        """Pure epsilon-joint DP; the same before, during and after the run."""
        return cell_release_guarantee(privacy, self.record(), setting=setting)

    def nothing(self) -> CellPast:
        """The past before any release."""
        m = self.features.n_features
        return CellPast(
            sums=np.zeros((0, MOST_CELLS), dtype=np.int64),
            counts=np.zeros((0, MOST_CELLS)),
            features=np.zeros((0, MOST_CELLS, m)),
        )

    def design(self, block: int, posterior: WeightPosterior | None, coins: PublicCoins) -> CellDesign:
        """Cells of a block, and who is expected there."""
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
        """More where a block is so long that noise is small beside what rewards scatter by themselves."""
        privacy = self._setup.privacy
        each = PEOPLE_A_CELL * (privacy.rounds_per_user / privacy.epsilon) ** 2
        return int(np.clip(self.rounds(block) / each, FEWEST_CELLS, MOST_CELLS))

    def draw(self, block: int, rows: BlockRows, design: CellDesign, past: CellPast) -> CellPast:
        """Release a block. Raw data meets noise here: rewards are summed in each round's cell, and noise is
        added.
        """
        actions, rewards, told, _ = rows
        cells = design.locate(in_fixed_shapes(self.features, actions))[told]
        unit = self._setup.reward_range.to_centred(rewards[told]) + 0.5
        sums = self.mechanism.encode(cells, unit, n_cells=len(design.centres))
        return past.with_block(self.mechanism.release(sums), design)

    def fit(self, past: CellPast) -> WeightPosterior | None:
        """The law of the weights, rewards centred and width 1; None where nothing was released."""
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
        """Public numbers of its noise."""
        return {"cell_noise_sd": self.mechanism.noise_sd}

    def foresight(self) -> Foresight:
        """Forecast of the run from public numbers alone, if its horizon is known."""
        blocks, n_cells = len(self.blocks), self._n_cells(len(self.blocks) - 1)
        return foresight(
            self.features,
            self._setup.domain,
            rounds=self.blocks[-1],
            noise_sd=self.mechanism.noise_sd * float(np.sqrt(blocks * n_cells / self.features.n_features)),
            prior_variance=self.weight_variance,
            reward_variance=REWARD_VARIANCE,
        )

    def findings(self, past: CellPast, count: int) -> Findings:
        """Compare the size of released sums with the people that were expected in each cell.

        A centred reward is at most half the width of its range. So a sum that exceeds half the number of
        people, by more than noise and chance explain, was made by more people than were expected.
        """
        people = past.counts[:count]
        expected = people * (1.0 + COUNT_ERROR) + CERTAIN * np.sqrt(people)
        noise = self.mechanism.noise_sd / np.sqrt(2.0) * np.log(max(1, people.size) / ALARM)
        crowded = int((np.abs(past.sums[:count]) * CENTRED > 0.5 * expected + noise).sum())
        found = [OTHER_LAW.format(cells=crowded)] if crowded else []
        return Findings({"crowded_cells": crowded}, found)

    def taken_up(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> CellPast:
        """Read the past in a state; CorruptState if this configuration does not write it."""
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
    from scipy.spatial.distance import cdist  # here: who has no cells need not wait for it

    apart = cdist(points, centres)
    return np.asarray((apart <= apart.min(axis=1, keepdims=True) + ONE_PLACE).argmax(axis=1))


def _clustered(points: FloatArray, n_cells: int, *, seed: int) -> FloatArray:
    """Centres (C, m) of clusters of public points (n, m); `seed` is public.

    Where there are no more points than cells each is a centre, and what is left over lies on one of them.
    """
    from scipy.cluster.vq import kmeans2  # as above

    distinct = points[np.unique(points.round(PLACE_DIGITS), axis=0, return_index=True)[1]]
    if len(distinct) <= n_cells:
        return np.concatenate([distinct, np.repeat(distinct[-1:], n_cells - len(distinct), axis=0)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # an empty cluster: nobody is expected there
        centres, _ = kmeans2(points, n_cells, iter=ROUNDS_OF_CLUSTERING, minit="++", seed=seed)
    return np.asarray(centres)
