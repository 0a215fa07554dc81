"""Sessions of the desk: a random cookie stands for a token, at every worker, until it ends.

The login form has a cookie of its own, and in a field its keyed digest: another site's page can neither read
the field nor, over HTTPS, place the cookie (`__Host-`), so it logs nobody in with a token of its choice.

The cookie is kept nowhere but in the browser. The store has its digest under the service's key, so any worker
knows it, a restart logs nobody out, and whoever logs out is logged out everywhere. A session ends with its
token, and each page reads both anew.
"""

import secrets

from dpbandits.service.keys import Keys
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Writes, note_event
from dpbandits.service.tokens import COLUMNS, Token, token_in

__all__ = ["SECONDS", "begin_session", "end_session", "form_field", "named", "session_token"]

SECONDS = 8 * 3600
"""A session ends after a working day."""

MOST = 30
"""Logins of one token in an hour; each is an event, and events are kept."""


def named(what: str, *, secure: bool) -> str:
    """Return the name of the cookie "desk" or "form"; over HTTPS only this host can set it, for itself."""
    return f"{'__Host-' if secure else ''}dpbandits_{what}"


def form_field(keys: Keys, cookie: str) -> str:
    """Return the value that the login form holds beside its cookie."""
    return keys.digest("form", cookie).hex()


def begin_session(writes: Writes, keys: Keys, token: Token, now: float) -> str:
    """Return a cookie that stands for the token, by its id, from now on; Problem after too many logins.

    It ends with the text that was sent, which a rotation may have replaced.
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
    """Return the token of a cookie; None if there is none, or the session or its token has ended."""
    query = f"SELECT {COLUMNS} FROM sessions s JOIN tokens t ON t.id = s.token "  # noqa: S608 - names of ours
    query += "WHERE s.digest = ? AND s.ends_at > ? AND t.withdrawn_at IS NULL"
    return token_in(reads.one(query, keys.digest("session", cookie), now), now)


def end_session(writes: Writes, keys: Keys, cookie: str, now: float) -> None:
    """End a session at all workers."""
    ended = "DELETE FROM sessions WHERE digest = ? RETURNING token"
    for (token,) in writes.rows(ended, keys.digest("session", cookie)):
        note_event(writes, now, "session-ended", f"token {token}", by=token)
