"""Work beside the answers: calls in a thread of their own, one after the other, in order.

The thread lives while there is work, and no longer. It is no daemon: a process that ends waits for the calls
that were begun, instead of stopping inside linear algebra. A forked child has none of them; what is under way
belongs to the parent.
"""

import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["Beside"]

_T = TypeVar("_T")


class Beside:
    """A queue of calls and the thread that makes them.

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
        """What the call will return, or raise; it is made after those that were begun before.

        Raises:
            RuntimeError: no thread can be started; the call is not made.
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
            if future.set_running_or_notify_cancel():  # from here on nobody can cancel it
                try:
                    future.set_result(call())
                except BaseException as error:  # noqa: BLE001 - for whoever asks for the result
                    future.set_exception(error)
            del future, call  # an idle moment keeps no raw data
