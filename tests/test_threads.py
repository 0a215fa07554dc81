"""BLAS threads are off around work on small matrices, and as they were afterwards."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import ThreadpoolController, threadpool_limits

import dpbandits as dpb
from dpbandits._threads import one_thread
from dpbandits.errors import NothingToLearn
from dpbandits.lab.worlds.supervised import supervised_ceiling
from dpbandits.models.features import ArmFeatures
from dpbandits.models.measures import CellMeasure
from dpbandits.models.noisy_regression import WeightPosterior


def threads_of(monkeypatch, owner, call):
    """Numbers of BLAS threads at each call of a function, in order."""
    seen, real = [], getattr(owner, call)

    def watched(*arguments, **options):
        seen.append(set(threads()))
        return real(*arguments, **options)

    monkeypatch.setattr(owner, call, watched)
    return seen


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


OVERLAP = """
from threading import Event, Thread
import sys, numpy, scipy.linalg
from threadpoolctl import ThreadpoolController
from dpbandits._threads import one_thread

def threads():
    return [one["num_threads"] for one in ThreadpoolController().info() if one["user_api"] == "blas"]

first_out = sys.argv[1] == "first out"
inside, left, before = Event(), Event(), threads()

def other():
    with one_thread():
        inside.set()
        if first_out:
            left.wait(60.0)

worker = Thread(target=other)
with one_thread():
    worker.start()
    inside.wait(60.0)
    if not first_out:
        worker.join()
    assert set(threads()) == {1}
left.set()
worker.join()
assert threads() == before and set(before) == {2}, (before, threads())
"""


@pytest.mark.parametrize("order", ["first out", "last out"])
def test_threads_that_overlap_leave_what_was_there(order):
    """In a process of its own: what a test holds would keep other threads from setting anything."""
    variables = os.environ | {"OPENBLAS_NUM_THREADS": "2", "OMP_NUM_THREADS": "2", "MKL_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", OVERLAP, order], env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("release", "call"), [("features", "eigh"), ("marginals", "cholesky")])
def test_a_release_is_made_by_one_thread(monkeypatch, release, call):
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(0, 1)),
        arms=["a", "b"],
        reward_range=(0, 1),
        horizon=2000,
        privacy=dpb.JointDP(epsilon=2, delta=1e-6),
        noise=dpb.SimulatedNoise(1),
        tuning=dpb.central.GPTuning(release=release, blocks=(2,)),
    )
    seen = threads_of(monkeypatch, np.linalg, call)
    for number in range(4):
        policy.tell(policy.ask([0.5], user=number).id, 1.0)
    assert seen
    assert all(one == {1} for one in seen)


@pytest.mark.parametrize(
    ("release", "call"),
    [("features", "sample_weights"), ("features", "to_score"), ("marginals", "sample_weights")],
)
def test_thompson_weights_are_drawn_by_one_thread(monkeypatch, release, call):
    seen = threads_of(monkeypatch, WeightPosterior if call == "sample_weights" else ArmFeatures, call)
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(0, 1)),
        arms=["a", "b"],
        reward_range=(0, 1),
        horizon=2000,
        privacy=dpb.JointDP(epsilon=2, delta=1e-6),
        noise=dpb.SimulatedNoise(1),
        tuning=dpb.central.GPTuning(release=release, blocks=(2,)),
    )
    for number in range(4):
        policy.tell(policy.ask([0.5], user=number).id, 1.0)
    assert seen
    assert all(one == {1} for one in seen)


def test_a_policy_without_privacy_shortens_its_rows_by_one_thread(monkeypatch):
    seen = threads_of(monkeypatch, np.linalg, "qr")
    policy = dpb.lab.baselines.FeatureGPUCB(
        contexts=dpb.Schema(age=dpb.Range(0, 1)), arms=["a", "b"], reward_range=(0, 1), horizon=200
    )
    for _ in range(80):
        policy.tell(policy.ask([0.5]).id, 1.0)
    assert seen
    assert all(one == {1} for one in seen)


def test_learning_from_a_log_is_prepared_by_one_thread(monkeypatch):
    seen = threads_of(monkeypatch, np.linalg, "eigh")
    measure = CellMeasure.uniform(low=0, high=1, cells=12)
    with pytest.warns(NothingToLearn) as caught:
        dpb.central.ExploreThenCommit(
            contexts=dpb.central.ContextLaw(measure),
            actions=measure,
            kernel=dpb.kernels.SquaredExponential(lengthscale=0.3),
            reward_range=(0, 1),
            horizon=20,
            privacy=dpb.JointDP(epsilon=0.2, delta=1e-6),
            noise=dpb.SimulatedNoise(1),
        )
    assert caught[0].filename == __file__  # the limit adds no frame between a warning and its caller
    assert seen
    assert all(one == {1} for one in seen)


def test_the_ceiling_of_a_table_is_fitted_by_one_thread(monkeypatch):
    """The trees use OpenMP, which has threads of its own."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    seen, model = [], ensemble.HistGradientBoostingRegressor
    fit = model.fit

    def watched(self, *arguments, **options):
        found = ThreadpoolController().info()
        seen.append({one["user_api"]: one["num_threads"] for one in found})
        return fit(self, *arguments, **options)

    monkeypatch.setattr(model, "fit", watched)
    rng = np.random.default_rng(0)
    with threadpool_limits(2, user_api="openmp"):
        supervised_ceiling(
            rng.random((50, 2)), rng.random((50, 2)).round(), codes={}, people=np.arange(50), seed=0
        )
    assert seen
    assert all(set(one.values()) == {1} and "openmp" in one for one in seen)
