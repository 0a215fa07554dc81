"""Central trust, as published: for reproduction. What we recommend is one level up.

- `Dubey2021`: GP-UCB on quadrature Fourier features with a binary tree of noisy sums (AISTATS 2021).
- `printed_scale`, `correct_scale`, `real_epsilon`: its noise formulas, what is right, what they give.
"""

from dpbandits.central.published.dubey2021 import Dubey2021
from dpbandits.central.published.printed import FORMULAS, correct_scale, printed_scale, real_epsilon

__all__ = ["FORMULAS", "Dubey2021", "correct_scale", "printed_scale", "real_epsilon"]
