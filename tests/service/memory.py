"""How much a process grows after a warm-up, in KiB: `memory.py rows|decisions|blocks NUMBER FOLDER`."""

import gc
import json
import sys
import time
from pathlib import Path
from typing import Any

from dpbandits.service import core
from dpbandits.service.core import Service
from dpbandits.service.store import Reads, Row, SQLiteStore, note_event

TOGETHER = 64


def resident() -> int:
    """KiB of memory that the process has now."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def grown(number: int, some: Any) -> int:
    """KiB by which the process grows in the last three quarters of so many."""
    before = 0
    for first in range(0, number, TOGETHER):
        if not before and first >= number // 4:
            before = resident()
        some(range(first, first + TOGETHER))
    return resident() - before


def rows(folder: Path, number: int) -> int:
    """Rows of 5 KB."""
    store = SQLiteStore(folder / "rows.db")

    def enter(which: range) -> None:
        with store.writing() as writes:
            for one in which:
                note_event(writes, 0.0, "test", f"row {one * 7919 % number}", "x" * 5000)
        with store.reading() as reads:
            reads.one("SELECT COUNT(*) FROM events WHERE told > 'x'")

    return grown(number, enter)


def decisions(folder: Path, number: int) -> int:
    """Decisions, each with its reward."""
    from dpbandits.service.budgets import promise_of
    from service.conftest import CUSTOMERS, DEFAULTS

    service = Service(folder / "data")
    service.ledger.open_account("customers", privacy=promise_of(CUSTOMERS["privacy"]))
    service.begin_policy({**DEFAULTS, "horizon": 1_000_000, "settings": {}}, "t")

    def decide(which: range) -> None:
        context = {"age": 44, "region": "west"}
        bodies = [{"id": f"v{one}", "user": f"v{one}", "context": context} for one in which]
        answers = [service.decide("offers", "t", body) for body in bodies]
        told = [service.reward("offers", json.loads(one.result())["id"], 1.0) for one in answers]
        for one in told:
            one.result()

    found = grown(number, decide)
    service.close()
    return found


def blocks(folder: Path, number: int) -> int:
    """Two releases, after a first one of so many rounds: half as many, and twice as many.

    Rounds are written as the service keeps them, each of another user.
    """
    from dpbandits.policy.bookkeeping import RoundStatus
    from dpbandits.service.budgets import promise_of
    from service.conftest import AGNES, CUSTOMERS, DEFAULTS

    ends = [number, 3 * number // 2, 7 * number // 2]
    core.FOLD_SECONDS = 0.01
    service = Service(folder / "data")
    service.ledger.open_account("customers", privacy=promise_of(CUSTOMERS["privacy"]))
    tuning = {"blocks": ends, "lag": 0}
    service.begin_policy({**DEFAULTS, "horizon": ends[-1], "settings": {}, "tuning": tuning}, "t")
    service.decide("offers", "t", {"id": "v", "user": "v", "context": AGNES}).result()
    policy, chosen = service.read(lambda reads: reads.rows("SELECT policy, chosen FROM slots"))[0]
    told, first, after_one = int(RoundStatus.TOLD), 1, 0

    def left(reads: Reads) -> list[Row]:
        return reads.rows("SELECT released FROM progress WHERE NOT EXISTS (SELECT 1 FROM slots)")

    for released, end in enumerate(ends, 1):
        with service.store.writing() as writes:
            for slot in range(first, end, 100):
                some = range(slot, min(slot + 100, end))
                rows = [(policy, one, one.to_bytes(16, "big"), chosen, told, 1.0, None) for one in some]
                writes.many("slots", rows)
            writes.run("UPDATE progress SET asked = ?", end)
        while service.read(left) != [(released,)]:
            time.sleep(0.01)
        first, after_one = end, after_one or resident()
    found = resident() - after_one
    service.close()
    return found


if __name__ == "__main__":
    what, number, folder = sys.argv[1:]
    call = {"rows": rows, "decisions": decisions, "blocks": blocks}[what]
    sys.stdout.write(f"{call(Path(folder), int(number))}\n")
