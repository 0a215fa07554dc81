"""Two test functions of Dubey2021's tables, as worlds with uniform candidates."""

from typing import Unpack

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.lab.worlds.functions import FunctionBandit, FunctionOptions, on_box

__all__ = ["michalewicz_10", "styblinski_tang_20"]

_STYBLINSKI_TANG = (-39.166165703771416, 125.0)  # per dimension, at -2.903534 and 5
_MICHALEWICZ_10_LOWEST = -9.660151715641349


def styblinski_tang_20(**options: Unpack[FunctionOptions]) -> FunctionBandit:
    """The Styblinski-Tang function on [-5, 5]^20, `n_candidates` uniform points a round.

    f(x) = sum_i (x_i^4 - 16 x_i^2 + 5 x_i)/2, each term between -39.16617 and 125 on the box; the
    expected reward is the mean over i of (125 - term_i)/(125 + 39.16617). An additive function: the
    best of 25 uniform candidates is about 0.09 above their mean. Options: see `FunctionOptions`.
    """
    return on_box("styblinski-tang-20", np.full(20, -5.0), np.full(20, 5.0), _styblinski_tang, options)


def _styblinski_tang(points: FloatArray, /) -> FloatArray:
    squares = points**2
    height = (0.5 * (squares**2 - 16.0 * squares + 5.0 * points)).mean(axis=-1)
    lowest, highest = _STYBLINSKI_TANG
    return np.asarray((highest - height) / (highest - lowest))


def michalewicz_10(**options: Unpack[FunctionOptions]) -> FunctionBandit:
    """The Michalewicz function (steepness m = 10) on [0, pi]^10, `n_candidates` uniform points a round.

    f(x) = -sum_i sin(x_i) sin(i x_i^2/pi)^20 lies between -9.66015 and 0; the expected reward is
    -f/9.66015. Narrow valleys in flat ground: a hard world for smooth kernels, by intention. Options: see
    `FunctionOptions`.
    """
    return on_box("michalewicz-10", np.zeros(10), np.full(10, np.pi), _michalewicz, options)


def _michalewicz(points: FloatArray, /) -> FloatArray:
    order = np.arange(1, points.shape[-1] + 1)
    depth = (np.sin(points) * np.sin(order * points**2 / np.pi) ** 20).sum(axis=-1)
    return np.asarray(depth / -_MICHALEWICZ_10_LOWEST)
