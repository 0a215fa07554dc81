"""Exact privacy loss of USCA's answers on adversarial neighbouring data sets, as a share of epsilon.

Base data of T rows puts one action ahead of the others; the replacement moves gaps most. Laws of
permute-and-flip are exact (`permute_and_flip_law`), scores and ranges are those that
`ExploreThenCommit.answer` uses. The
largest |log ratio| over epsilon must stay at or below 1; near 1 the calibration wastes nothing.

`ratios-published` asks the same of `USCA`, the published form with its set Z and its exponential mechanism
(Lemmas 4.2 and 7.2, Theorem 7.3).
"""

from functools import partial
from itertools import product

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.logged.calibration import planned_answers
from dpbandits.central.logged.estimator import Plan
from dpbandits.central.logged.sums import integer_caps, integer_weights
from dpbandits.central.published import USCA
from dpbandits.lab.study import Record
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.selection import largest_log_ratio, permute_and_flip_law
from reproduction.experiments import Choice, Item, Single

__all__ = ["ITEM", "KERNELS", "PUBLISHED", "answer_weights", "published_ratio", "ratio", "worst_ratio"]

KERNELS: dict[str, Kernel] = {
    "SE .2": SquaredExponential(lengthscale=0.2),
    "SE .5": SquaredExponential(lengthscale=0.5),
    "Matern-5/2 .3": Matern(nu=2.5, lengthscale=0.3),
    "Matern-3/2 .3": Matern(nu=1.5, lengthscale=0.3),
    "Matern-1/2 .5": Matern(nu=0.5, lengthscale=0.5),
}
"""Kernels that are searched: all that the estimator supports."""

ROUNDS = 1000
CELLS = 48
"""Number of cells of actions and of contexts."""
PUBLISHED_ROUNDS, PUBLISHED_CELLS = 200, 24
"""Rounds and cells of `USCA`, few because its set Z has up to the square of the rounds."""

_CELLS = 9
_PUSHED = (0.0, 0.3, 1.0)


def ratio(kernel: str, *, epsilon: float, cells: int = CELLS) -> float:
    """Largest |log ratio|/epsilon found, on cells x cells."""
    line = CellMeasure.uniform(low=0.0, high=1.0, cells=cells)
    features = EigenFeatures(kernel=KERNELS[kernel], measures=(line, line))
    plan = planned_answers(features, rounds=ROUNDS, epsilon=epsilon)
    return worst_ratio(plan, epsilon=epsilon) / epsilon


