"""How long raw data is kept, and how it leaves: erased after a time, or exported under its own name.

Contexts are kept nowhere but in a policy's log of rounds and its state, encoded, until the release of their
block. A block's rounds are forgotten with it, those of a long block in the next transactions. A decision
keeps its arm, its propensity and its reward, as the answer to a repeated id and for whoever evaluates
elsewhere, and no longer than the retention time. What stays of it is that its id was used. So it is with a
curator's answers.

Some blocks are released late or never: the policy was retired, nobody asks it any more, or its blocks take
longer than the retention time. A round that is older and that no release holds is erased all the same,
together with those of the next hundredth of the retention time, as a state is written for it. From then on it
counts as a round whose context could not be read: nothing. A reward that comes for a decision that old is
late.

Every promise stays as it was. Which rounds are erased, and when, rests on their slots, on when they were
asked, on the clock, on the setting and on which blocks were released, and on nothing that anybody brought or
told; a round whose context could not be read grows old as any other. An erased round contributes zero to its
block, and others contribute as before. So a sum moves by one person's data no further than the noise was
calibrated for; number, places, noise and cost of the releases stay: `ServedBandit.erase_rounds`.

What is to be erased is a fact of the store before it is done, and done before that fact is removed: whatever
interrupts, it is done again, and then changes nothing more.
"""

import json
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

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
"""Decisions that an export reads at once."""


_OLD = "old "
"""How the facts begin that say of a policy which rounds are to be erased, and from when on."""


class Old(NamedTuple):
    """Rounds of a policy before `before` are to be erased; `value` is of the fact that says so."""

    policy: str
    before: int
    value: str


def erase(writes: Writes, *, before: float, now: float, rounds_at: float) -> int:
    """Erase decisions that were asked before a time, some at a time, and old answers; how many decisions.

    A reward that they await is late from now on, unless their wait is over: then `decisions.sweep` says what
    became of them. Their rounds that no release holds are erased by whoever looks for `old_rounds`, from the
    time `rounds_at` on.
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
    rows = [row for row in rows if row[1] < before]  # but for `JUMP_SECONDS`, no later row is older
    if not rows:
        return 0
    last = int(rows[-1][0])
    erasing = (
        "UPDATE decisions SET answer = NULL, reward = NULL, body = ?, "
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
    """The first slot after a decision, where refused ones were kept without theirs: that of the next one that
    has one; 0 where none follows.
    """
    query = "SELECT ask FROM decisions WHERE policy = ? AND number > ? AND ask IS NOT NULL ORDER BY number"
    row = reads.one(f"{query} LIMIT 1", policy, number)
    return 0 if row is None else slot_of(row[0])


def rounds_released(reads: Reads, policy: str) -> int:
    """Rounds of the blocks that were released."""
    row = reads.one("SELECT MAX(rounds) FROM releases WHERE policy = ?", policy)
    return int((row[0] if row else None) or 0)


def _note_old(writes: Writes, policy: str, before: int, at: float) -> None:
    if before > rounds_released(writes, policy):
        known = writes.one("SELECT value FROM facts WHERE name = ?", _OLD + policy)
        if known is not None:
            earlier, _, since = known[0].partition(" ")
            before, at = max(before, int(earlier)), float(since)
        note_fact(writes, _OLD + policy, f"{before} {at!r}")


def old_rounds(reads: Reads, *, now: float) -> list[Old]:
    """Rounds that are to be erased by now."""
    found = []
    for name, value in reads.rows("SELECT name, value FROM facts WHERE substr(name, 1, 4) = 'old '"):
        before, _, at = value.partition(" ")
        if float(at) <= now:
            found.append(Old(name.removeprefix(_OLD), int(before), value))
    return found


def erase_old_rounds_by(writes: Writes, latest: float) -> None:
    """Let no rounds that are to be erased wait for a later time than this one."""
    for policy, before, value in old_rounds(writes, now=math.inf):
        at = min(float(value.partition(" ")[2]), latest)
        note_fact(writes, _OLD + policy, f"{before} {at!r}")


def done(writes: Writes, old: Old, *, now: float) -> None:
    """No raw data of theirs is left; where they were not released an event says which, in public numbers."""
    if not writes.run("DELETE FROM facts WHERE name = ? AND value = ?", _OLD + old.policy, old.value):
        return  # another worker was faster, or there are more by now
    first = rounds_released(writes, old.policy)
    name = writes.one("SELECT name FROM policies WHERE id = ?", old.policy)
    if name is not None and old.before > first:
        told = f"rounds {first} to {old.before - 1} are older than the retention time and count nothing"
        note_event(writes, now, "rounds-erased", f"policy {name[0]}", told)


def exported(read: Callable[[Callable[[Reads], Any]], Any], keys: Keys, policy: str) -> Iterator[str]:
    """Pages of a policy's decisions as lines of JSON, after a line that says what they are.

    Each page is a transaction of its own, so that whoever reads slowly holds none. Every decision that was
    committed when the first page was read comes once, in the order of numbers, as it stands when its page is
    read; so a reward that comes meanwhile may be in it, and what is erased meanwhile is not. Decisions that
    come later are left out.

    Args:
        read: makes a call in a transaction that reads.
        keys: of decisions' ids.
        policy: its id.
    """
    yield json.dumps({"warning": WARNING}) + "\n"
    newest = read(lambda reads: reads.one("SELECT MAX(number) FROM decisions"))
    after, last = 0, int((newest[0] if newest else None) or 0)
    page = (
        "SELECT number, asked_at, status, answer, reward FROM decisions WHERE policy = ? AND number > ? "
        "AND number <= ? AND answer IS NOT NULL ORDER BY number LIMIT ?"
    )
    while rows := read(lambda reads: reads.rows(page, policy, after, last, _PAGE)):  # noqa: B023 - at once
        lines = []
        for number, asked_at, status, answer, reward in rows:
            line: dict[str, Any] = {"id": keys.decision_id(number), "asked_at": asked_at, "status": status}
            lines.append(json.dumps({**line, **json.loads(answer), "reward": reward}) + "\n")
        yield "".join(lines)
        after = int(rows[-1][0])
