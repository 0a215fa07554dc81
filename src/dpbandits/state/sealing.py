"""`StateKey`: encryption of state at rest, with a key that is stored elsewhere.

A sealed state file is the plain file under authenticated encryption (AES-SIV, RFC 5297). Kind, version,
lineage, position and public configuration stay readable. Raw statistics, noise and counts do not. Without
the key no part can be changed unnoticed. Equal states give equal bytes, so that a commit can be repeated.
Apart from equality and length, two files reveal nothing about the secret parts of their states.

The key protects against a stolen disk or backup, not against a reader of the process's memory. A rollback,
which replaces a sealed file by an older one, is detected only with a ledger (`StateStore`).
"""

import os
import secrets
import stat
from os import PathLike
from pathlib import Path
from typing import NoReturn

from dpbandits._lazy import needing
from dpbandits.errors import CorruptState, InvalidParameter, ProtocolError
from dpbandits.state.files import open_to_read, write_durably

__all__ = ["StateKey"]

KEY_BYTES = 64
"""Length of a key in bytes: AES-SIV takes two keys of 256 bits."""


class StateKey:
    """Secret key for state files; its repr shows nothing of it, and it cannot be pickled.

    Args:
        key: 64 random bytes, as from `StateKey.generate()`. A password is not a key.

    Raises:
        InvalidParameter: The key is not 64 bytes.
        MissingExtra: The extra `encryption` is not installed.

    Example:
        >>> key = StateKey(StateKey.generate())
        >>> key.open(key.seal(b"sums", public=b"policy"), public=b"policy")
        b'sums'
        >>> key
        StateKey()
    """

    __slots__ = ("_cipher",)

    def __init__(self, key: bytes) -> None:
        if type(key) is not bytes or len(key) != KEY_BYTES:
            raise InvalidParameter(f"a state key is {KEY_BYTES} random bytes: StateKey.generate() draws one")
        with needing("sealed states need the package cryptography: pip install 'dpbandits[encryption]'"):
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        self._cipher = AESSIV(key)

    @staticmethod
    def generate() -> bytes:
        """Return fresh random bytes for a key."""
        return secrets.token_bytes(KEY_BYTES)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "StateKey":
        """Read a key from a file of 64 bytes that only its owner may read.

        Raises:
            InvalidParameter: Others may read the file, or it has another length.
        """
        descriptor = open_to_read(path)
        try:
            mode = os.fstat(descriptor).st_mode
            if not stat.S_ISREG(mode) or (mode & 0o077 and os.name != "nt"):  # Windows has no modes
                raise InvalidParameter("the key must be a file that only its owner may read: chmod 600")
            return cls(os.read(descriptor, KEY_BYTES + 1))
        finally:
            os.close(descriptor)

    @classmethod
    def create(cls, path: str | PathLike[str]) -> "StateKey":
        """Generate a key and write it to a new file of mode 0600.

        Raises:
            FileExistsError: The file exists. It is not overwritten, because the key in it would be lost.
        """
        write_durably(Path(path), cls.generate(), exclusive=True)
        return cls.read(path)

    def seal(self, data: bytes, *, public: bytes) -> bytes:
        """Return `data` encrypted and bound to `public`, which stays readable."""
        return self._cipher.encrypt(data, [public])

    def open(self, sealed: bytes, *, public: bytes) -> bytes:
        """Return the data that `seal` encrypted with this key and this `public`.

        Raises:
            CorruptState: This is not the key that sealed the data, or `sealed` or `public` was changed.
        """
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed, [public])
        except (InvalidTag, ValueError):
            raise CorruptState(
                "the sealed state does not open: it is damaged, or was sealed with another key"
            ) from None

    def __repr__(self) -> str:
        return "StateKey()"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a StateKey cannot be pickled: read it from its file where it is needed")
