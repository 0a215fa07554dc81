"""A savings bank writes to clients in its app: which of four offers do they take up?

Smooth in age and balance; two columns do nothing.
"""

import numpy as np
import pandas as pd

CHANNEL = ["app", "branch", "web"]
LAW = np.array([0.5, 0.2, 0.3])


def sig(x):
    return 1 / (1 + np.exp(-x))


def draw(n, rng):
    age = 18 + 67 * rng.beta(1.8, 2.2, n)
    balance = np.clip(20_000 * rng.beta(1.3, 2.6, n) * (0.7 + 0.6 * (age - 18) / 67), 0, 20_000)
    tenure = np.clip((age - 18) * rng.random(n), 0, 40)
    logins = 60 * rng.beta(1.5, 4, n)
    channel = rng.choice(len(CHANNEL), size=n, p=LAW)
    a, b = (age - 18) / 67, balance / 20_000
    means = np.stack(
        [
            0.03 + 0.31 * sig(7 * (b - 0.33)) * (0.55 + 0.45 * a),  # savings plan
            0.07 + 0.32 * np.exp(-0.5 * ((a - 0.12) / 0.30) ** 2) * (1 - 0.35 * b),  # credit card
            0.03 + 0.25 * np.exp(-0.5 * ((a - 0.50) / 0.35) ** 2) * (1 - 0.9 * b),  # instalment loan
            0.04 + 0.14 * a,  # a talk in the branch
        ],
        1,
    )
    means = np.clip(
        means + np.array([0.0, 0.012, 0.024])[channel][:, None] * np.array([1, 1, 0, -1])[None], 0, 1
    )
    rewards = (rng.random(means.shape) < means).astype(float)
    frame = {
        "age": age,
        "balance": balance,
        "tenure": tenure,
        "logins": logins,
        "channel": np.array(CHANNEL)[channel],
    }
    return pd.DataFrame(frame), means, rewards
