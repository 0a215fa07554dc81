"""What the curator takes from the table once, and the directory where it keeps its side."""

import os
import stat
from pathlib import Path

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidData, ProtocolError
from dpbandits.privacy.words import Words
from dpbandits.tables.frames import read_table

__all__ = ["objective_column", "own_ids", "permutation", "secret_directory"]


def secret_directory(path: str | os.PathLike[str], *, new: bool) -> Path:
    """The directory, which is the owner's alone.

    Raises:
        FileNotFoundError: there is none, and none is to be made.
        ProtocolError: others may read it.
    """
    folder = Path(path)
    if new:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not folder.is_dir():
        raise FileNotFoundError("there is no secret directory at this path")
    if stat.S_IMODE(folder.stat().st_mode) & 0o077:
        raise ProtocolError("the secret directory is open to other users: make it mode 700 first")
    return folder


def own_ids(table: object, name: str, n: int) -> list[str]:
    """The rows' own ids as text, all different."""
    frame = read_table(table)
    if name not in frame.names:
        raise InvalidData(f"the table lacks the id column {name!r}")
    values = [str(value) for value in frame.column(name).tolist()]
    if len(values) != n:
        raise InvalidData("the id column has another length than the table")
    if len(set(values)) != n:
        raise InvalidData(f"the id column {name!r} has duplicates: each row needs its own id")
    return values


def objective_column(table: object, name: str, n: int) -> FloatArray:
    """(n,) finite answers from a column."""
    frame = read_table(table)
    if name not in frame.names:
        raise InvalidData(f"the table lacks the objective's column {name!r}")
    try:
        values = np.asarray(frame.column(name).tolist(), dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidData(f"the objective's column {name!r} holds something else than numbers") from None
    if values.shape != (n,) or not np.isfinite(values).all():
        raise InvalidData(f"the objective's column {name!r} has missing or infinite values: drop these rows")
    return values


def permutation(n: int, words: Words) -> IntArray:
    """A uniformly random order: sorts random words, drawn again on a tie."""
    while True:
        keys = words(n)
        order = np.argsort(keys)
        if not (np.diff(keys[order].view(np.int64)) == 0).any():
            return order.astype(np.int64)
