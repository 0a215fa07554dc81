"""
My own simulator
================

Who has a model of their people tries policies on it: a function of the candidates that gives the chance of
a good outcome, and a rule for what people bring. Everything else, repetitions, random choice and what the
best candidate would have paid, is there.
"""

import numpy as np

import dpbandits as dpb

lab, horizon = dpb.lab, 3_000
box = dpb.Box(low=[0, 0], high=[1, 1])  # price, and how early the offer comes
known = {"domain": box, "horizon": horizon}


def chance(offers):
    return 0.15 + 0.7 * np.exp(-((offers[..., 0] - 0.3) ** 2 + (offers[..., 1] - 0.7) ** 2) / 0.1)


def shop(seed):
    brought = lab.worlds.UniformCandidates(domain=box, n_candidates=10)
    return lab.worlds.FunctionBandit(
        name="shop", mean=chance, candidates=brought, n_candidates=10, seed=seed, **known
    )


def private(world, seed):
    kernel, privacy = dpb.kernels.SquaredExponential(lengthscale=0.5), dpb.JointDP(epsilon=1, delta=1e-6)
    noise = dpb.SimulatedNoise(seed)
    return dpb.central.GPBandit(kernel=kernel, reward_range=(0, 1), privacy=privacy, noise=noise, **known)


def random(world, seed):
    return lab.baselines.Uniform(reward_range=(0, 1), seed=seed, **known)


# %%
# Regret: how many more sales the best of ten offers would have made.

seeds = lab.evaluation.report_seeds(lab.evaluation.FIRST_REPORT_SEED, 5)
policies = {"epsilon = 1": private, "random offer": random}
figure = lab.plot.along_rounds(policies, shop, seeds=seeds, what="regret")
