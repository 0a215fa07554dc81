"""Local mechanisms: one private report per user, and the sums that a server recovers.

All mechanisms have one interface, `ReportMechanism`. `encode` runs on the client, with operating-system
randomness and rational probabilities. `valid`, `aggregate`, `estimate` and variances run on the server.
`simulate` draws the sums of many users' reports. `exact_epsilon` is the privacy loss of the probabilities in
use, and `weights` bounds the effect of a forged report. A cell is a bin of contexts, or a bin and an arm.

| name | class | payload | suited for |
|---|---|---|---|
| `signed` | `SignedTernary` | two bits per cell | the default: bandit rewards in bins |
| `oue` | `OptimalUnary` | two bits per cell | general frequencies |
| `hadamard` | `HadamardResponse` | one index | little bandwidth |
| `krr` | `RandomisedResponse` | one code | few cells, large epsilon |
| `laplace` | `OneHotLaplace` | two integers per cell | the strongest Laplace comparator |
| `paper-laplace` | `PaperLaplace` | two integers per cell | Ma2025, made exact |

`FloatingLaplace` is Ma2025's noise as printed, for simulations only.

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
"""Mechanism classes by the names that specs and the command line use."""


def mechanism(name: str, *, n_cells: int, epsilon: float) -> ReportMechanism:
    """Build a mechanism by name.

    Raises:
        InvalidParameter: The name is unknown, or the mechanism rejects the parameters.
    """
    if name not in MECHANISMS:
        raise InvalidParameter(f"mechanism: expected one of {sorted(MECHANISMS)}")
    return MECHANISMS[name](n_cells=n_cells, epsilon=epsilon)
