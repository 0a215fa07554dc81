r"""Bounds of Dubey2021's theorems in numbers; its alpha and beta are epsilon and delta.

| where | what | here |
|---|---|---|
| Theorem 1 | radius beta_t^(1/2), in units of sigma-tilde_t | `confidence_width` |
| Theorem 2 | error of m-bar quadrature nodes a column | `quadrature_error`, `quadrature_error_bound` |
| Corollary 1, Remark 3 | features that the regret bounds ask for | `features_asked` |
| Theorem 3 | regret | `regret_bound` |
| Corollaries 1 to 3 | rates of regret, constants left out | `regret_rate`, `central_rate`, `local_rate` |
| Lemmas 3, 6 | spectrum of the noise | `noise_spectrum`, `local_noise_spectrum` |
| Lemmas 2, 12, 5 | noise | `printed_scale`, `printed_local_scales` |

eps is the error of its features. Logarithms are natural. What the text prints in two ways is said at the
function.
"""

import math
from dataclasses import dataclass

from dpbandits import _checks
from dpbandits.central.published.printed import printed_levels, printed_local_scales, printed_scale
from dpbandits.errors import InvalidParameter

__all__ = [
    "ConfidenceWidth",
    "NoiseSpectrum",
    "central_rate",
    "confidence_width",
    "features_asked",
    "local_noise_spectrum",
    "local_rate",
    "log_determinant_bound",
    "noise_spectrum",
    "printed_levels",
    "printed_local_scales",
    "printed_scale",
    "quadrature_error",
    "quadrature_error_bound",
    "regret_bound",
    "regret_rate",
]


@dataclass(frozen=True, kw_only=True)
class NoiseSpectrum:
    """Bounds on the noise H_t of the Gram and h_t of the vector, as Definition 3 has them.

    Attributes:
        smallest, largest: lambda_min and lambda_max, of H_t once it is shifted.
        vector: kappa, at least ||h_t|| in the norm of H_t^-1.
    """

    smallest: float
    largest: float
    vector: float


def noise_spectrum(
    *, noise_sd: float, levels: int, n_features: int, rounds: int, failure_probability: float
) -> NoiseSpectrum:
    """Lemma 3: Lambda = sigma sqrt(2n) (4 sqrt(m) + 2 ln(2T/zeta)), from Lambda to 3 Lambda.

    Args:
        noise_sd: sigma_alpha,beta of a node.
        levels: n.
        n_features: m.
        rounds: T.
        failure_probability: zeta; the bounds hold in all rounds up to zeta/2.
    """
    tail = math.log(2.0 * rounds / failure_probability)
    spectral = noise_sd * math.sqrt(2.0 * levels) * (4.0 * math.sqrt(n_features) + 2.0 * tail)
    reach = math.sqrt(n_features) + math.sqrt(2.0 * tail)
    vector = noise_sd * math.sqrt(levels / spectral) * reach
    return NoiseSpectrum(smallest=spectral, largest=3.0 * spectral, vector=vector)


def local_noise_spectrum(
    *, gram_sd: float, vector_sd: float, n_features: int, rounds: int, failure_probability: float
) -> NoiseSpectrum:
    """Lemma 6: Lambda = sqrt(T) (4 sqrt(m) + 2 ln(2T/zeta)), from sigma_X Lambda to 3 sigma_X Lambda."""
    shape = math.sqrt(rounds) * (
        4.0 * math.sqrt(n_features) + 2.0 * math.log(2.0 * rounds / failure_probability)
    )
    vector = vector_sd * math.sqrt(n_features * rounds / shape)
    return NoiseSpectrum(smallest=gram_sd * shape, largest=3.0 * gram_sd * shape, vector=vector)


@dataclass(frozen=True, kw_only=True)
class ConfidenceWidth:
    """The four terms of Theorem 1, whose sum multiplies sigma-tilde_t(x) = rho ||phi(x)||_{V_t^-1}.

    Attributes:
        norm: B sqrt(lambda_max/rho^2 + 1), for the shift and the prior.
        approximation: t B eps/(rho sqrt(lambda_min)), for what the features miss.
        vector: kappa/rho, for the noise of the vector.
        rewards: sqrt(ln det((Sigma-tilde_t + lambda I)/(lambda + lambda_min)) + 2 ln(2/zeta)).
    """

    norm: float
    approximation: float
    vector: float
    rewards: float

    @property
    def total(self) -> float:
        """beta_t^(1/2)."""
        return self.norm + self.approximation + self.vector + self.rewards


def confidence_width(
    *,
    spectrum: NoiseSpectrum,
    log_determinant: float,
    rounds: int,
    reward_sd: float,
    failure_probability: float,
    norm_bound: float = 1.0,
    approximation_error: float = 0.0,
) -> ConfidenceWidth:
    """Theorem 1.

    Args:
        spectrum: Bounds on the noise's spectrum.
        log_determinant: ln det((Sigma-tilde_t + lambda I)/(lambda + lambda_min)), at least 0; for a bound
            before any data see `log_determinant_bound`.
        rounds: t.
        reward_sd: rho.
        failure_probability: zeta.
        norm_bound: B.
        approximation_error: eps, largest |k(x, y) - phi(x)^T phi(y)|.

    Raises:
        InvalidParameter: a determinant below 1, or a failure probability outside (0, 1).
    """
    if log_determinant < 0.0 or not 0.0 < failure_probability < 1.0:
        raise InvalidParameter(
            "Theorem 1 needs a log determinant of at least 0 and a failure_probability in (0, 1)"
        )
    rho = _checks.number(reward_sd, name="reward_sd")
    return ConfidenceWidth(
        norm=norm_bound * math.sqrt(spectrum.largest / rho**2 + 1.0),
        approximation=rounds * norm_bound * approximation_error / (rho * math.sqrt(spectrum.smallest)),
        vector=spectrum.vector / rho,
        rewards=math.sqrt(log_determinant + 2.0 * math.log(2.0 / failure_probability)),
    )


