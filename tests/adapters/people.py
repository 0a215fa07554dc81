"""A few people, arms and policies that the adapters' tests share."""

import numpy as np

import dpbandits as dpb
from tuning import placed

PEOPLE = dpb.Schema(age=dpb.Range(0, 100), region=dpb.Categories([0, 1]))
ARMS = ["mail", "call", "none"]
SHARED = {"contexts": PEOPLE, "arms": ARMS, "reward_range": (0, 1)}
PROMISE = {"privacy": dpb.JointDP(epsilon=4, delta=1e-5, user_ids=False)}


def block(**changes):
    arguments = {
        **SHARED,
        **PROMISE,
        "horizon": 300,
        "noise": dpb.SimulatedNoise(1),
        "tuning": dpb.central.GPTuning(blocks=(20, 60)),
    }
    return dpb.central.GPBandit(**placed(arguments | changes))


def contexts(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, 101, n), rng.integers(0, 2, n)]).astype(np.float64)


def paid(people, labels, seed=0):
    """1 mostly where the old are called and the young are written to."""
    luck = np.random.default_rng(seed).random(len(people))
    best = np.where(people[:, 0] > 50, "call", "mail")
    return (luck < 0.1 + 0.8 * (np.array(labels) == best)).astype(np.float64)


def young_and_old(horizon):
    """A world whose right arm is to call the old and to write to the young."""
    people = contexts(horizon)
    return dpb.lab.worlds.TableBandit.from_labels(
        dict(zip(PEOPLE.names, people.T, strict=True)),
        schema=PEOPLE,
        labels=(people[:, 0] > 50).astype(int),
        arms=["mail", "call"],
        seed=0,
    )
