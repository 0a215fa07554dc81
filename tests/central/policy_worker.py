"""A policy that decides, learns and releases until it is killed. Run: `policy_worker.py DIRECTORY`.

For every line on standard input a child is forked that takes the saved policy up where it stands.
Before anything of a release is used, the child writes its digest to an fsynced journal.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.privacy.definitions import JointDP

HORIZON = 800
BLOCKS = tuple(range(4, HORIZON, 4))


def build(ledger):
    return GPBandit(
        kernel=dpb.kernels.SquaredExponential(lengthscale=0.5),
        domain=dpb.Box(low=[0.0], high=[1.0]),
        reward_range=(0, 1),
        horizon=HORIZON,
        privacy=dpb.JointDP(epsilon=1.0, delta=1e-6),
        noise=dpb.SecureNoise(),
        account=ledger.account("people"),
        tuning=GPTuning(n_features=3, blocks=BLOCKS),
    )


def live(directory):
    ledger = dpb.SQLiteLedger(directory / "ledger.db")
    ledger.open_account("people", privacy=JointDP(1.0, 1e-6))
    path = directory / "policy.state"
    if path.exists():
        policy = GPBandit.load(path, ledger=ledger)
    else:
        policy = build(ledger)
        policy.save(path)
    journal = os.open(directory / "journal", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    written = 0
    while True:
        if len(policy.released) > written:
            fresh = enumerate(policy.released[written:], start=written)
            lines = [
                f"{number} {hashlib.sha256(release.tobytes()).hexdigest()}\n" for number, release in fresh
            ]
            os.write(journal, "".join(lines).encode())
            os.fsync(journal)
            written = len(policy.released)
        decision = policy.ask(np.random.default_rng().random((3, 1)), user=os.urandom(8))
        policy.tell(decision.id, 0.5)


def main(directory):
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                live(directory)
            finally:
                os._exit(1)
        sys.stdout.write(json.dumps(child) + "\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps(os.waitstatus_to_exitcode(status)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
