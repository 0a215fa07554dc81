"""Three arms that take turns along a slanted line."""

import numpy as np


def draw(n, rng):
    x = rng.random((n, 2))
    phase = 5.0 * (0.8 * x[:, 0] - 0.6 * x[:, 1])[:, None] + np.array([0.0, 2.0, 4.0])
    means = 0.5 + 0.38 * np.sin(phase)
    return {"first": x[:, 0], "second": x[:, 1]}, means, (rng.random((n, 1)) < means).astype(float)
