"""Fast simulation of local crowds: `simulate`, or `Crowd` to run it version by version.

A crowd is the users of a local policy; a version is a published state of the policy, with its users. The
server's sums of reports are sampled directly. They have the distribution of adding up single reports.

Status `simulated`: noise comes from a seeded NumPy generator. Regret and rewards are computed from mean
rewards that no server sees, so results are for evaluation and are not a release.
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
from dpbandits.local.contract.spec import Spec
from dpbandits.local.learners.base import BinLearner, Estimates, VersionSums, grouped_estimate
from dpbandits.local.learners.columns import ColumnLearner
from dpbandits.local.learners.questions import QuestionLearner
from dpbandits.local.learners.table import learner_for
from dpbandits.local.server.counting import deviations
from dpbandits.local.server.robust import Robust
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.reports import FloatingLaplace, ReportMechanism
from dpbandits.tables.device_menu import DeviceMenu

__all__ = [
    "Crowd",
    "CrowdRewards",
    "CrowdWorld",
    "SimulationResult",
    "answers",
    "people_of",
    "reported",
    "signs_by_cell",
    "simulate",
]

ClassLaw = Callable[[FloatArray, np.random.Generator], IntArray]
"""Function (contexts (n, dim), generator) -> number of the epsilon that each user chooses, shape (n,).

Honest users choose their epsilon without looking at their contexts.
"""


class Sized(Protocol):
    """A world's numbers of context columns and of arms."""

    @property
    def dim(self) -> int:
        """Number of context columns."""

    @property
    def n_arms(self) -> int:
        """Number of arms."""


class CrowdWorld(Sized, Protocol):
    """World that draws users with contexts in the unit cube; see `dpbandits.lab.worlds.contextual`."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Sample n users; return contexts (n, dim) and mean rewards (n, n_arms), all in [0, 1]."""


def people_of(table: TableBandit) -> PeopleWorld:
    """Return a table's users as clients of a local crowd.

    Contexts lie in the unit cube of a `Spec(contexts=table.schema, arms=table.arms.labels)`. Rewards are
    scaled to [0, 1]. If the table has mean rewards, they replace the rewards: a client's report has the same
    distribution with either. Only the first row of each user is used, because a client reports once. A row
    with a missing value becomes a client with a missing context: it decides as at the middle of the cube,
    and its rewards are NaN.
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
    """Return the numbers of users in each cell with a positive and with a negative sign, (n_cells,) each."""
    yes, no = (np.bincount(cells[here], minlength=n_cells) for here in (positive, ~positive))
    return yes, no


def answers(published: PublishedArms, places: IntArray, positive: BoolArray) -> tuple[IntArray, BoolArray]:
    """Return the cells (n,) and signs (n,) that users report, given arms chosen by the server.

    Args:
        published: Published version that the users answer.
        places: Bin or grid cell of each user, shape (n,), as returned by `Spec.leaves`.
        positive: True for users whose rounded reward is positive, shape (n,).
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
    """Sample the estimates that the server computes from the reports of users in these cells."""
    crowd = signs_by_cell(cells, positive, mechanism.n_cells)
    return *mechanism.simulated_estimate(*crowd, noise), len(cells), mechanism.moments


@dataclass(frozen=True, kw_only=True)
class CrowdRewards:
    """Rewards of one simulated crowd, with V versions of the policy.

    Attributes:
        regret: Best mean reward minus the chosen arm's, summed over a version's users, shape (V,), in
            reward units.
        reward: Mean reward of the chosen arms, summed over a version's users, shape (V,).
        users: Number of users of each version, shape (V,).
    """

    regret: FloatArray
    reward: FloatArray
    users: IntArray

    @property
    def average_regret(self) -> float:
        """Mean regret per user."""
        return float(self.regret.sum() / self.users.sum())

    @property
    def average_reward(self) -> float:
        """Mean reward per user."""
        return float(self.reward.sum() / self.users.sum())


@dataclass(frozen=True, kw_only=True)
class SimulationResult(CrowdRewards):
    """Result of one simulated crowd, with V versions of the policy and K arms.

    Attributes:
        anomaly: Anomaly statistic of all reports; see `Server.diagnostics`.
        rule: Learning rule after the last version. It is no `BinLearner` for the learner `questions`.
        bins: Number of bins at the end; for the learner `questions`, the cells of its last version.
        snapshots: States at the requested times: users seen, splits, and the leading arm. This is the arm
            with the largest weight in each leaf, or with the best mean in each grid cell.
        shares: Probabilities of the arms at the P watched points in each version, shape (V, P, K).
    """

    rule: BinLearner
    bins: int
    snapshots: tuple[tuple[int, tuple[int, ...], IntArray], ...] = ()
    shares: FloatArray | None = None
    anomaly: float = 0.0


