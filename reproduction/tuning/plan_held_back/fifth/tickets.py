import numpy as np

TOPICS = np.array(["login", "mail", "laptop", "printer", "software", "network", "other"])
# chance that the team settles a ticket of this topic: rows topics, columns arms
#          accounts workplace network apps  print  generalists
SOLVE = np.array(
    [
        [0.78, 0.34, 0.30, 0.27, 0.12, 0.60],
        [0.55, 0.33, 0.31, 0.52, 0.12, 0.55],
        [0.15, 0.69, 0.27, 0.20, 0.18, 0.46],
        [0.12, 0.45, 0.30, 0.16, 0.80, 0.42],
        [0.25, 0.40, 0.14, 0.66, 0.10, 0.44],
        [0.25, 0.36, 0.71, 0.16, 0.14, 0.38],
        [0.27, 0.36, 0.28, 0.36, 0.18, 0.43],
    ]
)


def draw(n, rng):
    topic = rng.choice(7, n, p=[0.21, 0.14, 0.14, 0.08, 0.20, 0.09, 0.14])
    words = np.clip(np.exp(rng.normal(3.6, 0.75, n) + np.where(topic == 4, 0.3, 0.0)), 3, 400)
    words = np.round(words)
    remote = rng.random(n) < 0.42
    hour = np.clip(np.where(rng.random(n) < 0.6, rng.normal(9.6, 1.2, n), rng.normal(14.3, 1.6, n)), 6, 20)

    means = SOLVE[topic].copy()
    # long texts are hard cases: generalists give up early, specialists lose little
    hard = np.clip((np.log(words) - 3.0) / 2.0, -0.4, 1.0)
    means[:, 5] -= 0.26 * hard
    means[:, :5] -= 0.05 * hard[:, None]
    # half of the "laptop" and "other" tickets from home are matters of the line
    home = remote & ((topic == 2) | (topic == 6))
    means[:, 2] += np.where(home, 0.25, 0.0)
    means[:, 1] -= np.where(remote, 0.13, 0.0)
    means = np.clip(means, 0.03, 0.97)

    rewards = (rng.random((n, 6)) < means).astype(float)
    frame = {
        "topic": TOPICS[topic],
        "words": words,
        "place": np.where(remote, "home", "office"),
        "hour": hour,
    }
    return frame, means, rewards
