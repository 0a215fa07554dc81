"""Private vectors: exactly epsilon, unbiased, with the variance they state. False alarms below 1e-6."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln

from dpbandits.errors import InvalidParameter
from reproduction.ma2025.ldp_vectors import VECTOR_REPORTS, CapReport, CoordinateReport, clip_norm

KINDS = sorted(VECTOR_REPORTS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 0.5), (5, 1.0), (30, 4.0)])
@pytest.mark.parametrize("length", [0.0, 0.3, 1.0])
def test_reports_are_unbiased_with_the_stated_variance(kind, dim, epsilon, length):
    mechanism = VECTOR_REPORTS[kind](dim=dim, epsilon=epsilon)
    rng = np.random.default_rng([7, dim])
    vector = rng.standard_normal(dim)
    vector *= length / np.linalg.norm(vector)
    n = 40_000
    reports = mechanism.privatize(np.tile(vector, (n, 1)), rng)
    error = reports.mean(axis=0) - vector
    # 5.7 standard errors: 1e-8 a coordinate
    assert (np.abs(error) < 5.7 * reports.std(axis=0) / math.sqrt(n)).all()
    spread = reports.var(axis=0).mean()
    expected = mechanism.variance - (0.0 if kind == "laplace" else length**2 / dim)
    assert abs(spread / expected - 1.0) < 0.12


@pytest.mark.parametrize("kind", KINDS)
def test_longer_vectors_are_shortened_before_noise(kind):
    """A vector far too long is reported like the one of norm 1 (or with entries of 1), not farther out."""
    mechanism = VECTOR_REPORTS[kind](dim=3, epsilon=2.0)
    long = np.tile([500.0, 0.0, 0.0], (20_000, 1))
    mean = mechanism.privatize(long, np.random.default_rng(3)).mean(axis=0)
    assert np.abs(mean - [1.0, 0.0, 0.0]).max() < 0.2


@pytest.mark.parametrize("share", [None, 0.5, 0.05])
@pytest.mark.parametrize(("dim", "epsilon"), [(2, 1.0), (7, 0.3), (40, 5.0)])
def test_cap_density_is_a_density_with_ratio_exactly_e_to_the_epsilon(share, dim, epsilon):
    mechanism = CapReport(dim=dim, epsilon=epsilon, share=share)
    inside, outside = mechanism.density_ratio
    q = mechanism.cap
    assert math.isclose(q * inside + (1 - q) * outside, 1.0, rel_tol=1e-12)
    assert math.isclose(inside / outside, math.exp(epsilon), rel_tol=1e-12)


@pytest.mark.parametrize(("dim", "epsilon", "share"), [(3, 1.0, 0.5), (6, 2.0, 0.1), (30, 4.0, None)])
def test_shrinkage_is_the_mean_of_the_density(dim, epsilon, share):
    """The closed form against quadrature over the angle."""
    mechanism = CapReport(dim=dim, epsilon=epsilon, share=share)
    power, norm = (dim - 3) / 2.0, math.exp(betaln(0.5, (dim - 1) / 2.0))

    def law(t):
        return (1 - t * t) ** power / norm

    def tail(g):
        return quad(law, g, 1)[0]

    low, high = -1.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle) > mechanism.cap else (low, middle)
    inside, outside = mechanism.density_ratio
    mean = inside * quad(lambda t: t * law(t), low, 1)[0] + outside * quad(lambda t: t * law(t), -1, low)[0]
    assert math.isclose(mean, mechanism.shrinkage, rel_tol=1e-6)


def test_cap_is_hit_as_often_as_promised():
    """The sampler against the proof: how often the cap around v is hit under v and under -v."""
    mechanism = CapReport(dim=4, epsilon=1.0, share=0.2)
    v, n, rng = np.array([[0.6, 0.8, 0.0, 0.0]]), 200_000, np.random.default_rng(11)
    own = mechanism.privatize(np.repeat(v, n, axis=0), rng) * mechanism.shrinkage @ v[0]
    other = mechanism.privatize(np.repeat(-v, n, axis=0), rng) * mechanism.shrinkage @ v[0]
    edge = np.quantile(rng.standard_normal((10, 1)), 0.5)  # any threshold: the bound holds for all sets
    for threshold in (edge * 0.1, 0.3, 0.52, 0.8):
        p, r = (own > threshold).mean(), (other > threshold).mean()
        assert p <= math.e * r + 5.5 * math.sqrt((p + math.e**2 * r) / n)
    inside = mechanism.density_ratio[0] * 0.2
    hit = (own > np.sort(-own)[0] * 0 + _edge(mechanism)).mean()
    assert abs(hit - inside) < 5.5 * math.sqrt(inside / n)


def _edge(mechanism):
    from scipy.special import betainccinv

    a = (mechanism.dim - 1) / 2
    return 2 * betainccinv(a, a, mechanism.cap) - 1


def test_best_share_beats_the_half_sphere_where_epsilon_is_large():
    assert CapReport(dim=20, epsilon=0.2).variance <= CapReport(dim=20, epsilon=0.2, share=0.5).variance
    assert CapReport(dim=20, epsilon=8.0).variance < 0.5 * CapReport(dim=20, epsilon=8.0, share=0.5).variance


def test_coordinate_bit_ratio_is_e_to_the_epsilon():
    for epsilon in (0.1, 1.0, 5.0):
        lean = CoordinateReport(dim=3, epsilon=epsilon).lean
        assert math.isclose((1 + lean) / (1 - lean), math.exp(epsilon), rel_tol=1e-9)


def test_clipping_and_refusals():
    rows = clip_norm(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]), 1.0)
    assert np.allclose(rows, [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]])
    for wrong in ({"dim": 1}, {"epsilon": 0.0}, {"share": 0.6}, {"epsilon": math.nan}):
        with pytest.raises(InvalidParameter):
            CapReport(**{"dim": 3, "epsilon": 1.0, **wrong})
