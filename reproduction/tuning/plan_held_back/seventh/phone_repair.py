"""What a repair shop proposes for a phone brought in.

Paid: the profit in euros, nothing where the customer declines.
"""

import numpy as np


def draw(n, rng):
    months = np.clip(rng.gamma(3.2, 10.0, n), 1.0, 96.0)
    damage = rng.choice(4, size=n, p=[0.44, 0.31, 0.16, 0.09])  # screen, battery, water, board
    brand = rng.choice(4, size=n, p=[0.37, 0.35, 0.18, 0.10])
    dear = np.array([1.0, 0.8, 0.55, 0.6])[brand]
    newer = np.exp(-months / 40.0)
    repair_yes = np.array([0.85, 0.55, 0.30, 0.35])[damage] * (0.25 + 0.75 * newer)
    repair_pays = 30.0 + 55.0 * dear
    battery_yes = np.array([0.16, 0.86, 0.12, 0.06])[damage] * (0.9 - 0.35 * np.minimum(months, 72.0) / 72.0)
    battery_pays = np.full(n, 38.0)
    trade_yes = np.array([0.40, 0.36, 0.62, 0.68])[damage] * np.minimum(1.0, 0.25 + months / 48.0)
    trade_pays = 25.0 + 45.0 * dear
    says = np.stack([repair_yes, battery_yes, trade_yes], axis=1)
    pays = np.stack([repair_pays, battery_pays, trade_pays], axis=1)
    frame = {
        "months": months,
        "damage": np.array(["screen", "battery", "water", "board"])[damage],
        "brand": np.array(["A", "B", "C", "other"])[brand],
    }
    return frame, says * pays, (rng.random((n, 1)) < says) * pays
