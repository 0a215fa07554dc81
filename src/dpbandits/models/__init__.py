"""Models of rewards: kernels, feature maps, and the posteriors that are built on them.

Models do not know about privacy. They receive plain arrays and, if these are noisy, the noise's standard
deviation. Everything that they compute from released statistics is post-processing of the release.

- `kernels`: covariance functions, combined with `*` and `+`; `expected_kernel`: averages over input noise.
- `features`: finite feature maps of a kernel, with norm at most one.
- `measures`: public probability laws on cells; `decision_sets`: public decision sets, which stand for those
  that a policy expects.
- `noisy_regression`: regression on feature weights from a noisy Gram matrix and a noisy vector.
- `gaussian_process`: exact, pooled and feature-space Gaussian process regression on clean data.
- `trees`: adaptive dyadic bins, and posteriors over arms in them.
- `readout`: comparison of a policy with a control from released sums.

Modules load on first use: devices import `trees.partition` with NumPy alone.
"""

from typing import TYPE_CHECKING

from dpbandits._lazy import lazy

if TYPE_CHECKING:
    from dpbandits.models import (
        decision_sets,
        expected_kernel,
        features,
        gaussian_process,
        kernels,
        measures,
        noisy_regression,
        readout,
        trees,
    )

__all__ = [
    "decision_sets",
    "expected_kernel",
    "features",
    "gaussian_process",
    "kernels",
    "measures",
    "noisy_regression",
    "readout",
    "trees",
]

__getattr__, __dir__ = lazy(__name__)
