"""Questions to clients: a public grid with an arm and a question for each cell, and reports that answer.

A version gives every cell g of a public grid over the context's columns an *arm* a(g), a *part* c(g) of C,
and a *sign* phi(g) of -1 or 1. A client finds the cell g of its context and takes arm a(g). It draws s = 1
with probability equal to its reward, scaled to [0, 1], and s = -1 otherwise. If the version asks about the
*place* instead of the reward, s = 1. The client reports one of 2C pairs, (c(g), s phi(g)), under the spec's
mechanism over C cells, usually k-ary randomised response. With C = 1 a report is one bit about a function of
context and reward. With C parts it also tells which of C sets of contexts the bit is about.

**Privacy.** For all a, c and phi, the input to the mechanism is one of 2C pairs. Any two inputs give each
report with probabilities within a factor exp(epsilon). The bound therefore holds for any two (context,
reward) of any user and for every table that a server may publish. The table may depend on all other users'
reports or on this user's earlier reports, and it may be designed to locate this user.

A server may write each table after it has seen all earlier reports. From a user who reports k times it then
learns at most k epsilon. Given the past, the k-th table is a constant, so each report multiplies the ratio of
the laws of the server's view by at most exp(epsilon) (adaptive composition; Dwork, Rothblum and Vadhan,
2010). A client whose budget covers one report makes one and loses at most epsilon, *for any question*. An
observer who sees the arm that a client takes also learns a(g), as with any public policy.

**Format.** `docs/reference/byte-formats.md` describes the JSON of a version (`PublishedQuestions.to_json`). A
context x in the unit cube lies in the cell with index min(floor(x_j m_j), m_j - 1) in column j, where m is
`Grid.sizes`. The index of the last column varies fastest.

**Many columns.** A grid over all columns is used if it gives every range at least 6 cells, or at least 10
with more than three columns. Otherwise every version names some of the columns and has a grid over these: a
range then has 8 cells, and a category one for each value. A client's report depends on its values in these
columns only. The proof above still applies, as a, c and phi are functions of the context. A version has at
most `MOST_CELLS` cells for any number of columns, so that versions for ten columns are as small as for three.

This module needs only NumPy and the standard library, as clients import it.
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
from dpbandits._calls import worded
from dpbandits._checks import assign
from dpbandits._reading import reading
from dpbandits._seen import said
from dpbandits._typing import BoolArray, FloatArray, IntArray
from dpbandits.domains.grid import CellGrid
from dpbandits.errors import IncompatibleState, InvalidParameter
from dpbandits.local.contract.bins import PublishedArms, has_law
from dpbandits.local.contract.layout import CellQuestion, Layout
from dpbandits.local.contract.reports import Contract, read_only
from dpbandits.tables.actions import ActionCurve

__all__ = [
    "MOST_ASKED",
    "MOST_CELLS",
    "MOST_COLUMNS",
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
"""Largest number of parts C. More parts gain little below epsilon = 5, and make a version longer."""

MOST_ASKED = 12
"""Largest number of arms for which `questions` is the default learner; with more its model is coarse."""

MOST_CELLS = 1400
"""Largest number of cells of a grid. With 16 parts a version has under 2 KB for 8 arms, 2.2 KB for 12."""

_FEWEST_A_SIDE, _FEW, _FEWEST_OF_MORE = 6, 3, 10
"""Smallest number of cells of a range on a grid over all columns.

It is the first number for at most `_FEW` columns, and the last number for more. If a grid would have fewer
cells along a range, versions name some of the columns instead.
"""

_MOST_A_SIDE = 64

_SIDE_OF_MANY = 8
"""Number of cells of a range in versions that name their columns."""

MOST_COLUMNS = 64
"""Largest number of columns for the learner `questions`, which has a model for each of them."""

# Number of grids of published versions that are cached: more than a server's usual window.
_GRIDS_KEPT = 32


@dataclass(frozen=True)
class Grid(CellGrid):
    """A public grid over all columns of a spec's unit cube, or over some of them; see `CellGrid`."""

    @classmethod
    def of(cls, dim: int, categories: Mapping[int, int]) -> "Grid":
        """Return the grid over `dim` columns.

        It has a cell for each category, and equally many cells for each range.

        Example:
            >>> Grid.of(2, {1: 5}).sizes
            (64, 5)

        Raises:
            InvalidParameter: a range would have too few cells, or the categories alone need too many.
        """
        n_ranges = dim - len(categories)
        room = MOST_CELLS // math.prod(categories.values())
        side = min(_MOST_A_SIDE, math.floor(room ** (1.0 / n_ranges) + 1e-9)) if n_ranges and room else 1
        fewest = _FEWEST_A_SIDE if dim <= _FEW else _FEWEST_OF_MORE
        if not room or (n_ranges and side < fewest):
            raise InvalidParameter(f"{dim} columns are too many for one grid of {MOST_CELLS} cells")
        return cls(tuple(categories.get(column, side) for column in range(dim)))

    @classmethod
    def over(cls, columns: tuple[int, ...], categories: Mapping[int, int]) -> "Grid":
        """Return the grid over some of a spec's columns.

        Example:
            >>> Grid.over((1, 4), {4: 3}).sizes
            (8, 3)
        """
        return cls(tuple(categories.get(column, _SIDE_OF_MANY) for column in columns), columns)


