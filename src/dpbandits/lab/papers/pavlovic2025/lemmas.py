"""What standing in for the covariance costs: Lemmas 4.3 and 4.4, measured (item `lemmas`).

At T that the printed form can do: the gap sup |f_Z - f_D| between the estimators with the covariance of Z and
of the data, beside sup |f_D - f|; and the largest |eigenvalue - 1| of V^-1/2 V' V^-1/2, V the population
covariance, V' that of Z and that of the data. Means over worlds, with standard errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.central.published.pavlovic2025 import ApproximatingSet, CovarianceEstimator
from dpbandits.lab.study import Cell, Choice, Item, Record, Row
from dpbandits.lab.worlds.rkhs import rkhs_setting
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins

__all__ = ["ITEM", "LemmaCell"]


@lru_cache(maxsize=2)
def _features(name: str) -> EigenFeatures:
    setting = rkhs_setting(name)
    return EigenFeatures(kernel=setting.kernel, measures=(setting.actions, setting.contexts), tolerance=1e-9)


@dataclass(frozen=True, kw_only=True)
class LemmaCell(Cell):
    """Both estimators on the same rounds of one world a seed.

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
        name: (name, f"{name} s.e.") for name in ("gap", "error", "spectral Z", "spectral data")
    }

    @property
    def label(self) -> Row:
        """As rows have it."""
        return {"setting": self.setting, "T": self.rounds}

    @property
    def settings(self) -> dict[str, float]:
        """The ridge."""
        return {"ridge": self.ridge}

    @property
    def gain(self) -> float:
        """gamma_T."""
        return _features(self.setting).information_gain(self.rounds, self.ridge)

    @property
    def size(self) -> int:
        """Of Z."""
        return self.rounds * math.ceil(self.rounds / max(1.0, self.gain))

    def simulate(self, seed: Seed) -> Record:
        """Gap, error and spectra of one world."""
        setting, horizon, ridge = rkhs_setting(self.setting), self.rounds, self.ridge
        world, features = setting.world(seed), _features(self.setting)
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

        def spectral(matrix: FloatArray) -> float:
            return float(np.abs(np.linalg.eigvalsh(root[:, None] * matrix * root) - 1.0).max())

        return {
            "gap": float(np.abs(with_set - with_data).max()),
            "error": float(np.abs(with_data - world.means.ravel()).max()),
            "spectral Z": spectral(theirs),
            "spectral data": spectral(own),
        }

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Means over worlds, and their standard errors."""
        (row,) = super().rows(records)
        return [row | {"Z": self.size, "gamma": self.gain}]


def _cells(choice: Choice) -> list[LemmaCell]:
    return [
        LemmaCell(setting=setting, rounds=rounds)
        for setting in choice.worlds or ("SE .5 in 1+1",)
        for rounds in choice.rounds or (50, 100, 200, 300)
    ]


ITEM = Item(
    about="what the approximating set costs",
    cells=_cells,
    key=("setting", "T"),
    shown=(
        "setting | T:, | Z:, | gamma:.4g | gap:.4g | gap s.e.:.2g | error:.4g"
        " | error s.e.:.2g | spectral Z:.4g | spectral data:.4g"
    ),
)
