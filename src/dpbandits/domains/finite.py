"""`Finite`: a public list of n points. Membership is exact and takes O(log n) for each point."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import worded
from dpbandits._checks import assign, public_array
from dpbandits._config import Valued
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.protocol import DOMAINS, Domain
from dpbandits.errors import InvalidParameter

__all__ = ["Finite"]

_KeyArray = np.ndarray[tuple[int], np.dtype[np.void]]
"""Type of rows as bytes (n,), which NumPy can sort and search."""


@worded
@DOMAINS.add("Finite")
@dataclass(frozen=True, init=False, eq=False, repr=False)
class Finite(Valued, Domain):
    """A finite public set of distinct points.

    Membership is exact equality of float64 rows, with -0.0 equal to 0.0.

    Args:
        points: Distinct points (n, d). `index` returns row numbers of this array.

    Raises:
        InvalidParameter: The array is empty, has a number that is not finite, or has a point twice.

    Example:
        >>> pool = Finite(points=[[0.0, 1.0], [2.0, 3.0]])
        >>> pool.index([[2.0, 3.0]])
        array([1])
    """

    points: FloatArray
    _sorted_keys: _KeyArray
    _order: IntArray

    def __init__(self, points: ArrayLike) -> None:
        array = public_array(points, name="points", ndim=2)
        if np.unique(array, axis=0).shape != array.shape:
            raise InvalidParameter("points has the same point twice: list each point once")
        keys = _keys(array)
        order = np.argsort(keys)
        assign(self, points=array, _sorted_keys=keys[order], _order=order)

    @property
    def dim(self) -> int:
        """Number of columns."""
        return int(self.points.shape[1])

    @property
    def n_points(self) -> int:
        """Number of points."""
        return int(self.points.shape[0])

    def _holds(self, array: FloatArray) -> BoolArray:
        return self._lookup(array)[1]

    def _outside(self, array: FloatArray) -> str:
        return (
            f"has points that are not among the {self.n_points} of the finite domain: pass exact members, or "
            "replace points by their nearest members with domain.clip"
        )

    def index(self, points: ArrayLike) -> IntArray:
        """Return the row numbers (...) of members (..., d).

        Raises:
            InvalidData: A point is not a member.
        """
        array = self.validate(points, name="points")
        return self._lookup(array)[0]

    def _nearest(self, array: FloatArray) -> FloatArray:
        """Return the nearest members by Euclidean distance."""
        from scipy.spatial import KDTree

        _, nearest = KDTree(self.points).query(array.reshape(-1, self.dim))
        return np.reshape(self.points[nearest], array.shape)

    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self.points[rng.integers(self.n_points, size=n)]

    def _lookup(self, array: FloatArray) -> tuple[IntArray, BoolArray]:
        """Return the row number (...) of each point, and True (...) for each point that is a member.

        The row number of a point that is not a member has no meaning.
        """
        flat = array.reshape(-1, self.dim)
        slot = np.searchsorted(self._sorted_keys, _keys(flat))
        rows = self._order[np.minimum(slot, self.n_points - 1)]
        found = (self.points[rows] == flat).all(axis=1)
        return rows.reshape(array.shape[:-1]), found.reshape(array.shape[:-1])

    def __repr__(self) -> str:
        return f"Finite({self.n_points} points in {self.dim} dimensions)"


def _keys(points: FloatArray) -> _KeyArray:
    rows = np.ascontiguousarray(points + 0.0)  # gives -0.0 and 0.0 the same key
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel()
