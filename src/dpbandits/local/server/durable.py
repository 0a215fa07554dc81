"""A server that a crash does not make forget: every report is on disk before it is confirmed.

A device forgets a report when the server has confirmed it, so the server must not lose it afterwards.
Everything a server knows follows from its reports, their order and the points at which it published; that
is what is kept, and a new process rebuilds the server from it, every published version included.

A folder of mode 0700 holds `reports.log`, a `Journal` with its end, and a lock that one server holds as long
as it lives. A record stands for an accepted call: reports absorbed, a version published (with the digest of
its numbers), counts merged, a source or a target attached (with the sums that it handed over). A call is
written down first and taken then, so a record that an interrupted append left is taken by the next call; a
version is written down when it has been computed, and before it is returned.

Reports are private by themselves, so the folder holds no raw data. An old copy of the whole folder cannot be
told from the newest one: it forgets reports and reveals nothing.
"""

import hashlib
import io
import os
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbandits._reading import reading
from dpbandits.errors import CorruptState, DPBanditsError, IncompatibleState, ProtocolError, StateError
from dpbandits.local.contract.reports import Contract, Published, PublishedArms, PublishedT
from dpbandits.local.contract.sources import SourceSpec
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.evidence import SourceEvidence, SourceSums
from dpbandits.local.server.counting import Absorbed, ReportCounts
from dpbandits.local.server.server import Server, bins_spec
from dpbandits.models.trees.messages import Gaussians
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.state.container import State
from dpbandits.state.files import locked, refuse_if_others_write
from dpbandits.state.format import decode, encode
from dpbandits.state.holder import Held, Holder, in_turn
from dpbandits.state.journal import Journal

if TYPE_CHECKING:
    from dpbandits.state.journal import Record

__all__ = ["DurableServer"]

_ABSORB, _PUBLISH, _MERGE, _SOURCE, _TARGET, _STARTED = b"A", b"P", b"M", b"S", b"T", b"V"

_KIND, _LOG = "local reports", "reports.log"
_BEHIND = -1
"""Changes of a server that has not taken what its log holds."""

LoggedT = TypeVar("LoggedT")
_COUNTS, _SUMS, _EVIDENCE = "local.merged", "local.source_sums", "local.target_evidence"