def fits_a_grid(dim: int, categories: Mapping[int, int]) -> bool:
    """Return True if `Grid.of` has a grid for these columns."""
    try:
        Grid.of(dim, categories)
    except InvalidParameter:
        return False
    return True


def asks_about(dim: int, categories: Mapping[int, int]) -> bool:
    """Return True if the learner `questions` can handle these columns, on one grid or on several.

    Args:
        dim: Number of columns.
        categories: Number of categories of each categorical column.
    """
    return dim <= MOST_COLUMNS and max(categories.values(), default=0) <= MOST_CELLS


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class PublishedQuestions(PublishedArms):
    """A version of the learner `questions`: an arm and a question to clients in each of G cells of a grid.

    Attributes:
        version: Number of the version, from 0.
        arms: Arm of each cell of the grid, shape (G,).
        parts: Part of each cell, shape (G,); see the module.
        turned: True if the cell's sign is -1, shape (G,): its reports then say the opposite of the reward.
        about: Content of reports: the `reward`, or the `place` alone.
        columns: Indices of the spec's columns that the grid covers, ascending; empty for all.
        mean, sd: Expected rewards and standard deviations of K arms, shape (G, K), as for `PublishedArms`.

    Privacy: a report is epsilon-locally private for every content of a version; see the module.

    Raises:
        IncompatibleState: the tables do not form a version.
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
                raise InvalidParameter("expected arms for the cells of a grid, without splits or weights")
            for name, kinds, kind in (("parts", "iu", np.int64), ("turned", "b", np.bool_)):
                table = np.asarray(getattr(self, name))
                if table.dtype.kind not in kinds or table.shape != arms.shape:
                    raise InvalidParameter(f"{name}: expected one entry for each cell")
                assign(self, **{name: read_only(table, kind)})

    @worded
    def curve(self, spec: Contract[Any], context: Any) -> ActionCurve:
        """Return predictions along all actions for one person.

        The version must come from `Server.estimate()`.

        Predictions are constant within a cell of the grid.

        Raises:
            IncompatibleState: the version does not fit the spec.
            InvalidParameter: the spec has plain arms.
            InvalidData: the context cannot be read, or there are several.
            ProtocolError: this version has no means and deviations.
        """
        protocol: Any = spec.protocol
        if protocol.actions is None:
            raise InvalidParameter("curve: the spec has plain arms: build it with actions=")
        law = self.predict(spec, context)
        found: ActionCurve = protocol.actions.curve_of(protocol.points(context), law, spec.reward_range)
        return found

    def to_config(self) -> dict[str, Any]:
        """Return the JSON-ready configuration; the module names the description of the format."""
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
        """Return the fields that a configuration describes.

        A table of the wrong length is refused before it is decoded.
        """
        fields = dict(config)
        if cls.config_omits & fields.keys():
            raise InvalidParameter("table: its contents are given a second time, as separate fields")
        arm_bits, part_bits = (_checks.integer(one, name="bits", minimum=0) for one in fields.pop("bits"))
        size, table = _checks.integer(fields.pop("size"), name="size", minimum=1), fields.pop("table")
        width = arm_bits + part_bits + 1
        if size > 1 << 16 or width > _MOST_BITS or not isinstance(table, str):
            raise InvalidParameter("table: more cells, arms or parts than a version may have")
        n_bytes = -(-size * width // 8)
        if len(table) != 4 * -(-n_bytes // 3):
            raise InvalidParameter("table: its length does not fit its size")
        try:
            codes = _unpacked(base64.b64decode(table, validate=True), size, width)
        except binascii.Error:
            raise InvalidParameter("table: not base64") from None
        arms, turned = (codes >> 1) & ((1 << arm_bits) - 1), (codes & 1).astype(np.bool_)
        return fields | {"arms": arms, "parts": codes >> (arm_bits + 1), "turned": turned}


_MOST_BITS = 8 + 4 + 1


def _packed(codes: IntArray, width: int) -> bytes:
    """Return numbers as bytes, with `width` bits each, lowest bit first."""
    bits = (codes[:, None] >> np.arange(width)) & 1
    return np.packbits(bits.astype(np.uint8).ravel(), bitorder="little").tobytes()


def _unpacked(table: bytes, size: int, width: int) -> IntArray:
    """Return the numbers (size,) that `_packed` wrote."""
    bits = np.unpackbits(np.frombuffer(table, dtype=np.uint8), bitorder="little")
    if len(table) != -(-size * width // 8) or bits[size * width :].any():
        raise InvalidParameter("table: its length does not fit its size")
    return np.asarray(bits[: size * width].reshape(size, width).astype(np.int64) @ (1 << np.arange(width)))


@dataclass(frozen=True, kw_only=True)
class GridLayout(Layout[PublishedQuestions]):
    """The layout of grid cells; a report answers the version's question for a cell.

    Args:
        dim, n_arms: As for `BinLayout`.
        codes: Number of categories of each categorical column, by the column's index.
        n_parts: Number of parts C of a question.
    """

    dim: int
    codes: Mapping[int, int]
    n_arms: int
    n_parts: int

    publishes = PublishedQuestions

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """Number of cells for which the guarantee is computed: that of the parts of a question."""
        return (self.n_parts,)

    @cached_property
    def names_columns(self) -> bool:
        """True if each version covers only some of the columns, and names them."""
        return not fits_a_grid(self.dim, self.codes)

    @cached_property
    def whole(self) -> Grid:
        """Grid over all columns; raises InvalidParameter if versions name their columns."""
        return Grid.of(self.dim, self.codes)

    def over(self, columns: tuple[int, ...]) -> Grid:
        """Return the grid over some of the spec's columns.

        Raises:
            IncompatibleState: the spec lacks such columns, or the grid has more than `MOST_CELLS` cells.
        """
        if not columns or columns[-1] >= self.dim:
            raise IncompatibleState("expected columns of the spec's contexts")
        grid = _over(columns, tuple(self.codes.items()))
        if grid.size > MOST_CELLS:
            raise IncompatibleState(f"these columns have more than {MOST_CELLS} cells")
        return grid

    def of(self, published: PublishedQuestions) -> Grid:
        """Return a version's grid.

        Raise IncompatibleState if the spec does not allow the version's columns.
        """
        if self.names_columns:
            return self.over(published.columns)
        if published.columns:
            raise IncompatibleState("versions of this spec cover all columns and may not name any")
        return self.whole

    def fits(self, published: PublishedQuestions) -> None:
        """Raise IncompatibleState if a version's cells, arms or parts do not fit; see `Layout.fits`."""
        size, arms, parts = self.of(published).size, published.arms, published.parts
        good = arms is not None and arms.shape == (size,)
        good = good and bool(((np.asarray(arms) >= 0) & (np.asarray(arms) < self.n_arms)).all())
        good = good and bool(((parts >= 0) & (parts < self.n_parts)).all())
        if not (good and has_law(published, (size, self.n_arms))):
            raise IncompatibleState("the published table does not fit the spec's grid, arms and parts")

    def locate(self, published: PublishedQuestions, points: FloatArray) -> IntArray:
        """Return each point's cell of the grid; see `Layout.locate`."""
        return self.of(published).locate(points)

    def n_cells(self, _published: PublishedQuestions) -> int:
        """Return the number of parts of a question; see `Layout.n_cells`."""
        return self.n_parts

    def asked(self, published: PublishedQuestions, place: int) -> CellQuestion:
        """Return the content of a report about a cell: its part and sign, as `Layout.asked` describes.

        If the version asks about the place, the sign does not depend on the reward.
        """
        part, turned = int(published.parts[place]), bool(published.turned[place])
        return CellQuestion(part, turned=turned, silent=published.about == "place")

    def rule(self, published: PublishedQuestions) -> dict[str, Any]:
        """Return the grid's cells, each with its arm; see `Layout.rule`."""
        from dpbandits.export import decisions

        told = decisions.chosen(np.asarray(published.arms).tolist(), self.n_arms)
        grid = self.of(published)
        sizes = dict(zip(grid.columns or range(self.dim), grid.sizes, strict=True))
        edges = [decisions.cut_at(sizes.get(column, 1)) for column in range(self.dim)]
        return {"type": "cells", "edges": edges, "scores": told}


@lru_cache(maxsize=_GRIDS_KEPT)
def _over(columns: tuple[int, ...], codes: tuple[tuple[int, int], ...]) -> Grid:
    return Grid.over(columns, dict(codes))
