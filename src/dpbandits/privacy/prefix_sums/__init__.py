"""Sums over blocks or rounds, released as they grow, under one calibrated noise.

- `BlockRelease`: the matrix mechanism for a few blocks; `Factor` is its mixing matrix.
- `optimised_factor`, `square_root_toeplitz`, `identity`: factors for a known schedule, for any schedule of
  a known size, and fresh noise per block (one block: a single release).
- `BinaryTree`, `TreeRelease`: a node a round, as Dubey2021 does it.
- `prefix_cost` compares them, and `factor_for` chooses a factor (its module holds the table).
"""

from dpbandits.privacy.prefix_sums.blocks import RELEASE_UNIT, BlockRelease
from dpbandits.privacy.prefix_sums.choice import factor_for, prefix_cost
from dpbandits.privacy.prefix_sums.factors import Factor, identity, optimised_factor, square_root_toeplitz
from dpbandits.privacy.prefix_sums.tree import BinaryTree, TreeRelease

__all__ = [
    "RELEASE_UNIT",
    "BinaryTree",
    "BlockRelease",
    "Factor",
    "TreeRelease",
    "factor_for",
    "identity",
    "optimised_factor",
    "prefix_cost",
    "square_root_toeplitz",
]
