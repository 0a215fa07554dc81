"""Batches of reports that come at once are written together, and each is answered by itself."""

import asyncio
import threading

import pytest

from dpbandits.errors import StateError
from dpbandits.service.problems import Problem
from dpbandits.service.surveys import Intake


def all_at_once(
    intake: Intake, bodies: list[tuple[str, bytes]], came: threading.Event | None = None
) -> list[object]:
    """Return the answer of each request; `came` is set once all of them wait."""

    async def run() -> list[object]:
        asked = asyncio.gather(*(intake(*one) for one in bodies), return_exceptions=True)
        await asyncio.sleep(0)  # each begins, and waits
        if came is not None:
            came.set()
        return list(await asked)

    return asyncio.run(run())


def test_what_waits_is_written_together_and_each_gets_its_own() -> None:
    groups: list[tuple[str, list[bytes]]] = []
    came = threading.Event()

    def absorb(name: str, bodies: list[bytes]) -> list[dict[str, int] | Exception]:
        assert came.wait(60.0)
        groups.append((name, bodies))
        return [Problem("malformed") if not body else {"accepted": len(body)} for body in bodies]

    bodies = [("one", b"x" * (number % 4)) for number in range(20)] + [("two", b"xxxxx")]
    found = all_at_once(Intake(absorb), bodies, came)
    assert [one for one in found if isinstance(one, dict)] == [
        {"accepted": len(body)} for _, body in bodies if body
    ]
    assert [isinstance(one, Problem) for one in found] == [not body for _, body in bodies]
    assert sorted(len(told) for _, told in groups) == [1, 1, 19]


def test_what_fails_fails_for_all_of_a_group_and_for_no_later_one() -> None:
    fails = [True]

    def absorb(name: str, bodies: list[bytes]) -> list[dict[str, int] | Exception]:
        if fails.pop() if fails else False:
            raise StateError("the disk refused")
        return [{"accepted": 1}] * len(bodies)

    intake = Intake(absorb)
    found = all_at_once(intake, [("one", b"x")] * 3)
    assert isinstance(found[0], StateError)
    assert found[1:] == [{"accepted": 1}] * 2
    assert all_at_once(intake, [("one", b"x")]) == [{"accepted": 1}]


def test_who_left_takes_nothing_from_the_others() -> None:
    go = threading.Event()

    def absorb(name: str, bodies: list[bytes]) -> list[dict[str, int] | Exception]:
        go.wait(60.0)
        return [{"accepted": len(body)} for body in bodies]

    async def run() -> dict[str, int]:
        intake = Intake(absorb)
        left = asyncio.create_task(intake("one", b"x"))
        stays = asyncio.create_task(intake("one", b"xx"))
        await asyncio.sleep(0.01)
        left.cancel()
        with pytest.raises(asyncio.CancelledError):
            await left
        go.set()
        return await stays

    assert asyncio.run(run()) == {"accepted": 2}
