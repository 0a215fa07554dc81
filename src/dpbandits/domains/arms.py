"""`Arms`: one column of integer codes for a fixed public list of choices."""

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dpbandits._cells import code_of, codes_by_value, codes_of
from dpbandits._checks import assign, integer
from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.protocol import DOMAINS, Domain
from dpbandits.errors import InvalidParameter

__all__ = ["Arms", "Label"]

Label = str | int | float | bool
"""Type of an arm's label: a value that JSON preserves."""

MOST_ARMS = 1 << 16
"""Largest number of arms."""

LARGEST_WHOLE = 1 << 53
"""Largest whole number that is a label: every reader of JSON preserves whole numbers up to it."""


@DOMAINS.add("Arms")
@dataclass(frozen=True, init=False, repr=False)
class Arms(Domain):
    """Codes 0, 1, ..., n_arms - 1 in one column.

    Args:
        n_or_names: Number of arms, or their labels in the order of the codes: texts, numbers or booleans. No
            two labels may have the same value, as 1, 1.0, True, "1" and "01" have. If a label is spelled
            like a missing value ("none"), a missing cell of a table has this label.

    Raises:
        InvalidParameter: There is no arm, a label has another type, or two labels have the same value.

    Example:
        >>> arms = Arms(["control", "mail", "call"])
        >>> arms.n_arms, arms.names[2]
        (3, 'call')
        >>> arms.contains([[2], [3], [0.5]])
        array([ True, False, False])
        >>> Arms([0, 2.5, "none"]).code(2.5)
        1
    """

    labels: tuple[Label, ...]
    _codes: Mapping[object, int] = field(compare=False)
    _exact: Mapping[type, Mapping[object, int]] = field(compare=False)

    def __init__(self, n_or_names: int | Sequence[Label]) -> None:
        if isinstance(n_or_names, str):
            raise InvalidParameter("n_or_names is one string, expected a number of arms or a list of labels")
        if isinstance(n_or_names, Sequence) or np.ndim(n_or_names) == 1:
            labels = tuple(_label(given) for given in n_or_names)  # type: ignore[union-attr]
        else:
            n_arms = integer(n_or_names, name="n_or_names")
            labels = _default_labels(n_arms) if n_arms <= MOST_ARMS else ()
        if not 1 <= len(labels) <= MOST_ARMS:
            raise InvalidParameter(f"expected from 1 to {MOST_ARMS} arms")
        try:
            codes = codes_by_value(labels)
        except ValueError:
            raise InvalidParameter(
                "two arms have labels with the same value (as 1, True and '01') or both are spelled like a "
                "missing value, or a label is a number beyond 2^53, which readers may round. List each label "
                "once, and no number beyond 2^53"
            ) from None
        exact: dict[type, dict[object, int]] = {}
        for code, label in enumerate(labels):
            exact.setdefault(type(label), {})[label] = code
        assign(self, labels=labels, _codes=codes, _exact=exact)

    @property
    def names(self) -> tuple[str, ...]:
        """Labels of the arms as texts."""
        return tuple(map(str, self.labels))

    def code(self, label: object) -> int:
        """Return the code of a label, compared by value; -1 for any object that is not a label."""
        return code_of(label, self._codes)

    def codes(self, labels: Any) -> IntArray:
        """Return the `code` of each label (n,) in a list, an array or a column of a data frame.

        Labels that are all of one type and spelled as the arms' are looked up, without reading their values.
        """
        listed = labels.tolist() if type(labels) is np.ndarray and labels.dtype.kind == "U" else labels
        if type(listed) in {list, tuple}:
            kinds = set(map(type, listed))
            exact = self._exact.get(kinds.pop()) if len(kinds) == 1 else None
            found = [] if exact is None else list(map(exact.get, listed))
            if found and None not in found:
                return np.array(found, dtype=np.int64)
        return codes_of(labels, self._codes)

    @staticmethod
    def listed(labels: Any) -> Any:
        """Return labels in any iterable as a list or an array (n,) for `codes`; none for a text."""
        if isinstance(labels, str | bytes):
            return []
        return labels if isinstance(labels, np.ndarray) and labels.ndim == 1 else list(labels)

    @property
    def dim(self) -> int:
        """Number of columns, which is 1."""
        return 1

    @property
    def n_arms(self) -> int:
        """Number of arms."""
        return len(self.labels)

    @property
    def points(self) -> FloatArray:
        """All codes as points (n_arms, 1)."""
        return np.arange(self.n_arms, dtype=np.float64)[:, None]

    def _holds(self, array: FloatArray) -> BoolArray:
        return np.asarray((array >= 0) & (array < self.n_arms) & (np.floor(array) == array))[..., 0]

    def _outside(self, array: FloatArray) -> str:
        return f"has codes that are not arms: expected integers in 0..{self.n_arms - 1}"

    def _nearest(self, array: FloatArray) -> FloatArray:
        """Round to a code. Codes have no order, so this only makes points valid."""
        return np.clip(np.rint(array), 0, self.n_arms - 1)

    def _drawn(self, n: int, rng: np.random.Generator) -> FloatArray:
        return rng.integers(self.n_arms, size=(n, 1)).astype(np.float64)

    def to_config(self) -> dict[str, Any]:
        """Return the arms as a JSON-ready dictionary."""
        if self.labels == _default_labels(self.n_arms):
            return {"type": "Arms", "n_arms": self.n_arms}
        return {"type": "Arms", "names": list(self.labels)}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """Return the constructor's argument: the number of arms, or their labels."""
        return {"n_or_names": config["names"] if "names" in config else config["n_arms"]}

    def __repr__(self) -> str:
        if self.labels == _default_labels(self.n_arms):
            return f"Arms({self.n_arms})"
        return f"Arms({list(self.labels)})"


def _label(given: object) -> Label:
    """Return a label as it is after writing and reading JSON: without subclasses, NumPy types and -0.0."""
    with reading("the label of an arm"):
        if isinstance(given, np.generic):
            given = given.item()
        if isinstance(given, str):
            return str.__str__(given)
        if isinstance(given, bool):
            return given
        if isinstance(given, numbers.Integral) and abs(int(given)) <= LARGEST_WHOLE:
            return int(given)
        if isinstance(given, float) and math.isfinite(given):
            return float(given) + 0.0
        raise InvalidParameter(
            f"a label is a {type(given).__name__}, expected a text, a boolean, a finite float or a whole "
            "number up to 2^53"
        )


def _default_labels(n_arms: int) -> tuple[str, ...]:
    return tuple(str(code) for code in range(n_arms))
