"""Which available row is chosen: uniformly by public coins, or by scores whose ties coins break."""

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray

__all__ = ["best_choice", "uniform_choice"]


def uniform_choice(
    coins: FloatArray, n_candidates: int, available: BoolArray | None
) -> tuple[IntArray, FloatArray]:
    """Row chosen uniformly among the available ones, and its probability; coins (B,) in (0, 1)."""
    if available is None:
        indices = np.floor(coins * n_candidates).astype(np.int64)
        return indices, np.full(len(coins), 1.0 / n_candidates)
    counts = available.sum(axis=1)
    rank = np.floor(coins * counts).astype(np.int64)
    # the row at which the running count of available rows first exceeds the drawn rank
    indices = np.argmax(np.cumsum(available, axis=1) > rank[:, None], axis=1).astype(np.int64)
    return indices, 1.0 / counts


def best_choice(scores: FloatArray, coins: FloatArray, available: BoolArray | None) -> IntArray:
    """Row with the highest score (B, n) in each set; ties go by the public coins (B,)."""
    if len(scores) == 1 and available is None:  # the common case, without arrays for one number
        row = scores[0]
        index = row.argmax()
        if np.count_nonzero(row == row.item(index)) == 1:
            return np.array([index])
    if available is not None:
        scores = np.where(available, scores, -np.inf)
    best = scores == scores.max(axis=1, keepdims=True)
    if available is not None:
        best &= available
    indices, tied = best.argmax(axis=1), best.sum(axis=1) > 1
    if tied.any():
        indices[tied], _ = uniform_choice(coins[tied], scores.shape[1], best[tied])
    return np.asarray(indices)
