"""`AsyncRemotePolicy`: the methods of `RemotePolicy` as coroutines."""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from dpbandits._calls import worded
from dpbandits._seen import Seen
from dpbandits.client.policies import RemotePolicy

__all__ = ["AsyncRemotePolicy"]

_T = TypeVar("_T")


_P = ParamSpec("_P")


MOST_AWAITED = 32
"""Largest number of concurrent calls of an `AsyncRemotePolicy`; further calls wait."""


def _awaited(
    call: Callable[Concatenate[RemotePolicy, _P], _T],
) -> Callable[Concatenate["AsyncRemotePolicy", _P], Coroutine[Any, Any, _T]]:
    """Return a method of `AsyncRemotePolicy` that runs a method of `RemotePolicy` in a thread."""

    @wraps(call)
    async def awaited(self: "AsyncRemotePolicy", *given: _P.args, **named: _P.kwargs) -> _T:
        work = partial(call, self._policy, *given, **named)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    return awaited  # type: ignore[return-value]  # mypy does not see a method in the result of `wraps`


@worded
class AsyncRemotePolicy(Seen):
    """`RemotePolicy` with coroutines, each run in a thread; arguments and errors are the same.

    A cancelled ask may have taken its round.
    """

    def __init__(self, url: str, name: str, **options: Any) -> None:
        self._policy = RemotePolicy(url, name, **options)
        self._threads = ThreadPoolExecutor(MOST_AWAITED, thread_name_prefix="dpbandits remote")

    def __repr__(self) -> str:
        return f"Async{self._policy!r}"

    ask = _awaited(RemotePolicy.ask)
    ask_batch = _awaited(RemotePolicy.ask_batch)
    check = _awaited(RemotePolicy.check)
    tell = _awaited(RemotePolicy.tell)
    tell_batch = _awaited(RemotePolicy.tell_batch)
    abandon = _awaited(RemotePolicy.abandon)
    flush = _awaited(RemotePolicy.flush)
    activate = _awaited(RemotePolicy.activate)
    status = _awaited(RemotePolicy.status)
    readout = _awaited(RemotePolicy.readout)
    end_readout = _awaited(RemotePolicy.end_readout)
    releases = _awaited(RemotePolicy.releases)
    publish = _awaited(RemotePolicy.publish)
    statement = _awaited(RemotePolicy.statement)
