"""Posterior from one release of tables, with a model error (misfit) that is learned from the same tables.

For K arms, the C table entries s_a of arm a are A w_a + errors. The map A takes the m weights w_a of a
reward function to expected entries. The errors have covariance S + kappa^2 diag(people^2 + (.25 mean
people)^2), with S the covariance of the noise and `people` the users per arm in each cell.

The last term stands for all errors of A: of the law of contexts, of the sample of users that represents it,
and from effects of three columns, which the model leaves out. Its constant part is for cells that contain
users although noisy counts show none. kappa is the element of `MISFITS` under which the tables are most
likely. Prior variances are learned at the same time.

The posterior is an average over models, weighted by evidence and prior. Columns are ordered by the
prior variances of their effects and interactions, which are learned with all columns. A model contains the
first k columns, with or without their interactions.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dpbandits._typing import FloatArray
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.posterior import ArmWeights, Evidence, Relevance

__all__ = ["MISFITS", "Tables", "fitted_with_misfit"]

MISFITS = (0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4)
"""Candidates for kappa, in units of the width of the reward range."""

LEAST_PEOPLE = 0.25
"""Assumed number of users in a cell whose count is zero, as a share of the mean count of a cell."""

COLUMN_ODDS = 4.0
"""Prior odds that a column belongs to the model."""

LEFT_OUT, LEAST_WEIGHT = 1e-9, 1e-3
"""Prior variance of weights that a model leaves out; and share of the total weight of all models at or below
which a model is dropped.
"""

_BEGIN = 0.03
_STEPS = (12, 8, 8, 3)
"""Numbers of steps of expectation maximisation in each of four runs;
kappa is chosen again after the first three.
"""


@dataclass(frozen=True, eq=False)
class Tables:
    """Reward tables of K arms with C entries each, which share one map, covariance and count of users.

    Let D be the diagonal matrix that the module's kappa^2 multiplies, and D^-1/2 S D^-1/2 = V diag(l) V^T.
    Then the covariance S + kappa^2 D is D^1/2 V diag(l + kappa^2) V^T D^1/2, so one decomposition serves
    every kappa.

    Attributes:
        maps: Map A from m weights to expected entries, shape (C, m).
        sums: Noisy sums s, shape (K, C).
        covariance: Covariance S of the noise, shape (C, C).
        people: Users per arm in each cell, shape (C,).
    """

    maps: FloatArray
    sums: FloatArray
    covariance: FloatArray
    people: FloatArray

    @cached_property
    def _turned(self) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Return A (C, m), s (C, K), l (C,) in coordinates V^T D^-1/2, and log(det D)/2; see the class."""
        off = np.sqrt(self.people**2 + (LEAST_PEOPLE * self.people.mean()) ** 2)
        values, vectors = np.linalg.eigh(self.covariance / np.outer(off, off))
        turn = vectors.T / off
        return turn @ self.maps, turn @ self.sums.T, np.maximum(values, 0.0), float(np.log(off).sum())

    @cached_property
    def _known(self) -> dict[float, "_Whitened"]:
        return {}

    def whitened(self, misfit: float) -> "_Whitened":
        """Return the evidence of the tables about the weights, with kappa = `misfit`."""
        if misfit not in self._known:
            maps, sums, values, half = self._turned
            variances = values + misfit**2
            told = maps / variances[:, None]
            log_scale = half + 0.5 * float(np.log(variances).sum())
            square = float((sums**2 / variances[:, None]).sum())
            self._known[misfit] = _Whitened(told.T @ maps, told.T @ sums, square, log_scale)
        return self._known[misfit]

    def evidence(self, misfit: float) -> Evidence:
        """Return the evidence about every arm's weights, with kappa = `misfit`."""
        own = self.whitened(misfit)
        return Evidence(np.broadcast_to(own.precision, (len(self.sums), *own.precision.shape)), own.shift.T)

    def log_likelihood(self, effects: Effects, relevance: Relevance, misfit: float) -> float:
        """Return the log likelihood of all tables, up to a constant, with the weights integrated out.

        Args:
            effects: Functions that are learned.
            relevance: Prior variances of the weights.
            misfit: Value of kappa.
        """
        return self.whitened(misfit).log_likelihood(relevance.variances[effects.term_of])


