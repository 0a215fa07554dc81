"""Arms of the rows of a table that has the reward of every arm, drawn by public coins.

Such a table becomes a log: each row keeps the reward of its arm. No coin depends on a context or a reward.
"""

import numpy as np

from dpbandits._typing import IntArray
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables.owners import Owners, earlier_rows

__all__ = ["arms_by_coins"]

_GOLDEN = (5.0**0.5 - 1.0) / 2.0
"""Step between the coins of a user's rows, which spreads any number of them evenly over [0, 1)."""


def arms_by_coins(count: int, owners: Owners | None, *, n_arms: int) -> IntArray:
    """Return arms (n,) that public coins draw uniformly for the `count` rows of a table.

    Without users, where neighbouring tables differ in one row, the coins are those of the rows' numbers. A
    user may have more rows in a neighbouring table, which moves the rows of others. So with users a coin is
    frac(u + r g). The number u is uniform and follows from the user's id, r is the number of the user's
    earlier rows, and g is the golden ratio. Each coin is uniform.
    """
    coins = PublicCoins(0)
    if owners is None:
        uniforms = coins.uniform("learn/explore", 0, count, 1)[:, 0]
    else:
        ids = [text.encode(errors="surrogatepass") for text in owners.texts]
        everybody = np.append(coins.of_users("learn/explore", ids), 0.0)  # the last one: rows of nobody
        own = everybody[owners.numbers]
        uniforms = np.modf(own + earlier_rows(owners.numbers) * _GOLDEN)[0]
    return np.minimum(uniforms * n_arms, n_arms - 1).astype(np.int64)
