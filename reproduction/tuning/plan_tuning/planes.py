"""Four linear arms."""

import numpy as np

SLOPES = np.array([[0.7, 0.1], [-0.5, 0.4], [0.1, -0.7], [0.0, 0.0]])


def draw(n, rng):
    crowd = np.where(rng.random((n, 1)) < 0.6, rng.beta(2, 9, (n, 2)), rng.random((n, 2)))
    means = np.clip(crowd @ SLOPES.T + np.array([0.05, 0.5, 0.75, 0.45]), 0.02, 0.98)
    return {"first": crowd[:, 0], "second": crowd[:, 1]}, means, (rng.random((n, 1)) < means).astype(float)
