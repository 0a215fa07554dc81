"""Kharkovskii2020's theorems in numbers: exact values, and that what they bound stays below."""

import math

import numpy as np
import pytest

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.outsourced.published.kharkovskii2020 import singular_value_threshold
from reproduction.kharkovskii2020 import theory

UNIT = {"signal_variance": 1.0, "noise_variance": 1.0}


def test_diagonal_dominance_is_definition_3():
    """Three rows: the diagonal must be (sqrt(2) + 1) times the two others together."""
    edge = 1.0 / (2.0 * (math.sqrt(2.0) + 1.0))
    for share, dominant in ((0.999, True), (1.001, False)):
        matrix = np.full((3, 3), share * edge)
        np.fill_diagonal(matrix, 1.0)
        assert theory.diagonally_dominant(matrix) is dominant
    assert theory.diagonally_dominant(np.eye(1))
    with pytest.raises(InvalidData):
        theory.diagonally_dominant(np.ones((2, 3)))


def test_distances_and_covariances_change_by_theorems_2_and_5():
    assert theory.distance_factors(distortion=0.1, smallest=3.0, threshold=2.0) == pytest.approx((0.9, 1.1))
    assert theory.distance_factors(distortion=0.1, smallest=1.0, threshold=2.0) == pytest.approx((0.9, 5.5))
    kept = {"distortion": 0.1, "diameter": 2.0, "threshold": 2.0}
    assert theory.covariance_error(smallest=2.0, **kept) == pytest.approx(0.4)
    assert theory.covariance_error(smallest=1.0, **kept) == pytest.approx(1 - math.exp(-9.0))
    flat = theory.covariance_error(distortion=0.4, diameter=0.1, smallest=1.0, threshold=1.1)
    assert flat == pytest.approx(1 - math.exp(-0.5 * (0.4 + 1.4 * 1.21) * 0.01))
    for nu in (0.0, 0.5, 0.6):
        with pytest.raises(InvalidParameter, match="distortion"):
            theory.covariance_error(smallest=1.0, **{**kept, "distortion": nu})
    with pytest.raises(InvalidParameter, match="2/d"):
        theory.covariance_error(distortion=0.3, diameter=4.0, smallest=1.0, threshold=2.0)


def test_the_lemmas_constants():
    """C = sigma_y = sigma_n = 1: C_1 = sqrt(3) (4 sqrt(2) + 3), C_2 = 2 sqrt(2) L."""
    assert theory.variance_constant(error=1.0, **UNIT) == pytest.approx(14.994111, abs=1e-6)
    assert theory.mean_constant(error=1.0, largest=3.0, **UNIT) == pytest.approx(8.485281, abs=1e-6)
    assert theory.variance_error(error=1.0, observed=4, **UNIT) == pytest.approx(7.497056, abs=1e-6)
    assert theory.mean_error(error=1.0, largest=3.0, observed=4, **UNIT) == pytest.approx(7.242641, abs=1e-6)
    quiet = {"signal_variance": 4.0, "noise_variance": 0.5}
    expected = 0.1 * 2.0 * math.sqrt(8.5) * (math.sqrt(2.0) * 1.21 * 8.0 + 0.21)
    assert theory.variance_constant(error=0.1, **quiet) == pytest.approx(expected)


