"""People with contexts and a few arms: the kernel and the features that are used where none is named.

A domain is the columns of a context, ranges scaled to [0, 1] and categories as codes, and then the arm.
Similar contexts have similar rewards; arms share nothing. Constants were chosen on the made-up table
`synthetic-income` and tuning seeds (`reproduction/tuning/table_study.py`).
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
"""Of ranges, which are scaled to [0, 1]."""

CATEGORY_CORRELATION = 0.6
"""Between people who differ in one category."""

FEATURES_PER_ARM = 8
"""Features of a context where a release is noisy: more fit finer functions and carry more noise."""

LANDMARKS = 300
"""Points that eigenfunctions are computed from."""


def context_kernel(
    domain: Domain,
    *,
    lengthscale: float = LENGTHSCALE,
    correlation: float = CATEGORY_CORRELATION,
    first: int = 0,
) -> Kernel:
    """Squared exponential in the ranges, times a common correlation across each column of categories.

    Args:
        domain: of encoded contexts: boxes and arms, as `Schema.domain` is.
        lengthscale: of columns scaled to [0, 1].
        correlation: between people who differ in one category.
        first: column in which the context begins, where something stands before it.

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
    """`kernel` of contexts, by default `context_kernel`, beside the same arm; nothing across arms.

    Args:
        domain: contexts, and the arm in the last column.
        kernel: over the columns of the contexts.
    """
    return _of_contexts(domain, kernel) * Indicator(columns=(domain.dim - 1,))


def arm_features(
    domain: Product,
    *,
    kernel: Kernel | None = None,
    n_features: int = FEATURES_PER_ARM,
    n_landmarks: int | None = None,
) -> ArmFeatures:
    """Mercer features of the context, separate ones for every arm.

    Args:
        domain: contexts, and the arm in the last column.
        kernel: over the columns of the contexts; default `context_kernel`.
        n_features: of a context.
        n_landmarks: points that eigenfunctions are computed from.

    Raises:
        InvalidParameter: the kernel measures distances between codes of categories.
    """
    if kernel is not None:
        return _made(domain, _of_contexts(domain, kernel), n_features, n_landmarks)
    with few_on_purpose():
        return _made(domain, _of_contexts(domain, None), n_features, n_landmarks)


@contextmanager
def few_on_purpose() -> Iterator[None]:
    """No warning: so few features are best where releases are noisy; tuned with the other constants."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LittleVariance)
        yield


def check_arms(features: Features | None, domain: Domain, *, per_arm: bool) -> None:
    """Refuse separate features of another number of arms, with InvalidParameter."""
    if per_arm and isinstance(features, ArmFeatures) and isinstance(domain, Product):
        n_arms = _arms_of(domain).n_arms
        if features.n_arms != n_arms:
            raise InvalidParameter(f"features are of {features.n_arms} arms and there are {n_arms}")


def features_for(
    domain: Domain,
    features: Features | None,
    *,
    kernel: Kernel | None,
    n_features: int | None,
    of_rows: int,
    per_arm: bool,
) -> Features:
    """The features that were given, or those of a kernel: over a domain, or over contexts and for every arm.

    Args:
        domain: of points; contexts and an arm where `per_arm`.
        features: what was given; then there is no kernel.
        kernel: over the domain, or over contexts. Lengthscales are shares of each range: of encoded contexts,
            and of a box. Contexts and boxes have a default.
        n_features: over the domain, or of a context.
        of_rows: their number over the domain, where none is given.
        per_arm: whether people with contexts are given arms.

    Raises:
        InvalidParameter: both, or neither where there is no default; or as `arm_features`.
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
    """A kernel of the domain's points whose lengthscales were given as shares of the ranges of its boxes.

    Args:
        domain: the lengthscales of columns that belong to no box keep the unit of the points.
        kernel: default, over boxes alone and over boxes with arms, `box_kernel`; None for other domains.

    Raises:
        InvalidParameter: the kernel measures distances between codes of arms, or does not say how it scales.
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
    """What a reward over a box is expected to look like where no kernel is given, in shares of its ranges.

    A Matern kernel (nu = 5/2) in the ranges, times a common correlation across each column of codes.

    Example:
        >>> box_kernel(Box(low=[1], high=[20]))
        Matern(lengthscale=0.3, columns=(0,), nu=2.5)
    """
    ranges, codes = _columns(domain)
    parts: list[Kernel] = [Matern(nu=2.5, lengthscale=LENGTHSCALE, columns=ranges)]
    parts += [Indicator(correlation=CATEGORY_CORRELATION, columns=(column,)) for column in codes]
    return reduce(mul, parts)


def _widths(domain: Domain) -> FloatArray:
    """(d,) widths of the ranges of boxes; 1 for every other column."""
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    return np.concatenate(
        [part.high - part.low if isinstance(part, Box) else np.ones(part.dim) for part in parts]
    )


@lru_cache(maxsize=8)
def _made(domain: Product, kernel: Kernel, n_features: int, n_landmarks: int | None) -> ArmFeatures:
    """Kept for a study's thousands of policies that are alike."""
    size = max(LANDMARKS, n_features) if n_landmarks is None else n_landmarks
    base = MercerFeatures(
        kernel=kernel, domain=Product(*domain.parts[:-1]), n_features=n_features, n_landmarks=size
    )
    return ArmFeatures(base=base, arm_column=domain.dim - 1, n_arms=_arms_of(domain).n_arms)


def _arms_of(domain: Product) -> Arms:
    last = domain.parts[-1]
    if not isinstance(last, Arms) or len(domain.parts) < 2:
        raise InvalidParameter("expected a product of contexts and Arms, the arms last")
    return last


def _of_contexts(domain: Product, kernel: Kernel | None) -> Kernel:
    contexts = Product(*domain.parts[:-1])
    if kernel is None:
        return context_kernel(contexts)
    an(kernel, Kernel, name="kernel", pass_="kernels.SquaredExponential(lengthscale=0.3), or leave it out")
    _check_codes(kernel, _codes(contexts))
    return kernel


def _check_codes(kernel: Kernel, codes: set[int]) -> None:
    """Refuse a distance between codes: the third category is not farther from the first than the second."""
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
    """Columns that hold codes of arms or categories."""
    parts = domain.parts if isinstance(domain, Product) else (domain,)
    starts = accumulate((part.dim for part in parts), initial=0)
    return {start for start, part in zip(starts, parts, strict=False) if isinstance(part, Arms)}


def _columns(domain: Domain) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Columns of numbers, and columns of codes."""
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
