"""`Readiness`: checks whether this process can serve, with reasons in fixed words.

A thread runs all checks every `BEAT_SECONDS`, and `/v1/ready` reports the last results. So the endpoint is
cheap and never waits for the store, however often callers without a token ask.

| reason | failed check |
|---|---|
| `starting` | the first checks have ended |
| `disk` | the disk of the service's folder has `disk_floor` bytes left |
| `connection` | the store can be read |
| `witness` | the witness answers and accepts the position of the ledger |
| `ledger` | ledger and witness agree |
| `store` | the writer can insert and commit a row |
| `clock` | the clock is not stopped |
| `copy` | the store is no copy that waits for adoption |

A check that takes longer than `LATE_SECONDS` counts as failed until it ends.

Privacy: the words are fixed and describe machines. The check's own row waits among the calls of all senders.
Its duration shows the load of the service, as the duration of every answer does.
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
"""All reasons why a process is not ready, sorted; see the module."""

BEAT_SECONDS = 2.0
"""Number of seconds between two rounds of checks. One commit in this time costs little."""

LATE_SECONDS = 1.5
"""Number of seconds after which a running check counts as failed."""


class Readiness:
    """A thread that runs the checks; see the module.

    Args:
        service: service to check.
        seen: callback after every round of checks. Its arguments are the seconds of each successful step
            ("connection", "queue" and "commit"), and the reasons why the process is not ready.
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
        self._name = f"ready {secrets.token_hex(8)}"  # workers must not write the same row
        self._failed = {"starting"}
        self._step = "starting", time.monotonic()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._work, name="dpbandits readiness", daemon=True)
        self._thread.start()

    def reasons(self) -> list[str]:
        """Return the reasons why the process is not ready, sorted; empty if it is ready."""
        step, since = self._step
        late = {step} if time.monotonic() - since > LATE_SECONDS else set()
        stopped = {"clock"} if self._service.clock.stopped else set()
        return sorted(self._failed | late | stopped | ({"copy"} if self._service.read_only else set()))

    def close(self) -> None:
        """Stop the thread after the running check."""
        self._ending.set()
        self._thread.join()

    def _work(self) -> None:
        while not self._ending.is_set():
            self.beat()
            self._ending.wait(BEAT_SECONDS)

    def beat(self) -> None:
        """Run one round of all checks."""
        self._seconds.clear()
        for word, call in self._steps.items():
            self._step = word, time.monotonic()
            failed = self._failed - {word, "ledger" if word == "witness" else word}
            try:
                call()
            except (ForkedState, IncompatibleState):
                failed |= {"ledger"}
            except Exception:  # noqa: BLE001 - any error means that the check failed
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
