"""A dairy farm chooses one of three feeds for a cow for a month; the reward is the change of milk yield in
litres a day.
"""

import numpy as np


def law(c):
    dim, yld = c["days_in_milk"], c["yield"]
    early = 1 / (1 + np.exp((dim - 120) / 45))
    hi = 1 / (1 + np.exp(-(yld - 27) / 5.0))
    means = np.stack(
        [
            -0.4 + 0.5 * early - 0.3 * hi,  # maize
            -1.8 + 2.6 * early * hi + 1.6 * hi,  # protein
            -0.9 + 1.5 * (1 - early) * (1 - hi) + 0.3 * early,  # hay
        ],
        1,
    )
    return np.clip(2.6 * means + 1.2, -4, 4)


def draw(n, rng):
    lact = np.clip(rng.geometric(0.38, n), 1, 8).astype(float)
    dim = np.clip(rng.gamma(2.6, 62.0, n), 5, 400)
    yld = np.clip(
        17
        + 6 * np.sqrt(np.minimum(lact, 4)) * (dim / 60) ** 0.15 * np.exp(-dim / 420)
        + rng.normal(0, 3.5, n),
        6,
        55,
    )
    weight = np.clip(560 + 28 * np.minimum(lact, 4) + rng.normal(0, 45, n), 420, 860)
    frame = {"lactation": lact, "days_in_milk": dim, "yield": yld, "weight": weight}
    means = law(frame)
    rewards = np.clip(means + np.clip(rng.normal(0, 1.2, (n, 3)), -2, 2), -6, 6)
    return frame, means, rewards
