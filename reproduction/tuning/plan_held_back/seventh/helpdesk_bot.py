"""Whether a bot or the queue of people answers a message to a computer helpdesk.

Paid: solved within the hour.
"""

import numpy as np


def draw(n, rng):
    words = np.clip(np.exp(rng.normal(3.4, 0.75, n)), 2.0, 300.0)
    bot = 0.12 + 0.74 / (1.0 + (words / 38.0) ** 2.2)
    people = 0.58 - 0.10 * np.minimum(words, 150.0) / 150.0
    means = np.stack([bot, people], axis=1)
    return {"words": words}, means, (rng.random((n, 1)) < means).astype(float)
