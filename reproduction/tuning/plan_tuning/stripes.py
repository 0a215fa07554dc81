"""Three narrow tents along the second column."""

import numpy as np


def draw(n, rng):
    x = rng.random((n, 2))
    away = np.abs(x[:, 1:2] - np.array([0.15, 0.45, 0.8]))
    means = 0.05 + 0.9 * np.clip(1.0 - away / 0.3, 0.0, 1.0)
    return {"first": x[:, 0], "second": x[:, 1]}, means, (rng.random((n, 1)) < means).astype(float)
