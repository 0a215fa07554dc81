"""Calls from several threads at a time, done together: what one write to disk costs, all that wait share.

While one thread acts, others that call queue up. The first of them to get its turn takes all of the queue and
acts for it; each call returns when it was acted for, and with what it alone came to.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import Condition
from typing import Generic, TypeVar

__all__ = ["Gathering"]

GivenT = TypeVar("GivenT")
GotT = TypeVar("GotT")


@dataclass(eq=False, repr=False)
class _Call(Generic[GivenT, GotT]):
    """One thread's call; what it got, once it was acted for."""

    given: GivenT
    got: list[GotT] = field(default_factory=list)


class Gathering(Generic[GivenT, GotT]):
    """Calls that are acted for in groups.

    Where the act raises, the thread that acted raises, and the others act for themselves: no call is over
    because another one was refused.

    Args:
        act: what calls gave, in the order in which they came -> what each of them gets.
        turn: to be held while it acts. Calls queue up before it, not in it.
    """

    def __init__(
        self, act: Callable[[list[GivenT]], Sequence[GotT]], turn: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._act, self._turn, self._changed = act, turn, Condition()
        self._waiting: list[_Call[GivenT, GotT]] = []
        self._acting = False

    def __call__(self, given: GivenT) -> GotT:
        """Be acted for, alone or together with others; raises what `act` and `turn` do."""
        call: _Call[GivenT, GotT] = _Call(given)
        with self._changed:
            self._waiting.append(call)
            try:
                self._changed.wait_for(lambda: call.got or not self._acting)
            except BaseException:
                self._waiting = [one for one in self._waiting if one is not call]
                raise
            if call.got:
                return call.got[0]
            self._acting = True
        group: list[_Call[GivenT, GotT]] = []
        try:
            with self._turn():
                with self._changed:
                    group, self._waiting = self._waiting, []
                got = self._act([one.given for one in group])
            for one, result in zip(group, got, strict=True):
                one.got.append(result)
        finally:
            with self._changed:
                left = [one for one in [*group, *self._waiting] if not one.got and one is not call]
                self._waiting, self._acting = left, False
                self._changed.notify_all()
        return call.got[0]
