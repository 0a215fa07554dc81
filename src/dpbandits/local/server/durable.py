"""A server that survives crashes: every report is on disk before it is confirmed.

A client deletes a report when the server has confirmed it, so the server must not lose it afterwards. The
state of a server follows from its reports, their order and its published versions. These are stored, and a
new process rebuilds the server from them. Versions are read as they were published and not recomputed, as
another processor may round differently.

A folder of mode 0700 holds

- `reports.log`, a `Journal` with its end. A record stands for an accepted call: reports absorbed (of one or
  of several concurrent calls, see `gathering`), a version published, or counts merged. It may stand for a
  source or a target attached, with its sums or evidence and the version that followed. It may also hold the
  terms of the reports that follow, if the folder was opened on new ones. Reports that would not count are
  dropped before anything is written, by length, version, digest, tag, nonce and payload. The log holds
  accepted reports only;
- `server.state`, a snapshot of the server at a place in the log, which makes opening faster. It is written to
  a temporary file and renamed. If it is missing, damaged or of another release, the log is read from its
  start;
- `robust.json`, the bounds on forged reports with their secret, if the folder was created with any. The log
  depends on these bounds and is refused without the file;
- a lock that one server holds while it is open.

Reports and counts are written first and applied then, so the next call applies a record whose call was
interrupted. A version is written when it has been computed, and before it is returned. If that fails, the
next call writes it before anything else.

Reports are private by themselves, so the folder holds no raw data. An old copy of the whole folder cannot be
distinguished from the newest one: it lacks reports, but it reveals nothing. The log before the snapshot's
place is neither read nor checked when the folder is opened.
"""

import io
import json
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._reading import json_object, reading
from dpbandits.errors import (
    CorruptState,
    DPBanditsError,
    ForkedState,
    IncompatibleState,
    InvalidParameter,
    ProtocolError,
    StateError,
)
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.keys import ReportKey
from dpbandits.local.contract.reports import Contract, PublishedT
from dpbandits.local.contract.sources import SourceSpec
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.evidence import SourceEvidence, SourceSums
from dpbandits.local.server.counting import Absorbed, ReportCounts, batch_of
from dpbandits.local.server.gathering import Gathering
from dpbandits.local.server.pace import Clock
from dpbandits.local.server.robust import Robust
from dpbandits.local.server.server import Server, bins_spec
from dpbandits.models.trees.messages import Gaussians
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.state.container import State
from dpbandits.state.files import locked, open_regular, private_folder, write_durably
from dpbandits.state.format import decode, encode, read_state, write_state
from dpbandits.state.holder import Held, Holder, in_turn
from dpbandits.state.journal import Journal, Place

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee
    from dpbandits.state.journal import Record

__all__ = ["DurableServer", "counts_for", "packed_counts"]

_BEGIN, _ABSORB, _PUBLISH, _MERGE, _SOURCE, _TARGET, _TERMS = b"B", b"A", b"P", b"M", b"S", b"T", b"N"

_KIND, _LOG, _SNAPSHOT, _ROBUST = "local server", "reports.log", "server.state", "robust.json"
_LARGEST_BOUNDS = 1 << 12
"""Largest size in bytes of the file `robust.json`, which has the bounds on forged reports."""
_BEHIND = -1
"""Value of `_changes` that marks a server whose log holds steps that it has not applied."""

_LEAST_OPEN = 600.0
"""Default of `least_open` in seconds.

Clients answer within minutes, and a flood of reports must not stop them.
"""

_TAIL_BYTES, _TAIL_RECORDS = 1 << 22, 1000
"""Growth of the log, in bytes and in records, after which a snapshot is written.

Opening a folder reads at most this much, or as many bytes as the snapshot has, in a second or two.
"""

LoggedT = TypeVar("LoggedT")
_COUNTS, _SUMS, _EVIDENCE, _STATE = (
    "local.merged",
    "local.source_sums",
    "local.target_evidence",
    "local.server",
)


