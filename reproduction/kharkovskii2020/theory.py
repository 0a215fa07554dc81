r"""Bounds of Kharkovskii2020's theorems in numbers.

| where | what | here |
|---|---|---|
| Definition 3 | diagonally dominant covariances | `diagonally_dominant` |
| Lemma 1, Theorem 2 | factors of squared distances, r for them | `distance_factors`, `distance_dimension` |
| Section 3.4 | the largest r that inflates nothing | `guideline_dimension` |
| Theorem 5 | C, relative error of covariances | `covariance_error` |
| Lemma 3 | beta_t | `confidence_weight` |
| Lemma 5 | C_1, error of variances | `variance_constant`, `variance_error` |
| Lemma 6 | C_2, error of means | `mean_constant`, `mean_error` |
| Theorem 3 | nu, mu, r, delta', regret | `RequiredSettings`, `required_settings`, `simple_regret_bound` |

Logarithms are natural; sigma_y^2 and sigma_n^2 are the signal's and the noise's variance, L bounds |y_t|.
Theorem 1, that the transformation is private, is wrong (`dpbandits.audit.attacks.po_gp_ucb`); these are about
regret.
Theorem 3 prints C_1 and C_2 up to constants; here they are those of Lemmas 5 and 6.
"""

import math
from dataclasses import dataclass

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.outsourced.published.kharkovskii2020 import singular_value_threshold

__all__ = [
    "RequiredSettings",
    "confidence_weight",
    "covariance_error",
    "diagonally_dominant",
    "distance_dimension",
    "distance_factors",
    "guideline_dimension",
    "mean_constant",
    "mean_error",
    "required_settings",
    "simple_regret_bound",
    "variance_constant",
    "variance_error",
]


