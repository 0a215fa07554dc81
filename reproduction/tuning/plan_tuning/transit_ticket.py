"""A transport authority offers one of five tickets at the machine.

Fares jump at zone borders and peak hours, so what is bought jumps too.
"""

import numpy as np
import pandas as pd

TOWN = ["centre", "north bank", "harbour", "suburb"]
LAW = np.array([0.35, 0.25, 0.15, 0.25])
EDGES = np.array([6.0, 15.0, 31.0])  # zone borders in km
# rows: zone of distance; columns: single, day, week, month, none
BY_ZONE = np.array(
    [
        [0.42, 0.20, 0.14, 0.20, 0.22],
        [0.30, 0.40, 0.20, 0.26, 0.20],
        [0.16, 0.30, 0.36, 0.34, 0.20],
        [0.12, 0.30, 0.22, 0.46, 0.16],
    ]
)
PEAK = np.array([-0.06, -0.15, 0.09, 0.16, 0.0])
OFTEN = np.array([-0.07, -0.12, 0.10, 0.14, -0.02])


def draw(n, rng):
    town = rng.choice(len(TOWN), size=n, p=LAW)
    distance = 50 * rng.beta(np.array([1.0, 1.4, 1.5, 2.2])[town], 2.6)
    early = rng.random(n) < 0.45
    hour = np.where(early, np.clip(rng.normal(7.8, 1.2, n), 5, 24), 5 + 19 * rng.beta(2.2, 2.0, n))
    trips = 14 * rng.beta(1.2, 1.4, n)
    zone = np.searchsorted(EDGES, distance)
    peak = ((hour >= 6.5) & (hour < 9.0)) | ((hour >= 16.0) & (hour < 18.5))
    often = trips >= 7
    means = (
        BY_ZONE[zone] + np.where(peak[:, None], PEAK, -PEAK * 0.6) + np.where(often[:, None], OFTEN, -OFTEN)
    )
    means = means + (town == 2)[:, None] * np.array([0.0, 0.06, 0.0, -0.05, 0.0])
    means = np.clip(means, 0.02, 0.95)
    rewards = (rng.random(means.shape) < means).astype(float)
    return (
        pd.DataFrame({"distance": distance, "hour": hour, "trips": trips, "town": np.array(TOWN)[town]}),
        means,
        rewards,
    )
