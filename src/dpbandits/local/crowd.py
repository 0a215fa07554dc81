"""Crowds simulated fast: the server's sums are drawn at once, in the law of adding up single reports.

Status `simulated`: noise comes from a seeded NumPy generator. What is measured (regret, rewards) looks
at mean rewards that no server sees: an evaluation, not a release.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.local.learning import CellSums, LearningRule
from dpbandits.local.rules import public_normals, rule_for
from dpbandits.local.spec import PartitionBanditSpec
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.frequency import FloatingLaplace, ReportMechanism

__all__ = ["ContextWorld", "SimulationResult", "simulate"]


class ContextWorld(Protocol):
    """People with contexts in the unit cube; see `dpbandits.environments.contextual`."""

    @property
    def dim(self) -> int:
        """Number of context columns."""

    @property
    def n_arms(self) -> int:
        """Number of arms."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Contexts (n, dim) and mean rewards (n, n_arms), in [0, 1]."""


@dataclass(frozen=True, kw_only=True)
class SimulationResult:
    """One simulated crowd.

    Attributes:
        regret: (V,) sum over a version's users of best mean reward minus the chosen arm's.
        reward: (V,) sum of the chosen arms' mean rewards.
        users: (V,) number of users.
        rule: the rule after the last version.
        snapshots: (users seen, splits, arm with the largest weight in every leaf) at chosen times.
    """

    regret: FloatArray
    reward: FloatArray
    users: IntArray
    rule: LearningRule
    snapshots: tuple[tuple[int, tuple[int, ...], IntArray], ...] = ()

    @property
    def average_regret(self) -> float:
        """Regret per user."""
        return float(self.regret.sum() / self.users.sum())

    @property
    def average_reward(self) -> float:
        """Mean reward per user."""
        return float(self.reward.sum() / self.users.sum())


def simulate(
    spec: PartitionBanditSpec,
    world: ContextWorld,
    *,
    n_users: int,
    seed: int,
    floating: bool = False,
    snapshots: tuple[int, ...] = (),
) -> SimulationResult:
    """Run a whole crowd, one report a user.

    Args:
        spec: as for a real server; its domain must be the unit cube and its seed is replaced by `seed`.
        world: who comes.
        n_users: how many.
        seed: people, rewards, report noise and public coins.
        floating: use the paper's floating-point Laplace noise instead of the spec's mechanism.
        snapshots: record the partition at the first version after these numbers of users.

    Raises:
        InvalidParameter: world and spec do not fit, or no user.
    """
    if (world.dim, world.n_arms) != (spec.dim, spec.n_arms) or n_users < 1:
        raise InvalidParameter("simulate: expected a world of the spec's dim and n_arms, and n_users >= 1")
    people, noise = (np.random.default_rng([seed, channel]) for channel in (0, 1))
    contexts, means = world.draw(n_users, people)
    best = means.max(axis=1)
    luck = people.random((n_users, 2))
    coins, rule = PublicCoins(seed), rule_for(spec)
    by_server = spec.arms == "server"
    step = spec.reports_per_version
    n_versions = -(-n_users // step)
    regret, reward, users = np.zeros(n_versions), np.zeros(n_versions), np.zeros(n_versions, dtype=np.int64)
    mechanisms: dict[int, ReportMechanism | FloatingLaplace] = {}
    taken, pending = [], sorted(snapshots)
    nodes = np.zeros(n_users, dtype=np.int64)  # everyone's leaf, moved down where a leaf is split

    for version in range(n_versions):
        start, stop = version * step, min(n_users, (version + 1) * step)
        partition = rule.partition
        leaves, n_leaves = partition.leaves, len(partition.leaves)
        at = partition.rank[nodes[start:stop]]
        arms = weights = None
        if by_server:
            arms = rule.assign(public_normals(coins, version, partition, spec.n_arms))
            chosen = arms[at]
        else:
            weights = rule.weights()
            chosen = (weights.cumsum(axis=1)[at] < luck[start:stop, 1:]).sum(axis=1).clip(max=spec.n_arms - 1)
        mean = means[np.arange(start, stop), chosen]
        regret[version] = (best[start:stop] - mean).sum()
        reward[version] = mean.sum()
        users[version] = stop - start
        while pending and start >= pending[0]:
            pending.pop(0)
            leading = rule.weights().argmax(axis=1)
            taken.append((start, tuple(partition.splits), leading))

        cells = at if by_server else at * spec.n_arms + chosen
        n_cells = spec.n_cells(n_leaves)
        positive = luck[start:stop, 0] < mean
        ones = np.bincount(cells[positive], minlength=n_cells)
        zeros = np.bincount(cells[~positive], minlength=n_cells)
        if n_cells not in mechanisms:
            mechanisms[n_cells] = (
                FloatingLaplace(n_cells=n_cells, epsilon=spec.epsilon)
                if floating
                else spec.mechanism_for(n_leaves)
            )
        mechanism = mechanisms[n_cells]
        signed, count = mechanism.simulated_estimate(ones, zeros, noise)
        shape = (n_leaves,) if by_server else (n_leaves, spec.n_arms)
        rule.learn(
            CellSums(
                leaves=leaves,
                arms=arms,
                weights=weights,
                signed=signed.reshape(shape),
                count=count.reshape(shape),
                n=stop - start,
                moments=mechanism.moments,
            )
        )
        n_nodes = rule.partition.n_nodes
        rule.refine()
        if rule.partition.n_nodes > n_nodes:
            later = stop + np.flatnonzero(rule.partition.left[nodes[stop:]] >= 0)
            nodes[later] = rule.partition.locate(contexts[later])
    return SimulationResult(regret=regret, reward=reward, users=users, rule=rule, snapshots=tuple(taken))
