"""BLAS threads are off around work on small matrices, and as they were afterwards."""

from threading import Thread

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_limits

import dpbandits as dpb
from dpbandits._threads import one_thread


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        yield


def threads():
    assert np.linalg.inv(np.eye(2)).shape == scipy.linalg.inv(np.eye(2)).shape  # both libraries are there
    return [one["num_threads"] for one in ThreadpoolController().info() if one["user_api"] == "blas"]


def test_the_limit_holds_inside_and_ends_with_it():
    before = threads()
    with one_thread(), one_thread():
        assert set(threads()) == {1}
    assert threads() == before
    with pytest.raises(ValueError, match="fails"), one_thread():
        raise ValueError("what is inside fails")
    assert threads() == before


def test_threads_that_overlap_leave_what_was_there():
    before = threads()

    def work():
        for _ in range(20):
            with one_thread():
                np.linalg.inv(np.eye(50))

    workers = [Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert threads() == before


def test_a_release_is_made_by_one_thread(monkeypatch):
    seen = []
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(0, 1)),
        arms=["a", "b"],
        reward_range=(0, 1),
        horizon=2000,
        privacy=dpb.JointDP(epsilon=2, delta=1e-6),
        noise=dpb.SimulatedNoise(1),
        tuning=dpb.central.GPTuning(blocks=(2,)),
    )
    solve = np.linalg.eigh

    def watched(*arguments, **options):
        seen.append(set(threads()))
        return solve(*arguments, **options)

    monkeypatch.setattr(np.linalg, "eigh", watched)
    for number in range(4):
        policy.tell(policy.ask([0.5], user=number).id, 1.0)
    assert seen
    assert all(one == {1} for one in seen)
