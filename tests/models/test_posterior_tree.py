"""Posterior, P(best) and masses against brute force."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, special, stats

from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.models.trees.posterior import arm_posterior, bin_masses, probability_best


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_probability_best_against_adaptive_quadrature(seed, n_arms):
    rng = np.random.default_rng(seed)
    mean, sd = rng.normal(0.5, 0.2, n_arms), rng.uniform(0.1, 0.3, n_arms)
    best = probability_best(mean[None], sd[None] ** 2)[0]
    assert best.sum() == np.float64(1.0) or abs(best.sum() - 1) < 1e-12
    for k in range(n_arms):

        def density(x, k=k):
            z = (x - mean) / sd
            own = np.exp(-0.5 * z[k] ** 2) / (sd[k] * np.sqrt(2 * np.pi))
            return own * np.prod(np.delete(special.ndtr(z), k))

        exact, _ = integrate.quad(density, mean[k] - 9 * sd[k], mean[k] + 9 * sd[k])
        assert abs(best[k] - exact) < 2e-3


def test_one_arm_is_best():
    assert probability_best(np.array([[0.3]]), np.array([[0.1]])).tolist() == [[1.0]]


def test_arm_posterior_is_bayes_on_a_grid():
    m0, v0, mass, pi, n, v, signed = 0.4, 0.09, 0.2, 0.7, 50.0, 5.0, 3.0
    mean, variance = arm_posterior(
        prior_mean=np.array(m0),
        prior_variance=np.array(v0),
        information=np.array(n * pi**2 / v),
        evidence=np.array(pi * signed / v),
        mass=np.array(mass),
    )
    grid = np.linspace(-4, 5, 200_001)
    log = stats.norm.logpdf(grid, m0, v0**0.5)
    log += stats.norm.logpdf(signed, n * mass * pi * (2 * grid - 1), (n * v) ** 0.5)
    weights = np.exp(log - log.max())
    weights /= weights.sum()
    assert abs(weights @ grid - mean) < 1e-6
    assert abs(weights @ (grid - mean) ** 2 - variance) < 1e-6


def tree(splits):
    return DyadicPartition(dim=2, splits=splits)


def test_masses_are_positive_and_add_up_whatever_the_noise():
    partition = tree([0, 1, 2, 3, 6])
    rng = np.random.default_rng(0)
    for _ in range(100):
        mass = bin_masses(
            partition,
            count=rng.normal(0, 100, partition.n_nodes),
            variance=rng.uniform(0, 100, partition.n_nodes),
            reports=rng.integers(0, 100, partition.n_nodes).astype(float),
        )
        inner = np.flatnonzero(partition.left >= 0)
        assert (mass > 0).all()
        assert np.allclose(mass[inner], mass[partition.left[inner]] + mass[partition.right[inner]])
        assert mass[0] == 1.0


def test_masses_without_data_are_even_and_with_much_data_the_truth():
    partition = tree([0, 1])
    nothing = np.zeros(partition.n_nodes)
    even = bin_masses(partition, count=nothing, variance=nothing, reports=nothing)
    assert np.allclose(even, [1, 0.5, 0.5, 0.25, 0.25])
    truth = np.array([1, 0.7, 0.3, 0.1, 0.6])
    reports = np.array([0, 0, 1e8, 1e8, 1e8])
    mass = bin_masses(partition, count=truth * reports, variance=reports, reports=reports)
    assert np.allclose(mass, truth, atol=1e-3)


def test_masses_use_what_was_counted_before_a_split():
    partition = tree([0, 1])
    reports = np.array([0, 1e6, 1e6, 0, 0])
    mass = bin_masses(partition, count=np.array([0, 0.8e6, 0.2e6, 0, 0]), variance=reports, reports=reports)
    assert np.allclose(mass, [1, 0.8, 0.2, 0.4, 0.4], atol=1e-2)


def test_smoothing_gains_on_noisy_counts():
    partition = tree([0, 1, 2, 3, 4, 5, 6])
    rng = np.random.default_rng(1)
    leaves, n, sd = partition.leaves, 1000.0, 80.0
    raw = smooth = 0.0
    for _ in range(200):
        truth = rng.dirichlet(np.ones(len(leaves)))
        count, reports = np.zeros(partition.n_nodes), np.zeros(partition.n_nodes)
        reports[leaves] = n
        count[leaves] = n * truth + rng.normal(0, sd, len(leaves))
        mass = bin_masses(partition, count=count, variance=np.where(reports > 0, sd**2, 0.0), reports=reports)
        smooth += ((mass[leaves] - truth) ** 2).sum()
        raw += ((count[leaves] / n - truth) ** 2).sum()
    assert smooth < 0.75 * raw