def diagonally_dominant(covariance: FloatArray) -> bool:
    """Definition 3: k_xx >= (sqrt(n - 1) + 1) sum of k_xx' over the others, for every row of (n, n).

    >>> diagonally_dominant(np.array([[1.0, 0.5], [0.5, 1.0]]))
    True
    >>> diagonally_dominant(np.array([[1.0, 0.51], [0.51, 1.0]]))
    False
    """
    matrix = np.asarray(covariance, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not np.isfinite(matrix).all():
        raise InvalidData(f"a covariance has shape {matrix.shape}: expected finite numbers (n, n)")
    diagonal = np.diagonal(matrix)
    others = matrix.sum(axis=1) - diagonal
    return bool((diagonal >= (math.sqrt(len(matrix) - 1) + 1.0) * others).all())


def distance_factors(*, distortion: float, smallest: float, threshold: float) -> tuple[float, float]:
    """Theorem 2: (1 - nu) and (1 + nu) C', between which squared distances change.

    Args:
        distortion: nu, accuracy of the projection, in (0, 1/2).
        smallest: sigma_min of the centred table.
        threshold: omega.
    """
    nu = _distortion(distortion)
    return 1.0 - nu, (1.0 + nu) * (1.0 + _inflation(smallest, threshold))


def covariance_error(*, distortion: float, diameter: float, smallest: float, threshold: float) -> float:
    """Theorem 5, (10): C with |k_zz' - k_xx'| <= C k_xx'; the kernel is squared exponential.

    Args:
        distortion: nu, accuracy of the projection, at most 2/d^2.
        diameter: d, the table's diameter in lengthscales.
        smallest, threshold: sigma_min and omega.

    Raises:
        InvalidParameter: distortion outside (0, 1/2) or above 2/d^2.
    """
    nu = _distortion(distortion)
    d2 = _checks.number(diameter, name="diameter") ** 2
    if nu > 2.0 / d2:
        raise InvalidParameter(f"Theorem 5 needs distortion <= 2/d^2 = {2.0 / d2:g}, it is {nu:g}")
    error = nu * d2
    ratio = _inflation(smallest, threshold)
    if ratio == 0.0:
        return error
    return max(error, 1.0 - math.exp(-0.5 * (nu + nu * ratio + ratio) * d2))


def confidence_weight(*, rows: int, step: int, failure: float) -> float:
    """Lemma 3: beta_t = 2 ln(n t^2 pi^2/(6 delta')) for n rows at step t = 1, 2, ...

    >>> round(confidence_weight(rows=10_000, step=1, failure=0.025), 4)
    26.7938
    """
    _checks.integer(rows, name="rows")
    _checks.integer(step, name="step")
    _share(failure, "failure")
    return 2.0 * math.log(rows * step**2 * math.pi**2 / (6.0 * failure))


def variance_constant(*, error: float, signal_variance: float, noise_variance: float) -> float:
    """Lemma 5: C_1 = C sigma_y sqrt(2 sigma_y^2 + sigma_n^2) (sqrt(2) (1 + C)^2 q + (2 + C) C).

    q = sigma_y^2/sigma_n^2.

    Args:
        error: C of Theorem 5.
        signal_variance, noise_variance: sigma_y^2, sigma_n^2.
    """
    C, ratio = _error(error), _ratio(signal_variance, noise_variance)
    scale = math.sqrt(signal_variance * (2.0 * signal_variance + noise_variance))
    return C * scale * (math.sqrt(2.0) * (1.0 + C) ** 2 * ratio + (2.0 + C) * C)


def variance_error(*, error: float, signal_variance: float, noise_variance: float, observed: int) -> float:
    """Lemma 5: C_1/sqrt(|X_{t-1}|), the most by which a variance changes, after `observed` answers."""
    _checks.integer(observed, name="observed")
    C_1 = variance_constant(error=error, signal_variance=signal_variance, noise_variance=noise_variance)
    return C_1 / math.sqrt(observed)


def mean_constant(*, error: float, signal_variance: float, noise_variance: float, largest: float) -> float:
    """Lemma 6: C_2 = sqrt(2) (1 + C) C sigma_y^2/sigma_n^2 L."""
    C, ratio = _error(error), _ratio(signal_variance, noise_variance)
    return math.sqrt(2.0) * (1.0 + C) * C * ratio * _checks.number(largest, name="largest")


def mean_error(
    *, error: float, signal_variance: float, noise_variance: float, largest: float, observed: int
) -> float:
    """Lemma 6: C L + C_2/sqrt(|X_{t-1}|), the most by which a mean changes, after `observed` answers."""
    _checks.integer(observed, name="observed")
    C_2 = mean_constant(
        error=error, signal_variance=signal_variance, noise_variance=noise_variance, largest=largest
    )
    return error * largest + C_2 / math.sqrt(observed)


@dataclass(frozen=True, kw_only=True)
class RequiredSettings:
    """Settings that Theorem 3 requires of the algorithms.

    Attributes:
        distortion: nu, accuracy of the projection.
        failure: mu, the projection's probability of failing, and delta' of Algorithm 2.
        dimension: least r.
    """

    distortion: float
    failure: float
    dimension: int


def required_settings(
    *, excess: float, failure: float, diameter: float, largest: float, rows: int
) -> RequiredSettings:
    """Theorem 3: mu = delta' = delta_ucb/2, nu = min(eps_ucb/(2 sqrt(3) d^2 L), 2/d^2, 1/2), r by Theorem 2.

    Lemma 1 asks for nu below 1/2; the text prints 1/2 itself, which is kept.

    Args:
        excess: eps_ucb.
        failure: delta_ucb.
        diameter: d, the table's diameter in lengthscales.
        largest: L.
        rows: n.
    """
    d2 = _checks.number(diameter, name="diameter") ** 2
    per_excess = 2.0 * math.sqrt(3.0) * d2 * _checks.number(largest, name="largest")
    bound = _checks.number(excess, name="excess") / per_excess
    nu, half = min(bound, 2.0 / d2, 0.5), _share(failure, "failure") / 2.0
    dimension = distance_dimension(n=rows, distortion=nu, failure=half)
    return RequiredSettings(distortion=nu, failure=half, dimension=dimension)


def simple_regret_bound(
    *,
    error: float,
    signal_variance: float,
    noise_variance: float,
    largest: float,
    rows: int,
    steps: int,
    failure: float,
    information_gain: float,
) -> float:
    """Theorem 3 by (17): what simple regret stays below with probability 1 - delta_ucb.

    (12 C^2 L^2 + 24 (C_2 + C_1 sqrt(beta_T))^2 ln T/T + 24 beta_T gamma_T/(T ln(1 + 1/sigma_n^2)))^(1/2),
    whose first term is at most eps_ucb^2 for the distortion of `required_settings` and no inflation. With
    inflation it is that of Remark 6, by the C of `covariance_error`.

    Args:
        error: C of Theorem 5.
        signal_variance, noise_variance, largest: sigma_y^2, sigma_n^2, L.
        rows, steps: n, T.
        failure: delta_ucb; half of it is delta' of beta_T.
        information_gain: gamma_T.
    """
    T = _checks.integer(steps, name="steps", minimum=2)
    variances = {"signal_variance": signal_variance, "noise_variance": noise_variance}
    C_1 = variance_constant(error=error, **variances)
    C_2 = mean_constant(error=error, largest=largest, **variances)
    beta = confidence_weight(rows=rows, step=T, failure=_share(failure, "failure") / 2.0)
    gain = _checks.number(information_gain, name="information_gain", exclusive=False)
    transformed = 12.0 * error**2 * largest**2
    transformed += 24.0 * (C_2 + C_1 * math.sqrt(beta)) ** 2 * math.log(T) / T
    return math.sqrt(transformed + 24.0 * beta * gain / (T * math.log1p(1.0 / noise_variance)))


def _inflation(smallest: float, threshold: float) -> float:
    """omega^2/sigma_min^2 where singular values are inflated, else 0."""
    _checks.number(smallest, name="smallest")
    _checks.number(threshold, name="threshold")
    return 0.0 if smallest >= threshold else (threshold / smallest) ** 2


def _error(error: float) -> float:
    return _checks.number(error, name="error")


def _ratio(signal_variance: float, noise_variance: float) -> float:
    signal = _checks.number(signal_variance, name="signal_variance")
    return signal / _checks.number(noise_variance, name="noise_variance")


def _distortion(value: float) -> float:
    if not 0.0 < value < 0.5:
        raise InvalidParameter(f"distortion is {value}: expected a number between 0 and 1/2")
    return value


def _share(value: float, name: str) -> float:
    if not 0.0 < value < 1.0:
        raise InvalidParameter(f"{name} is {value}: expected a number between 0 and 1")
    return value


def distance_dimension(*, n: int, distortion: float, failure: float) -> int:
    """Least r for squared distances within 1 +- distortion with probability 1 - failure: Lemma 1, Theorem 2.

    r >= 8 ln(n^2/failure)/distortion^2, after Johnson and Lindenstrauss; far above any r that is used.

    >>> distance_dimension(n=10_000, distortion=0.5, failure=0.05)
    686
    """
    if not (n >= 2 and 0.0 < distortion < 1.0 and 0.0 < failure < 1.0):
        raise InvalidParameter("the dimension needs n >= 2, and distortion and failure in (0, 1)")
    return math.ceil(8.0 * math.log(n**2 / failure) / distortion**2)


def guideline_dimension(smallest: float, *, epsilon: float, delta: float) -> int:
    """The paper's guideline for r (its Section 3.4): the largest with sigma_min >= omega; 0 where none has.

    Args:
        smallest: sigma_min, the smallest singular value of the centred table.
        epsilon, delta: claimed.

    >>> guideline_dimension(1000.0, epsilon=3.0, delta=1e-5)
    10
    """
    smallest = _checks.number(smallest, name="smallest")
    low, high = 0, 1
    while singular_value_threshold(epsilon=epsilon, delta=delta, dimension=high) <= smallest:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if singular_value_threshold(epsilon=epsilon, delta=delta, dimension=middle) <= smallest:
            low = middle
        else:
            high = middle
    return low
