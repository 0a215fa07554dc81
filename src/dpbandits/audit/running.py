"""Run many audits, each in a process with one thread, the longest first (`run_audits`)."""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from dpbandits._lines import append_line, read_lines
from dpbandits._typing import Seed
from dpbandits.audit.catalogue import NAMES, build
from dpbandits.audit.claims import AuditRow
from dpbandits.errors import InvalidParameter

__all__ = ["AuditSettings", "run_audits"]

_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, kw_only=True)
class AuditSettings:
    """Settings that all audits of a run share.

    Attributes:
        epsilon: Epsilon of the claims; audits of printed claims keep their own.
        samples: Number of outputs evaluated in each world; costly audits use a stated share of it.
        confidence: Confidence of each row's lower bound.
        seed: Seed of public choices. Noise comes from the operating system, so bounds differ between runs.
    """

    epsilon: float = 1.0
    samples: int = 100_000
    confidence: float = 0.999
    seed: Seed = 0

    def __post_init__(self) -> None:
        if self.samples < 100:
            raise InvalidParameter(f"samples is {self.samples}, expected at least 100")
        if not 0.5 <= self.confidence < 1.0:
            raise InvalidParameter(f"confidence is {self.confidence:g}, expected a number in [0.5, 1)")


def run_audits(
    names: Sequence[str] = NAMES,
    settings: AuditSettings | None = None,
    *,
    jobs: int = 0,
    kept: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> list[AuditRow]:
    """Run audits, and return their rows in the order of the names.

    Args:
        names: Names from `NAMES`.
        settings: Settings shared by all audits.
        jobs: Number of processes; -1 for all cores, 0 to stay in this process.
        kept: File of JSON lines to which rows are appended. Audits with a row for the same settings are not
            run again.
        progress: Function called with the name of every finished audit.

    Raises:
        InvalidParameter: a name is unknown or repeated, or a mechanism does not support the epsilon.
    """
    chosen = settings or AuditSettings()
    if len(set(names)) != len(names) or jobs < -1:
        raise InvalidParameter("names, jobs: expected distinct names, and jobs of at least -1")
    # Build all audits first, so that errors come before the first run.
    scopes = {name: build(name, epsilon=chosen.epsilon, seed=chosen.seed).scope for name in names}
    told = progress or (lambda _name: None)
    rows = {}
    for name, row in _kept_rows(kept, chosen).items():
        if name in scopes:
            rows[name] = row
            told(name)
    missing = [name for name in names if name not in rows]
    missing.sort(key=lambda name: scopes[name] != "policy")  # audits of whole policies take longest
    for row in _rows(missing, chosen, jobs):
        rows[row.name] = row
        if kept is not None:
            append_line(kept, {"settings": asdict(chosen), "row": row.to_json()})
        told(row.name)
    return [rows[name] for name in names]


def _kept_rows(path: Path | None, settings: AuditSettings) -> dict[str, AuditRow]:
    rows: dict[str, AuditRow] = {}
    for record in read_lines(path):
        with suppress(KeyError, TypeError):
            if record["settings"] == asdict(settings):
                rows[record["row"]["name"]] = AuditRow.from_json(record["row"])
    return rows


def _rows(names: Sequence[str], settings: AuditSettings, jobs: int) -> Iterator[AuditRow]:
    if jobs == 0 or not names:
        yield from (_run(name, settings) for name in names)
        return
    # Imported here, as Pyodide has no processes; jobs=0 works there.
    from concurrent.futures import ProcessPoolExecutor, as_completed
    from multiprocessing import get_context

    workers = min(len(names), (os.cpu_count() or 1) if jobs == -1 else jobs)
    with _one_thread(), ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(_run, name, settings) for name in names]):
            yield done.result()


def _run(name: str, settings: AuditSettings) -> AuditRow:
    audit = build(name, epsilon=settings.epsilon, seed=settings.seed)
    return audit.run(samples=settings.samples, confidence=settings.confidence)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit child processes to one thread inside a `with` block."""
    before = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
