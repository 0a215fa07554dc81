"""Public versions of the policy: arms of cells (`PublishedCellArms`), or weights (`PublishedTableArms`).

This module needs only NumPy and the standard library, as devices import it.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
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
from dpbandits.models.marginals.effects import Effects
from dpbandits.models.marginals.tables import Design

__all__ = ["PublishedCellArms", "PublishedTableArms", "PublishedVersion"]

_SPEC = "the DistributedSpec that the version was published for"

MOST_DRAWS = 256
"""Largest number of draws that a device accepts in a version."""

_USERS = 1 << 14
"""Number of users whose features are in memory at a time."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedVersion(Seen, Configured):
    """Version that a collector publishes. It is computed from released sums and public coins alone.

    Attributes:
        version: Number of the version, from 0.
    """

    version: int

    def fits(self, spec: DistributedSpec) -> None:
        """Raise IncompatibleState if the version does not fit the spec's columns and arms."""
        raise NotImplementedError

    def at(self, spec: DistributedSpec, points: FloatArray, coins: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the arms (n,) of n users, and the places (n,) that their reports name.

        Args:
            spec: The public contract.
            points: Points of the unit cube from `DistributedSpec.points`, shape (n, dim).
            coins: Uniform numbers in [0, 1), shape (n, 2).
        """
        raise NotImplementedError

    def law(self, spec: DistributedSpec, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n, K) of every arm's expected reward.

        Raises:
            ProtocolError: The version is not from `Collector.estimate()`.
        """
        raise NotImplementedError

    @worded
    def recommend_batch(self, spec: DistributedSpec, contexts: Any) -> tuple[Any, ...]:
        """Return the arm of each of n contexts, for decisions without reports.

        Contexts have any form that `Menu.encode` takes. If the version has several draws, the first decides.

        Raises:
            IncompatibleState: The version does not fit the spec.
            InvalidData: A context cannot be read; the message names columns and never a value.
        """
        self.fits(spec)
        points = spec.points(contexts)
        return tuple(spec.arms[arm] for arm in self.at(spec, points, np.zeros((len(points), 2)))[0].tolist())

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
        return self.law(spec, spec.points(contexts))

    @worded
    def to_json(self, spec: DistributedSpec) -> str:
        """Return the version as JSON, with the digest of the spec that it belongs to."""
        self.fits(spec)
        config = {name: value for name, value in self.to_config().items() if value is not None}
        return json.dumps({"kind": type(self).__name__, "spec": spec.fingerprint} | config, sort_keys=True)

    @classmethod
    @worded
    def from_json(cls, text: str, spec: DistributedSpec) -> Self:
        """Read a published version. Raise IncompatibleState if it is no complete version of this spec."""
        an(spec, DistributedSpec, name="spec", pass_=_SPEC)
        what = f"the JSON of a {cls.__name__}"
        with reading(what, IncompatibleState):
            if not isinstance(text, str | bytes):
                raise InvalidParameter(
                    f"a {type(text).__name__} came, expected the text that to_json() wrote"
                )
            config = json_object(text, what, IncompatibleState)
            if (config.pop("kind"), config.pop("spec")) != (cls.__name__, spec.fingerprint):
                raise IncompatibleState(
                    "the version belongs to another spec: ask the collector for both again"
                )
            published = cls.from_config(config)
        published.fits(spec)
        return published

    @classmethod
    def packed(cls, versions: Sequence[Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arrays of a saved state for versions 0, 1, and so on."""
        raise NotImplementedError

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "list[Self]":
        """Return the versions of the arrays from `packed`."""
        raise NotImplementedError

    def _hold(self, name: str, kinds: str, dtype: type) -> None:
        """Make a field an array that cannot be written, if it is not None."""
        if (given := getattr(self, name)) is None:
            return
        array = np.array(given)
        if array.dtype.kind not in kinds:
            raise InvalidParameter(f"{name}: expected a list of numbers")
        array = array.astype(dtype)
        array.flags.writeable = False
        assign(self, **{name: array})


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedCellArms(PublishedVersion):
    """Version of a spec with cells: one arm for every cell.

    Attributes:
        version: Number of the version, from 0.
        arms: Arm of each of the C cells, shape (C,).
        mean, sd: Expected rewards of the K arms and their standard deviations, shape (C, K), in a version
            from `Collector.estimate()`; else None, as devices do not need them.

    Raises:
        IncompatibleState: The tables do not form a version.
    """

    arms: IntArray
    mean: FloatArray | None = None
    sd: FloatArray | None = None

    def __post_init__(self) -> None:
        with reading("published cells", IncompatibleState):
            assign(self, version=integer(self.version, name="version", minimum=0))
            self._hold("arms", "iu", np.int64)
            self._hold("mean", "iuf", np.float64)
            self._hold("sd", "iuf", np.float64)

    def __repr__(self) -> str:
        return said(self, version=self.version, cells=len(self.arms))

    def fits(self, spec: DistributedSpec) -> None:
        """Raise IncompatibleState if cells or arms do not fit the spec."""
        an(spec, DistributedSpec, name="spec", pass_=_SPEC)
        size = spec.places if spec.effects is None else -1
        good = self.arms.shape == (size,)
        good = good and bool(((self.arms >= 0) & (self.arms < spec.n_arms)).all())
        law = [table for table in (self.mean, self.sd) if table is not None]
        good = good and len(law) in (0, 2)
        if not (
            good and all(one.shape == (size, spec.n_arms) and bool(np.isfinite(one).all()) for one in law)
        ):
            raise IncompatibleState("the published cells do not fit the spec's grid and arms")

    def at(self, spec: DistributedSpec, points: FloatArray, coins: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the arms (n,) of the users' cells, and the cells (n,); see `PublishedVersion.at`."""
        cells = spec.grid.locate(points)
        return self.arms[cells], cells

    def law(self, spec: DistributedSpec, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n, K) in the users' cells; see `PublishedVersion.law`."""
        if self.mean is None or self.sd is None:
            raise ProtocolError("versions for devices have no predictions: use Collector.estimate()")
        cells = spec.grid.locate(points)
        return self.mean[cells], self.sd[cells]

    @classmethod
    def packed(cls, versions: Sequence[Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return the arms of all versions."""
        return {"arms": np.stack([one.arms for one in versions])}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "list[Self]":
        """Return the versions of these arms."""
        (arms,) = arrays.values()
        return [cls(version=number, arms=row) for number, row in enumerate(arms)]


@lru_cache(maxsize=64)
def _effects(
    sizes: tuple[int, ...], ordered: tuple[bool, ...], pairs: tuple[tuple[int, int], ...]
) -> Effects:
    return Effects(sizes, ordered, pairs)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedTableArms(PublishedVersion):
    """Version of a spec with marginal tables: the tables of the reports, and weights that choose arms.

    A device takes one of the S draws at random, and the arm with the largest expected reward under its
    weights. Without draws it takes a random arm. It takes one of the tables, all with the same probability,
    and reports its arm and its cell there. Both coins are the device's own, and nobody else sees them.

    Attributes:
        version: Number of the version, from 0.
        design: Tables of this version, as `Design.to_array` writes them.
        pairs: Columns (i, j) whose interactions have weights, shape (p, 2); None for all.
        draws: Weights of the effects, shape (S, K, m) for K arms and m effects; None for random arms.
        factor: Factors F of the weights' covariances F F^T, shape (K, m, m), in a version from
            `Collector.estimate()`; else None, as devices do not need them.

    Raises:
        IncompatibleState: The arrays do not form a version.
    """

    design: IntArray
    draws: FloatArray | None = None
    pairs: IntArray | None = None
    factor: FloatArray | None = None

    def __post_init__(self) -> None:
        with reading("published weights", IncompatibleState):
            assign(self, version=integer(self.version, name="version", minimum=0))
            for name, kinds, dtype in (
                ("design", "iu", np.int64),
                ("draws", "iuf", np.float64),
                ("pairs", "iuf", np.int64),
                ("factor", "iuf", np.float64),
            ):
                self._hold(name, kinds, dtype)

    def __repr__(self) -> str:
        return said(self, version=self.version, tables=len(self.design))

    def tables(self, spec: DistributedSpec) -> Design:
        """Return the tables of this version's reports."""
        return Design.of_array(self.effects(spec).sizes, self.design)

    def effects(self, spec: DistributedSpec) -> Effects:
        """Return the functions whose weights the version has."""
        if spec.effects is None:
            raise IncompatibleState("the spec has cells, and no marginal tables")
        if self.pairs is None:
            return spec.effects
        pairs = tuple((i, j) for i, j in self.pairs.reshape(-1, 2).tolist())
        if pairs != tuple(sorted({*pairs})) or any(not 0 <= i < j for i, j in pairs):
            raise IncompatibleState("pairs: expected columns (i, j), i < j, in order")
        return _effects(spec.effects.sizes, spec.effects.ordered, pairs)

    def fits(self, spec: DistributedSpec) -> None:
        """Raise IncompatibleState if tables or weights do not fit the spec."""
        an(spec, DistributedSpec, name="spec", pass_=_SPEC)
        with reading("weights for this spec", IncompatibleState):
            effects, tables = self.effects(spec), self.tables(spec)
            shape, good = (spec.n_arms, effects.n_weights), tables.fits(spec.places // spec.n_arms)
            if self.draws is not None:
                good = good and self.draws.shape[1:] == shape and 0 < len(self.draws) <= MOST_DRAWS
                good = good and bool(np.isfinite(self.draws).all())
            if self.factor is not None:
                good = good and self.factor.shape == (*shape, shape[1]) and self.draws is not None
                good = good and bool(np.isfinite(self.factor).all())
            if not good:
                raise IncompatibleState("the published weights do not fit the spec's columns and arms")

    def at(self, spec: DistributedSpec, points: FloatArray, coins: FloatArray) -> tuple[IntArray, IntArray]:
        """Return the arms (n,) and places (n,): arm and cell of a drawn table; see `PublishedVersion.at`."""
        effects, tables = self.effects(spec), self.tables(spec)
        arms, cells = np.empty(len(points), dtype=np.int64), np.empty(len(points), dtype=np.int64)
        for start in range(0, len(points), _USERS):
            rows = slice(start, start + _USERS)
            levels, coin = levels_of(effects, points[rows]), coins[rows]
            arms[rows] = self._chosen(spec, levels, coin[:, 0])
            located = tables.locate(levels)
            which = (coin[:, 1] * located.shape[1]).astype(np.int64)
            cells[rows] = np.take_along_axis(located, which[:, None], axis=1)[:, 0]
        return arms, arms * tables.n_cells + cells

    def shares(self, spec: DistributedSpec, levels: IntArray) -> FloatArray:
        """Return the probability (n, K) of every arm for users with these levels of columns (n, d)."""
        if self.draws is None:
            return np.full((len(levels), spec.n_arms), 1.0 / spec.n_arms)
        phi, every = self.effects(spec)(levels), np.arange(spec.n_arms)
        best = [(phi @ draw.T).argmax(axis=1)[:, None] == every for draw in self.draws]
        return np.asarray(np.mean(best, axis=0))

    def _chosen(self, spec: DistributedSpec, levels: IntArray, coins: FloatArray) -> IntArray:
        """Return the arms (n,) of users with levels (n, d), each by the draw that its coin (n,) selects."""
        if self.draws is None:
            return (coins * spec.n_arms).astype(np.int64)
        phi, which = self.effects(spec)(levels), (coins * len(self.draws)).astype(np.int64)
        found = np.empty(len(levels), dtype=np.int64)
        for number, draw in enumerate(self.draws):
            own = which == number
            found[own] = (phi[own] @ draw.T).argmax(axis=1)
        return found

    def law(self, spec: DistributedSpec, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n, K) of expected rewards; see `PublishedVersion.law`."""
        if self.factor is None or self.draws is None:
            raise ProtocolError("versions for devices have no predictions: use Collector.estimate()")
        effects, bounds = self.effects(spec), spec.reward_range
        mean, sd = np.empty((2, len(points), spec.n_arms))
        for start in range(0, len(points), _USERS):
            rows = slice(start, start + _USERS)
            phi = effects(levels_of(effects, points[rows]))
            mean[rows] = 0.5 + phi @ self.draws[0].T
            for arm, factor in enumerate(self.factor):
                sd[rows, arm] = np.linalg.norm(phi @ factor, axis=1)
        return bounds.low + bounds.width * mean, bounds.width * sd

    @classmethod
    def packed(cls, versions: Sequence[Any]) -> dict[str, np.ndarray[Any, Any]]:
        """Return tables, pairs and weights of all versions."""
        return {
            f"{name}_{number}": value
            for number, one in enumerate(versions)
            for name in ("design", "draws", "pairs")
            if (value := getattr(one, name)) is not None
        }

    @classmethod
    def unpacked(cls, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "list[Self]":
        """Return the versions of these arrays."""
        held: dict[int, dict[str, Any]] = {}
        for name, value in arrays.items():
            kind, number = name.rsplit("_", 1)
            held.setdefault(int(number), {})[kind] = value
        return [cls(version=number, **held[number]) for number in range(len(held))]


def levels_of(effects: Effects, points: FloatArray) -> IntArray:
    """Return the levels (n, d) of points of the unit cube (n, d), ranges and categories alike."""
    sizes = np.array(effects.sizes)
    return np.asarray(np.clip((points * sizes).astype(np.int64), 0, sizes - 1))
