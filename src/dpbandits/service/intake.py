"""Reports come by the hundred requests a second: `Intake` writes down together what waits together. While one
group of batches is written, the next gathers, and one thread is busy, however many requests wait.
"""

import asyncio
from collections.abc import Callable, Sequence

__all__ = ["Intake"]

MOST_TOGETHER = 64
"""Batches that are written at once: the first of them waits for all."""

Told = dict[str, int]
Group = list[tuple[bytes, asyncio.Future[Told]]]


class Intake:
    """Batches of reports on their way to the disk; used from one event loop.

    Args:
        absorb: takes bodies of one local policy, and gives what to answer each: of one that is refused its
            error. What it raises is raised for all of them.
    """

    def __init__(self, absorb: Callable[[str, list[bytes]], Sequence[Told | Exception]]) -> None:
        self._absorb = absorb
        self._waiting: dict[str, Group] = {}

    async def __call__(self, name: str, body: bytes) -> Told:
        """Return the answer once the reports are on disk."""
        loop = asyncio.get_running_loop()
        mine: asyncio.Future[Told] = loop.create_future()
        waiting = self._waiting.get(name)
        if waiting is None:  # nobody writes for it now
            loop.run_in_executor(None, self._write, loop, name, [(body, mine)])
            self._waiting[name] = []
        else:
            waiting.append((body, mine))
        return await mine

    def _write(self, loop: asyncio.AbstractEventLoop, name: str, group: Group) -> None:
        try:
            told: Sequence[Told | Exception] = self._absorb(name, [body for body, _ in group])
        except Exception as error:  # noqa: BLE001 - for whoever waits
            told = [error] * len(group)
        loop.call_soon_threadsafe(self._answer, name, group, told)

    def _answer(self, name: str, group: Group, told: Sequence[Told | Exception]) -> None:
        for (_, one), result in zip(group, told, strict=True):
            if one.done():  # who asked is gone
                continue
            if isinstance(result, Exception):
                one.set_exception(result)
            else:
                one.set_result(result)
        following = self._waiting.pop(name)
        if following:
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, self._write, loop, name, following[:MOST_TOGETHER])
            self._waiting[name] = following[MOST_TOGETHER:]
