"""Door or locker: is a parcel handed over? Twelve zones with habits of their own, and a jump in weight."""

import numpy as np

ZONES = np.array([f"Z{i:02d}" for i in range(1, 13)])
SHARES = np.array([0.15, 0.13, 0.12, 0.1, 0.09, 0.08, 0.08, 0.07, 0.06, 0.05, 0.04, 0.03])
# chance that somebody is at home, and that the locker is near and has room
HOME = np.array([0.62, 0.86, 0.71, 0.9, 0.66, 0.83, 0.58, 0.88, 0.79, 0.69, 0.91, 0.74])
LOCKER = np.array([0.87, 0.66, 0.84, 0.62, 0.9, 0.79, 0.85, 0.6, 0.82, 0.88, 0.55, 0.8])


def draw(n, rng):
    zone = rng.choice(12, size=n, p=SHARES)
    weight = np.clip(rng.lognormal(0.6, 0.8, n), 0, 30)
    volume = np.clip(
        0.003 * weight * rng.lognormal(1.1, 0.5, n), 0, 0.5
    )  # goes with the weight, adds nothing
    slot = rng.choice(3, size=n, p=[0.4, 0.35, 0.25])
    door = HOME[zone] + np.array([-0.04, -0.07, 0.1])[slot]
    locker = LOCKER[zone] - np.where(weight > 5, 0.24, 0.0) - np.where(slot == 2, 0.03, 0.0)
    means = np.clip(np.stack([door, locker], axis=1), 0.01, 0.99)
    rewards = (rng.random((n, 2)) < means).astype(float)
    frame = {
        "zone": ZONES[zone],
        "weight": weight,
        "volume": volume,
        "slot": np.array(["morning", "afternoon", "evening"])[slot],
    }
    return frame, means, rewards
