"""`PublishedCellArms`: a public version of the policy, with one arm for every cell.

This module needs only NumPy and the standard library, as devices import it.
"""

import json
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import an, assign, integer
from dpbandits._config import Configured
from dpbandits._reading import json_object, reading
from dpbandits._seen import Seen, said
from dpbandits._typing import FloatArray, IntArray
from dpbandits.distributed.spec import DistributedSpec
from dpbandits.errors import IncompatibleState, InvalidData, InvalidParameter, ProtocolError

__all__ = ["PublishedCellArms"]

_SPEC = "the DistributedSpec that the version was published for"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedCellArms(Seen, Configured):
    """Version that a collector publishes. It is computed from released sums and public coins alone.

    Attributes:
        version: Number of the version, from 0.
        arms: Arm of each of the C cells, shape (C,).
        mean, sd: Expected rewards of the K arms and their standard deviations, shape (C, K), in a version
            from `Collector.estimate()`; else None, as devices do not need them.

    Raises:
        IncompatibleState: The tables do not form a version.
    """

    version: int
    arms: IntArray
    mean: FloatArray | None = None
    sd: FloatArray | None = None

    def __post_init__(self) -> None:
        with reading("published cells", IncompatibleState):
            assign(self, version=integer(self.version, name="version", minimum=0))
            arms = np.array(self.arms)
            if arms.ndim != 1 or arms.dtype.kind not in "iu":
                raise InvalidParameter("arms: expected a list of integers")
            arms = arms.astype(np.int64)
            arms.flags.writeable = False
            assign(self, arms=arms)
            for name in ("mean", "sd"):
                if (rows := getattr(self, name)) is not None:
                    table = np.array(rows, dtype=np.float64)
                    table.flags.writeable = False
                    assign(self, **{name: table})

    def __repr__(self) -> str:
        return said(self, version=self.version, cells=len(self.arms))

    def fits(self, spec: DistributedSpec) -> None:
        """Raise IncompatibleState if cells or arms do not fit the spec."""
        an(spec, DistributedSpec, name="spec", pass_=_SPEC)
        good = self.arms.shape == (spec.grid.size,)
        good = good and bool(((self.arms >= 0) & (self.arms < spec.n_arms)).all())
        law = [table for table in (self.mean, self.sd) if table is not None]
        shape = (spec.grid.size, spec.n_arms)
        good = good and len(law) in (0, 2)
        if not (good and all(one.shape == shape and bool(np.isfinite(one).all()) for one in law)):
            raise IncompatibleState("the published cells do not fit the spec's grid and arms")

    @worded
    def recommend_batch(self, spec: DistributedSpec, contexts: Any) -> tuple[Any, ...]:
        """Return the arm of each of n contexts, for decisions without reports.

        Contexts have any form that `Menu.encode` takes.

        Raises:
            IncompatibleState: The version does not fit the spec.
            InvalidData: A context cannot be read; the message names columns and never a value.
        """
        self.fits(spec)
        return tuple(spec.arms[arm] for arm in self.arms[spec.grid.locate(spec.points(contexts))].tolist())

    @worded
    def recommend(self, spec: DistributedSpec, context: Any) -> Any:
        """Return the arm of one person; see `recommend_batch`. Raise InvalidData for several people."""
        best = self.recommend_batch(spec, context)
        if len(best) != 1:
            raise InvalidData(f"recommend: {len(best)} people, expected one: use recommend_batch")
        return best[0]

    @worded
    def predict(self, spec: DistributedSpec, contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation of each arm's expected reward for n contexts, shape (n, K) each.

        Raises:
            IncompatibleState, InvalidData: As for `recommend_batch`.
            ProtocolError: This version has no means and deviations.
        """
        self.fits(spec)
        if self.mean is None or self.sd is None:
            raise ProtocolError("versions for devices have no predictions: use Collector.estimate()")
        cells = spec.grid.locate(spec.points(contexts))
        return self.mean[cells], self.sd[cells]

    @worded
    def to_json(self, spec: DistributedSpec) -> str:
        """Return the version as JSON, with the digest of the spec that it belongs to."""
        self.fits(spec)
        config = {name: value for name, value in self.to_config().items() if value is not None}
        return json.dumps({"kind": "PublishedCellArms", "spec": spec.fingerprint} | config, sort_keys=True)

    @classmethod
    @worded
    def from_json(cls, text: str, spec: DistributedSpec) -> Self:
        """Read a published version. Raise IncompatibleState if it is no complete version of this spec."""
        an(spec, DistributedSpec, name="spec", pass_=_SPEC)
        what = "the JSON of a PublishedCellArms"
        with reading(what, IncompatibleState):
            if not isinstance(text, str | bytes):
                raise InvalidParameter(
                    f"a {type(text).__name__} came, expected the text that to_json() wrote"
                )
            config = json_object(text, what, IncompatibleState)
            if (config.pop("kind"), config.pop("spec")) != ("PublishedCellArms", spec.fingerprint):
                raise IncompatibleState(
                    "the version belongs to another spec: ask the collector for both again"
                )
            published = cls.from_config(config)
        published.fits(spec)
        return published
