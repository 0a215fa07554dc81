"""Propensities of arms when public Thompson draws choose, some of which give arms their minimum share."""

import numpy as np

from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.central.marginals.learning import SCORED, EffectPosterior
from dpbandits.models.ties import TIE

__all__ = ["propensities"]


def propensities(
    posterior: EffectPosterior, candidates: FloatArray, available: BoolArray | None, chosen: IntArray
) -> FloatArray:
    """Return the probability (B,) of each chosen row, given the releases and the user's own context.

    A public coin takes one of S draws for every round. The probability is the share of draws under which the
    row is best. Rows within `TIE` of the best are drawn uniformly.

    Args:
        posterior: Posterior with its draws (S, K, m).
        candidates: Decision sets (B, n, d), contexts followed by the arm's code.
        available: Mask of available rows (B, n); None if all are available.
        chosen: Chosen rows (B,).
    """
    draws, base = posterior.draws, posterior.features.base
    if draws is None:
        return np.full(len(chosen), np.nan)
    (count, n), found = candidates.shape[:2], np.zeros(len(chosen))
    step = max(1, SCORED // (n * draws.shape[2]))
    for begin in range(0, count, step):
        sets = slice(begin, begin + step)
        codes, own = candidates[sets, :, -1].astype(np.int64), chosen[sets]
        phi = base.of_known(candidates[sets, :, :-1])
        places = np.arange(len(own))
        for weights in draws:  # a few dozen, each for all sets together
            scores = np.einsum("bnm,bnm->bn", phi, weights[codes])
            if available is not None:
                scores = np.where(available[sets], scores, -np.inf)
            best = scores.max(axis=1, keepdims=True)
            tied = scores >= np.minimum(best - TIE, np.minimum(best * (1.0 - TIE), best * (1.0 + TIE)))
            found[sets] += tied[places, own] / tied.sum(axis=1)
    return found / len(draws)
