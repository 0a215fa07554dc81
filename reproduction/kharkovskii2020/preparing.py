"""Preparation of a table with an unknown kernel in Kharkovskii2020: maximum likelihood, then scaling.

Hyperparameters of a squared-exponential kernel, with one lengthscale per column, maximise the marginal
likelihood of the table itself. Then every column is divided by its own lengthscale (footnote 4), and all are
scaled together to a largest norm of 25 (Section 4). This uses the whole table: it is part of an experiment
and protects nobody.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.outsourced.scaling import RADIUS

__all__ = ["Prepared", "isotropic", "most_likely_lengthscales", "scaled_before_centring"]

LEAST_NOISE = 1e-6
"""Smallest candidate for the noise variance, as a share of the signal's; keeps factors well conditioned."""
_STARTS = (0.15, 0.5)
_STEPS = 30


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared:
    """Input of the published algorithms.

    Attributes:
        points: (n, d) rows, centred, of norm at most 25.
        kernel: isotropic, on these.
    """

    points: FloatArray
    kernel: Kernel


def most_likely_lengthscales(points: FloatArray, values: FloatArray) -> FloatArray:
    """(d,) lengthscales of the largest marginal likelihood; variance and mean are profiled out.

    Args:
        points: (n, d); some hundred n x n matrices are factored. The noise is fitted as well.
        values: (n,).

    Raises:
        InvalidData: a column or the values are constant.
    """
    spans = np.ptp(points, axis=0)
    if not (spans > 0.0).all() or not np.ptp(values) > 0.0:
        raise InvalidData("a column or the values are constant: no lengthscale is more likely than another")
    gaps = ((points[:, None] - points[None]) / spans) ** 2
    n, dim = points.shape
    both = np.column_stack([np.ones(n), (values - values.mean()) / values.std()])

    def lost(logs: FloatArray) -> float:
        covariance = np.exp(-0.5 * gaps @ np.exp(-2.0 * logs[:dim]))
        covariance[np.diag_indices(n)] += math.exp(logs[dim])
        factor = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
        solved = cho_solve(factor, both, check_finite=False)
        mean = (both[:, 0] @ solved[:, 1]) / (both[:, 0] @ solved[:, 0])
        rest = both[:, 1] - mean
        variance = rest @ (solved[:, 1] - mean * solved[:, 0]) / n
        return float(0.5 * n * math.log(variance) + np.log(np.diagonal(factor[0])).sum())

    bounds = [(math.log(0.01), math.log(10.0))] * dim + [(math.log(LEAST_NOISE), math.log(10.0))]
    found = [
        minimize(
            lost,
            np.append(np.full(dim, math.log(start)), math.log(1e-3)),
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": _STEPS},
        )
        for start in _STARTS
    ]
    best = min(found, key=lambda one: float(one.fun))
    lengthscales: FloatArray = np.exp(best.x[:dim]) * spans
    return lengthscales


def isotropic(points: FloatArray, lengthscales: FloatArray, *, stretch: float = 1.0) -> Prepared:
    """Rows (n, d) divided by the columns' lengthscales (d,), centred, the largest norm 25; and the kernel.

    The kernel is `stretch` times as wide as these lengthscales say.

    >>> prepared = isotropic(np.array([[0.0, 0.0], [2.0, 0.0]]), np.array([0.5, 7.0]))
    >>> prepared.points.tolist(), prepared.kernel.lengthscale
    ([[-25.0, 0.0], [25.0, 0.0]], 12.5)
    """
    scaled = points / lengthscales
    scaled = scaled - scaled.mean(axis=0)
    factor = RADIUS / float(np.linalg.norm(scaled, axis=1).max())
    return Prepared(points=factor * scaled, kernel=SquaredExponential(lengthscale=stretch * factor))


def scaled_before_centring(points: FloatArray) -> FloatArray:
    """Rows (n, d) centred and scaled as in the authors' public code, by the largest norm before the centring.

    >>> scaled_before_centring(np.array([[0.0, 0.0], [3.0, 4.0]])).tolist()
    [[-7.5, -10.0], [7.5, 10.0]]
    """
    return np.asarray((points - points.mean(axis=0)) * (RADIUS / float(np.linalg.norm(points, axis=1).max())))
