"""Objects that spend budget are neither copied, nor forked, nor driven by two threads at once."""

import copy
import os
import pickle
import shutil
import threading
from decimal import Decimal

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger, cost_of
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.policy import ExploreThenCommit, ExploreTuning
from dpbandits.errors import BudgetExceeded, ForkedState, ProtocolError
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.certificates import PureDP, from_config
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SecureNoise
from dpbandits.state import read_state


def usca(ledger=None):
    if ledger is not None:
        ledger.open_account("people", privacy=JointDP(12.0))
    return ExploreThenCommit(
        kernel=SquaredExponential(lengthscale=0.4),
        actions=CellMeasure.uniform(low=0, high=1, cells=5),
        contexts=CellMeasure.uniform(low=0, high=1, cells=4),
        reward_range=(0.0, 1.0),
        horizon=4000,
        privacy=JointDP(epsilon=12.0, user_ids=False),
        tuning=ExploreTuning(answer_epsilon=0.5),
        noise=SecureNoise(),
        account=None if ledger is None else ledger.account("people"),
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
    if ledger is not None:  # who was loaded last goes on; without a witness, who answers first
        first, second = second, first
    first.answer([0.5])
    for _ in range(2):
        with pytest.raises(ForkedState):
            second.answer([0.5])
    with pytest.raises(ForkedState):
        second.save(tmp_path / "elsewhere")
    assert not (tmp_path / "elsewhere").exists()
    first.answer([0.5])


def test_a_copy_beside_the_original_is_refused_before_it_learns_or_answers(tmp_path):
    ledger = MemoryLedger()
    original = usca(ledger=ledger)
    original.save(tmp_path / "state")
    shutil.copy(tmp_path / "state", tmp_path / "copy")
    ExploreThenCommit.load(tmp_path / "copy", ledger=ledger)
    rows = np.full(3, 0.5), np.zeros(3, dtype=int), np.full(3, 0.5)
    for call in (lambda: original.answer([0.5]), lambda: original.learn(*rows)):
        with pytest.raises(ForkedState):
            call()
    assert original.remaining_answers == original.calibration.budget.answers
    assert ledger.balance("people").spent_epsilon == 0
    with pytest.raises(ForkedState):
        ExploreThenCommit.load(tmp_path / "state", ledger=ledger)


def test_every_use_of_noise_is_in_the_log_and_all_of_it_is_charged_by_its_certificates(tmp_path):
    cells = CellMeasure.uniform(low=0, high=1, cells=4)
    law = ContextLaw.from_private_histogram(np.full(50, 0.3), cells=cells, epsilon=0.5)
    ledger, total = MemoryLedger(), JointDP(epsilon=3.0, delta=1e-6, user_ids=False)
    ledger.open_account("people", privacy=JointDP(epsilon=6.0, delta=1e-6))
    ledger.charge("people", charge_id="histogram", cost=cost_of(PureDP(0.5), privacy=JointDP(0.5)))
    policy = ExploreThenCommit(
        kernel=SquaredExponential(lengthscale=0.4), actions=cells, contexts=law, reward_range=(0.0, 1.0),
        horizon=4000, privacy=total, tuning=ExploreTuning(publish_epsilon=1.5, answer_epsilon=0.25),
        account=ledger.account("people"),
    )  # fmt: skip
    policy.learn([0.5], [0.5], [1.0])
    policy.answer([0.5])
    policy.answer([0.2])
    policy.publish()
    policy.save(tmp_path / "state")
    promise = read_state(tmp_path / "state").public["promise"]
    lineage = read_state(tmp_path / "state").lineage
    assert [
        (e["purpose"], e["count"], e["charge"], e["status"], e["certificate"]["kind"])
        for e in promise["releases"]
    ] == [
        ("histogram", 1, None, "enforced", "PureDP"),
        ("answer", 2, lineage, "enforced", "PureDP"),
        ("release", 1, lineage, "enforced", "NearGaussianDP"),
    ]
    release = cost_of(from_config(promise["releases"][2]["certificate"]), privacy=JointDP(1.5, 1e-6))
    expected = Decimal("0.125") + 4 * Decimal("0.03125") + release.rho
    assert ledger.balance("people").spent.rho == expected
    again = ExploreThenCommit.load(tmp_path / "state", ledger=ledger)
    assert again.guarantee == policy.guarantee
    again.publish()
    assert ledger.balance("people").spent.rho == expected


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
