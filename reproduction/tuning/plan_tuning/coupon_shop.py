"""Offers to customers who have not bought for three months: does one buy now? Gentle logistic effects."""

import numpy as np

SEGMENTS = np.array(["families", "singles", "seniors", "students"])
SHARES = np.array([0.34, 0.29, 0.19, 0.18])
MEAN_AGE = np.array([41.0, 35.0, 68.0, 23.0])
LOYAL = np.array([0.25, -0.1, 0.3, -0.45])


def draw(n, rng):
    segment = rng.choice(4, size=n, p=SHARES)
    age = np.clip(MEAN_AGE[segment] + rng.normal(0, 8, n), 18, 90)
    spend = np.clip(rng.lognormal(4.6, 0.9, n), 0, 1000)
    tenure = np.clip(rng.exponential(30, n), 0, 120)
    newsletter = rng.random(n) < 0.45
    weekday = rng.integers(0, 7, n)  # of the last order; says nothing
    old = (age - 45) / 25
    money = np.log1p(spend) - 4.6
    stay = np.sqrt(tenure) / 5 - 1
    base = -2.3 + LOYAL[segment] + 0.35 * money + 0.3 * stay
    nothing = base
    five = base + 0.55 - 0.5 * money - 0.15 * old
    ten = base + 0.15 + 0.75 * (segment == 3) + 0.45 * (segment == 1) - 0.55 * stay
    shipping = base + 0.2 + 0.6 * old + 0.35 * money
    means = 1 / (1 + np.exp(-np.stack([nothing, five, ten, shipping], axis=1)))
    rewards = (rng.random((n, 4)) < means).astype(float)
    days = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
    frame = {
        "age": age,
        "spend": spend,
        "tenure": tenure,
        "segment": SEGMENTS[segment],
        "newsletter": np.where(newsletter, "yes", "no"),
        "weekday": days[weekday],
    }
    return frame, means, rewards
