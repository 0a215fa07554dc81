"""Where a device keeps its reports until the server has them: a retry sends the same bytes."""

import os
import tempfile
import threading
from pathlib import Path
from typing import Protocol

from dpbandits.errors import StateError

__all__ = ["FileOutbox", "MemoryOutbox", "Outbox"]

_SUFFIX = ".report"


class Outbox(Protocol):
    """Reports by key. `put` returns only when the report would survive what the outbox survives."""

    def put(self, key: str, report: bytes) -> None:
        """Keep a report."""

    def get(self, key: str) -> bytes | None:
        """The report, or None."""

    def pending(self) -> dict[str, bytes]:
        """All reports not yet removed."""

    def remove(self, key: str) -> None:
        """Forget a report that the server has; unknown keys are fine."""


class MemoryOutbox:
    """Keeps reports while the process lives: for tests, notebooks and simulations."""

    def __init__(self) -> None:
        self._reports: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def put(self, key: str, report: bytes) -> None:
        """See `Outbox.put`."""
        with self._lock:
            self._reports[key] = report

    def get(self, key: str) -> bytes | None:
        """See `Outbox.get`."""
        return self._reports.get(key)

    def pending(self) -> dict[str, bytes]:
        """See `Outbox.pending`."""
        with self._lock:
            return dict(self._reports)

    def remove(self, key: str) -> None:
        """See `Outbox.remove`."""
        with self._lock:
            self._reports.pop(key, None)


class FileOutbox:
    """One file a report in a folder of mode 0700; durable before `put` returns.

    Args:
        folder: made where it does not exist.

    Raises:
        StateError: the folder cannot be used.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = Path(folder)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"the outbox folder cannot be made: {error.strerror}") from None

    def put(self, key: str, report: bytes) -> None:
        """Write beside, flush to disk, then rename: a crash leaves the whole report or none."""
        descriptor, temporary = tempfile.mkstemp(dir=self._folder)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(report)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(self._path(key))
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def get(self, key: str) -> bytes | None:
        """See `Outbox.get`."""
        path = self._path(key)
        return path.read_bytes() if path.exists() else None

    def pending(self) -> dict[str, bytes]:
        """See `Outbox.pending`."""
        return {
            path.name.removesuffix(_SUFFIX): path.read_bytes() for path in self._folder.glob(f"*{_SUFFIX}")
        }

    def remove(self, key: str) -> None:
        """See `Outbox.remove`."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        if not key.isalnum():
            raise StateError("outbox keys are letters and digits")
        return self._folder / f"{key}{_SUFFIX}"
