"""The layout of bins: a partition of the unit cube that grows by halving, and the versions published on it.

In shapes, L is the number of bins, K of arms, and dim of context columns. This module needs only NumPy and
the standard library, as clients import it.
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

# Number of partitions of published versions that are cached: more than a server's usual window.
_BINS_KEPT = 32


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedArms(Published):
    """Public message of a server: the bins and, for each, an arm or probabilities of arms.

    Attributes:
        version: Number of the version, from 0.
        splits: Split nodes in order; `BinLayout.partition` rebuilds the bins from them.
        arms: Arm of each of the L bins, shape (L,), if the server chooses; else None.
        weights: Probabilities of the K arms in each bin, shape (L, K), if clients choose; else None.
        mean, sd: Expected rewards and their standard deviations, shape (L, K), in a version from
            `Server.estimate()`; else None, as clients do not need them.
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
        """Read a version of the class that the spec's server publishes; see `Published.from_json`."""
        kind: Any = getattr(getattr(spec, "protocol", None), "publishes", cls)
        if kind is not cls and issubclass(kind, cls):
            read: Self = kind.from_json(text, spec)
            return read
        return super().from_json(text, spec)

    @worded
    def predict(self, spec: Contract[Any], contexts: Any) -> tuple[FloatArray, FloatArray]:
        """Return mean and standard deviation (n, K) of each arm's expected reward, constant within a bin.

        Args: As for `recommend_batch`.

        Raises:
            IncompatibleState, InvalidData: as in `recommend_batch`.
            ProtocolError: this version has no means and deviations.
        """
        self.lineage(spec)
        if self.mean is None or self.sd is None:
            raise ProtocolError("versions for clients have no predictions: use Server.estimate()")
        protocol: Any = spec.protocol
        places = protocol.places(self, contexts)
        return self.mean[places], self.sd[places]

    @worded
    def recommend_batch(self, spec: Contract[Any], contexts: Any) -> tuple[Any, ...]:
        """Return the arm of each context's bin, or the most probable one; see `Published.recommend_batch`.

        Contexts of a box are points (n, dim), or one point (dim,).
        """
        self.lineage(spec)
        protocol: Any = spec.protocol
        places = protocol.places(self, contexts)
        best = self.weights.argmax(axis=1) if self.arms is None and self.weights is not None else self.arms
        if best is None:  # `check` refuses this case; for type checkers
            return ()
        return tuple(protocol.label(arm) for arm in best[places].tolist())

    @worded
    def to_decisions(self, spec: Contract[Any]) -> str:
        """Return JSON that `dpbandits.export.decide_by` evaluates without this library.

        Raises:
            IncompatibleState: the version does not fit the spec.
            InvalidParameter: the spec has columns of a type that cannot be exported.
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
    """Return True if a version has neither `mean` nor `sd`, or both, with finite numbers of this shape."""
    law = [one for one in (published.mean, published.sd) if one is not None]
    return len(law) in (0, 2) and all(one.shape == shape and bool(np.isfinite(one).all()) for one in law)


@dataclass(frozen=True, kw_only=True)
class BinLayout(Layout[PublishedArms]):
    """The layout of bins, which the server's learner splits; a report names a bin.

    Args:
        dim: Number of context columns.
        n_arms: Number of arms.
        chooser: Side that chooses among the arms, server or client.
        tie: Rule that picks among the longest edges of a bin; see `DyadicPartition`.
        seed: Public seed of the partition.
        max_leaves: Largest number of bins.
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
        """Numbers of bins for which the guarantee is computed: powers of two, and `max_leaves`."""
        return (*(2**k for k in range((self.max_leaves - 1).bit_length())), self.max_leaves)

    def partition(self, splits: "list[int] | tuple[int, ...]" = ()) -> DyadicPartition:
        """Return the partition after the splits of these nodes. It is equal on every machine."""
        return DyadicPartition(dim=self.dim, tie=self.tie, seed=self.seed, splits=splits)

    def of(self, published: PublishedArms) -> DyadicPartition:
        """Return the partition of a published version. It is cached and shared: do not split it."""
        return _bins(self.dim, self.tie, self.seed, published.splits)

    def fits(self, published: PublishedArms) -> None:
        """Raise IncompatibleState if a version's bins, arms or probabilities do not fit.

        See `Layout.fits`.
        """
        n_leaves, arms, weights = self.n_cells(published), published.arms, published.weights
        if n_leaves > self.max_leaves:
            raise IncompatibleState("the published version has more bins than the spec allows")
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
        """Return each point's bin, as an index into the version's arms; see `Layout.locate`."""
        partition = self.of(published)
        return np.asarray(partition.rank[partition.locate(points)])

    def n_cells(self, published: PublishedArms) -> int:
        """Return the number of bins; see `Layout.n_cells`."""
        return len(published.splits) + 1

    def asked(self, _published: PublishedArms, place: int) -> CellQuestion:
        """Return the content of a report about a bin: the bin, and a sign that follows the reward."""
        return CellQuestion(place)

    def rule(self, published: PublishedArms) -> dict[str, Any]:
        """Return the bins as a tree, whose leaves hold each arm's probability; see `Layout.rule`."""
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
    whole = values.dtype.kind in "iu" if isinstance(values, np.ndarray) else _made_of(values, int, np.integer)
    if not whole or np.ndim(values) != 1:
        raise InvalidParameter(f"{name}: expected a list of integers")
    return read_only(values, np.int64)


def _numbers(rows: Any, *, name: str) -> FloatArray:
    if isinstance(rows, np.ndarray):
        good = rows.dtype.kind in "iuf"
    else:
        good = all(_made_of(row, int, float, np.integer, np.floating) for row in rows)
    if not good or np.ndim(rows) != 2:
        raise InvalidParameter(f"{name}: expected rows of numbers")
    return read_only(rows, np.float64)


def _made_of(values: Any, *kinds: type) -> bool:
    return all(issubclass(kind, kinds) and kind is not bool for kind in set(map(type, values)))
