"""What is learned from numbers: kernels, features, and the posteriors built on them.

Nothing here knows about privacy. A model receives plain arrays, and where they are noisy it is told
how noisy; whatever it computes from released statistics is post-processing of the release.

- `kernels`: covariance functions, combined with `*` and `+`.
- `features`: finite feature maps of a kernel, with norm at most one.
- `noisy_regression`: regression on feature weights from a noisy Gram matrix and a noisy vector.
- `gaussian_process`: exact, pooled and feature-space Gaussian process regression on clean data.
"""

from dpbandits.models import features, gaussian_process, kernels, noisy_regression

__all__ = ["features", "gaussian_process", "kernels", "noisy_regression"]
