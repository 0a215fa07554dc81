"""Default kernels and features for contexts and arms.

A domain consists of the columns of a context (ranges scaled to [0, 1], categories as codes) and of the arm.
The kernels assume that similar contexts have similar rewards, and that rewards of different arms are
independent. Constants were chosen on the synthetic table `synthetic-income` with tuning seeds
(`reproduction/tuning/table_study.py`).
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache, reduce
from itertools import accumulate
from operator import mul

import numpy as np

from dpbandits._checks import an
from dpbandits._typing import FloatArray
from dpbandits.domains import Arms, Box, Domain, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.base import Features, LittleVariance
from dpbandits.models.features.mercer import ArmFeatures, MercerFeatures, mercer_or_given
from dpbandits.models.kernels import (
    Indicator,
    Kernel,
    ProductKernel,
    ScaledKernel,
    SquaredExponential,
    SumKernel,
)
from dpbandits.models.kernels.stationary import Matern

__all__ = [
    "LENGTHSCALE",
    "arm_features",
    "arm_kernel",
    "box_kernel",
    "check_arms",
    "context_kernel",
    "features_for",
    "few_on_purpose",
    "kernel_over",
]

LENGTHSCALE = 0.3
"""Default lengthscale of ranges, which are scaled to [0, 1]."""

CATEGORY_CORRELATION = 0.6
"""Default correlation of the rewards of two contexts that differ in one category."""

FEATURES_PER_ARM = 8
"""Default number of features of a context for noisy releases; more fit finer functions, with more noise."""

LANDMARKS = 300
"""Default number of points from which eigenfunctions are computed."""


def context_kernel(
    domain: Domain,
    *,
    lengthscale: float = LENGTHSCALE,
    correlation: float = CATEGORY_CORRELATION,
    first: int = 0,
) -> Kernel:
    """Return a kernel of contexts: squared exponential in ranges, one correlation between categories.

    Args:
        domain: Domain of encoded contexts, with boxes and arms, as `Schema.domain`.
        lengthscale: Lengthscale of columns scaled to [0, 1].
        correlation: Correlation between contexts that differ in one category.
        first: Index of the context's first column, if other columns precede it.

    Example:
        >>> context_kernel(Product(Box(low=[0], high=[1]), Arms(2))).parts[1]
        Indicator(correlation=0.6, columns=(1,))
    """
    ranges, codes = (tuple(first + column for column in columns) for columns in _columns(domain))
    parts: list[Kernel] = [Indicator(correlation=correlation, columns=(column,)) for column in codes]
    if ranges:
        parts.insert(0, SquaredExponential(lengthscale=lengthscale, columns=ranges))
    return reduce(mul, parts)


def arm_kernel(domain: Product, kernel: Kernel | None = None) -> Kernel:
    """Return the kernel of contexts within each arm; different arms have covariance zero.

    Args:
        domain: Domain of contexts, with the arm in the last column.
        kernel: Kernel over the columns of the contexts; default `context_kernel`.
    """
    return _of_contexts(domain, kernel) * Indicator(columns=(domain.dim - 1,))


def arm_features(
    domain: Product,
    *,
    kernel: Kernel | None = None,
    n_features: int = FEATURES_PER_ARM,
    n_landmarks: int | None = None,
) -> ArmFeatures:
    """Return Mercer features of the context, separate for every arm.

    Args:
        domain: Domain of contexts, with the arm in the last column.
        kernel: Kernel over the columns of the contexts; default `context_kernel`.
        n_features: Number of features of a context.
        n_landmarks: Number of points from which eigenfunctions are computed.

    Raises:
        InvalidParameter: The kernel measures distances between codes of categories.
    """
    if kernel is not None:
        return _made(domain, _of_contexts(domain, kernel), n_features, n_landmarks)
    with few_on_purpose():
        return _made(domain, _of_contexts(domain, None), n_features, n_landmarks)


@contextmanager
def few_on_purpose() -> Iterator[None]:
    """Suppress `LittleVariance` within the block: few features are best for noisy releases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LittleVariance)
        yield


def check_arms(features: Features | None, domain: Domain, *, per_arm: bool) -> None:
    """Check that features with separate parts for arms have the domain's number of arms.

    Args:
        features: Features to check; None passes.
        domain: Domain of contexts and an arm.
        per_arm: True if the policy chooses arms for contexts; otherwise nothing is checked.

    Raises:
        InvalidParameter: The features are for another number of arms.
    """
    if per_arm and isinstance(features, ArmFeatures) and isinstance(domain, Product):
        n_arms = _arms_of(domain).n_arms
        if features.n_arms != n_arms:
            raise InvalidParameter(f"features are for {features.n_arms} arms, expected {n_arms}")


