"""Group commit: calls of several threads share the cost of one write to disk.

While one thread works, other calls queue up. The first of them to continue takes the whole queue and
processes it. Each call returns its own result after it was processed.
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
    given: GivenT
    got: list[GotT] = field(default_factory=list)


class Gathering(Generic[GivenT, GotT]):
    """A function whose concurrent calls are processed in groups.

    If processing raises, the thread that processed the group raises, and the other calls of the group are
    processed again. No call fails because another one was refused.

    Args:
        act: Function from the arguments of a group of calls, in their order, to the result of each call.
        turn: Context manager that is held while `act` runs. Calls queue up before it is entered.
    """

    def __init__(
        self, act: Callable[[list[GivenT]], Sequence[GotT]], turn: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._act, self._turn, self._changed = act, turn, Condition()
        self._waiting: list[_Call[GivenT, GotT]] = []
        self._acting = False

    def __call__(self, given: GivenT) -> GotT:
        """Process this call, alone or in a group, and return its result."""
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
