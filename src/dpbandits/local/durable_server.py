"""A server that a crash does not make forget: every report is on disk before it is confirmed.

A device forgets a report when the server has confirmed it, so the server must not lose it afterwards.
Everything a server knows follows from its reports, their order and the points at which it published; that
is what is kept, and a new process rebuilds the server from it, every published version included.

Two files in a folder of mode 0700, and a lock that one server holds as long as it lives:

- `reports.log`: records, one an accepted call. A record is its length, its kind, its content and a digest
  chained to the record before;
- `reports.end`: length and last digest of what was confirmed, replaced atomically after the log is on disk.

What lies behind the end was never confirmed, and the next record is written over it. What lies before it
must be there and unchanged: anything else is refused. Reports are private by themselves, so the folder
holds no raw data. An old copy of the whole folder cannot be told from the newest one: it forgets reports
and reveals nothing.
"""

import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, NamedTuple, NoReturn, Protocol, Self, TypeVar

import numpy as np

from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, ProtocolError, StateError
from dpbandits.state.files import replace_durably, sync_directory, write_durably

__all__ = ["DurableServer", "Recorded"]

_HEADER = b"dpbandits server log 1\n"
_ABSORB, _PUBLISH = b"A", b"P"
_FRAME = struct.Struct("<Qc")
_COUNT = struct.Struct("<I")
_DIGEST_BYTES = 32
_END = struct.Struct(f"<Q{_DIGEST_BYTES}s")

TallyT_co = TypeVar("TallyT_co", covariant=True)
PolicyT_co = TypeVar("PolicyT_co", bound="_Versioned", covariant=True)


class _Versioned(Protocol):
    @property
    def version(self) -> int:
        """Counts up."""


class Recorded(Protocol[TallyT_co, PolicyT_co]):
    """What is rebuilt: `Server`, `GPUCBServer` or `Dubey2021LocalServer`, freshly made."""

    def absorb(self, reports: Sequence[bytes]) -> TallyT_co:
        """Count reports."""

    def publish(self) -> PolicyT_co:
        """The current policy."""


class _Mark(NamedTuple):
    """How far the log reaches, and the digest of its last record."""

    length: int
    digest: bytes


