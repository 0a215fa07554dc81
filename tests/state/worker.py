"""Processes that the tests start, race and kill. Run as a script: `worker.py TASK DIRECTORY [N]`.

Tasks write what they did to standard output, one JSON value, except `lives`, which forks a worker
for every line on standard input and prints its process id.
"""

import json
import os
import sys
import time
from pathlib import Path

import numpy as np

from dpbandits.budget import SQLiteLedger
from dpbandits.errors import BudgetExceeded, ForkedState
from dpbandits.privacy.definitions import JointDP
from dpbandits.state import State, StateStore

LINEAGE = "0123abcd"
EPSILON = 0.001


def say(value):
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def ledger_in(directory):
    ledger = SQLiteLedger(directory / "ledger.db")
    ledger.open_account("study", privacy=JointDP(1000))
    return ledger


def successor(state, release):
    """The state one position on, with one more release."""
    releases = np.zeros((0, 16), dtype=np.uint8) if state is None else state.arrays["releases"]
    position = 1 if state is None else state.position + 1
    return State(
        kind="test",
        version=1,
        lineage=LINEAGE,
        position=position,
        public={"position": position},
        arrays={"releases": np.concatenate([releases, np.frombuffer(release, dtype=np.uint8)[None]])},
    )


def dawdle(owner, name):
    """Sleep a little on both sides of a step, so that kills fall between steps as often as within."""
    step = getattr(owner, name)

    def slow(*args, **keywords):
        time.sleep(0.0005)
        result = step(*args, **keywords)
        time.sleep(0.0005)
        return result

    setattr(owner, name, slow)


def live(directory):
    """Charge, draw, commit, publish, again and again until killed."""
    ledger = ledger_in(directory)
    for owner, name in ((os, "fsync"), (os, "replace"), (ledger, "advance"), (ledger, "charge")):
        dawdle(owner, name)
    store = StateStore(directory / "policy.state", ledger)
    journal = os.open(directory / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def publish(state):
        release = state.arrays["releases"][-1].tobytes().hex()
        os.write(journal, f"{state.position} {release}\n".encode())
        os.fsync(journal)

    try:
        state = store.load()
        publish(state)
    except FileNotFoundError:
        state = None
    while True:
        position = 1 if state is None else state.position + 1
        ledger.charge("study", charge_id=f"{LINEAGE}:{position}", cost=JointDP(float(EPSILON)))
        state = successor(state, os.urandom(16))
        store.commit(state)
        publish(state)


def lives(directory):
    """A process that has everything imported forks the workers, so that a life starts in a moment."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                live(directory)
            finally:
                os._exit(1)
        say(child)
        _, status = os.waitpid(child, 0)
        say(os.waitstatus_to_exitcode(status))


def spend(directory, n):
    """Charge until the account is empty; returns how often it worked."""
    ledger = SQLiteLedger(directory / "ledger.db")
    paid = 0
    for i in range(n):
        try:
            ledger.charge("purse", charge_id=f"{os.getpid()}:{i}", cost=JointDP(0.01))
            paid += 1
        except BudgetExceeded:
            pass
    return paid


def repeat(directory, n):
    """Make the same charges as everybody else."""
    ledger = SQLiteLedger(directory / "ledger.db")
    for i in range(n):
        ledger.charge("purse", charge_id=str(i), cost=JointDP(0.01))


def race(directory, n):
    """Try to be the one that takes each position; returns the positions won."""
    ledger = SQLiteLedger(directory / "ledger.db")
    won = []
    for position in range(n):
        while (last := ledger.last("shared")) is not None and last.position < position - 1:
            pass
        try:
            ledger.advance("shared", position=position, digest=f"by-{os.getpid()}")
            won.append(position)
        except ForkedState:
            pass
    return won


def contend(directory, n):
    """Commit `n` releases to the one store that others commit to as well; returns position and release."""
    store = StateStore(directory / "policy.state", ledger_in(directory))
    done = []
    while len(done) < n:
        try:
            state = store.load()
        except FileNotFoundError:
            state = None
        release = os.urandom(16)
        state = successor(state, release)
        try:
            store.commit(state)
        except ForkedState:
            continue
        done.append((state.position, release.hex()))
    return done


if __name__ == "__main__":
    task, where = globals()[sys.argv[1]], Path(sys.argv[2])
    if task is lives:
        lives(where)
    else:
        sys.stdin.readline()  # all start together
        say(task(where, int(sys.argv[3])))
