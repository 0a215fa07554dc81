"""`Beside`: calls in a background thread, one after the other.

The thread runs only while there is work. It is not a daemon thread, so a process that ends waits for queued
calls instead of stopping inside linear algebra. A forked child does not have the thread: queued calls run in
the parent only.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Beside"]

_T = TypeVar("_T")


class Beside:
    """A queue of calls, and the thread that runs them.

    Example:
        >>> Beside().begin(lambda: 6 * 7).result()
        42
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._working = False

    def __repr__(self) -> str:
        return "Beside()"

    def begin(self, call: Callable[[], _T]) -> "Future[_T]":
        """Queue a call, and return a future of its result. Calls run in the order in which they were queued.

        Raises:
            RuntimeError: No thread can be started; the call is not queued.
        """
        future: Future[_T] = Future()
        with self._lock:
            if not self._working:
                threading.Thread(target=self._work, name="dpbandits beside the answers").start()
                self._working = True
            self._waiting.append((future, call))
        return future

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._working = False
                    return
                future, call = self._waiting.popleft()
            if future.set_running_or_notify_cancel():  # after this it cannot be cancelled
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - `future.result()` raises it
                    future.set_exception(error)
            del future, call  # so that raw data is not kept until the next call
