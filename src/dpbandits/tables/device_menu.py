"""Contexts and arms as clients read them: numbers are clipped to their ranges, and no context is refused.

This module needs only NumPy and the standard library, as clients import it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._typing import BoolArray, FloatArray
from dpbandits.domains import Arms
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidData
from dpbandits.tables import Actions, Schema
from dpbandits.tables.menu import Menu

__all__ = ["DeviceMenu", "offered"]


def offered(available: Any, arms: Arms, actions: Actions | None = None) -> BoolArray | None:
    """Return True for each of K arms that is available, shape (K,); None if `available` cannot be read.

    All arms are available if `available` is None. Actions of several columns are dicts, as clients get them.
    """
    mask = np.zeros(arms.n_arms, dtype=np.bool_)
    if available is None:
        return ~mask
    try:
        if actions is not None and len(actions.sizes) > 1:
            known, names = actions.choices, arms.labels
            available = [names[known.index(one)] if isinstance(one, dict) else one for one in available]
        codes = arms.codes(arms.listed(available))
    except Exception:  # noqa: BLE001 - as in `DeviceMenu.read`
        return None
    if not len(codes) or codes.min() < 0:
        return None
    mask[codes] = True
    return mask


class DeviceMenu(Menu):
    """A menu that never refuses a context; its menu `strict` follows the schema's own rules.

    Args:
        contexts, arms: As for `Menu`.
    """

    def __init__(self, *, contexts: Schema, arms: Sequence[Label] | Arms) -> None:
        self.strict = Menu(contexts=contexts, arms=arms)
        clipping = {name: column.clipping() for name, column in contexts.columns.items()}
        super().__init__(contexts=Schema(**clipping), arms=self.strict.arms)
        sizes = [
            [part.n_arms] if isinstance(part, Arms) else [0] * part.dim for part in contexts.domain.parts
        ]
        self._sizes = np.array([size for some in sizes for size in some], dtype=np.float64)

    def read(self, context: Any) -> tuple[FloatArray | None, bool]:
        """Return the encoded context (d,), or None if it cannot be read; and True if it was clipped."""
        try:
            point, inside = self.point(context), self.strict.point(context)
        except Exception:  # noqa: BLE001 - an exception from the app's object could reveal its content
            return None, False
        if np.isnan(point).any():
            return None, False
        return point, bool(np.isnan(inside).any())

    def misnamed(self, context: Any) -> bool:
        """Return True if a dict lacks a column and has a key that is none, as after a misspelling."""
        try:
            names, known = set(context.keys()), set(self.contexts.names)
            return bool(names - known) and bool(known - names)
        except Exception:  # noqa: BLE001 - as in `read`
            return False

    @property
    def middle(self) -> FloatArray:
        """Encoded context (d,) that replaces a missing one.

        It is the middle of each range and of each list of categories.
        """
        return np.where(self._sizes > 0, np.floor(self._sizes / 2.0), 0.5)

    def in_cube(self, points: FloatArray) -> FloatArray:
        """Return encoded contexts (..., d) as points of the unit cube.

        A category becomes the middle of its part.
        """
        shifted = points + np.where(self._sizes > 0, 0.5, 0.0)
        return np.asarray(np.clip(shifted / np.maximum(self._sizes, 1.0), 0.0, 1.0))

    def refuse_unread(self, context: Any) -> None:
        """Raise InvalidData for a context that would be clipped or would count as missing.

        See `Contract.check`.
        """
        found = self.check(context)
        if found.rows != 1 or not found.sound:
            raise InvalidData(f"context: {found}")
