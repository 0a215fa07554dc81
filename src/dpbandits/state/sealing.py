"""`StateKey`: state encrypted at rest, with a key that the user keeps elsewhere.

A sealed state file is authenticated encryption (AES-SIV, RFC 5297) of the plain one. Kind, version, lineage,
position and public configuration stay readable; raw statistics, noise and counts do not, and none of the
two can be changed without the key. Equal states give equal bytes, so that a repeated commit is one; nothing
else about two states can be told from their files but how long they are.

The key protects a stolen disk or backup. It does not protect against whoever can read the process's memory,
and an old sealed file put back in place of a newer one is only noticed by a ledger (`StateStore`).
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
"""AES-SIV with two 256-bit keys."""


class StateKey:
    """A secret key for state files; its repr shows nothing, and it cannot be pickled.

    Args:
        key: 64 bytes from a generator of random numbers, such as `StateKey.generate()` draws; not a password.

    Raises:
        InvalidParameter: not 64 bytes.
        MissingExtra: needs the extra `encryption`.

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
        """Fresh random bytes for a key."""
        return secrets.token_bytes(KEY_BYTES)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> "StateKey":
        """The key in a file of 64 bytes that nobody but its owner may read.

        Raises:
            InvalidParameter: others may read the file, or it is no key.
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
        """Draw a key and keep it in a new file of mode 0600.

        Raises:
            FileExistsError: there is a file already; a key that is overwritten is lost.
        """
        write_durably(Path(path), cls.generate(), exclusive=True)
        return cls.read(path)

    def seal(self, data: bytes, *, public: bytes) -> bytes:
        """`data` encrypted, and bound to `public`, which stays readable."""
        return self._cipher.encrypt(data, [public])

    def open(self, sealed: bytes, *, public: bytes) -> bytes:
        """What was sealed with this key beside this `public`.

        Raises:
            CorruptState: another key, or one of the two was changed.
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
