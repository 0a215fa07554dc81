"""`Writer`: the one thread that changes anything, and commits what waits together at once.

Calls are made one after the other in one write transaction; those that wait meanwhile share the next one, so
that a hundred decisions cost one write to the disk. Nobody is answered before the commit that holds the
answer.

A call that raises a `Refusal` has changed what it wanted to change. Whatever else it raises undoes what it
did, alone; the others in the transaction stay. Where the commit itself fails nothing of the transaction has
happened, and all of its callers are told so.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from dpbandits.errors import StateError
from dpbandits.service.store import Store, Writes

__all__ = ["Refusal", "Writer"]

_T = TypeVar("_T")

MOST_TOGETHER = 64
"""Calls in one transaction: the first of them waits for all."""


class Refusal(Exception):
    """An answer that says no; what was changed on the way to it stays."""


_Job = tuple[Callable[[Writes], Any], Future[Any]]


class Writer:
    """The thread; see the module.

    Args:
        store: whose write transactions it makes.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: SimpleQueue[_Job | None] = SimpleQueue()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="dpbandits service writer", daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return "Writer()"

    def submit(self, call: Callable[[Writes], _T]) -> Future[_T]:
        """What the call will return, or raise, once it is durable.

        Raises:
            StateError: the service is being closed.
        """
        if self._closed:
            raise StateError("the service is being closed: nothing was done")
        future: Future[_T] = Future()
        self._waiting.put((call, future))
        return future

    def close(self) -> None:
        """Do what waits, and stop."""
        self._closed = True
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while True:
            jobs = [self._waiting.get()]
            with suppress(Empty):
                while jobs[-1] is not None and len(jobs) < MOST_TOGETHER:
                    jobs.append(self._waiting.get_nowait())
            self._make([job for job in jobs if job is not None and job[1].set_running_or_notify_cancel()])
            if jobs[-1] is None:
                return

    def _make(self, jobs: list[_Job]) -> None:
        if not jobs:
            return
        try:
            with self._store.writing() as writes:
                for call, future in jobs:
                    _one(writes, call, future)
        except BaseException as error:  # noqa: BLE001 - for whoever waits
            for _, future in jobs:
                if not future.done():
                    future.set_exception(error)


def _one(writes: Writes, call: Callable[[Writes], Any], future: Future[Any]) -> None:
    """One call between two marks; its caller is answered when the transaction is."""
    writes.mark()
    try:
        result, refused = call(writes), None
    except Refusal as refusal:
        result, refused = None, refusal
    except Exception as error:  # noqa: BLE001 - for whoever waits
        writes.back()
        future.set_exception(error)
        return
    writes.unmark()
    if refused is None:
        writes.when(kept=lambda: future.set_result(result))
    else:
        writes.when(kept=lambda: future.set_exception(refused))
