"""Gymnasium's environments as worlds."""

import sys

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.adapters.gymnasium import GymWorld
from dpbandits.errors import InvalidData, InvalidParameter, MissingExtra

gym = pytest.importorskip("gymnasium")


class Offers(gym.Env):
    """A person of some age comes; calling (action 3) pays for the old, writing (action 2) for the young."""

    def __init__(self, *, steps=1, discrete=False):
        box = gym.spaces.Box(0.0, 100.0, (1,), np.float64)
        self.observation_space = gym.spaces.Discrete(2, start=5) if discrete else box
        self.action_space = gym.spaces.Discrete(2, start=2)
        self._steps, self._discrete = steps, discrete

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._age, self._left = self.np_random.uniform(0, 100), self._steps
        return (5 + int(self._age > 50) if self._discrete else np.array([self._age])), {}

    def step(self, action):
        self._left -= 1
        chance = 0.9 if (action == 3) == (self._age > 50) else 0.1
        return np.array([self._age]), float(self.np_random.random() < chance), self._left == 0, False, {}


def test_a_policy_learns_in_an_environment():
    world = GymWorld(Offers(), reward_range=(0, 1), horizon=300, seed=1, arms=["mail", "call"])
    assert isinstance(world, dpb.lab.worlds.Environment)
    policy = dpb.lab.baselines.FeatureGPUCB(contexts=world.contexts, arms=world.arms, reward_range=(0, 1))
    result = dpb.lab.evaluation.run(policy, world)
    assert result.mean_reward > 0.7  # a coin earns 0.5
    assert policy.recommend([90.0]) == "call"


def test_a_round_is_a_function_of_seed_and_round():
    first, second = (GymWorld(Offers(), reward_range=(0, 1), horizon=50, seed=1) for _ in range(2))
    whole, chosen = first.decision_sets(0, 50), np.arange(50) % 2
    parts = [second.decision_sets(t, t + 1) for t in reversed(range(50))]
    np.testing.assert_array_equal(whole, np.concatenate(parts[::-1]))
    rewards = [second.rewards(t, t + 1, chosen[t : t + 1]) for t in reversed(range(50))]
    np.testing.assert_array_equal(first.rewards(0, 50, chosen), np.concatenate(rewards[::-1]))
    other = GymWorld(Offers(), reward_range=(0, 1), horizon=50, seed=2)
    assert not np.array_equal(whole, other.decision_sets(0, 50))


def test_discrete_observations_are_categories():
    world = GymWorld(Offers(discrete=True), reward_range=(0, 1), horizon=20)
    assert world.contexts.columns["x0"].values == (5, 6)
    assert set(np.unique(world.decision_sets(0, 20)[:, 0, 0])) == {0.0, 1.0}


def test_what_is_no_bandit_is_refused():
    long = GymWorld(Offers(steps=2), reward_range=(0, 1), horizon=5)
    with pytest.raises(InvalidData, match="continued"):
        long.rewards(0, 1, [0])
    with pytest.raises(InvalidData, match="indices"):
        long.rewards(0, 2, [0])
    with pytest.raises(InvalidParameter, match="rounds"):
        long.decision_sets(0, 6)
    with pytest.raises(InvalidParameter, match="labels"):
        GymWorld(Offers(), reward_range=(0, 1), horizon=5, arms=["one"])
    endless = Offers()
    endless.observation_space = gym.spaces.Box(-np.inf, np.inf, (1,))
    with pytest.raises(InvalidParameter, match="bounds"):
        GymWorld(endless, reward_range=(0, 1), horizon=5)


def test_without_gymnasium_the_pip_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    with pytest.raises(MissingExtra, match="pip install gymnasium"):
        GymWorld(Offers(), reward_range=(0, 1), horizon=5)
