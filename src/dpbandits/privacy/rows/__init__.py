"""Mechanisms that release every row of a table on its own: `RowDP`.

| class | promise | error of one coordinate (root mean square) |
|---|---|---|
| `L2Laplace` | pure epsilon at the stated distance, proportionally more beyond | scale sqrt(d + 1) |
| `GaussianRows` | (epsilon, delta) at the stated distance, rho grows with its square | sigma |
| `CellResponse` | pure epsilon between any two positions | the cell, and chance |

`choose_row_mechanism` takes the one with the smallest error among those that keep the promise.

**Lattice.** Rows are rounded to multiples of a public step h (a power of two), noise is an integer
vector and the release a multiple of h: no float noise is ever added. Rounding moves each coordinate of
each of two neighbours by at most h/2, so their distance grows by at most h sqrt(d), and everything below
is calibrated to distance + h sqrt(d). With h near distance/(2^16 sqrt(d)) this costs 1.5e-5 of epsilon.

Rows are independent draws, so a neighbouring table (one row moved) changes the law of one row only:
the row's bound is the table's.
"""

from dpbandits import _checks
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.definitions import RowDP
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows.base import RowMechanism
from dpbandits.privacy.rows.cells import SMALLEST_EPSILON, CellResponse
from dpbandits.privacy.rows.gaussian import GaussianRows
from dpbandits.privacy.rows.laplace import AnswerLaplace, L2Laplace
from dpbandits.privacy.rows.noise_laws import CellLaw, GaussianLaw, L2LaplaceLaw, NoiseLaw

__all__ = [
    "AnswerLaplace",
    "CellLaw",
    "CellResponse",
    "GaussianLaw",
    "GaussianRows",
    "L2Laplace",
    "L2LaplaceLaw",
    "NoiseLaw",
    "RowMechanism",
    "choose_row_mechanism",
]

_LAPLACE = (1e-6, 1e6)
"""Epsilons that the Laplace lattice, a 2^16th of the distance, can carry."""


def choose_row_mechanism(
    *,
    definition: RowDP,
    n: int,
    dim: int,
    half_width: float,
    noise: NoiseSource,
    mechanism: str = "auto",
    cells_per_dimension: int | None = None,
) -> RowMechanism:
    """The mechanism that keeps `definition` with the smallest error; from public numbers only.

    Candidates: `L2Laplace` up to 24 dimensions; `GaussianRows` when 0 < delta < 1/n (a larger delta would
    allow publishing somebody's row); `CellResponse` up to 24 dimensions. The smallest
    `position_error` wins: how far the best linear guess of a coordinate misses a row that is uniform in
    the cube. So Laplace below about eleven dimensions, Gaussian above (given a delta), and
    cells when the distance is so large, against epsilon, that either noise would drown the cube.

    Args:
        definition, dim: see `RowMechanism`.
        n: rows of the table (a public number).
        half_width: rows lie in the public cube [-half_width, half_width]^dim.
        noise: calibrates the Gaussian candidate.
        mechanism: "auto", "l2_laplace", "gaussian" or "randomised_response".
        cells_per_dimension: for randomised response only.

    Raises:
        InvalidParameter: an unknown name, or a mechanism that cannot keep the promise.
    """
    _checks.one_of(mechanism, ("auto", "l2_laplace", "gaussian", "randomised_response"), name="mechanism")
    if cells_per_dimension is not None and mechanism not in ("auto", "randomised_response"):
        raise InvalidParameter("cells_per_dimension needs mechanism='randomised_response'")
    epsilon = definition.epsilon
    fits = {
        "l2_laplace": dim <= 24 and _LAPLACE[0] <= epsilon <= _LAPLACE[1],
        "gaussian": 0.0 < definition.delta * n < 1.0,
        "randomised_response": dim <= 24 and epsilon >= SMALLEST_EPSILON,
    }
    tried = [name for name, fit in fits.items() if fit] if mechanism == "auto" else [mechanism]
    candidates: list[RowMechanism] = []
    if "l2_laplace" in tried:
        candidates.append(L2Laplace(definition=definition, dim=dim))
    if "gaussian" in tried:
        candidates.append(GaussianRows(definition=definition, dim=dim, noise=noise))
    if "randomised_response" in tried:
        candidates.append(
            CellResponse(
                definition=definition, dim=dim, half_width=half_width, cells_per_dimension=cells_per_dimension
            )
        )
    if not candidates:
        raise InvalidParameter(
            f"no mechanism for {dim} dimensions at epsilon {epsilon:g} without a delta below 1/n: set delta"
        )
    return min(candidates, key=lambda candidate: candidate.law.position_error(half_width))
