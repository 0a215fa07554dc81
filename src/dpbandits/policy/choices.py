"""Which available row is chosen: uniformly by public coins, or by scores whose ties coins break."""

from collections.abc import Callable

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray

__all__ = ["best_choice", "best_row", "uniform_choice"]


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


def best_row(scores: FloatArray, coin: Callable[[], float]) -> int:
    """`best_choice` of one set, all of it available: scores (n,), and its coin, which is drawn for a tie."""
    index = _only_best(scores)
    return int(best_choice(scores[None], np.array([coin()]), None)[0]) if index is None else index


def _only_best(scores: FloatArray) -> int | None:
    """The row of the highest score (n,); None where several have it, or it is no number."""
    index = int(scores.argmax())
    best, last = scores.item(index), len(scores) - 1 - int(scores[::-1].argmax())
    return index if last == index and best == best else None


def best_choice(scores: FloatArray, coins: FloatArray, available: BoolArray | None) -> IntArray:
    """Row with the highest score (B, n) in each set; ties go by the public coins (B,)."""
    if len(scores) == 1 and available is None:  # the common case, without arrays for one number
        index = _only_best(scores[0])
        if index is not None:
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
