"""Experiments of a paper: a study has items, an item has cells, and a cell runs once per seed.

| word | what | example |
|---|---|---|
| `Study` | the experiments of one paper | `dubey2021` |
| `Item` | a figure or table: its cells, how it is printed and drawn | `figure-1` |
| `Cell` | one method in one world under one promise; see `dpbandits.lab.study` | block release at (1, 1e-5) |

`Study.run` runs an item's cells in parallel and resumes: a study that is started again runs only what is
missing. A new paper writes cells and items, and no runner.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbandits._progress import watched
from dpbandits._typing import Seed
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.runner import on_cluster
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED, report_seeds
from dpbandits.lab.plot import to_png, to_svg
from dpbandits.lab.study import Cell, Record, Row, Runs, run_cells

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Choice", "Item", "Single", "Study", "grid", "rounded"]


@dataclass(frozen=True, kw_only=True)
class Single(Cell):
    """A cell that is run once, whose record is its row: nothing random is averaged.

    Args:
        column, world: Names by which command-line options select the row.
        what: JSON-ready, what the row begins with.
        measure: () -> the rest of the row; picklable.
    """

    column: str
    what: Row
    measure: Callable[[], Record]
    world: str = ""

    @property
    def label(self) -> Row:
        """Return the first cells of the row."""
        return self.what

    def simulate(self, _seed: Seed) -> Record:
        """Measure; there is no seed."""
        return {"measured": self.measure()}

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Return the labels of the cell and its measurements."""
        return [self.what | records[0]["measured"]]


def rounded(curve: Iterable[float], digits: int) -> list[float]:
    """A curve as files have it."""
    return [round(float(value), digits) for value in curve]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """Which cells of an item are run; None: all that it has.

    Attributes:
        columns, worlds: only these.
        epsilons, rounds: only these, or, where an item is a grid over them, these instead of its own.
        where: values of fields, by names such as `dimension`, or `sources.0.gamma` in a list of objects.
    """

    columns: Sequence[str] | None = None
    worlds: Sequence[str] | None = None
    epsilons: Sequence[float] | None = None
    rounds: Sequence[int] | None = None
    where: Mapping[str, Any] = field(default_factory=dict)

    def keeps(self, cell: Cell) -> bool:
        """Return True if a cell is run; a method without epsilon, or without a field, always is."""
        epsilon = _option(cell, "epsilon")
        return (
            (self.columns is None or _option(cell, "column") in self.columns)
            and (self.worlds is None or _option(cell, "world") in self.worlds)
            and (self.epsilons is None or not isinstance(epsilon, float) or epsilon in self.epsilons)
            and (self.rounds is None or _option(cell, "rounds") in self.rounds)
            and all(_field(cell.label, name) in (None, value) for name, value in self.where.items())
        )


def _option(cell: Cell, name: str) -> Any:
    """Return what an option of the command line chooses a cell by: column, world, epsilon or rounds.

    A cell's `fields` say which of its fields that is, where it has another name.
    """
    fields: Mapping[str, str] = getattr(cell, "fields", {})
    return getattr(cell, fields.get(name, name), None)


def _field(label: Any, name: str) -> Any:
    """Return the value that a label has under a dotted name; None if it has none."""
    for part in name.split("."):
        if isinstance(label, list) and part.isdecimal() and int(part) < len(label):
            label = label[int(part)]
        else:
            label = label.get(part) if isinstance(label, dict) else None
    return label


def grid(cell: Callable[..., Cell], **axes: Iterable[Any]) -> Callable[[Choice], list[Cell]]:
    """Return a function that makes a cell at every place of a grid, the last axis first: `Item.cells`.

    Args:
        cell: a class of cells.
        axes: its fields with their values. Those that are called as in a choice (world, epsilon, rounds) are
            what the cell's `fields` say, and a choice takes their values' place.
    """
    names: Mapping[str, str] = getattr(cell, "fields", {})

    def cells(choice: Choice) -> list[Cell]:
        given = {"world": choice.worlds, "epsilon": choice.epsilons, "rounds": choice.rounds}
        places = product(*(given.get(axis) or values for axis, values in axes.items()))
        fields = [names.get(axis, axis) for axis in axes]
        return [cell(**dict(zip(fields, place, strict=True))) for place in places]

    return cells


