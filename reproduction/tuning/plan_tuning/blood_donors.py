"""Two wordings of an invitation to give blood: who comes is plain, which wording is nearly all one."""

import numpy as np

GROUPS = np.array(["0", "A", "B", "AB"])
SEXES = np.array(["f", "m"])


def draw(n, rng):
    age = 18.0 + 54.0 * rng.beta(1.4, 1.7, n)
    donations = np.minimum(np.floor(rng.gamma(0.6, 9.0, n) + (age - 18.0) * 0.08), 60.0)
    group = rng.choice(4, size=n, p=[0.41, 0.43, 0.11, 0.05])
    sex = (rng.random(n) < 0.52).astype(int)
    distance = np.minimum(rng.lognormal(2.0, 0.9, n), 80.0)
    logit = -2.5 + 0.28 * np.log1p(donations) - 0.022 * distance + 0.006 * (age - 44.0)
    shift = 0.05 + 0.035 * np.log1p(donations) - 0.1 * (age < 30) + 0.08 * (group == 0) * (sex == 1)
    thanks = 1.0 / (1.0 + np.exp(-(logit - 0.5 * shift)))
    need = 1.0 / (1.0 + np.exp(-(logit + 0.5 * shift)))
    means = np.stack([thanks, need], axis=1)
    rewards = (rng.random((n, 2)) < means).astype(float)
    frame = {
        "age": age,
        "donations": donations,
        "group": GROUPS[group],
        "sex": SEXES[sex],
        "distance": distance,
    }
    return frame, means, rewards
