"""`Coded`: a column as its different values and the place of each row's among them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Coded"]

ObjectArray = NDArray[Any]  # of objects


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column that is read by its values and not by its rows, of which there may be millions: raw data.

    numpy reads it as an array of the rows' values.

    Attributes:
        codes: (n,) integers, a row's place in `values`.
        values: (k,) what the rows hold, None for a missing value; two of them may be equal.
    """

    codes: NDArray[np.integer[Any]]
    values: ObjectArray

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
        """(n,) what stands in (k,) for each row's value."""
        return np.asarray(np.asarray(per_value)[self.codes])

    def tolist(self) -> list[Any]:
        """The rows' values."""
        return list(self.spread(self.values).tolist())
