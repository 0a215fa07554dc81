"""Contextual bandits that learn from one private gradient per user: linear, or with one hidden layer.

Source: Han, Liang, Wang, Zhang, *Generalized linear bandits with local differential privacy*, 2021. Every
user sends the gradient of its own loss at the published parameters through a private vector mechanism, and
the server takes a step (LDP-SGD). Before this, arms are random in a warm-up. Ma2025 compares with it, with
and without auxiliary data, and with a single-layer neural variant.

What a user does: reads the published parameters, plays an arm, computes the gradient of the log loss
of (context, arm, reward), shortens it to norm `clip`, and reports it through a mechanism of
`ldp_vectors`. In the warm-up the arm is a public coin; the report then covers the coordinates that
this arm can touch and no others. Later the arm follows from the context, and the report covers all.
Models are logistic regressions, or a network with one hidden layer; contexts are points of the unit
cube, which both see as (1, 2 x - 1)/sqrt(d + 1), of norm at most 1.

What the server does: adds the reports of a batch and steps. Its steps are those of a Kalman filter with one
variance a coordinate: prior deviation `prior_sd`, curvature `curvature` of the loss, and the mechanism's
variance, all public. So batches, users and sources of any epsilon count for what they are worth, and
steps fall like 1/t where the noise allows it: a fixed rate would have to be tuned for every epsilon.

Privacy: epsilon-LDP for one report a user, by the mechanism's proof; the gradient is clipped before
anything else looks at it. Noise is simulated: a comparator for studies, not a client for people.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from scipy.special import expit

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray
from reproduction.ma2025.ldp_vectors import VECTOR_REPORTS, VectorReport, clip_norm

__all__ = ["GradientConstants", "GradientModel", "LDPGradientBandit", "LogisticModel", "NeuralModel"]

_LARGEST_STEP = 4.0
"""The log loss has curvature at most |features|^2/4 <= 1/4 per unit: longer steps can diverge."""


class GradientModel(Protocol):
    """Mean rewards with parameters, and the gradient of a user's log loss."""

    n_arms: int
    n_parameters: int

    def start(self) -> FloatArray:
        """(m,) public parameters to begin with."""

    def values(self, parameters: FloatArray, contexts: FloatArray) -> FloatArray:
        """(n, K) scores, increasing in the mean reward."""

    def gradients(
        self, parameters: FloatArray, contexts: FloatArray, arms: IntArray, rewards: FloatArray
    ) -> FloatArray:
        """(n, m) gradients of the users' log losses."""

    def touched(self, arm: int) -> IntArray:
        """Coordinates that the gradient of a user with this arm can be nonzero in."""


def _features(contexts: FloatArray) -> FloatArray:
    return np.asarray(np.insert(2.0 * contexts - 1.0, 0, 1.0, axis=1) / np.sqrt(contexts.shape[1] + 1))


class LogisticModel:
    """P(reward) = sigmoid(w_k . features): a generalised linear bandit with weights for every arm.

    The gradient of a user's log loss is (prediction - reward) features in the arm's block: norm at most 1.

    Args:
        dim: number of context columns.
        n_arms: number of arms.
    """

    def __init__(self, *, dim: int, n_arms: int) -> None:
        self.dim = _checks.integer(dim, name="dim")
        self.n_arms = _checks.integer(n_arms, name="n_arms")
        self.n_parameters = self.n_arms * (self.dim + 1)

    def start(self) -> FloatArray:
        """Zeros: every mean reward is one half."""
        return np.zeros(self.n_parameters)

    def values(self, parameters: FloatArray, contexts: FloatArray) -> FloatArray:
        """(n, K) logits."""
        return np.asarray(_features(contexts) @ parameters.reshape(self.n_arms, -1).T)

    def gradients(
        self, parameters: FloatArray, contexts: FloatArray, arms: IntArray, rewards: FloatArray
    ) -> FloatArray:
        """(n, m), zero outside the arm's block."""
        phi, rows = _features(contexts), np.arange(len(contexts))
        logits = (phi * parameters.reshape(self.n_arms, -1)[arms]).sum(axis=1)
        gradients = np.zeros((len(contexts), self.n_arms, self.dim + 1))
        gradients[rows, arms] = (expit(logits) - rewards)[:, None] * phi
        return gradients.reshape(len(contexts), -1)

    def touched(self, arm: int) -> IntArray:
        """The arm's block."""
        width = self.dim + 1
        return np.arange(arm * width, (arm + 1) * width)


