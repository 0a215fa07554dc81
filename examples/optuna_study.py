"""
An Optuna study that is private
===============================

Every trial is one person. The sampler asks a private policy, and tells it what came; contexts stay out of the
study. The study itself holds raw rewards as long as it lives: what may be shown is what `publish` gives.
"""

import numpy as np
import optuna

import dpbandits as dpb
from dpbandits.adapters.optuna import PolicySampler

people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
offers = ["mail", "call", "nothing"]
promise = dpb.JointDP(epsilon=2, delta=1e-6)
policy = dpb.central.GPBandit(contexts=people, arms=offers, reward_range=(0, 1), horizon=400, privacy=promise)

optuna.logging.set_verbosity(optuna.logging.ERROR)  # its log would print raw rewards
sampler = PolicySampler(policy)
study = optuna.create_study(sampler=sampler, direction="maximize")
rng = np.random.default_rng(0)


def objective(trial):
    person = {"age": int(rng.integers(18, 91)), "region": str(rng.choice(["north", "south", "west"]))}
    sampler.meet(trial, person, user=f"u-{trial.number}")
    offer = trial.suggest_categorical("offer", offers)
    return float(rng.random() < (0.7 if offer == ("call" if person["age"] > 55 else "mail") else 0.2))


study.optimize(objective, n_trials=400)
print(policy.diagnostics()["rounds_asked"], "people;", policy.publish().guarantee.epsilon)
