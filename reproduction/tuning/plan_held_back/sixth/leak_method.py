import numpy as np


def draw(n, rng):
    """Suspected leaks of a water utility; rewards: leak pinpointed on the first dig."""
    mat = rng.choice(4, n, p=[0.37, 0.14, 0.40, 0.09])  # iron, steel, plastic, concrete
    age = np.array([72, 45, 22, 48])[mat] + np.array([18, 13, 10, 12])[mat] * rng.standard_normal(n)
    age = np.clip(np.round(age), 0, 125)
    sizes = np.array([50, 63, 80, 100, 150, 200, 250, 300, 400, 500, 600], float)
    w = np.array(
        [
            [1, 1, 9, 26, 24, 16, 7, 8, 4, 2, 2],
            [2, 2, 8, 20, 20, 14, 8, 10, 8, 5, 3],
            [9, 17, 13, 27, 17, 9, 4, 3, 1, 0, 0],
            [0, 0, 0, 2, 6, 12, 13, 20, 20, 15, 12],
        ],
        float,
    )
    w = np.cumsum(w / w.sum(1, keepdims=True), 1)
    dia = sizes[np.minimum((rng.random(n)[:, None] > w[mat]).sum(1), 10)]
    depth = np.clip(np.round(1.05 + 0.0012 * dia + rng.gamma(2.0, 0.22, n) - 0.2, 1), 0.5, 4.5)
    press = np.clip(np.round(rng.normal(4.6, 1.3, n) - 0.0015 * (dia - 120), 1), 1, 10)
    flow = np.clip(np.round(np.exp(rng.normal(0.5 + 0.003 * dia, 0.8, n)), 1), 0.1, 60)

    def sig(z):
        return 1 / (1 + np.exp(-z))

    metal = (mat <= 1).astype(float)
    listen = (
        0.75
        + 0.6 * metal
        - 1.3 * (mat == 2)
        + 1.1 * np.tanh((press - 4) / 1.5)
        - 1.5 * np.maximum(depth - 1.4, 0)
    )
    corr = 0.55 + 0.75 * metal - 0.9 * (mat == 2) - 0.9 * (dia >= 300) + 0.3 * np.tanh((press - 3) / 1.5)
    gas = 0.62 + 0.85 * (mat == 2) - 0.5 * (depth > 2.0) - 0.9 * (dia > 180) - 0.35 * (mat == 3)
    robot = np.where(dia >= 200, 1.25, -1.6) + 0.2 * (mat == 3) - 0.006 * (age - 50) * metal
    means = sig(np.stack([listen, corr, gas, robot], 1))
    rewards = (rng.random(means.shape) < means).astype(float)
    frame = {
        "material": np.array(["iron", "steel", "plastic", "concrete"])[mat],
        "pipe_age": age,
        "diameter": dia,
        "depth": depth,
        "pressure": press,
        "loss_flow": flow,
    }
    return frame, means, rewards
