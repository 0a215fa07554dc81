"""A policy that lives in a folder and is asked and told until it is killed. Run: `live_worker.py DIRECTORY`.

For every line on standard input a child is forked that opens the folder. What was answered is written to an
fsynced file, `acknowledged`, only after the call has returned; `errors` says why a life ended by itself.

With `forking` behind the directory the folder is opened, then a child forked, and its id printed; both wait.
"""

import json
import os
import sys
import time
import traceback
from pathlib import Path

import numpy as np

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.privacy.definitions import JointDP

HORIZON = 4000
BLOCKS = tuple(range(25, HORIZON, 25))


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


def opened(directory):
    ledger = dpb.SQLiteLedger(directory / "ledger.db")
    ledger.open_account("people", privacy=JointDP(1.0, 1e-6))
    return GPBandit.open(directory / "policy", new=build(ledger))


def live(directory):
    policy = opened(directory)
    acknowledged = os.open(directory / "acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(*lines):
        os.write(acknowledged, "".join(f"{line}\n" for line in lines).encode())
        os.fsync(acknowledged)

    write(f"opened {policy.diagnostics()['rounds_asked']}")
    rng = np.random.default_rng()
    while True:
        count = int(rng.integers(1, 5))
        users = [os.urandom(8) for _ in range(count)]
        batch = policy.ask_batch(rng.random((count, 3, 1)), users=users)
        write(*(f"asked {name}" for name in batch.ids))
        told = [name for name in batch.ids if rng.random() < 0.6]
        if told:
            policy.tell_batch(told, np.full(len(told), 0.5))
            write(*(f"told {name}" for name in told))
        if len(told) < count and rng.random() < 0.3:
            given_up = next(name for name in batch.ids if name not in told)
            policy.abandon(given_up)
            write(f"abandoned {given_up}")


def forking(directory):
    with opened(directory):
        if not os.fork():  # the child says it: then it has done what is done after a fork
            sys.stdout.write(f"{os.getpid()}\n")
            sys.stdout.flush()
        time.sleep(60.0)
        os._exit(0)


def main(directory):
    dpb.SecureNoise().integer_gaussian(1000.0, 2)  # libraries are imported once, before the first fork
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                live(directory)
            except Exception:  # noqa: BLE001 - said in a file, and the life has ended
                (directory / "errors").write_text(traceback.format_exc())
            finally:
                os._exit(1)
        sys.stdout.write(json.dumps(child) + "\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(json.dumps(os.waitstatus_to_exitcode(status)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    (forking if "forking" in sys.argv else main)(Path(sys.argv[1]))
