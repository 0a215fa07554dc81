"""The collector (`Collector`): learns from noisy sums and publishes versions.

It sees released sums only. Everything it computes is post-processing, so its state is public: a lost or
restored copy costs no privacy. It asks the aggregators for one sum a version.
"""

from copy import copy
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import an
from dpbandits._reading import reading
from dpbandits._seen import Seen, said
from dpbandits.distributed.aggregation import Aggregate
from dpbandits.distributed.learner import CountLearner
from dpbandits.distributed.published import PublishedVersion
from dpbandits.distributed.spec import DistributedSpec
from dpbandits.distributed.table_learner import TableLearner
from dpbandits.errors import CorruptState, IncompatibleState, InvalidData, ProtocolError
from dpbandits.policy.coins import PublicCoins
from dpbandits.privacy.guarantee import Guarantee
from dpbandits.state import State, read_state, write_state
from dpbandits.state.holder import Held, Holder, in_turn

__all__ = ["Collector"]

_KIND, _FORMAT = "distributed.Collector", 1


@worded
class Collector(Held, Seen):
    """The party that learns from the aggregators' sums and publishes the policy.

    Args:
        spec: The public contract.

    Privacy: A collector sees released sums and adds nothing to them. It refuses a second sum of one version
    that differs from the first: that would be another draw of the noise.

    Example:
        >>> import dpbandits as dpb
        >>> spec = dpb.distributed.DistributedSpec(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"],
        ...     privacy=dpb.DistributedDP(epsilon=1), horizon=1000,
        ...     tuning=dpb.distributed.DistributedTuning(min_batch=1))
        >>> collector = Collector(spec)
        >>> aggregation = dpb.distributed.IdealAggregation(spec, noise=dpb.SimulatedNoise(0))
        >>> device = dpb.distributed.Device(spec)
        >>> arm = device.choose(collector.publish(), {"age": 44})
        >>> aggregation.upload([device.report(1.0)])
        1
        >>> collector.absorb(aggregation.collect(0))
        >>> collector.publish().version
        1
    """

    _moving: ClassVar[str] = "Save it and load the state"

    def __init__(self, spec: DistributedSpec) -> None:
        self.spec = an(spec, DistributedSpec, name="spec", pass_="the DistributedSpec of the devices")
        self._holder = Holder(what="collector")
        self._coins = PublicCoins(spec.seed)
        self._learner = CountLearner(spec) if spec.effects is None else TableLearner(spec)
        self._asked: list[PublishedVersion] = [self._next(0)]
        self._heard: dict[int, Aggregate] = {}

    def _next(self, version: int) -> PublishedVersion:
        return self._learner.publish(version, self._coins)

    @property
    def guarantee(self) -> Guarantee:
        """Guarantee of everything that a user's device reports; see `DistributedSpec.statement`."""
        return self.spec.statement()

    @property
    def finished(self) -> bool:
        """True if no more reports are expected: devices then call `decide`."""
        return self._asked[-1].version == len(self.spec.reports_per_version)

    @in_turn
    def publish(self) -> PublishedVersion:
        """Return the present version. It changes after `absorb` or `skip`."""
        return self._asked[-1]

    @in_turn
    def absorb(self, aggregate: Aggregate) -> None:
        """Learn from the sum of the present version's reports, and go on to the next version.

        The same sum again changes nothing.

        Raises:
            InvalidData: The sum does not have the spec's length, or nothing can be learned from it.
            ProtocolError: The sum belongs to another version.
            IncompatibleState: Another sum of this version was absorbed: the noise was drawn twice.
        """
        given = an(aggregate, Aggregate, name="aggregate", pass_="the Aggregate from the aggregators")
        if given.sums.shape != (self.spec.length,):
            raise InvalidData(f"sums: shape {given.sums.shape}, expected ({self.spec.length},)")
        before = self._heard.get(given.version)
        if before is not None:
            if not before.equals(given):
                raise IncompatibleState(
                    f"version {given.version} has another sum already: an aggregator drew its noise twice"
                )
            return
        if self.finished or given.version != self._asked[-1].version:
            raise ProtocolError(
                f"version {given.version}: expected the sum of version {self._asked[-1].version}"
            )
        heard = self._heard | {given.version: given}
        try:
            self._learn(heard)
        except np.linalg.LinAlgError:
            raise InvalidData(
                f"sums: nothing can be learned from the sum of version {given.version}, which an aggregator "
                "may have changed: leave the version out with skip()"
            ) from None
        # An interrupt before this statement leaves the version open, and the same call goes on.
        self._heard, self._asked = heard, [*self._asked, self._next(given.version + 1)]

    @in_turn
    def skip(self) -> None:
        """Go on to the next version without a sum, for a batch that is lost or too small.

        Raises:
            ProtocolError: All versions are over.
        """
        if self.finished:
            raise ProtocolError("skip: all versions are over")
        self._asked.append(self._next(self._asked[-1].version + 1))

    def _learn(self, found: dict[int, Aggregate]) -> None:
        heard = [found[number] for number in sorted(found)]
        if heard:
            sums = np.stack([one.sums for one in heard])
            asked = [self._asked[one.version] for one in heard]
            learner = copy(self._learner)  # fit() replaces attributes: if it fails, the present one stays
            learner.fit(asked, sums, np.array([one.reports for one in heard]))
            self._learner = learner

    @in_turn
    def estimate(self) -> PublishedVersion:
        """Return the best arms under the posterior mean, with expected rewards in reward units.

        It has the number of the present version, and is for decisions without reports.
        """
        return self._learner.estimate(self._asked[-1])

    @in_turn
    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file: the spec, all versions, and the released sums."""
        heard = [self._heard[number] for number in sorted(self._heard)]
        arrays = {
            **self._learner.kind.packed(self._asked),
            "versions": np.array([one.version for one in heard], dtype=np.int64),
            "reports": np.array([one.reports for one in heard], dtype=np.int64),
            "sums": np.array([one.sums for one in heard], dtype=np.int64).reshape(-1, self.spec.length),
        }
        public = {"spec": self.spec.to_json()}
        holder = self._holder
        write_state(
            path,
            State(
                kind=_KIND,
                version=_FORMAT,
                lineage=holder.lineage,
                position=holder.position,
                public=public,
                arrays=arrays,
            ),
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Continue from a saved state. Published versions are read, not computed again.

        Raises:
            FileNotFoundError: The file does not exist.
            CorruptState: The file is damaged or contradicts itself.
            IncompatibleState: The file holds another kind of object, or versions that do not fit its spec.
        """
        state = read_state(Path(path))
        if (state.kind, state.version) != (_KIND, _FORMAT):
            raise IncompatibleState(f"expected the state of a collector, got {state.kind!r}")
        with reading("the saved state of a collector", CorruptState):
            found = cls(DistributedSpec.from_json(state.public["spec"]))
            found._take_up(**state.arrays)
        return found

    def _take_up(self, *, versions: Any, reports: Any, sums: Any, **asked: Any) -> None:
        """Restore published versions and released sums."""
        self._asked = list(self._learner.kind.unpacked(asked))
        for published in self._asked:
            published.fits(self.spec)
        heard = zip(versions.tolist(), reports.tolist(), sums, strict=True)
        found = [Aggregate(version=version, reports=n, sums=row) for version, n, row in heard]
        numbers = [one.version for one in found]
        most = min(len(self._asked) - 1, len(self.spec.reports_per_version))
        fits = self._asked and len(self._asked) <= len(self.spec.reports_per_version) + 1
        fits = fits and numbers == sorted(set(numbers)) and all(number < most for number in numbers)
        if not fits or sums.shape[1:] != (self.spec.length,):
            raise CorruptState("the saved versions contradict the saved spec")
        self._heard = {one.version: one for one in found}
        self._learn(self._heard)

    def __repr__(self) -> str:
        return said(self, epsilon=self.spec.privacy.epsilon, version=self._asked[-1].version)
