"""The server's side: absorb bytes, publish policies. No method takes a context, an arm or a reward.

Everything it knows follows from the reports' bytes, the order in which they came and the points at which it
published: a process that has only these rebuilds every decision (`Server.replay`).
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

from dpbandits._typing import FloatArray
from dpbandits.errors import IncompatibleState, ProtocolError
from dpbandits.local.counting import Absorbed, OpenVersion, ReportCounts
from dpbandits.local.explore import ExploreRule
from dpbandits.local.learning import CellSums
from dpbandits.local.own_epsilon import combined_estimate
from dpbandits.local.reports import PublishedPolicy
from dpbandits.local.rules import public_normals, rule_for
from dpbandits.local.source_evidence import SourceEvidence, SourceSums, source_evidence
from dpbandits.local.spec import PartitionBanditSpec
from dpbandits.local.transfer_tree import TransferTree
from dpbandits.policy.coins import PublicCoins

if TYPE_CHECKING:
    from dpbandits.local.sources import SourceSpec
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Absorbed", "Server"]


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
        self._rule = rule_for(spec)
        self._coins = PublicCoins(spec.seed)
        self._counts = ReportCounts(spec)
        self._sources: dict[str, tuple[SourceSpec, Server]] = {}
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
        return self._counts.nbytes

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
        tally = self._counts.absorb(reports)
        self.totals.add(tally)
        self._fresh += tally.accepted
        return tally

    def merge(self, counts: ReportCounts) -> int:
        """Add what another process counted for versions that are open here (see `counting`).

        Args:
            counts: of this spec and these policies; its reports are absorbed as if they had come here.

        Returns:
            How many reports were added.

        Raises:
            IncompatibleState: the counts are of another lineage; nothing was changed.
            ProtocolError: some of its reports were counted here before; nothing was changed.
        """
        before = self._counts.accepted
        added = self._counts.merge(counts) - before
        self.totals.accepted += added
        self._fresh += added
        return added

    def attach(self, source: "SourceSpec", server: "Server") -> PublishedPolicy:
        """Let a source's reports start this server's tree, or bring it up to date; a new version follows.

        Args:
            source: its public contract, which names this server's spec as its target.
            server: the source's server, made with `source.reports`; only its privatised sums are read.

        Returns:
            The policy that uses the source.

        Raises:
            IncompatibleState: the source belongs to another target, the server to another source.
            ProtocolError: this server's policy does not learn from sources, or the source has no reports.
        """
        if source.target.digest != self.spec.digest or server.spec.digest != source.reports.digest:
            raise IncompatibleState(
                "attach: the source belongs to another target, or the server to another source"
            )
        rule = self._transfer_rule()
        rule.attach(
            source.name,
            source_evidence(server.source_sums(), source.chances),
            least_doubt=source.least_doubt,
        )
        rule.jump_start()
        return self._next_version()

    def attach_target(self, name: str, server: "Server") -> PublishedPolicy:
        """Learn from the reports of another target with the same mean rewards; a new version follows.

        Args:
            name: of the other target.
            server: its server; domain, arms and reward range must be this server's. What it learned from
                sources, this one included, is not passed on.

        Raises:
            IncompatibleState: the other target has another domain, other arms or another reward range.
            ProtocolError: one of the two policies does not learn from sources.
        """
        mine, theirs = self.spec, server.spec
        if (mine.domain, mine.n_arms, mine.reward_range) != (
            theirs.domain,
            theirs.n_arms,
            theirs.reward_range,
        ):
            raise IncompatibleState("attach_target: expected the same domain, arms and reward range")
        rule, evidence = self._transfer_rule(), server.evidence()
        rule.attach(name, evidence)
        rule.jump_start()
        return self._next_version()

    def source_sums(self) -> SourceSums:
        """The privatised sums of a source's server.

        Raises:
            ProtocolError: this is no source's server, or nothing has come in.
        """
        if not isinstance(self._rule, ExploreRule):
            raise ProtocolError("only a server with the policy 'explore' is a source's")
        self._learn_all()
        return self._rule.sums()

    def evidence(self) -> SourceEvidence:
        """What this target's own reports say, for other targets."""
        return self._transfer_rule().evidence()

    def publish(self) -> PublishedPolicy:
        """The current policy; a new version when `reports_per_version` reports have come in since."""
        if self._fresh >= self.spec.reports_per_version:
            self._learn_all()
            self._rule.refine()
            self._fresh = 0
            self._next_version()
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
        self._counts.open(policy)
        return policy

    def _next_version(self) -> PublishedPolicy:
        self._current = self._open_version(self._current.version + 1)
        self._counts.close_before(self._current.version - self.spec.window)
        return self._current

    def _transfer_rule(self) -> TransferTree:
        if not isinstance(self._rule, TransferTree) or self.spec.tie != "first":
            raise ProtocolError("only the policy 'tree' with tie 'first' learns from sources")
        return self._rule

    def _learn_all(self) -> None:
        for version in self._counts.versions.values():
            self._learn(version)

    def _learn(self, version: OpenVersion) -> None:
        parts = version.take()
        if not parts:
            return
        signed, count, n, moments = combined_estimate(parts)
        shape = (-1,) if self.spec.arms == "server" else (-1, self.spec.n_arms)
        self._rule.learn(
            CellSums(
                leaves=version.leaves,
                arms=version.policy.arms,
                weights=version.policy.weights,
                signed=_shaped(signed, shape),
                count=_shaped(count, shape),
                n=n,
                moments=moments,
            )
        )


def _shaped(values: FloatArray, shape: tuple[int, ...]) -> FloatArray:
    return values.reshape(shape)
