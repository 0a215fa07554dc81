"""A seed cooperative proposes one of six wheat varieties for a plot: tonnes per hectare.

Six columns, of which two say nothing.
"""

import numpy as np
import pandas as pd

SOIL = ["chalk", "clay", "loam", "sand"]
BEFORE = ["beet", "cereal", "fallow", "legume", "rape"]
# optimum of rain (share of range), of acidity, of altitude; width; level
OPT = np.array(
    [
        [0.20, 0.70, 0.30],
        [0.75, 0.35, 0.20],
        [0.45, 0.50, 0.75],
        [0.55, 0.85, 0.45],
        [0.85, 0.60, 0.65],
        [0.35, 0.20, 0.25],
    ]
)
WIDTH = np.array([0.40, 0.36, 0.42, 0.38, 0.36, 0.40])
LEVEL = np.array([0.00, 0.95, -0.05, 0.10, 0.15, 0.20])
ON_SOIL = np.array(
    [  # arms by soil
        [0.5, -0.3, 0.0, 0.4],
        [-0.2, 0.5, 0.2, -0.5],
        [0.0, 0.1, 0.3, -0.1],
        [0.4, 0.0, 0.1, -0.4],
        [-0.4, 0.3, 0.2, -0.1],
        [-0.2, -0.1, 0.1, 0.6],
    ]
)
GOOD = np.array([0.0, 0.2, 0.5, -0.6])


def draw(n, rng):
    soil = rng.choice(4, size=n, p=[0.2, 0.3, 0.3, 0.2])
    before = rng.choice(5, size=n, p=[0.2, 0.35, 0.1, 0.15, 0.2])
    altitude = 1_200 * rng.beta(1.3, 2.2, n)
    rain = 350 + 750 * np.clip(rng.beta(2.2, 2.4, n) + 0.25 * (altitude / 1_200 - 0.35), 0, 1)
    ph = 4.5 + 4 * np.clip(rng.beta(2.4, 2.4, n) + np.array([0.14, 0.0, 0.0, -0.12])[soil], 0, 1)
    nitrogen = 250 * rng.beta(2.5, 2.5, n)
    x = np.stack([(rain - 350) / 750, (ph - 4.5) / 4, altitude / 1_200], 1)
    away = (((x[:, None, :] - OPT[None]) / WIDTH[None, :, None]) ** 2).sum(2)
    means = 3.1 + LEVEL + 3.9 * np.exp(-0.5 * away) + 0.7 * ON_SOIL.T[soil] + GOOD[soil][:, None]
    means = np.clip(means, 0.8, 11)
    m = means / 12
    size = m * (1 - m) / (1.25 / 12) ** 2 - 1
    rewards = 12 * rng.beta(m * size, (1 - m) * size)
    frame = {
        "rain": rain,
        "ph": ph,
        "altitude": altitude,
        "nitrogen": nitrogen,
        "soil": np.array(SOIL)[soil],
        "before": np.array(BEFORE)[before],
    }
    return pd.DataFrame(frame), means, rewards
