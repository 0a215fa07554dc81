"""Locally private bandits as published, to reproduce and to compare with; not recommended for use.

- `ma2025`: Ma2025, Algorithms 2 and 3, as printed (learner `ma2025-printed`).
- `ma2025_variant`, `ma2025_transfer`: the same with additions of the authors' public code (learner `ma2025`).
- `dubey2021_local`: Dubey2021, Algorithm 3 (learner `dubey2021` of a `GPSpec`).
"""

from dpbandits._lazy import lazy
from dpbandits.local.published.ma2025 import Ma2025Constants, Ma2025Rule
from dpbandits.local.published.ma2025_transfer import Ma2025TransferConstants, Ma2025TransferRule
from dpbandits.local.published.ma2025_variant import Ma2025VariantConstants, Ma2025VariantRule

__all__ = [
    "Ma2025Constants",
    "Ma2025Rule",
    "Ma2025TransferConstants",
    "Ma2025TransferRule",
    "Ma2025VariantConstants",
    "Ma2025VariantRule",
]

__getattr__, __dir__ = lazy(__name__)
