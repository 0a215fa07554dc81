"""A charity picks one of two letters for a past giver; the reward is 1 if the giver answers."""

import numpy as np


def law(c):
    months, age, log_gift = c["months_since"], c["age"], c["log_gift"]
    base = 0.35 - 0.10 * np.tanh((months - 14) / 40)
    tilt = np.tanh(0.8 * (age - 56) / 15) * 0.27 + 0.09 * np.tanh((log_gift - 1.45) / 0.6)
    return np.clip(np.stack([base + tilt + 0.01, base - tilt], 1), 0.01, 0.95)


def draw(n, rng):
    gave = np.clip(np.exp(rng.normal(3.3, 0.8, n)), 3, 400)
    log_gift = np.log10(gave)
    months = np.clip(rng.exponential(16.0, n) + 1 - 2 * (log_gift - 1.4), 1, 96)
    age = np.clip(rng.normal(58, 15, n) + 4 * (log_gift - 1.4), 18, 95)
    frame = {"log_gift": log_gift, "months_since": months, "age": age}
    means = law(frame)
    rewards = (rng.random((n, 2)) < means).astype(float)
    return frame, means, rewards
