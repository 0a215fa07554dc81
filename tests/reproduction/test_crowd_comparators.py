"""Non-private comparators on contextual crowds: they learn, and they keep their books."""

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.contextual import world
from reproduction.ma2025.crowds import ABSE, BinUCB, play


@pytest.mark.parametrize(("name", "ceiling"), [("ma", 0.15), ("diagonal", 0.15), ("radial-3d", 0.17)])
@pytest.mark.parametrize("kind", [ABSE, BinUCB])
def test_regret_is_far_below_random_and_falls(kind, name, ceiling):
    one = world(name)
    n = 20_000
    regret = play(one, lambda: kind(dim=one.dim, n_arms=one.n_arms, n_users=n), n_users=n, seed=1)
    assert regret.shape == (200, 2)
    regret, reward = regret.T
    assert reward.sum() / n + regret.sum() / n > 0.5  # what the best arms would have paid
    assert regret.sum() / n < ceiling
    assert regret[100:].sum() < 0.8 * regret[:100].sum()


def test_abse_keeps_both_of_two_equal_arms_and_splits():
    learner = ABSE(dim=1, n_arms=2, n_users=10_000)
    rng = np.random.default_rng(0)
    for _ in range(100):
        contexts = rng.random((100, 1))
        arms = learner.choose(contexts)
        learner.learn(contexts, arms, (rng.random(100) < 0.5).astype(float))
    assert len(learner.partition.leaves) > 1
    assert learner.active[learner.partition.leaves].any(axis=1).all()
    assert learner.pulls.sum() == 10_000


def test_bin_ucb_tries_every_arm_first():
    learner = BinUCB(dim=2, n_arms=4, n_users=1000, side=1)
    arms = learner.choose(np.full((4, 2), 0.5))
    assert sorted(arms) == [0, 1, 2, 3]
    with pytest.raises(InvalidParameter):
        BinUCB(dim=1, n_arms=2, n_users=1)


def test_same_seed_same_regret():
    one = world("ma")
    first, second = (
        play(one, lambda: BinUCB(dim=2, n_arms=3, n_users=500), n_users=500, seed=4) for _ in "ab"
    )
    assert np.array_equal(first, second)
