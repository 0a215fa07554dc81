"""Which of three sets of exercises: is the next quiz passed? One column, a large effect, smooth."""

import numpy as np

PEAKS = np.array([22.0, 52.0, 84.0])
HEIGHTS = np.array([0.74, 0.78, 0.83])
WIDTHS = np.array([20.0, 18.0, 19.0])


def draw(n, rng):
    score = 100 * rng.beta(1.9, 1.7, n)
    means = 0.07 + HEIGHTS * np.exp(-0.5 * ((score[:, None] - PEAKS) / WIDTHS) ** 2)
    rewards = (rng.random((n, 3)) < means).astype(float)
    return {"score": score}, means, rewards
