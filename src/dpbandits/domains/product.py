"""`Product`: several domains with their columns concatenated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbandits._calls import worded
from dpbandits._checks import as_points, assign
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.domains.protocol import DOMAINS, Domain
from dpbandits.errors import InvalidData, InvalidParameter

__all__ = ["Product"]


@worded
@DOMAINS.add("Product")
@dataclass(frozen=True, init=False, repr=False)
class Product(Domain):
    """Domain of points whose columns are those of the parts, in order.

    Args:
        *parts: At least one domain. A product among them is replaced by its own parts.

    Raises:
        InvalidParameter: There are no parts, or a part is not a domain.

    Example:
        >>> from dpbandits.domains import Arms, Box
        >>> domain = Product(Box(low=[0], high=[1]), Arms(3))
        >>> domain.dim, domain.slices
        (2, (slice(0, 1, None), slice(1, 2, None)))
        >>> domain.contains([[0.5, 2], [0.5, 3]])
        array([ True, False])
    """

    parts: tuple[Domain, ...]
    slices: tuple[slice, ...] = field(compare=False)

    def __init__(self, *parts: Domain) -> None:
        for part in parts:
            if isinstance(part, type) or not isinstance(part, Domain):
                raise InvalidParameter(
                    f"a part is a {type(part).__name__}, expected a domain such as Box or Arms"
                )
        if not parts:
            raise InvalidParameter("a product needs at least one domain")
        flat = tuple(
            inner for part in parts for inner in (part.parts if isinstance(part, Product) else (part,))
        )
        ends = np.cumsum([part.dim for part in flat]).tolist()
        slices = tuple(slice(end - part.dim, end) for end, part in zip(ends, flat, strict=True))
        assign(self, parts=flat, slices=slices)

    @property
    def dim(self) -> int:
        """Total number of columns of all parts."""
        return int(self.slices[-1].stop)

    def validate(self, points: ArrayLike, *, name: str = "candidates") -> FloatArray:
        """Validate points as `Domain.validate` does. The error names the columns of the part that refuses."""
        array = as_points(points, self.dim, name=name)
        for part, columns in zip(self.parts, self.slices, strict=True):
            try:
                part.validate(array[..., columns], name="it")
            except InvalidData as error:
                where = f"{name}, columns {columns.start} to {columns.stop - 1}"
                raise InvalidData(f"{where}: {error}") from None
        return array

    def _holds(self, array: FloatArray) -> BoolArray:
        parts = zip(self.parts, self.slices, strict=True)
        inside = [part.contains(array[..., columns]) for part, columns in parts]
        return np.asarray(np.logical_and.reduce(inside))

    def _nearest(self, array: FloatArray) -> FloatArray:
        return self._join(lambda part, columns: part.clip(array[..., columns]))

    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        return self._join(lambda part, _: part.sample(n, rng))

    def _join(self, columns_of: Callable[[Domain, slice], FloatArray]) -> FloatArray:
        return np.concatenate(
            [columns_of(part, columns) for part, columns in zip(self.parts, self.slices, strict=True)],
            axis=-1,
        )

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Rebuild a product from `to_config()`."""
        return cls(*DOMAINS.read_all(cls.arguments(config)["parts"]))

    def __repr__(self) -> str:
        return f"Product({', '.join(map(repr, self.parts))})"
