"""Outboxes: they keep a device's reports until the server has them, so that a retry sends the same bytes."""

import hashlib
import json
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

from dpbandits._calls import worded
from dpbandits._reading import reading
from dpbandits.errors import CorruptState, IncompatibleState, ProtocolError, StateError
from dpbandits.local.contract.reports import DIGEST
from dpbandits.state.files import locked, private_folder, replace_durably, write_durably
from dpbandits.state.release_log import ReleaseLog

__all__ = ["FileOutbox", "MemoryOutbox", "Outbox"]

_SUFFIX = ".report"
_UNFINISHED = ".unfinished"
_PIN, _RELEASES = "spec", "releases"
_MAGIC = b"dpbandits report 1\n"
_OTHER = "this outbox holds reports of another spec: give every spec its own"
_HEADER_BYTES = len(_MAGIC) + hashlib.sha256().digest_size


@runtime_checkable
class Outbox(Protocol):
    """Reports by key. `put` returns only when the report would survive what the outbox survives."""

    def pin(self, fingerprint: str, digest: bytes) -> None:
        """Bind the outbox to one spec, for as long as it lasts.

        Args:
            fingerprint: of the spec.
            digest: that its reports carry.

        Raises:
            IncompatibleState: it is bound to another spec, or holds reports of one.
        """

    def remember(self, purpose: str, terms: Mapping[str, Any]) -> None:
        """Keep for good on which terms releases are made, before the first; known terms change nothing."""

    def log(self) -> ReleaseLog:
        """All terms that are kept."""

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
        self._pinned: str | None = None
        self._log = ReleaseLog()

    def pin(self, fingerprint: str, digest: bytes) -> None:
        """See `Outbox.pin`."""
        with self._lock:
            self._pinned = self._pinned or fingerprint
            if self._pinned != fingerprint:
                raise IncompatibleState(_OTHER)

    def remember(self, purpose: str, terms: Mapping[str, Any]) -> None:
        """See `Outbox.remember`."""
        with self._lock:
            self._log.remember(purpose, terms)

    def log(self) -> ReleaseLog:
        """See `Outbox.log`."""
        return self._log

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

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "a MemoryOutbox cannot be copied or pickled: clients over two copies would draw two reports of "
            "one choice. Use a FileOutbox, which processes share by its folder"
        )


@worded
class FileOutbox:
    """One file a report in a folder of mode 0700; durable before `put` returns.

    A file holds a checksum before the report: what a failing disk has changed is refused, never sent.
    Processes may share the folder. The file `spec` names the one spec whose reports it holds. The file
    `releases` holds the terms that they were made on (`dpbandits.state.release_log`), those that were sent
    included.

    Args:
        folder: made where it does not exist.

    Raises:
        StateError: the folder cannot be used, or others may write to it.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = private_folder(Path(folder), what="the outbox")
        self._lock = self._folder / ".lock"
        with locked(self._lock):  # nobody else is writing: what is unfinished will stay so
            for unfinished in self._folder.glob(f"*{_UNFINISHED}"):
                unfinished.unlink(missing_ok=True)

    def pin(self, fingerprint: str, digest: bytes) -> None:
        """See `Outbox.pin`; also CorruptState where a report or the file `spec` was changed."""
        path = self._folder / _PIN
        with locked(self._lock):
            try:
                pinned = path.read_bytes()
            except FileNotFoundError:
                held = self.pending().values()
                if any(report[DIGEST] != digest for report in held):
                    raise IncompatibleState(_OTHER) from None
                if held:
                    raise CorruptState("the outbox holds reports and not the spec that they are of") from None
                self._write(self._folder / _RELEASES, _summed(_written(ReleaseLog())))
                pinned = fingerprint.encode()
                self._write(path, pinned)
        if pinned != fingerprint.encode():
            raise IncompatibleState(_OTHER)

    def remember(self, purpose: str, terms: Mapping[str, Any]) -> None:
        """See `Outbox.remember`; raises as `log` does."""
        with locked(self._lock):
            log = self.log()
            if log.remember(purpose, terms):
                self._write(self._folder / _RELEASES, _summed(_written(log)))

    def log(self) -> ReleaseLog:
        """See `Outbox.log`.

        Raises:
            CorruptState: the file `releases` was changed or removed.
        """
        written = None
        with suppress(FileNotFoundError):
            written = _unsummed((self._folder / _RELEASES).read_bytes())
        if written is None:
            raise CorruptState(
                "the outbox's log of releases is damaged: on which terms it reported is not known"
            )
        with reading("an outbox's log of releases", CorruptState):
            return ReleaseLog.from_json(json.loads(written))

    def put(self, key: str, report: bytes) -> None:
        """Write beside, flush to disk, then rename: a crash leaves the whole report or none."""
        with locked(self._lock):
            self._write(self._path(key), _summed(report))

    def _write(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(f"{path.name.removesuffix(_SUFFIX)}{_UNFINISHED}")
        try:
            write_durably(temporary, data, renamed=True)
            replace_durably(temporary, path)
        except BaseException:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise

    def get(self, key: str) -> bytes | None:
        """See `Outbox.get`.

        Raises:
            CorruptState: the stored report was changed; `remove` it, its budget is spent.
        """
        try:
            data = self._path(key).read_bytes()
        except FileNotFoundError:
            return None
        report = _unsummed(data)
        if report is None:
            raise CorruptState(
                f"the stored report {key} is damaged and cannot be sent: remove it; its budget is spent"
            )
        return report

    def pending(self) -> dict[str, bytes]:
        """See `Outbox.pending`; raises as `get` does."""
        keys = [path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}")]
        found = ((key, self.get(key)) for key in sorted(keys))
        return {key: report for key, report in found if report is not None}  # or another process sent it

    def remove(self, key: str) -> None:
        """See `Outbox.remove`."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        if not key.isalnum():
            raise StateError("outbox keys are letters and digits")
        return self._folder / f"{key}{_SUFFIX}"


def _summed(content: bytes) -> bytes:
    """Content after its checksum."""
    return _MAGIC + hashlib.sha256(content).digest() + content


def _unsummed(data: bytes) -> bytes | None:
    """The content, or None where its checksum is another."""
    content = data[_HEADER_BYTES:]
    return content if data == _summed(content) else None


def _written(log: ReleaseLog) -> bytes:
    return json.dumps(log.to_json(), sort_keys=True).encode()
