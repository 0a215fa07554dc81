"""Outboxes: stores of a client's reports until the server has confirmed them.

A retry sends the same bytes.
"""

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
_OTHER = "this outbox holds reports of another spec: use one outbox for each spec"
_HEADER_BYTES = len(_MAGIC) + hashlib.sha256().digest_size


@runtime_checkable
class Outbox(Protocol):
    """A store of reports by key. `put` returns when the report is as durable as the store can make it."""

    def pin(self, fingerprint: str, digest: bytes) -> None:
        """Bind the outbox to one spec permanently.

        Args:
            fingerprint: Fingerprint of the spec.
            digest: Digest that the spec's reports carry.

        Raises:
            IncompatibleState: the outbox is bound to another spec, or holds reports of one.
        """

    def remember(self, purpose: str, terms: Mapping[str, Any]) -> None:
        """Store the terms of releases permanently, before the first release. Known terms change nothing."""

    def log(self) -> ReleaseLog:
        """Return all stored terms of releases."""

    def put(self, key: str, report: bytes) -> None:
        """Store a report."""

    def get(self, key: str) -> bytes | None:
        """Return the report with this key, or None if there is none."""

    def pending(self) -> dict[str, bytes]:
        """Return all reports not yet removed, by their keys."""

    def remove(self, key: str) -> None:
        """Remove a report that the server has confirmed; an unknown key is ignored."""


class MemoryOutbox:
    """Outbox in the memory of the process, for tests, notebooks and simulations."""

    def __init__(self) -> None:
        self._reports: dict[str, bytes] = {}
        self._lock = threading.Lock()
        self._pinned: str | None = None
        self._log = ReleaseLog()

    def pin(self, fingerprint: str, digest: bytes) -> None:
        """Bind the outbox to one spec; see `Outbox.pin`."""
        with self._lock:
            self._pinned = self._pinned or fingerprint
            if self._pinned != fingerprint:
                raise IncompatibleState(_OTHER)

    def remember(self, purpose: str, terms: Mapping[str, Any]) -> None:
        """Store the terms of releases; see `Outbox.remember`."""
        with self._lock:
            self._log.remember(purpose, terms)

    def log(self) -> ReleaseLog:
        """Return all stored terms of releases."""
        return self._log

    def put(self, key: str, report: bytes) -> None:
        """Store a report."""
        with self._lock:
            self._reports[key] = report

    def get(self, key: str) -> bytes | None:
        """Return the report with this key, or None if there is none."""
        return self._reports.get(key)

    def pending(self) -> dict[str, bytes]:
        """Return all reports not yet removed, by their keys."""
        with self._lock:
            return dict(self._reports)

    def remove(self, key: str) -> None:
        """Remove a report that the server has confirmed; an unknown key is ignored."""
        with self._lock:
            self._reports.pop(key, None)

    def __reduce__(self) -> NoReturn:
        raise ProtocolError(
            "a MemoryOutbox cannot be copied or pickled: clients with two copies would draw two reports for "
            "one choice. Use a FileOutbox, which processes share by its folder"
        )


@worded
class FileOutbox:
    """Outbox with one file for each report in a folder of mode 0700. Files are durable before `put` returns.

    A file starts with a checksum, and a damaged file is refused and never sent. Processes may share the
    folder. The file `spec` holds the fingerprint of the one spec that the outbox is bound to. The file
    `releases` holds the terms of all reports (`dpbandits.state.release_log`), including those that were
    sent.

    Args:
        folder: Folder of the outbox, created if it does not exist.

    Raises:
        StateError: the folder cannot be used, or other users may write to it.
    """

    def __init__(self, folder: str | Path) -> None:
        self._folder = private_folder(Path(folder), what="the outbox")
        self._lock = self._folder / ".lock"
        with locked(self._lock):  # no other process writes now: an unfinished file is left over from a crash
            for unfinished in self._folder.glob(f"*{_UNFINISHED}"):
                unfinished.unlink(missing_ok=True)

    def pin(self, fingerprint: str, digest: bytes) -> None:
        """Bind the outbox to one spec. Raise CorruptState also if a report or the file `spec` was changed."""
        path = self._folder / _PIN
        with locked(self._lock):
            try:
                pinned = path.read_bytes()
            except FileNotFoundError:
                held = self.pending().values()
                if any(report[DIGEST] != digest for report in held):
                    raise IncompatibleState(_OTHER) from None
                if held:
                    raise CorruptState("the outbox holds reports, but its file spec is missing") from None
                self._write(self._folder / _RELEASES, _summed(_written(ReleaseLog())))
                pinned = fingerprint.encode()
                self._write(path, pinned)
        if pinned != fingerprint.encode():
            raise IncompatibleState(_OTHER)

    def remember(self, purpose: str, terms: Mapping[str, Any]) -> None:
        """Store terms; see `Outbox.remember`. Errors are those of `log`."""
        with locked(self._lock):
            log = self.log()
            if log.remember(purpose, terms):
                self._write(self._folder / _RELEASES, _summed(_written(log)))

    def log(self) -> ReleaseLog:
        """Return all stored terms of releases.

        Raises:
            CorruptState: the file `releases` was changed or removed.
        """
        written = None
        with suppress(FileNotFoundError):
            written = _unsummed((self._folder / _RELEASES).read_bytes())
        if written is None:
            raise CorruptState(
                "the outbox's log of releases is damaged: the guarantee of its reports is not known"
            )
        with reading("an outbox's log of releases", CorruptState):
            return ReleaseLog.from_json(json.loads(written))

    def put(self, key: str, report: bytes) -> None:
        """Store a report: write a temporary file, flush it to disk and rename it.

        A crash leaves the whole report or none.
        """
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
        """Return the report with this key, or None if there is none.

        Raises:
            CorruptState: the stored report was changed. `remove` it; its budget is spent.
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
        """Return all reports not yet removed, by their keys. Errors are those of `get`."""
        keys = [path.name.removesuffix(_SUFFIX) for path in self._folder.glob(f"*{_SUFFIX}")]
        found = ((key, self.get(key)) for key in sorted(keys))
        return {key: report for key, report in found if report is not None}

    def remove(self, key: str) -> None:
        """Remove a report that the server has confirmed; an unknown key is ignored."""
        self._path(key).unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        if not key.isalnum():
            raise StateError("key: expected letters and digits")
        return self._folder / f"{key}{_SUFFIX}"


def _summed(content: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(content).digest() + content


def _unsummed(data: bytes) -> bytes | None:
    content = data[_HEADER_BYTES:]
    return content if data == _summed(content) else None


def _written(log: ReleaseLog) -> bytes:
    return json.dumps(log.to_json(), sort_keys=True).encode()
