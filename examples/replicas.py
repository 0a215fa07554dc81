"""
Replicas from a published policy
================================

One server is asked, told and learns. What it publishes is a release: replicas decide by it, on as many
machines as there are, with no state, no account and at no further cost. They learn from nobody.
"""

import tempfile

import numpy as np

import dpbandits as dpb

people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
promise = dpb.JointDP(epsilon=2, delta=1e-6)
policy = dpb.central.GPBandit(
    contexts=people, arms=["mail", "call"], reward_range=(0, 1), horizon=2000, privacy=promise
)

rng = np.random.default_rng(0)
for visitor in range(2000):
    person = {"age": int(rng.integers(18, 91)), "region": str(rng.choice(["north", "south", "west"]))}
    decision = policy.ask(person, user=f"u-{visitor}")
    right = "call" if person["age"] > 55 else "mail"
    policy.tell(decision.id, rng.random() < (0.8 if decision.arm == right else 0.2))

folder = tempfile.mkdtemp()
policy.publish().save(folder)  # public: copy it wherever it is needed

replica = dpb.central.PublishedFunction.load(folder)
print(replica.recommend({"age": 80, "region": "west"}), replica.recommend({"age": 21, "region": "north"}))
print(replica.guarantee.explain())
