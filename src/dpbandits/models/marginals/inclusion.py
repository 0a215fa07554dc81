"""Posterior with a learned probability that each of many columns matters (a spike-and-slab prior).

A column matters with prior probability min(1, `RELEVANT` / number of columns). If it does not, the weights
of its effect and of all its interactions are zero. The weights' law is approximated by a normal law. In it
the prior variance of a weight is its variance if all columns of its term matter, times the probability that
they do.

A column's probability p follows from the evidence. Let m and C be posterior mean and covariance of its n
weights (effect and interactions), divided by their prior standard deviations. Then M = C^-1 - I and h = C^-1
m are the precision and moment that the tables and all other columns contribute. If the column matters, prior
variances are 1/p times as large, and the log evidence against zero weights is

    log B = h.(M + p I)^-1 h / 2 - log det(I + M / p) / 2,  summed over arms.

With at most `RELEVANT` columns every column matters, and the result is that of `ArmWeights.fitted`.
"""

from dataclasses import replace

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.posterior import (
    PAIR_PSEUDO_COUNT,
    PRIOR_VARIANCES,
    ArmWeights,
    Evidence,
    Relevance,
)

__all__ = ["RELEVANT", "fitted_with_inclusion", "of_column", "variances_to_choose_by", "worth_of"]

RELEVANT = 5.0
"""Prior expected number of columns that matter, if there are more columns. `python -m
reproduction.tuning.releases --only inclusion` compares it with other numbers, including 100.
"""

LEAST = 1e-3
"""Bound on the probability that a column matters: it stays in [`LEAST`, 1 - `LEAST`], so that later releases
can change it.
"""


def fitted_with_inclusion(
    effects: Effects, evidence: Evidence, relevance: Relevance, *, steps: int
) -> ArmWeights:
    """Return the posterior of every arm's weights, with the learned probability that each column matters.

    Args:
        effects: Functions that are learned.
        evidence: Evidence of all tables.
        relevance: Initial prior variances and probabilities.
        steps: Number of steps of expectation maximisation, each of which updates the probabilities.
    """
    columns = len(effects.sizes)
    if columns <= RELEVANT:
        return ArmWeights.fitted(effects, evidence, relevance, steps=steps)
    before = RELEVANT / columns
    if relevance.included is None:
        relevance = replace(relevance, included=np.full(columns, before))
    found = ArmWeights.of(effects, evidence, relevance)
    for _ in range(steps):
        relevance = _learned(effects, found, relevance, odds=before / (1.0 - before))
        found = ArmWeights.of(effects, evidence, relevance)
    return found


def variances_to_choose_by(effects: Effects, relevance: Relevance, variance: FloatArray) -> FloatArray:
    """Return variances (m,) of weights for `best_design`, which account for columns that may not matter.

    Args:
        effects: Functions that are learned.
        relevance: Prior variances, and probabilities that columns matter.
        variance: Posterior variance u of every weight, shape (m,).
    """
    if relevance.included is None:
        return variance
    share = Relevance(np.ones(len(effects.terms)), relevance.included).of_terms(effects)[effects.term_of]
    return worth_of(variance, share, relevance.of_terms(effects)[effects.term_of])


def worth_of(variance: FloatArray, share: FloatArray, prior: FloatArray) -> FloatArray:
    """Return the variances (m,) by which tables are chosen for weights that may not matter.

    A weight of variance u explains a variance of about u^2 times the information. Let a weight matter with
    probability f, and have variance s if it does. Then the mean of its squared variance is f s^2 and not (f
    s)^2, so the result is f^(1/2) s. Here 1/s = 1/u - (1 - f)/u_0, for the weight's prior variance u_0 in
    the normal law.

    Args:
        variance: Posterior variance u of every weight, shape (m,).
        share: Probability f that it matters, shape (m,).
        prior: Its prior variance u_0, shape (m,).
    """
    return np.asarray(np.sqrt(share) * variance / (1.0 - np.minimum(variance / prior, 1.0) * (1.0 - share)))


def _learned(effects: Effects, found: ArmWeights, relevance: Relevance, *, odds: float) -> Relevance:
    """Return prior variances and probabilities after one step of expectation maximisation.

    Args:
        effects: Functions that are learned.
        found: Posterior under the present relevance.
        relevance: Present prior variances and probabilities.
        odds: Prior odds that a column matters.
    """
    arms, order, term_of = len(found.mean), effects.order, effects.term_of
    used = relevance.of_terms(effects)[term_of]
    squares = (found.mean**2 + found.variances).sum(axis=0)
    included = np.array(relevance.included)
    for column, before in enumerate(included.tolist()):
        own = np.flatnonzero(effects.holds(column)[term_of])
        factors = found.factor[:1] if found.factor.strides[0] == 0 else found.factor
        included[column], if_so = of_column(
            found.mean, factors, own, used=used[own], before=before, odds=odds
        )
        main = order[term_of[own]] == 1
        squares[own[main]] = if_so[main]
    counts = arms * np.bincount(term_of, minlength=len(order))
    sums = np.bincount(term_of, squares, minlength=len(order))
    # The probability that all columns of a term matter.
    share = Relevance(np.ones(len(order)), included).of_terms(effects)
    single, pairs = order < 2, order == 2
    # Squares of a column are those of one that matters, and squares of a pair are averages over both cases.
    sums = np.where(single, share * sums, sums)
    prior = 2.0 * PRIOR_VARIANCES[order]
    variances = (sums + prior) / (share * counts + 2.0)
    if pairs.any():
        pooled = (sums[pairs].sum() + prior[pairs][0]) / ((share * counts)[pairs].sum() + 2.0)
        drawn = (sums + PAIR_PSEUDO_COUNT * pooled) / (share * counts + PAIR_PSEUDO_COUNT)
        variances = np.where(pairs, drawn, variances)
    return Relevance(variances, included)


def of_column(
    mean: FloatArray, factor: FloatArray, own: IntArray, *, used: FloatArray, before: float, odds: float
) -> tuple[float, FloatArray]:
    """Return the probability that a column matters, and its weights' expected squares if it does, shape (n,).

    Both are for the n weights of the column, of all K arms together; squares are summed over arms.

    Args:
        mean: Posterior means of all weights, (K, m).
        factor: Factors of the posterior covariances, (K, m, m), or (1, m, m) if arms share one.
        own: Indices of the column's weights, shape (n,).
        used: Prior variances of these weights in that posterior, shape (n,).
        before: Probability in that posterior that the column matters.
        odds: Prior odds that a column matters.
    """
    scale, identity = np.sqrt(used), np.eye(len(used))
    each = len(mean) // len(factor)  # arms that share a matrix
    evidence, squares = 0.0, np.zeros(len(used))
    # One matrix after another: a column of many levels has nearly all of the weights.
    for whole, means in zip(factor, mean.reshape(len(factor), each, -1), strict=True):
        part = whole[own] / scale[:, None]
        inverse = np.linalg.inv(part @ part.T)
        told = inverse - identity
        covariance = np.linalg.inv(told + before * identity)
        shift = (means[:, own] / scale) @ inverse
        found = shift @ covariance
        evidence += float((shift * found).sum()) - each * float(
            np.linalg.slogdet(identity + told / before)[1]
        )
        squares += (found**2).sum(axis=0) + each * np.diagonal(covariance)
    probability = 1.0 / (1.0 + np.exp(-np.clip(np.log(odds) + 0.5 * evidence, -50.0, 50.0)))
    return float(np.clip(probability, LEAST, 1.0 - LEAST)), np.asarray(used * squares)
