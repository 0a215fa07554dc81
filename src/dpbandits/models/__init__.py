"""What is learned from numbers: kernels, features, and the posteriors built on them.

Nothing here knows about privacy. A model receives plain arrays, and where they are noisy it is told
how noisy; whatever it computes from released statistics is post-processing of the release.

- `kernels`: covariance functions, combined with `*` and `+`.
- `features`: finite feature maps of a kernel, with norm at most one.
- `measures`: public laws on cells; `eigenfeatures`: a kernel's eigenfunctions under them.
- `noisy_regression`: regression on feature weights from a noisy Gram matrix and a noisy vector.
- `gaussian_process`: exact, pooled and feature-space Gaussian process regression on clean data.
- `partition`: adaptive dyadic bins; `posterior_tree`: a posterior over arms in them.

Modules load on first use: devices import `partition` with NumPy alone.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dpbandits.models import (
        eigenfeatures,
        features,
        gaussian_process,
        kernels,
        measures,
        noisy_regression,
        partition,
        posterior_tree,
    )

__all__ = [
    "eigenfeatures",
    "features",
    "gaussian_process",
    "kernels",
    "measures",
    "noisy_regression",
    "partition",
    "posterior_tree",
]


def __getattr__(name: str) -> object:
    """Load a module on first use (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