def log_determinant_bound(*, n_features: int, rounds: int, smallest: float, ridge: float) -> float:
    """m ln(1 + T/(lambda + lambda_min)): the appendix's bound (eq. 42) on Theorem 1's log determinant.

    Its last line has rho where the step before it has lambda, which is taken here.
    """
    return n_features * math.log1p(rounds / (ridge + smallest))


def quadrature_error(*, dim: int, nodes: int, lengthscale: float) -> float:
    """Theorem 2: d 2^(d-1) sqrt(pi/2) m^-m (e/(4 nu^2))^m for m nodes a column, on the unit cube.

    Args:
        dim: d.
        nodes: m-bar.
        lengthscale: nu, the smallest of the columns', in units of the cube's side.
    """
    log_power = nodes * (1.0 - math.log(4.0 * lengthscale**2) - math.log(nodes))
    return dim * math.pow(2.0, dim - 1) * math.sqrt(math.pi / 2.0) * math.exp(log_power)


def quadrature_error_bound(*, nodes: int, dim: int, radius: float, lengthscale: float) -> float:
    r"""Bound on sup |phi(x) . phi(y) - k(x, y)| over ||x - y|| <= 2 radius, by quadrature.

    The q-node Gauss-Hermite rule errs on cos(a t), a = sqrt(2) r/lengthscale, by at most
    q! a^(2q)/(2^q (2q)!) (the remainder with sqrt(pi) divided out). The d-dimensional error telescopes
    over dimensions, each other factor being at most one in absolute value, and with |r_i| <= 2 radius:
    d q! a^(2q)/(2^q (2q)!). This is the form of Theorem 2 of Dubey2021 (Mutny and Krause 2018, Theorem 4):
    it falls faster than exponentially once q exceeds e a^2/8.

    Example:
        >>> quadrature_error_bound(nodes=24, dim=2, radius=2.0, lengthscale=1.0) < 1e-4
        True
    """
    a = math.sqrt(2.0) * 2.0 * radius / lengthscale
    log_bound = (
        math.lgamma(nodes + 1) + 2 * nodes * math.log(a) - nodes * math.log(2.0) - math.lgamma(2 * nodes + 1)
    )
    return dim * math.exp(log_bound) if log_bound < 700.0 else math.inf


def features_asked(*, rounds: int, dim: int, own_gain: bool = False) -> float:
    """m = 2 (6 ln T)^d of Corollary 1; with `own_gain` 2 (3 ln T)^d of Remark 3.

    Remark 3 is for bounds by the information gain of the features in place of the kernel's. Corollary 3 and
    the appendix print the first without its factor 2.

    Example:
        >>> round(features_asked(rounds=1024, dim=2))
        3459
    """
    return 2.0 * math.pow((3.0 if own_gain else 6.0) * math.log(rounds), dim)


def regret_bound(
    *,
    rounds: int,
    width: float,
    gain: float,
    reward_sd: float,
    norm_bound: float = 1.0,
    approximation_error: float = 0.0,
) -> float:
    """Theorem 3: 2 sqrt(T beta_T gamma_T) + 2 T^3 sqrt(beta_T eps)/(3 rho) + 2 T B eps.

    Args:
        rounds: T.
        width: beta_T^(1/2), see `confidence_width`.
        gain: gamma_T, the largest information gain of T points.
        reward_sd: rho.
        norm_bound: B.
        approximation_error: eps.
    """
    root = math.sqrt(approximation_error)
    return (
        2.0 * width * math.sqrt(rounds * gain)
        + 2.0 * rounds**3 * width * root / (3.0 * reward_sd)
        + 2.0 * rounds * norm_bound * approximation_error
    )


def regret_rate(
    *,
    rounds: int,
    gain: float,
    dim: int,
    spectrum: NoiseSpectrum,
    reward_sd: float,
    failure_probability: float,
    norm_bound: float = 1.0,
) -> float:
    """Corollary 1 without its constant.

    sqrt(T gamma) (B sqrt(lambda_max)/rho + sqrt(ln(1/zeta) + (6 ln T)^(d+1)) + kappa/rho).
    """
    logs = math.log(1.0 / failure_probability) + math.pow(6.0 * math.log(rounds), dim + 1)
    shift = norm_bound * math.sqrt(spectrum.largest) + spectrum.vector
    return math.sqrt(rounds * gain) * (shift / reward_sd + math.sqrt(logs))


def central_rate(
    *, rounds: int, gain: float, dim: int, epsilon: float, delta: float, failure_probability: float
) -> float:
    """Corollary 2 without its constant.

    sqrt(T gamma) ((ln T)^((d+2)/4) (ln(1/beta) ln(1/zeta)/alpha)^(1/2) + (ln T)^((d+1)/2)).
    """
    log = math.log(rounds)
    private = math.pow(log, (dim + 2) / 4) * math.sqrt(
        math.log(1.0 / delta) * math.log(1.0 / failure_probability) / epsilon
    )
    return math.sqrt(rounds * gain) * (private + math.pow(log, (dim + 1) / 2))


def local_rate(
    *, rounds: int, gain: float, dim: int, epsilon: float, delta: float, failure_probability: float
) -> float:
    """Corollary 3 without its constant: T^(3/4) (ln T)^((d+2)/4) sqrt(gamma ln(1/beta) ln(1/zeta)/alpha)."""
    private = math.sqrt(gain / epsilon * math.log(1.0 / delta) * math.log(1.0 / failure_probability))
    return math.pow(rounds, 0.75) * math.pow(math.log(rounds), (dim + 2) / 4) * private
