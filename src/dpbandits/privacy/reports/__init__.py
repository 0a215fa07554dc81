"""Local mechanisms: one private report a user, and the sums a server recovers.

All share one interface, `ReportMechanism`: `encode` on the device (operating-system randomness,
rational probabilities), `valid`, `aggregate`, `estimate` and variances on the server, `simulate`
for crowds, `exact_epsilon` enumerated over the probabilities in use, `weights` of one forged report.

| name | class | payload | good at |
|---|---|---|---|
| `signed` | `SignedTernary` | two bits a cell | the default: bandit rewards in bins |
| `oue` | `OptimalUnary` | two bits a cell | general frequencies |
| `hadamard` | `HadamardResponse` | one index | little bandwidth |
| `krr` | `RandomisedResponse` | one code | few cells, large epsilon |
| `laplace` | `OneHotLaplace` | two integers a cell | the strongest Laplace comparator |
| `paper-laplace` | `PaperLaplace` | two integers a cell | Ma2025, made exact |

`FloatingLaplace` is Ma2025's noise as printed, for simulations.

Only NumPy and the standard library are imported: this runs on devices.
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
"""Name in specs and on the command line -> class."""


def mechanism(name: str, *, n_cells: int, epsilon: float) -> ReportMechanism:
    """Build a mechanism by name.

    Raises:
        InvalidParameter: unknown name, or parameters that the mechanism refuses.
    """
    if name not in MECHANISMS:
        raise InvalidParameter(f"mechanism: expected one of {sorted(MECHANISMS)}")
    return MECHANISMS[name](n_cells=n_cells, epsilon=epsilon)
