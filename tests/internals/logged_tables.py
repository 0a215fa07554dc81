"""The inside of a log's marginal tables: what rows add up to before noise, and which noise is asked for."""

import numpy as np

from dpbandits.central.marginals import noise

__all__ = ["mechanism", "noiseless", "raw"]


def mechanism(policy):
    """What releases the tables."""
    return policy.calibration.release


def raw(policy):
    """(size,) integers before any noise, in units of 2^-20 of the bound, and of a person."""
    return policy._shard.cells.sums[0]


def noiseless(monkeypatch):
    """No Laplace noise is added; the rates that were asked for, in order, as (rate, entries)."""
    asked = []

    def nothing(rate, size, words):
        asked.append((rate, size))
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(noise, "lattice_laplace", nothing)
    return asked
