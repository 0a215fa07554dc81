"""The same script in every room
=============================
``python one_script.py local 20000``: a policy guesses workers' brackets of earnings. Change the name only."""

import sys

import numpy as np
import pandas as pd

import dpbandits as dpb
from dpbandits.lab import baselines
from dpbandits.lab.worlds.datasets import INCOME_ARMS, INCOME_CUTS, INCOME_SCHEMA, cps_earnings

name, count, table = sys.argv[1], int(sys.argv[2]), pd.DataFrame(cps_earnings())
table = table.sample(count + 5000, random_state=0)
right = np.array(INCOME_ARMS)[np.digitize(table.pop("earnings"), INCOME_CUTS)]
people = table.to_dict("records")
who, joint = {"contexts": INCOME_SCHEMA, "arms": INCOME_ARMS}, dpb.JointDP(epsilon=1, delta=1e-6)
same = who | {"reward_range": (0, 1), "horizon": count, "user_ids": True}
policies = {
    "central": lambda: dpb.central.GPBandit(**same, privacy=joint),
    "local": lambda: dpb.lab.twin(policies["central"](), room="local"),  # epsilon 1 on people's own devices
    "learn": lambda: baselines.Uniform(**same),  # its log is learned from below
    "ridge": lambda: baselines.PrivateRidge(**same, privacy=joint),
    "uniform": lambda: baselines.Uniform(**same),
    "constant": lambda: baselines.ConstantArm(**same, arm="10 to 16"),
    "features": lambda: baselines.FeatureGPUCB(**same),
    "exact": lambda: baselines.ExactGPUCB(**same),
}
policy, arms = policies[name](), []
for t in range(count):
    decision = policy.ask(people[t], user=t)
    policy.tell(decision.id, decision.arm == right[t])
    arms.append(decision.arm)
if name == "learn":
    learner = dpb.central.ExploreThenCommit(**same, privacy=joint)
    learner.learn(people[:count], arms, arms == right[:count], users=range(count))
    policy = learner.publish()
best = np.array(INCOME_ARMS)[policy.predict(people[count:])[0].argmax(axis=1)]
print(f"{name}: {np.mean(arms == right[:count]):.3f} right, then {np.mean(best == right[count:]):.3f}")
