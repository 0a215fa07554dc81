"""Four tariffs for five columns, of which two matter, in steps."""

import numpy as np

LEAVES = np.array(
    [[0.5, 0.2, 0.25, 0.2], [0.2, 0.55, 0.25, 0.2], [0.2, 0.3, 0.6, 0.3], [0.15, 0.2, 0.25, 0.45]]
)


def draw(n, rng):
    use, size = (
        np.minimum(5_000, rng.gamma(2.0, 700.0, n)),
        rng.choice(5, size=n, p=[0.4, 0.3, 0.15, 0.1, 0.05]),
    )
    leaf = np.where(use > 1_600, 2, 0) + (size >= 1)
    means = LEAVES[leaf]
    frame = {
        "use": use,
        "household": size + 1,
        "age": rng.uniform(18, 95, n),
        "house": np.array(["flat", "terraced", "detached"])[rng.choice(3, size=n, p=[0.5, 0.3, 0.2])],
        "years": np.minimum(30, rng.exponential(6.0, n)),
    }
    return frame, means, (rng.random((n, 1)) < means).astype(float)
