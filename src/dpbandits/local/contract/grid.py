"""Questions of a server to its devices: one table over a public grid, and the report that answers it.

A version has, for every cell g of a public grid over the context's columns, the *arm* a(g) that is given
there, a *part* c(g) of C, and a *sign* phi(g) of -1 or 1. A device finds its own g, takes arm a(g), and
draws s = 1 with the probability that its reward has on a scale from 0 to 1, else s = -1; where the version
asks about the *place* and not about the reward, s = 1. It reports one of 2C pairs, (c(g), s phi(g)), under
the spec's mechanism over C cells: k-ary randomised response, as a rule. That is one bit about a function
of the context and the reward, for C = 1; what C parts add is which of C sets of contexts it is about.

**Privacy.** Whatever a, c and phi are, a device's input to the mechanism is one of 2C pairs, and any two
of these give any report with probabilities within exp(epsilon). So it holds for any two (context, reward)
of any person, for every table a server may publish: for one that learned from everybody else's reports,
for one written by whoever wants to know where this person is, for one that depends on the person's own
earlier reports. A server that writes its tables one after another, each after having seen all reports
before, learns of one person, who reports k times, at most k epsilon: given the past the k-th table is a
constant, so the ratio of the laws of all that it has seen multiplies by at most exp(epsilon) a report
(adaptive composition; Dwork, Rothblum and Vadhan, 2010). A device that pays for one report makes one, and
loses at most epsilon, *whatever is asked*. Whoever sees which arm a device takes learns a(g) besides, as
from any public policy.

`docs/reference/byte-formats.md` describes the JSON of a version (`PublishedQuestions.to_json`).
The cell of a context x in the unit cube is that of floor(x_j m_j), at most m_j - 1, in column j, the last
column running fastest; m is `Grid.sizes`.

**Many columns.** A grid over all columns is used if it gives every range at least 6 cells, or at least 10
with more than three columns. Otherwise every version is over some of the columns, which it names: a range
then has 8 cells, and a category one for each value. A device takes the
cell of its own values in these columns, and its report says nothing of the others; the proof above holds word
for word, as a, c and phi are functions of the context all the same. A version has at most `MOST_CELLS` cells
whatever the number of columns, so that ten columns cost as many bytes as three.

NumPy and the standard library only: devices read it.
"""

import base64
import binascii
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from dpbandits import _checks
from dpbandits._checks import assign
from dpbandits._reading import reading
from dpbandits._seen import said
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.local.contract.bins import PublishedArms, has_law
from dpbandits.local.contract.layout import CellQuestion, Layout
from dpbandits.local.contract.reports import read_only

__all__ = [
    "MOST_ASKED",
    "MOST_PARTS",
    "About",
    "Grid",
    "GridLayout",
    "PublishedQuestions",
    "asks_about",
    "fits_a_grid",
]

About = Literal["reward", "place"]

MOST_PARTS = 16
"""Parts C of a version at most: more add little below epsilon = 5, and lengthen a version."""

MOST_ASKED = 12
"""Arms up to which a spec takes the learner of questions by itself; with more its model is coarse."""

MOST_CELLS = 1400
"""Cells of a grid at most: a version with 16 parts then has under 2 KB with 8 arms, and 2.2 KB with 12."""

_FEWEST_A_SIDE, _FEW, _FEWEST_OF_MORE = 6, 3, 10
"""Fewest cells of a range on a grid over all columns: the first number with at most `_FEW` columns, the last
with more. With fewer cells versions name some of the columns instead."""

_MOST_A_SIDE = 64

_SIDE_OF_MANY = 8
"""Cells of a range where versions name their columns."""

MOST_COLUMNS = 64
"""Columns that are asked about: each of them has a learner of its own."""

# Grids of versions that are kept at hand: more than the usual window of a server.
_GRIDS_KEPT = 32


