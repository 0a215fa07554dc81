import numpy as np


def draw(n, rng):
    # customers of an online shop for garden goods who have not ordered for a while
    orders = np.clip(1 + np.floor(rng.gamma(0.9, 3.2, n)), 1, 40)
    idle = np.clip(1 + rng.gamma(1.6, 6.0, n), 1, 36)
    basket = np.clip(np.exp(rng.normal(3.9, 0.5, n)), 10, 120)
    app = rng.random(n) < np.clip(0.55 - 0.012 * idle, 0.1, 0.6)
    device = np.where(app, "app", np.where(rng.random(n) < 0.5, "phone", "desktop"))

    # chance of an order in the season, without a voucher and with six or twelve euros off
    z = -0.4 + 0.6 * np.log(orders) - 0.16 * (idle - 8) + np.where(app, 0.25, 0.0)
    # a voucher moves those who are about to be lost, and those with small baskets
    pull = 1 / (1 + np.exp(-(idle - 11) / 2.5))
    small = np.clip(60.0 / basket, 0.4, 2.5) ** 0.6
    p0 = 1 / (1 + np.exp(-z))
    p6 = 1 / (1 + np.exp(-(z + 0.10 + 0.9 * pull * small)))
    p12 = 1 / (1 + np.exp(-(z + 0.15 + 3.3 * pull * np.minimum(small, 1.3))))

    # margin of an order: 42 % of the basket, on a scale that ends at 60 euros
    margin = 60 * np.clip(0.007 * basket, 0.05, 0.85)
    p = np.stack([p0, p6, p12], axis=1)
    off = np.array([0.0, 6.0, 12.0])
    means = p * (margin[:, None] - off)
    buys = rng.random((n, 1)) < p
    m = margin / 60.0
    spent = 60 * rng.beta(12 * m, 12 * (1 - m))
    rewards = np.where(buys, spent[:, None] - off, 0.0)
    frame = {"orders": orders, "idle": idle, "basket": basket, "device": device}
    return frame, means, rewards
