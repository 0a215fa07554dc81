"""A server that a crash does not make forget: every report is on disk before it is confirmed.

A device forgets a report when the server has confirmed it, so the server must not lose it afterwards.
Everything a server knows follows from its reports, their order and the points at which it published; that
is what is kept, and a new process rebuilds the server from it, every published version included.

Two files in a folder of mode 0700, and a lock that one server holds as long as it lives:

- `reports.log`: records, one an accepted call: reports absorbed, a version published, counts merged, a source
  or a target attached (with the sums that it handed over). A record is its length, its kind, its content and
  a digest chained to the record before;
- `reports.end`: length and last digest of what was confirmed, replaced atomically after the log is on disk.

What lies behind the end was never confirmed, and the next record is written over it. What lies before it
must be there and unchanged: anything else is refused. Reports are private by themselves, so the folder
holds no raw data. An old copy of the whole folder cannot be told from the newest one: it forgets reports
and reveals nothing.
"""

import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, Self, TypeVar

from dpbandits.errors import CorruptState, ForkedState, IncompatibleState, ProtocolError, StateError
from dpbandits.local.server.log import (
    ABSORB,
    COUNT,
    DIGEST_BYTES,
    FRAME,
    MERGE,
    PUBLISH,
    SOURCE,
    STARTED,
    TARGET,
    Mark,
    batch_of,
    damaged,
    digest_of,
    held,
    overwrite,
    records_in,
)
from dpbandits.state.files import replace_durably, sync_directory, write_durably

if TYPE_CHECKING:
    from dpbandits.local.contract.reports import PublishedArms
    from dpbandits.local.contract.sources import SourceSpec
    from dpbandits.local.server.counting import ReportCounts
    from dpbandits.local.server.server import Server

__all__ = ["DurableServer", "Recorded"]

_HEADER = b"dpbandits server log 1\n"
_END = struct.Struct(f"<Q{DIGEST_BYTES}s")

ResultT = TypeVar("ResultT")
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


