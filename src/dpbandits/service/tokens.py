"""Tokens with scopes and limits. A token's text is shown once; the store has a keyed digest of it.

| scope | may |
|---|---|
| `admin` | make, list, rotate and withdraw tokens; open populations; create and change policies; see events |
| `decide` | ask for decisions, activate and abandon them |
| `reward` | record rewards of decisions, given their ids |
| `report` | fetch a local policy and send reports |
| `curate` | upload the release of an outsourced table, fetch questions, answer them |
| `model` | fetch the release, ask for rows, read the answers |
| `read` | read public and released data: policies, guarantees, releases, budgets |

No scope includes another one.

`Limits` restrict a token to policies (also local ones and outsourced tables), to populations, or to both. A
request must be within every list that is set. Requests beyond the limits are answered as if the resource did
not exist (404), so a refusal does not reveal names of other teams. Metrics and events of the whole service
need a token without limits (403). An admin with limits can make and see tokens within its own limits only.

Privacy: the service does not record when a token was last used. For a token in a user's device this would
reveal when the user was active.
"""

import json
import secrets
from collections.abc import Sequence
from typing import Any, NamedTuple

from dpbandits.service.keys import Keys, canonical
from dpbandits.service.problems import Problem
from dpbandits.service.store import Reads, Row, Writes, note_event

__all__ = [
    "COLUMNS",
    "LONGEST",
    "SCOPES",
    "UNLIMITED",
    "Limits",
    "Token",
    "changes",
    "listed_tokens",
    "make_token",
    "note_change",
    "rotate",
    "token_in",
    "token_of",
    "withdraw",
]

SCOPES = ("admin", "decide", "reward", "report", "curate", "model", "read")

COLUMNS = "t.id, t.scopes, t.ends_at, t.limits"
"""Columns of the table `tokens` (alias `t`) that `token_in` reads."""

_SECRET_BYTES = 32
LONGEST = 200
"""Largest number of characters of a token's text."""


class Limits(NamedTuple):
    """Names of the policies and populations that a token may use. A list that is None restricts nothing."""

    policies: frozenset[str] | None = None
    populations: frozenset[str] | None = None

    @classmethod
    def of(cls, policies: Sequence[str] | None, populations: Sequence[str] | None) -> "Limits":
        """Return the limits to these lists of names."""
        return cls(*(None if names is None else frozenset(names) for names in (policies, populations)))

    @classmethod
    def read(cls, text: str) -> "Limits":
        """Return limits from the JSON text that the store has."""
        return cls.of(*json.loads(text))

    @property
    def sorted(self) -> list[list[str] | None]:
        """Both lists, each sorted or None, in the form in which they are shown and stored."""
        return [None if names is None else sorted(names) for names in self]

    def reach(self, name: str, population: str) -> bool:
        """Return True if a policy, local policy or outsourced table of this name and population is within
        the limits.
        """
        named = self.policies is None or name in self.policies
        return named and (self.populations is None or population in self.populations)

    def reach_population(self, name: str) -> bool:
        """Return True if a population, with its budget and charges, is within the limits."""
        return name in self.populations if self.populations is not None else self.policies is None

    def include(self, other: "Limits") -> bool:
        """Return True if everything within the limits `other` is within these limits."""
        policies = self.policies is None or (other.policies is not None and other.policies <= self.policies)
        populations = self.populations is None or other.populations is not None
        return policies and populations and all(map(self.reach_population, other.populations or ()))


UNLIMITED = Limits()


class Token(NamedTuple):
    """Token of a request: id, scopes, end in seconds since 1970 (or None), and limits."""

    id: str
    scopes: frozenset[str]
    ends_at: float | None
    limits: Limits = UNLIMITED

    def refuse_population(self, name: str) -> None:
        """Raise Problem "not-found" if the population is beyond the token's limits."""
        if not self.limits.reach_population(name):
            raise Problem("not-found", "There is no population of this name: open it first.")

    def refuse_new(self, name: str, population: str) -> None:
        """Raise Problem if the token's limits forbid to create a policy of this name for a population."""
        self.refuse_population(population)
        if not self.limits.reach(name, population):
            raise Problem("out-of-scope", "This name is not within the token's limits.")


def changes(reads: Reads) -> Row | None:
    """Return a row of the store that changes whenever a token is made, withdrawn or rotated."""
    return reads.one("SELECT value FROM facts WHERE name = 'changes of tokens'")


def note_change(writes: Writes) -> None:
    """Change the row that `changes` returns, so that all workers drop their cached tokens."""
    writes.run(
        "INSERT INTO facts VALUES ('changes of tokens', '1') ON CONFLICT (name) DO UPDATE "
        "SET value = CAST(CAST(facts.value AS BIGINT) + 1 AS TEXT)"
    )


def make_token(
    writes: Writes,
    keys: Keys,
    *,
    label: str,
    scopes: Sequence[str],
    now: float,
    seconds: float | None = None,
    limits: Limits = UNLIMITED,
    by: str = "",
) -> tuple[str, str]:
    """Make a token; return its id and its text, which is not stored.

    `by` is the id of the token that asks, and `seconds` the lifetime (default unlimited).
    """
    identity = secrets.token_hex(6)
    text = _text(identity)
    held, ends = " ".join(one for one in SCOPES if one in scopes), None if seconds is None else now + seconds
    row = identity, keys.digest("token", text), label, held, now, ends, canonical(limits.sorted)
    writes.run("INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, NULL, ?, NULL, NULL)", *row)
    note_change(writes)
    note_event(writes, now, "token-made", f"token {identity}", held, by=by)
    return identity, text


