"""Experiments of Pavlovic2025: USCA as published, and the mechanisms derived from it.

| item | what | where |
|---|---|---|
| errors | error against T and epsilon, on fresh functions | module `errors` |
| continuum | answers on ever finer cells of actions, and with the reward clip | module `errors` |
| lemmas | what the approximating set costs | `LemmaCell` |
| ratios, ratios-published | how much of epsilon one user can use | module `ratios` |
| volumes | how many actions are nearly best | `VolumeCell` |
| trials | two randomised experiments on real people | module `trials` |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.central.published.pavlovic2025 import ApproximatingSet, CovarianceEstimator
from dpbandits.lab.study import Cell, Record, Row
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins
from reproduction.experiments import Item, Study, grid
from reproduction.pavlovic2025 import errors, ratios, theory, trials
from reproduction.pavlovic2025.errors import features_of
from reproduction.pavlovic2025.rkhs import BOUND, NOISE_SD, rkhs_setting

__all__ = ["STUDY", "LemmaCell", "VolumeCell"]

DELTA = 1e-6
FAILURE = 0.05
"""Failure probability of the lemmas' bounds."""


@lru_cache(maxsize=2)
def _fine_features(setting: str) -> EigenFeatures:
    return features_of(rkhs_setting(setting), tolerance=1e-9)


@dataclass(frozen=True, kw_only=True)
class LemmaCell(Cell):
    """Error of replacing the covariance: Lemmas 4.3, 4.4, 6.2 and 7.1, measured and bounded.

    Measurements, at T for which the printed form is feasible:

    - sup |f_Z - f_D|, between the estimators with the covariance of Z and of the data (Lemma 6.2);
    - sup |f_Z - f| (Lemma 4.3), and sup |f_D - f|;
    - the largest |eigenvalue - 1| of V^-1/2 V' V^-1/2, where V is the population covariance, and V' that of Z
      or of the data;
    - for Z, the same of the inverse, which Lemma 4.4 bounds;
    - sup sigma-bar^2 (Lemma 7.1).

    Both estimators see the same rounds, in one world per seed. Bounds use failure probability .05, B = 1.2,
    R = .1 and gamma_T of the population. F is the largest value of the kernel's eigenfunctions in use. The
    paper's gamma_T is a supremum, so it and all bounds are larger.

    Attributes:
        setting: see `SETTINGS`.
        rounds: T.
        ridge: tau.
    """

    setting: str
    rounds: int
    ridge: float = 1.0

    counts = ("worlds", "first seed")
    fields: ClassVar = {"world": "setting"}
    measures: ClassVar = {
        name: (name, f"{name} s.e.")
        for name in ("gap", "error Z", "error", "spectral Z", "inverse Z", "spectral data", "variance")
    }

    @property
    def label(self) -> Row:
        """Return the fields of a row that name this cell."""
        return {"setting": self.setting, "T": self.rounds}

    @property
    def settings(self) -> dict[str, float]:
        """The ridge."""
        return {"ridge": self.ridge}

    @property
    def gain(self) -> float:
        """gamma_T."""
        return _fine_features(self.setting).information_gain(self.rounds, self.ridge)

    @property
    def size(self) -> int:
        """Size of Z."""
        return self.rounds * math.ceil(self.rounds / max(1.0, self.gain))

    def simulate(self, seed: Seed) -> Record:
        """Gap, error and spectra of one world."""
        setting, horizon, ridge = rkhs_setting(self.setting), self.rounds, self.ridge
        world, features = setting.world(seed), _fine_features(self.setting)
        measure, phi = CellMeasure.product(setting.actions, setting.contexts), features.feature_map()
        root = 1.0 / np.sqrt(horizon * features.eigenvalues + ridge)
        actions = setting.actions.cells_at(PublicCoins(seed).uniform("usca/explore", 0, horizon, 1)[:, 0])
        cells = actions * setting.contexts.size + world.contexts(0, horizon)
        rewards = world.rewards(0, horizon, actions)
        chosen = ApproximatingSet.drawn(measure, self.size, seed=seed)
        estimator = CovarianceEstimator(setting.kernel, chosen, horizon, ridge)
        with_set = estimator.estimate(measure.points, measure.points[cells], rewards)
        own = phi[cells].T @ phi[cells] + ridge * np.eye(phi.shape[1])
        with_data = phi @ np.linalg.solve(own, phi[cells].T @ rewards)
        drawn = phi[measure.locate(chosen.points)]
        scale = horizon / chosen.size * chosen.counts
        theirs = drawn.T @ (scale[:, None] * drawn) + ridge * np.eye(phi.shape[1])

        def ratios_of(matrix: FloatArray) -> FloatArray:
            return np.asarray(np.linalg.eigvalsh(root[:, None] * matrix * root))

        of_set, of_data = ratios_of(theirs), ratios_of(own)

        return {
            "gap": float(np.abs(with_set - with_data).max()),
            "error Z": float(np.abs(with_set - world.means.ravel()).max()),
            "error": float(np.abs(with_data - world.means.ravel()).max()),
            "spectral Z": float(np.abs(of_set - 1.0).max()),
            "inverse Z": float(np.abs(1.0 / of_set - 1.0).max()),
            "spectral data": float(np.abs(of_data - 1.0).max()),
            "variance": float(estimator.deviation(measure.points).max()) ** 2,
        }

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Means over worlds, their standard errors, and what the lemmas bound them by."""
        (row,) = super().rows(records)
        return [row | {"Z": self.size, "gamma": self.gain} | self.bounds()]

    def bounds(self) -> Row:
        """The lemmas' bounds; `holds 4.4` says whether Lemma 4.4's own condition does."""
        features = _fine_features(self.setting)
        where: dict[str, Any] = {"rounds": self.rounds, "gain": self.gain}
        reach: dict[str, Any] = {"eigenfunction_bound": float(np.abs(features.psi).max())}
        noise: dict[str, Any] = {"bound": BOUND, "noise": NOISE_SD, "ridge": self.ridge, **reach}
        spectral, holds = theory.spectral_bound(**where, ridge=self.ridge, failure_probability=FAILURE)
        factor = theory.estimator_factor(failure_probability=FAILURE, **noise)
        return {
            "bound 4.3": theory.uniform_error(
                **where, failure_probability=FAILURE, points=features.n_cells, **noise
            ),
            "bound 4.4": spectral,
            "holds 4.4": holds,
            "bound 6.2": factor * math.sqrt(self.gain / self.rounds),
            "bound 7.1": theory.largest_variance(**where, **reach),
        }


@dataclass(frozen=True, kw_only=True)
class VolumeCell(Cell):
    """Lemma 8.1 beside its bound: the share of an interval's actions within r of the best one.

    At every context of a world. The function is taken as linear between the actions, so that its largest
    slope is its Lipschitz constant and shares are lengths.

    Attributes:
        setting: see `SETTINGS`; actions have one column.
        gap: r, in the unit of rewards.
    """

    setting: str
    gap: float

    counts = ("worlds", "first seed")
    fields: ClassVar = {"world": "setting"}
    measures: ClassVar = {name: (name, f"{name} s.e.") for name in ("share", "bound 8.1", "least")}

    @property
    def label(self) -> Row:
        """Return the fields of a row that name this cell."""
        return {"setting": self.setting, "r": self.gap}

    @property
    def settings(self) -> dict[str, float]:
        """The gap."""
        return {"gap": self.gap}

    def simulate(self, seed: Seed) -> Record:
        """Mean share and mean bound over contexts, and the smallest share over bound."""
        setting = rkhs_setting(self.setting)
        means, places = setting.world(seed).means, setting.actions.points[:, 0]
        widths, above = np.diff(places)[:, None], means - (means.max(axis=0) - self.gap)
        low, high = np.minimum(above[:-1], above[1:]), np.maximum(above[:-1], above[1:])
        rise = np.maximum(high - low, np.finfo(float).tiny)
        inside = widths * np.clip(np.maximum(high, 0.0) / rise, 0.0, 1.0)
        inside = np.where(low >= 0.0, widths, inside)
        diameter = float(places[-1] - places[0])
        shares = inside.sum(axis=0) / diameter
        slopes = np.abs(np.diff(means, axis=0) / widths).max(axis=0)
        bounds = np.array(
            [
                theory.near_best_share(gap=self.gap, diameter=diameter, lipschitz=float(slope), dim=1)
                for slope in slopes
            ]
        )
        return {
            "share": float(shares.mean()),
            "bound 8.1": float(bounds.mean()),
            "least": float((shares / bounds).min()),
        }

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Means over worlds; `smallest` is the least share over bound of any world and context."""
        (row,) = super().rows(records)
        return [row | {"smallest": min(float(record["least"]) for record in records)}]


