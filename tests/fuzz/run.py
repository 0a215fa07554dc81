"""Fuzz the parsers with atheris, each in a fork that may use 256 MB more than it started with.

    python -m fuzz.run [--only NAME ...] [--executions N] [--jobs N] [--out FILE [--resume]]

run in `tests`. libFuzzer, guided by coverage, changes half of the JSON inputs, and `fuzz.mutations` the rest.
A target runs in slices, each with a seed of its own; FILE has it after each. `--resume` adds what lacks;
without it, what FILE has counts as done before, on an earlier version of the code.
Whatever escapes a parser but a `DPBanditsError`, an input that takes more than a minute, or more memory, ends
the run of its target and is printed.
"""

import argparse
import ctypes
import json
import os
import random
import re
import resource
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MORE_BYTES = 256 << 20
SLOWEST_SECONDS = 60


def instrumented() -> dict[str, Any]:
    """Import the library so that its coverage shows, and the targets; by name."""
    import atheris

    with atheris.instrument_imports(include=["dpbandits"], enable_loader_override=False):
        from fuzz.targets import TARGETS
    return dict(TARGETS)


def fuzz(name: str, executions: int, folder: Path, seed: int) -> None:
    """Fuzz one target in this process; never returns."""
    import atheris

    from fuzz.mutations import mutate_json
    from fuzz.targets import target

    chosen = target(name)
    corpus = folder / "corpus"
    corpus.mkdir(exist_ok=True)
    for number, sound in enumerate(chosen.seeds):
        if not chosen(sound):
            raise SystemExit(f"{name}: seed {number} is not accepted by its own parser")
        (corpus / str(number)).write_bytes(sound)
    accepted = 0

    def once(data: bytes) -> None:
        nonlocal accepted
        accepted += chosen(data)

    def change(data: bytes, max_size: int, seed: int) -> bytes:
        rng = random.Random(seed)  # noqa: S311 - test inputs
        if chosen.form == "json" and rng.random() < 0.5:
            return mutate_json(data, rng)[:max_size]
        return bytes(atheris.Mutate(data, max_size))

    warm = random.Random(0)  # noqa: S311 - test inputs
    for _ in range(50):  # imports that wait for first use come before the limit
        once(mutate_json(chosen.seeds[0], warm))
    used = int(re.search(r"VmSize:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10  # type: ignore[index]
    resource.setrlimit(resource.RLIMIT_AS, (used + MORE_BYTES, used + MORE_BYTES))
    atheris.Setup(
        [
            name,
            str(corpus),
            f"-runs={executions}",
            f"-timeout={SLOWEST_SECONDS}",
            "-rss_limit_mb=0",  # the limit on address space is stricter
            "-max_len=8192",
            f"-seed={seed}",
            "-print_final_stats=1",
            f"-artifact_prefix={folder}/",
        ],
        once,
        custom_mutator=change,
    )
    atheris.Fuzz()


def report(name: str, executions: int, folder: Path, seed: int) -> dict[str, Any]:
    """Fuzz one target in a fork; what it did. The folder has its inputs, and those that ended it."""
    started, said = time.monotonic(), folder / "output"
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        try:
            with said.open("wb") as file:
                os.dup2(file.fileno(), 1)
                os.dup2(file.fileno(), 2)
            fuzz(name, executions, folder, seed)
        except BaseException:  # noqa: BLE001 - what ended it is told
            traceback.print_exc()
        finally:
            ctypes.CDLL(None).exit(1)  # where libFuzzer writes down the input, and its counts
    _, status = os.waitpid(child, 0)
    text = said.read_text(errors="replace")
    count = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    peak = re.search(r"stat::peak_rss_mb:\s*(\d+)", text)
    row: dict[str, Any] = {
        "parser": name,
        "executions": int(count[1]) if count else 0,
        "seconds": round(time.monotonic() - started, 1),
        "peak_mb": int(peak[1]) if peak else 0,
        "slices": 1,
        "failed": status != 0,
    }
    if status != 0:
        crashes = sorted(folder.glob("*-*"))
        row["input"] = crashes[0].read_bytes()[:4000].decode("utf-8", "backslashreplace") if crashes else None
        row["output"] = text[-3000:]
    return row


def kept(path: Path | None) -> dict[str, dict[str, Any]]:
    """Rows of the file, by parser."""
    rows = json.loads(path.read_text()) if path is not None and path.exists() else []
    return {row["parser"]: row for row in rows}


def keep(path: Path, row: dict[str, Any], order: list[str]) -> None:
    """Put a row in place of the parser's earlier one in the file."""
    rows = kept(path)
    rows[row["parser"]] = {key: value for key, value in row.items() if key not in ("input", "output")}
    path.write_text(json.dumps([rows[name] for name in order if name in rows], indent=1) + "\n")


def together(row: dict[str, Any], earlier: dict[str, Any] | None) -> dict[str, Any]:
    """Two rows of one parser as one."""
    if earlier is None:
        return row
    sums = {key: round(earlier[key] + row[key], 1) for key in ("executions", "seconds")}
    sums["slices"] = earlier.get("slices", 1) + row["slices"]
    return {**row, **sums, "peak_mb": max(earlier["peak_mb"], row["peak_mb"])}


def runs(name: str, wanted: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Fuzz one target in slices until it has as many executions as are wanted, or fails; all so far.

    A run that is not resumed counts anew, and says how many there were before.
    """
    held = kept(options.out).get(name, {"executions": 0})
    done = held if options.resume and held["executions"] else None
    before = held.get("before", 0) + (0 if options.resume else held["executions"])
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    while done is None or (done["executions"] < wanted and not done["failed"]):
        lacking = wanted - (0 if done is None else done["executions"])
        seed = 1 if done is None else 1 + done.get("slices", 1)
        done = together(report(name, min(lacking, options.slice), folder, seed), done)
        yield done | {"before": before}


def alike(name: str, names: Iterable[str]) -> int:
    """How many targets are one parser under other mechanisms (`reports-...`): they share executions."""
    return sum(other.startswith("reports-") for other in names) if name.startswith("reports-") else 1


def main() -> None:
    """Fuzz all targets, a table on screen and JSON in a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", default=None, help="names of targets; all when left out")
    parser.add_argument("--executions", type=int, default=1_000_000)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--resume", action="store_true", help="add to the executions in the file")
    parser.add_argument("--slice", type=int, default=100_000, help="executions of one process")
    options = parser.parse_args()
    targets = instrumented()
    unknown = set(options.only or ()) - set(targets)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(targets)}")
    turn, failed = threading.Lock(), []

    def fuzzed(name: str) -> None:
        for row in runs(name, -(-options.executions // alike(name, targets)), options):
            with turn:
                tell(row)
                if options.out is not None:
                    keep(options.out, row, list(targets))
                failed.extend([name] * row["failed"])

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(fuzzed, options.only or targets))
    raise SystemExit(bool(failed))


def tell(row: dict[str, Any]) -> None:
    """Print a row, and what ended it."""
    verdict = "FAILED" if row["failed"] else "ok"
    sys.stdout.write(
        f"{row['parser']:24} {row['executions']:>10,} executions {row['seconds']:>8} s  {verdict}\n"
    )
    if row["failed"]:
        sys.stdout.write(f"{row['input']}\n{row['output']}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
