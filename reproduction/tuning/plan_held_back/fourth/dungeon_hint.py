"""A puzzle game offers a stuck player one of six helps; the reward is 1 if the player still plays ten
minutes later.
"""

import numpy as np

CENTRE = np.array([0.08, 0.24, 0.40, 0.55, 0.72, 0.90])
ORDER = np.array([3, 0, 4, 1, 5, 2])


def law(c):
    level, tries = c["level"], c["tries"]
    n = len(level)
    x = (level - 1) / 119
    means = np.empty((n, 6))
    for k in range(6):
        at = CENTRE[ORDER[k]]
        means[:, k] = 0.30 + 0.45 * np.exp(-0.5 * ((x - at) / 0.085) ** 2)
    means -= 0.12 * np.tanh((tries - 6) / 5)[:, None]
    means[:, 5] += 0.05
    return np.clip(means, 0.02, 0.98)


def draw(n, rng):
    level = np.clip(np.floor(120 * rng.beta(1.1, 1.7, n)) + 1, 1, 120)
    tries = np.clip(1 + rng.negative_binomial(2, 0.25, n) + np.floor(level / 40), 1, 40).astype(float)
    device = (rng.random(n) < 0.7).astype(int)
    frame = {"level": level, "tries": tries, "device": np.array(["desktop", "phone"])[device]}
    means = law(frame)
    rewards = (rng.random((n, 6)) < means).astype(float)
    return frame, means, rewards
