"""`DoseFinding`: a synthetic clinic with a continuous dose, for patients of different age and drug clearance.

Benefit saturates with exposure (dose divided by clearance). Toxicity rises with exposure, and earlier for
older patients. The best dose depends on both. The reward is benefit minus toxicity plus noise, in [-1, 1].
Ages have the distribution Beta(5, 3) on 20 to 90 years. For evaluation only: it returns true means.
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
    """Return the mean reward, in [-0.8, 0.8], of doses for patients.

    Args:
        dose: Doses, 0 to 10 mg.
        age: Ages, 20 to 90 years.
        clearance: Clearances, 0.5 to 2.

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
        """Public bounds of rewards."""
        return (-1.0, 1.0)

    @cached_property
    def actions(self) -> CellMeasure:
        """Uniform distribution of doses over the dose cells."""
        return CellMeasure.uniform(low=0.0, high=LARGEST_DOSE, cells=DOSE_CELLS)

    @cached_property
    def contexts(self) -> CellMeasure:
        """Distribution of (age, clearance) among patients."""
        return CellMeasure.product(
            CellMeasure.beta(5.0, 3.0, low=20.0, high=90.0, cells=AGE_CELLS),
            CellMeasure.uniform(low=0.5, high=2.0, cells=CLEARANCE_CELLS),
        )

    def patients(self, start: int, stop: int) -> FloatArray:
        """Return ages and clearances (B, 2) of the B patients start..stop-1, uniform within their cells."""
        uniforms = PublicCoins(self.seed).uniform("dose-finding/patients", start, stop, 3)
        middles = self.contexts.points[self.contexts.cells_at(uniforms[:, 0])]
        cells = np.array([AGE_CELLS, CLEARANCE_CELLS])
        return np.asarray(middles + (uniforms[:, 1:] - 0.5) * np.array([70.0, 1.5]) / cells)

    def rewards(self, start: int, stop: int, doses: FloatArray) -> FloatArray:
        """Return the rewards (B,) of patients start..stop-1 at doses (B,)."""
        people = self.patients(start, stop)
        noise = 2.0 * PublicCoins(self.seed).uniform("dose-finding/noise", start, stop, 1)[:, 0] - 1.0
        mean = expected_response(np.asarray(doses, dtype=np.float64), people[:, 0], people[:, 1])
        return np.asarray(mean + NOISE_HALF_WIDTH * noise)

    def losses(self, start: int, stop: int, chosen: IntArray) -> FloatArray:
        """Return the regret (B,) of patients start..stop-1 who get the dose cells `chosen` (B,).

        Regret is relative to the dose cell with the largest mean reward for the patient.
        """
        people = self.patients(start, stop)
        doses = self.actions.points[:, 0]
        means = expected_response(doses[None, :], people[:, :1], people[:, 1:])
        return np.asarray(means.max(axis=1) - means[np.arange(len(people)), chosen])
