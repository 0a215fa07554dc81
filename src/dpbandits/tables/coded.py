"""`Coded`: a column stored as its distinct values and each row's place among them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpbandits._numpy import np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Coded"]


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column of n rows stored as k values, so that each value is parsed only once. This is raw data.

    NumPy converts it to the array of the rows' values.

    Attributes:
        codes: Place of each row's value in `values`, shape (n,).
        values: Values of the rows, shape (k,), None for a missing one. Two of them may be equal.
    """

    codes: NDArray[np.integer[Any]]
    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.codes)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def __getitem__(self, row: Any) -> Any:
        return self.values[self.codes[row]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001
        rows = self.spread(self.values)
        return rows if dtype is None else rows.astype(dtype)

    def spread(self, per_value: ArrayLike) -> NDArray[Any]:
        """Return, for each row (n,), the entry of `per_value` (k,) that belongs to the row's value."""
        return np.asarray(np.asarray(per_value)[self.codes])

    def tolist(self) -> list[Any]:
        """Return the rows' values as a list."""
        return list(self.spread(self.values).tolist())
