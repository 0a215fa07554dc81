"""The same script in every room
=============================
``python one_script.py local 20000``: a policy guesses workers' brackets of earnings. Change the name only."""

import sys

import numpy as np
import pandas as pd

import dpbandits as dpb
from dpbandits.lab.worlds.datasets import INCOME_ARMS, INCOME_CUTS, INCOME_SCHEMA, cps_earnings

name, n, table = sys.argv[1], int(sys.argv[2]), pd.DataFrame(cps_earnings()).sample(frac=1, random_state=0)
right = np.array(INCOME_ARMS)[np.digitize(table.pop("earnings"), INCOME_CUTS)][: n + 5000]
people, lab, joint = table[: n + 5000].to_dict("records"), dpb.lab, dpb.JointDP(epsilon=1, delta=1e-6)
same = {"contexts": INCOME_SCHEMA, "arms": INCOME_ARMS, "reward_range": (0, 1), "horizon": n}
policies = {
    "central": lambda: dpb.central.GPBandit(**same, privacy=joint),
    "local": lambda: lab.twin(policies["central"](), room="local"),  # epsilon 1 on people's own devices
    "ridge": lambda: lab.baselines.PrivateRidge(**same, privacy=joint),
    "histogram": lambda: lab.baselines.CellHistogram(**same, privacy=joint),
    "episodes": lambda: lab.baselines.ArmEpisodes(**same, privacy=joint),
    "aggregated": lambda: lab.baselines.BlockAggregation(**same, privacy=joint),
    "uniform": lambda: lab.baselines.Uniform(**same),
    "constant": lambda: lab.baselines.ConstantArm(**same, arm="10 to 16"),
    "features": lambda: lab.baselines.FeatureGPUCB(**same),
    "exact": lambda: lab.baselines.ExactGPUCB(**same),
}
learners = {"learn": dpb.central.ExploreThenCommit, "open-learn": lab.baselines.OpenExploreThenCommit}
policy, arms = policies["uniform" if name in learners else name](), []  # what is learned from is a random log
for t in range(n):
    decision = policy.ask(people[t], user=t)
    policy.tell(decision.id, decision.arm == right[t])
    arms.append(decision.arm)
if name in learners:
    learner = learners[name](**same, privacy=joint)
    learner.learn(people[:n], arms, arms == right[:n], users=range(n))
    policy = learner.publish()
best = np.array(INCOME_ARMS)[policy.predict(people[n:])[0].argmax(axis=1)]
print(f"{name}: {np.mean(arms == right[:n]):.3f} right, then {np.mean(best == right[n:]):.3f}")
