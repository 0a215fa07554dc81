"""`State`: the data from which one object continues after a restart."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits.errors import InvalidParameter

__all__ = ["State"]

# Labels appear in reprs, logs and errors, so they are limited to one short printable word.
_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,99}", re.ASCII)

LARGEST_POSITION = 2**63 - 1
"""Largest position of a lineage, which is the largest integer of SQLite."""


@dataclass(frozen=True, kw_only=True, eq=False)
class State:
    """Saved state of one object, after a number of commits.

    The repr shows kind, lineage and position only.

    Args:
        kind: Type of the object, such as "central.GPBandit". Public.
        version: Version of the layout of `public`, `secret` and `arrays` for this kind.
        lineage: Random id of the object, shared by all its copies and saved states. Public.
        position: Number of the object's commits so far. Public.
        public: JSON values that may be shown, such as a configuration. Tuples are read back as lists.
        secret: JSON values that must not be shown, such as raw counts.
        arrays: Arrays of numbers and booleans, by name. Secret.

    Raises:
        InvalidParameter: A label is not a short word, a number is negative, or an array is not numeric.
    """

    kind: str
    version: int
    lineage: str
    position: int
    public: Mapping[str, Any] = field(default_factory=dict, repr=False)
    secret: Mapping[str, Any] = field(default_factory=dict, repr=False)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        for name in ("kind", "lineage"):
            label = getattr(self, name)
            if not isinstance(label, str) or not _LABEL.fullmatch(label):
                raise InvalidParameter(
                    f"{name} must be a word of 1 to 100 letters, digits and the characters _ . : -"
                )
        for name in ("version", "position"):
            number = getattr(self, name)
            if type(number) is not int or not 0 <= number <= LARGEST_POSITION:
                raise InvalidParameter(f"{name} must be an integer from 0 to 2**63 - 1")
        for name in ("public", "secret", "arrays"):
            mapping = getattr(self, name)
            if not isinstance(mapping, Mapping) or not all(isinstance(key, str) for key in mapping):
                raise InvalidParameter(f"{name} must be a mapping whose keys are strings")
        for name, array in self.arrays.items():
            if not _LABEL.fullmatch(name):
                raise InvalidParameter(
                    "names of arrays must be words of 1 to 100 letters, digits and _ . : -"
                )
            if type(array) is not np.ndarray or not is_storable(array.dtype):
                raise InvalidParameter(
                    f"array {name!r} is a {type(array).__name__} with dtype {getattr(array, 'dtype', None)}: "
                    "expected a plain numpy array of booleans, integers or floats of at most 8 bytes"
                )

    def __repr__(self) -> str:
        return f"State(kind={self.kind!r}, lineage={self.lineage!r}, position={self.position})"


def is_storable(dtype: np.dtype[Any]) -> bool:
    """Return True for booleans, integers and floats of at most 8 bytes, which every machine reads alike."""
    return dtype.kind in "biuf" and dtype.itemsize <= 8
