"""Small things that several audits of the catalogue need."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._typing import FloatArray, IntArray
from dpbandits.audit.claims import Audit
from dpbandits.privacy.certificates import Certificate
from dpbandits.privacy.noise import SecureNoise

__all__ = ["DELTA", "Entry", "LineFeatures", "PreparedNoise", "rows_of"]

DELTA = 1e-6
"""Of claims that need one."""

_AHEAD = 20_000
"""Draws made ahead: a draw alone costs ten times one of many."""

Entry = tuple[str, Callable[[float, int], Audit]]
"""A name, and (epsilon, public seed) -> the audit."""


@dataclass(frozen=True)
class LineFeatures:
    """phi(x) = x on [-1, 1]: the feature map on which one user can move the statistics most."""

    @property
    def n_features(self) -> int:
        """One."""
        return 1

    @property
    def supports(self) -> tuple[tuple[int, int], ...]:
        """Without structure."""
        return ((0, 1),)

    def __call__(self, X: ArrayLike) -> FloatArray:
        """(..., 1) points as they are."""
        return np.asarray(X, dtype=np.float64)[..., :1]

    def project(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """(..., k) for weights (1, k)."""
        return np.asarray(self(X) @ np.asarray(weights))

    def project_each(self, X: ArrayLike, weights: ArrayLike) -> FloatArray:
        """(B, n) for weights (B, 1)."""
        return np.asarray((self(X) * np.asarray(weights)[:, None, :]).sum(axis=-1))

    def to_config(self) -> dict[str, Any]:
        """Not to be built from: for digests."""
        return {"features": "line"}


class PreparedNoise(SecureNoise):
    """`SecureNoise` for many short lives: draws ahead, and solves each calibration once.

    The sampler is `SecureNoise`'s, and nothing is handed out twice.
    """

    def __init__(self, *, certificate: Literal["concentrated", "near_gaussian"] = "concentrated") -> None:
        super().__init__(certificate=certificate)
        self._scales: dict[tuple[float, float, float, int | None], tuple[float, Certificate]] = {}
        self._waiting: dict[float, int] = {}

    def gaussian_scale(
        self, sensitivity: float, epsilon: float, delta: float, *, draws: int | None = None
    ) -> tuple[float, Certificate]:
        """As `SecureNoise`, remembered."""
        key = (sensitivity, epsilon, delta, draws)
        if key not in self._scales:
            self._scales[key] = super().gaussian_scale(sensitivity, epsilon, delta, draws=draws)
        return self._scales[key]

    def integer_gaussian(self, sigma: float, size: int) -> IntArray:
        """As `SecureNoise`, from what was drawn ahead."""
        if self._waiting.get(sigma, 0) < size:
            self._waiting[sigma] = max(size, _AHEAD)
            self.prepare(sigma, self._waiting[sigma])
        self._waiting[sigma] -= size
        return super().integer_gaussian(sigma, size)


def rows_of(make: Callable[[], ArrayLike], n: int) -> FloatArray:
    """(n, k) outputs of n fresh runs, one after another: each is a life of its own."""
    first = np.atleast_1d(np.asarray(make(), dtype=np.float64))
    outputs = np.empty((n, first.size))
    outputs[0] = first.ravel()
    for run in range(1, n):
        outputs[run] = np.ravel(np.asarray(make()))
    return outputs
