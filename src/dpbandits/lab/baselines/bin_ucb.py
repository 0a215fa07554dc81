"""UCB in every bin of a fixed grid, without privacy.

Source: Rigollet & Zeevi, *Nonparametric bandits with covariates*, 2010: a grid of about
(n/(K log n))^(1/(2 + dim)) bins a side, and in each an independent UCB1 (Auer et al. 2002).

Privacy: none. Not an ask/tell policy: it is run on whole crowds by `play`.
"""

import math

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter

__all__ = ["BinUCB"]


class BinUCB:
    """UCB1 in every bin.

    Args:
        dim: number of context columns.
        n_arms: number of arms.
        n_users: n, the horizon.
        side: bins a side; by default the rate above.
        width: factor on UCB1's exploration term.
    """

    def __init__(
        self, *, dim: int, n_arms: int, n_users: int, side: int | None = None, width: float = 0.5
    ) -> None:
        if n_users < 2:
            raise InvalidParameter("n_users: expected at least 2")
        rate = (n_users / (n_arms * math.log(n_users))) ** (1.0 / (2 + dim))
        self.side = max(1, math.ceil(rate)) if side is None else side
        self.dim, self.n_arms, self.width = dim, n_arms, width
        shape = (self.side**dim, n_arms)
        self._pulls, self._paid = np.zeros(shape), np.zeros(shape)

    def choose(self, contexts: FloatArray) -> IntArray:
        """The arm of largest upper bound; in a bin with several users, arms never pulled take turns."""
        bins = self._bins(contexts)
        pulls = self._pulls[bins]
        total = np.maximum(pulls.sum(axis=1, keepdims=True), 2.0)
        seen = np.maximum(pulls, 1.0)
        bound = self._paid[bins] / seen + self.width * np.sqrt(2.0 * np.log(total) / seen)
        bound = np.where(pulls > 0, bound, np.inf)
        turn = (np.arange(self.n_arms) - np.arange(len(bins))[:, None]) % self.n_arms
        first = np.lexsort((turn, -bound), axis=1)[:, 0]
        return np.asarray(first)

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Add raw feedback."""
        bins = self._bins(contexts)
        np.add.at(self._pulls, (bins, arms), 1.0)
        np.add.at(self._paid, (bins, arms), rewards)

    def _bins(self, contexts: FloatArray) -> IntArray:
        steps = np.minimum((contexts * self.side).astype(np.int64), self.side - 1)
        return np.asarray(steps @ (self.side ** np.arange(self.dim)))
