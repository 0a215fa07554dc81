"""Learners from private gradients: right gradients, clipped, epsilon in the reports, and they learn."""

import numpy as np
import pytest
from scipy.special import expit

from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.contextual import World
from reproduction.ma2025 import ldp_vectors
from reproduction.ma2025.crowds import play
from reproduction.ma2025.ldp_gradient import (
    GradientConstants,
    LDPGradientBandit,
    LogisticModel,
    NeuralModel,
)

SLOPES, OFFSETS = np.array([[0.5, 0.1], [-0.5, 0.0], [0.0, -0.3]]), np.array([0.25, 0.75, 0.55])

LINEAR = World(
    name="linear",
    dim=2,
    n_arms=3,
    mean_rewards=lambda x: x @ SLOPES.T + OFFSETS,
    contexts=lambda n, rng: rng.random((n, 2)),
)

MODELS = {
    "logistic": lambda: LogisticModel(dim=2, n_arms=3),
    "neural": lambda: NeuralModel(dim=2, n_arms=3, width=4),
}


def learner(model, epsilon, *, n=10_000, seed=0, **constants):
    return LDPGradientBandit(
        model=MODELS[model](),
        epsilon=epsilon,
        n_users=n,
        seed=seed,
        constants=GradientConstants(**constants),
    )


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_the_log_loss(name):
    model, rng = MODELS[name](), np.random.default_rng(0)
    parameters = model.start() + 0.5 * rng.standard_normal(model.n_parameters)
    contexts, arms, rewards = rng.random((7, 2)), rng.integers(3, size=7), rng.integers(2, size=7) * 1.0

    def loss(p):
        z = model.values(p, contexts)[np.arange(7), arms]
        return -(rewards * np.log(expit(z)) + (1 - rewards) * np.log(expit(-z)))

    found = model.gradients(parameters, contexts, arms, rewards)
    for j in range(model.n_parameters):
        step = np.zeros(model.n_parameters)
        step[j] = 1e-5
        numeric = (loss(parameters + step) - loss(parameters - step)) / 2e-5
        assert np.allclose(found[:, j], numeric, atol=1e-8)
    for row, arm in enumerate(arms):
        elsewhere = np.setdiff1d(np.arange(model.n_parameters), model.touched(arm))
        assert (found[row, elsewhere] == 0).all()


@pytest.mark.parametrize("name", MODELS)
def test_without_noise_to_speak_of_it_learns_a_linear_world(name):
    regret = play(LINEAR, lambda: learner(name, 50.0), n_users=10_000, seed=5)[:, 0]
    _, means = LINEAR.draw(50_000, np.random.default_rng(0))
    random = (means.max(axis=1) - means.mean(axis=1)).mean()
    assert regret[60:].sum() / 4000 < 0.08 * random


def test_more_privacy_costs_more():
    """Ten crowds each: the means are more than ten standard errors apart."""
    runs = {
        epsilon: [play(LINEAR, lambda e=epsilon: learner("logistic", e), n_users=4000, seed=s)[:, 0].sum()
                  for s in range(10)]
        for epsilon in (0.3, 8.0)
    }  # fmt: skip
    assert np.mean(runs[8.0]) < 0.7 * np.mean(runs[0.3])


def test_what_a_mechanism_gets_is_clipped_and_of_its_own_size(monkeypatch):
    """Warm-up reports hold the public arm's coordinates, later ones all; no row is longer than 1."""
    seen = []
    one = learner("logistic", 1.0, n=200, warm_up=0.5, clip=0.25)

    class Spy:
        variance = 1.0

        def __init__(self, *, dim, epsilon):
            self.dim, self.epsilon = dim, epsilon

        def privatize(self, vectors, rng):
            seen.append((self.dim, self.epsilon, vectors.copy()))
            return np.zeros_like(vectors)

    monkeypatch.setitem(ldp_vectors.VECTOR_REPORTS, "cap", Spy)
    rng = np.random.default_rng(1)
    for _ in range(2):
        contexts = rng.random((100, 2))
        arms = one.choose(contexts)
        one.learn(contexts, arms, np.full(100, 50.0))  # rewards far outside are clipped as well
    one.learn_source(rng.random((30, 2)), np.zeros(30, dtype=int), np.ones(30), epsilon=3.0)
    assert [(dim, epsilon) for dim, epsilon, _ in seen] == [(3, 1.0)] * 3 + [(9, 1.0), (9, 3.0)]
    assert sum(len(vectors) for _, _, vectors in seen) == 230  # one report a user
    assert max(np.linalg.norm(vectors, axis=1).max() for _, _, vectors in seen) <= 1.0 + 1e-12


def test_sources_help_and_count_by_their_epsilon():
    """Twenty crowds: 4,000 source users at epsilon 8 before 2,000 users at epsilon 1."""

    def regret(source_epsilon, seed):
        def build():
            one = learner("logistic", 1.0, n=2000, seed=seed, warm_up=0.02)
            if source_epsilon:
                rng = np.random.default_rng([seed, 9])
                contexts, means = LINEAR.draw(4000, rng)
                arms = rng.integers(3, size=4000)
                paid = (rng.random(4000) < means[np.arange(4000), arms]).astype(float)
                one.learn_source(contexts, arms, paid, epsilon=source_epsilon)
            return one

        return play(LINEAR, build, n_users=2000, seed=seed)[:, 0].sum()

    without, weak, strong = (np.mean([regret(e, s) for s in range(20)]) for e in (0, 0.5, 8.0))
    assert strong < 0.5 * without
    assert strong < weak


def test_equal_seeds_equal_runs_and_refusals():
    first, second = (play(LINEAR, lambda: learner("neural", 2.0, seed=3), n_users=500, seed=4) for _ in "ab")
    assert np.array_equal(first, second)
    for wrong in ({"clip": 0.0}, {"warm_up": 1.0}, {"mechanism": "none"}, {"curvature": -1.0}):
        with pytest.raises(InvalidParameter):
            GradientConstants(**wrong)
    with pytest.raises(InvalidParameter):
        learner("logistic", 0.0)
