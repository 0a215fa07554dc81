"""What a quitline offers a caller; paid: smoke-free after half a year. Four ways that help nearly alike."""

import numpy as np


def draw(n, rng):
    cigarettes = np.clip(rng.gamma(3.0, 5.5, n), 1.0, 60.0)
    age = np.clip(18.0 + rng.gamma(3.4, 7.5, n), 18.0, 85.0)
    tries = np.minimum(10, rng.poisson(2.0, n)).astype(float)
    district = rng.choice(5, size=n, p=[0.3, 0.25, 0.2, 0.15, 0.1])
    alone = rng.random(n) < 0.31
    heavy = 1.0 / (1.0 + np.exp(-(cigarettes - 17.0) / 4.0))
    young = 1.0 / (1.0 + np.exp((age - 36.0) / 5.0))
    bare = -1.5 - 0.9 * heavy + 0.05 * np.minimum(tries, 5.0) - 0.2 * alone
    texts = bare + 0.75 * young - 0.25 * heavy
    patches = bare + 0.15 + 0.55 * heavy
    group = bare + 0.1 + 0.65 * alone - 0.5 * young
    pills = bare + 0.2 + 0.9 * heavy * (1.0 - 0.4 * young) - 0.25 * young
    means = 1.0 / (1.0 + np.exp(-np.stack([texts, patches, group, pills], axis=1)))
    frame = {
        "cigarettes": cigarettes,
        "age": age,
        "tries": tries,
        "district": np.array(["north", "east", "south", "west", "centre"])[district],
        "alone": np.where(alone, "yes", "no"),
    }
    return frame, means, (rng.random((n, 1)) < means).astype(float)
