import numpy as np


def draw(n, rng):
    """Lots of a regional auction house; rewards: hammer price over lower estimate (0 unsold, cut at 2.5)."""
    cat = rng.choice(5, n, p=[0.28, 0.24, 0.2, 0.15, 0.13])
    # furniture, pictures, jewellery, wine, toys
    est = np.exp(
        rng.normal(np.array([5.3, 6.2, 6.4, 5.6, 4.7])[cat], np.array([0.8, 1.15, 1.0, 0.8, 0.7])[cat])
    )
    est = np.clip(np.round(est / 10) * 10, 20, 30000)
    weight = np.exp(rng.normal(np.array([3.2, 1.4, -2.6, 2.3, 0.3])[cat], 0.7))
    weight = np.clip(np.round(weight, 2), 0.01, 400)
    cond = np.clip(np.round(10 * rng.beta(4, np.array([3.0, 2.4, 1.7, 1.2, 3.2])[cat])), 1, 10)
    watchers = np.minimum(rng.negative_binomial(1.3, 1.3 / (1.3 + 6 + 2.2 * (np.log(est) - 5))), 120).astype(
        float
    )

    def sig(z):
        return 1 / (1 + np.exp(-z))

    le = np.log(est)
    top = sig((le - np.log(1200)) / 0.2)
    hot = np.log1p(watchers)
    room = 0.80 + 0.42 * top + np.array([0.10, 0.05, 0.0, -0.12, -0.15])[cat] + 0.035 * (cond - 6)
    online = (
        0.72 + 0.15 * hot - 0.30 * top + np.array([-0.22, -0.02, 0.05, 0.10, 0.22])[cat] + 0.01 * (cond - 6)
    )
    private = (
        0.88
        + np.array([-0.15, 0.0, 0.12, 0.28, -0.10])[cat]
        - 0.05 * hot
        + 0.09 * np.minimum(cond - 7, 2)
        + 0.08 * (top > 0.5)
    )
    means = np.clip(np.stack([room, online, private], 1), 0.1, 2.2)
    sold = np.stack([0.80 + 0.0 * le, 0.88 + 0.0 * le, 0.72 + 0.0 * le], 1)
    m = means / sold  # mean of a sold lot, always below 2.5 after the next line
    sold = np.where(m > 2.2, np.minimum(means / 2.2, 1.0), sold)
    m = means / sold
    k = 14.0
    pay = 2.5 * rng.beta(k * m / 2.5, k * (1 - m / 2.5))
    rewards = np.where(rng.random(m.shape) < sold, pay, 0.0)
    frame = {
        "category": np.array(["furniture", "pictures", "jewellery", "wine", "toys"])[cat],
        "estimate": est,
        "weight_kg": weight,
        "condition": cond,
        "watchers": watchers,
    }
    return frame, means, rewards
