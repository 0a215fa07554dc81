"""Which available row is chosen: uniformly by public coins, or by scores whose ties coins break."""

from collections.abc import Callable

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.models.ties import TIE

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
    """The row of the highest score (n,); None where several tie, or it is no number."""
    index = int(scores.argmax())
    best = scores.item(index)
    least = min(best - TIE, best * (1.0 - TIE), best * (1.0 + TIE))  # as in `_tied`
    return index if np.count_nonzero(scores >= least) == 1 else None


def _tied(scores: FloatArray) -> BoolArray:
    """Which scores (B, n) tie with the best of their set, itself included; none where that is no number."""
    best = scores.max(axis=1, keepdims=True)
    least = np.minimum(best - TIE, np.minimum(best * (1.0 - TIE), best * (1.0 + TIE)))  # infinite if best is
    return np.asarray(scores >= least)


def best_choice(scores: FloatArray, coins: FloatArray, available: BoolArray | None) -> IntArray:
    """Row with the highest score (B, n) in each set; ties, see `TIE`, go by the public coins (B,).

    Beside a mask, a score that is NaN counts as the lowest: what is not available is never chosen.
    """
    if len(scores) == 1 and available is None:  # the common case, without arrays for one number
        index = _only_best(scores[0])
        if index is not None:
            return np.array([index])
    if available is not None:
        scores = np.where(available & ~np.isnan(scores), scores, -np.inf)
    best = _tied(scores)
    if available is not None:
        best &= available
    indices, tied = best.argmax(axis=1), best.sum(axis=1) > 1
    if tied.any():
        indices[tied], _ = uniform_choice(coins[tied], scores.shape[1], best[tied])
    return np.asarray(indices)
