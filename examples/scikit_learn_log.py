"""
A log with scikit-learn's calls
===============================

`fit` learns from a log and releases once; `predict` answers from the release, for anyone, for ever. The
promise is for one release: fitting a clone, as cross-validation does, needs a ledger whose account pays for
each.
"""

import numpy as np
from sklearn.base import clone

import dpbandits as dpb
from dpbandits.adapters.sklearn import LoggedPolicy

people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
rng = np.random.default_rng(0)
n = 20_000
X = {"age": rng.integers(18, 91, n), "region": rng.choice(["north", "south", "west"], n)}
given = rng.choice(["mail", "call"], n)  # drawn evenly; else pass propensities=
bought = rng.random(n) < np.where((given == "call") == (X["age"] > 55), 0.8, 0.2)

estimator = LoggedPolicy(
    contexts=people, arms=["mail", "call"], horizon=n, privacy=dpb.JointDP(epsilon=1, delta=1e-6)
)
estimator.fit(X, bought, arms=given, users=np.arange(n))
newcomers = {"age": [22, 80], "region": ["west", "north"]}
print(estimator.predict(newcomers), estimator.decision_function(newcomers).round(2))

try:
    clone(estimator).fit(X, bought, arms=given, users=np.arange(n))
except dpb.errors.BudgetExceeded as refused:
    print(refused)