@dataclass(frozen=True, kw_only=True)
class Item:
    """A figure or table.

    Args:
        about: one line for lists.
        cells: all of them, or what makes them for a choice.
        key: names in a row that tell rows apart: a run replaces the rows that it has anew, others stay.
        shown: columns of the printed table, names in a row with formats of numbers: "world | regret:.2f".
        texts: name of a column -> what makes its text of a row, where it is no number or text in it.
        picture: rows -> figure, which is written as PNG and SVG.
        compare: Function that computes results over all cells, beside the rows. Such a file is never merged
            from parts; a part is written to a file called -part.
        file: stem of the result file, where it is not PAPER-ITEM.
        reps: by default.
        tuning: the seeds are tuning seeds, the numbers choose constants and are reported as such.
        seeded: False where nothing is random: cells are run once.
    """

    about: str
    cells: Sequence[Cell] | Callable[[Choice], Sequence[Cell]]
    key: tuple[str, ...]
    shown: str
    texts: Mapping[str, Callable[[Row], str]] = field(default_factory=dict)
    picture: "Callable[[Sequence[Row]], Figure] | None" = None
    compare: Callable[[Sequence[Runs]], dict[str, Any]] | None = None
    file: str | None = None
    reps: int = 20
    tuning: bool = False
    seeded: bool = True

    def chosen(self, choice: Choice) -> tuple[Cell, ...]:
        """The cells of a choice.

        Raises:
            InvalidParameter: nothing is left, or no cell has a field of that name.
        """
        for name in choice.where:
            if all(_field(cell.label, name) is None for cell in self.made(choice)):
                raise InvalidParameter(f"where: no cell has {name!r}; the first has {self._names(choice)}")
        found = tuple(cell for cell in self.made(choice) if choice.keeps(cell))
        if not found:
            columns, worlds = (
                ", ".join(dict.fromkeys(repr(_option(cell, name)) for cell in self.made(Choice())))
                for name in ("column", "world")
            )
            raise InvalidParameter(f"no such cell: the columns are {columns}; the worlds are {worlds}")
        return found

    def _names(self, choice: Choice) -> str:
        return ", ".join(self.made(choice)[0].label)

    def made(self, choice: Choice) -> Sequence[Cell]:
        """All cells, or what is made for a choice, before it chooses."""
        return self.cells(choice) if callable(self.cells) else self.cells

    @property
    def columns(self) -> dict[str, str]:
        """Columns of the printed table, with the format of their numbers."""
        parts = (part.strip().partition(":") for part in self.shown.split("|"))
        return {name: form for name, _, form in parts}

    def text_of(self, row: Row) -> list[str]:
        """A row of the printed table; what is not there is left blank."""

        def text(name: str, form: str) -> str:
            value = self.texts[name](row) if name in self.texts else row.get(name)
            return str(value or "") if value is None or isinstance(value, str) else format(value, form)

        return [text(name, form) for name, form in self.columns.items()]


