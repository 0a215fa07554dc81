"""A server in a process of its own, and a bad network before it."""

import itertools
import json
import secrets
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def packed_reports(reports: list[bytes]) -> bytes:
    """Reports as a batch is sent."""
    return b"".join(len(report).to_bytes(2, "little") + report for report in reports)


def free_port() -> int:
    """A port where nobody listens. The system gives none of this range to whoever asks for any."""
    while True:
        port = secrets.choice(range(10_000, 32_000))
        with socket.socket() as found, suppress(OSError):
            found.bind(("127.0.0.1", port))
            return port


PATIENT = """
import runpy
from dpbandits.service import gate, writer
gate.LOOKUP_SECONDS = writer.LONGEST_WAIT = 60.0
runpy.run_module("dpbandits", run_name="__main__", alter_sys=True)
"""
"""`python -m dpbandits` whose service waits for longer: its threads may stand still on a busy machine."""

SERVE = [sys.executable, "-c", PATIENT, "serve"]
"""Command that serves; its options follow."""


class ServerProcess:
    """`dpbandits serve` on a folder; begun, it answers."""

    def __init__(self, folder: Path, port: int = 0, more: tuple[str, ...] = ()) -> None:
        self._folder, self._port, self._more, self.token = folder, port, more, ""
        self.begin()

    def begin(self) -> None:
        self.process = subprocess.Popen(
            [*SERVE, "--data", str(self._folder), "--port", str(self._port), *self._more],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        lines = self.process.stdout
        assert lines is not None
        self.url = lines.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.url
        if not self.token:
            self.token = lines.readline().rpartition(" ")[2].strip()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(60.0)
        self.kill()

    def post(self, path: str, body: Any) -> Any:
        return self.send("POST", path, body)

    def send(self, method: str, path: str, body: Any) -> Any:
        request = urllib.request.Request(  # noqa: S310 - loopback
            f"{self.url}{path}",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as reply:  # noqa: S310
            return json.load(reply)


@contextmanager
def serving(folder: Path, port: int = 0) -> Iterator[ServerProcess]:
    server = ServerProcess(folder, port)
    try:
        yield server
    finally:
        server.stop()


class BadNetwork:
    """A proxy on loopback that does, connection by connection, what `faults` say.

    Args:
        port: of the server.
        faults: names, over and over: `fine`, `deaf` (closed before anything is sent on), `dumb` (sent on, and
            closed before the answer), `torn` (half of the answer), `babble` (something else answers), `busy`
            (a 503 of something else), `turned away` (a login page).
    """

    def __init__(self, port: int, faults: list[str]) -> None:
        self._to, self._faults = port, itertools.cycle(faults)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listening.accept()
                with caller, suppress(OSError):
                    self._one(caller, next(self._faults))

    def _one(self, caller: socket.socket, fault: str) -> None:
        request = _whole(caller)
        if fault == "deaf" or not request:
            return
        said: dict[str, Callable[[], bytes]] = {
            "babble": lambda: b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
            "busy": lambda: b"HTTP/1.1 503 No\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nno",
            "turned away": lambda: (
                b"HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:9/\r\nContent-Length: 0\r\n\r\n"
            ),
        }
        if fault in said:
            caller.sendall(said[fault]())
            return
        with socket.create_connection(("127.0.0.1", self._to), timeout=60) as server:
            server.sendall(request)
            answer = _whole(server)
        if fault != "dumb":
            caller.sendall(answer[: len(answer) // 2] if fault == "torn" else answer)

    def close(self) -> None:
        self._listening.close()


def _whole(peer: socket.socket) -> bytes:
    """One message with its body."""
    peer.settimeout(20)
    data = b""
    while b"\r\n\r\n" not in data:
        part = peer.recv(65536)
        if not part:
            return data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    size = int(lengths[0].partition(b":")[2]) if lengths else 0
    while len(body) < size:
        part = peer.recv(65536)
        if not part:
            break
        body += part
    return head + b"\r\n\r\n" + body
