"""Two treatments that cross over along one measure; a score from 0 to 10."""

import numpy as np


def draw(n, rng):
    marker = 100.0 * rng.beta(3, 4, n)
    high = 3.0 + 4.0 / (1.0 + np.exp(-(marker - 48) / 7.0))
    means = np.stack([np.full(n, 4.6), high], axis=1)
    return {"marker": marker}, means, np.clip(means + 2.0 * rng.standard_normal((n, 1)), 0.0, 10.0)
