"""Serving a folder, or a database, over HTTP, until the process is stopped.

Several workers are forked processes that accept from one socket. The first process does nothing but begin
them, and begin one anew that has ended; where it ends, they end.
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
"""Connections of one worker, if the system lets it open as many files."""

OTHER_FILES = 200
"""Files that a worker may have open beside its connections."""

AGAIN_SECONDS = 1.0
"""After so long a worker that has ended is begun anew."""


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
    """Open the folder, say its address and a first token, and serve until the process is stopped.

    Args:
        folder: made where it does not exist.
        config: `service.toml`, or None for the defaults.
        host, port, database: before those of the environment and the file, where they are given; port 0 is
            any that is free.
        say: told what an operator should see, a line at a time.
        workers: processes that serve; several need a database.

    Raises:
        MissingExtra: the extra `service`, or `postgres`, is not installed.
        InvalidParameter: the address cannot be had, or the file or a variable does not fit.
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
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # it repeats what it was given
    if service.read_only:
        log.warning("this is a copy that only reads until `dpbandits service adopt`: %s", service.why_copy)
    elif meaning := unnoticed_copies(settings):
        log.warning(meaning)
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(f"http://{shown}:{listening.getsockname()[1]}")
    if service.first_token is not None:
        say(f"first token, shown once: {service.first_token}")
    if workers == 1:
        _serve(service, listening)
        return
    service.close()  # no thread may be forked
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
    """Return how many connections this process may have, and let it have as many as the system allows."""
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
    """Keep so many processes serving, until this one is told to stop."""
    own, stopping = os.getpid(), threading.Event()
    running: set[int] = set()

    told = {signal.SIGTERM, signal.SIGINT}
    from prometheus_client.multiprocess import mark_process_dead

    def begin() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, told)  # who is told meanwhile must know of whom
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
        except BaseException as error:  # noqa: BLE001 - a worker of its own, begun anew
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
        mark_process_dead(process)  # type: ignore[no-untyped-call]  # its memory is counted no more
        if not stopping.is_set():
            time.sleep(AGAIN_SECONDS)  # where a worker cannot begin, not a thousand times a second
            if not stopping.is_set():
                begin()


def _follow(parent: int) -> None:
    """End where the process that began this one is gone."""
    while os.getppid() == parent:
        time.sleep(AGAIN_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Named as TCP it is asked to send at once: else the second half of an answer waits 40 ms for the first.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)  # who comes before all is ready waits
    except OSError as error:
        listening.close()
        raise InvalidParameter(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listening
