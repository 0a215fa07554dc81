import numpy as np

DOSES = np.array([60.0, 100.0, 140.0, 180.0, 220.0])


def draw(n, rng):
    # fields of maize: soil, rest of nitrogen found in spring, what stood there before
    clay = np.clip(8 + 50 * rng.beta(1.8, 2.8, n), 5, 60)
    humus = np.clip(1.0 + 0.035 * clay + rng.gamma(2.0, 0.45, n), 0.8, 7)
    nmin = np.clip(15 + 12 * humus + rng.gamma(2.0, 11.0, n), 10, 160)
    slope = np.clip(rng.exponential(3.0, n), 0, 20)
    u = rng.random(n)
    before = np.where(u < 0.46, "cereal", np.where(u < 0.74, "maize", np.where(u < 0.88, "beet", "clover")))

    # kilograms a hectare beyond which the crop gives no more
    need = 188 - 1.0 * (nmin - 60) - 12.0 * (humus - 3.2)
    need = need + np.where(before == "clover", -70.0, np.where(before == "beet", -30.0, 0.0))
    need = need + np.where(clay < 15, 18.0, 0.0)
    need = np.clip(need, 40, 260)
    # margin at the plateau, without the price of the nitrogen
    top = 640 + 210 * np.exp(-(((clay - 30) / 16.0) ** 2)) - 7.0 * slope
    lack = np.maximum(need[:, None] - DOSES, 0.0)
    means = top[:, None] - (1.2 * lack + 0.0105 * lack**2) - 1.35 * DOSES
    # weather and pests of the year
    low, high = -400.0, 1400.0
    means = np.clip(means, -50, 1000)
    share = (means - low) / (high - low)
    rewards = low + (high - low) * rng.beta(28 * share, 28 * (1 - share))
    frame = {"clay": clay, "humus": humus, "nmin": nmin, "slope": slope, "before": before}
    return frame, means, rewards
