"""Sums, squares and a count of bounded numbers: exact sensitivity, and what the release says."""

from itertools import product

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.privacy import SecureNoise, SimulatedNoise
from dpbandits.privacy.certificates import PureDP
from dpbandits.privacy.moments import MomentRelease


def small(numbers, law, bits):
    return MomentRelease(
        numbers=numbers, noise=SecureNoise(), law=law, scale=1.0, certificate=PureDP(1.0), bits=bits
    )


def points_of(mechanism):
    """Return every vector of integers that a person can add, and zeros for one who does not count."""
    steps = 1 << mechanism.bits
    q, s = mechanism.integers(np.arange(-steps // 2, steps // 2 + 1) / steps)
    own = [np.column_stack(part) for part in product(zip(q, s, strict=True), repeat=mechanism.numbers)]
    counted = [np.append(part.ravel(), mechanism.count_weight) for part in own]
    return np.array([*counted, np.zeros(2 * mechanism.numbers + 1)])


@pytest.mark.parametrize(("numbers", "bits"), [(1, 4), (1, 9), (2, 4)])
@pytest.mark.parametrize(("law", "order"), [("laplace", 1), ("gaussian", 2)])
def test_no_two_persons_are_farther_apart_than_the_sensitivity(law, order, numbers, bits):
    mechanism = small(numbers, law, bits)
    found = points_of(mechanism)
    widest = max(
        np.linalg.norm(found[start : start + 64, None] - found[None], ord=order, axis=2).max()
        for start in range(0, len(found), 64)
    )
    assert widest <= mechanism.sensitivity
    assert widest > 0.85 * mechanism.sensitivity  # the bound wastes little


def test_values_outside_are_cut_and_nan_is_refused():
    mechanism = small(1, "laplace", 20)
    far, _ = mechanism.integers(np.array([-1e300, -0.5, 0.5, np.inf]))
    assert far.tolist() == [-(1 << 19), -(1 << 19), 1 << 19, 1 << 19]
    with pytest.raises(InvalidParameter, match="expected numbers"):
        mechanism.integers(np.array([np.nan]))


@pytest.mark.parametrize(
    ("epsilon", "delta", "numbers", "law"), [(1, 1e-6, 3, "laplace"), (1, 1e-6, 15, "gaussian")]
)
def test_the_law_with_less_noise_is_used(epsilon, delta, numbers, law):
    chosen = MomentRelease.planned(epsilon, delta, SecureNoise(), numbers=numbers)
    others = [
        MomentRelease.planned(epsilon, delta, SecureNoise(), numbers=numbers, law=one)
        for one in ("laplace", "gaussian")
    ]
    assert chosen.law == law
    assert chosen.sd == min(one.sd for one in others)
    assert all(one.certificate.delta_at(epsilon) <= delta for one in others)


def test_gaussian_noise_needs_a_delta():
    with pytest.raises(InvalidParameter, match="delta above 0"):
        MomentRelease.planned(1.0, 0.0, SecureNoise(), numbers=1, law="gaussian")


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_noise_has_the_stated_deviations(law):
    """800 releases: a deviation within 15% has a false alarm below 1e-6 (Laplace: within 25%)."""
    values = np.array([[0.5, -0.25]] * 40 + [[0.0, 0.5]] * 10)
    found = [
        MomentRelease.planned(1.0, 1e-6, SimulatedNoise(seed), numbers=2, law=law).release(values)
        for seed in range(800)
    ]
    exact = np.array([20.0, -5.0, 10.0, 5.0, 50.0])
    drawn = np.array([[*one.sums, *one.squares, one.people] for one in found]) - exact
    stated = np.array([found[0].sum_sd] * 2 + [found[0].square_sd] * 2 + [found[0].people_sd])
    assert np.abs(drawn.std(axis=0) / stated - 1.0).max() < 0.25
    assert np.abs(drawn.mean(axis=0) / stated).max() < 6 / np.sqrt(800)
    assert np.abs(np.corrcoef(drawn.T) - np.eye(5)).max() < 0.25


def test_the_scale_is_the_sensitivity_over_epsilon():
    mechanism = MomentRelease.planned(1.0, 0.0, SecureNoise(), numbers=3)
    assert mechanism.sensitivity / mechanism.scale <= 1.0
    assert mechanism.sensitivity / mechanism.scale > 1.0 - 1e-12
    assert mechanism.record("moments").describe().startswith("Moments: 1 release; discrete Laplace noise")