class DurableServer(Held, Generic[PublishedT]):
    """A server and its log; `open` makes or finds them.

    Example:
        >>> import tempfile
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     domain=dpb.Box(low=[0], high=[1]), n_arms=2, privacy=dpb.LocalDP(epsilon=1))
        >>> folder, client = tempfile.mkdtemp(), dpb.local.Client(spec)
        >>> with DurableServer.open(spec, folder) as server:
        ...     arm = client.choose(server.publish(), [0.3])
        ...     report = client.report(1.0)
        ...     server.absorb([report]).accepted
        1
        >>> with DurableServer.open(spec, folder) as server:
        ...     server.absorb([report]).repeated
        1
    """

    _harm: ClassVar[str] = "two copies would each count some of the reports"
    _moving: ClassVar[str] = "One server writes one log: open the folder elsewhere when this one is closed"

    def __init__(self, spec: Contract[PublishedT], folder: Path, files: ExitStack) -> None:
        self._server = Server(spec)
        self._holder = Holder(what="server")
        self._files = files
        self._changes = self._server.changes
        self._unrecorded: tuple[bytes, bytes] | None = None
        log = {"path": folder / _LOG, "kind": _KIND, "subject": spec.digest.hex()}
        # Whatever of the two is missing where the other holds records, `create` refuses.
        both = (folder / _LOG).exists() and (folder / f"{_LOG}.end").exists()
        self._journal = Journal(**log) if both else Journal.create(**log)  # type: ignore[arg-type]
        self._closed = False

    @classmethod
    def open(cls, spec: Contract[PublishedT], folder: str | os.PathLike[str]) -> Self:
        """The server of a folder, with all that it was told before.

        Args:
            spec: the public contract; its public seed makes the server rebuild what it decided.
            folder: made where it does not exist.

        Raises:
            StateError: another server uses the folder, others may write to it, or it cannot be used.
            CorruptState: the log was changed or cut.
            IncompatibleState: the log is another spec's or an older layout's, or this machine rebuilds a
                version otherwise than it was published.
        """
        where = Path(folder)
        try:
            where.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise StateError(f"the server's folder cannot be made: {error.strerror}") from None
        refuse_if_others_write(where, what="the server's folder")
        with ExitStack() as files:
            files.enter_context(locked(where / "server.lock", wait=False))
            server = cls(spec, where, files)
            server._settle()
            server._files = files.pop_all()
        return server

    @in_turn
    def absorb(self, reports: Sequence[bytes]) -> Absorbed:
        """As the server's own; returns when the reports are on disk. Then, and only then, confirm them.

        Raises:
            OSError: the disk refused. Send the batch again: what arrived counts as repeated.
        """
        self._settle()
        # what is no bytes counts as malformed, now and at every replay, like an empty report
        batch = [report if type(report) is bytes else b"" for report in reports]
        head = struct.pack(f"<{1 + len(batch)}I", len(batch), *map(len, batch))
        tally: Absorbed = self._write(_ABSORB, head + b"".join(batch))
        return tally

    @in_turn
    def publish(self) -> PublishedT:
        """As the server's own; a new version is on disk before it is returned."""
        self._settle()
        published = self._server.publish()
        if self._server.changes != self._changes:
            self._note(_PUBLISH)
        return published

    @in_turn
    def merge(self, counts: ReportCounts[PublishedT]) -> int:
        """As `Server.merge`, with its errors before anything is written; returns when the counts are on disk.

        Raises:
            OSError: the disk refused. Merge again; where it says that the reports are in both, they arrived.
        """
        self._settle()
        self._server.check_merge(counts)
        added: int = self._write(_MERGE, _packed(_COUNTS, counts.spec, {}, counts.to_arrays()))
        return added

    @in_turn
    def attach(self, source: SourceSpec, server: Server[PublishedArms]) -> PublishedT:
        """As `Server.attach`, with its errors before anything is written; the sums are on disk first.

        Raises:
            OSError: the disk refused. Attach again.
        """
        self._settle()
        sums = self._server.sums_of(source, server)
        arrays = {"signed": sums.signed, "count": sums.count, "reach": sums.reach}
        return self._start(_SOURCE, _packed(_SUMS, source.target, {"source": source.to_json()}, arrays))

    @in_turn
    def attach_target(self, name: str, server: Server[PublishedArms]) -> PublishedT:
        """As `Server.attach_target`, as `attach` is; the evidence is on disk before it returns.

        Raises:
            OSError: the disk refused. Attach again.
        """
        self._settle()
        target, evidence = bins_spec(server), server.evidence()
        self._server.check_target(name, target)
        arrays = {
            "splits": np.array(evidence.partition.splits, dtype=np.int64),
            "precision": evidence.local.precision,
            "moment": evidence.local.moment,
        }
        public = {"name": name, "target": target.to_json()}
        return self._start(_TARGET, _packed(_EVIDENCE, target, public, arrays))

    @property
    def server(self) -> Server[PublishedT]:
        """The server itself, to look at: after a change behind the log every further call is refused."""
        return self._server

    def close(self) -> None:
        """Let another server have the folder."""
        self._closed = True
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DurableServer({self._server!r})"

    # -- writing --------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Take what an earlier call, or an earlier process, wrote down; write what a call could not."""
        if self._closed:
            raise ProtocolError("the server was closed")
        if self._server.changes != self._changes:
            raise ProtocolError(
                "the server was changed behind its log: open the folder again, and call absorb, merge and "
                "attach on the DurableServer"
            )
        with self._behind_its_log():
            found = self._logged(self._journal.settle)
            for record in found:
                self._take(record)
        if self._unrecorded is not None:
            self._journal.append(*self._unrecorded)
            self._unrecorded = None

    def _write(self, kind: bytes, content: bytes) -> Any:
        """Write a step down, then take it."""
        with self._behind_its_log():
            self._logged(lambda: self._journal.append(kind, content))
            return self._STEPS[kind](self, content)

    @contextmanager
    def _behind_its_log(self) -> Iterator[None]:
        """A step is written and not yet taken: what interrupts it leaves a server that refuses every call."""
        self._changes = _BEHIND
        yield
        self._changes = self._server.changes

    def _logged(self, act: Callable[[], LoggedT]) -> LoggedT:
        """What the journal gives; where it refuses or fails, no step is due and the server is as it was."""
        try:
            return act()
        except (DPBanditsError, OSError):
            self._changes = self._server.changes
            raise

    def _start(self, kind: bytes, content: bytes) -> PublishedT:
        """Write down what was attached, then note the version that it has started."""
        self._write(kind, content)
        self._note(_STARTED)
        return self._server.current

    def _note(self, kind: bytes) -> None:
        """Write down a version that was computed; where that fails, before anything else is."""
        self._changes = self._server.changes
        self._unrecorded = kind, _digest_of(self._server.current)
        self._journal.append(*self._unrecorded)
        self._unrecorded = None

    # -- reading --------------------------------------------------------------------------------------

    def _take(self, record: "Record") -> None:
        """Take a recorded step, unless it was taken before its append raised."""
        if self._unrecorded == record:
            self._unrecorded = None
            return
        step = self._STEPS.get(record.kind)
        if step is None:
            raise CorruptState(
                "the server's log holds a record of another kind: use the release of its writer"
            )
        step(self, record.content)

    def _absorbed(self, content: bytes) -> Absorbed:
        """Reports as they came; the journal has vouched for the content."""
        stream = io.BytesIO(content)
        (count,) = struct.unpack("<I", stream.read(4))
        sizes = struct.unpack(f"<{count}I", stream.read(4 * count))
        return self._server.absorb([stream.read(size) for size in sizes])

    def _published(self, content: bytes) -> None:
        self._server.publish()
        self._compare(content)

    def _compare(self, content: bytes) -> None:
        if _digest_of(self._server.current) != content:
            raise IncompatibleState(
                "a version that was published comes out otherwise here: use the library's version and the "
                "machine that the log was written with"
            )

    def _merged(self, content: bytes) -> int:
        _, arrays = _unpacked(_COUNTS, content)
        named = {name.replace(".", "/"): array for name, array in arrays.items()}
        server = self._server
        return server.merge(ReportCounts.from_arrays(server.spec, server.open_versions, named))

    def _fed(self, content: bytes) -> None:
        """Bins and moments of a source's sums follow from its contract."""
        public, arrays = _unpacked(_SUMS, content)
        with reading("a source's sums", CorruptState):
            source = SourceSpec.from_json(public["source"])
            partition = source.bins()
            sums = SourceSums(
                **arrays,
                partition=partition,
                moments=source.reports.mechanism_for(len(partition.leaves)).moments,
                arm_hidden=source.arms == "behaviour",
            )
        self._server.attach_sums(source, sums)

    def _taught(self, content: bytes) -> None:
        public, arrays = _unpacked(_EVIDENCE, content)
        with reading("a target's evidence", CorruptState):
            target = Spec.from_json(public["target"])
            splits, local = arrays["splits"].tolist(), Gaussians(arrays["precision"], arrays["moment"])
            partition = DyadicPartition(dim=target.dim, tie=target.tie, splits=splits)
            evidence = SourceEvidence(partition=partition, local=local)
        self._server.attach_evidence(public["name"], target, evidence)

    _STEPS: ClassVar[Mapping[bytes, Any]] = {
        _ABSORB: _absorbed,
        _PUBLISH: _published,
        _MERGE: _merged,
        _SOURCE: _fed,
        _TARGET: _taught,
        _STARTED: _compare,
    }


def _digest_of(published: Published) -> bytes:
    """Digest of what was published, bit for bit."""
    digest = hashlib.sha256()
    for name, value in sorted(vars(published).items()):
        if isinstance(value, np.ndarray):
            digest.update(f"{name} {value.dtype} {value.shape} ".encode() + value.tobytes())
        else:
            digest.update(f"{name} {value!r} ".encode())
    return digest.digest()


def _packed(
    kind: str, spec: Contract[Any], public: dict[str, str], arrays: Mapping[str, NDArray[Any]]
) -> bytes:
    """Something that the server is told, as bytes that rebuild it bit for bit."""
    named = {name.replace("/", "."): array for name, array in arrays.items()}
    lineage = spec.digest.hex()
    return encode(State(kind=kind, version=1, lineage=lineage, position=0, public=public, arrays=named))[0]


def _unpacked(kind: str, content: bytes) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
    state, _ = decode(io.BytesIO(content), len(content))
    if state.kind != kind or state.version != 1:
        raise CorruptState("a record of the server's log is of another kind")
    return state.public, state.arrays
