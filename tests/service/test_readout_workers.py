"""Readouts of two workers of a database: what one process releases, also if both are killed at each look."""

import json
import multiprocessing
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dpbandits as dpb
from dpbandits.policy import kept
from dpbandits.privacy.noise import SimulatedNoise
from dpbandits.service import core
from dpbandits.service.budgets import promise_of
from dpbandits.service.core import Service
from dpbandits.service.settings import Settings
from internals.policy import give_salt
from internals.workers import die_at_looks
from service import databases
from service.conftest import AGNES, CUSTOMERS, OFFERS
from service.kills import in_a_child

ASKED = OFFERS | {
    "name": "read",
    "horizon": 60,
    "privacy": {**OFFERS["privacy"], "rounds_per_user": 2},
    "tuning": {"blocks": [10, 25, 59], "n_features": 3, "reporting_delay": 1, "lag": 0},
    "readout": {
        "control": {"arm": "nothing", "share": 0.4},
        "metrics": {"complaint": "bool", "revenue": {"low": 0, "high": 500}},
        "looks": 3,
    },
    "settings": {},
}
ROUNDS = 48
"""Looks and blocks are due after 11, 20, 26 and 40 rounds; the third look would be due after 60."""

WHEN = "computed", "stored"

SALT = "SELECT config, salt FROM progress"


def begin(folder: Path, address: str) -> None:
    service = Service(folder, settings=Settings(database=address))
    service.ledger.open_account("customers", privacy=promise_of(CUSTOMERS["privacy"]))
    service.begin_policy(ASKED, by="")
    service.close()


def body(number: int) -> dict[str, Any]:
    """Return a request; 30 users return, one after the other."""
    return {"id": f"v{number}", "user": f"u{number % 30}", "context": {**AGNES, "age": 20 + number}}


def outcome(number: int) -> tuple[float, dict[str, float]]:
    return float(number % 3 == 0), {"complaint": float(number % 7 == 0), "revenue": 10.5 * (number % 30)}


def demand_the_same(folder: Path, address: str, answers: list[dict[str, Any]]) -> None:
    """Demand that all of it is there, and is what one policy in one process decides and releases."""
    service = Service(folder, settings=Settings(database=address))
    try:
        config, salt = service.read(lambda reads: reads.one(SALT)) or ("", b"")
        policy = dpb.central.GPBandit.from_config(json.loads(config))
        give_salt(policy, bytes(salt))
        for number, answer in enumerate(answers):
            decision = policy.ask(body(number)["context"], body(number)["user"])
            assert (answer["arm"], answer["group"]) == (decision.arm, decision.group), number
            assert json.loads(service.decide("read", "t", body(number)).result()) == answer
            if number % 5:
                reward, metrics = outcome(number)
                policy.tell(decision.id, reward, **metrics)
                assert service.reward("read", answer["id"], reward, metrics).result() == "duplicate"
        found, readout = service.readout("read"), policy.readout()
        assert found["result"] == json.loads(json.dumps(readout.to_json()))
        assert len(policy.released_looks()) == found["looks"] == 2
        assert {answer["group"] for answer in answers} == {"policy", "control"}
    finally:
        service.close()


@pytest.mark.parametrize("count", [1, 2])
def test_workers_release_what_one_policy_does(
    folder: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    monkeypatch.setattr(kept, "SecureNoise", partial(SimulatedNoise, 7))
    address = databases.any_kind()
    begin(folder, address)
    workers = [Service(folder, settings=Settings(database=address)) for _ in range(count)]
    answers = []
    try:
        for number in range(ROUNDS):
            one, other = workers[number // 3 % count], workers[number % count]
            answers.append(json.loads(one.decide("read", "t", body(number)).result()))
            if number % 5:
                told = other.reward("read", answers[-1]["id"], *outcome(number)).result()
                assert told == "counted"
    finally:
        for worker in workers:
            worker.close()
    demand_the_same(folder, address, answers)


def live(folder: Path, address: str, pipe: Any) -> None:
    """Answer requests of the test until this process dies at a look."""
    die_at_looks(folder.parent)
    core.FOLD_SECONDS = 1e6  # who needs a release makes it
    service = Service(folder, settings=Settings(database=address))
    while True:
        what, given = pipe.recv()
        if what == "decide":
            pipe.send(json.loads(service.decide("read", "t", given).result()))
        elif what == "reward":
            pipe.send(service.reward("read", *given).result())
        else:
            pipe.send(service.readout("read")["result"])


class Workers:
    """Two processes, of which each that dies is replaced."""

    def __init__(self, folder: Path, address: str) -> None:
        self._how = folder, address
        self.deaths = 0
        self._lives = [self._new(), self._new()]

    def _new(self) -> Any:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(
            target=live, args=(*self._how, theirs), daemon=True
        )
        process.start()
        theirs.close()
        return process, ours

    def call(self, place: int, what: str, given: Any = None) -> Any:
        """Return the answer of a worker. If it dies, the other one is asked."""
        while True:
            process, pipe = self._lives[place]
            try:
                pipe.send((what, given))
                return pipe.recv()
            except (EOFError, OSError):
                process.join()
                assert process.exitcode == -signal.SIGKILL
                self.deaths += 1
                self._lives[place] = self._new()
                place = 1 - place

    def end(self) -> None:
        for process, _ in self._lives:
            process.kill()
            process.join()


@pytest.mark.parametrize("noise", ["repeatable", "secure"])
def test_workers_that_die_at_every_look_release_it_once_and_lose_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, noise: str
) -> None:
    """One worker dies when a look is computed, another one when it is stored, at each of two looks."""
    if noise == "repeatable":
        monkeypatch.setattr(kept, "SecureNoise", partial(SimulatedNoise, 7))
    address = databases.any_kind()
    in_a_child(lambda: begin(folder, address))
    workers, answers, shown = Workers(folder, address), [], []
    try:
        for number in range(ROUNDS):
            answers.append(workers.call(number % 2, "decide", body(number)))
            if number % 5:
                again = ("counted", "duplicate")  # a worker may die after the commit, before its answer
                assert workers.call(number // 2 % 2, "reward", (answers[-1]["id"], *outcome(number))) in again
            shown.append(workers.call(number // 3 % 2, "readout"))
    finally:
        workers.end()
    assert workers.deaths == 4
    looks = [one["readings"] for one in shown if one is not None]
    by_rounds = {sum(one["rounds"]): one for one in looks}
    assert list(by_rounds) == [19, 39]
    assert all(one == by_rounds[sum(one["rounds"])] for one in looks)  # every look is shown as one
    for look in (1, 2):
        lost, stored = (json.loads((folder.parent / f"{when}-{look}").read_text()) for when in WHEN)
        assert lost[1] == stored[1]  # public numbers
        assert (lost[0] == stored[0]) is (noise == "repeatable")  # noise that nobody saw is drawn again
    if noise == "repeatable":
        demand_the_same(folder, address, answers)
