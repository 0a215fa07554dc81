r"""The state file, format versions 1 and 2: JSON and .npy arrays with checksums.

| bytes | content |
|---|---|
| 8 | magic `\x93DPBST\r\n` |
| 4 | format version, unsigned, little-endian |
| 8 | length of the header, unsigned, little-endian |
| 32 | SHA-256 of the header |
| that length | header, JSON in ASCII: kind, version, lineage, position, public, secret, arrays |
| the rest | the arrays as .npy, in the header's order, without gaps |

The header's `arrays` lists each array's name, length in bytes and SHA-256.

Version 2 is an encrypted (sealed) file; see `StateKey`. Its header has kind, version, lineage, position,
public, cipher, and the length and SHA-256 of the sealed body. The body is the whole version 1 file,
encrypted and bound to the header's public fields. Both versions are read. Without a key, version 1 is
written.

Nothing in the file is executed or unpickled. The header has the arrays' SHA-256, so its own SHA-256 covers
every byte and is the digest of the state. Equal states give equal bytes. Checksums detect accidents, not
forgery, as anybody who can write the file can compute them. So a reader compares every length with the
length of the file before it allocates memory. A file that does not fit raises `CorruptState`, a file of
another version `IncompatibleState`.
"""

import hashlib
import io
import json
import marshal
import secrets
import struct
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from dpbandits.errors import CorruptState, IncompatibleState, InvalidParameter
from dpbandits.state.container import State
from dpbandits.state.files import open_regular, replace_durably, write_durably
from dpbandits.state.npy import read_npy, to_npy
from dpbandits.state.sealing import StateKey

__all__ = ["Identity", "State", "Texts", "decode", "encode", "read_identity", "read_state", "write_state"]

MAGIC = b"\x93DPBST\r\n"
FORMAT_VERSION = 1
SEALED_VERSION = 2
CIPHER = "AES-SIV"
PREFIX = struct.Struct("<8sIQ32s")

MAX_HEADER_BYTES = 1 << 26
"""Largest header in bytes that is read or written, so that a huge sparse file is not read as JSON.

The header has the public configuration and small secrets. Arrays are not in it.
"""

_PUBLIC = ("kind", "lineage", "position", "public", "version")
_FIELDS = {*_PUBLIC, "arrays", "secret"}
_SEALED_FIELDS = {*_PUBLIC, "bytes", "cipher", "sha256"}


class Identity(NamedTuple):
    """Kind, lineage and position in a state file's header, and the state's digest."""

    kind: str
    lineage: str
    position: int
    digest: str


class Texts:
    """Cache of JSON texts of the public parts of one object's states.

    The JSON of a policy's configuration can have a megabyte, and commits do not change it.
    """

    def __init__(self) -> None:
        self._last: dict[str, tuple[bytes, str]] = {}

    def of(self, name: str, value: Any) -> str:
        """Return the cached JSON text of the part `name`; raise an error of `json.dumps` if it is no JSON."""
        try:
            # Unlike ==, marshal distinguishes equal values of different types, such as 1 and True.
            mark = hashlib.blake2b(marshal.dumps(value, 2), digest_size=16).digest()
        except ValueError:  # marshal refuses some values that JSON takes
            return _dumped(value)
        last, text = self._last.get(name, (b"", ""))
        if last != mark:
            text = _dumped(value)
            self._last[name] = mark, text
        return text


