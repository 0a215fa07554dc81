"""Covariance functions, combined with `*` and `+`."""

from dpbandits.models.kernels.base import Kernel, ProductKernel, ScaledKernel, SumKernel
from dpbandits.models.kernels.stationary import Indicator, Matern, SquaredExponential, from_config

__all__ = [
    "Indicator",
    "Kernel",
    "Matern",
    "ProductKernel",
    "ScaledKernel",
    "SquaredExponential",
    "SumKernel",
    "from_config",
]
