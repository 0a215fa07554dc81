"""
One visit or ten?
=================

The promise covers a person, however often they come: noise grows with `rounds_per_user`. The same 6,000
visits, paid by 6,000 people who come once, or by 600 who come ten times.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

visits = [1, 2, 5, 10]
rng = np.random.default_rng(0)
age = rng.integers(18, 91, 6_000)
wants_call = age > 50


def good_choices(rounds_per_user):
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(age=dpb.Range(18, 90)),
        arms=["mail", "call"],
        reward_range=(0, 1),
        horizon=6_000,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6, rounds_per_user=rounds_per_user),
        noise=dpb.SimulatedNoise(0),
    )
    right = []
    for first in range(0, 6_000, 50):
        who = np.arange(first, first + 50) // rounds_per_user
        decisions = policy.ask_batch({"age": age[first : first + 50]}, users=[f"u-{one}" for one in who])
        right.append((np.array(decisions.arms) == "call") == wants_call[first : first + 50])
        policy.tell_batch(decisions.ids, rng.random(50) < np.where(right[-1], 0.7, 0.3))
    return np.cumsum(np.concatenate(right)) / np.arange(1, 6_001)


# %%
# One run each: cover as many rounds as you need, and no more.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for rounds in visits:
    axes.plot(good_choices(rounds), label=f"{rounds} a person")
axes.set(xlabel="visits so far", ylabel="share of good choices", ylim=(0.4, 1))
axes.legend()
plt.show()
