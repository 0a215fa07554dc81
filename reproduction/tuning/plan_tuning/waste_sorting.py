"""How to get a household to sort its waste: kinds of households, effects that only show together."""

import numpy as np

BUILDINGS = np.array(["house", "small", "large"])
CHILDREN = np.array(["no", "yes"])
OWNERS = np.array(["owner", "tenant"])


def draw(n, rng):
    building = rng.choice(3, size=n, p=[0.34, 0.38, 0.28])
    owner = rng.random(n) < np.array([0.8, 0.4, 0.2])[building]
    children = rng.random(n) < np.array([0.45, 0.3, 0.25])[building]
    people = np.clip(np.where(children, 2 + rng.geometric(0.5, n), 1 + rng.binomial(2, 0.3, n)), 1, 8).astype(
        float
    )
    weight = np.minimum(rng.gamma(4.0, 2.0 + people * 0.6), 60.0)
    floor = np.minimum(np.floor(rng.exponential(np.array([0.6, 1.8, 4.5])[building])), 12.0)
    odd = children ^ owner  # owners without children, tenants with children
    start = 0.48 - 0.07 * (building == 2) - 0.003 * (weight - 15.0)
    sticker = start + np.where(odd, 0.15, -0.12)
    visit = start + np.where(building == 2, np.where(floor >= 4, -0.15, 0.13), 0.03)
    prize = start + np.where(odd, -0.13, 0.12) + np.where(people >= 5, 0.1, 0.0)
    letter = start - 0.04 + np.where((building == 0) & (people <= 2), 0.06, 0.0)
    means = np.clip(np.stack([sticker, visit, prize, letter], axis=1), 0.03, 0.97)
    rewards = (rng.random((n, 4)) < means).astype(float)
    frame = {
        "building": BUILDINGS[building],
        "children": CHILDREN[children.astype(int)],
        "owner": OWNERS[1 - owner.astype(int)],
        "people": people,
        "weight": weight,
        "floor": floor,
    }
    return frame, means, rewards
