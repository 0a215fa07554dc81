"""Counting of report files by any number of processes, with the same sums as one process, bit for bit.

A report file starts with `DPBREP1`, a line feed, and the length of a report as four bytes, little-endian.
Then follow reports of that length. Files are counted separately (`ReportCounts`), by this process or by the
workers of a Dask cluster, and merged in their order. A report in two files counts in the first: nonces are
compared across files, and a later file that repeats one is counted again without it.

The collecting process needs eight bytes for each report, and memory for the sums. Workers read the files
themselves: every path must be valid on each worker.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dpbandits._dask import connected
from dpbandits._reading import json_object, reading
from dpbandits.errors import CorruptState, IncompatibleState, InvalidData, InvalidParameter
from dpbandits.local.contract.gp_spec import GPSpec
from dpbandits.local.contract.keys import ReportKey
from dpbandits.local.contract.readout import read_spec
from dpbandits.local.contract.reports import HEADER_BYTES, Contract, PublishedT, Records
from dpbandits.local.server.counting import NO_NONCES, Absorbed, ReportCounts
from dpbandits.local.server.nonces import Nonces
from dpbandits.local.server.robust import Robust

__all__ = [
    "aggregate",
    "read_contract",
    "read_counts",
    "read_records",
    "sums_digest",
    "write_counts",
    "write_reports",
]

_KIND = "local.report_counts"
_MAGIC = b"DPBREP1\n"
_HEAD = len(_MAGIC) + 4
_LONGEST = 1 << 24

# Number of reports that are counted at a time, which bounds a worker's memory.
_CHUNK = 1 << 16


_Part = tuple[dict[str, NDArray[Any]], Absorbed]
"""Counts of one file, as arrays that can be sent between processes, and the tally of its reports."""

_Contract = tuple[str, list[str]]
"""JSON of a spec, and JSON of each of its published versions."""


def write_reports(path: str | os.PathLike[str], reports: Sequence[bytes]) -> None:
    """Write reports of one length to a new file.

    Raises:
        InvalidData: there are no reports, or they differ in length.
    """
    lengths = {len(report) for report in reports}
    if len(lengths) != 1:
        raise InvalidData("reports: expected at least one, all of one length: use a file for each length")
    with Path(path).open("xb") as file:
        file.write(_MAGIC + lengths.pop().to_bytes(4, "little"))
        file.writelines(reports)


def read_records(path: str | os.PathLike[str]) -> tuple[Records, int]:
    """Map a file's n reports into memory, shape (n, length).

    Also return the number of bytes of an incomplete last report.

    Raises:
        CorruptState: the file is no report file.
    """
    file = Path(path)
    with file.open("rb") as opened:
        head = opened.read(_HEAD)
    length = int.from_bytes(head[len(_MAGIC) :], "little")
    if len(head) != _HEAD or head[: len(_MAGIC)] != _MAGIC or not HEADER_BYTES <= length <= _LONGEST:
        raise CorruptState("expected a file of reports, as `write_reports` makes them")
    whole, torn = divmod(file.stat().st_size - _HEAD, length)
    if not whole:
        return np.empty((0, length), dtype=np.uint8), torn
    return np.memmap(file, dtype=np.uint8, mode="r", offset=_HEAD, shape=(whole, length)), torn


def aggregate(
    paths: Iterable[str | os.PathLike[str]],
    spec: Contract[PublishedT],
    published: Sequence[PublishedT],
    *,
    cluster: Any = None,
    without: Nonces = NO_NONCES,
    key: ReportKey | None = None,
    robust: Robust | None = None,
) -> tuple[ReportCounts[PublishedT], Absorbed]:
    """Count the reports of files.

    Args:
        paths: Report files; of two reports with one nonce, the one in the earlier file counts.
        spec: The public contract.
        published: Versions that the reports may answer.
        cluster: Address of a Dask scheduler, "local:2" for two workers on this machine, or a
            `distributed.Client`; None for this process. Anybody who can reach a scheduler can run code on
            its workers.
        without: Nonces of reports counted elsewhere (`Server.nonces`, `ReportCounts.nonces`). Their reports
            are dropped as repeated, so that the counts can be merged there.
        key: Key of the reports' tags, which is sent to the workers; see `ReportKey`.
        robust: Bounds of the server that the counts are for (`Server.robust`); workers receive its secret.

    Returns:
        The counts, for `Server.merge`, and a tally with the number of reports dropped for each reason.

    Raises:
        InvalidParameter: an argument is of another kind, or no scheduler answers.
        CorruptState: a file is no report file.
        MissingExtra: `cluster` was passed and the extra `cluster` is not installed.
    """
    whole, tally = ReportCounts(spec, published, key=key, robust=robust), Absorbed()
    contract = (spec.to_json(), [one.published.to_json(spec) for one in whole.versions.values()])
    files: object = paths  # of any type, from a caller
    if isinstance(files, str | os.PathLike) or not isinstance(files, Iterable):
        raise InvalidParameter("paths: expected a list of files of reports")
    nonces: object = without
    if not isinstance(nonces, np.ndarray) or without.dtype != np.uint64 or without.ndim != 1:
        raise InvalidParameter("without: expected nonces, the result of `nonces()` of counts or of a server")
    jobs = [_Job(str(path), contract, without, key, robust) for path in paths]
    with _workers(cluster) as counted:
        parts = counted(jobs) if jobs else []
        again = _repeated([arrays for arrays, _ in parts])
        for index, more in again.items():
            jobs[index] = jobs[index]._replace(without=np.concatenate([without, more]))
        if again:
            for index, part in zip(again, counted([jobs[index] for index in again]), strict=True):
                parts[index] = part
    for arrays, one in parts:
        whole.merge(ReportCounts.from_arrays(spec, published, arrays, robust=robust))
        tally.add(one)
    return whole, tally


def read_contract(spec: str, published: Iterable[str]) -> tuple[Contract[Any], list[Any]]:
    """Return a spec (`Spec`, `GPSpec` or `ReadoutSpec`) and its published versions, from their JSON.

    Raises:
        IncompatibleState: a text is not such JSON.
    """
    what = "the JSON of a Spec or GPSpec: pass what spec.to_json() wrote"
    with reading(what, IncompatibleState):
        kind = json_object(spec, what, IncompatibleState)["kind"]
    contract: Contract[Any] = GPSpec.from_json(spec) if kind == GPSpec.config_type else read_spec(spec)
    return contract, [contract.protocol.publishes.from_json(version, contract) for version in published]


def sums_digest(counts: ReportCounts[Any]) -> str:
    """Return a digest of all sums, numbers and nonces.

    Two digests are equal if and only if the counts are equal.
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, array in sorted(counts.to_arrays().items()):
        digest.update(
            f"{name}|{array.dtype.str}|{array.shape}|".encode() + np.ascontiguousarray(array).tobytes()
        )
    return digest.hexdigest()


