"""Which treatment a beekeepers' service advises against mites in late summer.

Paid: the colony lives in spring.
"""

import numpy as np


def draw(n, rng):
    mites = np.minimum(20.0, rng.gamma(1.8, 2.4, n))
    strength = np.clip(rng.normal(24.0, 8.0, n), 5.0, 50.0)
    altitude = 1800.0 * rng.beta(1.3, 2.6, n)
    hive = rng.choice(3, size=n, p=[0.46, 0.41, 0.13])
    warm = 1.0 / (1.0 + np.exp((altitude - 600.0) / 120.0))
    load = np.minimum(mites, 12.0) / 12.0
    bare = 1.9 - 3.6 * load + 0.04 * (strength - 24.0) - 0.0003 * altitude
    weak = 1.0 / (1.0 + np.exp((strength - 20.0) / 2.5))
    formic = bare + 3.8 * load * (0.4 + 0.6 * warm) - 1.7 * weak
    oxalic = bare + 2.9 * load * (1.0 - 0.75 * warm) + 0.1
    thymol = bare + 2.4 * load * warm + 0.15 - 0.4 * (1.0 - warm)
    brood = bare + 0.9 * load + 0.55 * np.clip((strength - 20.0) / 12.0, -0.5, 1.2)
    means = 1.0 / (1.0 + np.exp(-np.stack([formic, oxalic, thymol, brood], axis=1)))
    frame = {
        "mites": mites,
        "strength": strength,
        "altitude": altitude,
        "hive": np.array(["Dadant", "Langstroth", "Warre"])[hive],
    }
    return frame, means, (rng.random((n, 1)) < means).astype(float)
