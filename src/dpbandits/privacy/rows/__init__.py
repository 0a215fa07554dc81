"""Mechanisms that add independent noise to every row of a table and satisfy `RowDP`.

| class | promise for two positions of a row | error of one of d coordinates (root mean square) |
|---|---|---|
| `L2Laplace` | pure epsilon at the stated distance, proportionally more beyond | scale sqrt(d + 1) |
| `GaussianRows` | (epsilon, delta) at the stated distance, rho grows with its square | sigma |
| `CellResponse` | pure epsilon between any two positions | size of a cell, and chance of another cell |

`choose_row_mechanism` returns the mechanism with the smallest error among those that can make the promise.

**Lattice.** Rows are rounded to multiples of a public step h (a power of two). Noise is an integer vector,
and the release a multiple of h, so no float noise is ever added. Rounding changes each coordinate of two
neighbouring rows by at most h/2, so their distance grows by at most h sqrt(d). All noise is calibrated to
distance + h sqrt(d). With h near distance/(2^16 sqrt(d)) this costs 1.5e-5 of epsilon.

**Whole table.** Rows get independent noise. Neighbouring tables differ in one row, so only that row's
distribution differs, and the bound for a row holds for the table.
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
"""Range of epsilon in which the lattice of the Laplace mechanism,
a 2^16th of the distance, is fine enough.
"""


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
    """Return the row mechanism for `definition` with the smallest error, chosen by public numbers only.

    Candidates are `L2Laplace` up to 24 dimensions, `GaussianRows` when 0 < delta < 1/n (a larger delta would
    allow publishing one user's row), and `CellResponse` up to 24 dimensions. The smallest `position_error` is
    chosen: the error of the best linear estimate of a coordinate of a row that is uniform in the cube.
    `L2Laplace` has it below about eleven dimensions, and `GaussianRows` above (given a delta). `CellResponse`
    has it if the distance is so large, relative to epsilon, that additive noise would exceed the cube.

    Args:
        definition: Promise.
        n: Number of rows of the table, which is public.
        dim: Number of coordinates of a row.
        half_width: Half the side of the public cube [-half_width, half_width]^dim that contains all rows.
        noise: Noise source that calibrates the Gaussian candidate.
        mechanism: "auto", "l2_laplace", "gaussian" or "randomised_response".
        cells_per_dimension: Number of cells per dimension, for randomised response only.

    Raises:
        InvalidParameter: The name is unknown, or the mechanism cannot make the promise.
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
