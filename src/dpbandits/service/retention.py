"""Retention of raw data: erasure after the retention time, and export of raw decisions.

- *Contexts* are stored only in a policy's log of rounds and its state, encoded, until their block is
  released. The release removes the block's rounds; for a long block later transactions do.
- *Decisions* keep arm, propensity, reward and metrics for the retention time, as the answer to an
  idempotent request and for evaluation elsewhere. Afterwards only the fact that the id was used remains. The
  same holds for a curator's answers.
- *Old rounds.* Blocks may be released late or never: the policy is retired, gets no requests, or needs longer
  than the retention time for a block. A round that is older and in no release is erased as well, together
  with those of the next hundredth of the retention time, because each erasure writes a state. From then on it
  counts as a round with an unreadable context, which contributes zero. A later reward for it is late.
- *Crashes.* The store records a fact before an erasure and removes it afterwards. An interrupted erasure is
  repeated, which changes nothing more.

Privacy: erasure keeps every guarantee. Which rounds are erased, and when, depends on slots, times of
requests, the clock, the setting and the released blocks. It does not depend on contexts or rewards: rounds
with unreadable contexts age like all others. An erased round contributes zero to its block, and the
contributions of others stay. So one user's data still changes a sum by at most its sensitivity, and number,
places, noise and cost of the releases stay: see `ServedBandit.erase_rounds`.
"""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from dpbandits.service.engines import looks_of
from dpbandits.service.keys import Keys
from dpbandits.service.round_log import slot_of
from dpbandits.service.store import Reads, Writes, note_event, note_fact

__all__ = [
    "WARNING",
    "Old",
    "done",
    "erase",
    "erase_old_rounds_by",
    "exported",
    "old_rounds",
    "rounds_released",
]

WARNING = (
    "Raw data of people, and not a private release: no guarantee covers it. Whoever holds it sees every "
    "person's arm and reward."
)

ERASED_TOGETHER = 500

_PAGE = 1000
"""Number of decisions in a page of an export."""


_OLD = "old "
"""Prefix of the names of facts about old rounds.

Such a fact records which rounds of a policy are to be erased, and from which time on.
"""


class Old(NamedTuple):
    """Rounds of a policy that are to be erased: those before the round `before`.

    `value` is the text of their fact.
    """

    policy: str
    before: int
    value: str


def erase(writes: Writes, *, before: float, now: float, rounds_at: float) -> int:
    """Erase decisions that were requested before a time, at most `ERASED_TOGETHER`; return their number.

    All curators' answers before that time are erased too. From now on a reward for an erased decision is
    late. If its wait for a reward is over, `Decisions.sweep` settles the decision as usual. Rounds of erased
    decisions that are in no release yet are recorded: `old_rounds` lists them for erasure from the time
    `rounds_at` on.
    """
    writes.run(
        "UPDATE questions SET status = 'erased', answer = NULL WHERE answer IS NOT NULL AND answered_at < ?",
        before,
    )
    row = writes.one("SELECT value FROM facts WHERE name = 'erased upto'")
    done = 0 if row is None else int(row[0])
    query = (
        "SELECT number, asked_at, policy, ask, status FROM decisions WHERE number > ? ORDER BY number LIMIT ?"
    )
    rows = writes.rows(query, done, ERASED_TOGETHER)
    rows = [row for row in rows if row[1] < before]  # later rows are not older, up to `JUMP_SECONDS`
    if not rows:
        return 0
    last = int(rows[-1][0])
    erasing = (
        "UPDATE decisions SET answer = NULL, reward = NULL, metrics = NULL, body = ?, "
        "due_at = CASE WHEN due_at <= ? THEN due_at END, status = CASE WHEN due_at <= ? THEN status "
        "WHEN status = 'pending' THEN 'lost' WHEN status = 'deferred' THEN 'expired' ELSE status END "
        "WHERE number > ? AND number <= ?"
    )
    writes.run(erasing, b"", now, now, done, last)
    note_fact(writes, "erased upto", str(last))
    for policy, ask in {row[2]: row[3] for row in rows if row[3] is not None}.items():
        _note_old(writes, policy, slot_of(ask) + 1, rounds_at)
    for policy in {row[2] for row in rows if row[3] is None and row[4] == "refused"}:
        _note_old(writes, policy, _next_slot(writes, policy, last), rounds_at)
    return len(rows)


