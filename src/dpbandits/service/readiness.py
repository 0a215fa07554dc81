"""`Readiness`: whether this process can serve now, in fixed words.

A thread checks every `BEAT_SECONDS` what answers depend on. `/v1/ready` tells what it found. So an answer
costs nothing and waits for nothing, whatever the store does and however often somebody without a token asks.

| word | what is tried, or known |
|---|---|
| `starting` | nothing was tried yet |
| `disk` | the disk of the service's folder has `disk_floor` bytes left |
| `connection` | the store is read |
| `witness` | the witness is told how far the ledger has gone, and answers |
| `ledger` | the two agree |
| `store` | a row is written by the writer, in its turn, and committed |
| `clock` | the clock is not stopped |
| `copy` | the folder is not a copy that was not adopted |

A step that takes longer than `LATE_SECONDS` has failed until it ends.

Privacy: the words are fixed and tell of machines. The service's own row takes its turn among those of
callers; how long that takes says how busy the service is, as the time of every answer does.
"""

import secrets
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dpbandits.errors import ForkedState, IncompatibleState, StateError
from dpbandits.service.core import Service
from dpbandits.service.store import Writes

__all__ = ["WORDS", "Readiness"]

WORDS = ("clock", "connection", "copy", "disk", "ledger", "starting", "store", "witness")
"""All reasons."""

BEAT_SECONDS = 2.0
"""Seconds between two checks; the cost of one commit in this time is negligible."""

LATE_SECONDS = 1.5
"""Seconds after which a step has failed."""


class Readiness:
    """The thread; see the module.

    Args:
        service: it is asked whether it can serve.
        seen: told how many seconds "connection", "queue" and "commit" took, where they did not fail, and
            `reasons`, after every turn.
    """

    def __init__(
        self, service: Service, seen: Callable[[Mapping[str, float], Sequence[str]], object]
    ) -> None:
        self._service, self._seen = service, seen
        self._seconds: dict[str, float] = {}
        self._steps: dict[str, Callable[[], object]] = {
            "disk": self._disk,
            "connection": self._read,
            "witness": service.ledger.check if service.read_only else service.ledger.settle,
        }
        if not service.read_only:
            self._steps["store"] = self._write
        self._name = f"ready {secrets.token_hex(8)}"  # no two workers write the same row
        self._failed = {"starting"}
        self._step = "starting", time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="dpbandits readiness", daemon=True)
        self._thread.start()

    def reasons(self) -> list[str]:
        """Return the reasons why it is not ready, as words of the module; empty if it is."""
        step, since = self._step
        late = {step} if time.monotonic() - since > LATE_SECONDS else set()
        stopped = {"clock"} if self._service.clock.stopped else set()
        return sorted(self._failed | late | stopped | ({"copy"} if self._service.read_only else set()))

    def close(self) -> None:
        """Stop, once what is being tried has ended."""
        self._ending.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ending.is_set():
            self.beat()
            self._ending.wait(BEAT_SECONDS)

    def beat(self) -> None:
        """Try everything once."""
        self._seconds.clear()
        for word, call in self._steps.items():
            self._step = word, time.monotonic()
            failed = self._failed - {word, "ledger" if word == "witness" else word}
            try:
                call()
            except (ForkedState, IncompatibleState):
                failed |= {"ledger"}
            except Exception:  # noqa: BLE001 - whatever it is, this does not work
                failed |= {word}
            self._failed = failed
        self._step, self._failed = ("", float("inf")), self._failed - {"starting"}
        self._seen(self._seconds, self.reasons())

    def _disk(self) -> None:
        if shutil.disk_usage(self._service.folder).free < self._service.settings.disk_floor:
            raise StateError("the disk is almost full")

    def _read(self) -> None:
        began = time.perf_counter()
        self._service.read(lambda reads: reads.one("SELECT value FROM facts WHERE name = 'version'"))
        self._seconds["connection"] = time.perf_counter() - began

    def _write(self) -> None:
        began = turn = time.perf_counter()

        def writing(writes: Writes) -> None:
            nonlocal turn
            turn = time.perf_counter()
            writes.run("INSERT INTO facts VALUES (?, '')", self._name)
            writes.run("DELETE FROM facts WHERE name = ?", self._name)

        self._service.write(writing).result()
        self._seconds |= {"queue": turn - began, "commit": time.perf_counter() - turn}
