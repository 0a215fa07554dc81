"""Central algorithms as published, for reproduction. Recommended policies are in `dpbandits.central`.

- `Dubey2021`: GP-UCB on quadrature Fourier features with a binary tree of noisy sums (AISTATS 2021).
- `USCA`: uniform sampling with covariance approximation, one answer (Pavlovic2025).
- `printed_scale`, `correct_scale`, `real_epsilon`: noise scale by Dubey2021's printed formulas, correct
  scale, and the epsilon that a scale provides.
- `printed_local_scales`, `correct_local_scale`, `real_local_mu`: the same for Dubey2021's local algorithm.
"""

from dpbandits._lazy import lazy
from dpbandits.central.published.dubey2021 import Dubey2021, Dubey2021Tuning
from dpbandits.central.published.pavlovic2025 import USCA
from dpbandits.central.published.printed import (
    FORMULAS,
    correct_local_scale,
    correct_scale,
    printed_levels,
    printed_local_scales,
    printed_scale,
    real_epsilon,
    real_local_mu,
)

__all__ = [
    "FORMULAS",
    "USCA",
    "Dubey2021",
    "Dubey2021Tuning",
    "correct_local_scale",
    "correct_scale",
    "printed_levels",
    "printed_local_scales",
    "printed_scale",
    "real_epsilon",
    "real_local_mu",
]

__getattr__, __dir__ = lazy(__name__)