class DurableServer(Generic[TallyT_co, PolicyT_co]):
    """A server and its log.

    Args:
        server: a fresh server; its spec's public seed makes it rebuild what it decided.
        folder: made where it does not exist.
        spec_digest: of the spec, so that a log is never replayed for another one.

    Raises:
        StateError: another server uses the folder, or it cannot be used.
        ProtocolError: the server has done something before.
        CorruptState: the log was changed or cut.
        IncompatibleState: the log is another spec's, or this machine rebuilds a version otherwise than it
            was published.

    Example:
        >>> import tempfile
        >>> from dpbandits.domains import Box
        >>> from dpbandits.local import Client, Spec, Server
        >>> spec = Spec(domain=Box(low=[0], high=[1]), n_arms=2, epsilon=1.0)
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
        self._attempt: tuple[Mark, Callable[[], object] | None] | None = None
        self._unrecorded: tuple[bytes, bytes] | None = None
        self._changes: int | None = None
        self._told: PublishedArms | None = None
        if self._now():
            raise ProtocolError("expected a fresh server: what it did before is in no log")
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"the server's folder cannot be made: {error.strerror}") from None
        self._lock: int | None = held(self._folder / "server.lock")
        try:
            self._mark = self._opened(_HEADER + hashlib.sha256(spec_digest).digest())
            self._changes = self._now()
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
        lengths = b"".join(COUNT.pack(len(report)) for report in batch)
        content = COUNT.pack(len(batch)) + lengths + b"".join(batch)
        return self._logged(ABSORB, content, lambda: self._server.absorb(batch))

    def publish(self) -> PolicyT_co:
        """As the server's own; a new version is on disk before it is returned."""
        self._settle()
        policy = self._server.publish()
        self._changes = self._now()
        if policy.version != self._version:
            self._published(PUBLISH, policy)
            self._record_version()
        return policy

    def merge(self, counts: "ReportCounts") -> int:
        """As `Server.merge`; returns when the counts are on disk.

        Raises:
            IncompatibleState: as `Server.merge`; nothing was written.
            ProtocolError: as `Server.merge`, or the server is of another kind; nothing was written.
            OSError: the disk refused. Merge again; where it says that the reports are in both, they arrived.
        """
        from dpbandits.local.server.records import counts_record

        self._settle()
        server = self._partition_server()
        server.check_merge(counts)
        return self._logged(MERGE, counts_record(counts), lambda: server.merge(counts))

    def attach(self, source: "SourceSpec", server: "Server") -> "PublishedArms":
        """As `Server.attach`; the source's sums are on disk before the new version is returned.

        Raises:
            IncompatibleState: as `Server.attach`; nothing was written.
            ProtocolError: as `Server.attach`, or the server is of another kind; nothing was written.
            OSError: the disk refused. Attach again.
        """
        from dpbandits.local.server.records import sums_record

        self._settle()
        mine = self._partition_server()
        sums = mine._sums_of(source, server)
        content = sums_record(source, sums)
        policy = self._logged(SOURCE, content, lambda: self._start(mine._attach_sums(source, sums)))
        self._record_version()
        return policy

    def attach_target(self, name: str, server: "Server") -> "PublishedArms":
        """As `Server.attach_target`; the evidence is on disk before the new version is returned.

        Raises:
            IncompatibleState: as `Server.attach_target`; nothing was written.
            ProtocolError: as `Server.attach_target`, or the server is of another kind; nothing was written.
            OSError: the disk refused. Attach again.
        """
        from dpbandits.local.server.records import evidence_record

        self._settle()
        mine, target, evidence = self._partition_server(), server.spec, server.evidence()
        mine._check_target(name, target)
        content = evidence_record(name, target, evidence)
        policy = self._logged(
            TARGET, content, lambda: self._start(mine._attach_evidence(name, target, evidence))
        )
        self._record_version()
        return policy

    @property
    def server(self) -> Recorded[TallyT_co, PolicyT_co]:
        """The server itself, to look at: after a change behind the log every further call is refused."""
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

    def _now(self) -> int | None:
        """How often the server was changed; None where it does not say."""
        return getattr(self._server, "changes", None)

    def _partition_server(self) -> "Server":
        from dpbandits.local.server.server import Server

        if not isinstance(self._server, Server):
            raise ProtocolError("only a `Server` merges counts and learns from sources")
        return self._server

    def _start(self, policy: "PublishedArms") -> "PublishedArms":
        """Note a version that something attached has started."""
        self._published(STARTED, policy)
        return policy

    def _published(self, kind: bytes, policy: "_Versioned") -> None:
        """Note a version; `_record_version` writes its digest."""
        self._unrecorded, self._version = (kind, digest_of(policy)), policy.version

    def _logged(self, kind: bytes, content: bytes, apply: Callable[[], ResultT]) -> ResultT:
        """Write a step down, then take it."""
        self._append(kind, content, apply)
        result = apply()
        self._changes = self._now()
        return result

    def _append(self, kind: bytes, content: bytes, apply: Callable[[], object] | None) -> None:
        """Log, then end: each durable before the next."""
        record = FRAME.pack(len(content), kind) + content
        digest = hashlib.sha256(self._mark.digest + record).digest()
        mark = Mark(self._mark.length + len(record) + DIGEST_BYTES, digest)
        self._attempt = mark, apply
        overwrite(self._log, self._mark.length, record + digest)
        self._move_end(mark)
        self._mark, self._attempt = mark, None

    def _move_end(self, mark: Mark) -> None:
        beside = self._end.with_name("reports.end.next")
        write_durably(beside, _END.pack(*mark))
        replace_durably(beside, self._end)

    def _settle(self) -> None:
        """Refuse foreign processes; finish or drop what an earlier call could not write."""
        if os.getpid() != self._process:
            raise ForkedState("this process was forked from the one that holds the server: open it here")
        if self._lock is None:
            raise ProtocolError("the server was closed")
        if self._now() != self._changes:
            raise ProtocolError(
                "the server was changed behind its log: open the folder again with a fresh server, and call "
                "absorb, merge and attach on the DurableServer"
            )
        if self._attempt is not None:
            mark, apply = self._attempt
            if self._read_end() == mark:  # it did arrive, though not surely for good
                sync_directory(self._folder)
                self._mark = mark
                if apply is None:
                    self._unrecorded = None
                else:
                    apply()
                    self._changes = self._now()
            self._attempt = None
        self._record_version()

    def _record_version(self) -> None:
        if self._unrecorded is not None:
            self._append(*self._unrecorded, None)
            self._unrecorded = None

    # -- reading --------------------------------------------------------------------------------------

    def _opened(self, header: bytes) -> Mark:
        """Make the two files, or replay them."""
        if not self._end.exists():
            if self._log.exists() and self._log.stat().st_size > len(header):
                raise CorruptState("the server's folder lacks `reports.end`: restore it from a backup")
            first = Mark(len(header), hashlib.sha256(header).digest())
            write_durably(self._log, header)
            self._move_end(first)
            return first
        mark = self._read_end()
        at = Mark(len(header), hashlib.sha256(header).digest())
        try:
            if self._log.stat().st_size < mark.length:  # asked first: a forged length must not cost memory
                raise damaged()
            with self._log.open("rb") as file:
                data = file.read(mark.length)
        except FileNotFoundError:
            raise damaged() from None
        if len(data) != mark.length or data[: len(_HEADER)] != _HEADER:
            raise damaged()
        if data[: len(header)] != header:
            raise IncompatibleState("the log belongs to another spec: choose another folder")
        records = []
        for kind, content, after in records_in(data, at):
            records.append((kind, content))
            at = after
        if at != mark:
            raise damaged()
        for kind, content in records:
            self._replay(kind, content)
        return mark

    def _replay(self, kind: bytes, content: bytes) -> None:
        if kind == ABSORB:
            self._server.absorb(batch_of(content))
            return
        if kind in (MERGE, SOURCE, TARGET):
            self._retold(kind, content)
            return
        policy: Any = self._server.publish() if kind == PUBLISH else self._told
        if policy is None:
            raise damaged()
        self._version = policy.version
        if digest_of(policy) != content:
            raise IncompatibleState(
                "a version that was published comes out otherwise here: use the library's version and the "
                "machine that the log was written with"
            )

    def _retold(self, kind: bytes, content: bytes) -> None:
        """Merge or attach again, from what was written down."""
        from dpbandits.local.server import records

        server = self._partition_server()
        if kind == MERGE:
            server.merge(records.counts_from(server, content))
            return
        if kind == SOURCE:
            self._told = server._attach_sums(*records.sums_from(content))
        else:
            self._told = server._attach_evidence(*records.evidence_from(content))
        self._version = self._told.version

    def _read_end(self) -> Mark:
        try:
            data = self._end.read_bytes()
            return Mark(*_END.unpack(data))
        except (FileNotFoundError, struct.error):
            raise damaged() from None

    @property
    def _log(self) -> Path:
        return self._folder / "reports.log"

    @property
    def _end(self) -> Path:
        return self._folder / "reports.end"
