"""What a `DurableServer` writes down when its server is told something that is no batch of reports.

Counts of another process, a source's privatised sums, another target's evidence: each becomes bytes that
rebuild it bit for bit, and nothing else is needed to take the same step again. All of it is post-processing
of private reports. The log's own digests vouch for the bytes; what does not fit the server is refused.
"""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._reading import reading
from dpbandits.errors import CorruptState
from dpbandits.local.contract.sources import SourceSpec
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.evidence import SourceEvidence, SourceSums
from dpbandits.local.server.counting import ReportCounts
from dpbandits.local.server.server import Server
from dpbandits.models.trees.messages import Gaussians
from dpbandits.models.trees.partition import DyadicPartition
from dpbandits.state import State
from dpbandits.state.format import decode, encode

__all__ = [
    "counts_from",
    "counts_record",
    "evidence_from",
    "evidence_record",
    "sums_from",
    "sums_record",
]

_COUNTS, _SUMS, _EVIDENCE = "local.merged", "local.source_sums", "local.target_evidence"


def counts_record(counts: ReportCounts) -> bytes:
    """Counts of versions that are open on the server."""
    arrays = {name.replace("/", "."): array for name, array in counts.to_arrays().items()}
    return _written(_COUNTS, counts.spec, {}, arrays)


def counts_from(server: Server, record: bytes) -> ReportCounts:
    """Counts for `Server.merge`."""
    state = _read(_COUNTS, record)
    arrays = {name.replace(".", "/"): array for name, array in state.arrays.items()}
    return ReportCounts.from_arrays(server.spec, server.open_policies, arrays)


def sums_record(source: SourceSpec, sums: SourceSums) -> bytes:
    """A source and its sums; bins and moments follow from its contract."""
    arrays = {"signed": sums.signed, "count": sums.count, "reach": sums.reach}
    return _written(_SUMS, source.target, {"source": source.to_json()}, arrays)


def sums_from(record: bytes) -> tuple[SourceSpec, SourceSums]:
    """Arguments for `Server._attach_sums`."""
    state = _read(_SUMS, record)
    with reading("a source's sums", CorruptState):
        source = SourceSpec.from_json(state.public["source"])
        partition = source.bins()
        return source, SourceSums(
            partition=partition,
            signed=state.arrays["signed"],
            count=state.arrays["count"],
            reach=state.arrays["reach"],
            moments=source.reports.mechanism_for(len(partition.leaves)).moments,
            arm_hidden=source.arms == "behaviour",
        )


def evidence_record(name: str, target: Spec, evidence: SourceEvidence) -> bytes:
    """Another target and what its own reports say."""
    public = {"name": name, "target": target.to_json()}
    arrays = {
        "splits": np.array(evidence.partition.splits, dtype=np.int64),
        "precision": evidence.local.precision,
        "moment": evidence.local.moment,
    }
    return _written(_EVIDENCE, target, public, arrays)


def evidence_from(record: bytes) -> tuple[str, Spec, SourceEvidence]:
    """Arguments for `Server._attach_evidence`."""
    state = _read(_EVIDENCE, record)
    with reading("a target's evidence", CorruptState):
        target = Spec.from_json(state.public["target"])
        partition = DyadicPartition(dim=target.dim, tie=target.tie, splits=state.arrays["splits"].tolist())
        local = Gaussians(state.arrays["precision"], state.arrays["moment"])
        return state.public["name"], target, SourceEvidence(partition=partition, local=local)


def _written(kind: str, spec: Spec, public: dict[str, str], arrays: Mapping[str, NDArray[Any]]) -> bytes:
    state = State(kind=kind, version=1, lineage=spec.digest.hex(), position=0, public=public, arrays=arrays)
    return encode(state)[0]


def _read(kind: str, record: bytes) -> State:
    state, _ = decode(io.BytesIO(record), len(record))
    if state.kind != kind or state.version != 1:
        raise CorruptState("a record of the server's log is of another kind")
    return state
