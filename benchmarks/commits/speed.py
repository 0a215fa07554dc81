"""CPU time and memory of a decision, a report and a release."""

import warnings

import numpy as np

import dpbandits as dpb

ASKS = 200


class Decision:
    """One ask and its tell of a central policy, after its first release."""

    params = ([3, 30], [4, 100])
    param_names = ("columns", "arms")

    def setup(self, columns, arms):
        schema = dpb.Schema(**{f"x{place}": dpb.Range(0, 1) for place in range(columns)})
        warnings.simplefilter("ignore", dpb.central.NothingToLearn)  # only the time matters
        self.policy = dpb.central.GPBandit(
            contexts=schema,
            arms=[f"arm {place}" for place in range(arms)],
            reward_range=(0, 1),
            horizon=20_000,
            privacy=dpb.JointDP(epsilon=1, delta=1e-6, user_ids=False),
            noise=dpb.SimulatedNoise(1_000_000),
            seed=1_000_000,
        )
        rng = np.random.default_rng(1_000_000)
        self.people = [dict(zip(schema.names, row, strict=True)) for row in rng.random((ASKS, columns))]
        self.policy.tell(self.policy.ask(self.people[0]).id, 1.0)

    def time_ask_and_tell(self, columns, arms):
        for person in self.people:
            self.policy.tell(self.policy.ask(person).id, 1.0)

    def peakmem_policy(self, columns, arms):
        self.policy.ask(self.people[0])


class Log:
    """Learning once from a log of 100,000 rows."""

    timeout = 300.0

    def setup(self):
        rng, rows = np.random.default_rng(1_000_000), 100_000
        self.table = {
            "age": rng.integers(18, 91, rows),
            "income": rng.random(rows) * 1e5,
            "offer": rng.choice(["mail", "call"], rows),
            "paid": rng.integers(0, 2, rows),
        }

    def time_learn(self):
        policy = dpb.central.ExploreThenCommit(
            contexts=dpb.Schema(age=dpb.Range(18, 90), income=dpb.Range(0, 1e5)),
            arms=["mail", "call"],
            reward_range=(0, 1),
            horizon=100_000,
            privacy=dpb.JointDP(epsilon=1, delta=1e-6, user_ids=False),
            noise=dpb.SimulatedNoise(1_000_000),
        )
        contexts = {name: self.table[name] for name in ("age", "income")}
        policy.learn(contexts, self.table["offer"], self.table["paid"])
        policy.publish()
