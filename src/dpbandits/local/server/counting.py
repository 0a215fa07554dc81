"""Counting of reports: integer sums for each version, which shards can add up.

For each published version, a server stores integer sums of the reports and their number. Nonces are stored
for all versions together. The sums of shards that answer the same published versions add up to the sums of
one process, bit for bit. Merging refuses a shard of another lineage (another spec, or other contents under
the same version number), a shard that shares a report, and sums that no such number of reports can have.

Counting has two steps. `sift` validates reports without changes and drops those that no client sends; `count`
then adds the rest.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._reading import reading
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.keys import TAG_BYTES, ReportKey
from dpbandits.local.contract.reports import (
    DIGEST,
    HEADER_BYTES,
    NONCE,
    VERSION,
    Contract,
    PublishedT,
    Records,
    parse,
)
from dpbandits.local.contract.spec import Spec
from dpbandits.local.server.nonces import Nonces, RecentNonces
from dpbandits.local.server.robust import Robust

__all__ = ["Absorbed", "OpenVersion", "ReportCounts", "Sifted", "batch_of", "deviations"]

# Larger sums belong to no real crowd, and could overflow when they are added.
_LARGEST_SUM = 1 << 53

NO_NONCES: Nonces = np.zeros(0, dtype=np.uint64)


Fates = NDArray[np.uint8]
"""Fate of each of n reports, shape (n,): the index of the attribute of `Absorbed` that counts it."""


@dataclass(kw_only=True)
class Absorbed:
    """Tally: numbers of reports that were accepted, and that were dropped for each reason.

    Attributes:
        accepted: Counted reports.
        malformed: Not bytes, or with a wrong length or format, or with a payload that no client sends.
        foreign: Reports of another spec.
        closed: Reports on a version that is not open: too old, or never published.
        repeated: Reports with a nonce seen before, under any version.
        forged: With a key: reports with another key's tag, or altered reports.
    """

    accepted: int = 0
    malformed: int = 0
    foreign: int = 0
    closed: int = 0
    repeated: int = 0
    forged: int = 0

    def add(self, other: "Absorbed") -> None:
        """Add the numbers of another tally to this one, in place."""
        mine = vars(self)
        for name, n in vars(other).items():
            mine[name] += n

    @classmethod
    def read(cls, numbers: Mapping[str, object]) -> "Absorbed":
        """Return the tally with these numbers, which come from a file. Raise an error if one is no count."""
        return cls(**{name: _checks.integer(n, name=name, minimum=0) for name, n in numbers.items()})

    @classmethod
    def of(cls, fates: Fates) -> "Absorbed":
        """Return the tally of n reports from their fates, shape (n,)."""
        return cls(**dict(zip(_FATES, np.bincount(fates, minlength=len(_FATES)).tolist(), strict=True)))


_FATES = tuple(one.name for one in fields(Absorbed))
_ACCEPTED, _MALFORMED, _FOREIGN, _CLOSED, _REPEATED, _FORGED = range(len(_FATES))


@dataclass(repr=False, kw_only=True)
class Sifted:
    """Reports that will count, and the tally of all reports; `ReportCounts.count` counts them.

    Attributes:
        tally: Tally of all reports that were sifted.
        fates: (n,) fate of each report passed to `ReportCounts.sift`, in that order.
        records: Accepted reports without tags, one array for each length.
        nonces: Nonces of the accepted reports, one ascending array for each length.
        parts: Tuples of version, index of the mechanism, and payloads.
    """

    tally: Absorbed = field(default_factory=Absorbed)
    fates: Fates = field(default_factory=lambda: np.zeros(0, dtype=np.uint8))
    records: list[Records] = field(default_factory=list)
    nonces: list[Nonces] = field(default_factory=list)
    parts: list[tuple[int, int, Records]] = field(default_factory=list)

    def tallies(self, sizes: Sequence[int]) -> list[Absorbed]:
        """Return the tallies of several batches that were sifted together.

        `sizes` are the batches' numbers of reports.
        """
        if len(sizes) == 1:
            return [self.tally]
        cells = np.repeat(np.arange(len(sizes)), sizes) * len(_FATES) + self.fates
        table = np.bincount(cells, minlength=len(_FATES) * len(sizes)).reshape(-1, len(_FATES))
        return [Absorbed(**dict(zip(_FATES, row, strict=True))) for row in table.tolist()]


@dataclass(kw_only=True)
class OpenVersion(Generic[PublishedT]):
    """A published version whose reports are still accepted.

    A kind of report is a pair of a group and a class of epsilon.

    Attributes:
        published: The published version.
        mechanisms: One for each kind: all classes of epsilon of the first group, then of the next.
        lineage: Digest of the version, equal for equal versions only.
        groups: Number of groups of reports, see `Robust`.
        sums: Integer sums of the reports not yet learned from, one entry for each kind; None for a kind
            without reports.
        n: Number of these reports, one entry for each kind.
    """

    published: PublishedT
    mechanisms: tuple[Any, ...]
    lineage: bytes
    groups: int = 1
    sums: list[IntArray | None] = field(init=False)
    n: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.sums, self.n = [None] * len(self.mechanisms), [0] * len(self.mechanisms)

    def add(self, kind: int, sums: IntArray, n: int) -> None:
        """Add integer sums of n reports of a kind."""
        before = self.sums[kind]
        self.sums[kind] = sums.copy() if before is None else before + sums
        self.n[kind] += n

    @property
    def excess(self) -> FloatArray:
        """Excess of all reports not yet learned from, shape (2,); see `ReportMechanism.excess`."""
        kinds = zip(self.mechanisms, self.sums, self.n, strict=True)
        found = [mechanism.excess(sums, n) for mechanism, sums, n in kinds if sums is not None]
        return np.asarray(np.sum(found, axis=0) if found else np.zeros(2))

    def take(self) -> list[list[tuple[Any, IntArray, int]]]:
        """Return (mechanism, sums, number of reports) of each class with reports, for each group.

        Groups without reports are left out. All sums and numbers are reset to zero.
        """
        kinds = list(zip(self.mechanisms, self.sums, self.n, strict=True))
        self.__post_init__()
        classes = len(kinds) // self.groups
        parts = [kinds[start : start + classes] for start in range(0, len(kinds), classes)]
        taken = [[(one, sums, n) for one, sums, n in part if sums is not None] for part in parts]
        return [part for part in taken if part]

    def check(self) -> None:
        """Raise IncompatibleState if the numbers of reports cannot have given the stored sums."""
        for mechanism, sums, n in zip(self.mechanisms, self.sums, self.n, strict=True):
            of_nobody = mechanism.aggregate(np.zeros((0, mechanism.report_bytes), dtype=np.uint8))
            if (sums is None) != (n == 0) or n < 0:
                raise IncompatibleState("the counts are not of this spec")
            if sums is None:
                continue
            if sums.dtype != np.int64 or sums.shape != np.shape(of_nobody):
                raise IncompatibleState("the counts are not of this spec")
            if not (np.abs(sums) <= _LARGEST_SUM).all() or not mechanism.possible(sums, n):
                raise IncompatibleState(
                    f"the counts of version {self.published.version} have sums that {n} reports cannot have: "
                    "they were altered, or made by another program"
                )


def deviations(excess: FloatArray) -> float:
    """Return how many standard deviations a sum of `excess` lies from what honest users can cause."""
    return float(excess[0] / max(math.sqrt(excess[1]), 1.0))


def batch_of(reports: Iterable[bytes]) -> list[bytes]:
    """Return the reports of one call as a list.

    Raise InvalidParameter if the argument is no list of reports.
    """
    given: object = reports  # of any type, from a caller
    if type(given) is not list and (
        isinstance(given, bytes | bytearray | str) or not isinstance(given, Iterable)
    ):
        raise InvalidParameter(
            f"reports: expected a list of bytes, one entry for each report, not {type(reports).__name__}"
        )
    return list(reports)


def _one_record(report: bytes) -> Records:
    return np.frombuffer(report, dtype=np.uint8).reshape(1, -1)


class ReportCounts(Generic[PublishedT]):
    """The counts of one server, or of one of its shards.

    Args:
        spec: The public contract.
        published: Versions that reports may answer.
        key: Key of the tags that reports must carry, or None; see `ReportKey`.
        robust: Bounds of the server, see `Robust`; counts that are merged need the same.

    Raises:
        InvalidParameter: `spec` is no spec, `published` holds no versions of its server, or `robust` was
            passed for another contract than a `Spec`.
        IncompatibleState: as in `open`.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
        >>> published, reports = dpb.local.Server(spec).publish(), []
        >>> for _ in range(4):
        ...     client = dpb.local.Client(spec)
        ...     arm = client.choose(published, [0.3])
        ...     reports.append(client.report(1.0))
        >>> left, right = ReportCounts(spec, [published]), ReportCounts(spec, [published])
        >>> left.absorb(reports[:2]).accepted, right.absorb(reports[2:]).accepted
        (2, 2)
        >>> left.merge(right)
        4
    """

    def __init__(
        self,
        spec: Contract[PublishedT],
        published: Iterable[PublishedT] = (),
        *,
        key: ReportKey | None = None,
        robust: Robust | None = None,
    ) -> None:
        contract: object = spec
        if not isinstance(contract, Contract):
            raise InvalidParameter(f"spec: expected a Spec or a GPSpec, got {type(spec).__name__}")
        self._key = _checks.an(key, ReportKey, name="key", pass_="key=ReportKey(secret)", optional=True)
        _checks.an(robust, Robust, name="robust", pass_="robust=Robust(secret)", optional=True)
        if robust is not None and not isinstance(contract, Spec):
            raise InvalidParameter(f"robust: expected None for a {type(spec).__name__}: only a Spec has it")
        self._robust, self._groups = robust, 1 if robust is None else robust.groups
        self.spec = spec
        self.versions: dict[int, OpenVersion[PublishedT]] = {}
        self.seen = RecentNonces()
        self._class_bytes = 1 if spec.kinds else 0
        self._classes = max(1, spec.kinds)
        self._head = bytes([spec.protocol.report_format]) + spec.digest
        with reading("published versions"):
            given = list(published)
        for version in given:
            self.open(version)

    @property
    def grouping(self) -> str | None:
        """Digest of the secret that groups the reports, or None without groups; see `Robust.grouping`."""
        return None if self._robust is None else self._robust.grouping

    @property
    def nbytes(self) -> int:
        """Memory of nonces and sums in bytes."""
        sums = [one.nbytes for version in self.versions.values() for one in version.sums if one is not None]
        return self.seen.nbytes + sum(sums)

    @property
    def accepted(self) -> int:
        """Number of reports counted and not yet learned from."""
        return sum(sum(version.n) for version in self.versions.values())

    @property
    def anomaly(self) -> float:
        """Deviation of the reports not yet learned from, in standard deviations: see `Server.diagnostics`."""
        return deviations(sum((version.excess for version in self.versions.values()), np.zeros(2)))

    def open(self, published: PublishedT) -> None:
        """Accept reports on a version from now on.

        Raises:
            InvalidParameter: it is no version of the spec's server.
            IncompatibleState: it does not fit the spec, or another version has its number.
        """
        with reading("a published version of the spec"):
            lineage = published.lineage(self.spec)
        known = self.versions.get(published.version)
        if known is not None:
            if known.lineage != lineage:
                raise IncompatibleState(
                    f"version {published.version} has other contents here: it has another lineage"
                )
            return
        mechanisms = self.spec.protocol.counted_by(published) * self._groups
        self.versions[published.version] = OpenVersion(
            published=published, mechanisms=mechanisms, lineage=lineage, groups=self._groups
        )

    def close(self, numbers: Iterable[int]) -> None:
        """Remove these versions.

        Remove the nonces of reports that arrived while they were open as soon as possible.
        """
        for number in numbers:
            del self.versions[number]
        if min(self.versions, default=0) > self.seen.since:
            self.seen.turn(max(self.versions))

    def absorb(self, reports: Iterable[bytes]) -> Absorbed:
        """Count the valid reports and drop the others; see `Server.absorb`."""
        sifted = self.sift(reports)
        self.count(sifted)
        return sifted.tally

    def absorb_records(self, records: Records, *, without: Nonces = NO_NONCES) -> Absorbed:
        """Count reports of one length, in the form in which files store them.

        Args:
            records: (n, length) bytes.
            without: Nonces that count as seen although they are not stored here.

        Raises:
            InvalidParameter: `records` is not an array of bytes with two dimensions.
        """
        array: object = records
        if not isinstance(array, np.ndarray) or array.ndim != 2 or array.dtype != np.uint8:
            raise InvalidParameter("records: expected an array (n, length) of uint8, as `read_records` gives")
        sifted = Sifted()
        if records.shape[1] in self._lengths():
            sifted.tally = Absorbed.of(self._sift(records, sifted, without, tagged=self._key is not None))
        else:
            sifted.tally.malformed += len(records)
        self.count(sifted)
        return sifted.tally

    def absorb_again(self, records: Sequence[Records]) -> Absorbed:
        """Count reports from a log, in the form of `Sifted.records`."""
        sifted = Sifted()
        for one in records:
            sifted.tally.add(Absorbed.of(self._sift(one, sifted, NO_NONCES, tagged=False)))
        self.count(sifted)
        return sifted.tally

    def sift(self, reports: Iterable[bytes]) -> Sifted:
        """Return the reports that would count; nothing is changed.

        Reports with a length that no open version has are dropped without reading them.

        Raises:
            InvalidParameter: `reports` is not a list of reports.
        """
        every = batch_of(reports)
        if len(every) == 1:
            return self._sifted_alone(every[0])
        sifted = Sifted()
        lengths = np.array([len(one) if type(one) is bytes else -1 for one in every], dtype=np.int64)
        fates = np.full(len(every), _MALFORMED, dtype=np.uint8)
        for length in sorted(self._lengths()):
            here = np.flatnonzero(lengths == length)
            if len(here):
                chosen = every if len(here) == len(every) else [every[i] for i in here.tolist()]
                records = np.frombuffer(b"".join(chosen), dtype=np.uint8).reshape(-1, length)
                fates[here] = self._sift(records, sifted, NO_NONCES, tagged=self._key is not None)
        sifted.tally, sifted.fates = Absorbed.of(fates), fates
        return sifted

    def count(self, sifted: Sifted) -> None:
        """Count sifted reports. Nothing else may be counted between `sift` and this call."""
        for nonces in sifted.nonces:
            self.seen.put(nonces)
        for number, kind, payloads in sifted.parts:
            version = self.versions[number]
            version.add(kind, version.mechanisms[kind].aggregate(payloads), len(payloads))

    def nonces(self) -> Nonces:
        """Return the nonces that would count as repeated, ascending, shape (n,)."""
        return self.seen.sorted()

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return all counts: `nonces`, and `version/n` and `version/kind/sums` of versions with reports."""
        return self.sums() | {"nonces": self.nonces()}

    def sums(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of `to_arrays` without the nonces."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, version in self.versions.items():
            if any(version.n):
                arrays[f"{number}/n"] = np.array(version.n, dtype=np.int64)
            for kind, sums in enumerate(version.sums):
                if sums is not None:
                    arrays[f"{number}/{kind}/sums"] = sums
        return arrays

    @classmethod
    def from_arrays(
        cls,
        spec: Contract[PublishedT],
        published: Iterable[PublishedT],
        arrays: Mapping[str, NDArray[Any]],
        *,
        robust: Robust | None = None,
    ) -> Self:
        """Return counts from the result of `to_arrays`. Pass the same `robust` with which they were counted.

        Raises:
            IncompatibleState: the arrays do not belong to this spec and these versions, or no reports can
                have such sums.
        """
        counts = cls(spec, published, robust=robust)
        given = dict(arrays)
        nonces = given.pop("nonces", NO_NONCES)
        ordered = np.unique(nonces)
        if nonces.dtype != np.uint64 or nonces.ndim != 1 or len(ordered) != len(nonces):
            raise IncompatibleState("the counts are not of this spec")
        counts.seen = RecentNonces(ordered)
        counts.fill(given)
        counts.check()
        return counts

    def fill(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Restore sums from the result of `sums`.

        Raise IncompatibleState if they are of other versions or another spec.
        """
        open_versions = {str(number): version for number, version in self.versions.items()}
        for name, array in arrays.items():
            number, _, rest = name.partition("/")
            *kind, what = rest.split("/")
            version = open_versions.get(number)
            if version is None:
                raise IncompatibleState("the counts are for versions that were not passed")
            classes = [str(index) for index in range(len(version.mechanisms))]
            if not kind and what == "n" and array.dtype == np.int64 and array.shape == (len(classes),):
                version.n = [int(n) for n in array]
            elif len(kind) == 1 and what == "sums" and kind[0] in classes:
                version.sums[classes.index(kind[0])] = array.copy()
            else:
                raise IncompatibleState("the counts are not of this spec")
        for version in self.versions.values():
            version.check()

    def check(self) -> None:
        """Raise IncompatibleState unless there are as many nonces as reports.

        Raise it also if no reports can have these sums.
        """
        if self.accepted != len(self.seen):
            raise IncompatibleState(
                f"the counts hold {self.accepted} reports and {len(self.seen)} nonces: expected equal numbers"
            )
        for version in self.versions.values():
            version.check()

    def check_merge(self, other: "ReportCounts[PublishedT]") -> None:
        """Raise the errors that `merge` would raise, without changing anything."""
        _checks.an(other, ReportCounts, name="counts", pass_="counts=ReportCounts(spec, published)")
        own, others = ((one.spec.to_json(), one.spec.protocol.status) for one in (self, other))
        if own != others:
            raise IncompatibleState("the counts belong to another spec, or to another noise source")
        if other.grouping != self.grouping:
            raise IncompatibleState("the counts have other groups: count them again with this robust=")
        other.check()
        for number, version in other.versions.items():
            mine = self.versions.get(number)
            if any(version.n) and (mine is None or mine.lineage != version.lineage):
                raise IncompatibleState(
                    f"the counts are for a version {number} that is not open here, or has other contents "
                    "here: only counts of the same lineage can be merged"
                )
        if self.seen.contains(other.nonces()).any():
            raise ProtocolError(
                "some reports are in both counts: count one part again without them (without= of aggregate)"
            )

    def merge(self, other: "ReportCounts[PublishedT]") -> int:
        """Add the counts of another shard. The sums are then equal to those of a single process.

        Returns:
            Number of reports counted and not yet learned from.

        Raises:
            InvalidParameter: `other` is no `ReportCounts`.
            IncompatibleState: `other` has another spec, a version that is not open here or has other
                contents here, or sums that no such number of reports can have. Nothing was changed.
            ProtocolError: a report is in both shards. Nothing was changed.
        """
        self.check_merge(other)
        self.seen.put(other.nonces())
        for number, version in other.versions.items():
            for kind, (sums, n) in enumerate(zip(version.sums, version.n, strict=True)):
                if sums is not None:
                    self.versions[number].add(kind, sums, n)
        return self.accepted

    def __repr__(self) -> str:
        return f"ReportCounts(versions={len(self.versions)}, accepted={self.accepted})"

    def _lengths(self) -> set[int]:
        head = HEADER_BYTES + self._class_bytes + (0 if self._key is None else TAG_BYTES)
        return {head + one.report_bytes for v in self.versions.values() for one in v.mechanisms}

    def _sifted_alone(self, report: bytes) -> Sifted:
        sifted, fate = Sifted(fates=np.zeros(1, dtype=np.uint8)), _MALFORMED
        tagged = self._key is not None
        if type(report) is bytes and len(report) >= HEADER_BYTES + self._class_bytes + TAG_BYTES * tagged:
            fate = self._sift_one(report, sifted, NO_NONCES, tagged=tagged)
            if fate in (_FOREIGN, _CLOSED) and len(report) not in self._lengths():
                fate = _MALFORMED
        vars(sifted.tally)[_FATES[fate]] = 1
        sifted.fates[0] = fate
        return sifted

    def _sift_one(self, report: bytes, sifted: Sifted, without: Nonces, *, tagged: bool) -> int:
        """Sift one report with the checks of `_sift`, in the same order; return its fate."""
        body = report[:-TAG_BYTES] if tagged else report
        if body[: DIGEST.stop] != self._head:
            return _FOREIGN
        number, nonce = int.from_bytes(body[VERSION], "little"), int.from_bytes(body[NONCE], "little")
        version = self.versions.get(number)
        if version is None:
            return _CLOSED
        kind = body[HEADER_BYTES] if self._class_bytes else 0
        payload = body[HEADER_BYTES + self._class_bytes :]
        if kind >= self._classes or version.mechanisms[kind].report_bytes != len(payload):
            return _MALFORMED
        payloads = _one_record(payload)
        if not version.mechanisms[kind].valid(payloads)[0]:
            return _MALFORMED
        key = self._key if tagged else None
        if key is not None and not key.genuine(_one_record(report), self.spec)[0]:
            return _FORGED
        if nonce in self.seen or any(len(one) and nonce in one for one in (without, *sifted.nonces)):
            return _REPEATED
        records = _one_record(body)
        group = 0 if self._robust is None else int(self._robust.group_of(records)[0])
        sifted.records.append(records)
        sifted.nonces.append(np.array([nonce], dtype=np.uint64))
        sifted.parts.append((number, group * self._classes + kind, payloads))
        return _ACCEPTED

    def _sift(self, records: Records, sifted: Sifted, without: Nonces, *, tagged: bool) -> Fates:
        """Return the fates of reports of one length, and add accepted reports to `sifted`.

        Of several reports with one nonce, the first is accepted.
        """
        if len(records) == 1:
            fate = self._sift_one(records.tobytes(), sifted, without, tagged=tagged)
            return np.array([fate], dtype=np.uint8)
        tagged_records = records
        if tagged:
            records = records[:, :-TAG_BYTES]
        sound, versions, nonces, payloads = parse(records, self.spec)
        known = sound & np.isin(versions, list(self.versions))
        fates = np.where(known, np.uint8(_MALFORMED), np.where(sound, np.uint8(_CLOSED), np.uint8(_FOREIGN)))
        kinds = np.zeros(len(nonces), dtype=np.uint8)
        if self._class_bytes:
            kinds, payloads = payloads[:, 0], payloads[:, 1:]
        parts = self._parts(known, versions, kinds, payloads)
        valid = np.zeros(len(nonces), dtype=np.bool_)
        for _, _, rows in parts:
            valid[rows] = True
        if self._key is not None and tagged:
            genuine = valid.copy()
            genuine[valid] = self._key.genuine(tagged_records[valid], self.spec)
            fates[valid & ~genuine] = _FORGED
            valid = genuine
        rows = np.flatnonzero(valid)
        # Sorted nonces are looked up many times faster. Of equal nonces, `first` is the one that came first.
        ordered, first = np.unique(nonces[rows], return_index=True)
        seen = self.seen.contains(ordered)
        for others in (without, *sifted.nonces):
            seen |= np.isin(ordered, others)
        chosen = rows[first[~seen]]
        fates[rows], fates[chosen] = _REPEATED, _ACCEPTED
        if len(chosen):
            fresh = np.zeros(len(nonces), dtype=np.bool_)
            fresh[chosen] = True
            sifted.records.append(records if fresh.all() else records[fresh])
            sifted.nonces.append(ordered[~seen])
            for number, kind, among in parts:
                mine = among[fresh[among]]
                for group, one in self._grouped(records, mine):
                    there = group * self._classes + kind
                    sifted.parts.append((number, there, np.ascontiguousarray(payloads[one])))
        return fates

    def _grouped(self, records: Records, rows: IntArray) -> list[tuple[int, IntArray]]:
        """Return (group, rows) for each group."""
        if self._robust is None or self._groups == 1:
            return [(0, rows)] if len(rows) else []
        groups = self._robust.group_of(records[rows])
        return [(group, rows[groups == group]) for group in np.unique(groups).tolist()]

    def _parts(
        self, known: BoolArray, versions: IntArray, kinds: NDArray[np.uint8], payloads: Records
    ) -> list[tuple[int, int, IntArray]]:
        """Return (version, class of epsilon, rows) of the reports that a client could have sent."""
        parts = []
        for number in np.unique(versions[known]).tolist():
            for kind, mechanism in enumerate(self.versions[number].mechanisms[: self._classes]):
                rows = np.flatnonzero(known & (versions == number) & (kinds == kind))
                if len(rows) and mechanism.report_bytes == payloads.shape[1]:
                    good = mechanism.valid(np.ascontiguousarray(payloads[rows]))
                    parts.append((number, kind, rows[good]))
        return parts
