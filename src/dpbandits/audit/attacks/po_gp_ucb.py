"""The attack on PO-GP-UCB: a release of Kharkovskii2020 reveals the table.

A table X has n rows of d columns; X_c are the centred rows. The release is Z = X_c A, with a random matrix
A.

- `recover_rows` knows at least d + 1 rows in general position, and their numbers in the release. It solves
  for A and inverts it. Because Z is linear in the centred rows, this returns every row, up to rounding.
- `distinguish_by_column_space` knows the whole table except one row, for which it has candidates. It accepts
  a candidate if Z lies in the column space of the table with this candidate.
"""

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData

__all__ = ["distinguish_by_column_space", "recover_rows", "recovery_error"]


def recover_rows(released: FloatArray, known: IntArray, rows: FloatArray) -> FloatArray:
    """Return all rows (n, d) of a table from its release and some known rows.

    Args:
        released: Release Z = X_c A of the table, shape (n, r).
        known: (k,) numbers of the rows that the attacker knows, k >= d + 1.
        rows: (k, d) known rows.

    Returns:
        (n, d) estimates, which are exact if Z = X_c A for any A of full row rank.
    """
    places, positions = np.asarray(known), np.asarray(rows, dtype=np.float64)
    if len(places) != len(positions) or len(places) < positions.shape[1] + 1:
        raise InvalidData(
            f"the attack needs at least {positions.shape[1] + 1} known rows in {positions.shape[1]} columns"
        )
    centre, image = positions.mean(axis=0), released[places].mean(axis=0)
    linear = np.linalg.lstsq(positions - centre, released[places] - image, rcond=None)[0]
    return np.asarray((released - image) @ np.linalg.pinv(linear) + centre)


def recovery_error(released: FloatArray, table: FloatArray, known: IntArray) -> float:
    """Return the largest error of `recover_rows` in any coordinate, relative to the widest column."""
    recovered = recover_rows(released, known, table[known])
    return float(np.abs(recovered - table).max() / np.ptp(table, axis=0).max())


def distinguish_by_column_space(
    released: FloatArray, candidate: FloatArray, *, tolerance: float = 1e-9
) -> bool:
    """Return True if a release can come from a candidate table.

    Its columns then lie in the column space of the centred candidate.
    """
    basis, _ = np.linalg.qr(candidate - candidate.mean(axis=0))
    outside = released - basis @ (basis.T @ released)
    return bool(np.linalg.norm(outside) < tolerance * np.linalg.norm(released))