class DurableServer(Held, Generic[PublishedT]):
    """A server with a log in a folder; `open` creates or reopens it.

    Example:
        >>> import tempfile
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
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
    _moving: ClassVar[str] = "One server writes one log: close this one before another opens the folder"

    def __init__(self, spec: Contract[PublishedT], folder: Path, files: ExitStack, **options: Any) -> None:
        self._holder = Holder(what="server")
        self._files, self._folder = files, folder
        self._unrecorded: tuple[bytes, bytes] | None = None
        self._options = options
        robust: Robust | None = options.get("robust")
        # Reading the log groups reports again: the subject therefore depends on the secret.
        self._subject = spec.fingerprint if robust is None else f"{spec.fingerprint}:{robust.mark}"
        known = self._snapshot(spec, options)
        self._server, place = known or (Server(spec, **options), None)
        self._changes = self._server.changes
        self._journal = self._log(place)
        self._kept, self._kept_bytes = self._journal.place if place is None else place, 0
        self._closed = False
        self._gathering = Gathering(self._absorb_together, self._holder.turn)

    @classmethod
    def open(
        cls,
        spec: Contract[PublishedT],
        folder: str | os.PathLike[str],
        *,
        key: ReportKey | None = None,
        least_open: float = _LEAST_OPEN,
        clock: Clock | None = None,
        robust: Robust | None = None,
    ) -> Self:
        """Return the server of a folder, with its earlier state.

        Args:
            spec: The public contract.
            folder: Folder of the server, created if it does not exist.
            key, least_open, clock: See `Server`. Clients need time to answer, so `least_open` is ten minutes.
                When a folder is opened, its open versions count as just published.
            robust: See `Robust`. The folder stores the bounds that it was created with, including the secret;
                leave this out to reopen it.

        Raises:
            InvalidParameter: an argument is of another kind.
            StateError: another server uses the folder, other users may write to it, or it cannot be used.
            CorruptState: the log was changed or cut.
            IncompatibleState: the log belongs to another spec, or `robust` differs from the bounds that the
                folder was created with.
        """
        _checks.an(spec, Contract, name="spec", pass_="spec=Spec(...) or spec=GPSpec(...)")
        if not isinstance(folder, str | os.PathLike):
            raise InvalidParameter(f"folder is a {type(folder).__name__}, expected a path")
        where = private_folder(Path(folder), what="the server's folder")
        with ExitStack() as files:
            files.enter_context(locked(where / "server.lock", wait=False))
            bounds = _kept_bounds(where, robust)
            server = cls(spec, where, files, key=key, least_open=least_open, clock=clock, robust=bounds)
            server._settle()
            if not len(server._journal):
                server._journal.append(_BEGIN, server._written())
            server._note_terms()
            server._files = files.pop_all()
        return server

    def absorb(self, reports: Iterable[bytes]) -> Absorbed:
        """Count reports as `Server.absorb` does; return when the accepted reports are on disk.

        Confirm reports to clients only after this returns. Batches of concurrent calls are written together,
        and each call returns its own tally: many single reports at once cost little.

        Raises:
            InvalidParameter: `reports` is not a list of reports.
            OSError: the disk failed. Send the batch again: reports that were stored count as repeated.
        """
        self._holder.refuse_fork()
        return self._gathering(batch_of(reports))

    @in_turn
    def absorb_each(self, batches: Sequence[Iterable[bytes]]) -> list[Absorbed]:
        """Absorb one batch after the other, and return a tally for each.

        All batches are one record of the log.

        Raises:
            InvalidParameter, OSError: as in `absorb`, for all batches together.
        """
        return self._absorb_together([batch_of(one) for one in batches]) if batches else []

    def _absorb_together(self, batches: list[list[bytes]]) -> list[Absorbed]:
        """Absorb batches in their order, and write one record of the log for all of them."""
        self._settle()
        sifted = self._server.sift([report for batch in batches for report in batch])
        if not sifted.tally.accepted:
            self._server.count(sifted)
            self._changes = self._server.changes
        else:
            with self._behind_its_log():
                # store the reports in their order, as one array for each length
                shapes = [size for one in sifted.records for size in one.shape]
                head = struct.pack(f"<{1 + len(shapes)}I", len(sifted.records), *shapes)
                content = head + b"".join(one.tobytes() for one in sifted.records)
                self._logged(lambda: self._journal.append(_ABSORB, content))
                self._server.count(sifted)
            self._keep()
        return sifted.tallies([len(batch) for batch in batches])

    @in_turn
    def publish(self) -> PublishedT:
        """Publish as `Server.publish` does; a new version is on disk before it is returned."""
        self._settle()
        published = self._server.publish()
        if self._server.changes != self._changes:
            self._note(_PUBLISH, self._written())
        return published

    @in_turn
    def merge(self, counts: ReportCounts[PublishedT]) -> int:
        """Merge counts as `Server.merge` does; return when they are on disk. Errors come before any write.

        Raises:
            OSError: the disk failed. Merge again; an error that reports are in both means that they were
                stored.
        """
        self._settle()
        self._server.check_merge(counts)
        content = packed_counts(counts)
        with self._behind_its_log():
            self._logged(lambda: self._journal.append(_MERGE, content))
            added = self._server.merge(counts)
        self._keep()
        return added

    @in_turn
    def attach(self, source: SourceSpec, server: Server[PublishedArms]) -> PublishedT:
        """Attach a source as `Server.attach` does; its sums and the new version are then on disk.

        Raises:
            OSError: the disk failed. The source is attached, and the next call stores it before anything
                else.
        """
        self._settle()
        sums = self._server.sums_of(source, server)
        published = self._server.attach_sums(source, sums)
        arrays = {"signed": sums.signed, "count": sums.count, "reach": sums.reach}
        public = {"source": source.to_json(), "published": published.to_json(self._server.spec)}
        self._note(_SOURCE, _packed(_SUMS, source.target, public, arrays))
        return published

    @in_turn
    def attach_target(self, name: str, server: Server[PublishedArms]) -> PublishedT:
        """Attach a target as `Server.attach_target` does; its evidence and the new version are then on disk.

        Raises:
            OSError: as in `attach`.
        """
        self._settle()
        target, evidence = bins_spec(server), server.evidence()
        published = self._server.attach_evidence(name, target, evidence)
        arrays = {
            "splits": np.array(evidence.partition.splits, dtype=np.int64),
            "precision": evidence.local.precision,
            "moment": evidence.local.moment,
        }
        sent = published.to_json(self._server.spec)
        public = {"name": name, "target": target.to_json(), "published": sent}
        self._note(_TARGET, _packed(_EVIDENCE, target, public, arrays))
        return published

    @property
    def guarantee(self) -> "Guarantee":
        """Guarantee of all reports, including reports sent under earlier terms of the folder."""
        return self._server.guarantee

    @property
    def spec(self) -> Contract[PublishedT]:
        """The public contract."""
        return self._server.spec

    @property
    def server(self) -> Server[PublishedT]:
        """Server of the folder, for reading only.

        After a change outside the log every further call is refused.
        """
        return self._server

    def close(self) -> None:
        """Finish a running call, and unlock the folder for another server."""
        with suppress(ForkedState), self._holder.turn():  # in a forked process the lock is the parent's
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
        """Apply records that an earlier call or process wrote."""
        if self._closed:
            raise ProtocolError("the server was closed")
        if self._server.changes != self._changes:
            raise ProtocolError(
                "the server was changed outside its log: open the folder again, and call absorb, merge and "
                "attach on the DurableServer"
            )
        with self._behind_its_log():
            for record in self._logged(self._journal.stream):
                self._take(record)
        if self._unrecorded is not None:
            self._journal.append(*self._unrecorded)
            self._unrecorded = None

    @contextmanager
    def _behind_its_log(self) -> Iterator[None]:
        """Mark a step as written but not applied inside a `with` block.

        If the step is interrupted, the server refuses every later call.
        """
        self._changes = _BEHIND
        yield
        self._changes = self._server.changes

    def _logged(self, act: Callable[[], LoggedT]) -> LoggedT:
        """Call the journal by `act`, and return its result.

        If it raises, no step is due and the server is unchanged.
        """
        try:
            return act()
        except (DPBanditsError, OSError):
            self._changes = self._server.changes
            raise

    def _note(self, kind: bytes, content: bytes) -> None:
        """Write a record of a version that was computed. If this fails, the next call writes it first."""
        self._changes = self._server.changes
        self._unrecorded = kind, content
        self._journal.append(kind, content)
        self._unrecorded = None
        self._keep()

    def _note_terms(self) -> None:
        """Write the terms of the reports that follow, unless earlier reports had the same terms."""
        server, spec = self._server, self._server.spec
        own = spec.protocol.own(None)
        terms = spec.protocol.terms(own) | {"privacy": own.to_config(), "charge": None, "witnessed": False}
        if server.remember(terms):
            self._journal.append(_TERMS, json.dumps(terms).encode())

    def _written(self) -> bytes:
        return self._server.current.to_json(self._server.spec).encode()

    def _keep(self) -> None:
        """Write a snapshot if the log has grown enough since the last one.

        A failure of the disk is ignored, as the log holds everything.
        """
        here = self._journal.place
        grown = here.length - self._kept.length > max(_TAIL_BYTES, self._kept_bytes)
        if not grown and here.records - self._kept.records < _TAIL_RECORDS:
            return
        self._kept = here
        public = {"place": [here.records, here.length, here.digest.hex()]}
        state = State(
            kind=_STATE,
            version=1,
            lineage=self._subject,
            position=here.records,
            public=public,
            arrays=self._server.to_arrays(),
        )
        self._kept_bytes = sum(array.nbytes for array in state.arrays.values())
        with suppress(OSError):
            write_state(self._folder / _SNAPSHOT, state)

    # -- reading --------------------------------------------------------------------------------------

    def _snapshot(
        self, spec: Contract[PublishedT], options: dict[str, Any]
    ) -> tuple[Server[PublishedT], Place] | None:
        """Return the server from the snapshot and its place in the log."""
        for unfinished in self._folder.glob(f".{_SNAPSHOT}.*.tmp"):
            unfinished.unlink(missing_ok=True)
        try:
            state = read_state(self._folder / _SNAPSHOT)
            if (state.kind, state.version, state.lineage) != (_STATE, 1, self._subject):
                return None
            with reading("the place of a snapshot", CorruptState):
                records, length, digest = state.public["place"]
                place = Place(int(records), int(length), bytes.fromhex(digest))
            return Server.restore(spec, state.arrays, **options), place
        except (FileNotFoundError, StateError):
            return None

    def _log(self, after: Place | None) -> Journal:
        path = self._folder / _LOG
        log: dict[str, Any] = {"path": path, "kind": _KIND, "subject": self._subject}
        # If one of the two files is missing and the other holds records, `create` refuses. With a snapshot
        # that knows of records, neither may be missing.
        begun = path.exists() and path.with_name(f"{_LOG}.end").exists()
        return Journal(**log, after=after) if begun or after is not None else Journal.create(**log)

    def _take(self, record: "Record") -> None:
        """Apply a recorded step, unless the server applied it before writing its record failed."""
        if self._unrecorded == record:
            self._unrecorded = None
            return
        step = self._STEPS.get(record.kind)
        if step is None:
            raise CorruptState(
                "the server's log holds a record of an unknown kind: use the release that wrote it"
            )
        with reading("a record of the server's log", CorruptState):
            step(self, record.content)

    def _begun(self, content: bytes) -> None:
        self._server.begin_with(self._published_in(content.decode()))

    def _noted(self, content: bytes) -> None:
        self._server.remember(json_object(content.decode(), "the terms of reports", CorruptState))

    def _absorbed(self, content: bytes) -> None:
        """Count accepted reports from a record, whose content the journal has verified."""
        (count,) = struct.unpack_from("<I", content)
        records, start = [], 4 + 8 * count
        for n, length in struct.iter_unpack("<2I", content[4:start]):
            records.append(np.frombuffer(content, np.uint8, n * length, start).reshape(n, length))
            start += n * length
        if self._server.absorb_again(records).accepted != sum(map(len, records)):
            raise CorruptState("the server's log holds reports that do not count")

    def _published(self, content: bytes) -> None:
        self._server.republish(self._published_in(content.decode()))

    def _published_in(self, text: str) -> PublishedT:
        spec = self._server.spec
        published: PublishedT = spec.protocol.publishes.from_json(text, spec)
        return published

    def _merged(self, content: bytes) -> None:
        self._server.merge(counts_for(self._server, content))

    def _fed(self, content: bytes) -> None:
        """Attach the source in a record. The bins and moments of its sums follow from its contract."""
        public, arrays = _unpacked(_SUMS, content)
        with reading("a source's sums", CorruptState):
            source = SourceSpec.from_json(public["source"])
            partition = source.bins()
            sums = SourceSums(
                **arrays,
                partition=partition,
                moments=source.reports.protocol.mechanism_for(len(partition.leaves)).moments,
                arm_hidden=source.chooser == "behaviour",
            )
        self._server.attach_sums(source, sums, self._published_in(public["published"]))

    def _taught(self, content: bytes) -> None:
        public, arrays = _unpacked(_EVIDENCE, content)
        with reading("a target's evidence", CorruptState):
            target = Spec.from_json(public["target"])
            splits, local = arrays["splits"].tolist(), Gaussians(arrays["precision"], arrays["moment"])
            partition = DyadicPartition(dim=target.dim, splits=splits)
            evidence = SourceEvidence(partition=partition, local=local)
        published = self._published_in(public["published"])
        self._server.attach_evidence(public["name"], target, evidence, published)

    _STEPS: ClassVar[Mapping[bytes, Any]] = {
        _BEGIN: _begun,
        _TERMS: _noted,
        _ABSORB: _absorbed,
        _PUBLISH: _published,
        _MERGE: _merged,
        _SOURCE: _fed,
        _TARGET: _taught,
    }


def _kept_bounds(folder: Path, given: Robust | None) -> Robust | None:
    """Return the bounds that a folder was created with. If the folder is new, store `given` and return it."""
    _checks.an(given, Robust, name="robust", pass_="robust=Robust(secret)", optional=True)
    path = folder / _ROBUST
    if not any((folder / name).exists() for name in (_LOG, f"{_LOG}.end", _SNAPSHOT)):
        if path.exists():  # left by a folder that was created and never held a record
            path.unlink()
        if given is not None:
            write_durably(path, given.to_json())
        return given
    try:
        with open_regular(path) as (file, _):
            kept = Robust.from_json(file.read(_LARGEST_BOUNDS))
    except FileNotFoundError:
        kept = None
    if given is not None and (kept is None or kept.mark != given.mark):
        raise IncompatibleState(
            "robust: the folder was created with other bounds on forged reports, or with none: leave robust "
            "out, or create another folder"
        )
    return kept


def packed_counts(counts: ReportCounts[Any]) -> bytes:
    """Return counts as bytes, for `counts_for`."""
    return _packed(_COUNTS, counts.spec, {}, counts.to_arrays())


def counts_for(server: Server[PublishedT], content: bytes) -> ReportCounts[PublishedT]:
    """Return counts from the bytes of `packed_counts`, for a server with the same open versions.

    Raises:
        CorruptState: the bytes are not such counts.
        IncompatibleState: the counts are for versions that are not open.
    """
    _, arrays = _unpacked(_COUNTS, content)
    named = {name.replace(".", "/"): array for name, array in arrays.items()}
    return ReportCounts.from_arrays(server.spec, server.open_versions, named, robust=server.robust)


def _packed(
    kind: str, spec: Contract[Any], public: dict[str, str], arrays: Mapping[str, NDArray[Any]]
) -> bytes:
    """Return arrays and public texts as bytes. The arrays can be rebuilt from them bit for bit."""
    named = {name.replace("/", "."): array for name, array in arrays.items()}
    lineage = spec.digest.hex()
    return encode(State(kind=kind, version=1, lineage=lineage, position=0, public=public, arrays=named))[0]


def _unpacked(kind: str, content: bytes) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
    state, _ = decode(io.BytesIO(content), len(content))
    if state.kind != kind or state.version != 1:
        raise CorruptState("a record of the server's log is of another kind")
    return state.public, state.arrays
