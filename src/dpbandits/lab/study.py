"""Run the many repetitions of a study: in parallel, with progress, and resumable.

A `Task` is one repetition of one cell. Its result, a flat JSON record, is appended to a file as soon as
it is there; a study started again with the same file runs only what is missing. A record carries the
fingerprint of its task, so that results of other settings are never mixed in.
"""

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpbandits._typing import Seed
from dpbandits.errors import InvalidParameter, MissingExtra

__all__ = ["Task", "run_tasks"]

Record = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Task:
    """One repetition of one cell.

    Args:
        cell: name of the cell.
        seed: of the repetition.
        settings: JSON-ready; everything that the result depends on beside the seed.
        run: seed -> flat JSON-ready record; picklable, so that other processes can run it.
    """

    cell: str
    seed: Seed
    settings: dict[str, Any]
    run: Callable[[Seed], Record]

    @property
    def key(self) -> str:
        """Fingerprint of cell, settings and seed."""
        text = json.dumps([self.cell, self.settings, self.seed], sort_keys=True)
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()

    def record(self) -> Record:
        """Run it."""
        return {"key": self.key, "cell": self.cell, "seed": self.seed, **self.run(self.seed)}


def run_tasks(
    tasks: Sequence[Task],
    *,
    path: Path | None = None,
    jobs: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> list[Record]:
    """Records of all tasks, in their order; those that `path` already holds are not run again.

    Args:
        tasks: distinct.
        path: JSON lines, appended to; None keeps nothing.
        jobs: processes, through joblib; -1 for all cores. A joblib backend chosen around this call, such
            as a Dask cluster, is used.
        progress: called with (done, total) after every task.

    Raises:
        InvalidParameter: a task stands twice, or jobs is 0.
        MissingExtra: jobs is not 1 and joblib is not installed.
    """
    if jobs == 0:
        raise InvalidParameter("jobs is 0, expected a number of processes, or -1 for all cores")
    keys = [task.key for task in tasks]
    if len(set(keys)) != len(keys):
        raise InvalidParameter("a task stands twice: its result would be counted as independent")
    known = _read(path) if path is not None else {}
    found = {key: known[key] for key in keys if key in known}
    missing = [task for task in tasks if task.key not in found]
    if progress is not None:
        progress(len(found), len(tasks))
    for record in _records(missing, jobs):
        found[record["key"]] = record
        if path is not None:
            _append(path, record)
        if progress is not None:
            progress(len(found), len(tasks))
    return [found[key] for key in keys]


def _records(tasks: Sequence[Task], jobs: int) -> Any:
    if jobs == 1 or len(tasks) < 2:
        return (task.record() for task in tasks)
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise MissingExtra("jobs other than 1 need joblib: install dpbandits[report]") from error
    parallel = Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    return parallel(delayed(task.record)() for task in tasks)


def _read(path: Path) -> dict[str, Record]:
    """Records by key; a last line that was cut off by an interruption is left out."""
    records: dict[str, Record] = {}
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                record = json.loads(line)
                records[record["key"]] = record
            except (json.JSONDecodeError, KeyError, TypeError):
                continue
    return records


def _append(path: Path, record: Record) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(record, allow_nan=False)
    torn = path.exists() and path.stat().st_size > 0 and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("\n" if torn else "") + line + "\n")
        file.flush()
        os.fsync(file.fileno())
