r"""What USCA fixes before any data: the ridge, the caps on rewards, and what error to expect.

**Caps.** Every reward is clipped to +-Y(w) at ingestion, w its cell, Y public. What one reward can do to an
answer or a release is its cap times the influence of its cell; a few cells (corners, where data is
thinnest) have several times the influence of all others, and would set the noise for everyone. Capping
them at `share` of the largest influence costs a little bias there and buys less noise everywhere.

**Ridge and share by a rule.** With s_i = T h_i, q_i the prior variances and v the reward variance, choose
tau in {1, 3, 10, ..., 1e5} and the share that maximise the squared correlation between the noisy estimate
and the function,

    (sum q s)^2/(sum q (sum q s^2 + v T sum h^2 + noise + weight clip)),

noise = (1.28 R/eps)^2 for an answer and (2S/mu)^2 sum h for a release (1/mu stands for the noise
multiplier), clip = the mean square that clipping takes from a normal function. All of it is public.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import ndtr

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.central.explore_then_commit.estimator import (
    NOISE_VARIANCE,
    SIGNAL_VARIANCE,
    PopulationEstimator,
    prior_variances,
)
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.eigen import EigenFeatures
from dpbandits.policy.coins import PublicCoins

__all__ = [
    "RIDGES",
    "SHARES",
    "ExpectedError",
    "Plan",
    "clip_loss",
    "expected_error",
    "plan_answers",
    "plan_release",
]

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, 3e4, 1e5)
"""Candidates for tau."""

SHARES = (1.0, 0.75, 0.6, 0.5, 0.42, 0.35, 0.3)
"""Candidates for the caps: share of the largest influence that is let through."""

ANSWER_CLIP_WEIGHT = 0.01
RELEASE_CLIP_WEIGHT = 0.1
"""Clipping takes most where the function is largest, where it does least harm to a choice: its square counts
this little. Chosen on tuning seeds among weights from 0.01 to 0.3."""

ANSWER_SPREAD = 1.28
"""Standard deviation of one exponential draw against the best of the others, in units of R/epsilon."""

_MOST_CELLS = 4096
_MOST_CONTEXTS = 6
_MOST_ACTIONS = 64
_DRAWS = 24


@dataclass(frozen=True)
class Plan:
    """How one use of the data is calibrated, before data.

    Attributes:
        estimator: with the chosen ridge.
        caps: (n,) in (0, 1], in units of the reward bound.
        share: of the largest influence.
        noise_scale: expected noise: mean R/epsilon of answers (about, as R is looked at in each cell's own
            context), or the standard deviation 2S/mu of a release.
    """

    estimator: PopulationEstimator
    caps: FloatArray
    share: float
    noise_scale: float


@dataclass(frozen=True)
class ExpectedError:
    """What to expect, by simulation on functions drawn from the prior; no data is used.

    Attributes:
        error: mean loss against the best action.
        random: the same for a random action.
        standard_error: of `error`.
    """

    error: float
    random: float
    standard_error: float

    @property
    def share(self) -> float:
        """Error as a share of the random action's."""
        return self.error / self.random if self.random > 0.0 else 1.0


def plan_answers(
    features: EigenFeatures,
    *,
    n_actions: int,
    rounds: int,
    epsilon: float,
    rounds_per_user: int = 1,
    ridge: float | None = None,
) -> Plan:
    """Ridge and caps for answers at `epsilon` each."""
    contexts, actions, kappa = _sample_cells(features, n_actions)
    best: tuple[float, PopulationEstimator, float] | None = None
    for estimator in _candidates(features, n_actions, rounds, ridge):
        spreads = estimator.own_ranges(contexts, actions)
        for share in SHARES:
            caps = _caps(spreads, share)
            ranges = 2.0 * rounds_per_user * (caps * spreads).max(axis=1)
            noise = (ANSWER_SPREAD * float(kappa @ ranges) / epsilon) ** 2
            clip = float(kappa @ clip_loss(caps).mean(axis=1))
            value = _objective(estimator, noise + ANSWER_CLIP_WEIGHT * clip)
            if best is None or value > best[0]:
                best = (value, estimator, share)
    if best is None:
        raise InvalidParameter("no ridge to choose from")
    _, estimator, share = best
    spreads = estimator.own_ranges(np.arange(estimator.n_contexts))  # (C, A)
    caps = _caps(spreads, share)
    ranges = 2.0 * rounds_per_user * (caps * spreads).max(axis=1)
    typical = float(_context_weights(features, n_actions) @ ranges)
    return Plan(estimator, np.ascontiguousarray(caps.T).ravel(), share, typical / epsilon)


def plan_release(
    features: EigenFeatures,
    *,
    n_actions: int,
    rounds: int,
    noise_multiplier: float,
    rounds_per_user: int = 1,
    ridge: float | None = None,
) -> Plan:
    """Ridge and caps for one release of the whole function, whose noise is `noise_multiplier` times the
    sensitivity.
    """
    best: tuple[float, PopulationEstimator, float] | None = None
    for estimator in _candidates(features, n_actions, rounds, ridge):
        largest = float(estimator.deviation.max())
        for share in SHARES:
            noise_sd = 2.0 * rounds_per_user * share * largest * noise_multiplier
            clip = float(features.weights @ clip_loss(_caps(estimator.deviation, share)))
            noise = noise_sd**2 * float(estimator.shrinkage.sum())
            value = _objective(estimator, noise + RELEASE_CLIP_WEIGHT * clip)
            if best is None or value > best[0]:
                best = (value, estimator, share)
    if best is None:
        raise InvalidParameter("no ridge to choose from")
    _, estimator, share = best
    caps = _caps(estimator.deviation, share)
    sensitivity = 2.0 * rounds_per_user * float((caps * estimator.deviation).max())
    return Plan(estimator, caps, share, sensitivity * noise_multiplier)