class DurableServer(Generic[TallyT_co, PolicyT_co]):
    """A server and its log.

    Args:
        server: a fresh server; its spec's public seed makes it rebuild what it decided.
        folder: made where it does not exist.
        spec_digest: of the spec, so that a log is never replayed for another one.

    Raises:
        StateError: another server uses the folder, or it cannot be used.
        CorruptState: the log was changed or cut.
        IncompatibleState: the log is another spec's, or this machine rebuilds a version otherwise than it
            was published.

    Example:
        >>> import tempfile
        >>> from dpbandits.domains import Box
        >>> from dpbandits.local import Client, PartitionBanditSpec, Server
        >>> spec = PartitionBanditSpec(domain=Box(low=[0], high=[1]), n_arms=2, epsilon=1.0)
        >>> folder, client = tempfile.mkdtemp(), Client(spec)
        >>> with DurableServer(Server(spec), folder, spec_digest=spec.digest) as server:
        ...     arm = client.choose(server.publish(), [0.3])
        ...     report = client.privatize([0.3], arm, reward=1.0)
        ...     server.absorb([report]).accepted
        1
        >>> with DurableServer(Server(spec), folder, spec_digest=spec.digest) as server:
        ...     server.absorb([report]).repeated
        1
    """

    def __init__(
        self, server: Recorded[TallyT_co, PolicyT_co], folder: str | os.PathLike[str], *, spec_digest: bytes
    ) -> None:
        self._server = server
        self._folder = Path(folder)
        self._process = os.getpid()
        self._version: int | None = None
        self._attempt: tuple[_Mark, Sequence[bytes] | None] | None = None
        self._unrecorded: bytes | None = None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"the server's folder cannot be made: {error.strerror}") from None
        self._lock: int | None = _held(self._folder / "server.lock")
        try:
            self._mark = self._opened(_HEADER + hashlib.sha256(spec_digest).digest())
        except BaseException:
            self.close()
            raise

    # -- what a server does -------------------------------------------------------------------------

    def absorb(self, reports: Sequence[bytes]) -> TallyT_co:
        """As the server's own; returns when the reports are on disk. Then, and only then, confirm them.

        Raises:
            OSError: the disk refused; nothing was counted. Send the batch again.
        """
        self._settle()
        # what is no bytes counts as malformed, now and at every replay, like an empty report
        batch = [report if type(report) is bytes else b"" for report in reports]
        lengths = b"".join(_COUNT.pack(len(report)) for report in batch)
        self._append(_ABSORB, _COUNT.pack(len(batch)) + lengths + b"".join(batch), batch)
        return self._server.absorb(batch)

    def publish(self) -> PolicyT_co:
        """As the server's own; a new version is on disk before it is returned."""
        self._settle()
        policy = self._server.publish()
        if policy.version != self._version:
            self._unrecorded = _digest_of(policy)
            self._version = policy.version
            self._record_version()
        return policy

    @property
    def server(self) -> Recorded[TallyT_co, PolicyT_co]:
        """The server itself, to look at; what it absorbs by itself is not kept."""
        return self._server

    def close(self) -> None:
        """Let another server have the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DurableServer({self._server!r})"

    def __reduce__(self) -> NoReturn:
        raise ProtocolError("a DurableServer cannot be copied or pickled: one server writes one log")

    # -- writing --------------------------------------------------------------------------------------

    def _append(self, kind: bytes, content: bytes, batch: Sequence[bytes] | None) -> None:
        """Log, then end: each durable before the next."""
        record = _FRAME.pack(len(content), kind) + content
        digest = hashlib.sha256(self._mark.digest + record).digest()
        mark = _Mark(self._mark.length + len(record) + _DIGEST_BYTES, digest)
        self._attempt = mark, batch
        _overwrite(self._log, self._mark.length, record + digest)
        self._move_end(mark)
        self._mark, self._attempt = mark, None

    def _move_end(self, mark: _Mark) -> None:
        beside = self._end.with_name("reports.end.next")
        write_durably(beside, _END.pack(*mark))
        replace_durably(beside, self._end)

    def _settle(self) -> None:
        """Refuse foreign processes; finish or drop what an earlier call could not write."""
        if os.getpid() != self._process:
            raise ForkedState("this process was forked from the one that holds the server: open it here")
        if self._lock is None:
            raise ProtocolError("the server was closed")
        if self._attempt is not None:
            mark, batch = self._attempt
            if self._read_end() == mark:  # it did arrive, though not surely for good
                sync_directory(self._folder)
                self._mark = mark
                if batch is None:
                    self._unrecorded = None
                else:
                    self._server.absorb(batch)
            self._attempt = None
        self._record_version()

    def _record_version(self) -> None:
        if self._unrecorded is not None:
            self._append(_PUBLISH, self._unrecorded, None)
            self._unrecorded = None

    # -- reading --------------------------------------------------------------------------------------

    def _opened(self, header: bytes) -> _Mark:
        """Make the two files, or replay them."""
        if not self._end.exists():
            if self._log.exists() and self._log.stat().st_size > len(header):
                raise CorruptState("the server's folder lacks `reports.end`: restore it from a backup")
            first = _Mark(len(header), hashlib.sha256(header).digest())
            write_durably(self._log, header)
            self._move_end(first)
            return first
        mark = self._read_end()
        at = _Mark(len(header), hashlib.sha256(header).digest())
        try:
            if self._log.stat().st_size < mark.length:  # asked first: a forged length must not cost memory
                raise _damaged()
            with self._log.open("rb") as file:
                data = file.read(mark.length)
        except FileNotFoundError:
            raise _damaged() from None
        if len(data) != mark.length or data[: len(_HEADER)] != _HEADER:
            raise _damaged()
        if data[: len(header)] != header:
            raise IncompatibleState("the log belongs to another spec: choose another folder")
        records = []
        for kind, content, after in _records(data, at):
            records.append((kind, content))
            at = after
        if at != mark:
            raise _damaged()
        for kind, content in records:
            self._replay(kind, content)
        return mark

    def _replay(self, kind: bytes, content: bytes) -> None:
        if kind == _ABSORB:
            self._server.absorb(_batch(content))
            return
        policy = self._server.publish()
        self._version = policy.version
        if _digest_of(policy) != content:
            raise IncompatibleState(
                "a version that was published comes out otherwise here: use the library's version and the "
                "machine that the log was written with"
            )

    def _read_end(self) -> _Mark:
        try:
            data = self._end.read_bytes()
            return _Mark(*_END.unpack(data))
        except (FileNotFoundError, struct.error):
            raise _damaged() from None

    @property
    def _log(self) -> Path:
        return self._folder / "reports.log"

    @property
    def _end(self) -> Path:
        return self._folder / "reports.end"


def _held(path: Path) -> int:
    """The lock's descriptor, locked; the system frees it when the process dies."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StateError("another server uses this folder, or its file system has no locks") from None
    return descriptor


def _overwrite(path: Path, offset: int, data: bytes) -> None:
    """Cut the file at `offset`, write there, through to disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.ftruncate(descriptor, offset)
        os.lseek(descriptor, offset, os.SEEK_SET)
        remaining = memoryview(data)
        while remaining:
            remaining = remaining[os.write(descriptor, remaining) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _records(data: bytes, at: _Mark) -> Iterator[tuple[bytes, bytes, _Mark]]:
    """Kind, content and where the log stands after each record; CorruptState where one is no record."""
    while at.length < len(data):
        start = at.length
        if start + _FRAME.size > len(data):
            raise _damaged()
        size, kind = _FRAME.unpack_from(data, start)
        stop = start + _FRAME.size + size
        if stop + _DIGEST_BYTES > len(data) or kind not in (_ABSORB, _PUBLISH):
            raise _damaged()
        digest = hashlib.sha256(at.digest + data[start:stop]).digest()
        if digest != data[stop : stop + _DIGEST_BYTES]:
            raise _damaged()
        at = _Mark(stop + _DIGEST_BYTES, digest)
        yield kind, data[start + _FRAME.size : stop], at


def _batch(content: bytes) -> list[bytes]:
    """Reports as they came; the record's digest has vouched for the content."""
    (count,) = _COUNT.unpack_from(content, 0)
    start = _COUNT.size * (count + 1)
    reports = []
    for index in range(count):
        (size,) = _COUNT.unpack_from(content, _COUNT.size * (index + 1))
        reports.append(content[start : start + size])
        start += size
    return reports


def _digest_of(policy: object) -> bytes:
    """Digest of a published policy's numbers, bit for bit."""
    digest = hashlib.sha256()
    for name, value in sorted(vars(policy).items()):
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype} {value.shape} ".encode() + value.tobytes())
        else:
            digest.update(f"{name} {value!r} ".encode())
    return digest.digest()


def _damaged() -> CorruptState:
    return CorruptState("the server's log was changed or cut: restore the folder from a backup")
