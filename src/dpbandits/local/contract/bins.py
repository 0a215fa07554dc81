"""The layout of bins: a partition of the unit cube that grows by halving, and what is published on it.

NumPy and the standard library only: devices read it.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal, Self

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import assign, integer
from dpbandits._reading import reading
from dpbandits._seen import said
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import IncompatibleState, InvalidParameter, ProtocolError
from dpbandits.local.contract.layout import CellQuestion, Layout
from dpbandits.local.contract.reports import Contract, Published, read_only
from dpbandits.models.trees.partition import DyadicPartition, TieRule

__all__ = ["BinLayout", "Chooser", "PublishedArms", "has_law"]

Chooser = Literal["server", "client"]

# Published versions whose bins are kept at hand: more than the usual window of a server.
_BINS_KEPT = 32


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedArms(Published):
    """Message of the server to everyone: bins and, for each, an arm or probabilities of arms.

    Attributes:
        version: counts up from 0.
        splits: split nodes in order; `BinLayout.partition` rebuilds the bins.
        arms: (L,) the arm every bin pulls where the server chooses, or None.
        weights: (L, K) probabilities of arms where clients choose, or None.
        mean, sd: (L, K) expected rewards and their standard deviations, where it comes of
            `Server.estimate()`, else None: devices need none.
    """

    kind = "PublishedArms"
    aside = frozenset({"mean", "sd"})

    version: int
    splits: tuple[int, ...]
    arms: IntArray | None = None
    weights: FloatArray | None = None
    mean: FloatArray | None = None
    sd: FloatArray | None = None

    def __repr__(self) -> str:
        chooser = "client" if self.arms is None else "server"
        return said(self, version=self.version, bins=len(self.splits) + 1, chooser=chooser)

    def __post_init__(self) -> None:
        with reading("published arms", IncompatibleState):
            if integer(self.version, name="version", minimum=0) >= 1 << 32:
                raise InvalidParameter("version: expected an integer below 2^32")
            assign(self, splits=tuple(_integers(self.splits, name="splits").tolist()))
            if self.arms is not None:
                assign(self, arms=_integers(self.arms, name="arms"))
            for name in ("weights", "mean", "sd"):
                if (rows := getattr(self, name)) is not None:
                    assign(self, **{name: _numbers(rows, name=name)})

    @classmethod
    def from_json(cls, text: str, spec: Contract[Any]) -> Self:
        """See `Published.from_json`: what the spec's server publishes, bins or questions."""
        kind: Any = getattr(getattr(spec, "protocol", None), "publishes", cls)
        if kind is not cls and issubclass(kind, cls):
            read: Self = kind.from_json(text, spec)
            return read
        return super().from_json(text, spec)

    @worded
    def predict(self, spec: Contract[Any], contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation (n, K) of every arm's expected reward: the same in all of a bin.

        Args: as for `recommend_batch`.

        Raises:
            IncompatibleState, InvalidData: as `recommend_batch`.
            ProtocolError: nothing is said of rewards here.
        """
        self.lineage(spec)
        if self.mean is None or self.sd is None:
            raise ProtocolError("devices are told arms alone: ask the server for estimate(), which predicts")
        protocol: Any = spec.protocol
        places = protocol.places(self, contexts)
        return self.mean[places], self.sd[places]

    @worded
    def recommend_batch(self, spec: Contract[Any], contexts: Any) -> tuple[Any, ...]:
        """See `Published.recommend_batch`: the arm of everybody's bin, or its likeliest one.

        Where the spec's contexts are a box: points (n, dim), or (dim,) of one person.
        """
        self.lineage(spec)
        protocol: Any = spec.protocol
        places = protocol.places(self, contexts)
        best = self.weights.argmax(axis=1) if self.arms is None and self.weights is not None else self.arms
        if best is None:  # refused by `check`; for type checkers
            return ()
        return tuple(protocol.label(arm) for arm in best[places].tolist())

    @worded
    def to_decisions(self, spec: Contract[Any]) -> str:
        """JSON that decides without this library: see `dpbandits.export.decide_by`.

        Raises:
            IncompatibleState: as `check`.
            InvalidParameter: columns of the spec that are not exported.
        """
        from dpbandits.export import decisions

        self.lineage(spec)
        protocol: Any = spec.protocol
        schema, box = protocol.schema, protocol.domain
        bounds = zip(box.low.tolist(), box.high.tolist(), strict=True)
        return decisions.written_policy(
            protocol.layout.rule(self),
            schema=schema,
            arms=protocol.arms.labels,
            version=self.version,
            bounds=() if schema is not None else tuple(bounds),
            clip=schema is not None,
        )


def has_law(published: PublishedArms, shape: tuple[int, int]) -> bool:
    """Return True if a version has no mean and no deviation, or both, finite and of this shape."""
    law = [one for one in (published.mean, published.sd) if one is not None]
    return len(law) in (0, 2) and all(one.shape == shape and bool(np.isfinite(one).all()) for one in law)


@dataclass(frozen=True, kw_only=True)
class BinLayout(Layout[PublishedArms]):
    """Bins that the server's learner splits; a report names the bin.

    Args:
        dim: number of context columns.
        n_arms: number of arms.
        chooser: who chooses among the arms.
        tie: which longest edge of a bin is halved, see `DyadicPartition`.
        seed: public randomness of the partition.
        max_leaves: bound on the number of bins.
    """

    dim: int
    n_arms: int
    chooser: Chooser
    tie: TieRule
    seed: int
    max_leaves: int

    publishes = PublishedArms

    @cached_property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """One bin, all, and powers of two between."""
        return (*(2**k for k in range((self.max_leaves - 1).bit_length())), self.max_leaves)

    def partition(self, splits: "list[int] | tuple[int, ...]" = ()) -> DyadicPartition:
        """The partition after these splits, the same on every machine."""
        return DyadicPartition(dim=self.dim, tie=self.tie, seed=self.seed, splits=splits)

    def of(self, published: PublishedArms) -> DyadicPartition:
        """The partition of a published version: shared by all who ask, so do not split it."""
        return _bins(self.dim, self.tie, self.seed, published.splits)

    def fits(self, published: PublishedArms) -> None:
        """See `Layout.fits`: bins, arms or probabilities."""
        n_leaves, arms, weights = self.n_cells(published), published.arms, published.weights
        if n_leaves > self.max_leaves:
            raise IncompatibleState("the published bins are more than the spec allows")
        with reading("published bins of the spec", IncompatibleState):
            self.of(published)
        good = False
        if self.chooser == "server" and arms is not None and weights is None:
            good = arms.shape == (n_leaves,) and bool(((arms >= 0) & (arms < self.n_arms)).all())
        elif self.chooser == "client" and weights is not None and arms is None and (weights >= 0).all():
            good = weights.shape == (n_leaves, self.n_arms) and np.allclose(weights.sum(axis=-1), 1.0)
        if not (good and has_law(published, (n_leaves, self.n_arms))):
            raise IncompatibleState("the published arms do not fit the spec and its bins")

    def locate(self, published: PublishedArms, points: FloatArray) -> IntArray:
        """See `Layout.locate`: bins, as the arms of a version go."""
        partition = self.of(published)
        return np.asarray(partition.rank[partition.locate(points)])

    def n_cells(self, published: PublishedArms) -> int:
        """See `Layout.n_cells`: bins."""
        return len(published.splits) + 1

    def asked(self, _published: PublishedArms, place: int) -> CellQuestion:
        """See `Layout.asked`: the bin and the reward."""
        return CellQuestion(place)

    def rule(self, published: PublishedArms) -> dict[str, Any]:
        """See `Layout.rule`: the bins as a tree, whose leaves say every arm's chance."""
        from dpbandits.export import decisions

        bins, arms, weights = self.of(published), published.arms, published.weights
        told = decisions.chosen(arms.tolist(), self.n_arms) if arms is not None else []
        told = told if weights is None else weights.tolist()
        nodes: list[dict[str, Any]] = []
        for node in range(bins.n_nodes):
            if bins.left[node] < 0:
                nodes.append({"scores": told[bins.rank[node]]})
                continue
            split = {"column": int(bins.split_column[node]), "at": float(bins.threshold[node])}
            nodes.append(split | {"below": int(bins.left[node]), "above": int(bins.right[node])})
        return {"type": "tree", "nodes": nodes}


@lru_cache(maxsize=_BINS_KEPT)
def _bins(dim: int, tie: TieRule, seed: int, splits: tuple[int, ...]) -> DyadicPartition:
    return DyadicPartition(dim=dim, tie=tie, seed=seed, splits=splits)


def _integers(values: Any, *, name: str) -> IntArray:
    """(n,) integers that nobody changes any more; nothing is rounded, and no boolean is one."""
    whole = values.dtype.kind in "iu" if isinstance(values, np.ndarray) else _made_of(values, int, np.integer)
    if not whole or np.ndim(values) != 1:
        raise InvalidParameter(f"{name}: expected integers, one after another")
    return read_only(values, np.int64)


def _numbers(rows: Any, *, name: str) -> FloatArray:
    """(n, m) numbers that nobody changes any more, none of them a boolean."""
    if isinstance(rows, np.ndarray):
        good = rows.dtype.kind in "iuf"
    else:
        good = all(_made_of(row, int, float, np.integer, np.floating) for row in rows)
    if not good or np.ndim(rows) != 2:
        raise InvalidParameter(f"{name}: expected rows of numbers")
    return read_only(rows, np.float64)


def _made_of(values: Any, *kinds: type) -> bool:
    return all(issubclass(kind, kinds) and kind is not bool for kind in set(map(type, values)))
