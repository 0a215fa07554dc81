"""Fourier and additive features: measured kernel errors, bounds, symmetry, norms, configs."""

import operator
from functools import reduce

import numpy as np
import pytest

from dpbandits.domains import Box, Finite
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models import features as feature_models
from dpbandits.models.features import Features, MercerFeatures
from dpbandits.models.features.additive import AdditiveFeatures, additive_features
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.kernels import Matern, SquaredExponential
from reproduction.dubey2021.theory import quadrature_error_bound

SE = SquaredExponential(lengthscale=1.0)


def disc(n, radius=2.0, seed=0):
    rng = np.random.default_rng(seed)
    r, t = radius * np.sqrt(rng.random(n)), 2 * np.pi * rng.random(n)
    edge = np.linspace(0, 2 * np.pi, 60)
    circle = radius * np.stack([np.cos(edge), np.sin(edge)], axis=1)
    return np.concatenate([np.stack([r * np.cos(t), r * np.sin(t)], axis=1), circle])


def kernel_error(features, points):
    phi = features(points)
    return np.abs(phi @ phi.T - SE(points)).max()


@pytest.mark.parametrize(("nodes", "error"), [(8, 0.182), (10, 0.0350), (12, 0.00454)])
def test_quadrature_error_on_the_disc_of_radius_two(nodes, error):
    features = QuadratureFourierFeatures(kernel=SE, dim=2, nodes=nodes)
    assert features.n_features == nodes**2
    # the largest error is on opposite sides of the edge; random pairs inside see .155/.028/.0034
    measured = kernel_error(features, disc(600))
    assert measured == pytest.approx(error, rel=0.02)
    assert measured <= quadrature_error_bound(nodes=nodes, dim=2, radius=2.0, lengthscale=1.0)


@pytest.mark.parametrize("nodes", [3, 6, 9, 16, 24])
@pytest.mark.parametrize("dim", [1, 2])
def test_bound_holds(nodes, dim):
    features = QuadratureFourierFeatures(kernel=SE, dim=dim, nodes=nodes)
    points = np.random.default_rng(1).uniform(-1.0, 1.0, (200, dim)) / np.sqrt(dim)
    bound = quadrature_error_bound(nodes=nodes, dim=dim, radius=1.0, lengthscale=1.0)
    assert kernel_error(features, points) <= bound + 1e-11


def test_bound_falls_faster_than_exponentially():
    bounds = [quadrature_error_bound(nodes=q, dim=2, radius=2.0, lengthscale=1.0) for q in (16, 20, 24, 28)]
    ratios = np.array(bounds[1:]) / bounds[:-1]
    assert (ratios < 0.5).all()
    assert (np.diff(ratios) < 0).all()


def test_a_bound_that_says_nothing_is_infinite():
    assert quadrature_error_bound(nodes=500, dim=1, radius=200.0, lengthscale=0.1) == np.inf


def test_half_of_the_grid_is_not_the_positive_orthant():
    """Keeping positive frequencies only, as public code does, leaves an error near 0.4 for d = 2."""
    features = QuadratureFourierFeatures(kernel=SE, dim=2, nodes=12)
    points = disc(300)
    positive = (features.frequencies > 0).all(axis=1) | (features.frequencies < 0).all(axis=1)
    w = features.weights[positive] / features.weights[positive].sum()
    angles = points @ features.frequencies[positive].T
    phi = np.concatenate([np.sqrt(w) * np.cos(angles), np.sqrt(w) * np.sin(angles)], axis=1)
    assert np.abs(phi @ phi.T - SE(points)).max() > 0.3
    assert kernel_error(features, points) < 0.005


def test_odd_grids_keep_the_centre_once():
    features = QuadratureFourierFeatures(kernel=SE, dim=2, nodes=3)
    assert features.n_features == 9
    assert features.weights.sum() == pytest.approx(1.0)
    assert (~features.frequencies.any(axis=1)).sum() == 1


