"""How long raw data is kept, and how it leaves: erased after a time, or exported under its own name.

Contexts are kept nowhere but in a policy's log of rounds, encoded, until the release of their block; a
block's rounds are forgotten with it. A decision keeps its arm, its propensity and its reward, as the answer
to a repeated id and for whoever evaluates elsewhere, and no longer than the retention time. What stays of it
is that its id was used. So it is with a curator's answers.
"""

import json
from collections.abc import Iterator
from typing import Any

from dpbandits.service.keys import Keys
from dpbandits.service.store import Reads, Writes

__all__ = ["WARNING", "erase", "exported"]

WARNING = (
    "Raw data of people, and not a private release: no guarantee covers it. Whoever holds it sees every "
    "person's arm and reward."
)

ERASED_TOGETHER = 500


def erase(writes: Writes, *, before: float) -> int:
    """Erase decisions that were asked before a time, some at a time, and old answers; how many decisions."""
    writes.run(
        "UPDATE questions SET status = 'erased', answer = NULL WHERE answer IS NOT NULL AND answered_at < ?",
        before,
    )
    row = writes.one("SELECT value FROM facts WHERE name = 'erased'")
    done = 0 if row is None else int(row[0])
    rows = writes.rows(
        "SELECT number, asked_at FROM decisions WHERE number > ? ORDER BY number LIMIT ?",
        done,
        ERASED_TOGETHER,
    )
    rows = [row for row in rows if row[1] < before]  # times never go back: no later row is older
    if not rows:
        return 0
    last = int(rows[-1][0])
    writes.run(
        "UPDATE decisions SET answer = NULL, reward = NULL, body = ? WHERE number > ? AND number <= ?",
        b"",
        done,
        last,
    )
    writes.run(
        "INSERT INTO facts VALUES ('erased', ?) ON CONFLICT (name) DO UPDATE SET value = ?",
        str(last),
        str(last),
    )
    return len(rows)


def exported(reads: Reads, keys: Keys, policy: str) -> Iterator[str]:
    """Decisions of a policy as lines of JSON, after a line that says what they are."""
    yield json.dumps({"warning": WARNING}) + "\n"
    after = 0
    while rows := reads.rows(
        "SELECT number, asked_at, status, answer, reward FROM decisions "
        "WHERE policy = ? AND number > ? AND answer IS NOT NULL ORDER BY number LIMIT 1000",
        policy,
        after,
    ):
        for number, asked_at, status, answer, reward in rows:
            line: dict[str, Any] = {"id": keys.decision_id(number), "asked_at": asked_at, "status": status}
            yield json.dumps({**line, **json.loads(answer), "reward": reward}) + "\n"
        after = int(rows[-1][0])
