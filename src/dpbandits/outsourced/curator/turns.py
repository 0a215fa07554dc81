"""One holder of a secret: one process, one thread at a time, no copies."""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dpbandits.errors import ForkedState, ProtocolError

__all__ = ["Turns"]


class Turns:
    """Hands out turns to the threads of the process that made it, and to no fork of it.

    A fork is asked away before the lock is touched: in the child it may be held by a thread that is gone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._process = os.getpid()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One thread at a time.

        Raises:
            ForkedState: this process was forked from the one that holds the object.
            ProtocolError: this thread is having its turn already.
        """
        if os.getpid() != self._process:
            raise ForkedState(
                "this process was forked from the one that holds the curator: open it after the fork, in one "
                "process"
            )
        if self._holder == threading.get_ident():
            raise ProtocolError("an objective cannot ask the curator that is waiting for it")
        with self._lock:
            self._holder = threading.get_ident()
            try:
                yield
            finally:
                self._holder = None