@dataclass(frozen=True, kw_only=True)
class Study:
    """The experiments of one paper.

    Args:
        name: Name on the command line and in result files.
        title: Title of tables.
        measured: Description of the numbers.
        items: Items by name.
        first_seed: First report seed.
        published: columns that run the paper's own method as the paper has it.
    """

    name: str
    title: str
    measured: str
    items: Mapping[str, Item]
    first_seed: Seed = FIRST_REPORT_SEED
    published: Sequence[str] = ()

    def item(self, name: str) -> Item:
        """An item by name.

        Raises:
            InvalidParameter: there is none of that name.
        """
        if name not in self.items:
            raise InvalidParameter(f"item {name!r} of {self.name}: expected one of {', '.join(self.items)}")
        return self.items[name]

    def cells(self, item: str, choice: Choice | None = None) -> tuple[Any, ...]:
        """The cells of an item."""
        return self.item(item).chosen(choice or Choice())

    def run(
        self,
        item: str,
        *,
        choice: Choice | None = None,
        reps: int | None = None,
        seed: Seed | None = None,
        jobs: int = 1,
        cluster: str | None = None,
        resume: bool = True,
        out: Path | None = None,
        progress: bool = False,
    ) -> tuple[list[Row], Any]:
        """Run an item and write what came of it.

        Args:
            item: its name.
            choice: which of its cells.
            reps: seeds of every cell, by default the item's.
            seed: the first of them, by default the study's.
            jobs: processes; -1 for all cores.
            cluster: address of a Dask scheduler that runs them instead, see `on_cluster`.
            resume: take records that `out` holds for what they are; False: run everything again.
            out: folder of records (resumed from NAME.jsonl, which items share), results and pictures.
            progress: show how far it is, on standard error.

        Returns:
            The rows of the cells that were chosen, and the same as result files have it: the rows, or
            the rows with what `compare` says.

        Raises:
            InvalidParameter: an unknown item, nothing to run, or tuning seeds where reports are made.
            DataUnavailable: a real table is not there; a choice of worlds can leave it out.
            MissingExtra: joblib, or for a cluster dask, is not installed.
        """
        what, choice = self.item(item), choice or Choice()
        first = (0 if what.tuning else self.first_seed) if seed is None else seed
        seeds = report_seeds(first, reps or what.reps, tuning=what.tuning) if what.seeded else (0,)
        path = None if out is None else out / f"{self.name}.jsonl"
        cells = what.chosen(choice)
        with watched(f"{self.name} {item}", shown=progress) as moved, on_cluster(cluster):
            runs = run_cells(
                cells,
                seeds=seeds,
                path=path,
                jobs=jobs if cluster is None else -1,
                resume=resume,
                progress=lambda done, total: moved(completed=done, total=total),
            )
        rows = [row for run in runs for row in run.rows]
        if choice.columns is not None:  # of a cell with several methods
            rows = [row for row in rows if row.get("method") is None or row["method"] in choice.columns]
        whole: Any = rows if what.compare is None else what.compare(runs)
        if out is not None:
            self._write(item, rows, whole, out, part=choice != Choice())
        return rows, whole

    def _write(self, item: str, rows: Sequence[Row], whole: Any, out: Path, *, part: bool) -> None:
        what = self.items[item]
        stem = what.file or f"{self.name}-{item}"
        if what.compare is None:
            whole = rows = _merged(out / f"{stem}.json", rows, what)
        elif part:
            stem += "-part"
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{stem}.json").write_text(json.dumps(whole, indent=1) + "\n")
        if what.picture is not None:
            figure = what.picture(rows)
            (out / f"{stem}.png").write_bytes(to_png(figure))
            (out / f"{stem}.svg").write_bytes(to_svg(figure))


def _merged(path: Path, rows: Sequence[Row], item: Item) -> list[Row]:
    """The rows of a file with new ones in their places, in the order of the item's cells."""

    def key(row: Row) -> str:
        return json.dumps([row.get(name) for name in item.key])

    def is_of(row: Row, cell: Cell) -> bool:
        """Return True if two choices agree in the fields that both have."""
        own = {name: value for name, value in cell.label.items() if name in item.key}
        return json.dumps([row.get(name) for name in own]) == json.dumps([*own.values()])

    def place(row: Row) -> int:
        return next((n for n, cell in enumerate(cells) if is_of(row, cell)), len(cells))

    held: list[Row] = json.loads(path.read_text()) if path.exists() else []
    found = {key(row): row for row in held} | {key(row): row for row in rows}
    cells = item.made(Choice())
    return sorted(found.values(), key=place)
