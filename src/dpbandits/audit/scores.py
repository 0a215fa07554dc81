"""Scores that distinguish two worlds, fitted on separate samples.

A score is a function from n outputs (n, k) to numbers (n,) that are larger where world 1 is more likely.
Every score gives a valid bound, and the likelihood ratio gives the best one (Neyman-Pearson).
"""

from collections.abc import Callable

import numpy as np

from dpbandits._typing import FloatArray

__all__ = ["Score", "first_column", "fit_categories", "fit_linear"]

Score = Callable[[FloatArray], FloatArray]


def first_column(outputs: FloatArray) -> FloatArray:
    """Return the first column of outputs (n, k) as scores (n,); for outputs that are scores already."""
    return np.asarray(outputs.reshape(len(outputs), -1)[:, 0], dtype=np.float64)


def fit_linear(null: FloatArray, other: FloatArray) -> Score:
    """Return the linear discriminant, fitted on samples (n, k) of world 0 (`null`) and world 1 (`other`).

    It is the optimal score if both are normal.
    """
    one, two = _columns(null), _columns(other)
    centred = np.concatenate([one - one.mean(axis=0), two - two.mean(axis=0)])
    covariance = centred.T @ centred / max(1, len(centred) - 2)
    direction = np.linalg.pinv(covariance, hermitian=True) @ (two.mean(axis=0) - one.mean(axis=0))

    def score(outputs: FloatArray) -> FloatArray:
        return np.asarray(_columns(outputs) @ direction)

    return score


def fit_categories(null: FloatArray, other: FloatArray) -> Score:
    """Return the log ratio of each output's frequencies in the two worlds, as a score.

    One is added to each count of the training samples. An output that they do not contain has the score 0.
    """
    values, places = np.unique(np.concatenate([_columns(null), _columns(other)]), axis=0, return_inverse=True)
    places = np.asarray(places).reshape(-1)
    counts = [np.bincount(part, minlength=len(values)) for part in (places[: len(null)], places[len(null) :])]
    ratios = np.log((counts[1] + 1.0) / (len(other) + 1.0)) - np.log((counts[0] + 1.0) / (len(null) + 1.0))
    known = {row.tobytes(): float(ratio) for row, ratio in zip(values, ratios, strict=True)}

    def score(outputs: FloatArray) -> FloatArray:
        distinct, inverse = np.unique(_columns(outputs), axis=0, return_inverse=True)
        return np.array([known.get(row.tobytes(), 0.0) for row in distinct])[np.asarray(inverse).reshape(-1)]

    return score


def _columns(outputs: FloatArray) -> FloatArray:
    """Return outputs as numbers (n, k), with -0.0 replaced by 0.0, so that equal numbers have equal bytes."""
    table = np.asarray(outputs, dtype=np.float64).reshape(len(outputs), -1)
    return np.ascontiguousarray(table + 0.0)
