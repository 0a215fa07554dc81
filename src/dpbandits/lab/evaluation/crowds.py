"""Crowds simulated fast: the server's sums are drawn at once, in the law of adding up single reports.

Status `simulated`: noise comes from a seeded NumPy generator. What is measured (regret, rewards) looks
at mean rewards that no server sees: an evaluation, not a release.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, Required, TypedDict, Unpack, cast

import numpy as np

from dpbandits._threads import one_thread
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.contextual import PeopleWorld
from dpbandits.lab.worlds.tables import TableBandit
from dpbandits.local.contract.bins import PublishedArms
from dpbandits.local.contract.grid import PublishedQuestions
from dpbandits.local.contract.people import DeviceMenu
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.base import BinLearner, Estimates, VersionSums, grouped_estimate
from dpbandits.local.learners.columns import ColumnLearner
from dpbandits.local.learners.questions import QuestionLearner
from dpbandits.local.learners.table import learner_for
from dpbandits.local.server.counting import deviations
from dpbandits.local.server.robust import Robust
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.reports import FloatingLaplace, ReportMechanism

__all__ = [
    "Crowd",
    "CrowdWorld",
    "SimulationResult",
    "answers",
    "people_of",
    "reported",
    "signs_by_cell",
    "simulate",
]

ClassLaw = Callable[[FloatArray, np.random.Generator], IntArray]
"""Contexts (n, dim) and a generator -> (n,) classes of epsilon. An honest law does not use the contexts."""


class Sized(Protocol):
    """Protocol of a crowd's world."""

    @property
    def dim(self) -> int:
        """Number of context columns."""

    @property
    def n_arms(self) -> int:
        """Number of arms."""


class CrowdWorld(Sized, Protocol):
    """People with contexts in the unit cube; see `dpbandits.lab.worlds.contextual`."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Contexts (n, dim) and mean rewards (n, n_arms), in [0, 1]."""


def people_of(table: TableBandit) -> PeopleWorld:
    """A table's people as devices see them.

    Contexts lie in the unit cube of a `Spec(contexts=table.schema, arms=table.arms.labels)` and rewards are
    scaled to [0, 1]; where they were drawn their means stand for them, as a device's report is drawn from
    either in the same law. Of a person with several rows the first counts: a device reports once. A row that
    cannot be read is a device with a missing context, which decides as the middle of the cube does; its
    rewards are NaN.
    """
    contexts, bounds = table.contexts, table.reward_range
    paid = table.reward_table if table.expected is None else table.expected
    rewards = (paid - bounds.low) / bounds.width
    if table.persons is not None:
        first = np.sort(np.unique(table.persons, return_index=True)[1])
        contexts, rewards = contexts[first], rewards[first]
    menu = DeviceMenu(contexts=table.schema, arms=table.arms)
    unknown: BoolArray = np.asarray(np.isnan(contexts).any(axis=1))
    columns = menu.in_cube(np.where(unknown[:, None], 0.0, contexts))
    columns[unknown] = 0.5
    return PeopleWorld(name=table.name, columns=columns, rewards=rewards, ordered=table.ordered)


def signs_by_cell(cells: IntArray, positive: BoolArray, n_cells: int) -> tuple[IntArray, IntArray]:
    """(n_cells,) people of each cell with a positive sign, and with a negative one."""
    yes, no = (np.bincount(cells[here], minlength=n_cells) for here in (positive, ~positive))
    return yes, no


def answers(published: PublishedArms, places: IntArray, positive: BoolArray) -> tuple[IntArray, BoolArray]:
    """(n,) cells and signs of the reports of people in these bins or cells of a grid, of arms by the server.

    Args:
        published: that they answer.
        places: as `Spec.leaves` gives them.
        positive: what their rewards say.
    """
    if not isinstance(published, PublishedQuestions):
        return places, positive
    signs = (positive | (published.about == "place")) != published.turned[places]
    return published.parts[places], signs


def reported(
    mechanism: ReportMechanism | FloatingLaplace,
    cells: IntArray,
    positive: BoolArray,
    noise: np.random.Generator,
) -> Estimates:
    """Draw at once what the reports of people in these cells say."""
    crowd = signs_by_cell(cells, positive, mechanism.n_cells)
    return *mechanism.simulated_estimate(*crowd, noise), len(cells), mechanism.moments