class _Whitened(NamedTuple):
    """Evidence of K arms' tables about m weights, with W the inverse covariance of a table's errors.

    Attributes:
        precision: Matrix A^T W A, shape (m, m).
        shift: Vectors A^T W s, shape (m, K).
        square: Sum of s^T W s over arms.
        half: Half the log determinant of the covariance of one arm's errors.
    """

    precision: FloatArray
    shift: FloatArray
    square: float
    half: float

    def log_likelihood(self, variances: FloatArray) -> float:
        """Return the log likelihood up to a constant, with weights of prior variances (m,) integrated out."""
        scale = np.sqrt(variances)
        # One matrix of the size of the weights, which are fewer than the cells of many tables.
        lower = np.linalg.cholesky(np.eye(len(scale)) + scale[:, None] * self.precision * scale)
        seen = solve_triangular(lower, scale[:, None] * self.shift, lower=True, check_finite=False)
        logs = self.shift.shape[1] * (float(np.log(np.diag(lower)).sum()) + self.half)
        return float(-0.5 * (self.square - (seen**2).sum()) - logs)


def fitted_with_misfit(effects: Effects, tables: Tables) -> tuple[ArmWeights, float]:
    """Return the posterior of every arm's weights, and kappa, averaged over models; see the module."""
    relevance, misfit = Relevance.prior(effects), _BEGIN
    for steps in _STEPS[:-1]:
        relevance = ArmWeights.fitted(effects, tables.evidence(misfit), relevance, steps=steps).relevance
        likely = [tables.log_likelihood(effects, relevance, one) for one in MISFITS]
        misfit = MISFITS[int(np.argmax(likely))]
    every = ArmWeights.fitted(effects, tables.evidence(misfit), relevance, steps=_STEPS[-1])
    return _averaged(effects, tables, every)


class _Model(NamedTuple):
    """One model: log of evidence times prior, prior variances, and the most likely kappa."""

    log_weight: float
    relevance: Relevance
    misfit: float


def _models(effects: Effects, tables: Tables, relevance: Relevance) -> list[_Model]:
    """Return models of the first k columns, for every k; columns are ordered by prior variance."""
    worth, columns = np.zeros(len(effects.sizes)), [term.columns for term in effects.terms]
    for own, value in zip(columns, relevance.variances, strict=True):
        worth[list(own)] += value / max(1, len(own))
    rank = np.argsort(np.argsort(-worth, kind="stable"), kind="stable")
    last = np.array([max((int(rank[j]) for j in own), default=-1) for own in columns])
    told = [tables.whitened(misfit) for misfit in MISFITS]
    found = []
    for count in range(len(worth) + 1):
        for most in (1, 2) if (effects.order[last < count] == 2).any() else (2,):
            held = (last < count) & (effects.order <= most)
            variances = np.where(held, relevance.variances, LEFT_OUT)
            likely = [one.log_likelihood(variances[effects.term_of]) for one in told]
            best, prior = int(np.argmax(likely)), count * float(np.log(COLUMN_ODDS))
            found.append(_Model(likely[best] + prior, Relevance(variances), MISFITS[best]))
    return found


def _averaged(effects: Effects, tables: Tables, every: ArmWeights) -> tuple[ArmWeights, float]:
    """Return the posterior of the mixture of models as one normal law, and the mean of kappa.

    All arms share one covariance. It contains the spread of the models' means, averaged over arms.
    """
    models = _models(effects, tables, every.relevance)
    weights = np.exp(np.array([one.log_weight for one in models]) - max(one.log_weight for one in models))
    kept = np.flatnonzero(weights > LEAST_WEIGHT * weights.sum())
    weights = weights[kept] / weights[kept].sum()
    own = [models[at] for at in kept]
    laws = [ArmWeights.of(effects, tables.evidence(one.misfit), one.relevance) for one in own]
    mean = sum(weight * law.mean for weight, law in zip(weights, laws, strict=True))
    covariance = sum(
        weight * (law.factor[0] @ law.factor[0].T + (law.mean - mean).T @ (law.mean - mean) / len(mean))
        for weight, law in zip(weights, laws, strict=True)
    )
    misfit = float(weights @ np.array([one.misfit for one in own]))
    factor = np.broadcast_to(np.linalg.cholesky(covariance), every.factor.shape)
    return ArmWeights(mean, factor, every.relevance), misfit
