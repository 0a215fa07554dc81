"""
What does it cost not to be trusted?
====================================

The same made-up people, twice: once one server sees everything and adds noise to its sums (central), once
every device adds noise to its own report (local). Both promise epsilon 2.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb

people, arms, n = dpb.Schema(age=dpb.Range(18, 90)), ["mail", "call"], 2_500
rng = np.random.default_rng(0)
age, luck = rng.integers(18, 91, n), rng.random(n)


def bought(person, arm):
    return luck[person] < (0.7 if (arm == "call") == (age[person] > 50) else 0.3)


policy = dpb.central.GPBandit(
    contexts=people,
    arms=arms,
    reward_range=(0, 1),
    horizon=n,
    privacy=dpb.JointDP(epsilon=2, delta=1e-6, user_ids=False),
)
spec = dpb.local.Spec(contexts=people, arms=arms, privacy=dpb.LocalDP(epsilon=2))
server, central, local = dpb.local.Server(spec), np.zeros(n), np.zeros(n)
for person in range(n):
    if person % 100 == 0:
        published = server.publish()
    decision = policy.ask({"age": age[person]})
    central[person] = bought(person, decision.arm)
    policy.tell(decision.id, central[person])
    device = dpb.local.Client(spec)
    local[person] = bought(person, device.choose(published, {"age": age[person]}))
    server.absorb([device.report(local[person])])

# %%
# Averages over the last 500 people.

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for name, rewards in (("central", central), ("local", local)):
    axes.plot(np.arange(500, n + 1), np.convolve(rewards, np.ones(500) / 500, mode="valid"), label=name)
axes.axhline(0.5, color="grey", linestyle="--", label="random arm")
axes.set(xlabel="people", ylabel="share that bought")
axes.legend()
plt.show()
