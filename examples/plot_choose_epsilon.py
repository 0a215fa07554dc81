"""
Which epsilon can we afford?
============================

Simulate your own size before anybody depends on it: the same people, the same policy, several promises, and
the same policy without one. Noise is simulated here, which makes runs repeatable and protects nobody.
"""

import dpbandits as dpb

lab = dpb.lab
seeds = lab.evaluation.report_seeds(lab.evaluation.FIRST_REPORT_SEED, 3)


def world(seed):
    return lab.worlds.synthetic_income(seed=seed, horizon=2_000)


def known(world, seed):
    return {"contexts": world.schema, "arms": world.arms.labels, "reward_range": (0, 1), "seed": seed}


def private(world, seed, epsilon):
    privacy, noise = dpb.JointDP(epsilon=epsilon, delta=1e-6), dpb.SimulatedNoise(seed)
    return dpb.central.GPBandit(**known(world, seed), horizon=2_000, privacy=privacy, noise=noise)


def open_to_all(world, seed):
    return lab.baselines.FeatureGPUCB(**known(world, seed), horizon=2_000, update_growth=0.1)


# %%
# Two thousand made-up people, three runs a point. Choose the smallest epsilon whose reward you can live
# with, and choose it on simulated or public people: on private ones, looking is itself a release.

figure = lab.plot.along_epsilons(
    private, world, epsilons=(0.3, 1, 3, 10), beside={"without privacy": open_to_all}, seeds=seeds
)
