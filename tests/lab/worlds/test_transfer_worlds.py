"""Sources of worlds: the stated density, the stated arms."""

import numpy as np
import pytest
from scipy import stats

from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.transfer import SourceWorld, gamma_contexts
from reproduction.local_worlds import world
from reproduction.ma2025.people_source import PeopleSource


@pytest.mark.parametrize(("dim", "gamma"), [(1, 0.0), (1, 2.0), (2, 1.0), (3, 5.0), (4, 0.5)])
def test_radius_and_direction_follow_the_stated_density(dim, gamma):
    """P(2 |x - 1/2| <= r) = r^(dim + gamma); the direction is a uniform point's. False alarms: 2e-8."""
    x = gamma_contexts(20_000, dim=dim, gamma=gamma, rng=np.random.default_rng(0))
    assert ((x >= 0) & (x <= 1)).all()
    radius = 2 * np.abs(x - 0.5).max(axis=1)
    assert stats.kstest(radius ** (dim + gamma), "uniform").pvalue > 1e-8
    assert abs((x - 0.5).mean()) < 6 * 0.5 / np.sqrt(20_000 * dim)
    if dim > 1:
        angle = (x - 0.5)[:, 0] / np.abs(x - 0.5).max(axis=1)
        uniform = np.random.default_rng(1).random((20_000, dim)) - 0.5
        assert stats.ks_2samp(angle, uniform[:, 0] / np.abs(uniform).max(axis=1)).pvalue > 1e-8


@pytest.mark.parametrize("behaviour", ["even", "avoid-best", "prefer-best"])
@pytest.mark.parametrize("kappa", [0.1, 0.6, 1.0])
def test_every_arm_has_its_least_probability(behaviour, kappa):
    one = world("tune-ridges")
    source = SourceWorld(world=one, gamma=1.0, kappa=kappa, behaviour=behaviour)
    contexts, means, arms = source.draw(40_000, np.random.default_rng(0))
    assert np.allclose(means, one.mean_rewards(contexts))
    best, k = means.argmax(axis=1), one.n_arms
    hit = (arms == best).mean()
    expected = {
        "avoid-best": kappa / k,
        "prefer-best": 1 - (k - 1) * kappa / k,
        "even": np.linspace(kappa, 2 - kappa, k)[best].mean() / k,
    }[behaviour]
    assert abs(hit - expected) < 6 * 0.5 / np.sqrt(40_000)
    chances = source.propensities()
    assert (chances is None) == (behaviour != "even")
    if chances is not None:
        assert np.isclose(chances.sum(), 1)
        assert np.isclose(chances.min(), kappa / k)
        counts = np.bincount(arms, minlength=k)
        assert stats.chisquare(counts, chances * 40_000).pvalue > 1e-8


def test_people_are_drawn_once_each():
    rng = np.random.default_rng(0)
    source = PeopleSource(
        columns=np.arange(30.0)[:, None] / 30, rewards=rng.random((30, 2)), weights=np.array([0.0, 1.0])
    )
    contexts, _, arms = source.draw(30, rng)
    assert np.array_equal(np.sort(contexts[:, 0]), source.columns[:, 0])
    assert (arms == 1).all()
    assert source.propensities() is source.weights
    with pytest.raises(InvalidParameter):
        source.draw(31, rng)


@pytest.mark.parametrize("change", [{"kappa": -0.1}, {"kappa": 1.5}, {"gamma": -1.0}, {"behaviour": "odd"}])
def test_impossible_sources_are_refused(change):
    with pytest.raises(InvalidParameter):
        SourceWorld(world=world("ma"), **change)


@pytest.mark.parametrize("gamma", [float("nan"), float("inf"), -1.0])
def test_a_gamma_that_is_no_exponent_is_refused(gamma):
    with pytest.raises(InvalidParameter):
        gamma_contexts(3, dim=2, gamma=gamma, rng=np.random.default_rng(0))
    with pytest.raises(InvalidParameter):
        SourceWorld(world=world("ma"), gamma=gamma)
