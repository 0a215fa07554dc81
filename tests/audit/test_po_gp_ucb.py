"""The attacks that break the published transformation stay within epsilon on our row mechanisms.

Statistical checks allow six standard errors (about 1e-9 a check).
"""

import math

import numpy as np
import pytest

from dpbandits.audit import Guesses
from dpbandits.audit.attacks import distinguish_by_column_space, recover_rows
from dpbandits.privacy import RowDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.rows import CellResponse, GaussianRows, L2Laplace

HALF = 25 / math.sqrt(2)


def likelihood_attack(mechanism, first, second, *, noise, trials):
    """Guess which of two positions (d,) a row has, from its release, by the larger likelihood.

    By the Neyman-Pearson lemma no other test is better, so its success rate is what epsilon must bound.
    """
    points = np.array([first, second], dtype=np.float64)
    released = mechanism.privatize(np.repeat(points, trials, axis=0), noise)
    images = [image_of(mechanism, point) for point in points]
    scores = mechanism.law.log_density(released - images[0]) - mechanism.law.log_density(released - images[1])
    ties = np.where(scores == 0.0, 0.5, scores > 0.0)
    correct = float(ties[:trials].sum() + (1.0 - ties[trials:]).sum())
    bound = mechanism.certificate_at(float(np.linalg.norm(points[0] - points[1]))).membership_bound()
    return Guesses(trials=2 * trials, correct=correct, bound=bound)


def image_of(mechanism, point):
    """Where the mechanism's noise is centred for a row: the row, or its cell's centre."""
    config = mechanism.to_config()
    if config["type"] == "randomised_response":
        side = 2.0 * config["half_width"] / config["cells_per_dimension"]
        cell = np.clip(np.floor((point + config["half_width"]) / side), 0, config["cells_per_dimension"] - 1)
        return np.asarray((cell + 0.5) * side - config["half_width"])
    return point


def mechanisms(epsilon):
    pure = RowDP(epsilon=epsilon, distance=1.0)
    return [
        L2Laplace(definition=pure, dim=2),
        CellResponse(definition=pure, dim=2, half_width=HALF),
        GaussianRows(
            definition=RowDP(epsilon=epsilon, delta=1e-6, distance=1.0), dim=2, noise=SimulatedNoise(0)
        ),
    ]


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0, 8.0])
@pytest.mark.parametrize("which", range(3))
def test_known_rows_do_not_give_the_others(epsilon, which):
    """With 3 or 100 known rows, the others stay about as far off as the noise put them."""
    mechanism = mechanisms(epsilon)[which]
    rows = np.random.default_rng(1).uniform(-HALF, HALF, (1000, 2))
    released = mechanism.privatize(rows, SimulatedNoise(5))
    noise = np.sqrt(((released - rows) ** 2).mean())
    for known in (np.array([1, 500, 900]), np.arange(100)):
        others = np.setdiff1d(np.arange(1000), known)
        recovered = recover_rows(released, known, rows[known])
        error = np.sqrt(((recovered - rows)[others] ** 2).mean())
        assert error > 0.5 * min(noise, HALF / math.sqrt(3))


@pytest.mark.parametrize("which", range(3))
def test_the_column_space_says_nothing(which):
    rows = np.random.default_rng(2).uniform(-HALF, HALF, (200, 2))
    neighbour = rows.copy()
    neighbour[3] += 0.5
    for seed in range(20):
        released = mechanisms(1.0)[which].privatize(rows, SimulatedNoise(seed))
        assert not distinguish_by_column_space(released, rows)
        assert not distinguish_by_column_space(released, neighbour)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("distance", [0.3, 1.0, 4.0])
def test_the_strongest_test_stays_within_the_certificate(epsilon, which, distance):
    mechanism = mechanisms(epsilon)[which]
    first = np.array([0.2, -3.0])
    second = first + distance * np.array([0.6, 0.8]) * (1 - 1e-9)
    result = likelihood_attack(mechanism, first, second, noise=SimulatedNoise(11), trials=40_000)
    assert result.success <= result.bound + 6 * result.standard_error
    if which == 0:  # the bound is about what the attack reaches along a line: the test has power
        assert result.epsilon_lower_bound <= mechanism.epsilon_at(distance)


def test_the_strongest_test_has_power_in_one_dimension():
    """d = 1, distance 1: success is 1 - exp(-epsilon/2)/2 exactly for the Laplace law."""
    mechanism = L2Laplace(definition=RowDP(epsilon=2.0, distance=1.0), dim=1)
    result = likelihood_attack(mechanism, np.zeros(1), np.ones(1), noise=SecureNoise(), trials=40_000)
    assert abs(result.success - (1 - math.exp(-1.0) / 2)) < 6 * result.standard_error
    assert result.epsilon_lower_bound > 1.0
    assert result.success <= result.bound


def test_a_mechanism_with_too_little_noise_is_caught():
    """The audit can fail: noise for epsilon 3 attacked under a claim of epsilon 1."""
    generous = L2Laplace(definition=RowDP(epsilon=3.0, distance=1.0), dim=1)
    result = likelihood_attack(generous, np.zeros(1), np.ones(1), noise=SimulatedNoise(1), trials=40_000)
    assert result.epsilon_lower_bound > 1.0


def test_chance_proves_nothing():
    assert Guesses(trials=2500, correct=1250, bound=0.7).epsilon_lower_bound == 0.0
    assert Guesses(trials=100, correct=100, bound=0.7).epsilon_lower_bound > 2.0
