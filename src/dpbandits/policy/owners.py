"""`Owners`: whose rows these are, every person's id read once; and which of a person's rows count."""

import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, IntArray
from dpbandits.tables.coded import Coded

__all__ = ["Owners", "first_rows"]


@dataclass(frozen=True, eq=False, repr=False)
class Owners:
    """Whose rows these are, every person's id read once. Raw data.

    Attributes:
        numbers: (n,) of the persons, by their first rows or, of a `Coded`, by their place there.
        texts: a person's id, by number; see `_checks.person`.
    """

    numbers: IntArray
    texts: list[str]

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, users: object, *, count: int) -> "Owners":
        """Those whom `count` ids name, one a row.

        Raises:
            InvalidData: a missing id, or one of another type; or as `_checks.people` says.
        """
        if isinstance(users, Owners) and len(users) == count:
            return users
        if isinstance(users, Coded) and len(users) == count:
            rows, places = users.values.tolist(), users.codes
        else:
            rows, places = _checks.people(users, count=count, what="row"), None
            # equal texts, or ints, are one id; of other things equal ones need not be, as 1 and True
            if set(map(type, rows)) in ({str}, {int}):
                known = {one: place for place, one in enumerate(dict.fromkeys(rows))}
                places = np.fromiter(map(known.__getitem__, rows), np.int64, len(rows))
                rows = list(known)
        texts = _persons(rows)
        if places is not None and len(set(texts)) == len(texts):
            return cls(places.astype(np.int64), texts)
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        found = np.fromiter(map(numbers.__getitem__, texts), np.int64, len(texts))
        return cls(found if places is None else found[places], list(numbers))


def _persons(ids: list[Any]) -> list[str]:
    """`_checks.person` of each, at once where all are texts that stand as it would leave them."""
    if set(map(type, ids)) == {str} and all(ids) and list(map(str.strip, ids)) == ids:
        if unicodedata.is_normalized("NFC", "\n".join(ids)):  # nothing composes with a newline
            return ids
    return list(map(_checks.person, ids))


def first_rows(numbers: IntArray, most: int, had: IntArray | int = 0) -> BoolArray:
    """(n,) True for the first rows of every person, as long as none has more than `most` in all.

    Args:
        numbers: (n,) of the rows' persons.
        most: rows a person may have.
        had: (persons,) rows that each has had before.
    """
    together = np.bincount(numbers, minlength=np.size(had)) + had  # some persons may have no row
    kept = (together <= most)[numbers]
    rows = np.flatnonzero(~kept)  # of persons who have too many
    of = numbers[rows]
    order = np.argsort(of, kind="stable")
    earlier = np.empty(len(of), dtype=np.int64)  # rows of the same person that stand before
    earlier[order] = np.arange(len(of)) - np.searchsorted(of[order], of[order])
    kept[rows] = (had if isinstance(had, int) else had[of]) + earlier < most
    return np.asarray(kept)
