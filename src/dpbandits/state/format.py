r"""The state file, format version 1: a frame of JSON and .npy arrays, checksummed throughout.

| bytes | what |
|---|---|
| 8 | magic `\x93DPBST\r\n` |
| 4 | format version, unsigned, little-endian |
| 8 | length of the header, unsigned, little-endian |
| 32 | SHA-256 of the header |
| that length | header, JSON in ASCII: kind, version, lineage, position, public, secret, arrays |
| the rest | the arrays as .npy, in the header's order, nothing between and nothing after |

The header's `arrays` lists each array's name, length in bytes and SHA-256.

Nothing in the file is executed or unpickled. The header's SHA-256 covers every byte through the
arrays' own, so it is the digest of the state. Equal states give equal bytes. A checksum finds
accidents, not forgery: whoever can write the file can write another one. A reader therefore
checks every length against the length of the file before it allocates, and refuses what does not
fit with `CorruptState`; a file of another version is `IncompatibleState`.
"""

import hashlib
import json
import secrets
import struct
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from dpbandits.errors import CorruptState, IncompatibleState, InvalidParameter
from dpbandits.state.container import State
from dpbandits.state.files import open_regular, replace_durably, write_durably
from dpbandits.state.npy import read_npy, to_npy

__all__ = ["Identity", "State", "decode", "encode", "read_identity", "read_state", "write_state"]

MAGIC = b"\x93DPBST\r\n"
FORMAT_VERSION = 1
PREFIX = struct.Struct("<8sIQ32s")

# Public configuration and small secrets; arrays are not in it. A bound so that a huge sparse file
# is not read as JSON.
MAX_HEADER_BYTES = 1 << 26

_FIELDS = {"arrays", "kind", "lineage", "position", "public", "secret", "version"}


class Identity(NamedTuple):
    """What a file says about itself, and the digest that a ledger witnesses."""

    kind: str
    lineage: str
    position: int
    digest: str


def encode(state: State) -> tuple[bytes, str]:
    """The file's bytes and the state's digest (hexadecimal SHA-256).

    Raises:
        InvalidParameter: `public` or `secret` is not JSON.
    """
    payloads = {name: to_npy(state.arrays[name]) for name in sorted(state.arrays)}
    header = {
        "kind": state.kind,
        "version": state.version,
        "lineage": state.lineage,
        "position": state.position,
        "public": dict(state.public),
        "secret": dict(state.secret),
        "arrays": [
            {"name": name, "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
            for name, payload in payloads.items()
        ],
    }
    try:
        text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    except (TypeError, ValueError, RecursionError):  # the message would show the value
        raise InvalidParameter(
            "public and secret must be JSON: strings, booleans, None, finite numbers, lists, mappings"
        ) from None
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidParameter(
            f"public and secret take {len(text)} bytes of JSON: put large data into arrays"
        )
    digest = hashlib.sha256(text)
    prefix = PREFIX.pack(MAGIC, FORMAT_VERSION, len(text), digest.digest())
    return b"".join([prefix, text, *payloads.values()]), digest.hexdigest()


def decode(file: BinaryIO, size: int) -> tuple[State, str]:
    """The state in a file of `size` bytes, and its digest.

    Raises:
        CorruptState: torn, altered or not a state file.
        IncompatibleState: another version of the format.
    """
    header, digest = _read_header(file, size)
    arrays = {
        entry["name"]: read_npy(file, entry["bytes"], entry["sha256"], name=entry["name"])
        for entry in header.pop("arrays")
    }
    try:
        return State(**header, arrays=arrays), digest
    except InvalidParameter:
        raise CorruptState("the state file's header is malformed") from None


def write_state(path: str | PathLike[str], state: State) -> str:
    """Write the file atomically and durably with mode 0600; returns the state's digest.

    A crash leaves the old file or the new one, and perhaps a `.tmp` file beside it, which is as
    secret as the state and can be deleted.
    """
    target = Path(path).resolve()
    data, digest = encode(state)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        write_durably(temporary, data, exclusive=True)
        replace_durably(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return digest


def read_state(path: str | PathLike[str]) -> State:
    """Read a state file.

    Raises:
        FileNotFoundError: there is no file.
        CorruptState: torn, altered or not a state file.
        IncompatibleState: written in another version of the format.
    """
    with open_regular(Path(path)) as (file, size):
        return decode(file, size)[0]


def read_identity(path: Path) -> Identity:
    """Who the file says it is, from its header alone; raises like `read_state`."""
    with open_regular(path) as (file, size):
        header, digest = _read_header(file, size)
    return Identity(header["kind"], header["lineage"], header["position"], digest)


def _read_header(file: BinaryIO, size: int) -> tuple[dict[str, Any], str]:
    prefix = file.read(PREFIX.size)
    if not prefix.startswith(MAGIC):
        raise CorruptState("not a state file, or its beginning is damaged")
    if len(prefix) < PREFIX.size:
        raise CorruptState("the state file is cut short: restore it from a backup")
    _, version, length, checksum = PREFIX.unpack(prefix)
    if version != FORMAT_VERSION:
        raise IncompatibleState(
            f"the state file has format version {version}, this release reads version {FORMAT_VERSION}"
        )
    if length > min(size - PREFIX.size, MAX_HEADER_BYTES):
        raise CorruptState(
            "the state file is cut short or its beginning is damaged: restore it from a backup"
        )
    text = file.read(length)
    digest = hashlib.sha256(text)
    if digest.digest() != checksum:
        raise CorruptState("the state file's header does not match its checksum: restore it from a backup")
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
        _check_header(header, size - PREFIX.size - length)
    except (ValueError, TypeError, KeyError, RecursionError, InvalidParameter):
        raise CorruptState("the state file's header is malformed") from None
    return header, digest.hexdigest()


def _check_header(header: Any, payload: int) -> None:
    """Raise anything that `_read_header` turns into CorruptState unless the header is sound."""
    if not isinstance(header, dict) or set(header) != _FIELDS:
        raise ValueError
    State(**{**header, "arrays": {}})  # checks types and labels
    entries = header["arrays"]
    if not isinstance(entries, list):
        raise TypeError
    for entry in entries:
        name, length, checksum = entry["name"], entry["bytes"], entry["sha256"]
        if type(name) is not str or type(length) is not int or type(checksum) is not str or length < 0:
            raise TypeError
    if len({entry["name"] for entry in entries}) != len(entries):
        raise ValueError
    if sum(entry["bytes"] for entry in entries) != payload:
        raise ValueError


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
