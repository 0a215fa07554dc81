"""The new page is better for most, the old one for those who came often."""

import numpy as np


def draw(n, rng):
    visits, basket = np.minimum(50, rng.exponential(8.0, n)), rng.beta(2, 4, n)
    old = 0.12 + 0.2 * (visits > 18)
    new = 0.2 + 0.1 * basket
    means = np.stack([old, new], axis=1)
    return {"visits": visits, "basket": 200 * basket}, means, (rng.random((n, 1)) < means).astype(float)
