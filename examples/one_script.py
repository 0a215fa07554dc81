"""The same script in every room
=============================
``python one_script.py local 20000``: a policy guesses workers' brackets of earnings. Change the name alone.
"""

import sys

import numpy as np

import dpbandits as dpb
from dpbandits.lab import baselines
from dpbandits.lab.worlds.datasets import INCOME_ARMS, INCOME_CUTS, INCOME_SCHEMA, cps_earnings

name, count, table = sys.argv[1], int(sys.argv[2]), cps_earnings()
order = np.random.default_rng(0).permutation(len(table["age"]))[: count + 5000]
right = np.array(INCOME_ARMS)[np.digitize(table["earnings"][order], INCOME_CUTS)]
columns = [table[column][order] for column in INCOME_SCHEMA.names]
people = [dict(zip(INCOME_SCHEMA.names, row, strict=True)) for row in zip(*columns, strict=True)]
who, joint = {"contexts": INCOME_SCHEMA, "arms": INCOME_ARMS}, dpb.JointDP(epsilon=1, delta=1e-6)
same = {**who, "reward_range": (0, 1), "horizon": count, "user_ids": True}
spec = dpb.local.Spec(**who, privacy=dpb.LocalDP(epsilon=1))
policies = {
    "central": lambda: dpb.central.GPBandit(**same, privacy=joint),
    "local": lambda: baselines.LocalCrowd(spec=spec, horizon=count, user_ids=True),
    "learn": lambda: baselines.Uniform(**same),  # its log is learned from below
    "ridge": lambda: baselines.PrivateRidge(**same, privacy=joint),
    "uniform": lambda: baselines.Uniform(**same),
    "constant": lambda: baselines.ConstantArm(**same, arm="10 to 16"),
    "features": lambda: baselines.FeatureGPUCB(**same),
    "exact": lambda: baselines.ExactGPUCB(**same),
}
policy, arms = policies[name](), []
for person, answer in zip(people[:count], right, strict=False):
    decision = policy.ask(person, user=len(arms))
    policy.tell(decision.id, decision.arm == answer)
    arms.append(decision.arm)
if name == "learn":
    learner = dpb.central.ExploreThenCommit(**same, privacy=joint)
    learner.learn(people[:count], arms, arms == right[:count], users=range(count))
    policy = learner.publish()
best = np.array(INCOME_ARMS)[policy.predict(people[count:])[0].argmax(axis=1)]
print(f"{name}: {np.mean(arms == right[:count]):.3f} right, then {np.mean(best == right[count:]):.3f}")
