"""Tokens: who may do what. A token is shown once; the store keeps its digest under the service's key.

| scope | may |
|---|---|
| `admin` | make and withdraw tokens, open populations, begin and change policies, see events |
| `decide` | ask for decisions, activate and abandon them |
| `reward` | tell rewards of decisions whose ids it was given |
| `report` | fetch a local policy and send reports |
| `curate` | upload a release of an outsourced table, fetch what was asked, answer it |
| `model` | fetch a release, ask for rows, read their answers |
| `read` | read what is public or released: policies, guarantees, releases, budgets |

No scope holds another: a token has those that it was made with.
"""

import secrets
from collections.abc import Sequence
from typing import NamedTuple

from dpbandits.service.keys import Keys
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Row, Writes, note_event

__all__ = ["COLUMNS", "SCOPES", "Token", "make_token", "token_in", "token_of", "withdraw"]

SCOPES = ("admin", "decide", "reward", "report", "curate", "model", "read")

_SECRET_BYTES = 32
_LONGEST = 200


class Token(NamedTuple):
    """Who sends a request, and what they may do."""

    id: str
    scopes: frozenset[str]
    ends_at: float | None


def make_token(
    writes: Writes, keys: Keys, *, label: str, scopes: Sequence[str], now: float, seconds: float | None = None
) -> tuple[str, str]:
    """Make a token: its id, and the text that its owner sends, which is kept nowhere."""
    identity = secrets.token_hex(6)
    text = f"dpb_{identity}_{secrets.token_urlsafe(_SECRET_BYTES)}"
    held, ends = " ".join(one for one in SCOPES if one in scopes), None if seconds is None else now + seconds
    row = identity, keys.digest("token", text), label, held, now, ends
    writes.run("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, NULL)", *row)
    note_event(writes, now, "token-made", f"token {identity}", " ".join(scopes))
    return identity, text


COLUMNS = "t.id, t.scopes, t.ends_at"
"""Columns of the table `tokens t` that `token_in` reads."""


def token_in(row: Row | None, now: float) -> Token | None:
    """Return the token of a row of `COLUMNS`, or None where it is None or the token has ended."""
    if row is None or (row[2] is not None and row[2] <= now):
        return None
    return Token(row[0], frozenset(row[1].split()), row[2])


def token_of(reads: Reads, keys: Keys, text: str, now: float) -> Token | None:
    """Return the token with this text; None where there is none, or it was withdrawn or has ended."""
    if len(text) > _LONGEST:
        return None
    query = f"SELECT {COLUMNS} FROM tokens t WHERE t.digest = ? AND t.withdrawn_at IS NULL"  # noqa: S608
    return token_in(reads.one(query, keys.digest("token", text)), now)


def withdraw(writes: Writes, identity: str, now: float) -> None:
    """Withdraw a token; it is refused from now on."""
    change = "UPDATE tokens SET withdrawn_at = ? WHERE id = ? AND withdrawn_at IS NULL"
    if not writes.run(change, now, identity):
        raise Problem("not-found", "There is no such token, or it was withdrawn before.")
    writes.run("DELETE FROM sessions WHERE token = ?", identity)
    note_event(writes, now, "token-withdrawn", f"token {identity}")
