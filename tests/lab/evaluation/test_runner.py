import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import InvalidParameter, MissingExtra
from dpbandits.lab.evaluation import BANNER, Repetitions, repeat, report_seeds, run
from dpbandits.lab.worlds import Environment, camelback
from dpbandits.policy.decision import DecisionBatch
from reproduction.dubey2021.gap_world import three_hills


class FixedChoice:
    """Chooses the row `always`, or the one with the largest first coordinate; keeps a log of its calls."""

    def __init__(self, always=None, batch_boundaries=None, user_ids=False):
        self.always = always
        self.user_ids = user_ids
        self.log = []
        if batch_boundaries is not None:
            self.batch_boundaries = batch_boundaries

    def ask_batch(self, candidates, *, users=None, available=None):
        start = sum(length for kind, length, _ in self.log if kind == "ask")
        self.log.append(("ask", len(candidates), users))
        if self.always is None:
            indices = np.argmax(candidates[:, :, 0], axis=1)
        else:
            indices = np.full(len(candidates), self.always)
        ids = tuple(f"d{t}" for t in range(start, start + len(candidates)))
        return DecisionBatch(ids, indices, candidates[np.arange(len(candidates)), indices])

    def tell_batch(self, decision_ids, rewards):
        self.log.append(("tell", len(rewards), tuple(decision_ids)))
        rewards[:] = np.nan  # what a policy does to its copy is its own affair
        return ()


def asked(policy):
    return [length for kind, length, _ in policy.log if kind == "ask"]


def test_a_run_is_what_the_environment_paid():
    world = camelback(seed=5, horizon=60)
    result = run(FixedChoice(always=3), world)
    means = world.mean_rewards(0, 60)
    assert np.array_equal(result.rewards, world.rewards(0, 60, np.full(60, 3)))
    assert np.array_equal(result.expected, means[:, 3])
    assert np.array_equal(result.regret, means.max(axis=1) - means[:, 3])
    assert np.array_equal(result.uniform, means.mean(axis=1))
    assert result.mean_reward == pytest.approx(means[:, 3].mean())
    assert (result.environment, result.seed, result.n_rounds) == ("camelback", 5, 60)
    assert result.seconds > 0
    assert result.banner == BANNER


def test_without_boundaries_every_round_is_asked_and_told_alone():
    policy = FixedChoice()
    run(policy, camelback(seed=5, horizon=4))
    assert [(kind, length) for kind, length, _ in policy.log] == [("ask", 1), ("tell", 1)] * 4
    assert [ids for kind, _, ids in policy.log if kind == "tell"] == [("d0",), ("d1",), ("d2",), ("d3",)]


def test_boundaries_come_from_the_policy_or_the_caller():
    policy = FixedChoice(batch_boundaries=(0, 10, 25, 60, 5000))
    run(policy, camelback(seed=5, horizon=60))
    assert asked(policy) == [10, 15, 35]
    policy = FixedChoice(batch_boundaries=(0, 10, 25, 40, 5000))
    run(policy, camelback(seed=5, horizon=60), boundaries=[30])
    assert asked(policy) == [30, 30]
    policy = FixedChoice(batch_boundaries=())
    run(policy, camelback(seed=5, horizon=60), rounds=20)
    assert asked(policy) == [20]


def test_a_long_block_is_cut_to_bound_memory():
    policy = FixedChoice(batch_boundaries=(9000,))
    run(policy, camelback(seed=5, horizon=10_000))
    assert asked(policy) == [4096, 4096, 808, 1000]


@given(boundaries=st.lists(st.integers(1, 70), unique=True).map(sorted))
def test_batches_do_not_change_what_a_fixed_policy_earns(boundaries):
    world = three_hills(seed=1, horizon=64)
    alone, together = run(FixedChoice(), world), run(FixedChoice(), world, boundaries=boundaries)
    assert np.array_equal(alone.rewards, together.rewards)
    assert np.array_equal(alone.regret, together.regret)


def test_users_are_named_where_the_policy_asks_for_them():
    policy = FixedChoice(user_ids=True, batch_boundaries=(2,))
    run(policy, camelback(seed=5, horizon=5))
    users = [name for kind, _, names in policy.log if kind == "ask" for name in names]
    assert len(set(users)) == 5
    policy = FixedChoice()
    run(policy, camelback(seed=5, horizon=2))
    assert [names for kind, _, names in policy.log if kind == "ask"] == [None, None]


class UnknownMeans:
    """An environment that does not know its expected rewards."""

    def __init__(self, world):
        self._world = world

    def __getattr__(self, name):
        return getattr(self._world, name)

    def mean_rewards(self, start, stop):
        return None


