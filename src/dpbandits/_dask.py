"""The one place where a Dask cluster is connected to."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from dpbandits.errors import InvalidParameter, MissingExtra

__all__ = ["connected"]

SECONDS = 5.0
"""Within which a scheduler must answer."""


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """A `distributed.Client` of a cluster, closed at the end.

    Args:
        address: of its scheduler, such as "tcp://10.0.0.1:8786"; or "local:2", two workers on this machine.
            Whoever reaches a scheduler can run code on its workers, which need this package.

    Raises:
        InvalidParameter: no scheduler answers there.
        MissingExtra: the extra `cluster` is not installed.
    """
    try:
        from distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtra("a cluster needs the extra `cluster`: pip install 'dpbandits[cluster]'") from error
    here = re.fullmatch(r"local:([1-9]\d{0,2})", address)
    if here is None and "://" not in address:
        raise InvalidParameter(f"cluster is {address!r}: expected tcp://HOST:PORT, or local:WORKERS")
    with ExitStack() as stack:
        try:
            where = address
            if here is not None:
                own = LocalCluster(n_workers=int(here[1]), threads_per_worker=1, dashboard_address=None)
                where = stack.enter_context(own).scheduler_address
            client = stack.enter_context(Client(where, timeout=SECONDS))
        except (OSError, ValueError) as error:
            raise InvalidParameter(f"cluster: no Dask scheduler answers at {address!r}") from error
        yield client
