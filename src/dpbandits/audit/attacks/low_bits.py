"""The attack on the lowest bits of floating-point noise (Mironov 2012), and the naive noise that it breaks.

Float64 has more numbers near 0 than far from it. Noise drawn as a float and added to a float gives numbers
that depend on the exact value. Here the two worlds are the values 0 and 1. Noise near 0 is a multiple of a
tiny power of two. Added to 1, it is rounded to a multiple of 2^-53. An output that is no multiple of 2^-53
cannot come from 1, for any epsilon.

Noise on a lattice has outputs on one lattice in both worlds and is not affected. The naive noise in this
module exists for the audit only.
"""

import os

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.privacy.calibration import gaussian_sigma

__all__ = ["finest_bit", "naive_gaussian", "naive_laplace", "off_grid", "system_generator"]


def system_generator() -> np.random.Generator:
    """Return a NumPy generator that is seeded by the operating system."""
    return np.random.Generator(np.random.PCG64(int.from_bytes(os.urandom(16), "little")))


def naive_laplace(values: FloatArray, *, epsilon: float) -> FloatArray:
    """Return `values` plus NumPy's float Laplace noise for sensitivity 1.

    BROKEN: its pure epsilon does not hold.
    """
    noise = system_generator().laplace(scale=1.0 / epsilon, size=np.shape(values))
    return np.asarray(values + noise)


def naive_gaussian(values: FloatArray, *, epsilon: float, delta: float) -> FloatArray:
    """Return `values` plus NumPy's float normal noise for sensitivity 1.

    BROKEN: its (epsilon, delta) does not hold.
    """
    scale = gaussian_sigma(epsilon, delta, 1.0)
    return np.asarray(values + system_generator().normal(scale=scale, size=np.shape(values)))


def finest_bit(values: FloatArray) -> IntArray:
    """Return the exponent e of each value's lowest set bit: the largest e with value/2^e whole.

    The result is 0 for value 0.

    Example:
        >>> finest_bit(np.array([1.0, 0.75, 12.0, 2.0**-60 + 2.0**-10])).tolist()
        [0, -2, 2, -60]
    """
    mantissa, exponent = np.frexp(np.asarray(values, dtype=np.float64))
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    lowest = np.where(whole == 0, 1, whole & -whole).astype(np.float64)
    return np.where(whole == 0, 0, exponent - 53 + np.log2(lowest).astype(np.int64)).astype(np.int64)


def off_grid(outputs: FloatArray) -> FloatArray:
    """Return scores (n,) of n outputs: -1 if an output cannot come from the value 1, else 0.

    An output with the score -1 comes from the value 0.
    """
    return -(finest_bit(outputs) < -53).astype(np.float64)
