"""Map rows to users, and select the rows of each user that count under a contribution bound."""

from dataclasses import dataclass

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, IntArray
from dpbandits.tables.coded import Coded

__all__ = ["Owners", "earlier_rows", "first_rows"]


@dataclass(frozen=True, eq=False, repr=False)
class Owners:
    """The user of each row. This is raw data.

    Attributes:
        numbers: Number of each row's user (n,); -1 if the row has no valid id.
        texts: Id of each user, by number; see `_checks.person`.
    """

    numbers: IntArray
    texts: list[str]

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def named(self) -> BoolArray:
        """Mask (n,) of the rows that have a user."""
        return np.asarray(self.numbers >= 0)

    @classmethod
    def of(cls, users: object, *, count: int) -> "Owners":
        """Return the users of `count` rows from their ids. A missing or unreadable id gives the number -1.

        Raises:
            InvalidData: `users` is not a list of `count` ids; see `_checks.people`.
        """
        if isinstance(users, Owners) and len(users) == count:
            return users
        if isinstance(users, Coded) and len(users) == count:
            ids, places = users.values.tolist(), users.codes
        else:
            ids, places = _checks.people(users, count=count, what="row"), None
            # Only str or int: comparing ids of other types could run a caller's code.
            if set(map(type, ids)) in ({str}, {int}):
                known = {one: place for place, one in enumerate(dict.fromkeys(ids))}
                places = np.fromiter(map(known.__getitem__, ids), np.int64, len(ids))
                ids = list(known)
        found = list(map(_checks.person_in, ids))
        texts = [text for text in dict.fromkeys(found) if text is not None]
        if len(texts) == len(found):  # every id is distinct
            of_ids = np.arange(len(texts))
        else:
            numbers: dict[str | None, int] = dict(zip(texts, range(len(texts)), strict=True))
            numbers[None] = -1
            of_ids = np.fromiter(map(numbers.__getitem__, found), np.int64, len(found))
        return cls(of_ids if places is None else of_ids[places], texts)


def first_rows(numbers: IntArray, most: int, had: IntArray | int = 0) -> BoolArray:
    """Return True for the first rows of each user, at most `most` of them, shape (n,).

    The result is False for rows without a user: otherwise one user could contribute any number of rows
    without an id.

    Args:
        numbers: Number of each row's user (n,); -1 for a row without a user.
        most: Largest number of rows of a user, `had` included.
        had: Number of earlier rows of each user (users,).
    """
    named = numbers >= 0
    together = np.bincount(numbers[named], minlength=np.size(had)) + had  # some users may have no row here
    kept = np.append(together <= most, False)[numbers]  # index -1 reads the appended False
    rows = np.flatnonzero(~kept & named)  # rows of users with more than `most`
    of = numbers[rows]
    kept[rows] = (had if isinstance(had, int) else had[of]) + earlier_rows(of) < most
    return np.asarray(kept)


def earlier_rows(numbers: IntArray) -> IntArray:
    """Return, for each row (n,), the number of rows of the same user above it."""
    order = np.argsort(numbers, kind="stable")
    earlier = np.empty(len(numbers), dtype=np.int64)
    earlier[order] = np.arange(len(numbers)) - np.searchsorted(numbers[order], numbers[order])
    return earlier
