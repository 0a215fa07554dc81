"""Comparison of decisions and rewards on `cps-income` through the HTTP service and in the library.

    python -m reproduction.studies.service_income [--horizon 1500] [--orders 3] [--out FILE.json]

`RemotePolicy` uses a service on loopback for one user at a time. A `GPBandit` in this process has the same
contexts, arms, guarantee and public seed, and decides for the same users in the same order. A service
normally takes its noise from the operating system. Here both have the same simulated noise, so that all
decisions and rewards can be compared. Orders have tuning seeds 0, 1, ...: this is an evaluation, not a
release.
"""

import argparse
import json
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import uvicorn

import dpbandits as dpb
from dpbandits.central.gp_bandit import GPBandit
from dpbandits.client import RemotePolicy
from dpbandits.lab.evaluation.summary import Estimate
from dpbandits.lab.worlds import TableBandit, load
from dpbandits.service import policies, tokens
from dpbandits.service.application import application
from dpbandits.service.budgets import promise_of
from dpbandits.service.core import Service
from dpbandits.service.engines import ServedBandit
from dpbandits.service.settings import Settings
from reproduction.studies.people_and_arms import as_dicts

EPSILON, DELTA = 1.0, 1e-6


@contextmanager
def served(folder: Path) -> Iterator[tuple[Service, str]]:
    """A service over HTTP in a thread, and its address."""
    service = Service(folder, settings=Settings(requests_per_second=1e6))
    server = uvicorn.Server(uvicorn.Config(application(service), port=0, log_config=None, access_log=False))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        [listening] = server.servers[0].sockets
        yield service, f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()


def asked_for(table: TableBandit) -> dict[str, Any]:
    """The policy, as the service is asked for it."""
    return {
        "name": "income",
        "population": "people",
        "contexts": table.schema.to_config()["columns"],
        "arms": list(table.arms.labels),
        "reward_range": [table.reward_range.low, table.reward_range.high],
        "horizon": table.horizon,
        "privacy": {"epsilon": EPSILON, "delta": DELTA},
        "seed": table.seed,
        "settings": {},
    }


def by_hand(table: TableBandit) -> GPBandit:
    """Return the same policy in this process."""
    return GPBandit(
        contexts=table.schema,
        arms=table.arms.labels,
        reward_range=table.reward_range,
        horizon=table.horizon,
        privacy=dpb.JointDP(EPSILON, DELTA),
        seed=table.seed,
        tuning=dpb.central.GPTuning(lag=max(1, table.horizon // policies.LAG_SHARE)),
        noise=dpb.SimulatedNoise(table.seed),
    )


def played(
    policy: Any, people: list[dict[str, object]], rewards: np.ndarray, labels: tuple[Any, ...]
) -> list[int]:
    """Arms that a policy chose, each told its reward."""
    chosen = []
    for t, person in enumerate(people):
        decision = policy.ask(person, t)
        chosen.append(labels.index(decision.arm))
        policy.tell(decision.id, float(rewards[t, chosen[-1]]))
    return chosen


def compared(horizon: int, order: int) -> dict[str, float]:
    """Mean reward in the library and through the service, and how many decisions were the same."""
    table = load("cps-income", seed=order, horizon=horizon)
    people = as_dicts(table, table.decision_sets(0, horizon)[:, 0, :-1])
    rewards, labels = table.mean_rewards(0, horizon), table.arms.labels
    mine = played(by_hand(table), people, rewards, labels)
    noise = dpb.SimulatedNoise(table.seed)
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "data") as (service, url):
        promise = {"epsilon": EPSILON, "delta": DELTA}
        service.ledger.open_account("people", privacy=promise_of(promise))
        with patch.object(policies, "ServedBandit", lambda **given: ServedBandit(noise=noise, **given)):
            service.begin_policy(asked_for(table), by="")
        token = service.write(
            lambda writes: tokens.make_token(
                writes, service.keys, label="shop", scopes=["decide", "reward"], now=service.now()
            )
        ).result()[1]
        theirs = played(RemotePolicy(url, "income", token=token), people, rewards, labels)
        released = len(service.read(lambda reads: reads.rows("SELECT version FROM releases")))
    rounds = np.arange(horizon)
    return {
        "library": float(rewards[rounds, mine].mean()),
        "service": float(rewards[rounds, theirs].mean()),
        "same": float(np.mean(np.equal(mine, theirs))),
        "releases": released,
    }


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--horizon", type=int, default=1500)
    arguments.add_argument("--orders", type=int, default=3)
    arguments.add_argument("--out", type=Path)
    asked = arguments.parse_args()
    runs = []
    for order in range(asked.orders):
        runs.append(compared(asked.horizon, order))
        print(json.dumps(runs[-1]), flush=True)
    told: dict[str, Any] = {"horizon": asked.horizon, "epsilon": EPSILON, "delta": DELTA, "orders": runs}
    for name in ("library", "service"):
        estimate = Estimate.of(np.array([run[name] for run in runs]))
        told[name] = {"mean": estimate.mean, "standard_error": estimate.standard_error}
    print(json.dumps({name: told[name] for name in ("library", "service")}))
    if asked.out:
        asked.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
