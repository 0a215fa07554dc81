"""Simulated local policies that also learn from sources, which are auxiliary data sets of other users.

The users for whom the policy decides are the target's users. The sums of reports are sampled directly, as in
`evaluation.crowds`, and have status `simulated`. Regret is that of the target's users only, and uses mean
rewards that no server sees.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, get_args

import numpy as np

from dpbandits import _checks
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import Crowd, CrowdWorld, SimulationResult, Sized, reported, simulate
from dpbandits.lab.worlds.tables import TableBandit
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.sources import SourceChooser, SourceSpec
from dpbandits.local.contract.spec import PUBLISHED, Spec
from dpbandits.local.learners.base import VersionSums
from dpbandits.local.learners.evidence import source_evidence
from dpbandits.local.learners.explore import ExploreRule
from dpbandits.local.learners.questions import QuestionLearner
from dpbandits.local.learners.table import learner_for
from dpbandits.local.learners.transfer import TransferTree
from dpbandits.local.published.ma2025 import Ma2025Rule
from dpbandits.local.published.ma2025_transfer import Ma2025TransferRule
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.definitions import LocalDP
from dpbandits.privacy.reports import FloatingLaplace

__all__ = ["SimulatedSource", "SourceFeed", "SourcePeople", "simulate_transfer"]

_PUBLISHED_VERSIONS = 100
"""Number of versions into which a source's reports are divided for Algorithm 3 of Ma2025.

Its tree changes rarely. In studies, the target has the same number of versions.
"""


class SourcePeople(Sized, Protocol):
    """Users of a source; see `dpbandits.lab.worlds.transfer`."""

    def propensities(self) -> FloatArray | None:
        """Return the probabilities of choosing the K arms (K,); None if they depend on the context."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, IntArray]:
        """Sample n users; return contexts (n, dim), mean rewards (n, K) of K arms, and chosen arms (n,)."""


@dataclass(frozen=True, kw_only=True)
class SimulatedSource:
    """One source (auxiliary data set of other users) of a simulated target.

    Attributes:
        people: Distribution of the source's users and of their arms.
        n_users: Number of the source's users.
        epsilon: Privacy loss of each of the source's reports.
        chooser: Party that chose the arms: "behaviour" for the source's behaviour policy, or "server" for
            its server.
        depth: Depth of the source's bins; None computes it by the public rule of `SourceSpec`.
        start: Number of target users before the source's first report.
        span: Number of target users over which the source's reports are spread evenly; 0 for all at once.

    Raises:
        InvalidParameter: A number is outside its range, or `chooser` is unknown.
    """

    people: SourcePeople
    n_users: int
    epsilon: float
    chooser: SourceChooser = "behaviour"
    depth: int | None = None
    start: int = 0
    span: int = 0

    def __post_init__(self) -> None:
        _checks.one_of(self.chooser, get_args(SourceChooser), name="chooser")
        _checks.number(self.epsilon, name="epsilon")
        _checks.integer(self.n_users, name="n_users")
        depth = 0 if self.depth is None else self.depth
        for name, value in {"start": self.start, "span": self.span, "depth": depth}.items():
            _checks.integer(value, name=name, minimum=0)


def simulate_transfer(
    spec: Spec,
    world: CrowdWorld | TableBandit,
    *,
    sources: Sequence[SimulatedSource],
    n_users: int,
    seed: int,
    floating: bool = False,
    skip: bool = True,
    snapshots: tuple[int, ...] = (),
    watched: FloatArray | None = None,
) -> SimulationResult:
    """Simulate a target crowd that also learns from sources.

    Args:
        spec: Spec of the target, with the learner `questions`, `tree`, or one of Ma2025 for its Algorithm 3.
        world: Users of the target.
        sources: Sources in the order in which they arrive. Without sources this is `simulate`.
        n_users, seed, snapshots, watched: See `simulate`.
        floating: True for the paper's floating-point noise with Ma2025, also in the sources.
        skip: True to discount sources that the target's reports contradict, with the learner `tree`.

    Raises:
        InvalidParameter: A source does not fit the spec, or the learner cannot learn from sources.
    """
    if any((one.people.dim, one.people.n_arms) != (spec.dim, spec.n_arms) for one in sources):
        raise InvalidParameter("sources: expected the target's dim and n_arms")
    if not sources:
        return simulate(
            spec, world, n_users=n_users, seed=seed, floating=floating, snapshots=snapshots, watched=watched
        )
    published, feeds = spec.learner in PUBLISHED, []
    if published:
        rule: Any = _published(spec, sources, n_users=n_users, seed=seed, floating=floating)
    else:
        rule = learner_for(spec)
        if not spec.protocol.asks and not isinstance(rule, TransferTree):
            raise InvalidParameter("learner: only 'questions', 'tree' and Ma2025's learn from sources")
        if not spec.protocol.asks:
            rule.skip = skip
        feeds = [SourceFeed(one, spec, index=index, seed=seed) for index, one in enumerate(sources)]
        for feed in feeds:
            feed.give(rule, seen=0)

    def hear(crowd: Crowd) -> None:
        for feed in feeds:
            feed.give(rule, seen=crowd.seen)

    noise = floating and published
    how: dict[str, Any] = {"floating": noise, "snapshots": snapshots, "watched": watched, "rule": rule}
    return Crowd(spec, world, n_users=n_users, seed=seed, **how).run(hear)


