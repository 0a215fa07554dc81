"""The keys by which a `Finite` domain finds its members, for tests that make them collide."""

import numpy as np

from dpbandits.domains import finite

__all__ = ["one_key_for_all"]


def one_key_for_all(pool, monkeypatch):
    """From now on every point has the key of the pool's first."""
    first = pool._sorted_keys[:1]
    monkeypatch.setattr(finite, "_keys", lambda points, _: np.repeat(first, len(points)))
