"""
MABWiser's loop on a private policy
===================================

`predict`, then `partial_fit`, as MABWiser has it. A prediction takes a round, and rewards belong to the
decisions that were made: one row each, in order, NaN where none came.
"""

import numpy as np

import dpbandits as dpb
from dpbandits.adapters.mabwiser import MAB

policy = dpb.central.GPBandit(
    contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], reward_range=(0, 1), horizon=4000,
    privacy=dpb.JointDP(epsilon=2, delta=1e-6, user_ids=False),
)  # fmt: skip
mab, rng, earned = MAB(policy), np.random.default_rng(0), []
for _ in range(80):
    ages = rng.integers(18, 91, (50, 1))
    arms = mab.predict(ages)
    right = np.where(ages[:, 0] > 55, "call", "mail") == np.array(arms)
    rewards = (rng.random(50) < np.where(right, 0.8, 0.2)).astype(float)
    mab.partial_fit(arms, rewards, ages)
    earned.append(rewards.mean())
print("first ten batches:", np.mean(earned[:10]).round(2), " last ten:", np.mean(earned[-10:]).round(2))
print(mab.predict_expectations([[21], [80]]))
