"""Real kills: a process that releases and is killed at random moments never releases twice.

The worker charges the ledger, draws a fresh random release, commits, and only then writes the release
to a journal, synchronised to disk: that is the world that has seen it. It is killed with SIGKILL, at
moments drawn from a fixed seed, and started again on the same files.
"""

import json
import os
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dpbandits.budget import SQLiteLedger
from dpbandits.privacy.definitions import JointDP
from dpbandits.state import StateStore
from dpbandits.state.format import read_identity

WORKER = Path(__file__).with_name("worker.py")
LINEAGE = "0123abcd"
EPSILON = Decimal("0.001")
LINE_BYTES = len("1 ") + 32 + len("\n")  # of the journal, at least


class Lives:
    """A parent that forks one worker at a time, and this test kills it."""

    def __init__(self, directory):
        self.journal = Path(directory) / "journal"
        self.pace = 0.0
        self.parent = subprocess.Popen(
            [sys.executable, WORKER, "lives", directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def live_and_die(self, releases, fraction):
        """Kill a worker after so many releases and a fraction of the time that one takes."""
        self.parent.stdin.write(b"go\n")
        self.parent.stdin.flush()
        worker = int(self.parent.stdout.readline())
        self.wait_for_lines(min(releases, 1))
        started = time.monotonic()
        self.wait_for_lines(releases - 1)
        if releases > 1:  # as of now: the machine may have become slower or faster
            self.pace = (time.monotonic() - started) / (releases - 1)
        time.sleep(fraction * self.pace)
        os.kill(worker, signal.SIGKILL)
        # Anything but our own signal is an error in the worker; its traceback is on standard error.
        assert int(self.parent.stdout.readline()) == -signal.SIGKILL

    def wait_for_lines(self, lines):
        goal, patience = self.journal_bytes() + lines * LINE_BYTES, time.monotonic() + 60
        while self.journal_bytes() < goal and time.monotonic() < patience:
            time.sleep(0.0002)

    def journal_bytes(self):
        return self.journal.stat().st_size if self.journal.exists() else 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.parent.communicate(timeout=60)


def check(directory):
    """What must hold after any number of kills; returns how many positions were committed."""
    journal = (directory / "journal").read_text()
    assert journal.endswith("\n")
    seen = {}
    for line in journal.splitlines():
        position, release = line.split()
        # No position was ever released with two different contents.
        assert seen.setdefault(int(position), release) == release

    ledger = SQLiteLedger(directory / "ledger.db")
    store = StateStore(directory / "policy.state", ledger)
    state = store.load()
    # Every release that the world has seen is in the recovered state, unchanged.
    releases = state.arrays["releases"]
    assert releases.shape == (state.position, 16)
    assert state.public == {"position": state.position}
    for position, release in seen.items():
        assert releases[position - 1].tobytes().hex() == release
    # At most the last commit had not been announced yet, and the witness vouches for this state.
    assert state.position - max(seen) in {0, 1}
    assert ledger.last(LINEAGE) == (state.position, read_identity(directory / "policy.state").digest)
    # Every release was charged before, once; at most one more charge was under way.
    spent = ledger.balance("study").spent_epsilon
    assert spent in {EPSILON * state.position, EPSILON * (state.position + 1)}
    for position in (1, state.position):
        ledger.charge("study", charge_id=f"{LINEAGE}:{position}", cost=JointDP(float(EPSILON)))
    assert ledger.balance("study").spent_epsilon == spent
    # Nothing secret is left lying about.
    names = {file.name for file in directory.iterdir()}
    assert names - {"ledger.db-journal"} == {"journal", "ledger.db", "policy.state", "policy.state.lock"}
    return state.position


def survive(directory, kills, seed):
    rng = np.random.default_rng(seed)
    with Lives(directory) as lives:
        lives.live_and_die(4, 0.0)
        for _ in range(kills - 1):
            lives.live_and_die(int(rng.integers(0, 5)), rng.uniform(0.0, 1.2))
    return check(directory)


def test_no_kill_loses_or_repeats_a_release(tmp_path):
    committed = survive(tmp_path, kills=50, seed=1)
    assert committed >= 50  # the kills fell into the middle of work


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2, 12))
def test_many_kills_lose_or_repeat_no_release(tmp_path, seed):
    assert survive(tmp_path, kills=300, seed=seed) >= 300


def test_processes_that_commit_to_one_store_take_turns(tmp_path):
    """Each release that a process was told is committed is in the final state, at its position."""
    workers = [
        subprocess.Popen(
            [sys.executable, WORKER, "contend", tmp_path, "15"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for _ in range(3)
    ]
    for worker in workers:
        worker.stdin.write(b"go\n")
        worker.stdin.flush()
    done = [pair for worker in workers for pair in json.loads(worker.communicate(timeout=60)[0])]
    state = StateStore(tmp_path / "policy.state", SQLiteLedger(tmp_path / "ledger.db")).load()
    assert sorted(position for position, _ in done) == list(range(1, 46))
    for position, release in done:
        assert state.arrays["releases"][position - 1].tobytes().hex() == release
