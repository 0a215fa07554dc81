import numpy as np


def draw(n, rng):
    age = np.clip(np.round(rng.normal(48, 13, n)), 18, 80)
    pain = np.clip(rng.normal(48, 15, n), 15, 95)
    fear = np.clip(10 + 0.25 * pain + rng.normal(0, 9, n), 0, 48)
    weeks = np.clip(np.exp(rng.normal(2.6, 1.0, n)), 1, 104)
    weight = np.clip(rng.normal(27, 4.5, n) + 0.03 * (age - 48), 17, 48)
    work = np.where(rng.random(n) < 0.55, "sitting", np.where(rng.random(n) < 0.5, "heavy", "none"))

    # fall of pain after twelve weeks, in points of a hundred
    fresh = np.exp(-weeks / 14.0)
    common = 2.0 + 0.22 * pain + 7.0 * fresh - 0.08 * (age - 48)
    # exercises at home with an app: the young do them, those who fear movement do not
    app = common + 3.0 - 0.24 * (age - 45) - 0.22 * (fear - 20) + np.where(work == "sitting", 3.0, -1.5)
    # hands-on treatment: good for fresh and strong pain, wears off
    hands = common - 1.0 + 11.0 * (fresh - 0.4) + 0.10 * (pain - 48)
    # group course with talk about pain: for long spells with fear
    group = common - 0.5 + 0.38 * (fear - 20) - 8.0 * (fresh - 0.4) + np.where(work == "heavy", -2.0, 0.0)

    low, high = -40.0, 90.0
    means = np.clip(np.stack([app, hands, group], axis=1), -15, 60)
    share = (means - low) / (high - low)
    rewards = low + (high - low) * rng.beta(13 * share, 13 * (1 - share))
    frame = {"age": age, "pain": pain, "fear": fear, "weeks": weeks, "bmi": weight, "work": work}
    return frame, means, rewards