@dataclass(frozen=True, kw_only=True)
class SimulationResult:
    """One simulated crowd.

    Attributes:
        regret: (V,) sum over a version's users of best mean reward minus the chosen arm's, in reward units.
        reward: (V,) sum of the chosen arms' mean rewards.
        users: (V,) number of users.
        anomaly: of all reports, see `Server.diagnostics`.
        rule: the rule after the last version; for the learner `questions` no `BinLearner`.
        bins: at the end; of the learner `questions` the cells of its last version.
        snapshots: (users seen, splits, arm with the largest weight in every leaf, or the best by mean in
            every cell of the grid) at chosen times.
        shares: (V, P, K) law of the arms at the points that were watched, in every version.
    """

    regret: FloatArray
    reward: FloatArray
    users: IntArray
    rule: BinLearner
    bins: int
    snapshots: tuple[tuple[int, tuple[int, ...], IntArray], ...] = ()
    shares: FloatArray | None = None
    anomaly: float = 0.0

    @property
    def average_regret(self) -> float:
        """Regret per user."""
        return float(self.regret.sum() / self.users.sum())

    @property
    def average_reward(self) -> float:
        """Mean reward per user."""
        return float(self.reward.sum() / self.users.sum())


class CrowdOptions(TypedDict, total=False):
    """How a crowd comes.

    Attributes:
        n_users: how many.
        seed: people, rewards, report noise and public coins.
        floating: use the paper's floating-point Laplace noise instead of the spec's mechanism.
        snapshots: record the partition at the first version after these numbers of users.
        watched: (P, dim) points at which the law of arms is recorded.
        classes: where the spec has `epsilons`, which one every user chooses; None: any, with equal chances.
        robust: what the server does about forged reports; its secret is not used.
    """

    n_users: Required[int]
    seed: Required[int]
    floating: bool
    snapshots: tuple[int, ...]
    watched: FloatArray | None
    classes: ClassLaw | None
    robust: Robust | None


def simulate(
    spec: Spec, world: CrowdWorld | TableBandit, **options: Unpack[CrowdOptions]
) -> SimulationResult:
    """Run a whole crowd, one report a user.

    Args:
        spec: as for a real server, with a table's contexts, arms and reward range; its domain must be the
            unit cube and its seed is replaced by `seed`.
        world: who comes: a table's people, each once, or a world of points.
        **options: see `CrowdOptions`.

    Raises:
        InvalidParameter: world and spec do not fit, or no user.
    """
    return Crowd(spec, world, **options).run()