def test_theorem_3_in_numbers():
    found = theory.required_settings(excess=1.0, failure=0.05, diameter=1.0, largest=1.0, rows=100)
    assert found.distortion == pytest.approx(1.0 / (2.0 * math.sqrt(3.0)))
    assert found.failure == 0.025
    assert found.dimension == math.ceil(96.0 * math.log(100**2 / 0.025)) == 1239
    assert (
        theory.required_settings(excess=1e9, failure=0.05, diameter=4.0, largest=1.0, rows=100).distortion
        == 0.125
    )
    # T = 2, beta_T = 2 ln(400 pi^2/.15): the three terms one by one.
    beta = 2.0 * math.log(400.0 * math.pi**2 / 0.15)
    assert theory.confidence_weight(rows=100, step=2, failure=0.025) == pytest.approx(beta)
    C_1, C_2 = math.sqrt(3.0) * (4.0 * math.sqrt(2.0) + 3.0), 2.0 * math.sqrt(2.0)
    squares = 12.0 + 12.0 * (C_2 + C_1 * math.sqrt(beta)) ** 2 * math.log(2.0)
    squares += 12.0 * beta * 0.7 / math.log(2.0)
    own = {"rows": 100, "steps": 2, "failure": 0.05, "information_gain": 0.7}
    bound = theory.simple_regret_bound(error=1.0, largest=1.0, **UNIT, **own)
    assert bound == pytest.approx(math.sqrt(squares))
    # With the nu asked for and nothing inflated, the first term is eps_ucb^2 at most.
    error = theory.covariance_error(distortion=found.distortion, diameter=1.0, smallest=1.0, threshold=1.0)
    assert 12.0 * error**2 == pytest.approx(1.0)
    with pytest.raises(InvalidParameter):
        theory.required_settings(excess=1.0, failure=1.0, diameter=1.0, largest=1.0, rows=100)


@pytest.mark.parametrize("seed", range(20))
def test_what_lemmas_5_and_6_bound_stays_below(seed):
    """Posteriors on covariances that change by at most C of themselves, diagonally dominant ones."""
    rng = np.random.default_rng(seed)
    t, C, largest = int(rng.integers(2, 8)), rng.uniform(0.05, 0.8), 2.0
    noise = rng.uniform(0.05, 1.0)
    others = rng.uniform(0.0, 1.0, (t + 1, t + 1))
    others = np.triu(others, 1) + np.triu(others, 1).T
    covariance = 0.999 * others / others.sum(axis=1).max() / (math.sqrt(t) + 1.0)
    np.fill_diagonal(covariance, 1.0)
    assert theory.diagonally_dominant(covariance)
    change = np.triu(rng.uniform(-C, C, covariance.shape), 1)
    changed = covariance * (1.0 + change + change.T)
    answers = rng.uniform(-largest, largest, t)
    means, variances = [], []
    for matrix in (covariance, changed):
        weights = np.linalg.solve(matrix[:t, :t] + noise * np.eye(t), matrix[:t, t])
        means.append(weights @ answers)
        variances.append(matrix[t, t] - weights @ matrix[:t, t])
    own = {"error": C, "signal_variance": 1.0, "noise_variance": noise, "observed": t}
    assert abs(variances[1] - variances[0]) <= theory.variance_error(**own)
    assert abs(means[1] - means[0]) <= theory.mean_error(largest=largest, **own)


def test_the_guideline_takes_the_largest_dimension_that_inflates_nothing():
    """On the synthetic grid the text has r = 10, 15, 20 of those that it tries, at e^1.1, e^1.3, e^1.5."""
    axis = np.linspace(-25, 25, 100) / np.sqrt(2)
    smallest = np.sqrt(100 * (axis**2).sum())  # both columns are uncorrelated
    for power, tried, printed in (
        (1.1, (3, 6, 8, 10, 15, 20), 10),
        (1.3, (3, 9, 12, 15, 20, 30), 15),
        (1.5, (5, 10, 15, 20, 30, 50), 20),
    ):
        own = {"epsilon": np.exp(power), "delta": 1e-5}
        found = theory.guideline_dimension(smallest, **own)
        assert singular_value_threshold(dimension=found, **own) <= smallest
        assert singular_value_threshold(dimension=found + 1, **own) > smallest
        assert max(r for r in tried if r <= found) == printed
    assert theory.guideline_dimension(10.0, epsilon=1.0, delta=1e-5) == 0
    with pytest.raises(InvalidParameter):
        theory.guideline_dimension(0.0, epsilon=1.0, delta=1e-5)


def test_distances_need_many_dimensions():
    assert theory.distance_dimension(n=100, distortion=0.5, failure=0.1) == np.ceil(32 * np.log(1e5))
    with pytest.raises(InvalidParameter):
        theory.distance_dimension(n=100, distortion=2.0, failure=0.1)
