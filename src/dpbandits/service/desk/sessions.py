"""Sessions of the desk: a random cookie stands for a token, at every worker, until the session ends.

The login form has its own cookie, and that cookie's keyed digest in a field. A page of another site cannot
read the field, and over HTTPS it cannot set the cookie (`__Host-`). So it cannot log a user in with a token
that it chose.

The store has a digest of the session's cookie under the service's key, and the cookie is in the browser
only. So every worker knows a session, a restart ends none, and logging out ends it at all workers. A session
ends with its token. Each page reads session and token anew.
"""

import secrets

from dpbandits.service.keys import Keys
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Writes, note_event
from dpbandits.service.tokens import COLUMNS, Token, token_in

__all__ = ["SECONDS", "begin_session", "end_session", "form_field", "named", "session_token"]

SECONDS = 8 * 3600
"""Lifetime of a session in seconds: a working day."""

MOST = 30
"""Largest number of logins of one token in an hour.

The number is bounded because each login stores an event.
"""


def named(what: str, *, secure: bool) -> str:
    """Return the full name of the cookie "desk" or "form".

    With `secure`, only this host can set it, over HTTPS.
    """
    return f"{'__Host-' if secure else ''}dpbandits_{what}"


def form_field(keys: Keys, cookie: str) -> str:
    """Return the value of the login form's hidden field that belongs to its cookie."""
    return keys.digest("form", cookie).hex()


def begin_session(writes: Writes, keys: Keys, token: Token, now: float) -> str:
    """Begin a session of a token; return its cookie. Raise Problem after too many logins.

    The session ends at the latest when the text that was sent becomes invalid; this may be an old text of
    the token.
    """
    ends = now + SECONDS if token.ends_at is None else min(now + SECONDS, token.ends_at)
    cookie, recent = secrets.token_urlsafe(32), "what = 'session-begun' AND subject = ? AND at > ?"
    logins = writes.rows(f"SELECT at FROM events WHERE {recent}", f"token {token.id}", now - 3600.0)  # noqa: S608
    if len(logins) >= MOST:
        raise Problem("too-many-requests", "This token has logged in too often: try again in an hour.")
    writes.run("DELETE FROM sessions WHERE ends_at <= ?", now)
    writes.run("INSERT INTO sessions VALUES (?, ?, ?)", keys.digest("session", cookie), token.id, ends)
    note_event(writes, now, "session-begun", f"token {token.id}", by=token.id)
    return cookie


def session_token(reads: Reads, keys: Keys, cookie: str, now: float) -> Token | None:
    """Return the token of a session's cookie.

    It is None if the session is unknown, or if session or token have ended.
    """
    query = f"SELECT {COLUMNS} FROM sessions s JOIN tokens t ON t.id = s.token "  # noqa: S608 - names of ours
    query += "WHERE s.digest = ? AND s.ends_at > ? AND t.withdrawn_at IS NULL"
    return token_in(reads.one(query, keys.digest("session", cookie), now), now)


def end_session(writes: Writes, keys: Keys, cookie: str, now: float) -> None:
    """End a session at all workers."""
    ended = "DELETE FROM sessions WHERE digest = ? RETURNING token"
    for (token,) in writes.rows(ended, keys.digest("session", cookie)):
        note_event(writes, now, "session-ended", f"token {token}", by=token)