def _text(identity: str) -> str:
    return f"dpb_{identity}_{secrets.token_urlsafe(_SECRET_BYTES)}"


def token_in(row: Row | None, now: float) -> Token | None:
    """Return the token in a row with the columns `COLUMNS`.

    It is None without a row, or if the token has ended.
    """
    if row is None or (row[2] is not None and row[2] <= now):
        return None
    return Token(row[0], frozenset(row[1].split()), row[2], Limits.read(row[3]))


def token_of(reads: Reads, keys: Keys, text: str, now: float) -> Token | None:
    """Return the token with this text; None if there is none, or it was withdrawn or has ended.

    The text before the last rotation counts until its overlap ends.
    """
    if len(text) > LONGEST:
        return None
    digest = keys.digest("token", text)
    before = COLUMNS.replace("t.ends_at", "t.previous_ends_at")
    query = f"SELECT {COLUMNS} FROM tokens t WHERE t.digest = ? AND t.withdrawn_at IS NULL UNION ALL "  # noqa: S608
    query += f"SELECT {before} FROM tokens t WHERE t.previous = ? AND t.withdrawn_at IS NULL"  # noqa: S608
    return token_in(reads.one(query, digest, digest), now)


def listed_tokens(reads: Reads, within: Limits, now: float) -> list[dict[str, Any]]:
    """Return the valid tokens within these limits, latest first, without their texts."""
    rows = reads.rows(
        "SELECT id, label, scopes, limits, made_at, ends_at, previous_ends_at FROM tokens "
        "WHERE withdrawn_at IS NULL AND (ends_at IS NULL OR ends_at > ?) ORDER BY made_at DESC, id",
        now,
    )
    return [
        {
            "id": identity,
            "label": label,
            "scopes": scopes.split(),
            **dict(zip(Limits._fields, Limits.read(limits).sorted, strict=True)),
            "made_at": made_at,
            "ends_at": ends_at,
            "old_text_ends_at": before if before is not None and before > now else None,
        }
        for identity, label, scopes, limits, made_at, ends_at, before in rows
        if within.include(Limits.read(limits))
    ]


def rotate(
    writes: Writes,
    keys: Keys,
    identity: str,
    *,
    overlap_seconds: float,
    now: float,
    seconds: float | None = None,
    within: Limits = UNLIMITED,
    by: str = "",
) -> dict[str, Any]:
    """Give a token a new text; the old text stays valid for `overlap_seconds`.

    While the text before the old one is still valid, that text stays valid and the old one ends at once. So a
    rotation whose answer was lost can be repeated. Without an overlap all older texts end. The token's
    sessions at the desk end.

    Args:
        writes: open write transaction.
        keys: secret of the digests.
        identity: id of the token.
        overlap_seconds: seconds for which the old text stays valid.
        now: time in seconds since 1970.
        seconds: new lifetime of the token from now on; default unchanged.
        within: limits of the token that asks; a token beyond them is not found.
        by: id of the token that asks.
    """
    asked = "SELECT digest, limits, ends_at, previous, previous_ends_at FROM tokens WHERE id = ?"
    known = writes.locked(f"{asked} AND withdrawn_at IS NULL", identity)
    digest, limits, ends, before, before_ends = known[0] if known else (b"", "[null, null]", 0.0, None, None)
    if not within.include(Limits.read(limits)) or (ends is not None and ends <= now):
        raise Problem("not-found", _NO_TOKEN)
    if before is None or before_ends <= now:
        before, before_ends = digest, now + overlap_seconds
    text, new_ends = _text(identity), ends if seconds is None else now + seconds
    before_ends = min(
        before_ends, now + overlap_seconds, *(one for one in (ends, new_ends) if one is not None)
    )
    if not overlap_seconds:  # else it stays valid at a worker whose clock is behind
        before = None
    writes.run(
        "UPDATE tokens SET digest = ?, ends_at = ?, previous = ?, previous_ends_at = ? WHERE id = ?",
        *(keys.digest("token", text), new_ends, before, before_ends, identity),
    )
    writes.run("DELETE FROM sessions WHERE token = ?", identity)
    note_change(writes)
    told = f"the old text ends in {before_ends - now:.0f} s"
    note_event(writes, now, "token-rotated", f"token {identity}", told, by=by)
    return {"id": identity, "token": text, "ends_at": new_ends, "old_text_ends_at": before_ends}


_NO_TOKEN = "There is no such token, or it was withdrawn before."  # noqa: S105 - a message


def withdraw(writes: Writes, identity: str, now: float, *, within: Limits = UNLIMITED, by: str = "") -> None:
    """Withdraw a token at once. `within` has the limits of the token that asks, and `by` is its id."""
    known = writes.one("SELECT limits FROM tokens WHERE id = ?", identity)
    change = "UPDATE tokens SET withdrawn_at = ? WHERE id = ? AND withdrawn_at IS NULL"
    if known is None or not within.include(Limits.read(known[0])) or not writes.run(change, now, identity):
        raise Problem("not-found", _NO_TOKEN)
    writes.run("DELETE FROM sessions WHERE token = ?", identity)
    note_change(writes)
    note_event(writes, now, "token-withdrawn", f"token {identity}", by=by)
