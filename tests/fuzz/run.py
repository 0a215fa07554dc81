"""Fuzz the parsers with atheris, each in a process of its own that may use 256 MB more than it started with.

    python -m fuzz.run [--only NAME ...] [--executions N] [--jobs N] [--out FILE]

run in `tests`. libFuzzer, guided by coverage, changes half of the JSON inputs, and `fuzz.mutations` the rest.
Whatever escapes a parser but a `DPBanditsError`, an input that takes more than a minute, or more memory, ends
the run of its target and is printed.
"""

import argparse
import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

MORE_BYTES = 256 << 20
SLOWEST_SECONDS = 60


def fuzz(name: str, executions: int, folder: Path) -> None:
    """Fuzz one target in this process; never returns."""
    import atheris

    with atheris.instrument_imports(include=["dpbandits"], enable_loader_override=False):
        from fuzz.mutations import mutate_json
        from fuzz.targets import target
    chosen = target(name)
    corpus = folder / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(chosen.seeds):
        if not chosen(seed):
            raise SystemExit(f"{name}: seed {number} is not accepted by its own parser")
        (corpus / str(number)).write_bytes(seed)
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
            "-seed=1",
            "-print_final_stats=1",
            f"-artifact_prefix={folder}/",
        ],
        once,
        custom_mutator=change,
    )
    atheris.Fuzz()


def report(name: str, executions: int) -> dict[str, Any]:
    """Fuzz one target in a child; what it did."""
    folder = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
    started = time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "fuzz.run",
            "--child",
            name,
            "--executions",
            str(executions),
            "--folder",
            str(folder),
        ],
        cwd=Path(__file__).parents[1],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    text = done.stdout + done.stderr
    count = re.search(r"stat::number_of_executed_units:\s*(\d+)", text)
    peak = re.search(r"stat::peak_rss_mb:\s*(\d+)", text)
    row: dict[str, Any] = {
        "parser": name,
        "executions": int(count[1]) if count else 0,
        "seconds": round(time.monotonic() - started, 1),
        "peak_mb": int(peak[1]) if peak else None,
        "failed": done.returncode != 0,
    }
    if done.returncode != 0:
        crashes = sorted(folder.glob("*-*"))
        row["input"] = crashes[0].read_bytes()[:2000].decode("utf-8", "replace") if crashes else None
        row["output"] = text[-3000:]
    return row


def keep(path: Path, row: dict[str, Any], order: list[str]) -> None:
    """Put a row in place of the parser's earlier one in the file."""
    earlier = json.loads(path.read_text()) if path.exists() else []
    rows = {other["parser"]: other for other in earlier if other["parser"] in order}
    rows[row["parser"]] = {key: value for key, value in row.items() if key not in ("input", "output")}
    path.write_text(json.dumps([rows[name] for name in order if name in rows], indent=1) + "\n")


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
    parser.add_argument("--child", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        fuzz(options.child, options.executions, options.folder)  # imports the library instrumented
        return
    from fuzz.targets import TARGETS

    unknown = set(options.only or ()) - set(TARGETS)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    rows = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(
            lambda name: report(name, -(-options.executions // alike(name, TARGETS))), options.only or TARGETS
        ):
            rows.append(row)
            verdict = "FAILED" if row["failed"] else "ok"
            sys.stdout.write(
                f"{row['parser']:24} {row['executions']:>10,} executions {row['seconds']:>8} s  {verdict}\n"
            )
            if row["failed"]:
                sys.stdout.write(f"{row['input']}\n{row['output']}\n")
            sys.stdout.flush()
            if options.out is not None:
                keep(options.out, row, list(TARGETS))
    raise SystemExit(any(row["failed"] for row in rows))


if __name__ == "__main__":
    main()
