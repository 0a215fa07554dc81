import numpy as np


def draw(n, rng):
    """Guests checking in at a city hotel chain; rewards: margin in euro on the one extra the desk offers."""
    kind = rng.choice(4, n, p=[0.44, 0.29, 0.15, 0.12])
    nights = 1 + rng.poisson(np.array([0.7, 1.2, 2.3, 1.0])[kind])
    nights = np.clip(nights, 1, 14).astype(float)
    lead = np.clip(np.round(np.exp(rng.normal(np.array([1.9, 3.2, 3.8, 3.9])[kind], 0.95))), 0, 365)
    rate = np.clip(
        np.round(
            np.exp(
                rng.normal(
                    4.82 + np.array([0.12, 0.0, 0.15, -0.22])[kind] - 0.03 * (np.log1p(lead) - 3), 0.27
                )
            )
        ),
        55,
        420,
    )
    hour = np.where(
        rng.random(n) < np.array([0.6, 0.2, 0.15, 0.25])[kind],
        rng.normal(20.2, 1.7, n),
        rng.normal(16.0, 1.5, n),
    )
    hour = np.clip(np.round(hour * 4) / 4, 12, 24)
    stays = np.minimum(rng.geometric(np.array([0.3, 0.65, 0.7, 0.6])[kind]) - 1, 40).astype(float)

    def sig(z):
        return 1 / (1 + np.exp(-z))

    late = sig((hour - 18.5) / 0.5)
    # chance of a yes and margin when yes
    p_up = sig(
        -2.1
        + np.array([-0.5, 0.75, 0.1, -1.2])[kind]
        + 1.3 * np.tanh((rate - 125) / 60)
        + 0.10 * np.minimum(nights - 1, 4)
    )
    m_up = 22 + 5.0 * np.minimum(nights, 5)
    p_br = sig(-0.75 + np.array([0.45, -0.2, 0.75, -0.1])[kind] + 0.55 * late - 0.6 * (rate > 170))
    m_br = 9 + 3.2 * np.minimum(nights, 5) * np.array([1.0, 1.6, 2.1, 1.2])[kind] ** 0.6
    p_lc = sig(-0.9 + np.array([-0.5, 0.8, 0.1, 0.5])[kind] + 1.1 * (late - 0.4) - 0.25 * (nights > 3))
    m_lc = np.full(n, 24.0)
    p_sp = sig(-1.25 + np.array([-0.9, 0.8, -0.5, -0.3])[kind] - 2.3 * late + 0.3 * (nights >= 3))
    m_sp = np.full(n, 46.0)
    p = np.stack([p_up, p_br, p_lc, p_sp], 1)
    m = np.minimum(np.stack([m_up, m_br, m_lc, m_sp], 1), 60)
    means = p * m
    pay = m * (0.7 + 0.6 * rng.beta(2, 2, m.shape))  # mean m, at most 1.3 m <= 78
    rewards = np.where(rng.random(p.shape) < p, pay, 0.0)
    frame = {
        "kind": np.array(["business", "couple", "family", "group"])[kind],
        "nights": nights,
        "lead_days": lead,
        "room_rate": rate,
        "arrival_hour": hour,
        "past_stays": stays,
    }
    return frame, means, rewards
