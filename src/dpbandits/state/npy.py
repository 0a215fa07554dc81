"""Arrays as .npy bytes, read without trusting a word of their header.

What is written is what `numpy.save(..., allow_pickle=False)` writes. The header is read by a strict
pattern for plain numeric arrays rather than by numpy's parser, which evaluates a Python literal and
allocates by the shape it finds.
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

# Version 1.0, which numpy writes for every header below 64 KiB; ours take 128 to 1,500 bytes.
_PREFIX = struct.Struct("<8sH")
_MAGIC = npy.magic(1, 0)
_MAX_HEADER = 4096
_HEADER = re.compile(
    rb"\{'descr': '([<>|][biuf][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:[0-9]{1,19}(?:, [0-9]{1,19})*,?)?)\), \} *\n"
)


def to_npy(array: NDArray[Any]) -> bytes:
    """The array in C order as the bytes of a .npy file."""
    buffer = io.BytesIO()
    npy.write_array(buffer, np.asarray(array, order="C"), version=(1, 0), allow_pickle=False)
    return buffer.getvalue()


def from_npy(data: bytes, *, name: str) -> NDArray[Any]:
    """Return the array of a whole .npy file; CorruptState if it is no numeric array in C order."""
    return read_npy(io.BytesIO(data), len(data), hashlib.sha256(data).hexdigest(), name=name)


def read_npy(file: BinaryIO, n_bytes: int, digest: str, *, name: str) -> NDArray[Any]:
    """The array in the next `n_bytes` bytes of `file`, whose SHA-256 must be `digest`.

    Nothing is allocated before the header's shape has been found to fill these bytes exactly.

    Raises:
        CorruptState: the bytes are no numeric array of that size and digest.
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
    # A boolean of 2 would be neither True nor False.
    if checksum.hexdigest() != digest or (dtype.kind == "b" and body.max(initial=0) > 1):
        raise refused
    try:
        return body.view(dtype).reshape(shape)
    except (ValueError, OverflowError):  # more or larger dimensions than numpy has
        raise refused from None


def _parse(head: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int] | None:
    """Data type, shape and length of the header, or None where it is not one of ours."""
    if len(head) < _PREFIX.size:
        return None
    magic, length = _PREFIX.unpack_from(head)
    match = _HEADER.fullmatch(head, _PREFIX.size, _PREFIX.size + length)
    if magic != _MAGIC or match is None or match.end() != _PREFIX.size + length:
        return None
    try:
        dtype = np.dtype(match[1].decode("ascii"))
    except TypeError:  # such as an integer-sized boolean
        return None
    return dtype, tuple(int(size) for size in match[2].replace(b",", b" ").split()), match.end()
