"""Guides at a museum's door: how content is the visitor? Additive and smooth, graded answers."""

import numpy as np

ORIGINS = np.array(["city", "country", "abroad"])


def draw(n, rng):
    age = np.clip(np.where(rng.random(n) < 0.2, rng.normal(15, 4, n), rng.normal(51, 17, n)), 6, 95)
    group = np.clip(1 + rng.poisson(1.3, n), 1, 8).astype(float)
    visits = np.minimum(rng.geometric(0.55, n) - 1, 12).astype(float)
    origin = rng.choice(3, size=n, p=[0.38, 0.34, 0.28])
    years = (age - 45.0) / 25.0
    company = (group - 2.3) / 1.5
    known = np.log1p(visits)
    country = np.array([0.01, 0.0, -0.02])[origin]
    leaflet = 0.57 + 0.03 * years - 0.01 * company + 0.04 * known + np.array([0.03, 0.0, -0.06])[origin]
    audio = 0.64 + 0.04 * years - 0.06 * company - 0.01 * known + np.array([-0.02, 0.0, 0.07])[origin]
    tour = (
        0.63
        + 0.07 * np.tanh(1.5 * years)
        + 0.05 * company
        - 0.03 * known
        + np.array([0.03, 0.02, -0.08])[origin]
    )
    app = 0.61 - 0.1 * years + 0.01 * company + np.array([0.0, 0.0, 0.02])[origin]
    means = np.stack([leaflet, audio, tour, app], axis=1) + country[:, None]
    means = np.clip(means, 0.05, 0.95)
    rewards = rng.beta(6.0 * means, 6.0 * (1.0 - means))
    frame = {"age": age, "group": group, "visits": visits, "origin": ORIGINS[origin]}
    return frame, means, rewards
