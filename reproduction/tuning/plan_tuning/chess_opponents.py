"""The first computer opponent of a newcomer to a chess site: the near-equal one is liked best."""

import numpy as np

STRENGTH = np.array([600.0, 950.0, 1300.0, 1700.0, 2150.0])


def draw(n, rng):
    rating = np.clip(
        np.where(rng.random(n) < 0.6, rng.normal(900, 260, n), rng.normal(1500, 330, n)), 400, 2400
    )
    gap = (rating[:, None] - STRENGTH[None, :] - 40.0) / np.array([230.0, 240.0, 260.0, 280.0, 320.0])
    close = np.exp(-0.5 * gap**2)
    bored = 0.06 / (1.0 + np.exp(-gap))  # winning is nicer than losing
    means = np.clip(0.2 + bored + 0.46 * close, 0.02, 0.98)
    rewards = (rng.random((n, 5)) < means).astype(float)
    return {"rating": rating}, means, rewards
