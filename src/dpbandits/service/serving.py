"""Serving a folder over HTTP, until the process is stopped."""

import logging
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from dpbandits.errors import InvalidParameter, MissingExtra
from dpbandits.service.settings import Settings

__all__ = ["serve_folder"]


def serve_folder(
    folder: Path, *, config: Path | None, host: str | None, port: int | None, say: Callable[[str], object]
) -> None:
    """Open the folder, say its address and a first token, and serve until the process is stopped.

    Args:
        folder: made where it does not exist.
        config: `service.toml`, or None for the defaults.
        host, port: before those of the file, where they are given; port 0 is any that is free.
        say: told what an operator should see, a line at a time.

    Raises:
        MissingExtra: the extra `service` is not installed.
        InvalidParameter: the address cannot be had, or the file does not fit.
        StateError: another process uses the folder.
    """
    try:
        import uvicorn

        from dpbandits.service.application import application
    except ImportError:
        raise MissingExtra("the service needs its extra: pip install 'dpbandits[service]'") from None
    from dpbandits.service.core import Service

    settings = Settings.from_toml(config)
    settings = replace(
        settings,
        host=settings.host if host is None else host,
        port=settings.port if port is None else port,
    )
    listening = _bound(settings.host, settings.port)
    service = Service(folder, settings=settings)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(f"http://{shown}:{listening.getsockname()[1]}")
    if service.first_token is not None:
        say(f"first token, shown once: {service.first_token}")
    uvicorn.Server(
        uvicorn.Config(
            application(service),
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            h11_max_incomplete_event_size=64 << 10,
            limit_concurrency=1000,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=10,
        )
    ).run(sockets=[listening])


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(1024)  # who comes before all is ready waits
    except OSError as error:
        listening.close()
        raise InvalidParameter(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return listening
