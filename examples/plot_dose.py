"""
A dose for everyone, learned once
=================================

Doses were tried at random on 5,000 made-up patients. `ExploreThenCommit` adds up one row a patient and
publishes the whole dose-response once; what is published decides for anybody, for ever, at no further cost.
"""

import matplotlib.pyplot as plt
import numpy as np

import dpbandits as dpb
from dpbandits.models.measures import CellMeasure

world, n = dpb.lab.worlds.DoseFinding(seed=7), 5_000
policy = dpb.central.ExploreThenCommit(
    kernel=dpb.kernels.SquaredExponential(lengthscale=(0.25, 0.5, 0.53)),  # dose, age, clearance
    actions=CellMeasure.uniform(low=0, high=10, cells=40),
    contexts=dpb.central.ContextLaw(world.contexts),
    reward_range=(-1.0, 1.0),
    horizon=n,
    privacy=dpb.JointDP(epsilon=2.0, delta=1e-6, user_ids=False),
)
doses = policy.explore(0, n)
policy.learn(world.patients(0, n), doses, world.rewards(0, n, doses))
published = policy.publish()

# %%
# Two patients, and the band of two posterior deviations, noise of the release included.

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for patient, name in (([30.0, 1.2], "30 years, clearance 1.2"), ([85.0, 0.7], "85 years, clearance 0.7")):
    mean, sd = (values[0] for values in published.predict([patient]))
    (line,) = axes.plot(policy.actions.points[:, 0], mean, label=name)
    axes.fill_between(
        policy.actions.points[:, 0], mean - 2 * sd, mean + 2 * sd, color=line.get_color(), alpha=0.2
    )
    axes.plot(policy.actions.points[np.argmax(mean), 0], mean.max(), "o", color=line.get_color())
axes.set(xlabel="dose", ylabel="expected response")
axes.legend()
plt.show()
