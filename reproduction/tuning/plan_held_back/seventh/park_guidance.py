"""Where a city's signs send a driver who wants to park; paid: minutes saved against circling, 0 to 30."""

import numpy as np


def draw(n, rng):
    morning = rng.random(n) < 0.55
    hour = np.clip(np.where(morning, rng.normal(8.6, 1.3, n), rng.normal(15.5, 2.8, n)), 6.0, 22.0)
    all_day = morning & (rng.random(n) < 0.6)
    stay = np.clip(np.where(all_day, rng.normal(8.0, 1.2, n), rng.gamma(1.6, 1.1, n)), 0.25, 12.0)
    side = rng.choice(4, size=n, p=[0.35, 0.28, 0.25, 0.12])
    rush = ((hour >= 7.5) & (hour < 9.5)) | ((hour >= 16.0) & (hour < 18.0))
    street = np.where(stay < 2.0, 15.0, 6.0) - np.where(rush, 4.0, 0.0) + np.where(hour >= 19.0, 5.0, 0.0)
    full = (hour >= 9.5) & (hour < 14.0)
    garage = 10.5 + np.where(full, -3.5, 0.0) + np.array([1.5, 0.0, -1.0, -1.0])[side]
    ride = np.where(stay > 5.0, 14.0, 5.0) + np.array([-2.5, 0.5, 3.0, 0.0])[side] + np.where(rush, 2.0, 0.0)
    means = np.clip(np.stack([street, garage, ride], axis=1), 1.0, 29.0)
    share = means / 30.0
    frame = {"hour": hour, "stay": stay, "side": np.array(["hill", "plain", "river", "ring"])[side]}
    return frame, means, 30.0 * rng.beta(5.0 * share, 5.0 * (1.0 - share))
