"""Fast simulation of a crowd whose reports are added up by two aggregators: `simulate_distributed`.

The sums of a version are counted from its users' buckets, and each aggregator's noise is drawn once for a
sum.

Status `simulated`: noise comes from a seeded generator. Regret and rewards are computed from mean rewards
that no collector sees, so results are for evaluation and are not a release.
"""

import numpy as np

from dpbandits._typing import Seed
from dpbandits.distributed import Collector, DistributedSpec, IdealAggregation
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import CrowdRewards, CrowdWorld, people_of
from dpbandits.lab.worlds.tables import TableBandit
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["simulate_distributed"]


def simulate_distributed(
    spec: DistributedSpec, world: CrowdWorld | TableBandit, *, n_users: int, seed: Seed
) -> CrowdRewards:
    """Simulate a whole crowd with one report per user.

    Args:
        spec: Spec as for real devices. For a table it has the table's contexts, arms and reward range; for a
            world of points, a column with bounds 0 and 1 for each of its columns.
        world: Table, whose users come once each, or a world of points.
        n_users: Number of users. Those after the last version get the best arms and do not report.
        seed: Seed of users, rewards and noise.

    Raises:
        InvalidParameter: The world does not match the spec, or there are no users.
    """
    if isinstance(world, TableBandit):
        if (spec.contexts, spec.arms, spec.reward_range) != (
            world.schema,
            world.arms.labels,
            world.reward_range,
        ):
            raise InvalidParameter(
                "the spec and the table differ in columns, arms or reward range: build the spec with "
                "contexts=table.schema, arms=table.arms.labels, reward_range=table.reward_range"
            )
        world = people_of(world)
    if (world.dim, world.n_arms) != (spec.contexts.domain.dim, spec.n_arms) or n_users < 1:
        raise InvalidParameter("expected a world of the spec's columns and arms, and n_users >= 1")
    people = np.random.default_rng([seed, 0])
    contexts, means = world.draw(n_users, people)
    luck, unknown = people.random(n_users), np.asarray(np.isnan(means).any(axis=1))
    means = np.where(unknown[:, None], 0.0, means)
    collector, aggregation = Collector(spec), IdealAggregation(spec, noise=SimulatedNoise(seed))
    coins, start, found = np.random.default_rng([seed, 1]).random((n_users, 2)), 0, []
    for version, size in enumerate((*spec.reports_per_version, n_users)):
        here = slice(start, min(start + size, n_users))
        chosen, places = collector.publish().at(spec, contexts[here], coins[here])
        mean = np.take_along_axis(means[here], chosen[:, None], axis=1)[:, 0]
        counts, lost = ~unknown[here], means[here].max(axis=1) - mean
        found.append((lost[counts].sum(), mean[counts].sum(), int(counts.sum())))
        if not collector.finished:
            buckets = spec.bucket(places, (luck[here] < mean).astype(np.int64))
            aggregation.upload_buckets(version, np.where(counts, buckets, spec.silent))
            if len(buckets) < spec.tuning.min_batch:  # the users ended within a version
                break
            collector.absorb(aggregation.collect(version))
        start = here.stop
        if start == n_users:
            break
    regret, reward, users = np.array(found, dtype=np.float64).T
    low, width = spec.reward_range.low, spec.reward_range.width
    return CrowdRewards(regret=width * regret, reward=low * users + width * reward, users=users.astype(int))
