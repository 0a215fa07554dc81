"""A railway's works office picks one of four repairs for a reported points fault; the reward is 1 if the
fault does not come back in a month.
"""

import numpy as np

MAKE = np.array(["A", "B", "C", "D", "E"])
MAKEP = np.array([0.34, 0.26, 0.2, 0.13, 0.07])
LINE = np.array(["main", "branch", "yard"])
P = np.array(
    [  # make x repair: grease, adjust, motor, replace
        [0.62, 0.34, 0.40, 0.50],
        [0.30, 0.70, 0.38, 0.48],
        [0.33, 0.36, 0.74, 0.50],
        [0.28, 0.40, 0.44, 0.72],
        [0.66, 0.38, 0.28, 0.45],
    ]
)
L = np.array([[-0.06, 0.02, 0.05, 0.04], [0.02, 0.02, -0.04, 0.00], [0.10, -0.10, -0.03, -0.06]])


def law(c):
    m = np.searchsorted(MAKE, c["make"])
    ln = np.argsort(LINE)[np.searchsorted(np.sort(LINE), c["line"])]
    years = c["years"]
    means = P[m] + L[ln]
    old = 1 / (1 + np.exp(-(years - 18) / 1.8))
    means = means + old[:, None] * np.array([-0.13, -0.15, -0.02, 0.21]) + np.array([0.03, 0.03, 0.0, -0.05])
    return np.clip(means, 0.03, 0.97)


def draw(n, rng):
    m = rng.choice(5, n, p=MAKEP)
    u = rng.random(n)
    py = np.array([0.1, 0.15, 0.2, 0.45, 0.6])[m]
    ln = np.where(u < py, 2, np.where(u < py + (1 - py) * 0.6, 0, 1))
    years = np.clip(rng.weibull(1.5, n) * 14 + 3 * (ln == 2), 0, 45)
    frost = np.clip(rng.normal(6, 7.5, n), -18, 32)
    frame = {"make": MAKE[m], "line": LINE[ln], "years": years, "temperature": frost}
    means = law(frame)
    rewards = (rng.random((n, 4)) < means).astype(float)
    return frame, means, rewards
