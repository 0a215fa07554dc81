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

from dpbandits.privacy.rows.base import RowMechanism
from dpbandits.privacy.rows.cells import CellResponse
from dpbandits.privacy.rows.choice import choose_row_mechanism
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
