"""Locally private bandits as published: to reproduce and to compare with, not to recommend.

- `ma2025`: Ma2025, Algorithm 2.
"""

from dpbandits.local.published.ma2025 import Ma2025Constants, Ma2025Rule

__all__ = ["Ma2025Constants", "Ma2025Rule"]
