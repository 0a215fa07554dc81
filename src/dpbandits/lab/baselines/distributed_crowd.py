"""`DistributedCrowd`: a distributed policy behind the calls of a central one, in one process.

The collector publishes versions of its policy. The users of a version choose by the published version and
report a bucket each, and the sum of their reports gets the simulated noise of two aggregators. A user who has
no reward when the version ends, or who got another arm than the published one, has nothing to say.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from dpbandits import _checks
from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.distributed import (
    Aggregate,
    Collector,
    DistributedSpec,
    IdealAggregation,
    PublishedVersion,
)
from dpbandits.errors import CorruptState
from dpbandits.lab.baselines.base import defaults
from dpbandits.policy import RoundPolicy, best_choice
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.privacy.noise import SimulatedNoise

__all__ = ["DistributedCrowd"]

_NO_DEVICE = "No device made these reports, and whoever runs this sees every context and every reward."


class DistributedCrowd(RoundPolicy):
    """A simulation of a `DistributedSpec`, with the calls of any policy. Experimental.

    A version ends at the first ask after its planned number of rounds. After the last version the policy
    gives the best arms and learns no more.

    Args:
        spec: The public contract, whose seed is that of the versions.
        horizon: Largest number of rounds; None for no bound.
        seed: Seed of the simulated devices and of the noise.

    Privacy: None, as one process sees all data and the noise is simulated. `guarantee` is that of two real
    aggregators, with status `simulated`.

    Raises:
        InvalidParameter: The spec is of another kind.

    Example:
        >>> import dpbandits as dpb
        >>> crowd = DistributedCrowd(spec=dpb.distributed.DistributedSpec(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"],
        ...     privacy=dpb.DistributedDP(epsilon=1), horizon=1000))
        >>> decision = crowd.ask({"age": 44})
        >>> crowd.tell(decision.id, True).value
        'counted'
        >>> crowd.guarantee.status
        'simulated'
    """

    kind = "baselines.DistributedCrowd"
    config_parsers: ClassVar[Mapping[str, Any]] = {
        **RoundPolicy.config_parsers,
        "spec": DistributedSpec.from_config,
    }

    def __init__(self, *, spec: DistributedSpec, horizon: int | None = None, seed: Seed = 0) -> None:
        self.spec = _checks.an(
            spec, DistributedSpec, name="spec", pass_="spec=DistributedSpec(contexts=..., arms=[...])"
        )
        super().__init__(
            **defaults(
                contexts=spec.contexts,
                arms=spec.arms,
                reward_range=spec.reward_range,
                horizon=horizon,
                seed=seed,
            ),
            privacy=None,
        )
        self._ends = np.cumsum(spec.reports_per_version)
        self._released: list[Aggregate] = []
        self._collector = Collector(spec)
        self._published: PublishedVersion = self._collector.publish()

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of two real aggregators, with status `simulated`."""
        found = self.spec.statement()
        return replace(found, status="simulated", notes=(*found.notes, _NO_DEVICE))

    @property
    def batch_boundaries(self) -> tuple[int, ...] | None:
        """Rounds at which versions end if every batch has one round."""
        return tuple(end for end in self._ends.tolist() if self.horizon is None or end < self.horizon)

    @property
    def _version(self) -> int:
        return len(self._released)

    def _at(self, points: FloatArray, start: int) -> tuple[IntArray, IntArray]:
        coins = self._coins.uniform("device", start, start + len(points), 2)
        return self._published.at(self.spec, self.spec.menu.in_cube(points), coins)

    def _choose(
        self, candidates: FloatArray, available: BoolArray | None, start: int
    ) -> tuple[IntArray, FloatArray | None]:
        arms, _ = self._at(candidates[:, 0, :-1], start)
        scores = (candidates[:, :, -1] == arms[:, None]).astype(np.float64)
        ties = self._coins.uniform("ties", start, start + len(candidates), 1)[:, 0]
        return best_choice(scores, ties, available), None

    @property
    def _rounds_out(self) -> int:
        return 0 if not self._version else int(self._ends[self._version - 1])

    def _is_due(self) -> bool:
        return self._version < len(self._ends) and self._book.asked >= self._ends[self._version]

    def _release(self) -> None:
        """Sum the reports of the version that ends, add the noise of both aggregators, and learn."""
        version, spec = self._version, self.spec
        points, rewards, told, refused = self._book.block(self._rounds_out, int(self._ends[version]))
        arms, places = self._at(points[:, :-1], self._rounds_out)
        nothing = ~told | refused | (points[:, -1] != arms)
        share = np.where(nothing, 0.0, (rewards - self.reward_range.low) / self.reward_range.width)
        luck = np.random.default_rng([self.seed, 4, version]).random(len(arms))
        buckets = np.where(nothing, spec.silent, spec.bucket(places, (luck < share).astype(np.int64)))
        # two draws of noise a version: the position makes them differ from those of other versions
        aggregation = IdealAggregation(spec, noise=SimulatedNoise(self.seed, position=2 * version))
        aggregation.upload_buckets(version, buckets)
        self._hear(aggregation.collect(version))

    def _hear(self, aggregate: Aggregate) -> None:
        self._released.append(aggregate)
        self._collector.absorb(aggregate)
        self._published = self._collector.publish()

    def _predict(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        law = self._collector.estimate().law(self.spec, self.spec.menu.in_cube(points[:, :-1]))
        at = np.arange(len(points)), points[:, -1].astype(np.int64)
        return law[0][at], law[1][at]

    def publish(self) -> PublishedVersion:
        """Return the version of the policy that the collector published last."""
        return self._published

    def _own_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        sums = np.array([one.sums for one in self._released], dtype=np.int64)
        reports = np.array([one.reports for one in self._released], dtype=np.int64)
        return {"sums": sums.reshape(-1, self.spec.length), "reports": reports}

    def _restore_own(self, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
        sums, reports = arrays["sums"], arrays["reports"].tolist()
        if sums.shape != (len(reports), self.spec.length) or len(reports) > len(self._ends):
            raise CorruptState("the saved sums contradict the saved configuration")
        for version, row in enumerate(sums):
            self._hear(Aggregate(version=version, sums=row, reports=reports[version]))
