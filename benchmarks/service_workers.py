"""Decisions and rewards a second of 1, 2 and 4 workers on PostgreSQL, beside bare routes and bare inserts.

    python -m benchmarks.service_workers --out reproduction/results/service-workers.json

On an idle machine with PostgreSQL, in five minutes or so. It begins a server of its own on a socket,
with the settings of a fresh installation (every commit is on the disk), and workers as
`dpbandits serve` has them. Clients, workers and database share the machine: where it has few cores, these are
the limit. One service runs at a time.

A round measures, one after the other,

- `pairs`: a decision and its reward over HTTP, with so many workers, of one policy and of eight;
- `route`: two requests of the bare FastAPI route of `over_http.py`, by so many processes;
- `bare`: pairs of inserts, each committed, by so many processes that do nothing else;
- `commits`: what `pgbench` reaches with one insert and its commit, by 1 and by 16 connections.

Ratios are within a round. The load of the machine before the run is written down.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import platform
import re
import signal
import socket
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.over_http import CONNECTIONS, address, as_owner, bare_application, load, postgresql, programs
from benchmarks.service_speed import POLICY

WORKERS = (1, 2, 4)
POLICIES = 8
CORES = os.cpu_count() or 1
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
PGBENCH_SECONDS = 2
INSERT = "INSERT INTO bare (body) VALUES (%s)"


# -- the service ------------------------------------------------------------------------------------------


def begun(folder: Path, database: str) -> str:
    """Policies in an empty database; a token."""
    from dpbandits.service.budgets import promise_of
    from dpbandits.service.core import Service
    from dpbandits.service.settings import Settings

    service = Service(folder, settings=Settings(database=database))
    try:
        service.ledger.open_account("people", privacy=promise_of({"epsilon": 1, "delta": 1e-9}))
        for number in range(POLICIES):
            service.begin_policy({**POLICY, "name": f"p{number}", "population": "people"}, by="")
        return service.first_token or ""
    finally:
        service.close()


def serve(folder: Path, database: str, workers: int, ready: Any) -> None:
    from dpbandits.service.serving import serve_folder

    logging.disable(logging.INFO)  # a line a request is for whoever serves
    config = folder / "service.toml"
    config.write_text("requests_per_second = 1e6\n")
    options = {"host": None, "port": 0, "database": database, "workers": workers}
    serve_folder(folder, config=config, say=ready.put, **options)


def serve_routes(database: str, workers: int, ready: Any) -> None:
    """A bare route, by so many processes that accept from one socket, as the service's workers do."""
    listening = socket.socket(proto=socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    processes: list[int] = []
    while len(processes) < workers:
        process = os.fork()
        if not process:
            serve_route(database, listening)
            os._exit(0)
        processes.append(process)
    signal.signal(signal.SIGTERM, lambda *_: [os.kill(one, signal.SIGTERM) for one in processes])
    ready.put(f"http://127.0.0.1:{listening.getsockname()[1]}")
    for one in processes:
        os.waitpid(one, 0)


def serve_route(database: str, listening: socket.socket) -> None:
    from dpbandits.service.http_server import http_server

    http_server(bare_application(Path(), database)).run(sockets=[listening])


@contextmanager
def running(context: Any, serving: Callable[..., None], *arguments: Any) -> Iterator[int]:
    """A process that serves with so many workers, the last of the arguments, and its port."""
    ready = context.Queue()
    # As `dpbandits serve` has it, and before NumPy is loaded there.
    os.environ.update(dict.fromkeys(THREADS, str(max(1, CORES // arguments[-1]))))
    process = context.Process(target=serving, args=(*arguments, ready))
    process.start()
    try:
        yield int(ready.get(timeout=120).rpartition(":")[2])
    finally:
        os.kill(process.pid or 0, signal.SIGTERM)
        process.join(20)


def a_second(kind: str, port: int, token: str, pairs: int, name: str, policies: int) -> float:
    """Pairs a second, after some that warm up."""
    names = [f"p{number}" for number in range(policies)]
    asyncio.run(load(kind, port, token, 2 * CONNECTIONS * POLICIES, f"{name}-warm", names))
    began = time.perf_counter()
    asyncio.run(load(kind, port, token, pairs, name, names))
    return pairs / (time.perf_counter() - began)


# -- beside it --------------------------------------------------------------------------------------------


def insert(database: str, pairs: int, ready: Any, go: Any) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        ready.release()
        go.wait()
        for _ in range(2 * pairs):
            connection.execute(INSERT, ["x" * 200])


def bare(context: Any, database: str, processes: int, pairs: int) -> float:
    """Pairs of committed inserts a second."""
    ready, go = context.Semaphore(0), context.Event()
    share = pairs // processes
    running = [
        context.Process(target=insert, args=(database, share, ready, go), daemon=True)
        for _ in range(processes)
    ]
    for process in running:
        process.start()
    for _ in running:
        ready.acquire()
    began = time.perf_counter()
    go.set()
    for process in running:
        process.join()
    return processes * share / (time.perf_counter() - began)


def commits(server: Path, script: Path, connections: int) -> float:
    """Return the commits per second of the database alone."""
    options = ["-n", "-h", server, "-U", "postgres", "-T", PGBENCH_SECONDS, "-c", connections, "-f", script]
    told = as_owner(programs() / "pgbench", *options, "bare")
    found = re.search(r"tps = ([0-9.]+) \(without", told)
    if found is None:
        raise RuntimeError("pgbench said nothing of transactions a second")
    return float(found[1])


def measured(rounds: int, pairs: int) -> dict[str, Any]:
    context = multiprocessing.get_context("spawn")
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch, postgresql() as server:
        plain = address(server, "bare")
        with psycopg.connect(plain, autocommit=True) as connection:
            connection.execute("CREATE TABLE bare (id BIGSERIAL PRIMARY KEY, body TEXT)")
        script = server / "insert.sql"
        script.write_text(INSERT.replace("%s", "'" + "x" * 200 + "'") + ";\n")
        script.chmod(0o644)
        services = {}
        for workers in WORKERS:
            folder = Path(scratch) / str(workers)
            folder.mkdir(mode=0o700)
            database = address(server, f"workers{workers}")
            services[workers] = folder, database, begun(folder, database)
        rows = []
        for number in range(rounds):
            row: dict[str, Any] = {"commits": [commits(server, script, one) for one in (1, 16)]}
            for workers, (folder, database, token) in services.items():
                name = f"r{number}"
                with running(context, serve, folder, database, workers) as port:
                    pairs_of = [
                        a_second("service", port, token, pairs, f"{name}-{many}", many)
                        for many in (1, POLICIES)
                    ]
                with running(context, serve_routes, plain, workers) as port:
                    route = a_second("bare", port, "", pairs, f"{name}-{workers}", 1)
                row[workers] = (*pairs_of, route, bare(context, plain, workers, pairs))
            rows.append(row)
    found: dict[str, Any] = {
        "rounds": rounds,
        "pairs": pairs,
        "connections": CONNECTIONS,
        "machine": f"{platform.machine()}, {CORES} cores",
        "load_before": round(before, 1),
        "load_after": round(os.getloadavg()[0], 1),
        "commits_1": round(statistics.median(row["commits"][0] for row in rows)),
        "commits_16": round(statistics.median(row["commits"][1] for row in rows)),
        "workers": [],
    }
    for workers in WORKERS:
        of = [row[workers] for row in rows]
        found["workers"].append(
            {
                "workers": workers,
                "one_policy": round(statistics.median(row[0] for row in of)),
                "policies": round(statistics.median(row[1] for row in of)),
                "route": round(statistics.median(row[2] for row in of)),
                "bare": round(statistics.median(row[3] for row in of)),
                "ratio_to_route": round(statistics.median(row[0] / row[2] for row in of), 2),
                "ratio": round(statistics.median(row[0] / row[3] for row in of), 3),
                "ratio_policies": round(statistics.median(row[1] / row[3] for row in of), 3),
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--pairs", type=int, default=400)
    options = parser.parse_args()
    found = measured(options.rounds, options.pairs)
    text = json.dumps([found], indent=1)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
