"""Local mechanisms: one private report per user, and the sums that a server recovers.

All share one interface, `ReportMechanism`. `encode` runs on the client (operating-system randomness, rational
probabilities). `valid`, `aggregate`, `estimate` and variances run on the server. `simulate` draws crowds,
`exact_epsilon` is enumerated over the probabilities in use, and `weights` bounds the effect of a forged
report.

| name | class | payload | good at |
|---|---|---|---|
| `signed` | `SignedTernary` | two bits per cell | the default: bandit rewards in bins |
| `oue` | `OptimalUnary` | two bits per cell | general frequencies |
| `hadamard` | `HadamardResponse` | one index | little bandwidth |
| `krr` | `RandomisedResponse` | one code | few cells, large epsilon |
| `laplace` | `OneHotLaplace` | two integers per cell | the strongest Laplace comparator |
| `paper-laplace` | `PaperLaplace` | two integers per cell | Ma2025, made exact |

`FloatingLaplace` is Ma2025's noise as printed, for simulations.

Only NumPy and the standard library are imported, because clients run this.
"""

from dpbandits.errors import InvalidParameter
from dpbandits.privacy.reports.categories import HadamardResponse, OptimalUnary, RandomisedResponse
from dpbandits.privacy.reports.laplace import FloatingLaplace, OneHotLaplace, PaperLaplace
from dpbandits.privacy.reports.mechanism import MAX_EPSILON, Moments, ReportMechanism
from dpbandits.privacy.reports.signed import SignedTernary

__all__ = [
    "MAX_EPSILON",
    "MECHANISMS",
    "FloatingLaplace",
    "HadamardResponse",
    "Moments",
    "OneHotLaplace",
    "OptimalUnary",
    "PaperLaplace",
    "RandomisedResponse",
    "ReportMechanism",
    "SignedTernary",
    "mechanism",
]

MECHANISMS: dict[str, type[ReportMechanism]] = {
    cls.name: cls
    for cls in (
        SignedTernary,
        OptimalUnary,
        HadamardResponse,
        RandomisedResponse,
        OneHotLaplace,
        PaperLaplace,
    )
}
"""Classes by their names in specs and on the command line."""


def mechanism(name: str, *, n_cells: int, epsilon: float) -> ReportMechanism:
    """Build a mechanism by name.

    Raises:
        InvalidParameter: The name is unknown, or the mechanism rejects the parameters.
    """
    if name not in MECHANISMS:
        raise InvalidParameter(f"mechanism: expected one of {sorted(MECHANISMS)}")
    return MECHANISMS[name](n_cells=n_cells, epsilon=epsilon)
