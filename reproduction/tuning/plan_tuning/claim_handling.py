"""A motor insurer settles a claim in one of four ways: is the client content?

The right way depends much on the damage and on the car's age.
"""

import numpy as np
import pandas as pd

REGION = ["city", "country", "coast"]


def sig(x):
    return 1 / (1 + np.exp(-x))


def draw(n, rng):
    region = rng.choice(3, size=n, p=[0.5, 0.35, 0.15])
    damage = 10_000 * rng.beta(1.1, 1.9, n)
    car = 20 * rng.beta(1.4, 1.6, n)
    driver = 18 + 67 * rng.beta(2, 2.5, n)
    d, c = damage / 10_000, car / 20
    cheap, dear = sig(14 * (0.25 - d)), sig(14 * (d - 0.5))
    old = sig(12 * (c - 0.55))
    middle = (1 - cheap) * (1 - dear)
    means = np.stack(
        [
            0.05 + 0.86 * (1 - old) * (1 - cheap) * (1 - 0.85 * dear),  # partner garage
            0.06 + 0.84 * old * (1 - 0.75 * dear),  # money at once
            0.08 + 0.84 * dear * (1 - 0.25 * old),  # expert on site
            0.08 + 0.82 * cheap * (1 - 0.6 * old) + 0.12 * middle,  # photographs by telephone
        ],
        1,
    )
    means = (
        means
        + np.array([[0.03, -0.03, 0.0, 0.04], [0.0, 0.04, -0.05, -0.04], [-0.05, 0.02, 0.04, 0.0]])[region]
    )
    means = np.clip(means, 0.01, 0.98)
    rewards = (rng.random(means.shape) < means).astype(float)
    return (
        pd.DataFrame(
            {"damage": damage, "car_age": car, "driver_age": driver, "region": np.array(REGION)[region]}
        ),
        means,
        rewards,
    )
