"""A library reminds of books that are due: which of three reminders brings them back in time?

One column, and habits along it change fast.
"""

import numpy as np
import pandas as pd

LENGTH = 0.13
FIXED = np.random.default_rng(41_907)
FREQ = FIXED.normal(size=(3, 160)) / LENGTH
PHASE = FIXED.uniform(0, 2 * np.pi, (3, 160))
GRID = np.linspace(0, 1, 801)


def _raw(x):
    return np.stack([np.sqrt(2 / 160) * np.cos(np.outer(x, FREQ[k]) + PHASE[k]).sum(1) for k in range(3)], 1)


LEVEL = _raw(GRID).mean(0)
SPREAD = _raw(GRID).std(0)


def draw(n, rng):
    loans = np.where(rng.random(n) < 0.7, 120 * rng.beta(1.2, 2.2, n), 120 * rng.random(n))
    x = loans / 120
    z = (_raw(x) - LEVEL) / SPREAD
    means = np.clip(0.37 + np.array([0.0, -0.07, 0.07]) + 0.145 * z, 0.02, 0.98)
    rewards = (rng.random(means.shape) < means).astype(float)
    return pd.DataFrame({"loans": loans}), means, rewards