def test_without_known_means_there_is_no_regret():
    world = camelback(seed=5, horizon=30)
    result = run(FixedChoice(always=0), UnknownMeans(world))
    assert result.regret is None
    assert result.uniform is None
    assert result.mean_reward == world.rewards(0, 30, np.zeros(30, dtype=int)).mean()
    repetitions = Repetitions(name="fixed", results=(result,))
    assert repetitions.uniform_rewards is None
    assert repetitions.cumulative_regret is None


@pytest.mark.parametrize(
    "changed",
    [{"rounds": 61}, {"rounds": 0}, {"boundaries": [5, 5]}, {"boundaries": [6, 5]}, {"boundaries": [1.5]}],
)
def test_bad_runs_are_refused_before_the_policy_is_asked(changed):
    policy = FixedChoice()
    with pytest.raises(InvalidParameter):
        run(policy, camelback(seed=5, horizon=60), **changed)
    assert policy.log == []


def make_environment(seed):
    return camelback(seed=seed, horizon=40)


def make_policy(environment, seed):
    assert isinstance(environment, Environment)
    assert environment.seed == seed
    return FixedChoice()


def test_repetitions_have_fresh_policies_and_worlds():
    seeds = report_seeds(1_000_000, 3)
    repetitions = repeat(make_policy, make_environment, name="first", seeds=seeds)
    assert repetitions.seeds == seeds
    assert not repetitions.tuning
    assert repetitions.banner == BANNER
    for seed, result in zip(seeds, repetitions.results, strict=True):
        assert np.array_equal(result.rewards, run(FixedChoice(), make_environment(seed)).rewards)
    assert repetitions.cumulative_regret.shape == (3, 40)
    assert np.allclose(repetitions.cumulative_regret[:, -1], [r.regret.sum() for r in repetitions.results])
    assert repetitions.mean_rewards.shape == repetitions.uniform_rewards.shape == (3,)


def test_processes_give_the_same_numbers():
    pytest.importorskip("joblib")

    # Defined here, so that workers get them by value; the rest they import.
    class Worker:
        def ask_batch(self, candidates, *, users=None, available=None):
            indices = np.argmax(candidates[:, :, 0], axis=1)
            ids = tuple(str(t) for t in range(len(candidates)))
            return DecisionBatch(ids, indices, candidates[np.arange(len(indices)), indices])

        def tell_batch(self, decision_ids, rewards):
            return ()

    alone = repeat(make_policy, make_environment, name="x", seeds=[1, 2, 3])
    together = repeat(
        lambda environment, seed: Worker(),
        lambda seed: camelback(seed=seed, horizon=40),
        name="x",
        seeds=[1, 2, 3],
        jobs=2,
    )
    assert np.array_equal(alone.mean_rewards, together.mean_rewards)
    assert together.tuning


def test_a_joblib_backend_around_the_call_is_used():
    joblib = pytest.importorskip("joblib")
    with joblib.parallel_config(backend="threading"):
        together = repeat(make_policy, make_environment, name="x", seeds=[1, 2], jobs=2)
    assert together.seeds == (1, 2)


def test_bad_repetitions_are_refused(monkeypatch):
    with pytest.raises(InvalidParameter, match="at least one run"):
        repeat(make_policy, make_environment, name="x", seeds=[])
    with pytest.raises(InvalidParameter, match="jobs is 0"):
        repeat(make_policy, make_environment, name="x", seeds=[1], jobs=0)
    with pytest.raises(InvalidParameter, match="mixed"):
        repeat(make_policy, make_environment, name="x", seeds=[999_999, 1_000_000])
    with pytest.raises(InvalidParameter, match="twice"):
        repeat(make_policy, make_environment, name="x", seeds=[3, 3])
    one = repeat(make_policy, make_environment, name="x", seeds=[1])
    other = repeat(make_policy, make_environment, name="x", seeds=[2], rounds=10)
    with pytest.raises(InvalidParameter, match="one number of rounds"):
        Repetitions(name="x", results=one.results + other.results)
    monkeypatch.setitem(sys.modules, "joblib", None)
    with pytest.raises(MissingExtra, match=r"dpbandits\[report\]"):
        repeat(make_policy, make_environment, name="x", seeds=[1], jobs=2)


def test_repr_shows_no_reward():
    repetitions = repeat(make_policy, make_environment, name="x", seeds=[1])
    for shown in (repr(repetitions), repr(repetitions.results[0])):
        assert "array" not in shown
        assert "0." not in shown
