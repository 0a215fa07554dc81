"""
What has it learned?
====================

Everything that a policy predicts is computed from what it released: it may be drawn, shown and printed, as
often as one likes. Here it is drawn along one column of people's contexts, an arm a line, and along two, an
arm a map.
"""

import numpy as np

import dpbandits as dpb

people = dpb.Schema(age=dpb.Range(18, 90), visits=dpb.Range(0, 20))
arms, n, rng = ["mail", "call", "nothing"], 5_000, np.random.default_rng(0)
policy = dpb.central.GPBandit(
    contexts=people,
    arms=arms,
    reward_range=(0, 1),
    horizon=n,
    privacy=dpb.JointDP(epsilon=3, delta=1e-6, user_ids=False),
)
for _ in range(n // 50):
    table = {"age": rng.integers(18, 91, 50), "visits": rng.integers(0, 21, 50)}
    decisions = policy.ask_batch(table)
    likes = {"mail": 0.8 - 0.03 * table["visits"], "call": 0.2 + 0.6 * (table["age"] > 55), "nothing": 0.4}
    chance = [np.broadcast_to(likes[arm], 50)[row] for row, arm in enumerate(decisions.arms)]
    policy.tell_batch(decisions.ids, rng.random(50) < chance)

# %%
# Along age, for people with four visits; bands are one standard deviation.

by_age = dpb.lab.plot.released(policy, "age", at={"visits": 4})

# %%
# Along both.

by_both = dpb.lab.plot.released(policy, ["age", "visits"])