def encode(state: State, key: StateKey | None = None, texts: Texts | None = None) -> tuple[bytes, str]:
    """Return the state file's bytes, sealed if there is a key, and the state's SHA-256 in hexadecimal.

    Args:
        state: State to write.
        key: Key that seals the file; None for a plain file.
        texts: Cache of JSON texts from the object's earlier states; it does not change the result.

    Raises:
        InvalidParameter: `public` or `secret` is not JSON.
    """
    texts = Texts() if texts is None else texts
    payloads = {name: to_npy(state.arrays[name]) for name in sorted(state.arrays)}
    arrays = [
        {"name": name, "bytes": len(payload), "sha256": hashlib.sha256(payload).hexdigest()}
        for name, payload in payloads.items()
    ]
    header = _public(state) | {"secret": dict(state.secret), "arrays": arrays}
    plain, digest = _framed(FORMAT_VERSION, header, payloads.values(), texts)
    if key is None:
        return plain, digest
    public = _public(state)
    body = key.seal(plain, public=_text(public, texts))
    sealed = {"cipher": CIPHER, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
    return _framed(SEALED_VERSION, public | sealed, [body], texts)


def _public(state: State) -> dict[str, Any]:
    return {name: getattr(state, name) for name in _PUBLIC} | {"public": dict(state.public)}


def _dumped(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _joined(texts: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{texts[name]}" for name in sorted(texts)) + "}"


def _text(header: Mapping[str, Any], texts: Texts) -> bytes:
    try:
        public = {name: texts.of(name, value) for name, value in header["public"].items()}
        others = {name: _dumped(value) for name, value in header.items() if name != "public"}
        return _joined(others | {"public": _joined(public)}).encode("ascii")
    except (TypeError, ValueError, RecursionError):  # the message would show the value
        raise InvalidParameter(
            "public and secret must be JSON: strings, booleans, None, finite numbers, lists, mappings"
        ) from None


def _framed(
    version: int, header: Mapping[str, Any], payloads: Iterable[bytes], texts: Texts
) -> tuple[bytes, str]:
    text = _text(header, texts)
    if len(text) > MAX_HEADER_BYTES:
        raise InvalidParameter(
            f"public and secret take {len(text)} bytes of JSON: put large data into arrays"
        )
    digest = hashlib.sha256(text)
    prefix = PREFIX.pack(MAGIC, version, len(text), digest.digest())
    return b"".join([prefix, text, *payloads]), digest.hexdigest()


def decode(file: BinaryIO, size: int, key: StateKey | None = None) -> tuple[State, str]:
    """Return the state in a file of `size` bytes, and its digest.

    Raises:
        CorruptState: The file is torn, altered or not a state file, or is sealed with another key.
        IncompatibleState: The format has another version, or the file is sealed and no key was given. Or the
            file is not sealed and a key was given: somebody could have replaced the sealed file.
    """
    header, digest = _read_header(file, size)
    if "cipher" in header:
        if key is None:
            raise IncompatibleState("the state is sealed: pass the key that it was saved with")
        return _opened(file, header, key), digest
    if key is not None:
        raise IncompatibleState("the state is not sealed: load it without a key, and save it with one")
    return _decode_arrays(file, header), digest


def _opened(file: BinaryIO, header: dict[str, Any], key: StateKey) -> State:
    body = file.read(header["bytes"])
    if hashlib.sha256(body).hexdigest() != header["sha256"]:
        raise CorruptState("the sealed state is damaged: restore the file from a backup")
    plain = key.open(body, public=_text({name: header[name] for name in _PUBLIC}, Texts()))
    inner, _ = _read_header(io.BytesIO(plain), len(plain))
    if "cipher" in inner or any(inner[name] != header[name] for name in _PUBLIC):
        raise CorruptState("the sealed state does not match its header: restore the file from a backup")
    start = len(plain) - sum(entry["bytes"] for entry in inner["arrays"])
    return _decode_arrays(io.BytesIO(plain[start:]), inner)


def _decode_arrays(file: BinaryIO, header: dict[str, Any]) -> State:
    arrays = {
        entry["name"]: read_npy(file, entry["bytes"], entry["sha256"], name=entry["name"])
        for entry in header.pop("arrays")
    }
    try:
        return State(**header, arrays=arrays)
    except InvalidParameter:
        raise CorruptState("the state file's header is malformed") from None


def write_state(path: str | PathLike[str], state: State, key: StateKey | None = None) -> str:
    """Write a state file with mode 0600, atomically and durably; return the state's digest.

    A crash leaves the old file or the new file. It may also leave a `.tmp` file in the folder, which is as
    secret as the state and can be deleted.
    """
    target = Path(path).resolve()
    data, digest = encode(state, key)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        write_durably(temporary, data, exclusive=True, renamed=True)
        replace_durably(temporary, target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    return digest


def read_state(path: str | PathLike[str], key: StateKey | None = None) -> State:
    """Read a state file.

    Raises:
        FileNotFoundError: The file does not exist.
        CorruptState, IncompatibleState: As for `decode`.
    """
    with open_regular(Path(path)) as (file, size):
        return decode(file, size, key)[0]


def read_identity(path: Path) -> Identity:
    """Return kind, lineage, position and digest of a state file. The errors are those of `read_state`."""
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
    if version not in (FORMAT_VERSION, SEALED_VERSION):
        raise IncompatibleState(
            f"the state file has format version {version}, this release reads {FORMAT_VERSION} and "
            f"{SEALED_VERSION}"
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
        (_check_header if version == FORMAT_VERSION else _check_sealed_header)(
            header, size - PREFIX.size - length
        )
    except (ValueError, TypeError, KeyError, RecursionError, InvalidParameter):
        raise CorruptState("the state file's header is malformed") from None
    return header, digest.hexdigest()


def _check_header(header: Any, payload: int) -> None:
    """Raise an error, which `_read_header` turns into CorruptState, if the header is malformed."""
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


def _check_sealed_header(header: Any, payload: int) -> None:
    if not isinstance(header, dict) or set(header) != _SEALED_FIELDS:
        raise ValueError
    State(**{name: header[name] for name in _PUBLIC})
    if header["cipher"] != CIPHER or type(header["sha256"]) is not str:
        raise ValueError
    if type(header["bytes"]) is not int or header["bytes"] != payload:
        raise ValueError


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)
