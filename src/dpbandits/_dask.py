"""`connected`: a connection to a Dask cluster."""

import asyncio
import logging
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from dpbandits._lazy import needing
from dpbandits.errors import InvalidParameter

__all__ = ["connected"]

SECONDS = 5.0
"""Seconds within which a scheduler must answer."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Connect to a cluster; yield its `distributed.Client`, and close it at the end.

    Args:
        address: Address of the scheduler, such as "tcp://10.0.0.1:8786" or "10.0.0.1:8786"; or "local:2" for
            two workers on this machine, for which a script needs `if __name__ == "__main__":`. The workers
            need this package. Everybody who can reach a scheduler can run code on its workers.

    Raises:
        InvalidParameter: The address is malformed, or no scheduler answers there.
        MissingExtra: The extra `cluster` is not installed.
    """
    with needing("a cluster needs the extra `cluster`: pip install 'dpbandits[cluster]'"):
        from distributed import Client, LocalCluster
    told: object = address
    here = re.fullmatch(r"local:([1-9]\d{0,2})", address) if isinstance(told, str) else None
    if here is not None:
        # No logs: a worker's error is raised here, and its log would show the error's text (data).
        own = LocalCluster(
            n_workers=int(here[1]),
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
        )
        with own, Client(own) as client:
            yield client
        return
    if not isinstance(told, str) or not re.fullmatch(r".+://.*|(?!local:).+:\d{1,5}", told):
        raise InvalidParameter(f"cluster is {address!r}, expected tcp://HOST:PORT, or local:WORKERS")
    _check_that_a_scheduler_answers(address)
    with Client(address, timeout=SECONDS) as client:
        yield client


def _check_that_a_scheduler_answers(address: str) -> None:
    """Raise InvalidParameter unless a scheduler answers in time."""
    from distributed.core import rpc
    from distributed.security import Security

    async def identity() -> Any:
        async with rpc(address, connection_args=Security().get_connection_args("client")) as there:
            return await there.identity()

    with ThreadPoolExecutor(1) as aside:  # another thread, as a notebook's thread has a running event loop
        try:
            found = aside.submit(lambda: asyncio.run(asyncio.wait_for(identity(), SECONDS))).result()
        except Exception as error:  # another kind of server may cause any error
            raise InvalidParameter(
                f"cluster: no Dask scheduler answers at {address!r}: check the address, and that it runs"
            ) from error
    if not isinstance(found, dict) or found.get("type") != "Scheduler":
        raise InvalidParameter(f"cluster: the server at {address!r} is not a Dask scheduler")