STUDY = Study(
    name="pavlovic2025",
    title="Pavlovic2025",
    measured="means over worlds",
    published=("published calibration",),
    items={
        "errors": errors.ITEM,
        "continuum": errors.CONTINUUM,
        "lemmas": Item(
            about="what the approximating set costs",
            cells=grid(LemmaCell, world=("SE .5 in 1+1",), rounds=(50, 100, 200, 300)),
            key=("setting", "T"),
            shown=(
                "setting | T:, | Z:, | gamma:.4g | gap:.4g | bound 6.2:.4g | error Z:.4g | bound 4.3:.4g"
                " | error:.4g | spectral Z:.4g | inverse Z:.4g | bound 4.4:.4g | spectral data:.4g"
                " | variance:.4g | bound 7.1:.4g"
            ),
        ),
        "volumes": Item(
            about="how many actions are nearly best",
            cells=[
                VolumeCell(setting="SE .2 in 1+1, 192 actions", gap=gap)
                for gap in (0.01, 0.03, 0.1, 0.3, 1.0)
            ],
            key=("setting", "r"),
            shown="setting | r:g | share:.4f | bound 8.1:.4f | smallest:.2f",
            reps=30,
        ),
        "ratios": ratios.ITEM,
        "ratios-published": ratios.PUBLISHED,
        "trials": trials.ITEM,
    },
)