class NeuralModel:
    """P(reward) = sigmoid(v_k . (1, tanh(gain U features))/sqrt(H + 1)): one hidden layer shared by all arms.

    Args:
        dim: number of context columns.
        n_arms: number of arms.
        width: H, hidden units.
        gain: slope of the hidden units; sets how strongly the public start bends.
        seed: Seed of the public start: rows of U are normal, and output weights are zero.
    """

    def __init__(self, *, dim: int, n_arms: int, width: int = 8, gain: float = 3.0, seed: int = 0) -> None:
        self.dim = _checks.integer(dim, name="dim")
        self.n_arms = _checks.integer(n_arms, name="n_arms")
        self.width = _checks.integer(width, name="width")
        self.gain = _checks.number(gain, name="gain")
        self._hidden = self.width * (self.dim + 1)
        self.n_parameters = self._hidden + self.n_arms * (self.width + 1)
        self._start = np.random.default_rng([seed, 4]).standard_normal(self._hidden)

    def start(self) -> FloatArray:
        """Random hidden weights, output weights zero."""
        return np.concatenate([self._start, np.zeros(self.n_arms * (self.width + 1))])

    def _layers(self, parameters: FloatArray, contexts: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, H + 1) hidden outputs, scaled, and (K, H + 1) output weights."""
        inner = parameters[: self._hidden].reshape(self.width, -1)
        hidden = np.tanh(self.gain * (_features(contexts) @ inner.T))
        outputs = np.insert(hidden, 0, 1.0, axis=1) / np.sqrt(self.width + 1)
        return outputs, parameters[self._hidden :].reshape(self.n_arms, -1)

    def values(self, parameters: FloatArray, contexts: FloatArray) -> FloatArray:
        """(n, K) logits."""
        outputs, weights = self._layers(parameters, contexts)
        return np.asarray(outputs @ weights.T)

    def gradients(
        self, parameters: FloatArray, contexts: FloatArray, arms: IntArray, rewards: FloatArray
    ) -> FloatArray:
        """(n, m) by the chain rule."""
        n, rows = len(contexts), np.arange(len(contexts))
        outputs, weights = self._layers(parameters, contexts)
        own = weights[arms]
        wrong = (expit((outputs * own).sum(axis=1)) - rewards)[:, None]
        outer = np.zeros((n, self.n_arms, self.width + 1))
        outer[rows, arms] = wrong * outputs
        scale = np.sqrt(self.width + 1)
        slope = (1.0 - (outputs[:, 1:] * scale) ** 2) * self.gain / scale
        inner = (wrong * own[:, 1:] * slope)[:, :, None] * _features(contexts)[:, None, :]
        return np.concatenate([inner.reshape(n, -1), outer.reshape(n, -1)], axis=1)

    def touched(self, arm: int) -> IntArray:
        """The hidden layer and the arm's output weights."""
        first = self._hidden + arm * (self.width + 1)
        return np.concatenate([np.arange(self._hidden), np.arange(first, first + self.width + 1)])


@dataclass(frozen=True, kw_only=True)
class GradientConstants:
    """Public constants of the learner.

    Attributes:
        clip: gradients are shortened to this norm.
        prior_sd: how far a parameter is expected to lie from where it starts.
        curvature: Curvature of the loss along a parameter; small values keep steps long for longer.
        warm_up: share of the users who play arms drawn at random, first.
        mechanism: Mechanism of the reports; see `ldp_vectors`.
    """

    clip: float = 0.5
    prior_sd: float = 1.0
    curvature: float = 0.02
    warm_up: float = 0.1
    mechanism: Literal["cap", "laplace", "coordinate"] = "cap"

    def __post_init__(self) -> None:
        for name in ("clip", "prior_sd", "curvature"):
            _checks.number(getattr(self, name), name=name)
        _checks.probability(self.warm_up, name="warm_up")
        _checks.one_of(self.mechanism, tuple(VECTOR_REPORTS), name="mechanism")


