"""One letter of advice per household: euros saved within a year. Many save nothing, a few very much."""

import math

import numpy as np

HEATING = np.array(["gas", "oil", "heat pump", "district"])
HIGH = 400.0
SPREAD = 0.95
_erf = np.vectorize(math.erf, otypes=[float])


def _cdf(x):
    return 0.5 * (1 + _erf(x / math.sqrt(2)))


def _capped_mean(mu):
    """E[min(exp(mu + SPREAD Z), HIGH)]."""
    edge = (math.log(HIGH) - mu) / SPREAD
    return np.exp(mu + SPREAD**2 / 2) * _cdf(edge - SPREAD) + HIGH * (1 - _cdf(edge))


def draw(n, rng):
    area = np.clip(rng.lognormal(4.6, 0.45, n), 25, 350)
    built = np.clip(rng.triangular(1900, 1968, 2024, n), 1900, 2024)
    heating = rng.choice(4, size=n, p=[0.47, 0.22, 0.13, 0.18])
    people = 1 + np.minimum(rng.poisson(1.25, n), 6)
    size = np.log(area / 100)
    old = (1975 - built) / 40
    burns = np.isin(heating, [0, 1]).astype(float)
    # chance that the advice is followed at all
    logits = np.stack(
        [
            -0.3 + 0.25 * size,  # thermostat
            -1.5 + 1.0 * old + 0.3 * burns,  # insulation
            -0.6 + 0.35 * (people - 2),  # appliances
            -1.2 + 1.1 * (heating == 1) + 0.5 * (heating == 0),  # boiler check
            -0.9 + 1.6 * (heating == 2) + 0.3 * size,  # tariff
        ],
        axis=1,
    )
    follows = 1 / (1 + np.exp(-logits))
    # log euros, if it is
    mu = np.stack(
        [
            3.6 + 0.6 * size + 0.25 * burns,
            4.2 + 0.6 * size + 0.3 * old,
            3.3 + 0.18 * (people - 2) + 0 * size,
            3.5 + 0.5 * size + 0.35 * (heating == 1),
            3.4 + 0.55 * (heating == 2) + 0.3 * size,
        ],
        axis=1,
    )
    means = follows * _capped_mean(mu)
    amounts = np.minimum(np.exp(mu + SPREAD * rng.standard_normal((n, 5))), HIGH)
    rewards = np.where(rng.random((n, 5)) < follows, amounts, 0.0)
    frame = {
        "area": area,
        "built": built,
        "heating": HEATING[heating],
        "people": people.astype(float),
    }
    return frame, means, rewards