def _next_slot(reads: Reads, policy: str, number: int) -> int:
    """Return the slot of the first decision after `number` that has a slot; 0 if there is none.

    Refused decisions have no slot.
    """
    query = "SELECT ask FROM decisions WHERE policy = ? AND number > ? AND ask IS NOT NULL ORDER BY number"
    row = reads.one(f"{query} LIMIT 1", policy, number)
    return 0 if row is None else slot_of(row[0])


def rounds_released(reads: Reads, policy: str) -> int:
    """Return the number of a policy's rounds that are in released blocks."""
    row = reads.one("SELECT MAX(rounds) FROM releases WHERE policy = ?", policy)
    return int((row[0] if row else None) or 0)


def _note_old(writes: Writes, policy: str, before: int, at: float) -> None:
    looks = looks_of(writes, policy)  # outcomes stay in the state until their look is released, too
    kept = rounds_released(writes, policy)
    if before > (kept if looks is None else min(kept, looks["closed"])):
        known = writes.one("SELECT value FROM facts WHERE name = ?", _OLD + policy)
        if known is not None:
            earlier, _, since = known[0].partition(" ")
            before, at = max(before, int(earlier)), float(since)
        note_fact(writes, _OLD + policy, f"{before} {at!r}")


def old_rounds(reads: Reads, *, now: float) -> list[Old]:
    """Return the rounds that are to be erased at the time `now` or before."""
    found = []
    for name, value in reads.rows("SELECT name, value FROM facts WHERE substr(name, 1, 4) = 'old '"):
        before, _, at = value.partition(" ")
        if float(at) <= now:
            found.append(Old(name.removeprefix(_OLD), int(before), value))
    return found


def erase_old_rounds_by(writes: Writes, latest: float) -> None:
    """Change recorded times of erasures that are later than `latest` to `latest`."""
    for policy, before, value in old_rounds(writes, now=math.inf):
        at = min(float(value.partition(" ")[2]), latest)
        note_fact(writes, _OLD + policy, f"{before} {at!r}")


def done(writes: Writes, old: Old, *, now: float) -> None:
    """Record that old rounds were erased.

    If they were in no release, add an event with their public numbers.
    """
    if not writes.run("DELETE FROM facts WHERE name = ? AND value = ?", _OLD + old.policy, old.value):
        return  # another worker was faster, or more rounds were recorded meanwhile
    first = rounds_released(writes, old.policy)
    name = writes.one("SELECT name FROM policies WHERE id = ?", old.policy)
    if name is not None and old.before > first:
        told = f"rounds {first} to {old.before - 1} are older than the retention time and count nothing"
        note_event(writes, now, "rounds-erased", f"policy {name[0]}", told)


def exported(read: Callable[[Callable[[Reads], Any]], Any], keys: Keys, policy: str) -> Iterator[str]:
    """Yield a policy's raw decisions as JSON lines, in pages, after a line with a warning.

    Each page is read in its own transaction, so that no transaction stays open for a slow client. Every
    decision that is committed when the first page is read comes once, in the order of numbers, as it is when
    its page is read. So a later reward may be included, and a decision that is erased meanwhile is not.
    Later decisions are left out.

    Args:
        read: function that runs a call in a read transaction.
        keys: secret of the decisions' ids.
        policy: id of the policy.
    """
    yield json.dumps({"warning": WARNING}) + "\n"
    newest = read(lambda reads: reads.one("SELECT MAX(number) FROM decisions"))
    after, last = 0, int((newest[0] if newest else None) or 0)
    page = (
        "SELECT number, asked_at, status, answer, reward, metrics FROM decisions WHERE policy = ? "
        "AND number > ? AND number <= ? AND answer IS NOT NULL ORDER BY number LIMIT ?"
    )
    while rows := read(lambda reads: reads.rows(page, policy, after, last, _PAGE)):  # noqa: B023 - at once
        lines = []
        for number, asked_at, status, answer, reward, metrics in rows:
            line: dict[str, Any] = {"id": keys.decision_id(number), "asked_at": asked_at, "status": status}
            told = {} if metrics is None else {"metrics": json.loads(metrics)}
            lines.append(json.dumps({**line, **json.loads(answer), "reward": reward, **told}) + "\n")
        yield "".join(lines)
        after = int(rows[-1][0])
