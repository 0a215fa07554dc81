"""Which prefix-sum mechanism: exact costs, and a stated rule.

========================  ===================  ================================  =====================
mechanism                 column norm^2        variance of prefix j (per unit)   when the rule takes it
========================  ===================  ================================  =====================
`identity(1)`             1                    1                                 one release in all
`identity(K)`             1                    j                                 horizon unknown
`optimised_factor`        1                    (cumsum R^-1)^2 summed over rows  schedule known, K <= 128
`square_root_toeplitz`    1                    S_K S_j                           schedule known, K <= 2048
`BinaryTree(T)`           L = bit length of T  popcount(j)                       more releases than that
========================  ===================  ================================  =====================

The cost of a prefix is column norm^2 times variance: what the noise variance of a single release is
multiplied by. `identity(K)` with every user in one block is parallel composition; its K may be
unknown when the noise is fixed.
"""

from collections.abc import Sequence

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.prefix_sums.factors import Factor, identity, optimised_factor, square_root_toeplitz
from dpbandits.privacy.prefix_sums.tree import BinaryTree

__all__ = ["factor_for", "prefix_cost"]

MOST_OPTIMISED = 128
"""Releases up to which optimising a factor is not felt."""

MOST_DENSE = 2048
"""Releases up to which a dense factor is held: 32 MiB."""


def prefix_cost(mechanism: Factor | BinaryTree) -> FloatArray:
    """(n_blocks,) noise variance of each prefix, in units of what releasing that prefix alone would need.

    Example:
        >>> prefix_cost(BinaryTree(4)).round(6).tolist(), prefix_cost(identity(4)).tolist()
        ([3.0, 3.0, 6.0, 3.0], [1.0, 2.0, 3.0, 4.0])
    """
    return np.asarray(mechanism.column_norm**2 * mechanism.prefix_variance())


def factor_for(boundaries: Sequence[int], *, horizon: int | None) -> Factor:
    """The factor that the rule in this module's table takes for a schedule.

    Args:
        boundaries: ends of the blocks, strictly increasing.
        horizon: rounds in all, or None where it is not known when noise is calibrated.

    Raises:
        InvalidParameter: no blocks, or more than `MOST_DENSE`.
    """
    count = len(boundaries)
    if not 1 <= count <= MOST_DENSE:
        raise InvalidParameter(
            f"{count} blocks: a factor mixes 1 to {MOST_DENSE}; release in fewer blocks, or through a tree"
        )
    if count == 1 or horizon is None:
        return identity(count)
    return optimised_factor(boundaries, horizon) if count <= MOST_OPTIMISED else square_root_toeplitz(count)
