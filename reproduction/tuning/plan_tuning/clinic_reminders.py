"""A clinic's reminder before an appointment: does the patient come? Rules of thumb with sharp edges."""

import numpy as np

LANGUAGES = np.array(["same", "other", "interpreter"])


def draw(n, rng):
    age = np.where(rng.random(n) < 0.35, rng.normal(72, 9, n), rng.normal(42, 15, n))
    age = np.clip(age, 16, 95)
    language = rng.choice(3, size=n, p=[0.74, 0.18, 0.08])
    missed = np.minimum(rng.poisson(np.where(rng.random(n) < 0.3, 2.5, 0.4)), 10)
    wait = np.clip(rng.gamma(2.0, 18.0, n), 0, 180)  # days since booking; matters little
    start = 0.68 - 0.08 * (missed >= 2) - 0.06 * (wait > 60) - 0.04 * (language > 0)
    text = start + np.where(age < 50, 0.13, np.where(age < 65, 0.0, -0.12)) - 0.05 * (language == 2)
    call = (
        start
        + np.where(age >= 65, 0.1, -0.04)
        + np.where((missed >= 2) & (age < 65), 0.16, 0.0)
        - 0.14 * (language > 0)
    )
    letter = start - 0.05 + np.where(language > 0, 0.14, 0.0) + np.where(age >= 65, 0.04, 0.0)
    means = np.clip(np.stack([text, call, letter], axis=1), 0.02, 0.98)
    rewards = (rng.random((n, 3)) < means).astype(float)
    frame = {
        "age": age,
        "language": LANGUAGES[language],
        "missed": missed.astype(float),
        "wait": wait,
    }
    return frame, means, rewards
