"""Which of five screens a laboratory sets a new protein up in.

Paid: a crystal within a month. Most give none.
"""

import numpy as np


def draw(n, rng):
    basic = rng.random(n) < 0.32
    pi = np.clip(np.where(basic, rng.normal(8.9, 0.7, n), rng.normal(5.6, 0.8, n)), 3.0, 12.0)
    kda = np.clip(np.exp(rng.normal(3.5, 0.6, n)), 5.0, 200.0)
    kind = rng.choice(4, size=n, p=[0.56, 0.25, 0.12, 0.07])
    ease = np.where(kda < 25.0, 1.25, np.where(kda < 60.0, 1.0, 0.6)) * np.array([1.0, 0.9, 0.8, 0.5])[kind]
    acid = 0.07 + 0.24 * np.exp(-(((pi - 8.8) / 1.0) ** 2))
    neutral = 0.12 + 0.11 * np.exp(-(((pi - 5.8) / 0.9) ** 2))
    sulfate = np.where(kda < 22.0, 0.31, 0.11)
    mpd = np.where(kind == 3, 0.50, 0.05)
    dna = np.where(kind == 2, 0.36, 0.06)
    means = ease[:, None] * np.stack([acid, neutral, sulfate, mpd, dna], axis=1)
    frame = {"pi": pi, "kda": kda, "kind": np.array(["soluble", "secreted", "dna_binding", "membrane"])[kind]}
    return frame, means, (rng.random((n, 1)) < means).astype(float)
