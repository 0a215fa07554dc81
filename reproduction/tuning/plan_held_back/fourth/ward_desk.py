"""A hospital's admission desk sends an urgent patient to one of five places; the reward is 1 if no second
transfer within a day is needed.
"""

import numpy as np

SEX = np.array(["f", "m"])
ROUTE = np.array(["ambulance", "walk_in", "referral"])


def law(c):
    age, s = c["age"], c["score"]
    elder = (age >= 68).astype(float)
    z = np.stack(
        [
            1.2 - 0.75 * s - 0.9 * elder + 0.5 * (c["route"] == "walk_in"),  # short stay
            -0.6 + 1.7 * np.exp(-(((s - 3.0) / 1.8) ** 2)) - 0.9 * elder,  # medical ward
            -1.7 + 2.4 * elder - 0.22 * np.abs(s - 3),  # geriatric ward
            -2.0 + 0.55 * s - 0.035 * s**2 * (s < 8) + 0.35 * (c["route"] == "ambulance"),  # step-down
            -4.2 + 0.75 * s,  # intensive care
        ],
        1,
    )
    return 0.04 + 0.92 / (1 + np.exp(-z))


def draw(n, rng):
    old = rng.random(n) < 0.55
    age = np.clip(np.where(old, rng.normal(74, 10, n), rng.normal(41, 14, n)), 18, 100)
    sex = (rng.random(n) < 0.48).astype(int)
    score = np.clip(rng.gamma(1.6, 1.7, n) + 0.03 * (age - 50), 0, 14)
    lactate = np.clip(np.exp(0.25 + 0.10 * score + rng.normal(0, 0.35, n)), 0.3, 12)
    u = rng.random(n)
    pa = 1 / (1 + np.exp(-(score - 3.5) * 0.6))
    route = np.where(u < pa * 0.9, 0, np.where(u < pa * 0.9 + (1 - pa * 0.9) * 0.65, 1, 2))
    hour = np.clip(rng.normal(14.5, 5.0, n) % 24, 0, 24)
    frame = {
        "age": age,
        "sex": SEX[sex],
        "score": score,
        "lactate": lactate,
        "route": ROUTE[route],
        "hour": hour,
    }
    means = law(frame)
    rewards = (rng.random((n, 5)) < means).astype(float)
    return frame, means, rewards
