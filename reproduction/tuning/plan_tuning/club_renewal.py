"""A sports club asks members to renew: a letter or a call by the coach.

Nearly everybody does what he would have done anyway.
"""

import numpy as np
import pandas as pd


def sig(x):
    return 1 / (1 + np.exp(-x))


def draw(n, rng):
    young = rng.random(n) < 0.4
    age = np.where(young, 8 + 14 * rng.beta(1.6, 1.6, n), 8 + 67 * rng.beta(2.4, 2.4, n))
    years = np.clip((age - 6) * rng.beta(0.9, 2.2, n), 0, 40)
    visits = 200 * rng.beta(1.4, 4.0, n)
    a, y = (age - 8) / 67, years / 40
    common = 0.52 + 0.22 * np.tanh(2.2 * y) + 0.06 * a
    lift = 0.045 - 0.17 * sig(6 * (a - 0.52)) + 0.07 * np.exp(-3 * y)
    means = np.clip(np.stack([common - lift / 2, common + lift / 2], 1), 0, 1)
    rewards = (rng.random(means.shape) < means).astype(float)
    return pd.DataFrame({"age": age, "years": years, "visits": visits}), means, rewards
