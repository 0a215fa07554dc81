"""The server: absorb reports as bytes, learn, and publish versions. No method takes raw data.

The state of a server follows from the bytes of its reports, their order, and the points at which it
published. A process that has these can rebuild every version (`Server.replay`).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._reading import reading
from dpbandits._seen import no_such, said
from dpbandits._threads import one_thread
from dpbandits._typing import FloatArray
from dpbandits.errors import IncompatibleState, ProtocolError
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.gp_spec import GPSpec
from dpbandits.local.contract.keys import ReportKey
from dpbandits.local.contract.reports import Contract, PublishedT, Records
from dpbandits.local.contract.spec import Spec
from dpbandits.local.contract.statement import weakest
from dpbandits.local.learners.base import Counted, Learner
from dpbandits.local.learners.evidence import SourceEvidence, SourceSums, source_evidence
from dpbandits.local.learners.explore import ExploreRule
from dpbandits.local.learners.questions import QuestionLearner
from dpbandits.local.learners.table import learner_for
from dpbandits.local.learners.transfer import TransferTree
from dpbandits.local.server.counting import Absorbed, ReportCounts, Sifted, deviations
from dpbandits.local.server.nonces import Nonces, RecentNonces
from dpbandits.local.server.pace import Clock, Pace
from dpbandits.local.server.robust import Robust
from dpbandits.policy.coins import PublicCoins
from dpbandits.state.holder import Held, Holder, in_turn
from dpbandits.state.release_log import ReleaseLog

if TYPE_CHECKING:
    from dpbandits.local.contract.sources import SourceSpec
    from dpbandits.local.server.readout import LocalReadoutResult
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Absorbed", "Server", "bins_spec"]

_INSTEAD = {
    "ask": "choose(published, context) of a Client, as a server reads no context",
    "tell": "absorb(reports), with the bytes from Client.report(reward)",
    "predict": "predict(spec, contexts) of estimate()",
    "recommend": "recommend(spec, context) of publish()",
    "report": "report(reward) of a Client",
    "save": "DurableServer.open(spec, folder), which keeps every report",
    "load": "DurableServer.open(spec, folder), which keeps every report",
}
"""Names of methods of policies in other packages, and the equivalent methods of `Server`."""


_RECENT = 32
"""Number of latest learning steps over which `recent_anomaly` is computed."""


@worded
class Server(Held, Generic[PublishedT]):
    """The server of one spec: it counts reports, learns from them, and publishes versions.

    Args:
        spec: The public contract, `Spec`, `GPSpec` or `ReadoutSpec`.
        key: Key of the tags that reports must carry. Without a key, anybody who knows the spec can send
            reports. See `ReportKey`.
        least_open: Shortest time in seconds that a version stays open, a public number. A new version that
            would close an earlier one is not published before that one was open for this time, however many
            reports arrive. With 0, for simulations, a flood of reports can close versions before users
            answer.
        clock: Clock that replaces the process's own, for tests: a function that returns seconds.
        robust: Bounds on the effect of forged reports, for a `Spec`; see `Robust`.

    Raises:
        InvalidParameter: an argument is out of range or of another kind.

    Attributes:
        totals: Tally of all reports absorbed.
        robust: The bounds that were passed.
        current: The version published last; only `publish` moves on to another.
        changes: Number of calls that changed the server, from which a log can tell that one is missing.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.local.Spec(
        ...     contexts=dpb.Box([0], [1]), arms=range(2), privacy=dpb.LocalDP(epsilon=1))
        >>> server = Server(spec)
        >>> server.publish().version, server.absorb([b"not a report"]).malformed
        (0, 1)
    """

    _harm: ClassVar[str] = "two copies would each count some of the reports"
    _moving: ClassVar[str] = "Merge counts, or replay the reports in another"

    def __init__(
        self,
        spec: Contract[PublishedT],
        *,
        key: ReportKey | None = None,
        least_open: float = 0.0,
        clock: Clock | None = None,
        robust: Robust | None = None,
    ) -> None:
        self.spec = _checks.an(
            spec,
            Contract,
            name="spec",
            pass_="spec=Spec(...) or spec=GPSpec(...), for JSON Spec.from_json(text)",
        )
        self.totals = Absorbed()
        self._pace = Pace(least_open, clock)
        self._holder = Holder(what="server")
        self._learner: Learner[PublishedT] = learner_for(spec)  # type: ignore[arg-type]
        self._coins = PublicCoins(spec.seed)
        self._counts = ReportCounts(spec, key=key, robust=robust)
        self.robust = robust
        if robust is not None:
            robust.harden(self._learner)
        self._excess = np.zeros((1, 2))
        self._targets: dict[str, Spec] = {}
        self.changes, self._told, self._fresh = 0, False, 0
        self._adopt(self._learner.publish(self.spec, 0, self._coins))

    @property
    def guarantee(self) -> "Guarantee":
        """Guarantee that each user has for every report that the spec allows, and for earlier reports."""
        return weakest(self.spec, None, self._holder.log)

    @in_turn
    def remember(self, terms: Mapping[str, Any]) -> bool:
        """Record the terms of reports, for `guarantee`; return True if they are new.

        Args:
            terms: Terms in the form of a `ReleaseLog` entry.
        """
        return self._holder.log.remember("reports", terms)

    @property
    def open_versions(self) -> tuple[PublishedT, ...]:
        """Published versions for which reports are accepted, oldest first. Pass them to `aggregate`."""
        return tuple(version.published for _, version in sorted(self._counts.versions.items()))

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes that nonces and sums of the open versions take."""
        return self._counts.nbytes

    @classmethod
    def replay(cls, spec: Contract[PublishedT], batches: Iterable[Sequence[bytes]]) -> Self:
        """Return a server that has absorbed these batches in order, and published after each."""
        server = cls(spec)
        for batch in _checks.an(batches, Iterable, name="batches", pass_="batches=[[report, report], ...]"):
            server.absorb(batch)
            server.publish()
        return server

    @in_turn
    def absorb(self, reports: Sequence[bytes]) -> Absorbed:
        """Count the valid reports and drop the others; the content of a report never raises an error.

        Args:
            reports: Bytes sent by clients, in any order, for any open versions.

        Raises:
            InvalidParameter: `reports` is not a list of reports.
        """
        sifted = self._counts.sift(reports)
        self._counts.count(sifted)
        return self._counted(sifted.tally)

    def sift(self, reports: Iterable[bytes]) -> Sifted:
        """Return the reports that would count; nothing is changed. See `count`."""
        return self._counts.sift(reports)

    @in_turn
    def count(self, sifted: Sifted) -> Absorbed:
        """Count sifted reports: the second step of `absorb`.

        No other call may change the server between the steps.
        """
        self._counts.count(sifted)
        return self._counted(sifted.tally)

    @in_turn
    def absorb_again(self, records: Sequence[Records]) -> Absorbed:
        """Count reports from a log, in the form of `Sifted.records`, without checking tags again."""
        return self._counted(self._counts.absorb_again(records))

    @in_turn
    def merge(self, counts: ReportCounts[PublishedT]) -> int:
        """Add the counts of another process for versions that are open here (see `counting`).

        Reports that were counted there are treated as if they had been absorbed here. Raises the errors of
        `ReportCounts.merge`.

        Returns:
            Number of reports added.
        """
        before = self._counts.accepted
        added = self._counts.merge(counts) - before
        self.totals.accepted += added
        self._fresh += added
        self.changes += 1
        return added

    def check_merge(self, counts: ReportCounts[PublishedT]) -> None:
        """Raise the errors that `merge` would raise, without changing anything."""
        self._counts.check_merge(counts)

    def nonces(self) -> Nonces:
        """Return the nonces of reports counted here, ascending, shape (n,).

        Pass them to `aggregate` as `without`.
        """
        return self._counts.nonces()

    def attach(self, source: "SourceSpec", server: "Server[PublishedArms]") -> PublishedT:
        """Initialise this server's tree from a source's reports, or update it; publish a new version.

        Args:
            source: Public contract of the source, which names this server's spec as its target.
            server: Server of the source, built with `source.reports`; only its privatised sums are read.

        Returns:
            The version that uses the source. Reports absorbed before are learned first, so that none is
            lost. Each new version counts towards the spec's window.

        Raises:
            IncompatibleState: the source belongs to another target, or the server to another source.
            ProtocolError: this server cannot learn from sources, or the source has no reports.
        """
        return self.attach_sums(source, self.sums_of(source, server))

    @in_turn
    def attach_sums(
        self, source: "SourceSpec", sums: SourceSums, published: PublishedT | None = None
    ) -> PublishedT:
        """Attach a source, given the result of its server's `source_sums`.

        `published` is as for `republish`.
        """
        rule = self._check_source(source, sums)
        evidence = source_evidence(sums, source.chances)
        rule.check(evidence)
        self._learn_all()
        rule.attach(source.name, evidence, least_doubt=source.least_doubt)
        return self._started(rule, published)

    def attach_target(self, name: str, server: "Server[PublishedArms]") -> PublishedT:
        """Learn from the reports of another target with the same mean rewards; publish a new version.

        Args:
            name: Name of the other target.
            server: Server of the other target. Contexts, arms and reward range must be the same as here, and
                the spec another one. Evidence that it received from sources, or from this server, is not
                passed on.

        Raises:
            IncompatibleState: the other target has other contexts, arms or another reward range; or it has
                the same spec, so that both would count the same report. Give every target its own seed.
            ProtocolError: one of the servers cannot learn from sources, the target is attached under
                another name, or the name is taken: its reports would count twice.
        """
        return self.attach_evidence(name, bins_spec(server), server.evidence())

    @in_turn
    def attach_evidence(
        self, name: str, target: Spec, evidence: SourceEvidence, published: PublishedT | None = None
    ) -> PublishedT:
        """Attach a target, given the result of its server's `evidence`; `published` is as for `republish`."""
        rule = self.check_target(name, target)
        rule.check(evidence)
        self._learn_all()
        rule.attach(name, evidence)
        self._targets[name] = target
        return self._started(rule, published)

    def check_target(self, name: str, target: Spec) -> TransferTree | QuestionLearner:
        """Raise the errors that `attach_target` would raise, and return the learner. Nothing is changed."""
        mine, rule = bins_spec(self), self._transfer_rule()
        label: object = name
        if not isinstance(label, str) or not label:
            raise ProtocolError("attach_target: expected a name for the target")
        if any(getattr(mine, one) != getattr(target, one) for one in ("contexts", "arms", "reward_range")):
            raise IncompatibleState("attach_target: expected the same contexts, arms and reward range")
        if target == mine:
            raise IncompatibleState(
                "attach_target: the other target has the same spec, so that both would count the same "
                "report: give it another seed"
            )
        known = {spec: other for other, spec in self._targets.items()}
        if known.get(target, name) != name or (name not in self._targets and name in rule.doubts):
            raise ProtocolError(
                "attach_target: the target is attached under another name, or the name is taken"
            )
        if self._targets.get(name, target) != target:
            raise ProtocolError("attach_target: the name belongs to another target")
        return rule

    def sums_of(self, source: "SourceSpec", server: "Server[PublishedArms]") -> SourceSums:
        """Return a source's sums, checked, for `attach`. Nothing is changed."""
        from dpbandits.local.contract.sources import SourceSpec

        _checks.an(source, SourceSpec, name="source", pass_="source=SourceSpec(...)")
        _checks.an(server, Server, name="server", pass_="server=Server(source.reports)")
        if server.spec != source.reports:
            raise IncompatibleState("attach: the server belongs to another source")
        sums = server.source_sums()
        self._check_source(source, sums)
        return sums

    def _check_source(self, source: "SourceSpec", sums: SourceSums) -> TransferTree | QuestionLearner:
        if source.target != bins_spec(self):
            raise IncompatibleState("attach: the source belongs to another target")
        rule = self._transfer_rule()
        shape = (2**source.bins_depth, source.target.n_arms)
        if (
            any(array.shape != shape for array in (sums.signed, sums.count, sums.reach))
            or len(sums.partition.leaves) != shape[0]
            or sums.arm_hidden != (source.chooser == "behaviour")
            or self._targets.get(source.name) is not None
        ):
            raise IncompatibleState(
                "attach: the sums do not fit the source's bins and arms, or its name is taken"
            )
        return rule

    @in_turn
    def source_sums(self) -> SourceSums:
        """Return the privatised sums of a source's server.

        Raises:
            ProtocolError: this is not a source's server, or it has no reports.
        """
        if not isinstance(self._learner, ExploreRule):
            raise ProtocolError("source_sums: expected the server of a source, with the learner 'explore'")
        self._learn_all()
        return self._learner.sums()

    @in_turn
    def evidence(self) -> SourceEvidence:
        """Return the evidence of this target's own reports, for other targets."""
        rule = self._transfer_rule()
        if isinstance(rule, QuestionLearner):
            raise ProtocolError(
                "the learner 'questions' has no bins whose evidence it could pass on: build this target's "
                "Spec with learner='tree'"
            )
        return rule.evidence()

    @in_turn
    def estimate(self) -> PublishedT:
        """Return the current version with each arm's expected reward, so that its `predict` can be used.

        It is a release like `publish`. Clients do not need it, and the server itself takes no context.
        A version of a `GPSpec` is returned unchanged, because its weights already predict rewards.

        Raises:
            ProtocolError: the learner has no law of rewards: `eliminate`, `ma2025`, `explore`.
        """
        return self._learner.estimate(self.spec, self.current)

    @in_turn
    def readout(self, *, confidence: float = 0.95) -> "LocalReadoutResult":
        """Return the answer of a readout from all reports so far. It changes nothing, and costs no privacy.

        Args:
            confidence: Confidence of the intervals.

        Raises:
            ProtocolError: the contract is no `ReadoutSpec`, or a group has no reports yet.
        """
        from dpbandits.local.contract.readout import ReadoutSpec
        from dpbandits.local.server.readout import read_outcomes

        if not isinstance(self.spec, ReadoutSpec):
            raise ProtocolError("readout: expected the server of a ReadoutSpec")
        version = self._counts.versions[0]
        control, policy = (0 if sums is None else int(sums[0]) for sums in version.sums)
        reports = version.n[0], version.n[1]
        return read_outcomes(self.spec, reports, (control, policy), confidence=confidence)

    @in_turn
    def publish(self) -> PublishedT:
        """Return the current version, or a new one after `reports_per_version` further reports.

        If a spec has `reports_per_version` 0, every call after the first publishes a new version. No version
        is published that would close one younger than `least_open`.
        """
        if self.is_due:
            with one_thread():
                self._learn_all()
                self._learner.refine()
                self._fresh = 0
                self._next_version()
        elif not self._told:
            self.changes += 1
        self._told = True
        return self.current

    @property
    def is_due(self) -> bool:
        """True if `publish` would publish a new version now."""
        enough = self._fresh >= self.spec.protocol.reports_per_version and (self._fresh or self._told)
        return bool(enough) and self._pace.are_old(self._left_behind(self.current.version + 1))

    @in_turn
    def republish(self, published: PublishedT) -> None:
        """Adopt a version that this server published earlier, to replay a log.

        The version is read as it was published and not recomputed, as another processor may round
        differently.

        Raises:
            IncompatibleState: the version cannot be this server's next or first one.
        """
        if self._told or published.version:
            self._learn_all()
            self._fresh = 0
            self._next_version(published)
        else:
            self._counts.open(published)
            self.changes += 1
        self._told = True

    @in_turn
    def begin_with(self, published: PublishedT) -> None:
        """Adopt a version as version 0, before any other change; see `republish`.

        Raises:
            ProtocolError: the server was changed before, or the version has another number.
            IncompatibleState: the version belongs to another spec.
        """
        if self.changes or published.version:
            raise ProtocolError("begin_with: expected version 0, on a server without any earlier call")
        self.spec.protocol.fits(published)
        self._counts.versions.clear()
        self._adopt(published)

    @in_turn
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the whole state, from which `restore` rebuilds the server on any processor."""
        learned = {f"learner.{name}": array for name, array in self._learner.to_arrays().items()}
        counted = {name.replace("/", "."): array for name, array in self._counts.sums().items()}
        young, old = self._counts.seen.generations()
        numbers = {
            "version": self.current.version,
            "told": self._told,
            "fresh": self._fresh,
            "changes": self.changes,
            "since": self._counts.seen.since,
            "grouping": self._counts.grouping,
            "totals": vars(self.totals),
            "releases": self._holder.log.to_json(),
            "targets": {name: spec.to_json() for name, spec in self._targets.items()},
        }
        texts = {f"published.{one.version}": one.to_json(self.spec) for one in self.open_versions}
        texts["numbers"] = json.dumps(numbers)
        written = {name: np.frombuffer(text.encode(), dtype=np.uint8) for name, text in texts.items()}
        own = {"nonces.young": young, "nonces.old": old, "excess": self._excess}
        return learned | counted | written | own

    @classmethod
    def restore(cls, spec: Contract[PublishedT], arrays: Mapping[str, NDArray[Any]], **options: Any) -> Self:
        """Return a server with the state that `to_arrays` returned.

        `options` are arguments of the constructor.

        Raises:
            IncompatibleState: the state belongs to another spec, or is no server's state.
        """
        server, parts = cls(spec, **options), dict(arrays)
        with reading("what a server knew", IncompatibleState):
            numbers = json.loads(parts.pop("numbers").tobytes())
            young, old = parts.pop("nonces.young"), parts.pop("nonces.old")
            for nonces in (young, old):
                if nonces.dtype != np.uint64 or nonces.ndim != 1 or (nonces[1:] <= nonces[:-1]).any():
                    raise ValueError("nonces: expected ascending")
            if numbers["grouping"] != server._counts.grouping:
                raise IncompatibleState("the state has groups of another secret: pass its robust=")
            server._excess = _excess(parts.pop("excess"))
            learned = {name: parts.pop(name) for name in arrays if name.startswith("learner.")}
            texts = [parts.pop(name).tobytes().decode() for name in arrays if name.startswith("published.")]
            server._learner.restore({name.removeprefix("learner."): one for name, one in learned.items()})
            counts = server._counts
            counts.versions.clear()
            for text in texts:
                counts.open(spec.protocol.publishes.from_json(text, spec))
            counts.fill({name.replace(".", "/"): array for name, array in parts.items()})
            counts.seen = RecentNonces(young, old, since=int(numbers["since"]))
            server._pace.opened(counts.versions)
            server.current = counts.versions[numbers["version"]].published
            server.changes, server._fresh = int(numbers["changes"]), int(numbers["fresh"])
            server._told, server.totals = bool(numbers["told"]), Absorbed.read(numbers["totals"])
            server._holder.log = ReleaseLog.from_json(numbers["releases"])
            server._targets = {name: Spec.from_json(text) for name, text in numbers["targets"].items()}
        return server

    def diagnostics(self) -> dict[str, Any]:
        """Return numbers about the absorbed reports. They use no raw data and may be published.

        `weight` is the largest effect of one forged report, in honest users (`ReportMechanism.weights`), for
        the current version.

        `anomaly` is the deviation of all reports learned from, in standard deviations, from what any honest
        crowd can send (`ReportMechanism.excess`). `recent_anomaly` is the same for the latest learning steps.
        With hundreds of reports, for all contexts and rewards, values above 5 and values below -5 each have a
        probability of one in a million.

        For `krr`, which questions usually use, the number adds squares. Honest crowds are far below 0 or near
        it. A crowd whose users all answer alike is above 5 up to eight times in a thousand after one version,
        and above 20 with a probability of one in a million.

        Forged reports that honest users could have sent, or single forged bits, are not visible: a small
        number is no proof of honesty. It is 0 for a `GPSpec`, which has no such test.
        """
        mechanisms = self.spec.protocol.counted_by(self.current)
        weight = (
            self.spec.protocol.weight
            if isinstance(self.spec, GPSpec)
            else max(one.weights[1] for one in mechanisms)
        )
        total, recent = self._excess[0], self._excess[1:].sum(axis=0)
        return {
            "version": self.current.version,
            "accepted": self.totals.accepted,
            "weight": weight,
            "anomaly": deviations(total),
            "recent_anomaly": deviations(recent),
        }

    def __repr__(self) -> str:
        promise = {"epsilon": self.guarantee.epsilon, "delta": self.guarantee.delta}
        return said(self, **promise, version=self.current.version, accepted=self.totals.accepted)

    if not TYPE_CHECKING:  # type checkers would accept every name

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, _INSTEAD)

    def _counted(self, tally: Absorbed) -> Absorbed:
        self.totals.add(tally)
        self._fresh += tally.accepted
        self.changes += 1
        return tally

    def _started(self, rule: TransferTree | QuestionLearner, published: PublishedT | None) -> PublishedT:
        if published is None:
            rule.jump_start()
        self._told = True
        self._next_version(published)
        return self.current

    def _next_version(self, published: PublishedT | None = None) -> None:
        """Make the learner's next version the current one, or, when replaying, the version `published`."""
        number = self.current.version + 1
        if published is None:
            published = self._learner.publish(self.spec, number, self._coins)
        elif published.version != number:
            raise IncompatibleState(f"expected version {number} as the next one")
        else:
            self._learner.follow(published)
        self.changes += 1
        self._adopt(published)
        left = self._pace.old_enough(self._left_behind(number))
        self._counts.close(left)
        self._pace.closed(left)

    def _adopt(self, published: PublishedT) -> None:
        """Accept reports on a version, and make it the current one."""
        self._counts.open(published)
        self._pace.opened([published.version])
        self.current = published

    def _left_behind(self, number: int) -> list[int]:
        if self.spec.protocol.window is None:
            return []
        return [one for one in self._counts.versions if one < number - self.spec.protocol.window]

    def _transfer_rule(self) -> TransferTree | QuestionLearner:
        rule: object = self._learner
        spec: object = self.spec
        if isinstance(spec, Spec) and "forget" in spec.tuning.constants:
            raise ProtocolError("a spec with forget cannot learn from others, whose evidence has no dates")
        if isinstance(rule, QuestionLearner):
            return rule
        if not isinstance(rule, TransferTree):
            raise ProtocolError(
                "only the learners 'tree' and 'questions', with columns that one grid covers, learn from "
                "sources: build the Spec with learner='tree'"
            )
        return rule

    def _look_at(self, counted: Counted) -> None:
        """Add the anomaly statistic of new reports to the total, and record it for this learning step."""
        parts = [mechanism.excess(sums, n) for group in counted for mechanism, sums, n in group]
        new = np.sum(parts, axis=0)
        total, recent = self._excess[:1] + new, self._excess[1:][1 - _RECENT :]
        self._excess = np.concatenate([total, recent, new[None]])

    def _learn_all(self) -> None:
        for version in self._counts.versions.values():
            counted = version.take()
            if counted:
                self._look_at(counted)
                self._learner.count(self.spec, version.published, counted)


def _excess(rows: NDArray[Any]) -> FloatArray:
    if rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != 2 or not 1 <= len(rows) <= 1 + _RECENT:
        raise IncompatibleState("the state of a server's anomaly test cannot be read")
    return rows


def bins_spec(server: Server[Any]) -> Spec:
    """Return the server's spec, which must be a `Spec`.

    Raises:
        InvalidParameter: `server` is no server.
        ProtocolError: its spec is of another kind.
    """
    spec = _checks.an(server, Server, name="server", pass_="server=Server(spec)").spec
    if not isinstance(spec, Spec):
        raise ProtocolError("only servers of a `Spec` learn from each other")
    return spec
