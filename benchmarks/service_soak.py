"""Memory and the slowest answers of the service over a long time at a steady rate.

    python -m benchmarks.service_soak --minutes 30 --out reproduction/results/service-soak.json

A service in a separate folder, as `dpbandits serve` has it, or with `--postgresql` on a database, gets
decisions and rewards at a fixed rate. By default this is `SHARE` of the rate that it reaches in a first
burst, so that it keeps up. Each pair is due at its time, even if earlier pairs are not finished, and its
latency is counted from then. So the latency of a server that stops is counted in full. Client and server
share the machine, whose load is recorded.

The time is divided into six windows, of five minutes each if it is 30 minutes. Each window has a row with the
p99 of a request, the server's CPU time a pair, and the median and the highest memory (resident set) of the
server. CPU time tells a server that gets slower from a machine that does; it has nothing of the database's
processes. The growth of memory after the first window is the slope of a straight line, and the range of the
windows' medians. The last row is the p99 of the last window over that of the second. Releases are made all
the while: the policy's blocks follow the library's defaults.
"""

import argparse
import asyncio
import json
import os
import platform
import statistics
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.over_http import address, cpu_seconds, load, postgresql, send
from benchmarks.service_speed import POLICY, begin

WINDOWS = 6
CONNECTIONS = 16
SHARE = 0.5
BURST = 2000
AIMS = {"memory_grows_mib": 5.0, "p99_last_over_second": 1.2}


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def begun(folder: Path, pairs: int, database: str) -> str:
    """Make a service's folder with a policy for a number of pairs, and return its token."""
    from dpbandits.central.tuning import LONGEST_HORIZON
    from dpbandits.service.budgets import promise_of
    from dpbandits.service.core import Service
    from dpbandits.service.settings import Settings

    service = Service(folder, settings=Settings(database=database))
    service.ledger.open_account("people", privacy=promise_of({"epsilon": 10, "delta": 1e-5}))
    horizon = min(2 * pairs + 10 * BURST, LONGEST_HORIZON)
    asked = {**POLICY, "name": "offers", "population": "people", "horizon": horizon}
    service.begin_policy({**asked, "privacy": {"epsilon": 1, "delta": 1e-6}}, by="")
    token = service.first_token or ""
    service.close()
    return token


async def steady(
    port: int, token: str, pid: int, rate: float, seconds: float
) -> tuple[list[tuple[float, float]], list[tuple[float, float, float]]]:
    """Return (time, seconds that it took) of each request, and (time, MiB, CPU seconds); times begin at 0."""
    took: list[tuple[float, float]] = []
    used: list[tuple[float, float, float]] = []
    common = f"Host: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"
    at, began = "/v1/policies/offers/decisions", time.perf_counter()

    async def one(connection: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(int(rate * seconds) // CONNECTIONS):
            due = (number * CONNECTIONS + connection) / rate
            await asyncio.sleep(max(0.0, began + due - time.perf_counter()))
            name = f"s{connection}-{number}"
            body = {"id": name, "user": name, "context": {"x": 0.3, "y": number % 10 / 10}}
            head = f"POST {at} HTTP/1.1\r\n{common}".encode()
            answer = json.loads(await send(reader, writer, head, json.dumps(body).encode()))
            middle = time.perf_counter() - began
            head = f"PUT {at}/{answer['id']}/reward HTTP/1.1\r\n{common}".encode()
            await send(reader, writer, head, b'{"reward": 1}')
            took.extend(((due, middle - due), (middle, time.perf_counter() - began - middle)))
        writer.close()

    async def watch() -> None:
        while True:
            used.append((time.perf_counter() - began, resident(pid), cpu_seconds(pid)))
            await asyncio.sleep(min(1.0, seconds / 300))

    watching = asyncio.create_task(watch())
    await asyncio.gather(*(one(connection) for connection in range(CONNECTIONS)))
    watching.cancel()
    return took, used


def soaked(minutes: float, rate: float | None, *, on_postgresql: bool) -> dict[str, Any]:
    seconds, before = 60.0 * minutes, os.getloadavg()[0]
    with ExitStack() as files:
        folder = Path(files.enter_context(tempfile.TemporaryDirectory())) / "data"
        database = address(files.enter_context(postgresql()), "soak") if on_postgresql else ""
        token = begun(folder, int((rate or 3000.0) * seconds), database)
        process, port, _ = begin(folder, database)
        try:
            began = time.perf_counter()
            asyncio.run(load("service", port, token, BURST, "burst"))
            reached = BURST / (time.perf_counter() - began)
            rate = SHARE * reached if rate is None else rate
            spent = cpu_seconds(process.pid)
            took, used = asyncio.run(steady(port, token, process.pid, rate, seconds))
            spent = cpu_seconds(process.pid) - spent
        finally:
            process.terminate()
            process.wait(30)
    return {
        "store": "postgresql" if on_postgresql else "folder",
        "minutes": minutes,
        "connections": CONNECTIONS,
        "burst_pairs_per_second": round(reached),
        "pairs_per_second": round(rate, 1),
        "pairs": len(took) // 2,
        "server_cpu_us_a_pair": round(1e6 * spent / (len(took) / 2)),
        "load_before": round(before, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        **told(took, used, seconds),
    }


def told(
    took: list[tuple[float, float]], used: list[tuple[float, float, float]], seconds: float
) -> dict[str, Any]:
    """Return the rows of the windows; a request that came later than all belongs to the last one."""
    windows: list[dict[str, float]] = []
    for number in range(WINDOWS):
        low, high = number * seconds / WINDOWS, (number + 1) * seconds / WINDOWS
        high = high if number < WINDOWS - 1 else float("inf")
        own = [value for at, value in took if low <= at < high]
        held = [value for at, value, _ in used if low <= at < high]
        spent = [value for at, _, value in used if low <= at < high]
        windows.append(
            {
                "requests": len(own),
                "p50_ms": round(1e3 * statistics.median(own), 2),
                "p99_ms": round(1e3 * float(np.quantile(own, 0.99)), 2),
                "server_cpu_us_a_pair": round(2e6 * (spent[-1] - spent[0]) / len(own)),
                "memory_mib": round(statistics.median(held), 2),
                "highest_memory_mib": round(max(held), 2),
            }
        )
    later = [(at, value) for at, value, _ in used if at >= seconds / WINDOWS]
    slope = float(np.polyfit(*np.array(later).T, 1)[0])
    medians = [one["memory_mib"] for one in windows[1:]]
    return {
        "windows": windows,
        "memory_slope_mib_per_hour": round(3600.0 * slope, 2),
        "memory_grows_mib": round(max(medians) - min(medians), 2),
        "p99_last_over_second": round(windows[-1]["p99_ms"] / windows[1]["p99_ms"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rate", type=float, help="pairs a second; default: a share of a burst's")
    parser.add_argument("--postgresql", action="store_true")
    options = parser.parse_args()
    found = soaked(options.minutes, options.rate, on_postgresql=options.postgresql)
    found["aims"] = AIMS
    found["missed"] = sorted(name for name, most in AIMS.items() if found[name] > most)
    text = json.dumps([found], indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
