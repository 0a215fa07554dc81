"""Supervised ceiling: how much the contexts of a table can tell, as far as two standard models find it.

One model an arm: logistic regression on the columns and their squares and products, and gradient-boosted
trees that stop early. Each is fitted to people other than those it chooses for, and is paid what its choices
pay.
Smooth tables and few people suit the first, steps and many people the second; each alone falls below an
online bandit on some table.
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
"""That a model is fitted to: what it costs stays bounded on tables of any length."""

MOST_PRODUCTS = 24
"""Columns, indicators of categories counted, up to which squares and products are added."""

MOST_CATEGORIES = 32
"""Largest number of categories of a column that is taken without an order; with more, codes count as numbers.
Each category costs a column."""

Fit = Callable[[FloatArray, FloatArray], Callable[[FloatArray], FloatArray]]
"""(n, d) contexts and (n,) rewards in [0, 1] -> a function from contexts to expected rewards."""


def supervised_ceiling(
    contexts: FloatArray, rewards: FloatArray, *, codes: Mapping[int, int], people: IntArray, seed: Seed
) -> float:
    """Mean reward, out of fold, of the better of two models that saw all rewards of other people.

    People are parted into five folds by public coins; for each fold a model learns from the others, of more
    than 50,000 of their rows from the first so many. The same seed gives the same number.

    Args:
        contexts: (n, d), in the order of the rounds, categories as codes.
        rewards: (n, K) what each arm pays, in [0, 1].
        codes: number of categories of every column that has some.
        people: (n,) number of the person of each row.
        seed: keys folds and trees.

    Raises:
        MissingExtra: scikit-learn is not installed.
        InvalidData: fewer people than folds.
    """
    with needing("supervised_ceiling needs scikit-learn: pip install 'dpbandits[report]'"):
        import sklearn.ensemble  # noqa: F401  (before the table is looked at)
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
    """Mean of what each row pays where the models of the other folds choose."""
    paid = np.empty(len(rewards))
    for k in range(FOLDS):
        seen, held = np.flatnonzero(fold != k)[:MOST_ROWS], fold == k
        expected = [fit(columns[seen], arm)(columns[held]) for arm in rewards[seen].T]
        chosen = np.argmax(expected, axis=0)
        paid[held] = rewards[held][np.arange(len(chosen)), chosen]
    return float(paid.mean())


def indicators(contexts: FloatArray, codes: Mapping[int, int], *, size: float = 1.0) -> FloatArray:
    """Return numbers as they are, and a column for each category: this size in its rows and else 0."""
    parts = [
        (contexts[:, [column]] == np.arange(codes[column])) * size
        if column in codes
        else contexts[:, [column]]
        for column in range(contexts.shape[1])
    ]
    return np.concatenate(parts, axis=1)


def _wide(contexts: FloatArray, codes: Mapping[int, int]) -> FloatArray:
    """Return numbers, indicators of categories, and their squares and products if they are few."""
    own = indicators(contexts, codes)
    if own.shape[1] > MOST_PRODUCTS:
        return own
    first, second = np.triu_indices(own.shape[1])
    both = np.concatenate([own, own[:, first] * own[:, second]], axis=1)
    both = both[:, both.std(axis=0) > 0.0]  # two categories of one column are never together
    return np.unique(np.column_stack([np.ones(len(own)), both]), axis=1)  # an indicator is its own square


def _logistic(columns: FloatArray, rewards: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """A reward between 0 and 1 counts as a success and a failure, by its share."""
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
