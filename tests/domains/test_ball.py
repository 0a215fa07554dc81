"""`Ball`: membership, clipping, uniform draws, configs."""

import numpy as np
import pytest

from dpbandits import domains
from dpbandits.domains import Ball
from dpbandits.errors import InvalidData, InvalidParameter

DISC = Ball(centre=[1.0, -1.0], radius=2.0)


def test_membership_and_validation():
    inside = np.array([[[1.0, -1.0], [3.0, -1.0]]])
    assert DISC.contains(inside).all()
    assert DISC.validate(inside).shape == (1, 2, 2)
    with pytest.raises(InvalidData, match="outside"):
        DISC.validate([[3.1, -1.0]])
    with pytest.raises(InvalidData):
        DISC.validate([[np.nan, 0.0]])
    with pytest.raises(InvalidData):
        DISC.validate([[0.0]])


def test_clip_goes_to_the_nearest_point():
    clipped = DISC.clip([[1.0, 9.0], [1.5, -1.0]])
    assert clipped == pytest.approx(np.array([[1.0, 1.0], [1.5, -1.0]]))
    assert DISC.contains(clipped).all()


def test_samples_are_uniform():
    """10,000 points: the share within half the radius is a quarter, within 7 sds (.031)."""
    points = DISC.sample(10_000, np.random.default_rng(0))
    assert DISC.contains(points).all()
    distances = np.linalg.norm(points - [1.0, -1.0], axis=1)
    assert np.mean(distances < 1.0) == pytest.approx(0.25, abs=0.031)
    assert points.mean(axis=0) == pytest.approx([1.0, -1.0], abs=0.1)


def test_survives_its_config():
    again = domains.from_config(DISC.to_config())
    assert again == DISC
    assert hash(again) == hash(DISC)
    assert DISC != Ball(centre=[1.0, -1.0], radius=2.5)
    assert DISC.dim == 2
    assert DISC.bounding_box.high.tolist() == [3.0, 1.0]
    assert "radius=2" in repr(DISC)


@pytest.mark.parametrize("bad", [{"radius": 0.0}, {"radius": np.inf}, {"centre": [[0.0]]}, {"centre": []}])
def test_refuses_what_is_no_ball(bad):
    with pytest.raises(InvalidParameter):
        Ball(**({"centre": [0.0], "radius": 1.0} | bad))


def test_features_take_their_landmarks_inside():
    from dpbandits.models.features import MercerFeatures
    from dpbandits.models.kernels import SquaredExponential

    features = MercerFeatures(kernel=SquaredExponential(lengthscale=1.0), domain=DISC, n_features=9)
    assert DISC.contains(features.landmarks).all()
    assert len(features.landmarks) == 18
