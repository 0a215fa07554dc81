"""Prefix sums over blocks or rounds, released as they grow under one calibrated noise (DP-FTRL).

- `BlockRelease`: the matrix mechanism for a few blocks; `Factor` is its mixing matrix.
- `optimised_factor`: the factor for a known schedule of blocks; `square_root_toeplitz`: a factor for any
  schedule with a known number of blocks; `identity`: separate noise for each block.
- `BinaryTree`, `TreeRelease`: the binary tree mechanism over rounds, as in Dubey2021.
- `prefix_cost` compares these mechanisms, and `factor_for` chooses a factor, by the table in its module.
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
