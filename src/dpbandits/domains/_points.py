"""Turning what a caller passed into an array of points, with messages that never show a value."""

import operator
from typing import SupportsIndex

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidData, InvalidParameter


def as_points(points: ArrayLike, dim: int, *, name: str) -> FloatArray:
    """`points` as C-contiguous float64 of shape (..., dim), not yet checked for NaN or range.

    Raises:
        InvalidData: not numeric, ragged, masked, a data frame, or the last axis is not `dim`.
    """
    array = as_numbers(points, name=name)
    if array.ndim == 0 or array.shape[-1] != dim:
        hint = f"; reshape it to ({array.shape[0]}, 1)" if dim == 1 and array.ndim == 1 else ""
        raise InvalidData(
            f"{name} has shape {array.shape}, expected (..., {dim}): one column per dimension{hint}"
        )
    return array


def as_numbers(values: ArrayLike, *, name: str) -> FloatArray:
    """`values` as C-contiguous float64 of any shape; integers and floats only."""
    if hasattr(type(values), "columns") or hasattr(type(values), "column_names"):
        raise InvalidData(
            f"{name} is a data frame: pass schema.encode(frame), so that public bounds scale it"
        )
    if isinstance(values, np.ma.MaskedArray):
        raise InvalidData(f"{name} is a masked array: fill or drop the masked entries first")
    try:
        raw: NDArray[np.generic] = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise InvalidData(f"{name} ({type(values).__name__}) is ragged or not numeric") from None
    if raw.dtype.kind not in "iuf":
        raise InvalidData(f"{name} has dtype {raw.dtype.name}, expected integers or floats")
    # Not np.ascontiguousarray: it would turn a scalar into shape (1,).
    with np.errstate(over="ignore"):  # a long double may become infinite, which is refused later
        return np.asarray(raw, dtype=np.float64, order="C")


def require_finite(array: FloatArray, *, name: str) -> None:
    """Raise InvalidData where an entry is NaN or infinite."""
    if not np.isfinite(array).all():
        raise InvalidData(f"{name} contains NaN or infinite entries: drop or repair them first")


def public_array(values: ArrayLike, *, name: str, ndim: int) -> FloatArray:
    """A read-only copy of a public constructor argument; InvalidParameter where it does not fit."""
    try:
        array = np.array(as_numbers(values, name=name), dtype=np.float64, order="C")
    except InvalidData as error:
        raise InvalidParameter(str(error)) from None
    if array.ndim != ndim or array.size == 0 or not np.isfinite(array).all():
        raise InvalidParameter(
            f"{name} has shape {array.shape}, expected a non-empty array of finite numbers with {ndim} axes"
        )
    array += 0.0  # -0.0 becomes 0.0, so that equal domains have equal bytes
    array.flags.writeable = False
    return array


def count(n: SupportsIndex, *, name: str, minimum: int) -> int:
    """`n` as an int of at least `minimum`; floats and booleans are refused."""
    if isinstance(n, (bool, np.bool_)):
        raise InvalidParameter(f"{name} is a boolean, expected an integer of at least {minimum}")
    try:
        value = operator.index(n)
    except TypeError:
        raise InvalidParameter(
            f"{name} is a {type(n).__name__}, expected an integer of at least {minimum}"
        ) from None
    if value < minimum:
        raise InvalidParameter(f"{name} is {value}, expected an integer of at least {minimum}")
    return value
