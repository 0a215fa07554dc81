import numpy as np


def draw(n, rng):
    """Households behind with a city's property and refuse tax; rewards: debt settled (or plan kept) after
    90 days."""
    home = rng.choice(3, n, p=[0.34, 0.41, 0.25])
    age = np.where(
        home == 0, rng.normal(57, 14, n), np.where(home == 1, rng.normal(38, 12, n), rng.normal(47, 15, n))
    )
    age = np.clip(np.round(age), 18, 95)
    earlier = np.minimum(rng.negative_binomial(0.8, np.array([0.55, 0.45, 0.30])[home], n), 12).astype(float)
    debt = np.exp(rng.normal(5.9 + np.array([0.45, 0.0, -0.1])[home] + 0.09 * earlier, 0.85, n))
    debt = np.clip(np.round(debt), 40, 12000)
    overdue = np.clip(np.round(rng.gamma(2.2, 38, n) + 30), 30, 540)
    district = rng.choice(5, n, p=[0.27, 0.24, 0.2, 0.17, 0.12])

    def sig(z):
        return 1 / (1 + np.exp(-z))

    big = sig((np.log(debt) - np.log(650)) / 0.25)  # too much to pay at once
    rep = 1 - np.exp(-earlier / 2.0)  # knows the letters
    base = -0.55 - 0.55 * big - 0.7 * rep - 0.0012 * (overdue - 110) + np.array([0.35, 0.0, -0.2])[home]
    letter = base + 0.16 + 0.014 * (age - 48) - 0.35 * rep
    text = base + 0.22 - 0.014 * (age - 48) + 0.10 * (home == 1)
    call = base + 0.08 + 0.6 * rep + 0.15 * (home == 2)
    plan = base - 0.42 + 0.95 * big + 0.15 * (home == 2)
    means = sig(np.stack([letter, text, call, plan], 1))
    rewards = (rng.random(means.shape) < means).astype(float)
    frame = {
        "home": np.array(["owner", "private_tenant", "social_tenant"])[home],
        "age": age,
        "debt": debt,
        "earlier_arrears": earlier,
        "days_overdue": overdue,
        "district": np.array(["centre", "harbour", "east", "hills", "outer"])[district],
    }
    return frame, means, rewards
