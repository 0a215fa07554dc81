"""
From a private log to a policy that adapts
==========================================

Last year's offers were made at random, and a function was learned from that log and published. This year's
policy begins with it as its prior. Nobody in the log comes again, which the statement lists as an assumption;
otherwise an account pays for both promises together.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

known = {"contexts": dpb.Schema(age=dpb.Range(18, 90)), "arms": ["mail", "call"], "reward_range": (0, 1)}
promise = {"privacy": dpb.JointDP(epsilon=1, delta=1e-6, user_ids=False)}
n, rng = 4_000, np.random.default_rng(0)


def bought(age, arms):
    return rng.random(len(age)) < np.where((np.array(arms) == "call") == (age > 50), 0.7, 0.3)


log = dpb.central.ExploreThenCommit(**known, **promise, horizon=n)
age, arms = rng.integers(18, 91, n), rng.choice(["mail", "call"], n)
log.learn({"age": age}, arms, bought(age, arms))

# %%
# Right offers among the last 200 people, one run each.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name in ("cold", "begins with the log"):
    policy, right = dpb.central.GPBandit(**known, **promise, horizon=n), []
    if name != "cold":
        policy.warm_start(log.publish(), disjoint=True)
    for _ in range(100):
        age = rng.integers(18, 91, 20)
        decisions = policy.ask_batch({"age": age})
        right.append((np.array(decisions.arms) == "call") == (age > 50))
        policy.tell_batch(decisions.ids, bought(age, decisions.arms))
    moving = np.convolve(np.concatenate(right), np.ones(200) / 200, mode="valid")
    axes.plot(np.arange(200, 2_001), moving, label=name)
axes.set(xlabel="people", ylabel="right offers")
axes.legend()
plt.show()
