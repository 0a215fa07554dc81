"""Throughput of the service, and its dependence on the size of the store: all speeds on its page.

    python -m benchmarks.service_speed --out reproduction/results/service-speed.json

On an idle machine, in ten minutes or so; the load of the machine before and after is written down. Client
and server are two processes on it. With `--only`, figures of what is not measured stay in the file.

- `pairs`: a decision and its reward, one by one and in batches, in a folder and on PostgreSQL, beside a bare
  route; see `over_http.py`, which measures that alone.
- `reports`: batches of 100 reports of devices, 16 connections; accepted when on the disk. And how much of
  that the server's own CPU time is.
- `scale`: a folder with 1,000 policies and 10 million decisions (written by SQL, as the service keeps them)
  beside one with a single policy. Measured are pairs of one of its policies, of 50 of them, and of all in
  turn; the time to start, and the peak memory after that. Rounds take turns; ratios are within a round.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import signal
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.over_http import compared, load, send

REPORTS, CONNECTIONS = 100, 16
POLICY: dict[str, Any] = {
    "contexts": [{"name": name, "type": "Range", "low": 0, "high": 1} for name in ("x", "y")],
    "arms": ["a", "b", "c", "d"],
    "reward_range": [0, 1],
    "horizon": 50_000,
    "privacy": {"epsilon": 0.001, "delta": 1e-12},
    "tuning": {"n_features": 25},
    "settings": {},
}


def ticks_of(pid: int) -> float:
    """CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- reports ------------------------------------------------------------------------------------------------


def serve_devices(folder: Path, ready: Any) -> None:
    import dpbandits as dpb
    from dpbandits.service.application import application
    from dpbandits.service.budgets import promise_of
    from dpbandits.service.core import Service
    from dpbandits.service.http_server import http_server
    from dpbandits.service.settings import Settings
    from dpbandits.service.surveys import begin_survey

    spec = dpb.local.Spec(contexts=dpb.Box([0, 0], [1, 1]), arms=range(4), privacy=dpb.LocalDP(epsilon=1))
    service = Service(folder / "data", settings=Settings(requests_per_second=1e6))
    promise = {"kind": "LocalDP", "epsilon": 2}
    service.ledger.open_account("people", privacy=promise_of(promise))
    asked = {"name": "tips", "population": "people", "spec": json.loads(spec.to_json())}
    service.write(lambda writes: begin_survey(writes, service.ledger, asked, 0.0)).result()
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # else answers wait 40 ms for their first half
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    device = dpb.local.Client(spec)
    device.choose(service.surveys.server("tips").publish(), [0.3, 0.3])
    ready.put((listening.getsockname()[1], service.first_token, device.report(1.0)))
    http_server(application(service)).run(sockets=[listening])


def batches(report: bytes, count: int, rng: np.random.Generator) -> list[bytes]:
    """Batches of reports like this one, each with a nonce of its own."""
    packed = np.frombuffer(len(report).to_bytes(2, "little") + report, dtype=np.uint8)
    rows = np.tile(packed, (count * REPORTS, 1))
    rows[:, 11:19] = rng.integers(0, 256, (len(rows), 8))
    return [rows[first : first + REPORTS].tobytes() for first in range(0, len(rows), REPORTS)]


async def send_reports(port: int, token: str, bodies: list[bytes]) -> int:
    """How many were accepted."""
    head = (
        "POST /v1/local/tips/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/octet-stream\r\n"
        f"Authorization: Bearer {token}\r\n"
    ).encode()
    accepted: list[int] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while bodies:
            accepted.append(json.loads(await send(reader, writer, head, bodies.pop()))["accepted"])
        writer.close()

    await asyncio.gather(*(one() for _ in range(CONNECTIONS)))
    return sum(accepted)


def reports_a_second(rounds: int, count: int) -> dict[str, Any]:
    context, rng = multiprocessing.get_context("spawn"), np.random.default_rng(0)
    rates, spent = [], []
    with tempfile.TemporaryDirectory() as scratch:
        ready = context.Queue()
        process = context.Process(target=serve_devices, args=(Path(scratch), ready), daemon=True)
        process.start()
        port, token, report = ready.get(timeout=120)
        for number in range(rounds + 1):
            bodies = batches(report, count, rng)
            before, began = ticks_of(process.pid or 0), time.perf_counter()
            accepted = asyncio.run(send_reports(port, token, bodies))
            took = time.perf_counter() - began
            if accepted != count * REPORTS:
                raise RuntimeError("not all reports were accepted")
            if number:  # the first one warms up
                rates.append(accepted / took)
                spent.append((ticks_of(process.pid or 0) - before) / accepted)
        os.kill(process.pid or 0, signal.SIGTERM)
        process.join(20)
    return {
        "rounds": rounds,
        "reports_a_round": count * REPORTS,
        "connections": CONNECTIONS,
        "bytes_a_report": len(report),
        "per_second": round(statistics.median(rates)),
        "slowest_round_per_second": round(min(rates)),
        "server_cpu_us_a_report": round(1e6 * statistics.median(spent), 2),
    }