class Crowd:
    """A simulated crowd that is run version by version: `simulate`, for those who do something in between.

    Args: as for `simulate`.
        rule: the learning rule, which may have learned before; None: a fresh one.

    Attributes:
        counts: (n_users,) whose regret and reward are summed: those whose row can be read.
    """

    def __init__(
        self,
        spec: Spec,
        world: CrowdWorld | TableBandit,
        *,
        n_users: int,
        seed: int,
        floating: bool = False,
        snapshots: tuple[int, ...] = (),
        watched: FloatArray | None = None,
        classes: ClassLaw | None = None,
        rule: BinLearner | None = None,
        robust: Robust | None = None,
    ) -> None:
        if isinstance(world, TableBandit):
            told = spec.contexts, spec.arms, spec.reward_range
            if told != (world.schema, world.arms.labels, world.reward_range):
                raise InvalidParameter(
                    "the spec is of other columns, arms or rewards than the table: build it with "
                    "contexts=table.schema, arms=table.arms.labels, reward_range=table.reward_range"
                )
            world = people_of(world)
        if (world.dim, world.n_arms) != (spec.dim, spec.n_arms) or n_users < 1:
            raise InvalidParameter("expected a world of the spec's dim and n_arms, and n_users >= 1")
        if floating and spec.protocol.asks:
            raise InvalidParameter(
                "floating: the paper's noise is of bins, and the learner 'questions' has none"
            )
        self.spec, self._floating = spec, floating
        people, self._noise = (np.random.default_rng([seed, channel]) for channel in (0, 1))
        self._contexts, self._means = world.draw(n_users, people)
        self._unknown: BoolArray = np.asarray(np.isnan(self._means).any(axis=1))
        self._means[self._unknown] = 0.5  # either sign is equally likely, and any cell, see `Contract.report`
        self._strays = np.random.default_rng([seed, 3]).random(n_users)
        self._best = self._means.max(axis=1)
        self._luck = people.random((n_users, 2))
        self._classes = self._chosen_classes(classes, people)
        self._coins, self.rule = PublicCoins(seed), learner_for(spec) if rule is None else rule
        if robust and floating:
            raise InvalidParameter("robust: not with floating noise")
        if robust is not None:
            robust.harden(self.rule)
        self._groups = 1 if robust is None else robust.groups
        self.counts = ~self._unknown
        self._excess = np.zeros(2)
        self._n_versions = -(-n_users // spec.protocol.reports_per_version)
        self._sums: list[tuple[float, float, int]] = []  # regret, reward and users of every version
        self._taken: list[tuple[int, tuple[int, ...], IntArray]] = []
        self._pending = sorted(snapshots)
        self._watched, self._shares = watched, list[FloatArray]()
        self._version = self._cells = 0
        if spec.protocol.asks:
            self._nodes, self._located = np.zeros(0, dtype=np.int64), 0
        else:  # everyone's leaf, moved down where a leaf is split
            self._nodes = self.rule.partition.locate(self._contexts)
            self._located = self.rule.partition.n_nodes

    @property
    def running(self) -> bool:
        """Return whether users are left."""
        return self._version < self._n_versions

    @property
    def seen(self) -> int:
        """Users who have come."""
        return min(len(self._best), self._version * self.spec.protocol.reports_per_version)

    def run(self, after: Callable[["Crowd"], None] | None = None) -> SimulationResult:
        """All who are left, `after` being called after every version."""
        with one_thread():
            while self.running:
                self.step()
                if after is not None:
                    after(self)
                    self.relocate()
            return self.result()

    def result(self) -> SimulationResult:
        """Return the result so far."""
        regret, reward, users = np.array(self._sums, dtype=np.float64).reshape(-1, 3).T
        bounds = self.spec.reward_range
        return SimulationResult(
            regret=bounds.width * regret,
            reward=bounds.low * users + bounds.width * reward,
            users=users.astype(int),
            rule=self.rule,
            bins=self._cells if self.spec.protocol.asks else len(self.rule.partition.leaves),
            snapshots=tuple(self._taken),
            anomaly=deviations(self._excess),
            shares=None if self._watched is None else np.array(self._shares),
        )

    def step(self) -> None:
        """One version: its users choose, report, and the rule learns."""
        spec, rule, luck = self.spec, self.rule, self._luck
        start, stop = self.seen, min(len(self._best), self.seen + spec.protocol.reports_per_version)
        published = rule.publish(spec, self._version, self._coins)
        if isinstance(published, PublishedQuestions):
            self._ask(published, slice(start, stop))
            return
        partition = rule.partition
        leaves = partition.leaves
        at = partition.rank[self._nodes[start:stop]]
        if published.weights is None:
            chosen, cells = np.asarray(published.arms)[at], at
        else:
            passed = published.weights.cumsum(axis=1)[at] < luck[start:stop, 1:]
            chosen = passed.sum(axis=1).clip(max=spec.n_arms - 1)
            cells = at * spec.n_arms + chosen
        people = slice(start, stop)
        mean = self._lose(chosen, people)
        if self._watched is not None:
            places = partition.rank[partition.locate(self._watched)]
            law = np.eye(spec.n_arms)[published.arms] if published.weights is None else published.weights
            self._shares.append(law[places])
        self._look(start, published.splits, lambda: rule.weights().argmax(axis=1))
        positive = luck[people, 0] < mean
        if self._floating:
            noise = FloatingLaplace(n_cells=spec.protocol.n_cells(len(leaves)), epsilon=spec.privacy.epsilon)
            estimate = reported(noise, cells, positive, self._noise)
        else:
            estimate = grouped_estimate(self._counted(published, cells, positive, people))
        rule.learn(VersionSums.of(published, leaves, estimate))
        rule.refine()
        self._version += 1
        self.relocate()

    def _ask(self, published: PublishedQuestions, people: slice) -> None:
        """`step` of a version of questions."""
        at = self.spec.protocol.layout.locate(published, self._contexts[people])
        self._cells = len(published.parts)
        mean = self._lose(np.asarray(published.arms)[at], people)
        self._look(people.start, (), cast(QuestionLearner | ColumnLearner, self.rule).leading)
        if self._watched is not None:
            watched = np.asarray(published.arms)[self.spec.protocol.layout.locate(published, self._watched)]
            self._shares.append(np.eye(self.spec.n_arms)[watched])
        cells, signs = answers(published, at, self._luck[people, 0] < mean)
        self.rule.count(self.spec, published, self._counted(published, cells, signs, people))
        self.rule.refine()
        self._version += 1

    def _lose(self, chosen: IntArray, people: slice) -> FloatArray:
        """(n,) mean rewards of the arms that these people were given; those who count are summed."""
        mean = np.take_along_axis(self._means[people], chosen[:, None], axis=1)[:, 0]
        counts, lost = self.counts[people], self._best[people] - mean
        self._sums.append((lost[counts].sum(), mean[counts].sum(), int(counts.sum())))
        return mean

    def _counted(
        self, published: PublishedArms, cells: IntArray, positive: BoolArray, people: slice
    ) -> list[list[tuple[ReportMechanism, IntArray, int]]]:
        """Count these people's reports by the server's groups and classes of epsilon."""
        groups = np.zeros(len(cells), dtype=np.int64)
        classes = groups if self._classes is None else self._classes[people]
        if self._groups > 1:
            groups = self._noise.integers(self._groups, size=len(cells))
        unknown = self._unknown[people]
        if unknown.any():
            n_cells = self.spec.protocol.counted_by(published)[0].n_cells
            cells = np.where(unknown, (self._strays[people] * n_cells).astype(np.int64), cells)
        counted = []
        for group in range(self._groups):
            parts = []
            for kind, one in enumerate(self.spec.protocol.counted_by(published)):
                here = np.flatnonzero((groups == group) & (classes == kind))
                n = len(here)
                if not n:
                    continue
                told = (cells[here], positive[here], people.start + here)
                sums = self.sums_of(one, published, *told, self._noise)
                self._excess += one.excess(sums, n)
                parts.append((one, sums, n))
            if parts:
                counted.append(parts)
        return counted

    def sums_of(
        self,
        mechanism: ReportMechanism,
        published: PublishedArms,
        cells: IntArray,
        positive: BoolArray,
        people: IntArray,
        noise: np.random.Generator,
    ) -> IntArray:
        """Sums of the reports of these people (n,), in cells and of signs (n,)."""
        return mechanism.simulate(*signs_by_cell(cells, positive, mechanism.n_cells), noise)

    def _look(self, start: int, splits: tuple[int, ...], leading: Callable[[], IntArray]) -> None:
        """Take the snapshots that are due."""
        while self._pending and start >= self._pending[0]:
            self._pending.pop(0)
            self._taken.append((start, splits, leading()))

    def relocate(self) -> None:
        """Find the leaves of those still to come, where a leaf was split since."""
        if self.spec.protocol.asks:
            return
        partition = self.rule.partition
        if partition.n_nodes == self._located:
            return
        later = self.seen + np.flatnonzero(partition.left[self._nodes[self.seen :]] >= 0)
        if len(later):
            self._nodes[later] = partition.locate(self._contexts[later], self._nodes[later])
        self._located = partition.n_nodes

    def _chosen_classes(self, classes: ClassLaw | None, rng: np.random.Generator) -> IntArray | None:
        """(n,) everyone's class of epsilon, or None where there is one."""
        kinds = len(self.spec.epsilons)
        if not kinds:
            if classes is not None:
                raise InvalidParameter("classes: the spec has no epsilons to choose from")
            return None
        if self._floating:
            raise InvalidParameter("floating: the paper's noise has one epsilon")
        n = len(self._contexts)
        if classes is None:
            return rng.integers(kinds, size=n)
        chosen = np.asarray(classes(self._contexts, rng))
        if chosen.shape != (n,) or ((chosen < 0) | (chosen >= kinds)).any():
            raise InvalidParameter("classes: expected one class of the spec's epsilons a user")
        return chosen
