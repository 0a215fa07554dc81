"""The bytes of a `DurableServer`'s log: records chained by digests, one lock, writes through to disk."""

import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dpbandits.errors import CorruptState, StateError

__all__ = [
    "ABSORB",
    "COUNT",
    "DIGEST_BYTES",
    "FRAME",
    "MERGE",
    "PUBLISH",
    "SOURCE",
    "STARTED",
    "TARGET",
    "Mark",
    "batch_of",
    "damaged",
    "digest_of",
    "held",
    "overwrite",
    "records_in",
]

ABSORB, PUBLISH, MERGE, SOURCE, TARGET, STARTED = b"A", b"P", b"M", b"S", b"T", b"V"
_KINDS = (ABSORB, PUBLISH, MERGE, SOURCE, TARGET, STARTED)

FRAME = struct.Struct("<Qc")
COUNT = struct.Struct("<I")
DIGEST_BYTES = 32


class Mark(NamedTuple):
    """How far the log reaches, and the digest of its last record."""

    length: int
    digest: bytes


def held(path: Path) -> int:
    """The lock's descriptor, locked; the system frees it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StateError("another server uses this folder, or its file system has no locks") from None
    return descriptor


def overwrite(path: Path, offset: int, data: bytes) -> None:
    """Cut the file at `offset`, write there, through to disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.ftruncate(descriptor, offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def records_in(data: bytes, at: Mark) -> Iterator[tuple[bytes, bytes, Mark]]:
    """Kind, content and where the log stands after each record; CorruptState where one is no record."""
    while at.length < len(data):
        start = at.length
        if start + FRAME.size > len(data):
            raise damaged()
        size, kind = FRAME.unpack_from(data, start)
        stop = start + FRAME.size + size
        if stop + DIGEST_BYTES > len(data) or kind not in _KINDS:
            raise damaged()
        digest = hashlib.sha256(at.digest + data[start:stop]).digest()
        if digest != data[stop : stop + DIGEST_BYTES]:
            raise damaged()
        at = Mark(stop + DIGEST_BYTES, digest)
        yield kind, data[start + FRAME.size : stop], at


def batch_of(content: bytes) -> list[bytes]:
    """Reports as they came; the record's digest has vouched for the content."""
    (count,) = COUNT.unpack_from(content, 0)
    start = COUNT.size * (count + 1)
    reports = []
    for index in range(count):
        (size,) = COUNT.unpack_from(content, COUNT.size * (index + 1))
        reports.append(content[start : start + size])
        start += size
    return reports


def digest_of(policy: object) -> bytes:
    """Digest of a published policy's numbers, bit for bit."""
    digest = hashlib.sha256()
    for name, value in sorted(vars(policy).items()):
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype} {value.shape} ".encode() + value.tobytes())
        else:
            digest.update(f"{name} {value!r} ".encode())
    return digest.digest()


def damaged() -> CorruptState:
    """The error where the log is not what was confirmed."""
    return CorruptState("the server's log was changed or cut: restore the folder from a backup")