def test_mercer_features_need_far_fewer():
    points = disc(400)
    for m, error in ((15, 0.07), (20, 0.03), (28, 0.006)):
        spread = disc(600, seed=9)
        features = MercerFeatures(kernel=SE, domain=Finite(points=spread), n_features=m, n_landmarks=300)
        assert kernel_error(features, points) < error


def test_ard_lengthscales():
    kernel = SquaredExponential(lengthscale=[0.5, 2.0])
    features = QuadratureFourierFeatures(kernel=kernel, dim=2, nodes=20)
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (50, 2))
    phi = features(points)
    assert phi @ phi.T == pytest.approx(kernel(points), abs=1e-6)


FEATURES = [
    QuadratureFourierFeatures(kernel=SE, dim=2, nodes=7),
    additive_features(Box(low=[-1, -1], high=[1, 3]), lengthscale=0.4, per_column=4),
]


@pytest.mark.parametrize("features", FEATURES, ids=lambda f: type(f).__name__)
class TestProtocol:
    def test_follows_it(self, features):
        assert isinstance(features, Features)
        X = np.random.default_rng(0).uniform(-1, 1, (6, 5, 2))
        phi = features(X)
        assert phi.shape == (6, 5, features.n_features)
        assert features.supports == ((0, features.n_features),)
        assert (np.linalg.norm(phi, axis=-1) <= 1.0).all()
        weights = np.random.default_rng(1).standard_normal((features.n_features, 3))
        assert features.project(X, weights) == pytest.approx(phi @ weights)
        each = np.random.default_rng(2).standard_normal((6, features.n_features))
        assert features.project_each(X, each) == pytest.approx(np.einsum("bnm,bm->bn", phi, each))

    def test_survives_its_config(self, features):
        again = feature_models.from_config(features.to_config())
        X = np.random.default_rng(0).uniform(-1, 1, (9, 2))
        assert np.array_equal(again(X), features(X))
        assert type(features).__name__ in repr(features)

    def test_refuses_bad_input(self, features):
        with pytest.raises(InvalidData):
            features(np.zeros((3, 1)))
        with pytest.raises(InvalidData):
            features.project(np.zeros((3, 2)), np.zeros((1, 1)))
        with pytest.raises(InvalidData):
            features.project_each(np.zeros((3, 2)), np.zeros((3, features.n_features)))


def test_refuses_what_it_cannot_expand():
    with pytest.raises(InvalidParameter):
        QuadratureFourierFeatures(kernel=Matern(nu=1.5, lengthscale=1.0), dim=2, nodes=3)
    with pytest.raises(InvalidParameter):
        QuadratureFourierFeatures(kernel=SE, dim=20, nodes=4)
    with pytest.raises(InvalidParameter):
        AdditiveFeatures(parts=[])
    with pytest.raises(InvalidParameter):
        feature_models.from_config({"type": "QuadratureFourierFeatures"})


def additive_kernel(domain, *, lengthscale):
    """The mean over columns of squared exponential kernels, lengthscales as shares of each side."""
    sides = np.asarray(domain.high) - np.asarray(domain.low)
    parts = (
        (1.0 / domain.dim) * SquaredExponential(lengthscale=float(lengthscale * side), columns=(column,))
        for column, side in enumerate(sides)
    )
    return reduce(operator.add, parts)


@pytest.mark.parametrize("dim", [10, 20])
def test_additive_features_match_the_mean_of_the_columns_kernels(dim):
    box = Box(low=np.full(dim, -5.0), high=np.full(dim, 5.0))
    features = additive_features(box, lengthscale=0.3, per_column=8)
    assert features.n_features == 8 * dim
    points = box.sample(40, np.random.default_rng(0))
    phi = features(points)
    kernel = np.mean([SquaredExponential(lengthscale=3.0)(column[:, None]) for column in points.T], axis=0)
    assert phi @ phi.T == pytest.approx(kernel, abs=0.01)
