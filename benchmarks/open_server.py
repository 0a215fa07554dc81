"""Open a server's folder of ten million reports: how long it takes, and how much memory.

    python -m benchmarks.open_server --folder FOLDER --out reproduction/results/opening.json
    python -m benchmarks.open_server --reports 1000000 --versions 500

The folder is written through `DurableServer.absorb` and `publish`, in batches; reports are those of
devices in law (signed ternary, epsilon = 1), drawn many at a time. All versions are open, so that every
nonce is kept: the worst case. A process of its own opens the folder; its time includes the imports, its
memory is the largest resident set that Linux saw. Once more without the snapshot, from the log alone.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.aggregate_reports import contract, reports
from dpbandits.local import DurableServer

OPENING = """
import json, sys, time
began = time.monotonic()
from dpbandits.local import DurableServer, Spec
spec = Spec.from_json(open(sys.argv[1] + "/spec.json").read())
imported = time.monotonic()
with DurableServer.open(spec, sys.argv[1] + "/server") as server:
    opened = time.monotonic()
    reports, version = server.server.totals.accepted, server.server.current.version
# of this program alone: what `getrusage` says may be the parent's
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM")) / 1024
said = dict(seconds=opened - began, imports=imported - began, cpu_seconds=time.process_time(), mib=peak)
said |= dict(reports=reports, version=version)
print(json.dumps(said))
"""


def spec_of(n_versions):
    """Bins fixed at 32, every version open."""
    spec = contract(32)[0]
    tuning = replace(spec.tuning, constants={"depth": 5.0}, window=n_versions, reports_per_version=1)
    return replace(spec, learner="explore", tuning=tuning)


def write(folder, n_reports, n_versions):
    """The folder, if it is not there."""
    spec, rng = spec_of(n_versions), np.random.default_rng(1_000_000)
    (folder / "spec.json").write_text(spec.to_json())
    with DurableServer.open(spec, folder / "server", least_open=0.0) as server:
        for _ in range(n_versions):
            published = server.publish()
            records = reports(n_reports // n_versions, spec, 32, rng)
            records[:, 5:9] = np.frombuffer(published.version.to_bytes(4, "little"), dtype=np.uint8)
            tally = server.absorb([row.tobytes() for row in records])
            if tally.accepted < 0.999 * len(records):  # nonces are random, and hardly ever equal
                raise SystemExit(f"the server dropped reports: {tally}")
        return server.server.totals.accepted


def opened(folder):
    """Return the measurements of a separate process that opens the folder."""
    said = subprocess.run(  # noqa: S603 - this file's own text
        [sys.executable, "-c", OPENING, str(folder)], check=True, capture_output=True, text=True
    )
    return json.loads(said.stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, help="an empty folder to write to; by default a temporary one")
    parser.add_argument("--reports", type=int, default=10_000_000)
    parser.add_argument("--versions", type=int, default=100)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary)
        began = time.monotonic()
        accepted = write(folder, arguments.reports, arguments.versions)
        seconds = time.monotonic() - began
        server = folder / "server"
        sizes = {path.name: path.stat().st_size for path in server.iterdir()}
        with_snapshot = opened(folder)
        (server / "server.state").unlink(missing_ok=True)
        from_log = opened(folder)
    results = {
        "command": "python -m benchmarks.open_server",
        "reports": accepted,
        "versions": arguments.versions,
        "written_seconds": seconds,
        "bytes": sizes,
        "opened": with_snapshot,
        "opened_from_the_log_alone": from_log,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }
    text = json.dumps(results, indent=1)
    print(text)
    if arguments.out is not None:
        arguments.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
