"""One release of tables, read with an error of its own: how far tables are off is learned from them too.

Tables s_a (C,) of an arm are A w_a + noise of covariance S + kappa^2 diag(people)^2: the last term stands for
all that is wrong with A, the map from functions to tables (the law of contexts, the people that stand for it,
and effects of three columns). kappa is the one of `MISFITS` under which the tables are most likely, prior
variances being learned at the same time.
"""

from typing import NamedTuple

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.posterior import ArmWeights, Evidence, Relevance

__all__ = ["MISFITS", "Tables", "fitted_with_misfit"]

MISFITS = (0.003, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4)
"""Candidates for kappa, in widths of the reward range."""

_BEGIN = 0.03
_STEPS = (12, 8, 8, 3)
"""Of expectation maximisation, kappa being chosen anew after each part but the last."""


class Tables(NamedTuple):
    """Tables of all arms, whose people are anybody's.

    Attributes:
        maps: A, (C, m).
        sums: s, (K, C).
        covariance: S, (C, C).
        people: (C,) an arm's.
    """

    maps: FloatArray
    sums: FloatArray
    covariance: FloatArray
    people: FloatArray

    def whitened(self, misfit: float) -> tuple[FloatArray, FloatArray, float]:
        """A (C, m), s (C, K) in coordinates where noise is standard normal; half its log determinant."""
        lower = np.linalg.cholesky(self.covariance + np.diag((misfit * self.people) ** 2))
        told, seen = np.linalg.solve(lower, self.maps), np.linalg.solve(lower, self.sums.T)
        return told, seen, float(np.log(np.diag(lower)).sum())

    def evidence(self, misfit: float) -> Evidence:
        """What they say of every arm's weights."""
        told, seen, _ = self.whitened(misfit)
        precision = told.T @ told
        return Evidence(np.broadcast_to(precision, (len(self.sums), *precision.shape)), (told.T @ seen).T)

    def log_likelihood(self, effects: Effects, relevance: Relevance, misfit: float) -> float:
        """Of all tables, up to a constant, the weights integrated out."""
        told, seen, half = self.whitened(misfit)
        variances = relevance.variances[effects.term_of]
        lower = np.linalg.cholesky(np.eye(len(told)) + (told * variances) @ told.T)
        apart = np.linalg.solve(lower, seen)
        return float(-0.5 * (apart**2).sum() - seen.shape[1] * (np.log(np.diag(lower)).sum() + half))


def fitted_with_misfit(effects: Effects, tables: Tables) -> tuple[ArmWeights, float]:
    """The law of every arm's weights, and kappa."""
    relevance, misfit = Relevance.prior(effects), _BEGIN
    for steps in _STEPS[:-1]:
        relevance = ArmWeights.fitted(effects, tables.evidence(misfit), relevance, steps=steps).relevance
        likely = [tables.log_likelihood(effects, relevance, one) for one in MISFITS]
        misfit = MISFITS[int(np.argmax(likely))]
    return ArmWeights.fitted(effects, tables.evidence(misfit), relevance, steps=_STEPS[-1]), misfit
