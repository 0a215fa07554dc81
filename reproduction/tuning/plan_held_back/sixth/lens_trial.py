import numpy as np


def draw(n, rng):
    """New contact lens wearers of an optician's chain; rewards: still wearing the lens after three months."""
    young = rng.random(n) < 0.62
    age = np.where(young, 16 + rng.gamma(2.6, 4.6, n), rng.normal(51, 8.5, n))
    age = np.clip(np.round(age), 16, 80)
    cyl = np.where(rng.random(n) < 0.38, 0.0, rng.gamma(1.5, 0.5, n))
    cyl = np.clip(np.round(cyl * 4) / 4, 0, 4)
    tear = np.clip(np.round(rng.normal(11.5, 3.2, n) - 0.06 * (age - 35), 1), 2, 22)
    screen = np.clip(np.round(2 * (rng.gamma(4.0, 1.6, n) - 0.03 * (age - 35))) / 2, 0, 16)
    sphere = np.where(rng.random(n) < 0.76, -rng.gamma(2.2, 1.35, n), rng.gamma(1.6, 1.2, n))
    sphere = np.clip(np.round(sphere * 4) / 4, -13, 8)

    def sig(z):
        return 1 / (1 + np.exp(-z))

    ast = sig((cyl - 0.9) / 0.12)  # needs the cylinder corrected
    pres = sig((age - 45.5) / 2.2)  # needs near addition
    dry = sig((9 - tear) / 1.1) * (0.6 + 0.4 * sig((screen - 6) / 1.0))
    base = 0.85
    hydrogel = base + 0.45 - 1.5 * ast - 1.3 * pres - 1.7 * dry
    silicone = base + 0.15 - 1.5 * ast - 1.3 * pres - 0.35 * dry
    toric = base - 0.20 - 0.9 * pres - 0.8 * dry - 0.25 * (1 - ast)
    multifocal = base - 0.30 - 1.1 * ast - 0.9 * (1 - pres) - 0.7 * dry
    rigid = base - 1.35 + 0.55 * ast + 0.4 * (np.abs(sphere) > 5) - 0.3 * pres + 0.1 * dry
    means = sig(np.stack([hydrogel, silicone, toric, multifocal, rigid], 1))
    rewards = (rng.random(means.shape) < means).astype(float)
    frame = {"age": age, "cylinder": cyl, "tear_time": tear, "screen_hours": screen, "sphere": sphere}
    return frame, means, rewards
