"""Covariance functions, combined with `*` and `+`."""

from dpbandits.models.kernels.base import Kernel, Product, Scaled, Sum
from dpbandits.models.kernels.stationary import Indicator, Matern, SquaredExponential, from_config

__all__ = [
    "Indicator",
    "Kernel",
    "Matern",
    "Product",
    "Scaled",
    "SquaredExponential",
    "Sum",
    "from_config",
]
