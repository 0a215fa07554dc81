"""
A Gymnasium environment as a world
==================================

An environment whose episodes end with their first step is a bandit. Any policy runs in it, private or not,
and `lab.twin` gives the one that protects nobody: the difference is what privacy costs here.
"""

import gymnasium as gym
import numpy as np

import dpbandits as dpb
from dpbandits.adapters.gymnasium import GymWorld


class Clinic(gym.Env):
    """A patient's severity is seen; the dose nearest to it works best."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.severity = self.np_random.random()
        return np.array([self.severity]), {}

    def step(self, action):
        works = self.np_random.random() < 1.0 - abs(action / 2 - self.severity)
        return np.array([self.severity]), float(works), True, False, {}


world = GymWorld(Clinic(), reward_range=(0, 1), horizon=3000, arms=["low", "middle", "high"])
policy = dpb.central.GPBandit(
    contexts=world.contexts, arms=world.arms, reward_range=world.reward_range, horizon=world.horizon,
    privacy=dpb.JointDP(epsilon=1, delta=1e-6),
)  # fmt: skip
for one in (policy, dpb.lab.twin(policy, update_growth=0.1)):
    print(type(one).__name__, round(dpb.lab.evaluation.run(one, world).mean_reward, 3))
