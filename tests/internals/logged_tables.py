"""The inside of a log's marginal tables: what rows add up to before noise, and which noise is asked for."""

import numpy as np

from dpbandits.central.marginals import noise

__all__ = ["mechanism", "noiseless", "parts", "raw", "sum_variance_by_groups", "weights"]


def mechanism(policy):
    """What releases the tables."""
    return policy.calibration.release


def sum_variance_by_groups(policy):
    """Variance of the noise of sums that the choice of a law takes: proportional to the number of tables."""
    release = mechanism(policy)
    return release._variances(len(release.design.groups))[1]


def raw(policy):
    """(size,) integers before any noise, in units of 2^-20 of the bound, and of a person."""
    return policy._shard.cells.sums[0]


def parts(policy, vector):
    """Sums (arms, entries), and the counts of every table, of such a vector (size,)."""
    sums, counts = mechanism(policy).summed
    ends = mechanism(policy).n_rows * sums.n_cells
    one = mechanism(policy)
    tables = np.split(vector[ends + one.n_alone + one.n_weighed :], np.cumsum(counts.cells)[:-1])
    return vector[:ends].reshape(-1, sums.n_cells), tables


def weights(policy, vector):
    """The table of weights (bins,) of such a vector (size,), in units of 2^-20."""
    ends = parts(policy, vector)[0].size
    return vector[ends : ends + mechanism(policy).n_weighed]


def noiseless(monkeypatch, first=None):
    """No Laplace noise is added, but for `first(entries)` in the first draw.

    Returns:
        The rates that were asked for, in order, as (rate, entries).
    """
    asked = []

    def nothing(rate, size, words):
        asked.append((rate, size))
        if first is not None and len(asked) == 1:
            return first(size)
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(noise, "lattice_laplace", nothing)
    return asked
