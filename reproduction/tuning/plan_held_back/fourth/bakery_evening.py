"""A bakery chain decides every afternoon at every stall which batch goes last into the oven; the reward is
the evening's margin in euros.
"""

import numpy as np

DAYS = np.array(["mon", "tue", "wed", "thu", "fri", "sat"])
DAYP = np.array([0.15, 0.15, 0.16, 0.16, 0.19, 0.19])
SITE = np.array(["station", "highstreet", "suburb"])
SITEP = np.array([0.35, 0.4, 0.25])
# margin by site for rye, rolls, pastry, pizza
TABLE = np.array([[14.0, 25.0, 27.0, 29.0], [20.0, 21.0, 28.0, 22.0], [27.0, 25.0, 20.0, 17.0]])
DAYADD = np.array(
    [
        [2.0, 0.0, -1.0, -3.0],
        [2.0, 0.0, -1.0, -2.0],
        [1.0, 0.0, 0.0, -1.0],
        [0.0, 0.0, 0.0, 1.0],
        [-2.0, 1.0, 1.0, 6.0],
        [1.0, 4.0, 3.0, 0.0],
    ]
)


def law(c):
    s = np.searchsorted(np.sort(SITE), c["site"])
    s = np.argsort(SITE)[s]
    d = np.argsort(DAYS)[np.searchsorted(np.sort(DAYS), c["day"])]
    temp, sold = c["temperature"], c["sold_by_noon"]
    m = TABLE[s] + DAYADD[d]
    warm = 1 / (1 + np.exp(-(temp - 16) / 4.5))
    m = m + np.stack([6 - 11 * warm, -1 + 3 * warm, 7 - 16 * warm, -5 + 12 * warm], 1)
    busy = np.log(sold / 150.0)
    m = m + np.stack([-3 * busy, 6 * busy, 2 * busy, 5 * busy], 1)
    return np.clip(m, 3, 55)


def draw(n, rng):
    d = rng.choice(6, n, p=DAYP)
    s = rng.choice(3, n, p=SITEP)
    season = rng.random(n)
    temp = np.clip(11 - 9 * np.cos(2 * np.pi * season) + rng.normal(0, 4.5, n), -8, 36)
    sold = np.clip(rng.gamma(6.0, 28.0, n) * np.array([1.25, 1.0, 0.7])[s], 10, 600)
    staff = np.clip(np.round(1 + sold / 120 + rng.normal(0, 0.6, n)), 1, 6)
    frame = {"day": DAYS[d], "site": SITE[s], "temperature": temp, "sold_by_noon": sold, "staff": staff}
    means = law(frame)
    # a beta variable on [0, 60] with the wished mean
    k = 18.0
    rewards = 60 * rng.beta(k * means / 60, k * (1 - means / 60))
    return frame, means, rewards
