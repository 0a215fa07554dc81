"""The keys under which a `Finite` domain looks points up, for tests of colliding ones."""

import numpy as np

from dpbandits.domains import finite

__all__ = ["one_key_for_all"]


def one_key_for_all(monkeypatch, pool):
    """Every point has the key of the pool's first member."""
    monkeypatch.setattr(finite, "_keys", lambda points, _: np.repeat(pool._sorted_keys[:1], len(points)))
