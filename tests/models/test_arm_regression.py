"""The separate laws of arms are the blocks of the joint law of all arms' weights."""

import numpy as np
import pytest

from dpbandits.errors import InvalidData
from dpbandits.models.arm_regression import FEWEST_ROWS, ArmsGP
from dpbandits.models.features import Placed
from dpbandits.models.gaussian_process import FeatureGP

SUPPORTS = ((0, 3), (3, 5), (5, 8))
VARIANCES = {"prior_variance": 0.7, "noise_variance": 0.2}


def observations(n, seed=0):
    """Return placed features, dense features, and values."""
    rng = np.random.default_rng(seed)
    support, own, dense = rng.integers(3, size=n), rng.uniform(-0.5, 0.5, (n, 3)), np.zeros((n, 8))
    for row, (low, high) in enumerate(SUPPORTS[index] for index in support):
        own[row, high - low :] = 0.0
        dense[row, low:high] = own[row, : high - low]
    return Placed(support, own), dense, rng.standard_normal(n)


def both(n=200, *, at_once=False):
    placed, dense, values = observations(n)
    ours, joint = ArmsGP(SUPPORTS, **VARIANCES), FeatureGP(8, **VARIANCES)
    joint.add_batch(dense, values)
    if at_once:
        ours.add_batch(placed, values)
    else:
        for index, phi, value in zip(placed.support.tolist(), placed.phi, values.tolist(), strict=True):
            ours.add(index, phi, value)
    return ours, joint


def alike(ours, joint, **close):
    points, dense, _ = observations(40, seed=1)
    for mine, theirs in zip(ours.moments(points), joint.predict_from_features(dense), strict=True):
        assert mine == pytest.approx(theirs, **close)
    assert ours.posterior.mean == pytest.approx(joint.posterior.mean, **close)
    assert ours.posterior.covariance == pytest.approx(joint.posterior.covariance, **close)
    assert ours.posterior.supports == SUPPORTS


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("n", [0, 1, 7, 400])
def test_it_learns_what_the_joint_law_learns(n, at_once):
    ours, joint = both(n, at_once=at_once)
    alike(ours, joint, abs=1e-11)
    assert ours.n_observations == n


def test_rows_do_not_grow_with_observations():
    for n in (400, 800):
        rows = both(n)[0].to_arrays()["rows"]
        assert len(rows) <= 3 * FEWEST_ROWS


def test_what_was_looked_at_is_learned_as_anew():
    placed, _, values = observations(60)
    looking, plain = (ArmsGP(SUPPORTS, **VARIANCES) for _ in range(2))
    for index, phi, value in zip(placed.support.tolist(), placed.phi, values.tolist(), strict=True):
        looked = looking.look(phi)
        mean, sd = looking.moments_of_all(phi, looked)
        every = Placed(np.arange(3), np.tile(phi, (3, 1)))
        for one, other in zip((mean, sd), looking.moments(every), strict=True):
            assert one == pytest.approx(other, abs=1e-12)
        looking.add(index, phi, value, looked=looked)
        plain.add(index, phi, value)
    assert looking.posterior.mean == pytest.approx(plain.posterior.mean, abs=1e-12)


def test_what_fades_nears_the_prior_as_the_joint_law_does():
    ours, joint = both(150)
    for kept in (1.0, 0.9, 0.3):
        ours.fade(kept)
        joint.fade(kept)
        alike(ours, joint, abs=1e-10)
    ours.fade(0.0)
    alike(ours, FeatureGP(8, **VARIANCES), abs=1e-10)


def test_a_law_that_was_stored_goes_on():
    ours, joint = both(90)
    again = ArmsGP(SUPPORTS, **VARIANCES)
    again.load_arrays(ours.to_arrays())
    alike(again, joint, abs=1e-11)
    assert again.n_observations == 90
    more, dense, values = observations(20, seed=5)
    again.add_batch(more, values)
    joint.add_batch(dense, values)
    alike(again, joint, abs=1e-11)


def test_stored_arrays_of_another_model_are_refused():
    kept = both(30)[0].to_arrays()
    for name in kept:
        with pytest.raises(InvalidData):
            ArmsGP(SUPPORTS, **VARIANCES).load_arrays({one: kept[one] for one in kept if one != name})
    for changed in ({"sizes": kept["sizes"] + 1}, {"mean": kept["mean"][:1]}, {"sizes": -kept["sizes"]}):
        with pytest.raises(InvalidData):
            ArmsGP(SUPPORTS, **VARIANCES).load_arrays({**kept, **changed})


def test_numbers_that_are_not_finite_change_nothing():
    ours, joint = both(20)
    for phi, value in ((np.full(3, np.nan), 1.0), (np.ones(3), np.inf), (np.full(3, 1e200), 1.0)):
        with pytest.raises(InvalidData), np.errstate(all="ignore"):
            ours.add(0, phi, value)
    with pytest.raises(InvalidData):
        ours.add_batch(Placed(np.zeros(2, dtype=np.int64), np.full((2, 3), np.nan)), np.ones(2))
    alike(ours, joint, abs=1e-11)


def test_an_observation_without_noise_a_thousand_times_over_keeps_a_law():
    ours = ArmsGP(SUPPORTS, prior_variance=1.0, noise_variance=1e-30)
    for _ in range(1000):
        ours.add(0, np.array([0.6, 0.0, 0.8]), 0.5)
    mean, sd = ours.moments(Placed(np.zeros(1, dtype=np.int64), np.array([[0.6, 0.0, 0.8]])))
    assert mean[0] == pytest.approx(0.5, abs=1e-6)
    assert 0.0 <= sd[0] < 1e-3