@dataclass(frozen=True)
class Grid:
    """A public grid over the unit cube of a spec's columns, or of some of them.

    Attributes:
        sizes: cells along every column that it is over.
        columns: which of the spec's columns these are; empty: all.

    Example:
        >>> grid = Grid((4, 2))
        >>> grid.size, grid.locate(np.array([[0.3, 0.9], [1.0, 1.0]])).tolist()
        (8, [3, 7])
    """

    sizes: tuple[int, ...]
    columns: tuple[int, ...] = ()

    @classmethod
    def of(cls, dim: int, categories: Mapping[int, int]) -> "Grid":
        """For `dim` columns, of which some are codes: a category has a cell, ranges have as many as are left.

        Example:
            >>> Grid.of(2, {1: 5}).sizes
            (64, 5)

        Raises:
            InvalidParameter: a range would have too few cells, or categories alone need too many.
        """
        n_ranges = dim - len(categories)
        room = MOST_CELLS // math.prod(categories.values())
        side = min(_MOST_A_SIDE, math.floor(room ** (1.0 / n_ranges) + 1e-9)) if n_ranges and room else 1
        fewest = _FEWEST_A_SIDE if dim <= _FEW else _FEWEST_OF_MORE
        if not room or (n_ranges and side < fewest):
            raise InvalidParameter(f"{dim} columns are more than a grid of {MOST_CELLS} cells tells apart")
        return cls(tuple(categories.get(column, side) for column in range(dim)))

    @classmethod
    def over(cls, columns: tuple[int, ...], categories: Mapping[int, int]) -> "Grid":
        """Over some of the columns of a spec that has many.

        Example:
            >>> Grid.over((1, 4), {4: 3}).sizes
            (8, 3)
        """
        return cls(tuple(categories.get(column, _SIDE_OF_MANY) for column in columns), columns)

    @cached_property
    def size(self) -> int:
        """Number of cells."""
        return math.prod(self.sizes)

    @cached_property
    def centres(self) -> FloatArray:
        """(G, dim) the cells' middles in the unit cube."""
        places = np.stack(np.unravel_index(np.arange(self.size), self.sizes), axis=1)
        return np.asarray((places + 0.5) / np.array(self.sizes))

    def locate(self, points: FloatArray) -> IntArray:
        """(n,) cells of points (n, dim) of the unit cube, with all columns of the spec."""
        sizes, strides = self._steps
        points = points[:, self.columns] if self.columns else points
        return np.asarray(np.minimum((points * sizes).astype(np.int64), sizes - 1) @ strides)

    @cached_property
    def _steps(self) -> tuple[IntArray, IntArray]:
        """(dim,) cells along every column, and how far apart neighbours along it are numbered."""
        sizes = np.array(self.sizes, dtype=np.int64)
        return sizes, np.append(np.cumprod(sizes[:0:-1])[::-1], 1).astype(np.int64)


def fits_a_grid(dim: int, categories: Mapping[int, int]) -> bool:
    """Return whether `Grid.of` takes these columns."""
    try:
        Grid.of(dim, categories)
    except InvalidParameter:
        return False
    return True


