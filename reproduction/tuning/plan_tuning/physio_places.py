"""Physiotherapy on machines, on a mat or in a pool: points won of ten; the pool is best for most people."""

import numpy as np

SEXES = np.array(["f", "m"])
OPERATED = np.array(["no", "knee", "hip", "back"])


def draw(n, rng):
    age = np.clip(rng.normal(58, 15, n), 20, 90)
    bmi = np.clip(rng.normal(27.5, 4.8, n) + 0.02 * (age - 58), 16, 48)
    pain = np.clip(np.round(rng.normal(5.6, 2.0, n)), 0, 10)
    weeks = np.minimum(rng.lognormal(2.6, 1.0, n), 104.0)
    sex = (rng.random(n) < 0.41).astype(int)
    operated = rng.choice(4, size=n, p=[0.56, 0.2, 0.15, 0.09])
    start = 4.6 + 0.18 * (pain - 5.6) - 0.35 * np.log1p(weeks) / 2.7 - 0.015 * (age - 58)
    machines = start - 0.035 * (age - 58) - 0.02 * (bmi - 27.5) + np.array([0.3, 0.5, -0.4, -0.5])[operated]
    mat = start - 0.03 * (bmi - 27.5) - 0.15 * (pain - 5.6) + np.array([0.1, -0.5, -0.1, 0.5])[operated]
    pool = start + 1.2 + 0.01 * (age - 58) + 0.04 * (bmi - 27.5) + np.array([0.0, 0.2, 0.3, -0.2])[operated]
    means = np.clip(np.stack([machines, mat, pool], axis=1), 0.2, 9.8)
    rewards = rng.binomial(10, means / 10.0).astype(float)
    frame = {
        "age": age,
        "bmi": bmi,
        "pain": pain,
        "weeks": weeks,
        "sex": SEXES[sex],
        "operated": OPERATED[operated],
    }
    return frame, means, rewards
