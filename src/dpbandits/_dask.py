"""The one place where a Dask cluster is connected to."""

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
"""Within which a scheduler must say who it is."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A `distributed.Client` of a cluster, closed at the end.

    Args:
        address: of its scheduler, such as "tcp://10.0.0.1:8786" or "10.0.0.1:8786"; or "local:2", two workers
            on this machine, for which a script needs its `if __name__ == "__main__":`. Whoever reaches a
            scheduler can run code on its workers, which need this package.

    Raises:
        InvalidParameter: no address, or no scheduler answers there.
        MissingExtra: the extra `cluster` is not installed.
    """
    with needing("a cluster needs the extra `cluster`: pip install 'dpbandits[cluster]'"):
        from distributed import Client, LocalCluster
    told: object = address
    here = re.fullmatch(r"local:([1-9]\d{0,2})", address) if isinstance(told, str) else None
    if here is not None:
        # What a worker raised is raised here: its log would show the error's text, which may hold data.
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
        raise InvalidParameter(f"cluster is {address!r}: expected tcp://HOST:PORT, or local:WORKERS")
    _check_that_a_scheduler_answers(address)
    with Client(address, timeout=SECONDS) as client:
        yield client


def _check_that_a_scheduler_answers(address: str) -> None:
    """Ask who is there: a client would wait for one that says nothing, and leave threads where it fails."""
    from distributed.core import rpc
    from distributed.security import Security

    async def identity() -> Any:
        async with rpc(address, connection_args=Security().get_connection_args("client")) as there:
            return await there.identity()

    with ThreadPoolExecutor(1) as aside:  # a notebook has a loop that runs
        try:
            found = aside.submit(lambda: asyncio.run(asyncio.wait_for(identity(), SECONDS))).result()
        except Exception as error:  # whatever speaks there
            raise InvalidParameter(f"cluster: no Dask scheduler answers at {address!r}") from error
    if not isinstance(found, dict) or found.get("type") != "Scheduler":
        raise InvalidParameter(f"cluster: what answers at {address!r} is no Dask scheduler")
