"""`Sessions`: who is logged in at the desk: a random cookie stands for a token, until it ends.

The cookie is no token and is kept nowhere but in the browser; here is its digest, in memory, so that a
restart logs everybody out. Each page asks anew whether the token behind it may still be used.
"""

import hashlib
import secrets
import time
from collections import OrderedDict

__all__ = ["COOKIE", "SECONDS", "Sessions"]

COOKIE = "dpbandits_desk"

SECONDS = 8 * 3600
"""A session ends after a working day."""

MOST = 1000
"""Sessions that are kept; the oldest makes room."""


class Sessions:
    """Logged in; in memory."""

    def __init__(self) -> None:
        self._held: OrderedDict[bytes, tuple[str, float]] = OrderedDict()

    def begin(self, token: str) -> str:
        """A cookie that stands for the token from now on."""
        cookie = secrets.token_urlsafe(32)
        while len(self._held) >= MOST:
            self._held.popitem(last=False)
        self._held[_digest(cookie)] = token, time.monotonic() + SECONDS
        return cookie

    def token(self, cookie: str | None) -> str | None:
        """Return the token of a cookie; None if there is none, or if it has ended."""
        token, ends = self._held.get(_digest(cookie or ""), (None, 0.0))
        return token if ends > time.monotonic() else None

    def end(self, cookie: str | None) -> None:
        """It stands for nothing any more."""
        self._held.pop(_digest(cookie or ""), None)


def _digest(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode(errors="replace")).digest()
