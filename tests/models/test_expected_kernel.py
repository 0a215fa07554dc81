"""The expected kernel against integration by sampling, and the row kernel's nugget."""

import numpy as np
import pytest

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.expected_kernel import (
    FeatureKernel,
    RowKernel,
    SquaredExponentialMixture,
    expected_kernel,
)
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.privacy.rows import GaussianLaw, L2LaplaceLaw


@pytest.mark.parametrize("dim", [1, 2, 4])
@pytest.mark.parametrize("scale", [0.2, 1.0, 3.0])
def test_l2_laplace_nodes_integrate_the_kernel(dim, scale):
    """200,000 draws of the difference of two noises; 6 standard errors plus the quadrature's 1e-3."""
    rng = np.random.default_rng(17)
    n = 200_000

    def noise():
        return scale * np.sqrt(rng.chisquare(dim + 1, n))[:, None] * rng.standard_normal((n, dim))

    law = L2LaplaceLaw(dim=dim, scale=scale)
    base = 2.0 * SquaredExponential(lengthscale=1.5)
    kernel, nugget = expected_kernel(base, *law.difference_mixture(), dim=dim)
    for distance in (0.0, 1.0, 4.0):
        offset = np.zeros(dim)
        offset[0] = distance
        difference = offset + noise() - noise()
        values = 2.0 * np.exp(-0.5 * (difference**2).sum(axis=1) / 1.5**2)
        got = kernel(np.zeros((1, dim)), offset[None])[0, 0]
        assert abs(got - values.mean()) < 6 * values.std() / np.sqrt(n) + 1e-3
    assert kernel.max_variance + nugget == pytest.approx(2.0)


def test_gaussian_noise_in_closed_form_with_a_lengthscale_a_column():
    law = GaussianLaw(dim=2, deviation=0.6)
    kernel, nugget = expected_kernel(
        SquaredExponential(lengthscale=(1.0, 2.0)), *law.difference_mixture(), dim=2
    )
    squares = np.array([1.0, 4.0]) + 2 * 0.36
    z = np.array([[0.3, -1.0]])
    expected = np.sqrt(4.0 / squares.prod()) * np.exp(-0.5 * (z[0] ** 2 / squares).sum())
    assert kernel(z, np.zeros((1, 2)))[0, 0] == pytest.approx(expected)
    assert nugget == pytest.approx(1 - np.sqrt(4.0 / squares.prod()))


def test_without_noise_it_is_the_kernel():
    base = SquaredExponential(lengthscale=0.7)
    kernel, nugget = expected_kernel(base, np.zeros(1), np.ones(1), dim=3)
    X = np.random.default_rng(0).standard_normal((40, 3))
    np.testing.assert_allclose(kernel(X), base(X), atol=1e-12)
    assert nugget == 0.0


@pytest.mark.parametrize("isotropic", [True, False])
def test_it_is_positive_semi_definite(isotropic):
    lengths = 0.7 if isotropic else (0.7, 0.4, 1.0)
    law = L2LaplaceLaw(dim=3, scale=0.5)
    kernel, _ = expected_kernel(SquaredExponential(lengthscale=lengths), *law.difference_mixture(), dim=3)
    X = np.random.default_rng(0).standard_normal((60, 3))
    matrix = kernel(X)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-14)
    assert np.linalg.eigvalsh(matrix).min() > -1e-10
    np.testing.assert_allclose(kernel(X, X), matrix, atol=1e-14)
    assert kernel.to_config()["type"] == "SquaredExponentialMixture"


def test_row_kernel_adds_each_row_s_own_nugget():
    smooth, nugget = expected_kernel(SquaredExponential(lengthscale=1.0), np.array([1.0]), np.ones(1), dim=1)
    rows = np.array([[nugget, 0.5], [nugget, 0.5], [0.1, 3.0]])
    kernel = RowKernel(smooth=smooth, variance=1.0)
    matrix = kernel(rows)
    np.testing.assert_allclose(np.diag(matrix), kernel.diagonal(rows))
    assert matrix[0, 0] == pytest.approx(1.0)
    assert matrix[0, 1] == pytest.approx(smooth.max_variance)  # same place, another row
    assert matrix[2, 2] == pytest.approx(smooth.max_variance + 0.1)
    assert kernel.max_variance == 1.0
    assert kernel.to_config()["smooth"] == smooth.to_config()


