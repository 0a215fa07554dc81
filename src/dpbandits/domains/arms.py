"""`Arms`: one column of integer codes for a fixed public list of choices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits._checks import integer
from dpbandits._typing import BoolArray, FloatArray
from dpbandits.domains.protocol import DOMAINS, Domain
from dpbandits.errors import InvalidParameter

__all__ = ["Arms"]


MOST_ARMS = 1 << 16
"""Arms that are told apart; each has a name."""


@DOMAINS.add("Arms")
@dataclass(frozen=True, init=False, repr=False)
class Arms(Domain):
    """Codes 0, 1, ..., n_arms - 1 in one column.

    Args:
        n_or_names: number of arms, or their distinct names in the order of the codes.

    Raises:
        InvalidParameter: no arm, a name that is not a string, or a name used twice.

    Example:
        >>> arms = Arms(["control", "mail", "call"])
        >>> arms.n_arms, arms.names[2]
        (3, 'call')
        >>> arms.contains([[2], [3], [0.5]])
        array([ True, False, False])
    """

    names: tuple[str, ...]

    def __init__(self, n_or_names: int | Sequence[str]) -> None:
        if isinstance(n_or_names, str):
            raise InvalidParameter("n_or_names is one string, expected a number of arms or a list of names")
        if isinstance(n_or_names, Sequence) or np.ndim(n_or_names) == 1:
            names = tuple(n_or_names)  # type: ignore[arg-type]
            if not names or not all(isinstance(arm, str) for arm in names):
                raise InvalidParameter("names of arms must be a non-empty list of strings")
            if len(set(names)) != len(names):
                raise InvalidParameter("names of arms must be distinct")
            names = tuple(str(arm) for arm in names)
        else:
            n_arms = integer(n_or_names, name="n_or_names")
            if n_arms > MOST_ARMS:
                raise InvalidParameter(f"n_or_names: expected at most {MOST_ARMS} arms")
            names = _default_names(n_arms)
        object.__setattr__(self, "names", names)

    @property
    def dim(self) -> int:
        """Always one column."""
        return 1

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self.names)

    @property
    def points(self) -> FloatArray:
        """All codes, (n_arms, 1)."""
        return np.arange(self.n_arms, dtype=np.float64)[:, None]

    def _holds(self, array: FloatArray) -> BoolArray:
        return np.asarray((array >= 0) & (array < self.n_arms) & (np.floor(array) == array))[..., 0]

    def _outside(self, array: FloatArray) -> str:
        return f"has codes that are not arms: expected integers in 0..{self.n_arms - 1}"

    def _nearest(self, array: FloatArray) -> FloatArray:
        """Codes have no order of their own: for repair only."""
        return np.clip(np.rint(array), 0, self.n_arms - 1)

    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.integers(self.n_arms, size=(n, 1)).astype(np.float64)

    def to_config(self) -> dict[str, Any]:
        """JSON-ready description."""
        if self.names == _default_names(self.n_arms):
            return {"type": "Arms", "n_arms": self.n_arms}
        return {"type": "Arms", "names": list(self.names)}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """The number of arms, or their names."""
        return {"n_or_names": config["names"] if "names" in config else config["n_arms"]}

    def __repr__(self) -> str:
        if self.names == _default_names(self.n_arms):
            return f"Arms({self.n_arms})"
        return f"Arms({list(self.names)})"


def _default_names(n_arms: int) -> tuple[str, ...]:
    return tuple(str(code) for code in range(n_arms))
