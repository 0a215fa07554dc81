"""Map rows to persons, and select the rows of each person that count."""

from dataclasses import dataclass

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, IntArray
from dpbandits.tables.coded import Coded

__all__ = ["Owners", "first_rows"]


@dataclass(frozen=True, eq=False, repr=False)
class Owners:
    """The person of each row. Raw data.

    Attributes:
        numbers: (n,) number of each row's person, -1 if its id names nobody.
        texts: id of each person, by number; see `_checks.person`.
    """

    numbers: IntArray
    texts: list[str]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def named(self) -> BoolArray:
        """(n,) which rows have a person."""
        return np.asarray(self.numbers >= 0)

    @classmethod
    def of(cls, users: object, *, count: int) -> "Owners":
        """Read one user id per row. A missing or unreadable id gives -1.

        Raises:
            InvalidData: no list of ids, or another number of them; see `_checks.people`.
        """
        if isinstance(users, Owners) and len(users) == count:
            return users
        if isinstance(users, Coded) and len(users) == count:
            ids, places = users.values.tolist(), users.codes
        else:
            ids, places = _checks.people(users, count=count, what="row"), None
            # comparing ids of other types could run a caller's code
            if set(map(type, ids)) in ({str}, {int}):
                known = {one: place for place, one in enumerate(dict.fromkeys(ids))}
                places = np.fromiter(map(known.__getitem__, ids), np.int64, len(ids))
                ids = list(known)
        found = list(map(_checks.person_in, ids))
        texts = [text for text in dict.fromkeys(found) if text is not None]
        if len(texts) == len(found):  # each id is another person
            of_ids = np.arange(len(texts))
        else:
            numbers: dict[str | None, int] = dict(zip(texts, range(len(texts)), strict=True))
            numbers[None] = -1
            of_ids = np.fromiter(map(numbers.__getitem__, found), np.int64, len(found))
        return cls(of_ids if places is None else of_ids[places], texts)


def first_rows(numbers: IntArray, most: int, had: IntArray | int = 0) -> BoolArray:
    """(n,) True for the first rows of every person, up to `most` in all.

    Rows without a person are not kept: otherwise one person could bring any number of rows without an id.

    Args:
        numbers: (n,) number of each row's person, -1 for nobody.
        most: largest number of rows per person.
        had: (persons,) earlier rows of each person.
    """
    named = numbers >= 0
    together = np.bincount(numbers[named], minlength=np.size(had)) + had  # some persons may have no row
    kept = np.append(together <= most, False)[numbers]
    rows = np.flatnonzero(~kept & named)  # of persons who have too many
    of = numbers[rows]
    order = np.argsort(of, kind="stable")
    earlier = np.empty(len(of), dtype=np.int64)  # rows of the same person that stand before
    earlier[order] = np.arange(len(of)) - np.searchsorted(of[order], of[order])
    kept[rows] = (had if isinstance(had, int) else had[of]) + earlier < most
    return np.asarray(kept)
