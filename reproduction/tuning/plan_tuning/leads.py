"""Six columns and rare sales: three in a hundred buy, five of those who get the right call."""

import numpy as np


def draw(n, rng):
    income, age = rng.beta(2, 5, n), rng.beta(2, 2, n)
    kind, city = rng.choice(4, size=n, p=[0.4, 0.3, 0.2, 0.1]), rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    phone = 0.02 + 0.05 * (age > 0.45)
    visit = 0.015 + 0.09 * income + 0.02 * (kind == 1)
    letter = np.full(n, 0.02)
    means = np.stack([phone, visit, letter], axis=1)
    frame = {
        "income": 150_000 * income,
        "age": 18 + 72 * age,
        "kind": np.array(["new", "old", "lapsed", "trade"])[kind],
        "city": np.array(["large", "small", "none"])[city],
        "orders": np.minimum(40, rng.poisson(3.0, n)),
        "channel": np.array(["web", "shop"])[rng.integers(2, size=n)],
    }
    return frame, means, (rng.random((n, 1)) < means).astype(float)
