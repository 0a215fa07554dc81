"""The first exercise of the day in a language app: level and mother tongue interact; people are skewed."""

import numpy as np

NATIVES = np.array(["germanic", "romance", "slavic", "asian", "other"])
DEVICES = np.array(["phone", "desktop"])
TURN = np.array([25.0, 35.0, 40.0, 60.0, 45.0])  # the level from which talking beats cards
EAR = np.array([-0.04, 0.16, 0.06, -0.14, 0.0])


def draw(n, rng):
    level = 100.0 * rng.beta(1.1, 2.6, n)
    minutes = np.minimum(rng.exponential(11.0, n), 60.0)
    native = rng.choice(5, size=n, p=[0.16, 0.31, 0.14, 0.29, 0.1])
    device = (rng.random(n) < 0.22).astype(int)
    start = 0.42 + 0.12 * np.log1p(minutes) / np.log(61.0)
    over = np.tanh((level - TURN[native]) / 12.0)
    cards = start - 0.15 * over
    dialogue = start + 0.16 * over + 0.03 * (minutes > 15)
    listening = start + EAR[native] * (1.0 - 0.008 * np.abs(level - 30.0)) + 0.02 * (minutes < 5)
    means = np.clip(np.stack([cards, dialogue, listening], axis=1), 0.03, 0.97)
    rewards = (rng.random((n, 3)) < means).astype(float)
    frame = {"level": level, "minutes": minutes, "native": NATIVES[native], "device": DEVICES[device]}
    return frame, means, rewards