class SourceFeed:
    """Reports of one source, in the order in which they reach the target's server."""

    def __init__(self, one: SimulatedSource, target: Spec, *, index: int, seed: int) -> None:
        people, self._noise = (np.random.default_rng([seed, 2 + channel, index]) for channel in (0, 1))
        chances = one.people.propensities()
        self.name, self._one = f"source {index}", one
        self.spec = SourceSpec(
            target=replace(target, seed=seed),
            name=self.name,
            n_users=one.n_users,
            privacy=LocalDP(epsilon=one.epsilon),
            chooser=one.chooser,
            propensities=None if chances is None else tuple(chances.tolist()),
            looks=chances is None,
            depth=one.depth,
        )
        rule = learner_for(self.spec.reports)
        if not isinstance(rule, ExploreRule):
            raise InvalidParameter("a source explores")
        self.rule = rule
        contexts, self._means, self._arms = one.people.draw(one.n_users, people)
        self._luck = people.random(one.n_users)
        self._at = rule.partition.rank[rule.partition.locate(contexts)]
        self._mechanism = self.spec.reports.protocol.mechanism_for(len(rule.partition.leaves))
        self._coins = PublicCoins(self.spec.reports.seed)
        self._sent = self._version = 0

    def give(self, tree: TransferTree | QuestionLearner, *, seen: int) -> None:
        """Add to `tree` the evidence of the source's reports that are due after `seen` target users."""
        one = self._one
        share = 1.0 if one.span == 0 else min(1.0, max(0, seen - one.start) / one.span)
        due = int(share * one.n_users) if seen >= one.start else 0
        if due <= self._sent:
            return
        self.report(due)
        evidence = source_evidence(self.rule.sums(), self.spec.chances)
        tree.attach(self.name, evidence, least_doubt=self.spec.least_doubt)
        tree.jump_start()

    def report(self, due: int) -> None:
        """Send the reports of those among the first `due` users of the source who have not reported yet."""
        spec, leaves = self.spec.reports, self.rule.partition.leaves
        step = self.spec.reports_per_version if self.spec.chooser == "server" else due - self._sent
        while self._sent < due:
            chunk = slice(self._sent, min(due, self._sent + step))
            at = self._at[chunk]
            published = self.rule.publish(spec, self._version, self._coins)
            if published.weights is None:
                chosen, cells = np.asarray(published.arms)[at], at
            else:
                chosen = self._arms[chunk]
                cells = at * spec.n_arms + chosen
            positive = self._luck[chunk] < self._means[chunk][np.arange(len(at)), chosen]
            sums = reported(self._mechanism, cells, positive, self._noise)
            self.rule.learn(VersionSums.of(published, leaves, sums))
            self._version, self._sent = self._version + 1, chunk.stop


def _published(
    spec: Spec, sources: Sequence[SimulatedSource], *, n_users: int, seed: int, floating: bool
) -> Ma2025TransferRule | Ma2025Rule:
    kind: Any = Ma2025Rule if spec.learner == "ma2025-printed" else Ma2025TransferRule
    rule: Ma2025TransferRule | Ma2025Rule = kind(
        partition=spec.protocol.bins.partition(),
        n_arms=spec.n_arms,
        max_leaves=spec.tuning.max_leaves,
        constants=kind.Constants(
            n_users=spec.n_users or n_users,
            epsilon=spec.privacy.epsilon,
            source_users=tuple(one.n_users for one in sources),
            source_epsilons=tuple(one.epsilon for one in sources),
            **spec.tuning.constants,
        ),
    )
    for index, one in enumerate(sources):
        people, noise = (np.random.default_rng([seed, 2 + channel, index]) for channel in (0, 1))
        contexts, means, arms = one.people.draw(one.n_users, people)
        positive = people.random(one.n_users) < means[np.arange(one.n_users), arms]
        theirs = replace(spec, privacy=LocalDP(epsilon=one.epsilon))
        step = max(100, one.n_users // _PUBLISHED_VERSIONS)
        for start in range(0, one.n_users, step):
            here = slice(start, min(start + step, one.n_users))
            leaves = rule.partition.leaves
            cells = rule.partition.rank[rule.partition.locate(contexts[here])] * spec.n_arms + arms[here]
            paper = FloatingLaplace(n_cells=len(leaves) * spec.n_arms, epsilon=one.epsilon)
            mechanism = paper if floating else theirs.protocol.mechanism_for(len(leaves))
            published = PublishedArms(version=0, splits=tuple(rule.partition.splits), weights=rule.weights())
            estimate = reported(mechanism, cells, positive[here], noise)
            rule.learn(VersionSums.of(published, leaves, estimate), crowd=index + 1)
            rule.refine()
    return rule
