"""Six lists of songs for people of two kinds of groups: a table of means."""

import numpy as np

MOODS = np.array([
    [0.62, 0.35, 0.30, 0.25, 0.20, 0.30],
    [0.30, 0.60, 0.35, 0.20, 0.25, 0.30],
    [0.25, 0.30, 0.55, 0.50, 0.20, 0.30],
    [0.20, 0.20, 0.30, 0.60, 0.35, 0.30],
    [0.30, 0.25, 0.20, 0.30, 0.55, 0.30],
])  # fmt: skip
AGES = np.array([0.05, 0.0, -0.05, 0.0])


def draw(n, rng):
    mood, age = rng.choice(5, size=n, p=[0.3, 0.25, 0.2, 0.15, 0.1]), rng.integers(4, size=n)
    means = MOODS[mood] + AGES[age][:, None]
    frame = {
        "mood": np.array(["calm", "glad", "sad", "busy", "tired"])[mood],
        "age": np.array(["-25", "25-40", "40-60", "60-"])[age],
    }
    return frame, means, (rng.random((n, 1)) < means).astype(float)
