"""Which of six desks fills the first place of a page? Rare clicks, a small effect, the hour comes round."""

import numpy as np

DEVICES = np.array(["phone", "tablet", "desktop"])
SOURCES = np.array(["search", "direct", "social", "mail"])
BASE = np.array([-3.05, -3.2, -3.15, -3.3, -3.25, -3.2])
PEAK = np.array([7.5, 20.5, 12.5, 22.0, 17.0, 9.5])  # hour at which each desk does best
SWING = np.array([0.3, 0.25, 0.2, 0.3, 0.2, 0.3])
AGE = np.array([0.25, -0.3, 0.1, -0.2, 0.0, 0.3])
PHONE = np.array([0.0, 0.12, -0.1, 0.15, 0.05, -0.15])


def draw(n, rng):
    part = rng.choice(3, size=n, p=[0.35, 0.25, 0.4])
    hour = np.array([8.0, 13.0, 20.0])[part] + np.array([1.5, 2.0, 2.3])[part] * rng.standard_normal(n)
    hour = np.mod(hour, 24)
    hour = np.where(hour >= 24, 0.0, hour)
    age = np.clip(rng.normal(44, 17, n), 14, 95)
    device = rng.choice(3, size=n, p=[0.63, 0.09, 0.28])
    source = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1])  # moves all desks alike
    visits = np.clip(rng.lognormal(1.6, 1.1, n), 0, 200)  # last month; moves all desks alike
    turn = np.cos(2 * np.pi * (hour[:, None] - PEAK) / 24)
    level = np.array([-0.05, 0.2, -0.2, 0.25])[source] + 0.12 * (np.log1p(visits) - 1.8)
    logits = (
        BASE
        + level[:, None]
        + SWING * turn
        + AGE * ((age[:, None] - 44) / 17)
        + PHONE * (device[:, None] == 0)
    )
    means = 1 / (1 + np.exp(-logits))
    rewards = (rng.random((n, 6)) < means).astype(float)
    frame = {
        "hour": hour,
        "age": age,
        "device": DEVICES[device],
        "source": SOURCES[source],
        "visits": visits,
    }
    return frame, means, rewards