class LDPGradientBandit:
    """A crowd learner (see `ma2025.crowds`) from private gradients.

    Args:
        model: Model to learn, a `LogisticModel` or `NeuralModel`.
        epsilon: Epsilon of every user's report.
        n_users: expected number of users; sets the length of the warm-up.
        constants: see `GradientConstants`.
        seed: public coins of the warm-up, and simulated noise.
    """

    def __init__(
        self,
        *,
        model: GradientModel,
        epsilon: float,
        n_users: int,
        constants: GradientConstants | None = None,
        seed: int = 0,
    ) -> None:
        self.model, self.epsilon = model, _checks.number(epsilon, name="epsilon")
        self.constants = constants or GradientConstants()
        self._coins, self._noise = (np.random.default_rng([seed, channel]) for channel in (2, 3))
        self._warm_up = int(self.constants.warm_up * _checks.integer(n_users, name="n_users"))
        self._seen = 0
        self._random = np.zeros(0, dtype=np.bool_)
        self._parameters = model.start()
        self._precision = np.full(model.n_parameters, self.constants.prior_sd**-2)
        self._mechanisms: dict[tuple[int, float], VectorReport] = {}

    @property
    def parameters(self) -> FloatArray:
        """(m,) published parameters."""
        return self._parameters.copy()

    def choose(self, contexts: FloatArray) -> IntArray:
        """Coins in the warm-up, the best arm by the published parameters afterwards."""
        n = len(contexts)
        self._random = self._seen + np.arange(n) < self._warm_up
        self._seen += n
        arms = self.model.values(self._parameters, contexts).argmax(axis=1)
        return np.asarray(np.where(self._random, self._coins.integers(self.model.n_arms, size=n), arms))

    def learn(self, contexts: FloatArray, arms: IntArray, rewards: FloatArray) -> None:
        """Reports of the users who have just chosen, and a step."""
        everything, every_arm = np.arange(self.model.n_parameters), range(self.model.n_arms)
        touched = [(self._random & (arms == arm), self.model.touched(arm)) for arm in every_arm]
        self._learn(contexts, arms, rewards, self.epsilon, [*touched, (~self._random, everything)])

    def learn_source(
        self, contexts: FloatArray, arms: IntArray, rewards: FloatArray, *, epsilon: float, batch: int = 100
    ) -> None:
        """Auxiliary users, before or between the others, with their own epsilon. Their arms are private."""
        everything = np.arange(self.model.n_parameters)
        for start in range(0, len(contexts), batch):
            rows = slice(start, start + batch)
            all_of_them = np.ones(len(contexts[rows]), dtype=np.bool_)
            self._learn(contexts[rows], arms[rows], rewards[rows], epsilon, [(all_of_them, everything)])

    def _learn(
        self,
        contexts: FloatArray,
        arms: IntArray,
        rewards: FloatArray,
        epsilon: float,
        groups: Sequence[tuple[BoolArray, IntArray]],
    ) -> None:
        """Add the users' reports and step; of each group's gradients the reports cover these coordinates."""
        scale, kind = self.constants.clip, VECTOR_REPORTS[self.constants.mechanism]
        gradients = self.model.gradients(self._parameters, contexts, arms, np.clip(rewards, 0.0, 1.0))
        clipped = clip_norm(gradients, scale) / scale
        total, variance = np.zeros(self.model.n_parameters), np.zeros(self.model.n_parameters)
        for users, coordinates in groups:
            if users.any():
                key = (len(coordinates), epsilon)
                if key not in self._mechanisms:
                    self._mechanisms[key] = kind(dim=len(coordinates), epsilon=epsilon)
                mechanism, sent = self._mechanisms[key], clipped[users][:, coordinates]
                total[coordinates] += scale * mechanism.privatize(sent, self._noise).sum(axis=0)
                variance[coordinates] += len(sent) * scale**2 * mechanism.variance
        self._step(total, variance, len(contexts))

    def _step(self, total: FloatArray, variance: FloatArray, n: int) -> None:
        """Kalman step: total/n is the gradient, curvature times the distance to go, plus noise."""
        seen = variance > 0.0
        curvature = self.constants.curvature
        noise = variance[seen] / n**2
        self._precision[seen] += curvature**2 / noise
        gain = np.minimum(curvature / (noise * self._precision[seen]), _LARGEST_STEP)
        self._parameters[seen] -= gain * total[seen] / n
