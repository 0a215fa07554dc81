"""Objects that spend budget are neither copied, nor forked, nor driven by two threads at once."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest

from dpbandits.central.explore_then_commit.policy import ExploreThenCommit
from dpbandits.errors import BudgetExceeded, ForkedState, ProtocolError
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SecureNoise
from dpbandits.state import MemoryLedger


def usca(ledger=None):
    if ledger is not None:
        ledger.open_account("people", epsilon=12.0)
    return ExploreThenCommit(
        kernel=SquaredExponential(lengthscale=0.4),
        actions=CellMeasure.uniform(low=0, high=1, cells=5),
        contexts=CellMeasure.uniform(low=0, high=1, cells=4),
        reward_range=(0.0, 1.0),
        horizon=4000,
        privacy=JointDP(epsilon=12.0),
        answer_epsilon=0.5,
        user_ids=False,
        noise=SecureNoise(),
        ledger=ledger,
        account=None if ledger is None else "people",
    )


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused(duplicate):
    with pytest.raises(ProtocolError):
        duplicate(usca())


def test_a_forked_child_cannot_answer():
    parent = usca()
    child = os.fork()
    if child == 0:
        try:
            parent.answer([0.5])
        except ForkedState:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    parent.answer([0.5])


@pytest.mark.parametrize("ledger", [None, MemoryLedger()], ids=["alone", "witnessed"])
def test_of_two_copies_one_answers(tmp_path, ledger):
    """An answer is not part of the state, so the two states after it would be equal by themselves."""
    usca(ledger=ledger).save(tmp_path / "state")
    first, second = (ExploreThenCommit.load(tmp_path / "state", ledger=ledger) for _ in range(2))
    first.answer([0.5])
    for _ in range(2):
        with pytest.raises(ForkedState):
            second.answer([0.5])
    with pytest.raises(ForkedState):
        second.save(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    first.answer([0.5])


def test_threads_share_one_budget():
    policy = usca()
    total = policy.remaining_answers
    given = []

    def take():
        while True:
            try:
                given.append(policy.answer([0.5]).number)
            except BudgetExceeded:
                return

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(given) == list(range(1, total + 1))
    assert np.all(np.diff(sorted(given)) == 1)
