"""The contextual worlds: published formulas and known regrets."""

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.contextual import (
    REPORT_WORLDS,
    WORLDS,
    PeopleWorld,
    ma2025,
    world,
)

# Regret of a uniformly random arm and of the best constant arm (notes on the published experiments).
KNOWN = {
    "ma": (0.414, 0.384),
    "diagonal": (0.336, 0.267),
    "radial-3d": (0.270, 0.196),
    "clustered": (0.288, 0.231),
    "small-gaps": (0.041, 0.038),
}


@pytest.mark.parametrize("name", [name for name in WORLDS if name != "cps-income"])
def test_worlds_draw_contexts_in_the_cube_and_means_in_the_range(name):
    one = world(name)
    contexts, means = one.draw(2000, np.random.default_rng(0))
    assert contexts.shape == (2000, one.dim)
    assert means.shape == (2000, one.n_arms)
    assert ((contexts >= 0) & (contexts <= 1)).all()
    assert ((means >= 0) & (means <= 1)).all()


@pytest.mark.parametrize("name", REPORT_WORLDS)
def test_report_worlds_have_their_known_regrets(name):
    _, means = world(name).draw(200_000, np.random.default_rng(1))
    best = means.max(axis=1).mean()
    assert abs(best - means.mean() - KNOWN[name][0]) < 0.002
    assert abs(best - means.mean(axis=0).max() - KNOWN[name][1]) < 0.002


def test_ma2025_formula_at_a_point():
    value = ma2025().mean_rewards(np.array([[0.3, 0.9]]))[0, 1]
    decay = np.exp(-2 * 9 * (0.3 - 0.5) ** 2)
    assert np.isclose(value, 2 * decay / (1 + decay))


def test_people_come_once_each():
    people = PeopleWorld(name="few", columns=np.linspace(0, 1, 5)[:, None], rewards=np.eye(5))
    contexts, _ = people.draw(5, np.random.default_rng(0))
    assert sorted(contexts[:, 0]) == np.linspace(0, 1, 5).tolist()
    with pytest.raises(InvalidParameter):
        people.draw(6, np.random.default_rng(0))
    with pytest.raises(InvalidParameter):
        world("atlantis")
