"""What targets are made of: a parser of bytes with seeds, folders in memory, files with right checksums."""

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dpbandits.errors import DPBanditsError
from dpbandits.state import State
from dpbandits.state.format import FORMAT_VERSION, MAGIC, PREFIX, decode, encode

__all__ = [
    "Target",
    "any_json",
    "as_json",
    "as_text",
    "decoded",
    "forged_file",
    "header_of",
    "listed_arrays",
    "new_folder",
    "whole_file",
]


@dataclass(frozen=True, kw_only=True)
class Target:
    """One parser.

    Args:
        parse: takes any bytes; raises only for what a parser must never do.
        seeds: inputs that it accepts.
        form: whether mutations work on JSON or on bytes.
        drops: whether it passes over what it cannot take, as a server does, and refuses nothing.
    """

    parse: Callable[[bytes], object]
    seeds: tuple[bytes, ...]
    form: Literal["json", "bytes"]
    drops: bool = False

    def __call__(self, data: bytes) -> bool:
        """Whether the parser took the bytes; anything but its own errors comes through."""
        try:
            self.parse(data)
        except DPBanditsError:
            return False
        return True


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def as_text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def new_folder() -> Path:
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - memory, not a known name
    return Path(tempfile.mkdtemp(prefix="dpbandits-fuzz-", dir=place))


def any_json(build: Callable[[Any], object]) -> Callable[[bytes], object]:
    """A parser of configurations: what is not JSON never reaches it."""

    def parse(data: bytes) -> object:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return build(value)

    return parse


def decoded(data: bytes) -> tuple[State, str]:
    return decode(io.BytesIO(data), len(data))


def header_of(data: bytes) -> bytes:
    return data[PREFIX.size : PREFIX.size + PREFIX.unpack_from(data)[2]]


def forged_file(header: bytes, payload: bytes) -> bytes:
    prefix = PREFIX.pack(MAGIC, FORMAT_VERSION, len(header), hashlib.sha256(header).digest())
    return prefix + header + payload


def listed_arrays(state: State) -> dict[str, Any]:
    """A state's arrays as JSON."""
    return {
        name: {"dtype": array.dtype.str, "shape": list(array.shape), "values": array.ravel().tolist()}
        for name, array in state.arrays.items()
    }


def whole_file(data: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Header and bytes of the state file that JSON with listed arrays describes; None where there is none."""
    try:
        fields = json.loads(data)
        arrays = {
            name: np.array(entry["values"], dtype=entry["dtype"]).reshape(entry["shape"])
            for name, entry in fields["arrays"].items()
        }
        state = State(**{**fields, "arrays": arrays})
    except (
        DPBanditsError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
        DeprecationWarning,  # an alias of a data type, where warnings are errors
        SyntaxError,  # NumPy's own reader of data types
        MemoryError,  # which takes "(64,1649,360592)u1" for one
    ):
        return None
    return fields, encode(state)[0]
