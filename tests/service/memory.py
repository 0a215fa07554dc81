"""How much a process grows: `python memory.py rows|decisions NUMBER FOLDER` prints KiB, after a warm-up."""

import gc
import json
import sys
from pathlib import Path
from typing import Any

from dpbandits.service.core import Service
from dpbandits.service.store import SQLiteStore, note_event

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


if __name__ == "__main__":
    what, number, folder = sys.argv[1:]
    sys.stdout.write(f"{ {'rows': rows, 'decisions': decisions}[what](Path(folder), int(number)) }\n")