def write_counts(path: str | os.PathLike[str], counts: ReportCounts[Any]) -> None:
    """Save counts in a state file."""
    from dpbandits.state import State, write_state

    spec = counts.spec
    published = [version.published.to_json(spec) for _, version in sorted(counts.versions.items())]
    public = {"spec": spec.to_json(), "published": published}
    if counts.grouping is not None:
        public["grouping"] = counts.grouping
    arrays = {name.replace("/", "."): array for name, array in counts.to_arrays().items()}
    lineage = spec.digest.hex()
    state = State(kind=_KIND, version=1, lineage=lineage, position=0, public=public, arrays=arrays)
    write_state(Path(path), state)


def read_counts(path: str | os.PathLike[str], *, robust: Robust | None = None) -> ReportCounts[Any]:
    """Load counts that `write_counts` saved. Pass the same `robust` with which they were counted.

    Raises:
        IncompatibleState: the file holds another state, or counts grouped by another secret.
        CorruptState: the file is incomplete or was altered.
    """
    from dpbandits.state import read_state

    state = read_state(Path(path))
    if state.kind != _KIND or state.version != 1:
        raise IncompatibleState("expected the counts of reports")
    with reading("the counts of reports", IncompatibleState):
        spec, published = read_contract(state.public["spec"], state.public["published"])
        if state.public.get("grouping") != (None if robust is None else robust.grouping):
            raise IncompatibleState("the counts have other groups: pass the robust= that they were made with")
    arrays = {name.replace(".", "/"): array for name, array in state.arrays.items()}
    return ReportCounts.from_arrays(spec, published, arrays, robust=robust)


class _Job(NamedTuple):
    file: str
    contract: _Contract
    without: Nonces
    key: ReportKey | None
    robust: Robust | None


def _count(job: _Job) -> _Part:
    spec, published = read_contract(*job.contract)
    counts, tally = ReportCounts(spec, published, key=job.key, robust=job.robust), Absorbed()
    records, torn = read_records(job.file)
    for start in range(0, len(records), _CHUNK):
        chunk = np.ascontiguousarray(records[start : start + _CHUNK])
        tally.add(counts.absorb_records(chunk, without=job.without))
    tally.malformed += torn > 0
    return counts.to_arrays(), tally


def _repeated(parts: list[dict[str, NDArray[Any]]]) -> dict[int, Nonces]:
    """Return, for the index of each such file, the nonces in the file that an earlier file also has."""
    held = [part["nonces"] for part in parts]
    every = np.concatenate([NO_NONCES, *held])
    order = np.argsort(every, kind="stable")  # stable: equal nonces keep the files' order
    later = order[1:][every[order[1:]] == every[order[:-1]]]
    owner = np.repeat(np.arange(len(parts)), [len(one) for one in held])[later]
    return {index: every[later[owner == index]] for index in np.unique(owner).tolist()}


@contextmanager
def _workers(cluster: Any) -> Iterator[Callable[[list[Any]], list[_Part]]]:
    """Yield a function that counts files in this process or on a cluster."""
    if cluster is None:
        yield lambda jobs: [_count(job) for job in jobs]
        return
    if not isinstance(cluster, str) and not hasattr(cluster, "compute"):
        raise InvalidParameter(f"cluster is a {type(cluster).__name__}: pass an address, or a Client of Dask")
    with connected(cluster) if isinstance(cluster, str) else nullcontext(cluster) as client:
        from dask import bag  # installed with every Dask client

        def counted(jobs: list[Any]) -> list[_Part]:
            done = client.compute(bag.from_sequence(jobs, npartitions=len(jobs)).map(_count))
            return list(done.result())

        yield counted
