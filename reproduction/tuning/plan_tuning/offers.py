"""Calls please the old, mail those who visit often; the west is left cold."""

import numpy as np


def draw(n, rng):
    age, visits = 18 + 72 * rng.beta(2, 3, n), np.minimum(20, rng.poisson(4.0, n))
    region = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    cold = np.where(region == 2, 0.5, 1.0)
    call = 0.05 + 0.4 * cold / (1.0 + np.exp(-(age - 50) / 6.0))
    mail = 0.1 + 0.25 * cold * np.minimum(1.0, visits / 8.0)
    means = np.stack([mail, call, np.full(n, 0.1)], axis=1)
    frame = {"age": age, "region": np.array(["north", "south", "west"])[region], "visits": visits}
    return frame, means, (rng.random((n, 1)) < means).astype(float)
