"""Choice of the prefix-sum mechanism: exact costs, and a rule of choice.

| mechanism | column norm^2 | variance of prefix j (per unit) | the rule takes it for |
|---|---|---|---|
| `identity(1)` | 1 | 1 | one release in all |
| `identity(K)` | 1 | j | an unknown horizon |
| `optimised_factor` | 1 | (cumsum R^-1)^2 summed over rows | a known schedule, K <= 128 |
| `square_root_toeplitz` | 1 | S_K S_j | a known schedule, K <= 2048 |
| `BinaryTree(T)` | L = bit length of T | popcount(j) | more releases than that |

A factor is a mixing matrix R (`Factor`), and S_j the sum of the first j squared entries of the square root's
first column. The cost of a prefix is column norm^2 times variance: its noise variance, relative to a single
release. `identity(K)` with every user in one block is parallel composition, so K may be unknown when the
noise scale is fixed.
"""

from collections.abc import Sequence

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.prefix_sums.factors import Factor, identity, optimised_factor, square_root_toeplitz
from dpbandits.privacy.prefix_sums.tree import BinaryTree

__all__ = ["factor_for", "prefix_cost"]

MOST_OPTIMISED = 128
"""Largest number of releases for which optimising a factor takes no noticeable time."""

MOST_DENSE = 2048
"""Largest number of releases for which a dense factor is stored: 32 MiB."""


def prefix_cost(mechanism: Factor | BinaryTree) -> FloatArray:
    """Return the noise variance of each prefix, relative to releasing it alone, shape (n_blocks,).

    Example:
        >>> prefix_cost(BinaryTree(4)).round(6).tolist(), prefix_cost(identity(4)).tolist()
        ([3.0, 3.0, 6.0, 3.0], [1.0, 2.0, 3.0, 4.0])
    """
    return np.asarray(mechanism.column_norm**2 * mechanism.prefix_variance())


def factor_for(boundaries: Sequence[int], *, horizon: int | None) -> Factor:
    """Return the factor for a schedule, by the rule in the table of this module.

    Args:
        boundaries: Ends of the blocks in rounds, strictly increasing.
        horizon: Total number of rounds; None if it is not known when the noise is calibrated.

    Raises:
        InvalidParameter: There are no blocks, or more than `MOST_DENSE`.
    """
    count = len(boundaries)
    if not 1 <= count <= MOST_DENSE:
        raise InvalidParameter(
            f"{count} blocks: a factor mixes 1 to {MOST_DENSE}; use fewer blocks, or a `BinaryTree`"
        )
    if count == 1 or horizon is None:
        return identity(count)
    return optimised_factor(boundaries, horizon) if count <= MOST_OPTIMISED else square_root_toeplitz(count)
