"""Counting reports: sums of integers, version by version, that shards can add up.

What a server keeps of the reports that answer one published version are integer sums, their number
and their nonces. Sums of shards that answer the same published versions add up to the sums of one
process, bit for bit. Shards of another lineage (another spec, or something else published under the same
number) are refused, and so are shards that hold a report both: it would count twice.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits._reading import reading
from dpbandits._typing import IntArray
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.gp_spec import GPSpec
from dpbandits.local.contract.reports import HEADER_BYTES, Contract, PublishedT, Records, parse
from dpbandits.local.contract.spec import Spec
from dpbandits.local.server.nonces import Nonces, NonceSet

__all__ = ["Absorbed", "OpenVersion", "ReportCounts"]

# Sums beyond it are of no crowd, and could overflow when they are added.
_LARGEST_SUM = 1 << 53

_NO_NONCES: Nonces = np.zeros(0, dtype=np.uint64)


@dataclass(kw_only=True)
class Absorbed:
    """How many reports were accepted, and how many dropped for which reason.

    Attributes:
        accepted: counted.
        malformed: not bytes, of a wrong length or format, or a payload that no device sends.
        foreign: of another spec.
        closed: answers to a version that is not open: too old, or never published.
        repeated: a nonce seen before.
    """

    accepted: int = 0
    malformed: int = 0
    foreign: int = 0
    closed: int = 0
    repeated: int = 0

    def add(self, other: "Absorbed") -> None:
        """Add another tally to this one."""
        for name, n in vars(other).items():
            setattr(self, name, getattr(self, name) + n)


@dataclass(kw_only=True)
class OpenVersion(Generic[PublishedT]):
    """A published version whose reports are still accepted.

    Attributes:
        published: as it was.
        mechanisms: one a class of epsilon.
        lineage: digest of what was published: equal for equal versions only.
        nonces: of all reports counted, also of those whose sums were taken.
        sums: integer sums of reports not yet taken, one a class; None: none.
        n: how many reports they are, one a class.
    """

    published: PublishedT
    mechanisms: tuple[Any, ...]
    lineage: bytes
    nonces: NonceSet = field(default_factory=NonceSet)
    sums: list[IntArray | None] = field(init=False)
    n: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.sums, self.n = [None] * len(self.mechanisms), [0] * len(self.mechanisms)

    def add(self, kind: int, sums: IntArray, n: int) -> None:
        """Add integer sums of n reports of a class."""
        before = self.sums[kind]
        self.sums[kind] = sums.copy() if before is None else before + sums
        self.n[kind] += n

    def take(self) -> list[tuple[Any, IntArray, int]]:
        """Mechanism, sums and number of reports of every class that has any; they start from zero again."""
        taken = zip(self.mechanisms, self.sums, self.n, strict=True)
        self.__post_init__()
        return [(mechanism, sums, n) for mechanism, sums, n in taken if sums is not None]


class ReportCounts(Generic[PublishedT]):
    """The counts of one server, or of one shard of it.

    Args:
        spec: the public contract.
        published: the versions that reports may answer.

    Raises:
        InvalidParameter: not a spec, or not what its server publishes.
        IncompatibleState: as `open`.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     domain=dpb.Box(low=[0], high=[1]), n_arms=2, privacy=dpb.LocalDP(epsilon=1))
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

    def __init__(self, spec: Contract[PublishedT], published: Iterable[PublishedT] = ()) -> None:
        contract: object = spec
        if not isinstance(contract, Spec | GPSpec):
            raise InvalidParameter(f"spec: expected a Spec or a GPSpec, got {type(spec).__name__}")
        self.spec = spec
        self.versions: dict[int, OpenVersion[PublishedT]] = {}
        self._class_bytes = 1 if spec.epsilons else 0
        with reading("published versions"):
            given = list(published)
        for version in given:
            self.open(version)

    @property
    def nbytes(self) -> int:
        """Bytes held: nonces and sums."""
        held = [part for version in self.versions.values() for part in (version.nonces, *version.sums)]
        return sum(part.nbytes for part in held if part is not None)

    @property
    def accepted(self) -> int:
        """Reports counted and not yet taken."""
        return sum(sum(version.n) for version in self.versions.values())

    def open(self, published: PublishedT) -> None:
        """Accept reports that answer this from now on.

        Raises:
            InvalidParameter: nothing that the spec's server publishes.
            IncompatibleState: it does not fit the spec, or another one has its version number.
        """
        with reading("a published version of the spec"):
            published.check(self.spec)
            text = published.to_json(self.spec)
        lineage = hashlib.blake2b(text.encode(), digest_size=16).digest()
        known = self.versions.get(published.version)
        if known is not None:
            if known.lineage != lineage:
                raise IncompatibleState(f"version {published.version} is another one here: another lineage")
            return
        mechanisms = self.spec.counted_by(published)
        self.versions[published.version] = OpenVersion(
            published=published, mechanisms=mechanisms, lineage=lineage
        )

    def close_before(self, number: int) -> None:
        """Forget versions below a number."""
        for old in [version for version in self.versions if version < number]:
            del self.versions[old]

    def absorb(self, reports: Sequence[bytes]) -> Absorbed:
        """See `Server.absorb`."""
        tally = Absorbed()
        for records in self._by_length(reports, tally):
            self._absorb_records(records, tally, {})
        return tally

    def absorb_records(self, records: Records, *, without: "dict[int, Nonces] | None" = None) -> Absorbed:
        """Count reports of one length, as they lie in files.

        Args:
            records: (n, length) bytes.
            without: nonces by version that count as seen although they are not kept here.
        """
        tally = Absorbed()
        if records.shape[1] in self._lengths():
            self._absorb_records(records, tally, without or {})
        else:
            tally.malformed += len(records)
        return tally

    def nonces(self) -> dict[int, Nonces]:
        """Sorted nonces by version."""
        return {number: version.nonces.sorted() for number, version in self.versions.items()}

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Everything counted, as arrays under `version/class/what`, versions with reports only."""
        arrays: dict[str, NDArray[Any]] = {}
        for number, version in self.versions.items():
            if not len(version.nonces):
                continue
            arrays[f"{number}/nonces"] = version.nonces.sorted()
            arrays[f"{number}/n"] = np.array(version.n, dtype=np.int64)
            for kind, sums in enumerate(version.sums):
                if sums is not None:
                    arrays[f"{number}/{kind}/sums"] = sums
        return arrays

    @classmethod
    def from_arrays(
        cls, spec: Contract[PublishedT], published: Iterable[PublishedT], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Counts from `to_arrays`.

        Raises:
            IncompatibleState: the arrays are not those of this spec and these versions.
        """
        counts = cls(spec, published)
        open_versions = {str(number): version for number, version in counts.versions.items()}
        for name, array in arrays.items():
            number, _, rest = name.partition("/")
            *kind, what = rest.split("/")
            version = open_versions.get(number)
            if version is None:
                raise IncompatibleState("the counts answer versions that are not given")
            classes = [str(index) for index in range(len(version.mechanisms))]
            if not kind and what == "nonces" and array.dtype == np.uint64 and array.ndim == 1:
                version.nonces.add(array)
            elif not kind and what == "n" and array.dtype == np.int64 and array.shape == (len(classes),):
                version.n = [int(n) for n in array]
            elif len(kind) == 1 and what == "sums" and kind[0] in classes:
                index = classes.index(kind[0])
                mechanism = version.mechanisms[index]
                of_nobody = mechanism.aggregate(np.zeros((0, mechanism.report_bytes), dtype=np.uint8))
                good = array.dtype == np.int64 and array.shape == np.shape(of_nobody)
                if not good or not ((array >= -_LARGEST_SUM) & (array <= _LARGEST_SUM)).all():
                    raise IncompatibleState("the counts are not of this spec")
                version.sums[index] = array.copy()
            else:
                raise IncompatibleState("the counts are not of this spec")
        for version in counts.versions.values():
            if any((sums is None) != (n == 0) for sums, n in zip(version.sums, version.n, strict=True)):
                raise IncompatibleState("the counts lack sums, or the number of their reports")
            if min(version.n) < 0 or sum(version.n) > len(version.nonces):
                raise IncompatibleState("the counts hold more reports than nonces: a report counts once")
        return counts

    def check_merge(self, other: "ReportCounts[PublishedT]") -> None:
        """Refuse what `merge` refuses, with its errors, and change nothing."""
        if other.spec.to_json() != self.spec.to_json():
            raise IncompatibleState("the counts belong to another spec")
        for number, version in other.versions.items():
            if not len(version.nonces):
                continue
            mine = self.versions.get(number)
            if mine is None or mine.lineage != version.lineage:
                raise IncompatibleState(
                    f"the counts answer a version {number} that is not open here, or was not published here: "
                    "only counts of the same lineage add up"
                )
            if mine.nonces.contains(version.nonces.sorted()).any():
                raise ProtocolError(
                    f"some reports of version {number} are in both counts: count one part again without them "
                    "(`without` of `aggregate`)"
                )

    def merge(self, other: "ReportCounts[PublishedT]") -> int:
        """Add another shard's counts; the sums are those of one process.

        Returns:
            Reports counted and not yet taken.

        Raises:
            IncompatibleState: another spec, a version that is not open here, or another one under its
                number. Nothing was changed.
            ProtocolError: some report is in both shards. Nothing was changed.
        """
        self.check_merge(other)
        arriving = {number: version for number, version in other.versions.items() if len(version.nonces)}
        for number, version in arriving.items():
            mine = self.versions[number]
            mine.nonces.add(version.nonces.sorted())
            for kind, (sums, n) in enumerate(zip(version.sums, version.n, strict=True)):
                if sums is not None:
                    mine.add(kind, sums, n)
        return self.accepted

    def __repr__(self) -> str:
        return f"ReportCounts(versions={len(self.versions)}, accepted={self.accepted})"

    def _lengths(self) -> set[int]:
        head = HEADER_BYTES + self._class_bytes
        return {head + one.report_bytes for v in self.versions.values() for one in v.mechanisms}

    def _by_length(self, reports: Sequence[bytes], tally: Absorbed) -> Iterable[Records]:
        """Reports of one length each, as arrays; lengths that no open version has are dropped unread."""
        good = [report for report in reports if type(report) is bytes]
        tally.malformed += len(reports) - len(good)
        lengths = np.array([len(report) for report in good], dtype=np.int64)
        for length in sorted(self._lengths()):
            here = lengths == length
            n = int(here.sum())
            if n:
                chosen = good if n == len(good) else [good[i] for i in np.flatnonzero(here)]
                yield np.frombuffer(b"".join(chosen), dtype=np.uint8).reshape(n, length)
                lengths[here] = -1
        tally.malformed += int((lengths >= 0).sum())

    def _absorb_records(self, records: Records, tally: Absorbed, without: dict[int, Nonces]) -> None:
        sound, versions, nonces, payloads = parse(records, self.spec)
        if not sound.all():
            tally.foreign += int((~sound).sum())
            versions, nonces, payloads = versions[sound], nonces[sound], payloads[sound]
        for number in np.unique(versions).tolist():
            here = versions == number
            version = self.versions.get(number)
            if version is None:
                tally.closed += int(here.sum())
                continue
            mine, ids = (payloads, nonces) if here.all() else (payloads[here], nonces[here])
            self._absorb_version(version, mine, ids, tally, without.get(number, _NO_NONCES))

    def _absorb_version(
        self,
        version: OpenVersion[PublishedT],
        payloads: Records,
        ids: Nonces,
        tally: Absorbed,
        without: Nonces,
    ) -> None:
        """Reports of one version: those that no device sends go first, then repeated ones, in their order."""
        kinds, valid = np.zeros(len(ids), dtype=np.uint8), np.zeros(len(ids), dtype=np.bool_)
        if self._class_bytes:
            kinds, payloads = payloads[:, 0], payloads[:, 1:]
        for kind, mechanism in enumerate(version.mechanisms):
            here = kinds == kind
            if mechanism.report_bytes == payloads.shape[1]:
                valid[here] = mechanism.valid(np.ascontiguousarray(payloads[here]))
        fresh = valid & ~np.isin(ids, without) if len(without) else valid.copy()
        fresh[fresh] = version.nonces.add(ids[fresh])
        tally.malformed += int((~valid).sum())
        tally.repeated += int((valid & ~fresh).sum())
        tally.accepted += int(fresh.sum())
        for kind, mechanism in enumerate(version.mechanisms):
            mine = np.ascontiguousarray(payloads[fresh & (kinds == kind)])
            if len(mine):
                version.add(kind, mechanism.aggregate(mine), len(mine))
