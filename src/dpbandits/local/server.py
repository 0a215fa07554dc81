"""The server's side: absorb bytes, publish policies. No method takes a context, an arm or a reward.

Everything it knows follows from the reports' bytes, the order in which they came and the points at which it
published: a process that has only these rebuilds every decision (`Server.replay`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.local.learning import CellSums
from dpbandits.local.nonces import NonceSet
from dpbandits.local.reports import HEADER_BYTES, PublishedPolicy, Records, parse
from dpbandits.local.rules import public_normals, rule_for
from dpbandits.local.spec import PartitionBanditSpec
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.frequency import ReportMechanism

if TYPE_CHECKING:
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Absorbed", "Server"]


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
        for name in ("accepted", "malformed", "foreign", "closed", "repeated"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(kw_only=True)
class _OpenVersion:
    """A published version whose reports are still accepted."""

    policy: PublishedPolicy
    leaves: IntArray
    mechanism: ReportMechanism
    nonces: NonceSet = field(default_factory=NonceSet)
    sums: IntArray | None = None
    n: int = 0


class Server:
    """The server of one spec.

    Args:
        spec: the public contract.

    Example:
        >>> from dpbandits.domains import Box
        >>> server = Server(PartitionBanditSpec(domain=Box(low=[0], high=[1]), n_arms=2, epsilon=1.0))
        >>> server.publish().version, server.absorb([b"not a report"]).malformed
        (0, 1)
    """

    def __init__(self, spec: PartitionBanditSpec) -> None:
        self.spec = spec
        self.totals = Absorbed()
        self._digest = spec.digest
        self._rule = rule_for(spec)
        self._coins = PublicCoins(spec.seed)
        self._open: dict[int, _OpenVersion] = {}
        self._current = self._open_version(0)
        self._fresh = 0

    @property
    def guarantee(self) -> "Guarantee":
        """What every report promises its user."""
        from dpbandits.local.guarantees import report_guarantee

        return report_guarantee(self.spec)

    @property
    def memory_bytes(self) -> int:
        """Bytes held for the open window: nonces and sums."""
        return sum(v.nonces.nbytes + (0 if v.sums is None else v.sums.nbytes) for v in self._open.values())

    @classmethod
    def replay(cls, spec: PartitionBanditSpec, batches: Iterable[Sequence[bytes]]) -> Self:
        """A server that has absorbed these batches, publishing after each."""
        server = cls(spec)
        for batch in batches:
            server.absorb(batch)
            server.publish()
        return server

    def absorb(self, reports: Sequence[bytes]) -> Absorbed:
        """Count the good reports and drop the others; never raises because of what a report holds.

        Args:
            reports: bytes as sent by devices, in any order, of any open versions.
        """
        tally = Absorbed()
        for records in self._by_length(reports, tally):
            self._absorb_records(records, tally)
        self.totals.add(tally)
        self._fresh += tally.accepted
        return tally

    def publish(self) -> PublishedPolicy:
        """The current policy; a new version when `reports_per_version` reports have come in since."""
        if self._fresh >= self.spec.reports_per_version:
            for version in self._open.values():
                self._learn(version)
            self._rule.refine()
            self._fresh = 0
            self._current = self._open_version(self._current.version + 1)
            for old in [v for v in self._open if v < self._current.version - self.spec.window]:
                del self._open[old]
        return self._current

    def __repr__(self) -> str:
        return f"Server(version={self._current.version}, accepted={self.totals.accepted})"

    def _open_version(self, number: int) -> PublishedPolicy:
        partition = self._rule.partition
        arms, weights = None, None
        if self.spec.arms == "server":
            arms = self._rule.assign(public_normals(self._coins, number, partition, self.spec.n_arms))
        else:
            weights = self._rule.weights()
        policy = PublishedPolicy(version=number, splits=tuple(partition.splits), arms=arms, weights=weights)
        leaves = partition.leaves
        mechanism = self.spec.mechanism_for(len(leaves))
        self._open[number] = _OpenVersion(policy=policy, leaves=leaves, mechanism=mechanism)
        return policy

    def _by_length(self, reports: Sequence[bytes], tally: Absorbed) -> Iterable[Records]:
        """Reports of one length each, as arrays; lengths that no open version has are dropped unread."""
        good = [report for report in reports if type(report) is bytes]
        tally.malformed += len(reports) - len(good)
        wanted = {HEADER_BYTES + version.mechanism.report_bytes for version in self._open.values()}
        lengths = np.fromiter(map(len, good), dtype=np.int64, count=len(good))
        for length in sorted(wanted):
            here = lengths == length
            n = int(here.sum())
            if n:
                chosen = good if n == len(good) else [good[i] for i in np.flatnonzero(here)]
                yield np.frombuffer(b"".join(chosen), dtype=np.uint8).reshape(n, length)
                lengths[here] = -1
        tally.malformed += int((lengths >= 0).sum())

    def _absorb_records(self, records: Records, tally: Absorbed) -> None:
        sound, versions, nonces, payloads = parse(records, self._digest)
        if not sound.all():
            tally.foreign += int((~sound).sum())
            versions, nonces, payloads = versions[sound], nonces[sound], payloads[sound]
        for number in np.unique(versions).tolist():
            here = versions == number
            version = self._open.get(number)
            if version is None:
                tally.closed += int(here.sum())
                continue
            if version.mechanism.report_bytes != payloads.shape[1]:
                tally.malformed += int(here.sum())
                continue
            mine, ids = (payloads, nonces) if here.all() else (payloads[here], nonces[here])
            mine = np.ascontiguousarray(mine)
            valid = version.mechanism.valid(mine)
            if not valid.all():
                tally.malformed += int((~valid).sum())
                mine, ids = mine[valid], ids[valid]
            fresh = version.nonces.add(ids)
            if not fresh.all():
                tally.repeated += int((~fresh).sum())
                mine = mine[fresh]
            if len(mine):
                sums = version.mechanism.aggregate(mine)
                version.sums = sums if version.sums is None else version.sums + sums
                version.n += len(mine)
                tally.accepted += len(mine)

    def _learn(self, version: _OpenVersion) -> None:
        if version.sums is None:
            return
        signed, count = version.mechanism.estimate(version.sums, version.n)
        shape = (-1,) if self.spec.arms == "server" else (-1, self.spec.n_arms)
        self._rule.learn(
            CellSums(
                leaves=version.leaves,
                arms=version.policy.arms,
                weights=version.policy.weights,
                signed=_shaped(signed, shape),
                count=_shaped(count, shape),
                n=version.n,
                moments=version.mechanism.moments,
            )
        )
        version.sums, version.n = None, 0


def _shaped(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return values.reshape(shape)