def test_blocks_do_not_change_the_kernel():
    kernel, _ = expected_kernel(SquaredExponential(lengthscale=1.0), np.array([1.0]), np.ones(1), dim=2)
    pool = np.random.default_rng(0).standard_normal((70_000, 2))
    row = kernel(pool[:1], pool)[0]
    squares = ((pool - pool[0]) ** 2).sum(axis=1)
    np.testing.assert_allclose(row, np.exp(-squares / 4.0) / 2.0, rtol=1e-12)


def test_feature_kernel_is_the_dot_product():
    X = np.random.default_rng(0).standard_normal((5, 3))
    kernel = FeatureKernel(bound=10.0)
    np.testing.assert_allclose(kernel(X), X @ X.T)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(X @ X.T))


def test_what_has_no_closed_form_is_refused():
    with pytest.raises(InvalidParameter, match="Matern"):
        expected_kernel(Matern(nu=2.5, lengthscale=1.0), np.ones(1), np.ones(1), dim=2)
    with pytest.raises(InvalidParameter, match="columns"):
        expected_kernel(SquaredExponential(lengthscale=1.0, columns=(0,)), np.ones(1), np.ones(1), dim=2)
    with pytest.raises(InvalidParameter, match="lengthscales"):
        expected_kernel(SquaredExponential(lengthscale=(1.0, 2.0)), np.ones(1), np.ones(1), dim=3)
    for scales, weights in (([1.0], [0.5]), ([-1.0], [1.0]), ([1.0, 2.0], [1.0])):
        with pytest.raises(InvalidParameter, match="weights"):
            expected_kernel(SquaredExponential(lengthscale=1.0), np.array(scales), np.array(weights), dim=1)
    mixture = SquaredExponentialMixture(variances=(1.0,), squares=((1.0, 2.0),))
    with pytest.raises(InvalidData):
        mixture(np.zeros((2, 3)))


@pytest.mark.parametrize(
    ("variances", "squares"),
    [
        ((), ()),
        ((1.0,), ()),
        ((-1.0,), ((1.0,),)),
        ((np.nan,), ((1.0,),)),
        ((1.0,), ((0.0,),)),
        ((1.0,), ((),)),
    ],
)
def test_a_mixture_that_is_none_is_refused(variances, squares):
    with pytest.raises(InvalidParameter):
        SquaredExponentialMixture(variances=variances, squares=squares)


@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 1.0, 30.0, 1e3])
def test_smooth_part_and_nugget_share_the_variance_at_any_noise(ratio):
    """Noise from a millionth to a thousand lengthscales: both parts positive, together the variance."""
    law = L2LaplaceLaw(dim=3, scale=ratio)
    kernel, nugget = expected_kernel(
        5.0 * SquaredExponential(lengthscale=1.0), *law.difference_mixture(), dim=3
    )
    assert kernel.max_variance + nugget == pytest.approx(5.0, rel=1e-12)
    assert 0.0 < nugget < 5.0
    assert kernel.max_variance > 0.0
    if ratio <= 1e-3:  # E|e - e'|^2 / 2 = (d + 1) scale^2 a coordinate, to first order
        assert nugget == pytest.approx(5.0 * 3 * 4 * ratio**2, rel=1e-2)


@pytest.mark.parametrize("lengthscale", [1.5, (1.5, 0.4, 3.0)])
def test_values_at_pairs_are_those_of_the_matrix(lengthscale):
    """There are more pairs than are computed at a time."""
    points = np.random.default_rng(2).standard_normal((150, 3))
    law = L2LaplaceLaw(dim=3, scale=0.5)
    base = 2.0 * SquaredExponential(lengthscale=lengthscale)
    kernel, _ = expected_kernel(base, *law.difference_mixture(), dim=3)
    rows, columns = np.tril_indices(len(points))
    squares = ((points[rows] - points[columns]) ** 2).T
    matrix = kernel(points, points.copy())
    np.testing.assert_allclose(kernel.of_pairs(squares), matrix[rows, columns], rtol=1e-13)
    with pytest.raises(InvalidData, match="3 columns"):
        SquaredExponentialMixture(variances=(1.0,), squares=((1.0, 2.0),)).of_pairs(squares)
