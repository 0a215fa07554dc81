"""A server that a crash does not make forget: every report is on disk before it is confirmed.

A device forgets a report when the server has confirmed it, so the server must not lose it afterwards.
Everything a server knows follows from its reports, their order and what it published; that is what is kept,
and a new process rebuilds the server from it. Versions are taken as they were published and never computed
again, so that it may be another processor, which rounds otherwise.

A folder of mode 0700 holds

- `reports.log`, a `Journal` with its end. A record stands for an accepted call: reports absorbed (or those of
  several calls at the same time, see `gathering`), a version published, counts merged, a source or a target
  attached (with the sums that it handed over and the version that followed); for all that another server
  knew, where the folder goes on with it; or for the terms of reports from here on, where the folder was
  opened on new ones. What would not count is dropped before anything is
  written, by length, version, digest, tag, nonce and payload: the log grows by what was accepted, and nothing
  else;
- `server.state`, a snapshot of the server at some place of the log: it saves time when the folder is opened.
  It is written beside and renamed. Where it is missing, torn or another release's, the log is read from its
  beginning;
- `robust.json`, the bounds on forged reports that the folder was begun with, if any, and their secret. The
  log is of these bounds: without the file it is refused;
- a lock that one server holds as long as it lives.

Reports and counts are written down first and taken then, so a record that an interrupted append left is
taken by the next call. A version is written down when it has been computed, and before it is returned; where
that fails, before anything else is.

Reports are private by themselves, so the folder holds no raw data. An old copy of the whole folder cannot be
told from the newest one: it forgets reports and reveals nothing. What lies in the log before the snapshot's
place is not read when the folder is opened, and not checked then.
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
"""Bytes of a file of bounds."""
_BEHIND = -1
"""Changes of a server that has not taken what its log holds."""

_LEAST_OPEN = 600.0
"""Seconds that a version stays open at least: people answer within minutes, and no flood may stop them."""

_TAIL_BYTES, _TAIL_RECORDS = 1 << 22, 1000
"""Sizes of what is read again when a folder is opened: this much, or as much as the snapshot has. It takes a
second or two."""

LoggedT = TypeVar("LoggedT")
_COUNTS, _SUMS, _EVIDENCE, _STATE = (
    "local.merged",
    "local.source_sums",
    "local.target_evidence",
    "local.server",
)


class DurableServer(Held, Generic[PublishedT]):
    """A server and its log; `open` makes or finds them.

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
    _moving: ClassVar[str] = "One server writes one log: open the folder elsewhere when this one is closed"

    def __init__(self, spec: Contract[PublishedT], folder: Path, files: ExitStack, **options: Any) -> None:
        self._holder = Holder(what="server")
        self._files, self._folder = files, folder
        self._unrecorded: tuple[bytes, bytes] | None = None
        self._options = options
        robust: Robust | None = options.get("robust")
        # Reports are grouped again when the log is read: a log of one secret is no other's.
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
        """The server of a folder, with all that it was told before.

        Args:
            spec: the public contract.
            folder: made where it does not exist.
            key, least_open, clock: see `Server`; people's devices need time to answer, so `least_open` is ten
                minutes. When a folder is opened, versions that are open count as just published.
            robust: see `Robust`; a folder that is begun with one keeps it, secret included, and is opened
                without.

        Raises:
            InvalidParameter: an argument is of another kind.
            StateError: another server uses the folder, others may write to it, or it cannot be used.
            CorruptState: the log was changed or cut.
            IncompatibleState: the log is another spec's; or `robust` is not what the
                folder was begun with.
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
        """As the server's own; returns when the reports that count are on disk.

        Confirm them then, and only then. Batches that several threads bring at the same time are written
        together, and each returns with its own tally: single reports cost little where many come at once.

        Raises:
            InvalidParameter: not a list of reports.
            OSError: the disk refused. Send the batch again: what arrived counts as repeated.
        """
        self._holder.refuse_fork()
        return self._gathering(batch_of(reports))

    @in_turn
    def absorb_each(self, batches: Sequence[Iterable[bytes]]) -> list[Absorbed]:
        """As `absorb` of one batch after the other, with a tally for each; one record holds them all.

        Raises:
            InvalidParameter, OSError: as `absorb`, of all of them together.
        """
        return self._absorb_together([batch_of(one) for one in batches]) if batches else []

    def _absorb_together(self, batches: list[list[bytes]]) -> list[Absorbed]:
        """Batches in the order in which they came, by one record of the log."""
        self._settle()
        sifted = self._server.sift([report for batch in batches for report in batch])
        if not sifted.tally.accepted:
            self._server.count(sifted)
            self._changes = self._server.changes
        else:
            with self._behind_its_log():
                # reports as they came, one array a length
                shapes = [size for one in sifted.records for size in one.shape]
                head = struct.pack(f"<{1 + len(shapes)}I", len(sifted.records), *shapes)
                content = head + b"".join(one.tobytes() for one in sifted.records)
                self._logged(lambda: self._journal.append(_ABSORB, content))
                self._server.count(sifted)
            self._keep()
        return sifted.tallies([len(batch) for batch in batches])

    @in_turn
    def publish(self) -> PublishedT:
        """As the server's own; a new version is on disk before it is returned."""
        self._settle()
        published = self._server.publish()
        if self._server.changes != self._changes:
            self._note(_PUBLISH, self._written())
        return published

    @in_turn
    def merge(self, counts: ReportCounts[PublishedT]) -> int:
        """As `Server.merge`, with its errors before anything is written; returns when the counts are on disk.

        Raises:
            OSError: the disk refused. Merge again; where it says that the reports are in both, they arrived.
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
        """As `Server.attach`; the sums and the version that follows are on disk before it returns.

        Raises:
            OSError: the disk refused, and the source is attached: it is on disk before anything else is.
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
        """As `Server.attach_target`; the evidence and the version that follows are on disk as for `attach`.

        Raises:
            OSError: as for `attach`.
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
        """As the server's own; terms that reports came on when the folder was open before count for good."""
        return self._server.guarantee

    @property
    def spec(self) -> Contract[PublishedT]:
        """The public contract."""
        return self._server.spec

    @property
    def server(self) -> Server[PublishedT]:
        """The server itself, to look at: after a change behind the log every further call is refused."""
        return self._server

    def close(self) -> None:
        """Let another server have the folder, after a call under way."""
        with suppress(ForkedState), self._holder.turn():  # in a forked process the folder is the parent's
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
            for record in self._logged(self._journal.stream):
                self._take(record)
        if self._unrecorded is not None:
            self._journal.append(*self._unrecorded)
            self._unrecorded = None

    @contextmanager
    def _behind_its_log(self) -> Iterator[None]:
        """A step is written and not yet taken: what interrupts it leaves a server that refuses every call."""
        self._changes = _BEHIND
        yield
        self._changes = self._server.changes

    def _logged(self, act: Callable[[], LoggedT]) -> LoggedT:
        """Call the journal. If it refuses or fails, no step is due and the server is as it was."""
        try:
            return act()
        except (DPBanditsError, OSError):
            self._changes = self._server.changes
            raise

    def _note(self, kind: bytes, content: bytes) -> None:
        """Write down a version that was computed; where that fails, before anything else is."""
        self._changes = self._server.changes
        self._unrecorded = kind, content
        self._journal.append(kind, content)
        self._unrecorded = None
        self._keep()

    def _note_terms(self) -> None:
        """Write down on which terms reports come from now on, unless they came on them before."""
        server, spec = self._server, self._server.spec
        own = spec.protocol.own(None)
        terms = spec.protocol.terms(own) | {"privacy": own.to_config(), "charge": None, "witnessed": False}
        if server.remember(terms):
            self._journal.append(_TERMS, json.dumps(terms).encode())

    def _written(self) -> bytes:
        """The current version."""
        return self._server.current.to_json(self._server.spec).encode()

    def _keep(self) -> None:
        """A snapshot, when the log has grown by as much as one saves.

        Where the disk refuses it, the log has everything all the same.
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
        """The server at some place of the log; None where that has to be read from its beginning."""
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
        # Whatever of the two is missing where the other holds records, `create` refuses; nothing may be
        # missing where a snapshot knows of records.
        begun = path.exists() and path.with_name(f"{_LOG}.end").exists()
        return Journal(**log, after=after) if begun or after is not None else Journal.create(**log)

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
        with reading("a record of the server's log", CorruptState):
            step(self, record.content)

    def _begun(self, content: bytes) -> None:
        self._server.begin_with(self._published_in(content.decode()))

    def _noted(self, content: bytes) -> None:
        self._server.remember(json_object(content.decode(), "the terms of reports", CorruptState))

    def _absorbed(self, content: bytes) -> None:
        """Reports that counted; the journal has vouched for the content."""
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
        """Bins and moments of a source's sums follow from its contract."""
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
    """The bounds on forged reports that a folder was begun with; these, where it is begun now."""
    _checks.an(given, Robust, name="robust", pass_="robust=Robust(secret)", optional=True)
    path = folder / _ROBUST
    if not any((folder / name).exists() for name in (_LOG, f"{_LOG}.end", _SNAPSHOT)):
        if path.exists():  # of a folder that was begun and never held a record
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
            "robust: the folder was begun with other bounds on forged reports, or with none: leave it out, "
            "or begin another folder"
        )
    return kept


def packed_counts(counts: ReportCounts[Any]) -> bytes:
    """Counts as bytes, for `counts_for`."""
    return _packed(_COUNTS, counts.spec, {}, counts.to_arrays())


def counts_for(server: Server[PublishedT], content: bytes) -> ReportCounts[PublishedT]:
    """Counts that `packed_counts` wrote, for a server that has the same versions open.

    Raises:
        CorruptState: the bytes are something else.
        IncompatibleState: they are of versions that are not open.
    """
    _, arrays = _unpacked(_COUNTS, content)
    named = {name.replace(".", "/"): array for name, array in arrays.items()}
    return ReportCounts.from_arrays(server.spec, server.open_versions, named, robust=server.robust)


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
