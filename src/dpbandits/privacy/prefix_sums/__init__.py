"""Sums over blocks or rounds, released as they grow, under one calibrated noise.

- `BlockRelease`: the matrix mechanism for a few blocks; `Factor` is its mixing matrix.
- `optimised_factor`, `square_root_toeplitz`, `identity`: factors for a known schedule, for any schedule of
  a known size, and fresh noise per block (one block: a single release).
- `BinaryTree`, `TreeRelease`: a node a round, as Dubey2021 does it.
- `PrefixSums`: what all of them state about themselves; `prefix_cost` compares them and
  `factor_for`, `prefix_sums_for` choose (its module holds the table).
"""

from dpbandits.privacy.prefix_sums.blocks import RELEASE_UNIT, BlockRelease
from dpbandits.privacy.prefix_sums.choice import PrefixSums, factor_for, prefix_cost, prefix_sums_for
from dpbandits.privacy.prefix_sums.factors import Factor, identity, optimised_factor, square_root_toeplitz
from dpbandits.privacy.prefix_sums.tree import BinaryTree, TreeRelease

__all__ = [
    "RELEASE_UNIT",
    "BinaryTree",
    "BlockRelease",
    "Factor",
    "PrefixSums",
    "TreeRelease",
    "factor_for",
    "identity",
    "optimised_factor",
    "prefix_cost",
    "prefix_sums_for",
    "square_root_toeplitz",
]
