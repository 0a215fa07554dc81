"""`one_thread`: BLAS threads off around work on small matrices, where they cost many times what they save.

With the default threads of two cores `dpbandits local simulate --users 4000 --epsilon 4` took 14.2 s of CPU
time without this limit and 1.2 s with it: threads wait for each other longer than they compute.

The number of BLAS threads belongs to the process. The first thread that enters sets it, and restores it when
it leaves. A thread that enters meanwhile changes nothing, so what was there before always comes back.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock, Thread, current_thread

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]

_LOCK = Lock()
_owner: Thread | None = None


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which has to be there to be found

    return ThreadpoolController()  # it looks for libraries once, which takes a millisecond


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside a `with` statement, and restore what was there before."""
    global _owner  # noqa: PLW0603 - the number of threads is one of the process
    with _LOCK:
        free = _owner is None or not _owner.is_alive()  # in a forked child the others are gone
        if free:
            _owner = current_thread()
    if not free:
        yield
        return
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        with _LOCK:
            _owner = None
