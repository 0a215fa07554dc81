"""Covariance functions, combined with `*` and `+`."""

from dpbandits._lazy import lazy
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

_SQUARED, _MATERN = "kernels.SquaredExponential", "kernels.Matern"

__getattr__, __dir__ = lazy(
    __name__,
    foreign={
        "ARD": f"{_SQUARED}(lengthscale=(0.3, 0.5))",
        "Constant": "2.0 * kernel",
        "ConstantKernel": "2.0 * kernel",
        "Exponential": f"{_MATERN}(nu=0.5)",
        "Gaussian": _SQUARED,
        "GaussianKernel": _SQUARED,
        "Hamming": "kernels.Indicator",
        "Matern12": f"{_MATERN}(nu=0.5)",
        "Matern32": f"{_MATERN}(nu=1.5)",
        "Matern52": f"{_MATERN}(nu=2.5)",
        "MaternKernel": _MATERN,
        "RBF": _SQUARED,
        "RBFKernel": _SQUARED,
        "SE": _SQUARED,
    },
)
