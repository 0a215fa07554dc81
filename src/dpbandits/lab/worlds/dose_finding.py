"""A made-up clinic: a continuous dose for patients who differ in age and in how fast they clear the drug.

Benefit saturates with exposure (dose over clearance) and toxicity rises with it, the sooner the older the
patient: the best dose depends on both. The reward is benefit less toxicity with patient-level noise, in
[-1, 1]. Ages are not uniform (Beta(5, 3) on 20 to 90 years). For evaluation only: it hands out true means.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins

__all__ = ["DoseFinding", "expected_response"]

LARGEST_DOSE = 10.0
NOISE_HALF_WIDTH = 0.2
DOSE_CELLS, AGE_CELLS, CLEARANCE_CELLS = 40, 14, 12


def expected_response(dose: FloatArray, age: FloatArray, clearance: FloatArray) -> FloatArray:
    """Mean reward, in [-0.8, 0.8], of doses (0 to 10 mg) at ages (20 to 90) and clearances (0.5 to 2).

    Example:
        >>> old, young = (float(expected_response(8.0, age, 1.0)) for age in (85.0, 30.0))
        >>> old < young
        True
    """
    exposure = np.asarray(dose) / np.asarray(clearance)
    benefit = 0.8 * exposure / (exposure + 1.5)
    onset = 11.0 - 0.08 * (np.asarray(age) - 20.0)
    toxicity = 1.0 / (1.0 + np.exp(-(exposure - onset)))
    return np.asarray(benefit - 1.2 * toxicity).clip(-0.8, 0.8)


@dataclass(frozen=True)
class DoseFinding:
    """World of patients who come one at a time; the seed determines patients and noise."""

    seed: Seed

    def __post_init__(self) -> None:
        _checks.integer(self.seed, name="seed", minimum=0)

    @property
    def reward_range(self) -> tuple[float, float]:
        """(-1, 1)."""
        return (-1.0, 1.0)

    @cached_property
    def actions(self) -> CellMeasure:
        """Doses, uniform."""
        return CellMeasure.uniform(low=0.0, high=LARGEST_DOSE, cells=DOSE_CELLS)

    @cached_property
    def contexts(self) -> CellMeasure:
        """(age, clearance) with the law that patients have."""
        return CellMeasure.product(
            CellMeasure.beta(5.0, 3.0, low=20.0, high=90.0, cells=AGE_CELLS),
            CellMeasure.uniform(low=0.5, high=2.0, cells=CLEARANCE_CELLS),
        )

    def patients(self, start: int, stop: int) -> FloatArray:
        """(B, 2) ages and clearances of patients start..stop-1, continuous inside their cells."""
        uniforms = PublicCoins(self.seed).uniform("dose-finding/patients", start, stop, 3)
        middles = self.contexts.points[self.contexts.cells_at(uniforms[:, 0])]
        cells = np.array([AGE_CELLS, CLEARANCE_CELLS])
        return np.asarray(middles + (uniforms[:, 1:] - 0.5) * np.array([70.0, 1.5]) / cells)

    def rewards(self, start: int, stop: int, doses: FloatArray) -> FloatArray:
        """(B,) rewards of patients start..stop-1 at doses (B,)."""
        people = self.patients(start, stop)
        noise = 2.0 * PublicCoins(self.seed).uniform("dose-finding/noise", start, stop, 1)[:, 0] - 1.0
        mean = expected_response(np.asarray(doses, dtype=np.float64), people[:, 0], people[:, 1])
        return np.asarray(mean + NOISE_HALF_WIDTH * noise)

    def losses(self, start: int, stop: int, chosen: IntArray) -> FloatArray:
        """(B,) what patients lose against the best dose cell, at dose cells (B,)."""
        people = self.patients(start, stop)
        doses = self.actions.points[:, 0]
        means = expected_response(doses[None, :], people[:, :1], people[:, 1:])
        return np.asarray(means.max(axis=1) - means[np.arange(len(people)), chosen])
