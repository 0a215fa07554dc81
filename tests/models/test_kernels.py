"""Kernels: values against scikit-learn, positive definiteness, composition, configuration."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models import kernels
from dpbandits.models.kernels import Indicator, Kernel, Matern, SquaredExponential
from dpbandits.models.kernels import base as _kernel


def points(n: int, d: int, seed: int = 0, offset: float = 0.0) -> np.ndarray:
    return np.random.default_rng(seed).random((n, d)) + offset


ONE_OF_EACH: list[Kernel] = [
    SquaredExponential(lengthscale=0.3),
    SquaredExponential(lengthscale=(0.3, 0.5), columns=(0, 2)),
    Matern(nu=0.5, lengthscale=0.4),
    Matern(nu=1.5, lengthscale=(0.1, 0.2, 0.4)),
    Matern(nu=2.5, lengthscale=0.2, columns=(1,)),
    Indicator(columns=(0,), correlation=0.3),
    0.7 * Matern(nu=2.5, lengthscale=0.2),
    Matern(nu=1.5, lengthscale=0.3, columns=(0, 1)) * Indicator(columns=(2,)),
    SquaredExponential(lengthscale=0.3) + 0.5 * Matern(nu=0.5, lengthscale=0.1, columns=(0,)),
]


def with_codes(n: int, seed: int) -> np.ndarray:
    """Points on a coarse lattice, so that codes repeat and points coincide."""
    return np.random.default_rng(seed).integers(0, 4, size=(n, 3)) / 2.0


@pytest.mark.parametrize("offset", [0.0, 1_000.0])
@pytest.mark.parametrize("lengthscale", [0.2, (0.1, 0.5, 1.0)])
@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, None])
def test_agrees_with_scikit_learn(nu: float | None, lengthscale: float, offset: float) -> None:
    from sklearn.gaussian_process import kernels as reference

    X, Y = points(40, 3, 1, offset), points(30, 3, 2, offset)
    Y[:10] = X[:10]
    if nu is None:
        ours: Kernel = SquaredExponential(lengthscale=lengthscale)
        theirs = reference.RBF(length_scale=lengthscale)
    else:
        ours, theirs = Matern(nu=nu, lengthscale=lengthscale), reference.Matern(lengthscale, nu=nu)
    np.testing.assert_allclose(ours(X, Y), theirs(X, Y), atol=1e-8 if offset else 1e-12)
    np.testing.assert_allclose(ours(X), theirs(X), atol=1e-8 if offset else 1e-12)


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=repr)
def test_matrix_is_positive_semidefinite_bounded_and_has_the_stated_diagonal(kernel: Kernel) -> None:
    for X in (points(60, 3), with_codes(60, 1)):
        K = kernel(X)
        np.testing.assert_allclose(K, K.T, atol=1e-12)
        assert np.linalg.eigvalsh(K).min() > -1e-10
        np.testing.assert_array_equal(np.diag(K), kernel.diagonal(X))
        assert np.max(K) <= kernel.max_variance * (1 + 1e-15)
        np.testing.assert_allclose(kernel(X, X.copy()), K, atol=1e-10)


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=repr)
def test_rows_do_not_depend_on_the_other_rows_of_a_block(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    X, Y = points(23, 3, 5), with_codes(17, 2)
    whole = kernel(X, Y)
    monkeypatch.setattr(_kernel, "BLOCK_ELEMENTS", 40)
    np.testing.assert_allclose(kernel(X, Y), whole, rtol=0, atol=1e-14)
    out = np.empty((23, 17))
    kernel.rows_against(Y)(X, out)
    np.testing.assert_allclose(out, whole, rtol=0, atol=1e-14)


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=repr)
def test_configuration_travels_through_json(kernel: Kernel) -> None:
    again = kernels.from_config(json.loads(json.dumps(kernel.to_config())))
    assert again == kernel
    assert hash(again) == hash(kernel)
    X = points(9, 3)
    np.testing.assert_array_equal(again(X), kernel(X))


def test_composition_is_arithmetic_of_matrices() -> None:
    a, b = Matern(nu=1.5, lengthscale=0.3), SquaredExponential(lengthscale=0.2, columns=(1,))
    X, Y = points(8, 2), points(5, 2, 3)
    np.testing.assert_allclose((a * b)(X, Y), a(X, Y) * b(X, Y), rtol=1e-14)
    np.testing.assert_allclose((a + b * a)(X, Y), a(X, Y) + b(X, Y) * a(X, Y), rtol=1e-14)
    np.testing.assert_allclose((2.0 * a)(X, Y), 2.0 * a(X, Y), rtol=1e-14)
    assert (a * 2.0) == (2.0 * a)
    assert (2.0 * a + b).max_variance == 3.0
    assert ((2.0 * a) * (3.0 * b)).max_variance == 6.0
    assert len((a + b + a).parts) == 3  # type: ignore[attr-defined]


def test_columns_choose_what_is_compared() -> None:
    X, Y = points(7, 3), points(6, 3, 4)
    picked = Matern(nu=2.5, lengthscale=(0.2, 0.6), columns=(2, 0))
    plain = Matern(nu=2.5, lengthscale=(0.2, 0.6))
    np.testing.assert_array_equal(picked(X, Y), plain(X[:, [2, 0]], Y[:, [2, 0]]))


@given(
    centre=st.floats(-1e6, 1e6),
    spread=st.floats(1e-8, 1e3),
    lengthscale=st.floats(1e-3, 1e3),
    seed=st.integers(0, 2**16),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_never_above_one_nor_below_zero_nor_undefined(
    centre: float, spread: float, lengthscale: float, seed: int
) -> None:
    """Far from the origin and for nearly coinciding points, where squared distances cancel."""
    X = centre + spread * points(12, 2, seed)
    X[6:] = X[:6]
    for kernel in (
        SquaredExponential(lengthscale=lengthscale),
        *(Matern(nu=nu, lengthscale=lengthscale) for nu in (0.5, 1.5, 2.5)),
    ):
        K = kernel(X, X.copy())
        assert np.all((K >= 0.0) & (K <= 1.0 + 1e-15))
        assert np.all(np.diag(K) > 1 - 1e-14 * (1 + (spread / lengthscale) ** 2))


def test_coinciding_points_of_the_rough_kernel_are_exactly_equal() -> None:
    X = points(50, 2, offset=1e3)
    assert np.all(np.diag(Matern(nu=0.5, lengthscale=0.01)(X, X.copy())) == 1.0)


def test_empty_sets_of_points() -> None:
    kernel = Matern(nu=2.5, lengthscale=0.2)
    assert kernel(np.empty((0, 2)), points(3, 2)).shape == (0, 3)
    assert kernel(points(3, 2), np.empty((0, 2))).shape == (3, 0)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Matern(nu=2.0, lengthscale=1.0),
        lambda: Matern(nu=2.5, lengthscale=0.0),
        lambda: Matern(nu=2.5, lengthscale=float("nan")),
        lambda: Matern(nu=2.5, lengthscale=()),
        lambda: SquaredExponential(lengthscale=(1.0, 1.0), columns=(0,)),
        lambda: SquaredExponential(lengthscale=1.0, columns=(0, 0)),
        lambda: SquaredExponential(lengthscale=1.0, columns=(-1,)),
        lambda: SquaredExponential(lengthscale=1.0, columns=()),
        lambda: Indicator(columns=(0,), correlation=-0.1),
        lambda: 0.0 * SquaredExponential(lengthscale=1.0),
        lambda: kernels.ProductKernel(()),
        lambda: kernels.from_config({"type": "Periodic"}),
        lambda: kernels.from_config({"type": "Matern", "nu": 2.5}),
        lambda: kernels.from_config({"type": "Sum", "parts": []}),
    ],
)
def test_impossible_parameters_are_refused(build: object) -> None:
    with pytest.raises(InvalidParameter):
        build()  # type: ignore[operator]


def test_wrong_shapes_are_refused_without_showing_the_points() -> None:
    kernel = Matern(nu=2.5, lengthscale=(0.2, 0.3))
    secret = np.full((4, 3), 0.123456)
    cases = [
        lambda: kernel(secret),
        lambda: kernel(secret[0]),
        lambda: kernel(secret[:, :2], secret),
        lambda: Indicator(columns=(3,))(secret),
    ]
    for case in cases:
        with pytest.raises(InvalidData) as error:
            case()
        assert "123456" not in str(error.value)


@pytest.mark.parametrize("kernel", ONE_OF_EACH, ids=str)
@pytest.mark.parametrize("offset", [0.0, 1_000.0])
def test_loose_rows_differ_from_the_kernel_by_rounding(kernel, offset):
    X, Y = points(40, 3, offset=offset), points(30, 3, seed=1, offset=offset)
    out = np.full((40, 30), np.nan)
    kernel.rows_against(Y, loose=True)(X, out)
    assert np.allclose(out, kernel(X, Y), rtol=1e-9, atol=1e-12)
    same = np.empty((30, 30))
    kernel.rows_against(Y, loose=True)(Y, same)
    assert np.diagonal(same).max() <= kernel.max_variance * (1.0 + 1e-9)


@pytest.mark.parametrize(("columns", "lengthscale"), [(7, 0.5), (2, 1e-9)])
def test_loose_rows_of_many_columns_or_of_tiny_lengths_are_the_kernel(columns, lengthscale):
    kernel, X = SquaredExponential(lengthscale=lengthscale), points(20, columns)
    out = np.empty((20, 20))
    kernel.rows_against(X, loose=True)(X, out)
    exact = np.empty((20, 20))
    kernel.rows_against(X)(X, exact)
    assert np.array_equal(out, exact)
