import numpy as np


def draw(n, rng):
    age = np.clip(np.round(18 + 52 * rng.beta(1.3, 1.7, n)), 18, 70)
    times = 1 + np.floor(rng.gamma(0.8, 3.0 + 0.13 * (age - 18), n))
    times = np.clip(times, 1, 60)
    since = np.clip(2 + rng.gamma(1.5, 4.0, n) * np.where(times < 4, 1.4, 0.8), 2, 36)

    grow = np.log1p(times) / np.log(61.0)
    z = -0.75 + 2.3 * grow - 0.055 * (since - 8) + 0.008 * (age - 40)
    # gain of the phone call over the text message, as a shift of the log odds:
    # older people like to be called, young people feel pressed; those who stayed away
    # long need a talk, those who come anyway need none
    gain = 1.25 * np.tanh((age - 38) / 11.0)
    gain = gain + 0.45 * (1 - np.exp(-(since - 2) / 8.0)) - 0.5 * grow + 0.12
    text = 1 / (1 + np.exp(-(z - 0.5 * gain)))
    call = 1 / (1 + np.exp(-(z + 0.5 * gain)))

    means = np.stack([text, call], axis=1)
    rewards = (rng.random((n, 2)) < means).astype(float)
    return {"age": age, "times": times, "since": since}, means, rewards
