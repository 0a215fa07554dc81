"""One way to run an experiment: a cell is one method in one world under one promise, and runs once a seed.

| word | what | example |
|---|---|---|
| `Cell` | one method in one world under one promise | block release at (1, 1e-5) |
| record | one repetition of one cell, flat JSON | `{"regret": 104.2, ...}` |
| row | a cell's records summed up, flat JSON: what tables, pictures and files are made of | |

`run_cells` runs cells in parallel and resumes: every record is appended to a file as soon as it is there,
under the fingerprint of cell, settings and seed. Results of other settings are never mixed in, and a run that
is started again runs only what is missing.
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
"""Called with (done, total) after every repetition."""


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One method in one world under one promise. A study's own cells are frozen dataclasses of this class.

    Their fields say what tells cells apart, are JSON-ready (or dataclasses), and begin a cell's rows. They
    say how to `simulate` one repetition, and name the rest:

    Attributes:
        counts: what rows call the number of repetitions and the first seed.
        measures: name in a record -> names in a row of its mean and standard error (None: without).
        at_once: seeds that `simulate_several` takes together, where that is faster than one by one.
    """

    counts: ClassVar[tuple[str, str]] = ("reps", "first_seed")
    measures: ClassVar[Mapping[str, tuple[str, str | None]]] = {}
    at_once: ClassVar[int] = 1

    @property
    def label(self) -> Row:
        """Label of the cell: its fields."""
        return asdict(self)

    @property
    def name(self) -> str:
        """Name of the cell in records."""
        return f"{type(self).__name__} {json.dumps(self.label)}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """JSON-ready: everything that a record depends on beside name and seed."""
        return {}

    def simulate(self, seed: Seed) -> Record:
        """One repetition; picklable, so that other processes can run it."""
        raise NotImplementedError

    def simulate_several(self, seeds: Sequence[Seed]) -> list[Record]:
        """One record a seed, each as `simulate` gives it; picklable."""
        return [self.simulate(seed) for seed in seeds]

    def rows(self, records: Sequence[Record]) -> list[Row]:
        """Its lines, from one record a seed: mostly one, of what it is, how often it ran, and means."""
        row = self.label | dict(zip(self.counts, (len(records), records[0]["seed"]), strict=True))
        for name, (mean, error) in self.measures.items():
            row[mean], spread = mean_and_error(values_of(records, name))
            if error is not None:
                row[error] = spread
        return [row]


@dataclass(frozen=True, kw_only=True)
class Runs:
    """A cell and what came of it, one record a seed."""

    cell: Any
    records: Sequence[Record]

    @property
    def rows(self) -> list[Row]:
        """See `Cell.rows`."""
        return list(self.cell.rows(self.records))

    def values(self, name: str) -> FloatArray:
        """(R,) or (R, T) what every record says of `name`."""
        return values_of(self.records, name)


def values_of(records: Sequence[Record], name: str) -> FloatArray:
    """(R,) numbers or (R, T) curves of that name in all records."""
    return np.array([record[name] for record in records], dtype=np.float64)


class KeptRecords:
    """Records of a file of JSON lines by their keys, read once, and added to.

    Args:
        path: of the file; None keeps them for as long as this lives.
        resume: False leaves out what the file holds.

    Attributes:
        by_key: all records.
    """

    def __init__(self, path: Path | None, *, resume: bool = True) -> None:
        self._path = path
        self.by_key: dict[str, Record] = {}
        for kept in read_lines(path) if resume else ():
            with suppress(KeyError, TypeError):
                self.by_key[kept["key"]] = kept

    def add(self, record: Record) -> None:
        """Keep a record, on disk where there is a file."""
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
    """Records of all cells at all seeds, in their order; those that `path` already holds are not run again.

    Args:
        cells: of different names or settings.
        seeds: different.
        path: JSON lines, appended to; None keeps nothing. Many calls share one `KeptRecords`: the
            file is read once.
        jobs: see `in_processes`.
        resume: take records that a path holds; False: run everything again.
        progress: see `Progress`.

    Raises:
        InvalidParameter: a repetition stands twice, jobs is 0, or records that were read are not to be used.
        MissingExtra: jobs is not 1 and joblib is not installed.
    """
    tasks = {key: (cell, seed) for cell in cells for key, seed in _keys(cell, seeds)}
    if len(tasks) != len(cells) * len(seeds):
        raise InvalidParameter("a repetition stands twice: its result would be counted as independent")
    if isinstance(path, KeptRecords) and not resume:
        raise InvalidParameter("resume is of a path: make KeptRecords(path, resume=False)")
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
    """Fingerprints of cell, settings and seed."""
    name, settings = cell.name, cell.settings
    texts = (json.dumps([name, settings, seed], sort_keys=True) for seed in seeds)
    keys = (hashlib.blake2b(text.encode(), digest_size=12).hexdigest() for text in texts)
    return list(zip(keys, seeds, strict=True))


def _groups(
    cells: Sequence[Cell], seeds: Sequence[Seed], found: Mapping[str, Record]
) -> Iterator[tuple[Cell, list[tuple[str, Seed]]]]:
    """Each cell with the keys and seeds that are missing, at most `at_once` of them together."""
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
