"""The inside of `ExploreThenCommit`, for tests of what no row, copy or crash may do to its raw sums."""

import numpy as np

from dpbandits.models.features import eigen

__all__ = [
    "add_in_chunks",
    "cells",
    "integer_features",
    "other_machine",
    "published_tables",
    "rules_caps",
    "sums",
]


def add_in_chunks(monkeypatch, rows):
    """Rows are added so many at a time."""
    monkeypatch.setattr("dpbandits.central.logged.sums._CHUNK", rows)


def other_machine(monkeypatch):
    """Eigenfunctions turn out with other signs, as they may with another number of threads."""
    real = eigen._eigenpairs

    def turned(*arguments):
        values, psi, variance = real(*arguments)
        return values, psi * np.where(np.arange(psi.shape[1]) % 3 == 0, -1.0, 1.0), variance

    monkeypatch.setattr(eigen, "_eigenpairs", turned)


def cells(policy):
    """The raw cell sums with their number of rounds."""
    return policy._shard.cells


def sums(policy):
    """(k, n) integers before any noise."""
    return policy._shard.cells.sums


def rules_caps(policy):
    """(k, n) caps that rows are cut at when they are learned."""
    return policy.unsafe_rules.caps


def published_tables(policy):
    """(mean, sd) once drawn, whether or not it has left; None before."""
    return policy._released


def integer_features(mechanism):
    """(n, m) integer vectors that a release sums."""
    return mechanism._integers[0]