def features_for(
    domain: Domain,
    features: Features | None,
    *,
    kernel: Kernel | None,
    n_features: int | None,
    of_rows: int,
    per_arm: bool,
) -> Features:
    """Return the given features, or else Mercer features over the domain or, `per_arm`, over the contexts.

    Args:
        domain: Domain of points, or of contexts and an arm if `per_arm`.
        features: Given features, without a kernel; or None.
        kernel: Kernel over the domain, or over contexts if `per_arm`. Its lengthscales are shares of each
            range of encoded contexts or of a box. None means a default kernel, which contexts and boxes
            have.
        n_features: Number of features over the domain, or of a context if `per_arm`.
        of_rows: Default of `n_features` over the domain.
        per_arm: True if the policy chooses arms for contexts.

    Raises:
        InvalidParameter: Both features and a kernel are given, neither is given and there is no default, or
            the kernel measures distances between codes of categories.
    """
    if features is not None or not (per_arm and isinstance(domain, Product)):
        check_arms(features, domain, per_arm=per_arm)
        if features is None:
            own = kernel_over(domain, kernel)
            if kernel is None and own is not None:
                with few_on_purpose():
                    return mercer_or_given(None, kernel=own, domain=domain, n_features=n_features or of_rows)
            kernel = own
        return mercer_or_given(features, kernel=kernel, domain=domain, n_features=n_features or of_rows)
    return arm_features(domain, kernel=kernel, n_features=n_features or FEATURES_PER_ARM)


def kernel_over(domain: Domain, kernel: Kernel | None) -> Kernel | None:
    """Return a kernel of the domain's points, given one with lengthscales in shares of the boxes' ranges.

    Args:
        domain: Domain of the points. Columns that belong to no box are not scaled.
        kernel: Kernel in shares of ranges. None means `box_kernel` over boxes, with or without arms; over
            other domains the result is then None.

    Raises:
        InvalidParameter: The kernel measures distances between codes of arms, or does not define
            `in_units_of`.
    """
    if kernel is None:
        parts = domain.parts if isinstance(domain, Product) else (domain,)
        boxes = any(isinstance(part, Box) for part in parts)
        if not boxes or not all(isinstance(part, Box | Arms) for part in parts):
            return None
        kernel = box_kernel(domain)
    an(kernel, Kernel, name="kernel", pass_="kernels.Matern(nu=2.5, lengthscale=0.3), or leave it out")
    _check_codes(kernel, _codes(domain))
    return kernel.in_units_of(_widths(domain))


def box_kernel(domain: Domain) -> Kernel:
    """Return the default kernel of a reward over a box, with lengthscales in shares of its ranges.

    It is a Matern kernel (nu = 5/2) in ranges, times a correlation between the codes of each column of codes.

    Example:
        >>> box_kernel(Box(low=[1], high=[20]))
        Matern(lengthscale=0.3, columns=(0,), nu=2.5)
    """
    ranges, codes = _columns(domain)
    parts: list[Kernel] = [Matern(nu=2.5, lengthscale=LENGTHSCALE, columns=ranges)]
    parts += [Indicator(correlation=CATEGORY_CORRELATION, columns=(column,)) for column in codes]
    return reduce(mul, parts)


def _widths(domain: Domain) -> FloatArray:
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    return np.concatenate(
        [part.high - part.low if isinstance(part, Box) else np.ones(part.dim) for part in parts]
    )


@lru_cache(maxsize=8)
def _made(domain: Product, kernel: Kernel, n_features: int, n_landmarks: int | None) -> ArmFeatures:
    """Return features for every arm, from a cache, because a study builds thousands of equal policies."""
    size = max(LANDMARKS, n_features) if n_landmarks is None else n_landmarks
    base = MercerFeatures(
        kernel=kernel, domain=Product(*domain.parts[:-1]), n_features=n_features, n_landmarks=size
    )
    return ArmFeatures(base=base, arm_column=domain.dim - 1, n_arms=_arms_of(domain).n_arms)


def _arms_of(domain: Product) -> Arms:
    last = domain.parts[-1]
    if not isinstance(last, Arms) or len(domain.parts) < 2:
        raise InvalidParameter("domain: expected a product of contexts and Arms, with the arms last")
    return last


def _of_contexts(domain: Product, kernel: Kernel | None) -> Kernel:
    contexts = Product(*domain.parts[:-1])
    if kernel is None:
        return context_kernel(contexts)
    an(kernel, Kernel, name="kernel", pass_="kernels.SquaredExponential(lengthscale=0.3), or leave it out")
    _check_codes(kernel, _codes(contexts))
    return kernel


def _check_codes(kernel: Kernel, codes: set[int]) -> None:
    """Raise `InvalidParameter` if a kernel measures distances between codes of arms or categories."""
    if isinstance(kernel, ProductKernel | SumKernel):
        for part in kernel.parts:
            _check_codes(part, codes)
    elif isinstance(kernel, ScaledKernel):
        _check_codes(kernel.kernel, codes)
    elif isinstance(kernel, SquaredExponential | Matern):
        measured = codes if kernel.columns is None else codes & set(kernel.columns)
        if measured:
            raise InvalidParameter(
                f"kernel measures distances between codes of categories (columns {sorted(measured)}): "
                "pass columns= with the ranges alone, times kernels.Indicator(columns=...) of the "
                "categories; with contexts= and arms= the kernel may be left out"
            )


def _codes(domain: Domain) -> set[int]:
    """Return the indices of the columns that hold codes of arms or categories."""
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    starts = accumulate((part.dim for part in parts), initial=0)
    return {start for start, part in zip(starts, parts, strict=False) if isinstance(part, Arms)}


def _columns(domain: Domain) -> tuple[tuple[int, ...], tuple[int, ...]]:
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    ranges: list[int] = []
    codes: list[int] = []
    column = 0
    for part in parts:
        if not isinstance(part, Box | Arms):
            raise InvalidParameter(f"contexts have a {type(part).__name__}, expected boxes and arms")
        (codes if isinstance(part, Arms) else ranges).extend(range(column, column + part.dim))
        column += part.dim
    return tuple(ranges), tuple(codes)