class CrowdOptions(TypedDict, total=False):
    """Options of a simulated crowd.

    Attributes:
        n_users: Number of users.
        seed: Seed of users, rewards, report noise and public coins.
        floating: Use the paper's floating-point Laplace noise instead of the spec's mechanism.
        snapshots: Numbers of users; after each of them, the partition is recorded at the next version.
        watched: Points at which the probabilities of arms are recorded, shape (P, dim).
        classes: Choice of each user's epsilon if the spec has `epsilons`; None chooses uniformly.
        robust: Server's protection against forged reports; its secret is not used.
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
    """Simulate a whole crowd with one report per user.

    Args:
        spec: Spec as for a real server. For a table it has the table's contexts, arms and reward range; for
            a world of points its domain is the unit cube. Its seed is replaced by `seed`.
        world: Table, whose users come once each, or a world of points.
        **options: See `CrowdOptions`.

    Raises:
        InvalidParameter: The world does not match the spec, or there are no users.
    """
    return Crowd(spec, world, **options).run()


class Crowd:
    """A simulated crowd that you run version by version.

    Args:
        spec, world: See `simulate`.
        n_users, seed, floating, snapshots, watched, classes, robust: See `CrowdOptions`.
        rule: Learning rule, which may have learned before; None creates a new one.

    Attributes:
        counts: True for users whose regret and reward are summed, shape (n_users,). It is False for users
            with a missing context.
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
            own = world.schema, world.arms.labels, world.reward_range
            if told != own or spec.actions != world.actions:
                raise InvalidParameter(
                    "the spec and the table differ in columns, arms or reward range: build the spec with "
                    "contexts=table.schema, arms=table.arms.labels (or actions=table.actions), "
                    "reward_range=table.reward_range"
                )
            world = people_of(world)
        if (world.dim, world.n_arms) != (spec.dim, spec.n_arms) or n_users < 1:
            raise InvalidParameter("expected a world of the spec's dim and n_arms, and n_users >= 1")
        if floating and spec.protocol.asks:
            raise InvalidParameter(
                "floating: the paper's noise needs bins, and the learner 'questions' has none: pass "
                "floating=False or another learner"
            )
        self.spec, self._floating = spec, floating
        people, self._noise = (np.random.default_rng([seed, channel]) for channel in (0, 1))
        self._contexts, self._means = world.draw(n_users, people)
        self._unknown: BoolArray = np.asarray(np.isnan(self._means).any(axis=1))
        # a client with a missing context reports a random sign and a random cell: see `Contract.report`
        self._means[self._unknown] = 0.5
        self._strays = np.random.default_rng([seed, 3]).random(n_users)
        # what is maximised: mean rewards scaled to [0, 1], or the values of actions
        self._values = self._means
        if spec.actions is not None:
            low, width = spec.reward_range.low, spec.reward_range.width
            self._values = spec.actions.values_of(low + width * self._means)
        self._best = self._values.max(axis=1)
        self._luck = people.random((n_users, 2))
        self._classes = self._chosen_classes(classes, people)
        self._coins, self.rule = PublicCoins(seed), learner_for(spec) if rule is None else rule
        if robust and floating:
            raise InvalidParameter("robust: expected None with floating=True")
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
        """True while there are users who have not decided yet."""
        return self._version < self._n_versions

    @property
    def seen(self) -> int:
        """Number of users who have decided and reported so far."""
        return min(len(self._best), self._version * self.spec.protocol.reports_per_version)

    def run(self, after: Callable[["Crowd"], None] | None = None) -> SimulationResult:
        """Run all remaining versions, and return the result.

        `after` is called with this crowd after each version.
        """
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
        low, width = (bounds.low, bounds.width) if self.spec.actions is None else (0.0, 1.0)
        return SimulationResult(
            regret=width * regret,
            reward=low * users + width * reward,
            users=users.astype(int),
            rule=self.rule,
            bins=self._cells if self.spec.protocol.asks else len(self.rule.partition.leaves),
            snapshots=tuple(self._taken),
            anomaly=deviations(self._excess),
            shares=None if self._watched is None else np.array(self._shares),
        )

    def step(self) -> None:
        """Run one version: its users choose and report, and the learning rule learns."""
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
        """Run one version of the learner `questions`: its users choose and report, and the learner learns."""
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
        """Return the chosen arms' mean rewards (n,), and add users with `counts` to the sums."""
        mean, value = (
            np.take_along_axis(own[people], chosen[:, None], axis=1)[:, 0]
            for own in (self._means, self._values)
        )
        counts, lost = self.counts[people], self._best[people] - value
        self._sums.append((lost[counts].sum(), value[counts].sum(), int(counts.sum())))
        return mean

    def _counted(
        self, published: PublishedArms, cells: IntArray, positive: BoolArray, people: slice
    ) -> list[list[tuple[ReportMechanism, IntArray, int]]]:
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
        """Sample the sums of the reports of n users, given their cells (n,) and signs (n,)."""
        return mechanism.simulate(*signs_by_cell(cells, positive, mechanism.n_cells), noise)

    def _look(self, start: int, splits: tuple[int, ...], leading: Callable[[], IntArray]) -> None:
        while self._pending and start >= self._pending[0]:
            self._pending.pop(0)
            self._taken.append((start, splits, leading()))

    def relocate(self) -> None:
        """Find the new leaves of later users whose leaf was split."""
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
            raise InvalidParameter("classes: expected the number of one of the spec's epsilons for each user")
        return chosen
