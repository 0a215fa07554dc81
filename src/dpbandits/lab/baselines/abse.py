"""ABSE: adaptively binned successive elimination, without privacy.

Source: Perchet & Rigollet, *The multi-armed bandit problem with covariates*, 2013. Bins of side |B| pull
their arms in turn; an arm is dropped when its mean is below the best by more than the interval of width
U = width sqrt(2 log(n |B|^(2 + dim))/pulls), and a bin is split when U is below |B|, as far as a reward of
Lipschitz constant 1 can move in it. The paper's width is 4; smaller ones act sooner.

Privacy: none. Not an ask/tell policy: it is run on whole crowds by `play`.
"""

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.trees.partition import DyadicPartition

__all__ = ["ABSE"]


class ABSE:
    """State of ABSE: arrays over nodes and arms.

    Args:
        dim: number of context columns.
        n_arms: number of arms.
        n_users: n, the horizon.
        width: of the intervals.
    """

    def __init__(self, *, dim: int, n_arms: int, n_users: int, width: float = 1.0) -> None:
        self.partition = DyadicPartition(dim=dim)
        self.n_arms, self.n_users, self.width = n_arms, n_users, width
        self._active = np.ones((1, n_arms), dtype=np.bool_)
        self._pulls, self._paid = np.zeros((1, n_arms)), np.zeros((1, n_arms))

    def choose(self, contexts: FloatArray) -> IntArray:
        """Arms in turn: of the arms left in a bin, those pulled least first."""
        nodes = self.partition.locate(contexts)
        arms = np.empty(len(nodes), dtype=np.int64)
        for node in np.unique(nodes):
            here = np.flatnonzero(nodes == node)
            left = np.flatnonzero(self._active[node])
            turn = left[np.argsort(self._pulls[node, left], kind="stable")]
            arms[here] = turn[np.arange(len(here)) % len(turn)]
        return arms

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Add raw feedback, drop arms, split bins."""
        nodes = self.partition.locate(contexts)
        np.add.at(self._pulls, (nodes, arms), 1.0)
        np.add.at(self._paid, (nodes, arms), rewards)
        leaves = self.partition.leaves
        side = 2.0 ** (-self.partition.depth[leaves] / self.partition.dim)
        log = np.maximum(np.log(self.n_users * side ** (2 + self.partition.dim)), 1.0)[:, None]
        pulls, active = self._pulls[leaves], self._active[leaves]
        seen = np.maximum(pulls, 1.0)
        radius = np.where(pulls > 0, self.width * np.sqrt(2.0 * log / seen), np.inf)
        mean = self._paid[leaves] / seen
        best = np.where(active & (pulls > 0), mean, -np.inf).max(axis=1, keepdims=True)
        active &= ~(best - mean > radius)
        self._active[leaves] = active
        done = (~active | (radius < side[:, None])).all(axis=1) & (active.sum(axis=1) > 1)
        chosen = leaves[done]
        if len(chosen):
            children = self.partition.split(chosen)
            fresh = np.zeros((2 * len(chosen), self.n_arms))
            self._pulls, self._paid = (
                np.concatenate([self._pulls, fresh]),
                np.concatenate([self._paid, fresh]),
            )
            self._active = np.concatenate([self._active, np.repeat(self._active[chosen], 2, axis=0)])
            if len(self._active) != int(children.max()) + 1:
                raise RuntimeError("ABSE lost count of its bins")
