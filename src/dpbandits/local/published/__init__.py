"""Locally private bandits as published: to reproduce and to compare with, not to recommend.

- `ma2025`: Ma2025, Algorithm 2.
- `ma2025_transfer`: Ma2025, Algorithm 3.
- `dubey2021_local`: Dubey2021, Algorithm 3 (a `GPSpec` names it).
"""

from dpbandits._lazy import lazy
from dpbandits.local.published.ma2025 import Ma2025Constants, Ma2025Rule
from dpbandits.local.published.ma2025_transfer import Ma2025TransferConstants, Ma2025TransferRule

__all__ = ["Ma2025Constants", "Ma2025Rule", "Ma2025TransferConstants", "Ma2025TransferRule"]

__getattr__, __dir__ = lazy(__name__)
