"""The server's side: absorb bytes, publish. No method takes a context, an arm or a reward.

Everything it knows follows from the reports' bytes, the order in which they came and the points at which it
published: a process that has only these rebuilds every decision (`Server.replay`).
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
    from dpbandits.privacy.guarantee import Guarantee

__all__ = ["Absorbed", "Server", "bins_spec"]

_INSTEAD = {
    "ask": "choose(published, context) of a Client: a server reads no context",
    "tell": "absorb(reports), of what Client.report(reward) gave",
    "predict": "predict(spec, contexts) of estimate()",
    "recommend": "recommend(spec, context) of publish()",
    "report": "report(reward) of a Client",
    "save": "DurableServer.open(spec, folder), which keeps every report",
    "load": "DurableServer.open(spec, folder), which keeps every report",
}
"""Calls of policies in other packages, and what stands for them here."""


_RECENT = 32
"""Times that reports were learned from of which `recent_anomaly` is."""


@worded
class Server(Held, Generic[PublishedT]):
    """The server of one spec.

    Args:
        spec: the public contract, `Spec` or `GPSpec`.
        key: reports carry its tags, and others are dropped; without one whoever knows the spec can send
            reports. See `ReportKey`.
        least_open: seconds, public: a version stays open at least so long after it was published, however
            many reports come, and no new one is published meanwhile if that would close it. 0 is for
            simulations, and lets a flood close versions before people answer.
        clock: seconds since some moment, in place of the process's own: for tests.
        robust: bounds on what forged reports do to what is learned, of a `Spec`; see `Robust`.

    Raises:
        InvalidParameter: an argument is outside what it may be.

    Attributes:
        totals: of everything absorbed.
        robust: as it was given.
        current: the version published last; `publish` is what moves it.
        changes: how many calls have changed the server: a log of them can tell whether one is missing.

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
            pass_="spec=Spec(...) or spec=GPSpec(...), of JSON Spec.from_json(text)",
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
        """Guarantee of every report to its user: those that the spec lets devices make, and earlier ones."""
        return weakest(self.spec, None, self._holder.log)

    @in_turn
    def remember(self, terms: Mapping[str, Any]) -> bool:
        """Note on which terms reports were made, for `guarantee`; returns whether these are new.

        Args:
            terms: of an entry of a `ReleaseLog`.
        """
        return self._holder.log.remember("reports", terms)

    @property
    def open_versions(self) -> tuple[PublishedT, ...]:
        """Return published versions that may still be answered, oldest first: for `aggregate` elsewhere."""
        return tuple(version.published for _, version in sorted(self._counts.versions.items()))

    @property
    def memory_bytes(self) -> int:
        """Bytes held for the open window: nonces and sums."""
        return self._counts.nbytes

    @classmethod
    def replay(cls, spec: Contract[PublishedT], batches: Iterable[Sequence[bytes]]) -> Self:
        """A server that has absorbed these batches, publishing after each."""
        server = cls(spec)
        for batch in _checks.an(batches, Iterable, name="batches", pass_="batches=[[report, report], ...]"):
            server.absorb(batch)
            server.publish()
        return server

    @in_turn
    def absorb(self, reports: Sequence[bytes]) -> Absorbed:
        """Count the good reports and drop the others; never raises because of what a report holds.

        Args:
            reports: bytes as sent by devices, in any order, of any open versions.

        Raises:
            InvalidParameter: not a list of reports.
        """
        sifted = self._counts.sift(reports)
        self._counts.count(sifted)
        return self._counted(sifted.tally)

    def sift(self, reports: Iterable[bytes]) -> Sifted:
        """Return what would count of these reports; nothing is changed. See `count`."""
        return self._counts.sift(reports)

    @in_turn
    def count(self, sifted: Sifted) -> Absorbed:
        """Count what `sift` gave, before anything else changes the server: `absorb` in two steps."""
        self._counts.count(sifted)
        return self._counted(sifted.tally)

    @in_turn
    def absorb_again(self, records: Sequence[Records]) -> Absorbed:
        """Count `Sifted.records` that a log has kept; they are not asked for tags again."""
        return self._counted(self._counts.absorb_again(records))

    @in_turn
    def merge(self, counts: ReportCounts[PublishedT]) -> int:
        """Add what another process counted for versions that are open here (see `counting`).

        Its reports are absorbed as if they had come here. Raises as `ReportCounts.merge` does.

        Returns:
            How many reports were added.
        """
        before = self._counts.accepted
        added = self._counts.merge(counts) - before
        self.totals.accepted += added
        self._fresh += added
        self.changes += 1
        return added

    def check_merge(self, counts: ReportCounts[PublishedT]) -> None:
        """Refuse what `merge` refuses, with its errors, and change nothing."""
        self._counts.check_merge(counts)

    def nonces(self) -> Nonces:
        """(n,) nonces of reports counted here, ascending: what `aggregate` leaves out."""
        return self._counts.nonces()

    def attach(self, source: "SourceSpec", server: "Server[PublishedArms]") -> PublishedT:
        """Let a source's reports start this server's tree, or bring it up to date; a new version follows.

        Args:
            source: its public contract, which names this server's spec as its target.
            server: the source's server, made with `source.reports`; only its privatised sums are read.

        Returns:
            The version that uses the source. What was absorbed before is learned first, so that no report is
            lost; every new version counts towards the spec's window.

        Raises:
            IncompatibleState: the source belongs to another target, the server to another source.
            ProtocolError: this server does not learn from sources, or the source has no reports.
        """
        return self.attach_sums(source, self.sums_of(source, server))

    @in_turn
    def attach_sums(
        self, source: "SourceSpec", sums: SourceSums, published: PublishedT | None = None
    ) -> PublishedT:
        """As `attach`, from what `source_sums` gave there; `published` as for `republish`."""
        rule = self._check_source(source, sums)
        evidence = source_evidence(sums, source.chances)
        rule.check(evidence)
        self._learn_all()
        rule.attach(source.name, evidence, least_doubt=source.least_doubt)
        return self._started(rule, published)

    def attach_target(self, name: str, server: "Server[PublishedArms]") -> PublishedT:
        """Learn from the reports of another target with the same mean rewards; a new version follows.

        Args:
            name: of the other target.
            server: its server; domain, arms and reward range must be this server's, its spec another one.
                What it learned from sources, this one included, is not passed on.

        Raises:
            IncompatibleState: the other target has another domain, other arms or another reward range; or
                the same spec: a report that both accept would count twice. Give every target its own seed.
            ProtocolError: one of the two servers does not learn from sources; the target is known by
                another name, or the name is another's: its reports would count twice.
        """
        return self.attach_evidence(name, bins_spec(server), server.evidence())

    @in_turn
    def attach_evidence(
        self, name: str, target: Spec, evidence: SourceEvidence, published: PublishedT | None = None
    ) -> PublishedT:
        """As `attach_target`, from what `evidence` gave on the target's server; `published` as there."""
        rule = self.check_target(name, target)
        rule.check(evidence)
        self._learn_all()
        rule.attach(name, evidence)
        self._targets[name] = target
        return self._started(rule, published)

    def check_target(self, name: str, target: Spec) -> TransferTree | QuestionLearner:
        """Refuse what `attach_target` refuses, and change nothing."""
        mine, rule = bins_spec(self), self._transfer_rule()
        label: object = name
        if not isinstance(label, str) or not label:
            raise ProtocolError("attach_target: expected a name for the target")
        if any(getattr(mine, one) != getattr(target, one) for one in ("contexts", "arms", "reward_range")):
            raise IncompatibleState("attach_target: expected the same contexts, arms and reward range")
        if target == mine:
            raise IncompatibleState(
                "attach_target: the other target has this one's spec, so that a report of one counts in "
                "both: give it another seed"
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
        """A source's sums, checked: what `attach` reads; nothing here is changed."""
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
                "attach: the sums are not of the source's bins and arms, or its name is taken"
            )
        return rule

    @in_turn
    def source_sums(self) -> SourceSums:
        """The privatised sums of a source's server.

        Raises:
            ProtocolError: this is no source's server, or nothing has come in.
        """
        if not isinstance(self._learner, ExploreRule):
            raise ProtocolError("only a server with the learner 'explore' is a source's")
        self._learn_all()
        return self._learner.sums()

    @in_turn
    def evidence(self) -> SourceEvidence:
        """Return what this target's own reports say, for other targets."""
        rule = self._transfer_rule()
        if isinstance(rule, QuestionLearner):
            raise ProtocolError(
                "the learner 'questions' has no bins whose evidence it could pass on: build this target's "
                "Spec with learner='tree'"
            )
        return rule.evidence()

    @in_turn
    def estimate(self) -> PublishedT:
        """The current version with what is expected of every arm: its `predict` says it of anybody.

        A release like `publish`, and no part of what devices need: the server itself takes no context.
        Weights of a `GPSpec` predict as they are.

        Raises:
            ProtocolError: a learner without a law of rewards: `eliminate`, `ma2025`, `explore`.
        """
        return self._learner.estimate(self.spec, self.current)

    @in_turn
    def publish(self) -> PublishedT:
        """The current version; a new one when `reports_per_version` reports have come in since.

        Of a spec that says 0 reports, every call after the first publishes a new version. None is published
        that would close a version younger than `least_open`.
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
        """Return whether `publish` would go on to a new version now."""
        enough = self._fresh >= self.spec.protocol.reports_per_version and (self._fresh or self._told)
        return bool(enough) and self._pace.are_old(self._left_behind(self.current.version + 1))

    @in_turn
    def republish(self, published: PublishedT) -> None:
        """Go on to what was published from here: for whoever replays what a server was told.

        The version is taken as it was published, and not computed anew: another processor may round
        otherwise.

        Raises:
            IncompatibleState: it cannot be this server's next version, or its first.
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
        """Take this for version 0, before anything has come in: see `republish`.

        Raises:
            ProtocolError: something has.
            IncompatibleState: another version, or another spec's.
        """
        if self.changes or published.version:
            raise ProtocolError("begin_with: expected version 0, for a server that nobody has used")
        self.spec.protocol.fits(published)
        self._counts.versions.clear()
        self._adopt(published)

    @in_turn
    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All that it knows, of everything it was told; `restore` rebuilds it, on any processor."""
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
        """The server whose `to_arrays` these are; options as for the constructor.

        Raises:
            IncompatibleState: they are another spec's, or no server's.
        """
        server, parts = cls(spec, **options), dict(arrays)
        with reading("what a server knew", IncompatibleState):
            numbers = json.loads(parts.pop("numbers").tobytes())
            young, old = parts.pop("nonces.young"), parts.pop("nonces.old")
            for nonces in (young, old):
                if nonces.dtype != np.uint64 or nonces.ndim != 1 or (nonces[1:] <= nonces[:-1]).any():
                    raise ValueError("nonces in no order")
            if numbers["grouping"] != server._counts.grouping:
                raise IncompatibleState("the server grouped its reports by another secret")
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
        """Numbers about the reports that have come in: released like they are, and of nobody's data.

        `weight` is how many honest people one forged report weighs at most (`ReportMechanism.weights`), of
        the current version. `anomaly` is how many deviations all reports that were learned from are from
        what any honest crowd can send (`ReportMechanism.excess`), `recent_anomaly` the same of the last
        times that any were: whatever people's contexts and rewards are, above 5 is one chance in a million
        where there are hundreds of reports, and so is below -5. Of `krr`, which questions use as a rule, the
        number adds squares: honest crowds are far below 0 or near it, one who all answer alike is above 5 up
        to eight times in a thousand after one version, and above 20 is one chance in a million. Forgers who
        send what a person could have sent, or a single bit, do not show: a small number is no proof of
        honesty. It is 0 for a `GPSpec`, which has no such test.
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

    if not TYPE_CHECKING:  # who checks types is told of every name that is not here

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such(self, name, _INSTEAD)

    def _counted(self, tally: Absorbed) -> Absorbed:
        self.totals.add(tally)
        self._fresh += tally.accepted
        self.changes += 1
        return tally

    def _started(self, rule: TransferTree | QuestionLearner, published: PublishedT | None) -> PublishedT:
        """A new version of a tree that was told something."""
        if published is None:
            rule.jump_start()
        self._told = True
        self._next_version(published)
        return self.current

    def _next_version(self, published: PublishedT | None = None) -> None:
        """The learner's next version, or the one that it came to before."""
        number = self.current.version + 1
        if published is None:
            published = self._learner.publish(self.spec, number, self._coins)
        elif published.version != number:
            raise IncompatibleState(f"expected version {number} to follow")
        else:
            self._learner.follow(published)
        self.changes += 1
        self._adopt(published)
        left = self._pace.old_enough(self._left_behind(number))
        self._counts.close(left)
        self._pace.closed(left)

    def _adopt(self, published: PublishedT) -> None:
        """This is the current version."""
        self._counts.open(published)
        self._pace.opened([published.version])
        self.current = published

    def _left_behind(self, number: int) -> list[int]:
        """Open versions that are outside the window of this one."""
        if self.spec.protocol.window is None:
            return []
        return [one for one in self._counts.versions if one < number - self.spec.protocol.window]

    def _transfer_rule(self) -> TransferTree | QuestionLearner:
        rule: object = self._learner
        spec: object = self.spec
        if isinstance(spec, Spec) and "forget" in spec.tuning.constants:
            raise ProtocolError("a server that forgets learns from no other: what it would say has no age")
        if isinstance(rule, QuestionLearner):
            return rule
        if not isinstance(rule, TransferTree):
            raise ProtocolError(
                "only the learners 'questions', of columns that one grid has room for, and 'tree' learn from "
                "sources: build the Spec with learner='tree'"
            )
        return rule

    def _look_at(self, counted: Counted) -> None:
        """Keep how odd these reports are: of all, and of each of the last times that any were learned."""
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
    """Check the rows of a file that `Server._look_at` keeps."""
    if rows.dtype != np.float64 or rows.ndim != 2 or rows.shape[1] != 2 or not 1 <= len(rows) <= 1 + _RECENT:
        raise IncompatibleState("what a server knew of odd reports cannot be read")
    return rows


def bins_spec(server: Server[Any]) -> Spec:
    """The server's spec, where it is one of bins.

    Raises:
        InvalidParameter: no server.
        ProtocolError: it is another.
    """
    spec = _checks.an(server, Server, name="server", pass_="server=Server(spec)").spec
    if not isinstance(spec, Spec):
        raise ProtocolError("only servers of a `Spec` learn from each other")
    return spec
