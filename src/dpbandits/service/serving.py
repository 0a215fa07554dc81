"""`serve_folder`: serves a folder or a database over HTTP until the process is stopped.

Several workers are forked processes that accept connections from one socket. The first process starts the
workers and restarts a worker that has ended. When the first process ends, the workers end.
"""

import logging
import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from dpbandits._lazy import needing
from dpbandits.errors import InvalidParameter
from dpbandits.service.settings import COUNTERS, Settings

if TYPE_CHECKING:
    from dpbandits.service.core import Service

__all__ = ["serve_folder"]

MOST_CONNECTIONS = 10_000
"""Largest number of connections of one worker. It is smaller if the system allows fewer open files."""

OTHER_FILES = 200
"""Number of files that a worker may open besides its connections."""

AGAIN_SECONDS = 1.0
"""Number of seconds after which a worker that has ended is restarted."""


def serve_folder(
    folder: Path,
    *,
    config: Path | None,
    host: str | None,
    port: int | None,
    say: Callable[[str], object],
    database: str | None = None,
    workers: int = 1,
) -> None:
    """Open the folder, show its address and a first token, and serve until the process is stopped.

    Args:
        folder: folder of the service, created if it does not exist.
        config: path of `service.toml`, or None for the defaults.
        host: address to listen on; it takes precedence over the environment and the file.
        port: port to listen on, with the same precedence; 0 for any free port.
        database: address of the database, with the same precedence.
        say: callback for lines that an operator should see.
        workers: number of processes; several need a database.

    Raises:
        MissingExtra: the extra `service` or `postgres` is not installed.
        InvalidParameter: the address is not available, or the file or a variable is invalid.
        StateError: another process uses the folder, or the database cannot be used.
    """
    with needing("the service needs its extra: pip install 'dpbandits[service]'"):
        import uvicorn  # noqa: F401 - before anything is said
    from dpbandits.service.backups import unnoticed_copies
    from dpbandits.service.core import Service
    from dpbandits.service.logs import LogLines, log

    settings = Settings.read(config, host=host, port=port, database=database)
    if workers > 1 and not settings.database:
        raise InvalidParameter("--workers: one process uses a folder; several need --database")
    if workers > 1 and not hasattr(os, "fork"):
        raise InvalidParameter("--workers: this platform cannot fork processes: use one worker")
    listening = _bound(settings.host, settings.port)
    service = Service(folder, settings=settings)
    lines = logging.StreamHandler()
    lines.setFormatter(LogLines(as_json=settings.log_format == "json"))
    logging.basicConfig(level=logging.INFO, handlers=[lines])
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # its log lines may contain the address
    if service.read_only:
        log.warning("this copy is read-only until `dpbandits service adopt`: %s", service.why_copy)
    elif meaning := unnoticed_copies(settings):
        log.warning(meaning)
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(f"http://{shown}:{listening.getsockname()[1]}")
    if service.first_token is not None:
        say(f"first token, shown once: {service.first_token}")
    if workers == 1:
        _serve(service, listening)
        return
    service.close()  # threads do not survive a fork
    with tempfile.TemporaryDirectory(prefix="dpbandits-counters-") as counters:
        os.environ[COUNTERS] = counters
        _keep(workers, lambda: _serve(Service(folder, settings=settings), listening))


def _serve(service: "Service", listening: socket.socket) -> None:
    from dpbandits.service.application import application
    from dpbandits.service.http_server import Connections, http_server

    proxies, of_one = service.settings.proxies, service.settings.connections_per_address
    connections = Connections(most=_most_connections(), of_one=of_one, proxies=proxies)
    server = http_server(application(service), connections=connections, forwarded_allow_ips=proxies)
    server.run(sockets=[listening])


def _most_connections() -> int:
    """Raise the process's limit of open files as far as possible.

    Return the number of connections that it allows.
    """
    try:
        import resource
    except ImportError:  # another platform
        return MOST_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_CONNECTIONS + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return (
        MOST_CONNECTIONS
        if soft == resource.RLIM_INFINITY
        else min(MOST_CONNECTIONS, max(1, soft - OTHER_FILES))
    )


def _keep(count: int, serve: Callable[[], None]) -> None:
    """Keep `count` worker processes running until this process gets a signal to stop."""
    own, stopping = os.getpid(), threading.Event()
    running: set[int] = set()

    told = {signal.SIGTERM, signal.SIGINT}
    from prometheus_client.multiprocess import mark_process_dead

    def begin() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, told)  # `stop` must see every worker in `running`
        process = os.fork()
        if process:
            running.add(process)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, told)
            return
        try:
            for one in told:
                signal.signal(one, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, told)
            threading.Thread(target=_follow, args=(own,), daemon=True).start()
            serve()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 - the first process restarts it
            logging.getLogger("dpbandits.service").error("a worker ended: %s", type(error).__name__)
        finally:
            os._exit(1)

    def stop(*_: object) -> None:
        stopping.set()
        for process in running:
            os.kill(process, signal.SIGTERM)

    for one in told:
        signal.signal(one, stop)
    for _ in range(count):
        begin()
    while running:
        process, _ = os.wait()
        running.discard(process)
        mark_process_dead(process)  # type: ignore[no-untyped-call]  # its gauges end
        if not stopping.is_set():
            time.sleep(AGAIN_SECONDS)  # avoids a busy loop if a worker cannot start
            if not stopping.is_set():
                begin()


def _follow(parent: int) -> None:
    """Stop this worker when its parent process is gone."""
    while os.getppid() == parent:
        time.sleep(AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY for IPPROTO_TCP only: without it an answer in two parts waits for 40 ms.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)  # early clients wait until the service is ready
    except OSError as error:
        listening.close()
        raise InvalidParameter(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listening
