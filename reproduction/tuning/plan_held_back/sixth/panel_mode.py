import numpy as np


def draw(n, rng):
    """Members of a national household panel; rewards: interview of this wave completed."""
    age = np.clip(np.round(16 + 80 * rng.beta(1.75, 2.0, n)), 16, 96)
    u = rng.random(n) + 0.006 * (age - 50)
    edu = (u > 0.28).astype(int) + (u > 0.72).astype(int)  # old people: more of the low class
    edu = 2 - edu
    density = np.clip(
        np.round(np.exp(rng.normal(6.3 - 0.006 * (age - 50) + 0.25 * (edu == 2), 1.4, n))), 5, 20000
    )
    waves = np.minimum(np.floor(rng.gamma(1.1, 3.0, n) * (0.6 + 0.008 * age)), 15).astype(float)

    def sig(z):
        return 1 / (1 + np.exp(-z))

    loyal = 1 - np.exp(-waves / 3.0)
    web = -0.10 + 0.95 * loyal - 1.5 * np.tanh((age - 57) / 16) + np.array([-0.65, 0.0, 0.4])[edu]
    face = 0.18 + 1.05 * loyal + 0.016 * (age - 50) - 0.22 * (np.log(density) - 6.3)
    face = face - 0.4 * ((age > 24) & (age < 42))
    means = sig(np.stack([web, face], 1))
    rewards = (rng.random(means.shape) < means).astype(float)
    frame = {
        "age": age,
        "education": np.array(["basic", "vocational", "degree"])[edu],
        "density": density,
        "waves_done": waves,
    }
    return frame, means, rewards
