"""
Can one person's answer be read off?
====================================

The attacker knows every record, the algorithm and its public coins, and of one person everything but
whether they bought. They watch what the policy predicts for that person after its first release, and guess.
"""

import matplotlib.pyplot as plt

import dpbandits as dpb
from dpbandits.lab.people.study import TableConstants, non_private_policy, private_policy

world = dpb.lab.worlds.synthetic_income(seed=1_000_000, horizon=2_000)


def private(epsilon):
    known = {
        "privacy": dpb.JointDP(epsilon=epsilon, delta=1e-6),
        "constants": TableConstants(thompson_scale=0),
    }
    return lambda trial: private_policy(world, 0, **known, noise=dpb.SimulatedNoise(trial))


def open_to_all(trial):
    return non_private_policy(world, 0)


attacked = {"without privacy": open_to_all, "epsilon = 10": private(10), "epsilon = 1": private(1)}
found = {name: dpb.audit.attack_reward(make, world, rounds=50, trials=100) for name, make in attacked.items()}

# %%
# One hundred guesses each. Half of them are right by blind guessing; the red marks are what the promise
# allows at most.

figure, axes = plt.subplots(figsize=(6, 2.6), layout="constrained")
axes.barh(list(found), [one.success for one in found.values()])
axes.plot([one.bound for one in found.values()], list(found), "r|", markersize=28)
axes.axvline(0.5, color="grey", linestyle="--")
axes.set(xlabel="right guesses", xlim=(0, 1.05))
plt.show()