# -- scale --------------------------------------------------------------------------------------------------


def folder_with(folder: Path, policies: int, events: int) -> str:
    """A service's folder with so many policies and, written by SQL, decisions of theirs; its token."""
    from dpbandits.service.budgets import promise_of
    from dpbandits.service.core import Service
    from dpbandits.service.settings import Settings

    service = Service(folder, settings=Settings(requests_per_second=1e6))
    token = str(service.first_token)
    service.ledger.open_account("people", privacy=promise_of({"epsilon": 40, "delta": 1e-6}))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(policies):
            service.begin_policy({**POLICY, "name": f"p{number}", "population": "people"}, by="")
    service.close()
    if events:
        store = sqlite3.connect(folder / "service.db", isolation_level=None)
        for line in ("journal_mode = OFF", "synchronous = OFF", "cache_size = -1048576"):
            store.execute(f"PRAGMA {line}")
        identities = sorted(row[0] for row in store.execute("SELECT id FROM policies"))
        (owner,) = store.execute("SELECT id FROM tokens").fetchone()
        each, answer = events // policies, '{"release":1,"fallback":false,"propensity":null,"arm":"a"}'
        store.execute("BEGIN")
        for identity in identities:  # ids spread over all that there can be, as digests are
            store.execute(
                "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i + 1 < ?) "
                "INSERT INTO decisions "
                "(policy, token, asked_as, body, ask, status, answer, reward, asked_at) "
                "SELECT ?, ?, CAST(printf('%016x', i * ?) AS BLOB), x'00112233445566778899aabbccddeeff', "
                "NULL, 'counted', ?, 1.0, ? FROM n",
                (each, identity, owner, (1 << 62) // each, answer, time.time()),
            )
        store.execute("COMMIT")
        store.execute("PRAGMA journal_mode = WAL")
        store.close()
    return token


def begin(folder: Path, database: str = "") -> tuple[subprocess.Popen[str], int, float]:
    """A service on the folder: it, its port, and the seconds until it answered."""
    config = folder.with_suffix(".toml")
    settings = f"requests_per_second = 1000000\npolicy_memory = {1 << 40}\n"  # all of them stay open
    config.write_text(settings + f'database = "{database}"\n' * bool(database))
    command = [sys.executable, "-m", "dpbandits", "serve", "--data", str(folder), "--config", str(config)]
    began = time.perf_counter()
    process = subprocess.Popen(  # noqa: S603 - its arguments are ours
        [*command, "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if process.stdout is None:
        raise RuntimeError("it says nothing")
    url = process.stdout.readline().strip()
    with urllib.request.urlopen(f"{url}/v1/health", timeout=60):  # noqa: S310 - loopback
        return process, int(url.rpartition(":")[2]), time.perf_counter() - began


def most_memory(pid: int) -> float:
    """MiB that a process has had at most."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def scale(scratch: Path, policies: int, events: int, rounds: int, pairs: int) -> dict[str, Any]:
    small, large = scratch / "small", scratch / "large"
    began = time.perf_counter()
    tokens = {"small": folder_with(small, 1, 0), "large": folder_with(large, policies, events)}
    found: dict[str, Any] = {
        "policies": policies,
        "events": events,
        "filled_in_seconds": round(time.perf_counter() - began, 1),
        "store_mib": round((large / "service.db").stat().st_size / 2**20),
        "rounds": rounds,
        "pairs": pairs,
    }
    one, port, _ = begin(small)
    other, large_port, seconds = begin(large)
    found["start_seconds"] = round(seconds, 3)
    found["start_cpu_seconds"] = round(ticks_of(other.pid), 3)
    found["start_mib"] = round(most_memory(other.pid), 1)
    names = [f"p{number}" for number in range(policies)]
    asked = {
        "alone": ("small", port, ["p0"]),
        "one of them": ("large", large_port, ["p0"]),
        "50 of them": ("large", large_port, names[:50]),
        "all of them": ("large", large_port, names),
    }
    for first in range(0, policies, 400):  # each policy is opened once
        asyncio.run(
            load("service", large_port, tokens["large"], 400, f"w{first}", names[first : first + 400])
        )
    rows: list[dict[str, float]] = []
    for number in range(rounds + 1):
        row = {}
        for kind, (where, at, chosen) in asked.items():
            took = asyncio.run(load("service", at, tokens[where], pairs, f"{kind} {number}", chosen))
            row[kind] = statistics.median(took[::2])
        rows.append(row)
    found["decision_p50_ms"] = {
        kind: round(1e3 * statistics.median(row[kind] for row in rows[1:]), 3) for kind in asked
    }
    found["slowdown"] = {
        kind: round(statistics.median(row[kind] / row["alone"] for row in rows[1:]), 3)
        for kind in asked
        if kind != "alone"
    }
    found["with_all_open_mib"] = round(most_memory(other.pid), 1)
    for process in (one, other):
        process.terminate()
        process.wait(30)
    return found


_HERE, _THERE = "service, folder, fast", "service, postgresql, fast"
AIMS: dict[tuple[str, ...], tuple[str, float | None]] = {
    ("pairs", _HERE, "cpu_ratio"): ("CPU time a pair at 8 connections, over a bare route's", 2.0),
    ("pairs", _HERE, "alone_p50_ratio"): ("p50 of a request at 1 connection, over a bare route's", 1.6),
    ("pairs", _HERE, "batched_over_single"): ("pairs a second in batches of 100, over one by one", 10.0),
    ("pairs", _HERE, "cpu_over_batched"): ("CPU time a pair one by one, over in batches of 100", None),
    ("pairs", _HERE, "throughput_ratio"): ("pairs a second, over a bare route's", 0.5),
    ("pairs", _HERE, "p99_ratio"): ("p99 of a request, over a bare route's", 3.0),
    ("pairs", _HERE, "cpu_us_a_pair"): ("CPU time a pair, us", None),
    ("pairs", _HERE, "batched_cpu_us_a_pair"): ("CPU time a pair in batches of 100, us", None),
    ("pairs", _HERE, "pairs_per_second"): ("pairs a second", None),
    ("pairs", _HERE, "batched_pairs_per_second"): ("pairs a second in batches of 100", None),
    ("pairs", _HERE, "p99_ms"): ("p99 of a request, ms", None),
    ("pairs", "service, folder, default", "cpu_ratio"): ("CPU time a pair with asyncio and h11: ratio", 2.0),
    ("pairs", "service, folder, default", "alone_p50_ratio"): ("p50 with asyncio and h11: ratio", 1.6),
    ("pairs", _THERE, "cpu_ratio"): ("CPU time a pair on PostgreSQL: ratio", 2.0),
    ("pairs", _THERE, "alone_p50_ratio"): ("p50 at 1 connection on PostgreSQL: ratio", 1.6),
    ("pairs", _THERE, "batched_over_single"): (
        "pairs in batches of 100 on PostgreSQL, over one by one",
        10.0,
    ),
    ("pairs", _THERE, "throughput_ratio"): ("pairs a second on PostgreSQL: ratio", 0.5),
    ("pairs", _THERE, "pairs_per_second"): ("pairs a second on PostgreSQL", None),
    ("pairs", "while released, folder, fast", "throughput_ratio"): (
        "while blocks are released: pairs a second, ratio",
        0.5,
    ),
    ("pairs", "while released, folder, fast", "p99_ratio"): ("while blocks are released: p99, ratio", 3.0),
    ("reports", "per_second"): ("reports of devices a second, in batches of 100", 50_000.0),
    ("reports", "server_cpu_us_a_report"): ("the server's own CPU time a report, us", None),
    ("scale", "slowdown", "one of them"): (
        "a decision among many policies and events, over alone: one policy",
        1.1,
    ),
    ("scale", "slowdown", "50 of them"): ("the same, of 50 policies in turn", 1.1),
    ("scale", "slowdown", "all of them"): ("the same, of all policies in turn, all held in memory", 1.1),
    ("scale", "start_seconds"): ("start with them, seconds", 2.0),
    ("scale", "start_mib"): ("memory when it has started, MiB", 300.0),
    ("scale", "with_all_open_mib"): ("memory with all policies open, MiB", None),
    ("scale", "policies"): ("policies", None),
    ("scale", "events"): ("decisions in the store", None),
    ("scale", "store_mib"): ("the store, MiB", None),
}
"""Texts for the figures, and their aims: smallest pairs and reports per second, and largest other figures."""


def told(found: dict[str, Any]) -> list[dict[str, Any]]:
    """A row each."""
    rows = []
    for path, (name, aim) in AIMS.items():
        value: Any = found
        for part in path:
            value = value.get(part) if isinstance(value, dict) else None
        if value is not None:
            least = any(word in path[-1] for word in ("throughput", "per_second", "over_single"))
            missed = aim is not None and (value < aim if least else value > aim)
            rows.append({"name": name, "value": value, "aim": aim, "least": least, "missed": missed})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--scratch", type=Path, help="where 3 GB fit")
    parser.add_argument("--policies", type=int, default=1000)
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=("pairs", "reports", "scale"))
    options = parser.parse_args()
    chosen = options.only or ("pairs", "reports", "scale")
    before = os.getloadavg()[0]
    found: dict[str, Any] = {}
    if "pairs" in chosen:
        found["pairs"] = compared(options.rounds, 400)
    if "reports" in chosen:
        found["reports"] = reports_a_second(options.rounds, 500)
    if "scale" in chosen:
        with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
            found["scale"] = scale(Path(scratch), options.policies, options.events, options.rounds, 400)
    print(json.dumps(found, indent=1))
    if options.out:
        here = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "load": f"{before:.1f} to {os.getloadavg()[0]:.1f}",
        }
        rows = {row["name"]: row | here for row in told(found)}
        if options.only and options.out.exists():  # of what was not measured now the figures stay
            rows = {row["name"]: row for row in json.loads(options.out.read_text())} | rows
        kept = [rows[name] for name, _ in AIMS.values() if name in rows]
        options.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