def expected_error(plan: Plan, *, release: bool, seed: Seed = 0) -> ExpectedError:
    """Mean loss on functions drawn from the prior, in units of the reward bound.

    Args:
        plan: of answers or of a release.
        release: which of them.
        seed: public.
    """
    estimator = plan.estimator
    features, m = estimator.features, estimator.features.n_features
    n_actions, n_contexts = estimator.n_actions, estimator.n_contexts
    coins = PublicCoins(seed)
    normals = coins.normal("usca/expected-error", 0, _DRAWS, 2 * m)
    variances = prior_variances(features.eigenvalues)
    truth = np.sqrt(variances) * normals[:, :m]
    noise = estimator.rounds * NOISE_VARIANCE * np.ones(m)
    if release:
        noise = noise + plan.noise_scale**2 / estimator.shrinkage
        shrink = variances * estimator.rounds / (variances * estimator.rounds**2 + noise)
    else:
        shrink = estimator.shrinkage
    learned = shrink * (estimator.rounds * truth + np.sqrt(noise) * normals[:, m:])
    means, scores = (
        (features.psi @ coefficients.T).T.reshape(_DRAWS, n_actions, n_contexts)
        for coefficients in (truth, learned)
    )
    if not release:
        uniforms = coins.uniform("usca/expected-choice", 0, _DRAWS, n_actions * n_contexts)
        scores = scores - plan.noise_scale * np.log(uniforms).reshape(scores.shape)
    chosen = np.take_along_axis(means, scores.argmax(axis=1)[:, None, :], axis=1)[:, 0]
    best, kappa = means.max(axis=1), features.weights.reshape(n_actions, n_contexts).sum(axis=0)
    losses = (best - chosen) @ kappa
    return ExpectedError(
        float(losses.mean()),
        float(((best - means.mean(axis=1)) @ kappa).mean()),
        float(losses.std(ddof=1) / np.sqrt(_DRAWS)),
    )


def _candidates(
    features: EigenFeatures, n_actions: int, rounds: int, ridge: float | None
) -> list[PopulationEstimator]:
    if ridge is not None:
        ridge = _checks.number(ridge, name="ridge")
    ridges = RIDGES if ridge is None else (ridge,)
    return [PopulationEstimator(features, n_actions, rounds, value) for value in ridges]


def _objective(estimator: PopulationEstimator, extra: float) -> float:
    variances = prior_variances(estimator.features.eigenvalues)
    shrinkage = estimator.shrinkage
    slopes = estimator.rounds * shrinkage
    scatter = NOISE_VARIANCE * estimator.rounds * float(shrinkage @ shrinkage)
    total = float(variances @ slopes**2) + scatter + extra
    return float(variances @ slopes) ** 2 / (float(variances.sum()) * total)


def _caps(influence: FloatArray, share: float) -> FloatArray:
    """min(1, share max/influence): no cell moves more than `share` of the largest influence."""
    return np.asarray(np.minimum(1.0, share * influence.max() / np.maximum(influence, 1e-300)))


@lru_cache(maxsize=1)
def _clip_table() -> tuple[FloatArray, FloatArray]:
    """E (|f| - Y)_+^2 for f ~ N(0, SIGNAL_VARIANCE), on a grid of Y."""
    grid = np.linspace(0.0, 1.0, 201)
    z = grid / np.sqrt(SIGNAL_VARIANCE)
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return grid, 2.0 * SIGNAL_VARIANCE * ((1.0 + z**2) * ndtr(-z) - z * density)


def clip_loss(caps: FloatArray) -> FloatArray:
    """Mean square that clipping at caps takes from a normal function of the expected size."""
    grid, losses = _clip_table()
    return np.asarray(np.where(caps >= 1.0, 0.0, np.interp(caps, grid, losses)))


def _context_weights(features: EigenFeatures, n_actions: int) -> FloatArray:
    """(C,) law of contexts."""
    return np.asarray(features.weights.reshape(n_actions, -1).sum(axis=0))


def _sample_cells(features: EigenFeatures, n_actions: int) -> tuple[IntArray, IntArray, FloatArray]:
    """Contexts and actions to look at when ridges are compared, and weights of these contexts.

    All of them where they are few. Otherwise contexts at equal steps of their law, and, without weight, the
    one where the largest feature is largest: there influence is largest, which caps are relative to.
    """
    kappa = _context_weights(features, n_actions)
    contexts, weights = np.arange(len(kappa)), kappa
    if features.n_cells > _MOST_CELLS:
        steps = (np.arange(_MOST_CONTEXTS) + 0.5) / _MOST_CONTEXTS
        inner = np.minimum(np.searchsorted(np.cumsum(kappa), steps), len(kappa) - 1)
        extreme = int(features.squares.sum(axis=1).argmax()) % len(kappa)
        contexts = np.append(inner, extreme)
        weights = np.append(np.full(_MOST_CONTEXTS, 1.0 / _MOST_CONTEXTS), 0.0)
    actions = np.unique(np.linspace(0, n_actions - 1, min(n_actions, _MOST_ACTIONS)).round())
    return contexts.astype(np.int64), actions.astype(np.int64), weights
