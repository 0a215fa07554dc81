"""Runner for experiments: `run_cells` runs cells over seeds, in parallel, and resumes.

| term | meaning | example |
|---|---|---|
| `Cell` | one method in one world with one guarantee | block release at (1, 1e-5) |
| record | one repetition of one cell, flat JSON | `{"regret": 104.2, ...}` |
| row | summary of a cell's records, flat JSON, for tables, pictures and files | |

Every record is appended to a file as soon as it is complete, with a fingerprint of cell, settings and seed.
Results of other settings are never mixed in. A restarted run computes only missing records.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from dpbandits._lazy import names_of
from dpbandits._lines import append_line, read_lines
from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.runner import in_processes
from dpbandits.lab.evaluation.summary import mean_and_error

__all__ = ["Cell", "KeptRecords", "Record", "Row", "Runs", "run_cells", "values_of"]

__dir__ = names_of(__name__)

Record = dict[str, Any]
Row = dict[str, Any]
Progress = Callable[[int, int], None]
"""Function that is called with (done, total), two numbers of repetitions, after every repetition."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method in one world with one guarantee.

    A study derives its cells from this class as frozen dataclasses. Their fields identify a cell, are
    JSON-ready (or dataclasses), and are the first columns of its rows. A subclass implements `simulate` and
    may set these:

    Attributes:
        counts: Names of the columns for the number of repetitions and the first seed.
        measures: Name in a record -> names of the columns for its mean and standard error; None leaves out
            the error.
        at_once: Number of seeds per call of `simulate_several`, if that is faster than one by one.
    """

    counts: ClassVar[tuple[str, str]] = ("reps", "first_seed")
    measures: ClassVar[Mapping[str, tuple[str, str | None]]] = {}
    at_once: ClassVar[int] = 1

    @property
    def label(self) -> Row:
        """Fields of the cell, as a dictionary."""
        return asdict(self)

    @property
    def name(self) -> str:
        """Name of the cell in records."""
        return f"{type(self).__name__} {json.dumps(self.label)}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """JSON-ready settings on which a record depends besides name and seed."""
        return {}

    def simulate(self, seed: Seed) -> Record:
        """Run one repetition, and return its record.

        The cell must be picklable, so that other processes can run it.
        """
        raise NotImplementedError

    def simulate_several(self, seeds: Sequence[Seed]) -> list[Record]:
        """Return one record per seed, each equal to that of `simulate`."""
        return [self.simulate(seed) for seed in seeds]

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Return the cell's rows from one record per seed.

        By default there is one row, with the fields, the number of repetitions, and means with errors.
        """
        row = self.label | dict(zip(self.counts, (len(records), records[0]["seed"]), strict=True))
        for name, (mean, error) in self.measures.items():
            row[mean], spread = mean_and_error(values_of(records, name))
            if error is not None:
                row[error] = spread
        return [row]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A cell and its records, one record per seed."""

    cell: Any
    records: Sequence[Record]

    @property
    def rows(self) -> list[Row]:
        """Rows of the cell; see `Cell.rows`."""
        return list(self.cell.rows(self.records))

    def values(self, name: str) -> FloatArray:
        """Return the values of `name` in all R records: numbers (R,), or curves (R, T) of T values each."""
        return values_of(self.records, name)


def values_of(records: Sequence[Record], name: str) -> FloatArray:
    """Return the values of `name` in all R records: numbers (R,), or curves (R, T) of T values each."""
    return np.array([record[name] for record in records], dtype=np.float64)


class KeptRecords:
    """Records of a file of JSON lines, by key. The file is read once, and new records are appended.

    Args:
        path: Path of the file; None keeps records in memory only.
        resume: False ignores the records that the file contains.

    Attributes:
        by_key: All records, by key.
    """

    def __init__(self, path: Path | None, *, resume: bool = True) -> None:
        self._path = path
        self.by_key: dict[str, Record] = {}
        for kept in read_lines(path) if resume else ():
            with suppress(KeyError, TypeError):
                self.by_key[kept["key"]] = kept

    def add(self, record: Record) -> None:
        """Add a record, and append it to the file if there is one."""
        self.by_key[record["key"]] = record
        if self._path is not None:
            append_line(self._path, record)


def run_cells(
    cells: Sequence[Cell],
    *,
    seeds: Sequence[Seed],
    path: "Path | KeptRecords | None" = None,
    jobs: int = 1,
    resume: bool = True,
    progress: Progress | None = None,
) -> list[Runs]:
    """Run all cells at all seeds, except repetitions that `path` already contains, and return their records.

    Args:
        cells: Cells, different in name or settings.
        seeds: Seeds, all different.
        path: File of JSON lines, to which records are appended; None saves nothing. If you call `run_cells`
            many times, pass the same `KeptRecords` to read the file once.
        jobs: Number of processes; see `in_processes`.
        resume: Use the records that the file contains; False runs everything again.
        progress: Function that is called after every repetition; see `Progress`.

    Returns:
        Runs of the cells, in the order of cells and seeds.

    Raises:
        InvalidParameter: A repetition occurs twice, jobs is 0, or `resume` is False for a `KeptRecords`.
        MissingExtra: jobs is not 1 and joblib is not installed.
    """
    tasks = {key: (cell, seed) for cell in cells for key, seed in _keys(cell, seeds)}
    if len(tasks) != len(cells) * len(seeds):
        raise InvalidParameter("cells, seeds: a repetition occurs twice: pass different cells and seeds")
    if isinstance(path, KeptRecords) and not resume:
        raise InvalidParameter("resume: expected True with KeptRecords: pass KeptRecords(path, resume=False)")
    kept = path if isinstance(path, KeptRecords) else KeptRecords(path, resume=resume)
    found = {key: kept.by_key[key] for key in tasks if key in kept.by_key}
    told = progress or (lambda _done, _total: None)
    told(len(found), len(tasks))
    missing = [partial(_records, *group) for group in _groups(cells, seeds, found)]
    for records in in_processes(missing, jobs=jobs, ordered=False):
        for record in records:
            found[record["key"]] = record
            kept.add(record)
        told(len(found), len(tasks))
    records = [found[key] for key in tasks]
    n = len(seeds)
    return [Runs(cell=cell, records=records[n * k : n * (k + 1)]) for k, cell in enumerate(cells)]


def _keys(cell: Cell, seeds: Sequence[Seed]) -> list[tuple[str, Seed]]:
    name, settings = cell.name, cell.settings
    texts = (json.dumps([name, settings, seed], sort_keys=True) for seed in seeds)
    keys = (hashlib.blake2b(text.encode(), digest_size=12).hexdigest() for text in texts)
    return list(zip(keys, seeds, strict=True))


def _groups(
    cells: Sequence[Cell], seeds: Sequence[Seed], found: Mapping[str, Record]
) -> Iterator[tuple[Cell, list[tuple[str, Seed]]]]:
    """Yield each cell with its (fingerprint, seed) pairs without a record, at most `at_once` at a time."""
    for cell in cells:
        missing = [(key, seed) for key, seed in _keys(cell, seeds) if key not in found]
        for start in range(0, len(missing), cell.at_once):
            yield cell, missing[start : start + cell.at_once]


def _records(cell: Cell, tasks: Sequence[tuple[str, Seed]]) -> list[Record]:
    made = cell.simulate_several([seed for _, seed in tasks])
    return [
        {"key": key, "cell": cell.name, "seed": seed, **record}
        for (key, seed), record in zip(tasks, made, strict=True)
    ]
