"""`one_thread`: BLAS threads off around work on small matrices, where they cost many times what they save.

On two cores a release at 10 columns and 4 arms took 24 times as much CPU time with the default threads as
with one, and a simulated crowd 11 times (`dpbandits local simulate --users 4000 --epsilon 4`): threads wait
for each other longer than they compute.
"""

from contextlib import AbstractContextManager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["one_thread"]


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg  # noqa: F401 - it brings a BLAS of its own, which has to be there to be found

    return ThreadpoolController()  # it looks for libraries once, which takes a millisecond


def one_thread() -> AbstractContextManager[object]:
    """Limit BLAS to one thread inside a `with` statement, and restore what was there before.

    The limit is one of the process. Where two threads are inside at once, the first sets and restores it.
    """
    limit: AbstractContextManager[object] = _controller().limit(limits=1, user_api="blas")
    return limit
