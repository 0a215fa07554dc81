"""`supervised_ceiling`: out-of-fold mean reward of the better of two standard supervised models on a table.

Each arm has its own model: logistic regression on the columns and their squares and products, or
gradient-boosted trees with early stopping. Models choose arms for users to whom they were not fitted.
Logistic regression suits smooth tables and few users; trees suit steps and many users. On some tables one of
the two is worse than an online bandit.
"""

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from dpbandits._lazy import needing
from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.errors import InvalidData
from dpbandits.policy.coins import PublicCoins

__all__ = ["indicators", "supervised_ceiling"]

FOLDS = 5

MOST_ROWS = 50_000
"""Largest number of rows to which a model is fitted, which bounds the cost on long tables."""

MOST_PRODUCTS = 24
"""Largest number of columns, including indicators of categories, for which squares and products are added."""

MOST_CATEGORIES = 32
"""Largest number of categories that become indicator columns; with more, codes count as numbers."""

Fit = Callable[[FloatArray, FloatArray], Callable[[FloatArray], FloatArray]]
"""Function from contexts (n, d) and rewards (n,) in [0, 1] to a predictor of rewards from contexts."""


def supervised_ceiling(
    contexts: FloatArray, rewards: FloatArray, *, codes: Mapping[int, int], people: IntArray, seed: Seed
) -> float:
    """Return the mean reward of the better of two models, each of which saw all rewards of other users.

    Public coins split users into five folds. For each fold, a model is fitted to at most the first 50,000
    rows of the other folds, and chooses the arms in this fold. The same seed gives the same result.

    Args:
        contexts: Contexts in the order of rounds, with categories as codes, shape (n, d).
        rewards: Reward of each arm, in [0, 1], shape (n, K).
        codes: Number of categories of each categorical column, by column number.
        people: Number of the user of each row, shape (n,).
        seed: Seed of folds and trees.

    Raises:
        MissingExtra: scikit-learn is not installed.
        InvalidData: There are fewer users than folds.
    """
    with needing("supervised_ceiling needs scikit-learn: pip install 'dpbandits[report]'"):
        import sklearn.ensemble  # noqa: F401  (fail before any work)
    persons, owner = np.unique(people, return_inverse=True)
    if len(persons) < FOLDS:
        raise InvalidData(f"supervised_ceiling needs at least {FOLDS} people, there are {len(persons)}")
    fold = np.argsort(PublicCoins(seed).uniform("environment/folds", 0, len(persons), 1)[:, 0]) % FOLDS
    few = {column: size for column, size in codes.items() if size <= MOST_CATEGORIES}
    options = (
        (contexts, partial(_trees, unordered=list(few), seed=seed)),
        (_wide(contexts, few), _logistic),
    )
    # The trees use OpenMP. On busy cores its default threads take many times the CPU time of one thread.
    with one_thread(), threadpool_limits(limits=1, user_api="openmp"):
        return max(_out_of_fold(columns, rewards, fold[owner], fit) for columns, fit in options)


def _out_of_fold(columns: FloatArray, rewards: FloatArray, fold: IntArray, fit: Fit) -> float:
    paid = np.empty(len(rewards))
    for k in range(FOLDS):
        seen, held = np.flatnonzero(fold != k)[:MOST_ROWS], fold == k
        expected = [fit(columns[seen], arm)(columns[held]) for arm in rewards[seen].T]
        chosen = np.argmax(expected, axis=0)
        paid[held] = rewards[held][np.arange(len(chosen)), chosen]
    return float(paid.mean())


def indicators(contexts: FloatArray, codes: Mapping[int, int], *, size: float = 1.0) -> FloatArray:
    """Return contexts with each categorical column replaced by one column per category.

    Such a column is `size` in the rows with its category, and 0 elsewhere. Numbers are unchanged.
    """
    parts = [
        (contexts[:, [column]] == np.arange(codes[column])) * size
        if column in codes
        else contexts[:, [column]]
        for column in range(contexts.shape[1])
    ]
    return np.concatenate(parts, axis=1)


def _wide(contexts: FloatArray, codes: Mapping[int, int]) -> FloatArray:
    """Return numbers, indicators of categories, and the squares and products of all of them if they are few.

    See `MOST_PRODUCTS` and `MOST_CATEGORIES`.
    """
    own = indicators(contexts, codes)
    if own.shape[1] > MOST_PRODUCTS:
        return own
    first, second = np.triu_indices(own.shape[1])
    both = np.concatenate([own, own[:, first] * own[:, second]], axis=1)
    both = both[:, both.std(axis=0) > 0.0]  # products of two categories of one column are all 0
    # an indicator equals its square, so drop duplicate columns
    return np.unique(np.column_stack([np.ones(len(own)), both]), axis=1)


def _logistic(columns: FloatArray, rewards: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Fit a logistic regression, and return its prediction function."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    some, short = rewards > 0.0, rewards < 1.0
    if not some.any() or not short.any():
        return lambda held: np.full(len(held), float(some.any()))
    model = make_pipeline(StandardScaler(), LogisticRegression(solver="newton-cholesky"))
    model.fit(
        np.concatenate([columns[some], columns[short]]),
        np.repeat([1, 0], [some.sum(), short.sum()]),
        logisticregression__sample_weight=np.concatenate([rewards[some], 1.0 - rewards[short]]),
    )
    return lambda held: np.asarray(model.predict_proba(held)[:, 1])


def _trees(
    columns: FloatArray, rewards: FloatArray, *, unordered: list[int], seed: Seed
) -> Callable[[FloatArray], FloatArray]:
    from sklearn.ensemble import HistGradientBoostingRegressor

    model = HistGradientBoostingRegressor(
        early_stopping=True, random_state=seed % 2**32, categorical_features=unordered
    )
    model.fit(columns, rewards)
    return lambda held: np.asarray(model.predict(held))
