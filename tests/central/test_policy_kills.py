"""kill -9 at random moments: the policy, its state and its ledger, 25 lives."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import dpbandits as dpb
from dpbandits.central import GPBandit

LIVES = 25
WORKER = Path(__file__).with_name("policy_worker.py")


def released_by(journal):
    """Releases that the world has seen."""
    if not journal.exists():
        return 0
    return len({line.split()[0] for line in journal.read_text().splitlines()})


def wait_for_releases(journal, wanted, patience=60.0):
    give_up = time.monotonic() + patience
    while released_by(journal) < wanted and time.monotonic() < give_up:
        time.sleep(0.002)


def test_nothing_is_released_twice_and_the_budget_is_spent_once(tmp_path):
    moments = np.random.default_rng(20)
    journal = tmp_path / "journal"
    with subprocess.Popen(
        [sys.executable, str(WORKER), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as keeper:
        for life in range(LIVES):
            keeper.stdin.write("live\n")
            keeper.stdin.flush()
            child = json.loads(keeper.stdout.readline())
            if life % 3:  # two in three are killed while they release, the others wherever they are
                wait_for_releases(journal, released_by(journal) + 2)
            time.sleep(moments.uniform(0.0, 0.02))
            os.kill(child, signal.SIGKILL)
            assert json.loads(keeper.stdout.readline()) == -signal.SIGKILL, (
                "a life ended by an error of its own"
            )
        keeper.stdin.close()
    lines = [line.split() for line in journal.read_text().splitlines()]
    digests = {}
    for number, digest in lines:
        assert digests.setdefault(int(number), digest) == digest, "one block was released with two noises"
    assert len(digests) >= LIVES / 2, "too few releases for the test to mean anything"
    assert len(set(digests.values())) == len(digests)

    ledger = dpb.SQLiteLedger(tmp_path / "ledger.db")
    policy = GPBandit.load(tmp_path / "policy.state", ledger=ledger)
    assert len(policy.released) >= len(digests)
    assert ledger.balance("people").remaining_epsilon == 0
    assert ledger.balance("people").remaining_delta == 0
