"""Three settings for four measures that go together; saved percent, mostly a sum of smooth functions."""

import numpy as np


def draw(n, rng):
    common = rng.standard_normal(n)
    outside, floor, use, age = (
        1.0 / (1.0 + np.exp(-(0.7 * common + 0.7 * rng.standard_normal(n)))) for _ in range(4)
    )
    means = np.stack(
        [
            38 + 14 * outside - 8 * use,
            40 - 20 * (outside - 0.5) + 10 * np.sin(3.0 * floor),
            36 + 18 * use * (1.0 - floor) + 4 * age,
        ],
        axis=1,
    )
    frame = {"outside": 50 * outside - 15, "floor": 300 * floor, "use": use, "age": 100 * age}
    return frame, means, np.clip(means + 12.0 * rng.standard_normal((n, 1)), 0.0, 100.0)
