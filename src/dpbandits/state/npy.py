"""Arrays as .npy bytes, read without trusting their header.

Writing gives the same bytes as `numpy.save(..., allow_pickle=False)`. Reading matches the header against a
strict pattern for numeric arrays. NumPy's own parser is not used, because it evaluates a Python literal, and
allocates memory for any shape that this literal contains.
"""

import hashlib
import io
import math
import re
import struct
from typing import Any, BinaryIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from dpbandits.errors import CorruptState

# Version 1.0, which NumPy writes for every header below 64 KiB. Ours have 128 to 1,500 bytes.
_PREFIX = struct.Struct("<8sH")
_MAGIC = npy.magic(1, 0)
_MAX_HEADER = 4096
_HEADER = re.compile(
    rb"\{'descr': '([<>|][biuf][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,19}(?:, [0-9]{1,19})*,?)?)\), \} *\n"
)


def to_npy(array: NDArray[Any]) -> bytes:
    """Return the array as the bytes of a .npy file, in C order."""
    buffer = io.BytesIO()
    npy.write_array(buffer, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def from_npy(data: bytes, *, name: str) -> NDArray[Any]:
    """Return the array that the bytes of a whole .npy file hold.

    Raises:
        CorruptState: The bytes are not a numeric array in C order.
    """
    return read_npy(io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest(), name=name)


def read_npy(file: BinaryIO, n_bytes: int, digest: str, *, name: str) -> NDArray[Any]:
    """Return the array in the next `n_bytes` bytes of `file`, whose SHA-256 must be `digest`.

    Memory for the array is allocated only after its shape was found to fill these bytes exactly.

    Raises:
        CorruptState: The bytes are not a numeric array of this size and digest.
    """
    refused = CorruptState(f"array {name!r} is damaged or not numeric: restore its file from a backup")
    head = file.read(min(n_bytes, _MAX_HEADER))
    parsed = _parse(head)
    if parsed is None:
        raise refused
    dtype, shape, start = parsed
    if start + math.prod(shape) * dtype.itemsize != n_bytes:
        raise refused
    body = np.empty(n_bytes - start, dtype=np.uint8)
    body[: len(head) - start] = np.frombuffer(head, dtype=np.uint8, offset=start)
    rest = body.data[len(head) - start :]
    if file.readinto(rest) != len(rest):  # type: ignore[attr-defined]
        raise refused
    checksum = hashlib.sha256(head[:start])
    checksum.update(body.data)
    # A byte of 2 is not a valid boolean.
    if checksum.hexdigest() != digest or (dtype.kind == "b" and body.max(initial=0) > 1):
        raise refused
    try:
        return body.view(dtype).reshape(shape)
    except (ValueError, OverflowError):  # more or larger dimensions than NumPy allows
        raise refused from None


def _parse(head: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int] | None:
    """Return data type, shape and length of a header; None for a header that `to_npy` does not write."""
    if len(head) < _PREFIX.size:
        return None
    magic, length = _PREFIX.unpack_from(head)
    match = _HEADER.fullmatch(head, _PREFIX.size, _PREFIX.size + length)
    if magic != _MAGIC or match is None or match.end() != _PREFIX.size + length:
        return None
    try:
        dtype = np.dtype(match[1].decode("ascii"))
    except TypeError:  # for example, a boolean of 4 bytes
        return None
    return dtype, tuple(int(size) for size in match[2].replace(b",", b" ").split()), match.end()
