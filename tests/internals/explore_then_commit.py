"""The inside of `ExploreThenCommit`, for tests of what no row, copy or crash may do to its raw sums."""

__all__ = ["cells", "integer_features", "published_tables", "rules_caps", "sums"]


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
