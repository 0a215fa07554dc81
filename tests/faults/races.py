"""Several processes, or threads, on one state at the same time."""

import functools
import os
import shutil
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

from dpbandits.budget import MemoryLedger, SQLiteLedger
from dpbandits.budget.ledger import Ledger
from dpbandits.errors import BudgetExceeded, DPBanditsError, ForkedState
from dpbandits.privacy.definitions import JointDP
from faults.children import Child
from faults.subjects import SUBJECTS, Act, Subject, contradictions, digest

__all__ = ["RACES"]

Race = Callable[[Path, int], tuple[int, list[str]]]
RACERS = 3


def raced(tasks: list[Callable[[Callable[[], None]], object]]) -> list[object]:
    """What the tasks say, each in a process of its own; they wait at the call they are given."""
    gate, opener = os.pipe()
    racers = [
        Child(functools.partial(task, lambda: os.read(gate, 1) and None), closing=(opener,)) for task in tasks
    ]
    os.close(opener)  # everybody runs
    said = [racer.result() for racer in racers]
    os.close(gate)
    return [text if code == 0 else f"ended by {text}" for code, text in said]


def on_one_state(subject: Subject) -> Race:
    """Processes that have taken up the same state all go on; what left must not contradict itself."""

    def race(folder: Path, rounds: int) -> tuple[int, list[str]]:
        sound, found = folder / "sound", []
        sound.mkdir()
        subject.prepare(sound)
        for number in range(rounds):
            state = folder / str(number) / "state"
            shutil.copytree(sound, state)
            task = functools.partial(_go_on, subject, state, number % 2 == 0)
            acts: list[Act] = []
            for said in raced([task] * RACERS):
                if isinstance(said, str):
                    found.append(said)
                else:
                    acts += [(what, content) for what, content in said]
            found += contradictions([act for act in acts if not act[0].startswith("answer")])
            (checked,) = raced([functools.partial(_look, subject, state, acts)])
            found += [checked] if isinstance(checked, str) else checked
            shutil.rmtree(state.parent)
        return rounds, found

    return race


def _go_on(subject: Subject, state: Path, early: bool, wait: Callable[[], None]) -> list[Act]:
    """Work on a state that others work on too; what left. `early`: all hold the state before one goes on."""
    acts: list[Act] = []

    def leave(what: str, content: object) -> None:
        acts.append((what, digest(content)))

    try:
        if not early:
            wait()
        session = subject.session(state, leave)
        if early:
            wait()
        session.work()
    except DPBanditsError:
        pass  # one of them goes on, the others are refused
    return acts


def _look(subject: Subject, state: Path, acts: list[Act], _wait: Callable[[], None]) -> list[str]:
    return subject.check(state, acts)


def purse(ledger: Ledger, name: str, attempts: int) -> int:
    """How many of the attempts were paid."""
    paid = 0
    for index in range(attempts):
        try:
            ledger.charge("purse", charge_id=f"{name}:{index}", cost=JointDP(0.05))
            paid += 1
        except BudgetExceeded:
            pass
    return paid


def one_purse(folder: Path, rounds: int) -> tuple[int, list[str]]:
    """Processes empty one account: together they spend it exactly."""
    found = []
    for number in range(rounds):
        path = folder / f"ledger-{number}.db"
        SQLiteLedger(path).open_account("purse", privacy=JointDP(1))
        tasks = [
            lambda wait, path=path, name=name: (wait(), purse(SQLiteLedger(path), str(name), 12))[1]
            for name in range(RACERS)
        ]
        paid = raced(tasks)
        spent = SQLiteLedger(path).balance("purse").spent_epsilon
        if paid != [count for count in paid if isinstance(count, int)] or sum(paid) != 20 or spent != 1:
            found.append(f"{paid} charges were paid, and {spent} is spent")
    return rounds, found


def one_purse_in_memory(folder: Path, rounds: int) -> tuple[int, list[str]]:
    """The same with threads and the ledger in memory."""
    found = []
    for _ in range(rounds):
        ledger, paid = MemoryLedger(), []
        ledger.open_account("purse", privacy=JointDP(1))
        threads = [
            threading.Thread(
                target=lambda name=str(name), ledger=ledger, paid=paid: paid.append(purse(ledger, name, 12))
            )
            for name in range(RACERS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if sum(paid) != 20 or ledger.balance("purse").spent_epsilon != Decimal(1):
            found.append(f"{paid} charges were paid")
    return rounds, found


def one_lineage(folder: Path, rounds: int) -> tuple[int, list[str]]:
    """Processes race for every position of a lineage: each is taken once, in order."""
    found = []
    for number in range(rounds):
        path = folder / f"ledger-{number}.db"
        SQLiteLedger(path)

        def task(wait: Callable[[], None], path: Path = path) -> list[int]:
            ledger, won = SQLiteLedger(path), []
            wait()
            for position in range(6):
                try:
                    ledger.advance("life", position=position, digest=f"by-{os.getpid()}")
                    won.append(position)
                except ForkedState:
                    pass
            return won

        won = raced([task] * RACERS)
        taken = [position for positions in won if isinstance(positions, list) for position in positions]
        last = SQLiteLedger(path).last("life")
        if len(taken) != len(set(taken)) or last is None or last.position != max(taken):
            found.append(f"positions were taken as {won}")
    return rounds, found


RACES: dict[tuple[str, str], Race] = {
    ("SQLiteLedger", "processes race on one account"): one_purse,
    ("SQLiteLedger", "processes race on one lineage"): one_lineage,
    ("MemoryLedger", "threads race on one account"): one_purse_in_memory,
} | {(subject.name, "processes on one state"): on_one_state(subject) for subject in SUBJECTS}