def worst_ratio(plan: Plan, *, epsilon: float) -> float:
    """Largest |log ratio| over three contexts, nine cells where a row moves most, six base data sets each."""
    caps, worst = integer_caps(plan.caps), 0.0
    last = plan.estimator.n_contexts - 1
    for context in (0, last // 2, last):
        weights, spread = answer_weights(plan, context)
        span = 2.0 * float(spread.max())
        for cell in np.argsort(-spread)[:_CELLS]:
            for base in _bases(weights, caps, int(cell)):
                one, other = base.copy(), base.copy()
                one[cell] -= caps[cell]
                other[cell] += caps[cell]
                scores = weights @ np.column_stack([one, other]).astype(np.float64)
                laws = permute_and_flip_law(scores.T, sensitivity=span, epsilon=epsilon)
                worst = max(worst, largest_log_ratio(laws[0], laws[1]))
    return worst


def answer_weights(plan: Plan, context: int) -> tuple[FloatArray, FloatArray]:
    """Integer weights (A, n) of sums in the scores of an answer, and how far one row can part scores (n,)."""
    influence = plan.estimator.influence(context)
    weights, _ = integer_weights(influence - 0.5 * (influence.max(axis=0) + influence.min(axis=0)))
    return weights, integer_caps(plan.caps) * (weights.max(axis=0) - weights.min(axis=0))


def _bases(weights: FloatArray, caps: IntArray, cell: int) -> list[IntArray]:
    """Sums of ROUNDS - 1 rows at their caps, which put the action that `cell` helps most ahead of others."""
    high, low = int(weights[:, cell].argmax()), int(weights[:, cell].argmin())
    bases = []
    gains = (weights[high] - weights[low], weights[high] - weights.mean(axis=0))
    for gain, pushed in product(gains, _PUSHED):
        base = np.zeros(len(caps), dtype=np.int64)
        helpful = np.argsort(-caps * np.abs(gain))[:_CELLS]
        each = int(pushed * (ROUNDS - 1)) // len(helpful)
        base[helpful] = each * np.sign(gain[helpful]).astype(np.int64) * caps[helpful]
        bases.append(base)
    return bases


def _measured(kernel: str, epsilon: float) -> Record:
    return {"ratio": ratio(kernel, epsilon=epsilon, cells=CELLS)}


def _cells(choice: Choice) -> list[Single]:
    return [
        Single(
            column=kernel,
            what={"kernel": kernel, "cells": CELLS, "T": ROUNDS, "epsilon": epsilon},
            measure=partial(_measured, kernel, epsilon),
        )
        for kernel in KERNELS
        for epsilon in choice.epsilons or (0.1, 0.5, 1.0, 5.0)
    ]


ITEM = Item(
    about="exact log ratios over adversarial neighbours",
    cells=_cells,
    key=("kernel", "cells", "T", "epsilon"),
    shown="kernel | cells | T:, | epsilon:g | ratio:.4f",
    seeded=False,
)


def published_ratio(kernel: str, *, epsilon: float) -> Record:
    """Largest |log ratio| of `USCA`'s answers over epsilon, and largest move of a score over its sensitivity.

    All rows are at the first context, where the answer is asked. The row that is replaced has the action at
    the end of the interval, where sigma-bar is largest; its reward turns from one end of the range to the
    other, or its context goes elsewhere. The other rows put actions at the other end far ahead, or none.
    """
    line = CellMeasure.uniform(low=0.0, high=1.0, cells=PUBLISHED_CELLS)
    points, worst, moved = line.points[:, 0], 0.0, 0.0

    def answered(contexts: FloatArray, rewards: FloatArray) -> USCA:
        usca = USCA(
            kernel=KERNELS[kernel],
            actions=line,
            contexts=line,
            reward_range=(-1.0, 1.0),
            horizon=PUBLISHED_ROUNDS,
            privacy=JointDP(epsilon=epsilon),
        )
        usca.learn(contexts, usca.explore(0, PUBLISHED_ROUNDS), rewards)
        return usca

    first, zeros = points[0], np.full(PUBLISHED_ROUNDS, points[0])
    actions = answered(zeros, zeros).explore(0, PUBLISHED_ROUNDS)
    row = int(actions.argmin())
    for ahead in (np.where(points[actions] > 0.5, 1.0, -1.0), np.zeros(PUBLISHED_ROUNDS)):
        with_row = ahead.copy()
        with_row[row] = 1.0
        one = answered(zeros, with_row)
        for context, reward in ((first, -1.0), (points[PUBLISHED_CELLS // 2], -1.0), (points[-1], 1.0)):
            contexts, rewards = zeros.copy(), ahead.copy()
            contexts[row], rewards[row] = context, reward
            other = answered(contexts, rewards)
            apart = np.abs(one.unsafe_scores(0) - other.unsafe_scores(0)).max()
            moved = max(moved, float(apart) / one.sensitivity)
            worst = max(worst, largest_log_ratio(one.unsafe_law(0), other.unsafe_law(0)))
    return {"ratio": worst / epsilon, "moved": moved}


PUBLISHED = Item(
    about="the same of the published form, with its set Z",
    cells=[
        Single(
            column=kernel,
            what={"kernel": kernel, "cells": PUBLISHED_CELLS, "T": PUBLISHED_ROUNDS, "epsilon": epsilon},
            measure=partial(published_ratio, kernel, epsilon=epsilon),
        )
        for kernel, epsilon in product(KERNELS, (0.1, 0.5, 1.0, 5.0))
    ],
    key=("kernel", "cells", "T", "epsilon"),
    shown="kernel | cells | T:, | epsilon:g | ratio:.4f | moved:.4f",
    seeded=False,
)