def asks_about(dim: int, categories: Mapping[int, int]) -> bool:
    """Return whether devices can be asked about these columns: on one grid, or about some at a time.

    Args:
        dim: number of columns.
        categories: number of categories of each column that is one.
    """
    return dim <= MOST_COLUMNS and max(categories.values(), default=0) <= MOST_CELLS


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedQuestions(PublishedArms):
    """A version of the learner `questions`: arms on a grid, and what devices are asked.

    Attributes:
        version: counts up from 0.
        arms: (G,) the arm that every cell of the grid gives.
        parts: (G,) the part that it is in.
        turned: (G,) whether its sign is -1: it then reports the opposite of what its reward says.
        about: whether devices answer about their `reward`, or about their `place` alone.
        columns: which of the spec's columns the grid is over, ascending; empty: all.
        mean, sd: (G, K), as for `PublishedArms`.

    Privacy: a device's report keeps its promise whatever stands here; see the module.

    Raises:
        IncompatibleState: what came is no table.
    """

    kind = "PublishedQuestions"

    splits: tuple[int, ...] = ()
    parts: IntArray
    turned: BoolArray
    about: About = "reward"
    columns: tuple[int, ...] = ()

    config_omits: ClassVar[frozenset[str]] = frozenset({"splits", "weights", "arms", "parts", "turned"})
    config_parsers: ClassVar[Mapping[str, Any]] = {"columns": tuple}
    unwritten: ClassVar[frozenset[str]] = frozenset({"columns"})

    def __repr__(self) -> str:
        return said(self, version=self.version, cells=len(self.parts), about=self.about)

    def __post_init__(self) -> None:
        super().__post_init__()
        with reading("published questions", IncompatibleState):
            _checks.one_of(self.about, get_args(About), name="about")
            columns = tuple(_checks.integer(one, name="columns", minimum=0) for one in self.columns)
            if columns != tuple(sorted(set(columns))):
                raise InvalidParameter("columns: expected ascending numbers")
            assign(self, columns=columns)
            arms = self.arms
            if arms is None or self.splits or self.weights is not None:
                raise InvalidParameter("expected arms of a grid's cells, and neither bins nor weights")
            for name, kinds, kind in (("parts", "iu", np.int64), ("turned", "b", np.bool_)):
                table = np.asarray(getattr(self, name))
                if table.dtype.kind not in kinds or table.shape != arms.shape:
                    raise InvalidParameter(f"{name}: expected one entry a cell")
                assign(self, **{name: read_only(table, kind)})

    def to_config(self) -> dict[str, Any]:
        """JSON-ready; see the module."""
        arms = np.asarray(self.arms)
        bits = [int(most).bit_length() for most in (arms.max(initial=0), self.parts.max(initial=0))]
        codes = 2 * arms + self.turned + (self.parts << (bits[0] + 1))
        table = base64.b64encode(_packed(codes, sum(bits) + 1)).decode()
        law = {name: getattr(self, name) for name in ("mean", "sd") if getattr(self, name) is not None}
        config = {"version": self.version, "about": self.about, "bits": bits, "size": len(arms)}
        config |= {"columns": list(self.columns)} if self.columns else {}
        return config | {"table": table} | {name: rows.tolist() for name, rows in law.items()}

    @classmethod
    def arguments(cls, config: Mapping[str, Any]) -> dict[str, Any]:
        """See `Configured.arguments`; a text of another length than its size says is refused unread."""
        fields = dict(config)
        if cls.config_omits & fields.keys():
            raise InvalidParameter("table: what it says stands beside it once more")
        arm_bits, part_bits = (_checks.integer(one, name="bits", minimum=0) for one in fields.pop("bits"))
        size, table = _checks.integer(fields.pop("size"), name="size", minimum=1), fields.pop("table")
        width = arm_bits + part_bits + 1
        if size > 1 << 16 or width > _MOST_BITS or not isinstance(table, str):
            raise InvalidParameter("table: more cells, arms or parts than anything published has")
        n_bytes = -(-size * width // 8)
        if len(table) != 4 * -(-n_bytes // 3):
            raise InvalidParameter("table: its length is not that of its size")
        try:
            codes = _unpacked(base64.b64decode(table, validate=True), size, width)
        except binascii.Error:
            raise InvalidParameter("table: not base64") from None
        arms, turned = (codes >> 1) & ((1 << arm_bits) - 1), (codes & 1).astype(np.bool_)
        return fields | {"arms": arms, "parts": codes >> (arm_bits + 1), "turned": turned}


_MOST_BITS = 8 + 4 + 1


def _packed(codes: IntArray, width: int) -> bytes:
    """Numbers of so many bits each, as bytes."""
    bits = (codes[:, None] >> np.arange(width)) & 1
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()


def _unpacked(table: bytes, size: int, width: int) -> IntArray:
    """(size,) what `_packed` wrote; InvalidParameter where bytes lack or bits after the last one are set."""
    bits = np.unpackbits(np.frombuffer(table, dtype=np.uint8), bitorder="little")
    if len(table) != -(-size * width // 8) or bits[size * width :].any():
        raise InvalidParameter("table: its length is not that of its size")
    return np.asarray(bits[: size * width].reshape(size, width).astype(np.int64) @ (1 << np.arange(width)))


@dataclass(frozen=True, kw_only=True)
class GridLayout(Layout[PublishedQuestions]):
    """Cells of a public grid; a report answers what a version asks of one.

    Args:
        dim, n_arms: as for `BinLayout`.
        codes: columns that are codes, and of how many categories each.
        n_parts: parts C of a question.
    """

    dim: int
    codes: Mapping[int, int]
    n_arms: int
    n_parts: int

    publishes = PublishedQuestions

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """The parts of a question."""
        return (self.n_parts,)

    @cached_property
    def names_columns(self) -> bool:
        """True if a published version is over some of the columns, which it names."""
        return not fits_a_grid(self.dim, self.codes)

    @cached_property
    def whole(self) -> Grid:
        """The grid over all columns; InvalidParameter where versions name their columns."""
        return Grid.of(self.dim, self.codes)

    def over(self, columns: tuple[int, ...]) -> Grid:
        """The grid over these of many columns.

        Raises:
            IncompatibleState: no such columns, or more cells than a version has.
        """
        if not columns or columns[-1] >= self.dim:
            raise IncompatibleState("expected columns of the spec's contexts")
        grid = _over(columns, tuple(self.codes.items()))
        if grid.size > MOST_CELLS:
            raise IncompatibleState(f"these columns have more than {MOST_CELLS} cells")
        return grid

    def of(self, published: PublishedQuestions) -> Grid:
        """The grid of a version; IncompatibleState where it is over columns that the spec does not let it."""
        if self.names_columns:
            return self.over(published.columns)
        if published.columns:
            raise IncompatibleState("versions of this spec are over all columns, and name none")
        return self.whole

    def fits(self, published: PublishedQuestions) -> None:
        """See `Layout.fits`: grid, arms and parts."""
        size, arms, parts = self.of(published).size, published.arms, published.parts
        good = arms is not None and arms.shape == (size,)
        good = good and bool(((np.asarray(arms) >= 0) & (np.asarray(arms) < self.n_arms)).all())
        good = good and bool(((parts >= 0) & (parts < self.n_parts)).all())
        if not (good and has_law(published, (size, self.n_arms))):
            raise IncompatibleState("the published table does not fit the spec's grid, arms and parts")

    def locate(self, published: PublishedQuestions, points: FloatArray) -> IntArray:
        """See `Layout.locate`: cells of the grid."""
        return self.of(published).locate(points)

    def n_cells(self, _published: PublishedQuestions) -> int:
        """See `Layout.n_cells`: parts of a question."""
        return self.n_parts

    def asked(self, published: PublishedQuestions, place: int) -> CellQuestion:
        """See `Layout.asked`: the part, the sign, and whether it is about the place alone."""
        part, turned = int(published.parts[place]), bool(published.turned[place])
        return CellQuestion(part, turned=turned, silent=published.about == "place")

    def rule(self, published: PublishedQuestions) -> dict[str, Any]:
        """See `Layout.rule`: the grid's cells, each of which names its arm."""
        from dpbandits.export import decisions

        told = decisions.chosen(np.asarray(published.arms).tolist(), self.n_arms)
        grid = self.of(published)
        sizes = dict(zip(grid.columns or range(self.dim), grid.sizes, strict=True))
        edges = [decisions.cut_at(sizes.get(column, 1)) for column in range(self.dim)]
        return {"type": "cells", "edges": edges, "scores": told}


@lru_cache(maxsize=_GRIDS_KEPT)
def _over(columns: tuple[int, ...], codes: tuple[tuple[int, int], ...]) -> Grid:
    return Grid.over(columns, dict(codes))
