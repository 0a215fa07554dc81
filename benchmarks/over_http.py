"""What a decision and its reward cost over HTTP, beside a bare FastAPI route with one SQLite insert.

    python -m benchmarks.over_http --out reproduction/results/over-http.json

Server and client are two processes on this machine; the client keeps its connections open and waits for each
answer. Both servers commit each insert to the disk (WAL, synchronous = FULL). They take turns in short
rounds, and a ratio is taken within a round; what is reported is the median over rounds. `while released` are
rounds with short blocks, so that a release is made in nearly every second.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ARMS = ["a", "b", "c", "d"]
CONNECTIONS = 8


def bare_application(folder: Path) -> Any:
    import threading

    from fastapi import FastAPI
    from pydantic import BaseModel

    class Event(BaseModel):
        id: str
        user: str
        context: dict[str, float]

    connection = sqlite3.connect(folder / "bare.db", isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE events (id TEXT PRIMARY KEY, body TEXT)")
    app, lock = FastAPI(), threading.Lock()

    @app.post("/events")
    def event(message: Event) -> dict[str, str]:
        with lock:
            connection.execute("INSERT INTO events VALUES (?, ?)", (message.id, message.model_dump_json()))
        return {"id": message.id}

    return app


def serve(kind: str, folder: Path, blocks: bool, ready: Any) -> None:  # noqa: FBT001
    import uvicorn

    token = ""
    if kind == "bare":
        app = bare_application(folder)
    else:
        from dpbandits.service.application import application
        from dpbandits.service.budgets import promise_of
        from dpbandits.service.core import Service
        from dpbandits.service.settings import Settings

        service = Service(folder / "data", settings=Settings(requests_per_second=1e6))
        token = service.first_token or ""
        service.ledger.open_account("people", privacy=promise_of({"epsilon": 10, "delta": 1e-5}))
        asked: dict[str, Any] = {
            "name": "offers",
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
        service.begin_policy(asked)
        app = application(service)
    listening = socket.socket(proto=socket.IPPROTO_TCP)  # else answers wait 40 ms for their first half
    listening.bind(("127.0.0.1", 0))
    listening.listen(100)
    ready.put((listening.getsockname()[1], token))
    uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False)).run(sockets=[listening])


async def _request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes, body: bytes
) -> bytes:
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


async def load(
    kind: str, port: int, token: str, pairs: int, name: str, policies: Sequence[str] = ("offers",)
) -> list[float]:
    """Seconds of each request; a pair is two of them, one after the other, of one policy after the other."""
    took: list[float] = []
    common = f"Host: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {token}\r\n"

    async def one(connection: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for number in range(pairs // CONNECTIONS):
            identity = f"{name}-{connection}-{number}"
            body = {"id": identity, "user": identity, "context": {"x": 0.3, "y": number % 10 / 10}}
            policy = policies[(connection + CONNECTIONS * number) % len(policies)]
            at = "/events" if kind == "bare" else f"/v1/policies/{policy}/decisions"
            began = time.perf_counter()
            answer = await _request(
                reader, writer, f"POST {at} HTTP/1.1\r\n{common}".encode(), json.dumps(body).encode()
            )
            middle = time.perf_counter()
            if kind == "bare":
                body["id"] += "-again"
                head, sent = f"POST {at} HTTP/1.1\r\n{common}", body
            else:
                head, sent = f"PUT {at}/{json.loads(answer)['id']}/reward HTTP/1.1\r\n{common}", {"reward": 1}
            await _request(reader, writer, head.encode(), json.dumps(sent).encode())
            took.extend((middle - began, time.perf_counter() - middle))
        writer.close()

    await asyncio.gather(*(one(connection) for connection in range(CONNECTIONS)))
    return took


def measured(kinds: dict[str, tuple[int, str]], rounds: int, pairs: int) -> list[dict[str, Any]]:
    rows = []
    for number in range(rounds + 1):
        row: dict[str, Any] = {}
        for kind, (port, token) in kinds.items():
            began = time.perf_counter()
            took = sorted(asyncio.run(load(kind, port, token, pairs, f"r{number}")))
            row[kind] = {
                "pairs_per_second": len(took) / 2 / (time.perf_counter() - began),
                "p50_ms": 1e3 * took[len(took) // 2],
                "p99_ms": 1e3 * took[int(0.99 * len(took))],
            }
        if number:  # the first one warms up
            rows.append(row)
    return rows


def compared(rounds: int, pairs: int) -> dict[str, Any]:
    """Medians over rounds, and ratios to the bare route's."""
    found: dict[str, Any] = {"rounds": rounds, "pairs": pairs, "connections": CONNECTIONS}
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as scratch:
        kinds, processes = {}, []
        for kind, blocks in (("bare", False), ("service", False), ("while released", True)):
            folder, ready = Path(scratch) / kind.replace(" ", "-"), context.Queue()
            folder.mkdir(mode=0o700)
            process = context.Process(target=serve, args=(kind, folder, blocks, ready), daemon=True)
            process.start()
            processes.append(process)
            kinds[kind] = ready.get(timeout=120)
        rows = measured(kinds, rounds, pairs)
        for process in processes:
            os.kill(process.pid or 0, 15)
            process.join(20)
    for kind in kinds:
        own = {
            name: statistics.median(row[kind][name] for row in rows)
            for name in ("pairs_per_second", "p50_ms", "p99_ms")
        }
        if kind != "bare":
            for name, ratio in (("pairs_per_second", "throughput_ratio"), ("p99_ms", "p99_ratio")):
                own[ratio] = statistics.median(row[kind][name] / row["bare"][name] for row in rows)
        found[kind] = {name: round(value, 3) for name, value in own.items()}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--pairs", type=int, default=400)
    options = parser.parse_args()
    found = compared(options.rounds, options.pairs)
    text = json.dumps(found, indent=2)
    print(text)
    if options.out:
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
