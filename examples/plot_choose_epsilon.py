"""
Which epsilon can we afford?
============================

Simulate your own size before anybody depends on it: the same people, the same policy, several promises, and
the same policy without one. Noise is simulated here, which makes runs repeatable and protects nobody.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

evaluation, epsilons = dpb.lab.evaluation, [0.3, 1, 3, 10]
seeds = evaluation.report_seeds(evaluation.FIRST_REPORT_SEED, 3)


def world(seed):
    return dpb.lab.worlds.synthetic_income(seed=seed, horizon=3_000)


def policy(world, seed, epsilon=None):
    known = {"contexts": world.schema, "arms": world.arms.labels, "reward_range": (0, 1)}
    if epsilon is None:
        return dpb.lab.baselines.FeatureGPUCB(**known, horizon=3_000, update_growth=0.1, seed=seed)
    privacy, noise = dpb.JointDP(epsilon=epsilon, delta=1e-6), dpb.SimulatedNoise(seed)
    return dpb.central.GPBandit(**known, horizon=3_000, privacy=privacy, noise=noise, seed=seed)


def earned(epsilon=None):
    make = partial(policy, epsilon=epsilon)
    return evaluation.repeat(make, world, name=str(epsilon), seeds=seeds).mean_rewards


# %%
# Three thousand made-up people, three runs a point. Choose the smallest epsilon whose reward you can live
# with, and choose it on simulated or public people: on private ones, looking is itself a release.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
runs = [earned(epsilon) for epsilon in epsilons]
axes.plot(epsilons, runs, "o", color="tab:blue")
axes.plot(epsilons, np.mean(runs, axis=1), color="tab:blue", label="private")
axes.axhline(earned().mean(), color="grey", label="without privacy")
axes.axhline(0.25, color="tab:orange", linestyle="--", label="random")
axes.set(xscale="log", xlabel="epsilon", ylabel="mean reward", xticks=epsilons, xticklabels=epsilons)
axes.legend()
plt.show()
