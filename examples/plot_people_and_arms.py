"""
The same people and arms in every room
======================================

A shop may write, call, or leave its customers alone. Of each it knows age and region. The same two lines
say so to a trusted server, to people's own devices, to a log that is learned from once, and to policies that
protect nobody.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
arms = ["mail", "call", "nothing"]

rng = np.random.default_rng(0)
n = 3_000
visitors = {"age": rng.integers(18, 91, n), "region": rng.choice(["north", "south", "west"], n)}


def bought(first, chosen):
    """Whether they bought: the old answer calls, the west answers mail."""
    age, region = (
        visitors["age"][first : first + len(chosen)],
        visitors["region"][first : first + len(chosen)],
    )
    chance = 0.2 + 0.6 * ((chosen == "call") & (age > 55)) + 0.5 * ((chosen == "mail") & (region == "west"))
    return rng.random(len(chosen)) < chance


def rows(first, stop):
    return {name: column[first:stop] for name, column in visitors.items()}


# %%
# Policies that are asked and told differ by their names alone.

shared = {"contexts": people, "arms": arms, "reward_range": (0, 1), "horizon": n}
promise = {"privacy": dpb.JointDP(epsilon=2, delta=1e-5, user_ids=False)}
online = {
    "central.GPBandit": dpb.central.GPBandit(**shared, **promise),
    "baselines.FeatureGPUCB": dpb.lab.baselines.FeatureGPUCB(**shared),
    "baselines.Uniform": dpb.lab.baselines.Uniform(**shared),
}
earned = {}
for name, policy in online.items():
    rewards = []
    for first in range(0, n, 50):
        decisions = policy.ask_batch(rows(first, first + 50))
        rewards.append(bought(first, np.array(decisions.arms)))
        policy.tell_batch(decisions.ids, rewards[-1])
    earned[name] = np.concatenate(rewards)

# %%
# A log is learned from once, and what is published decides for everybody after.

logged = dpb.central.ExploreThenCommit(**shared, **promise)
tried = np.array(logged.explore(0, n))
logged.learn(visitors, tried, bought(0, tried))
published = logged.publish()
earned["central.ExploreThenCommit, after"] = bought(0, np.array(published.recommend_batch(visitors)))

# %%
# On people's own devices nobody else sees a context, an arm or a reward: only one private report leaves.

spec = dpb.local.Spec(contexts=people, arms=arms, privacy=dpb.LocalDP(epsilon=2))
server, rewards = dpb.local.Server(spec), []
for first in range(n):
    device = dpb.local.Client(spec)
    arm = device.choose(server.publish(), {name: column[first] for name, column in visitors.items()})
    rewards.append(bought(first, np.array([arm])))
    server.absorb([device.report(rewards[-1][0])])
earned["local"] = np.concatenate(rewards)

# %%
# One run each: it shows how they are used, and not which is better.

figure, axes = plt.subplots(figsize=(6.5, 3.5), layout="constrained")
axes.barh(list(earned), [rewards[n // 2 :].mean() for rewards in earned.values()])
axes.invert_yaxis()
axes.set(xlabel="share that bought, second half of the people")
plt.show()
