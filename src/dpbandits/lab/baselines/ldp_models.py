"""What gradient-based local learners learn: logistic regressions, or a network with one hidden layer.

Contexts are points of the unit cube; both models see them as (1, 2 x - 1)/sqrt(d + 1), of norm at most 1.
"""

import numpy as np
from scipy.special import expit

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray

__all__ = ["LogisticModel", "NeuralModel"]


def _features(contexts: FloatArray) -> FloatArray:
    n, d = contexts.shape
    return np.asarray(np.concatenate([np.ones((n, 1)), 2.0 * contexts - 1.0], axis=1) / np.sqrt(d + 1))


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
        seed: of the public start: rows of U are normal, output weights zero.
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
        ones = np.ones((len(contexts), 1))
        outputs = np.concatenate([ones, hidden], axis=1) / np.sqrt(self.width + 1)
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
