"""The crude private ridge: its features, and its sensitivity."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines.private_ridge import QuadraticFeatures
from dpbandits.privacy.gram_vector import GramVectorMechanism, joint_sensitivity

PEOPLE = dpb.domains.Product(dpb.Box(low=[0, -1], high=[1, 3]), dpb.Arms(3))


def test_features_are_every_square_and_product_with_norm_at_most_one():
    features = QuadraticFeatures(domain=PEOPLE)
    points = PEOPLE.sample(500, np.random.default_rng(0))
    phi = features(points)
    assert features.n_features == 1 + 5 + (3 + 6)  # three of two ranges, two times three with the category
    assert (np.linalg.norm(phi, axis=1) <= 1.0).all()
    corner = features([[1.0, 3.0, 0.0]])
    # the symmetric square's norm, less the category's square, which repeats the indicator: (4 - 1/9)/4
    assert (corner**2).sum() == pytest.approx((4.0 - 1.0 / 9.0) / 4.0)


def test_features_are_of_boxes_and_arms_only():
    with pytest.raises(InvalidParameter, match="boxes and arms"):
        QuadraticFeatures(domain=dpb.domains.Ball(centre=[0, 0], radius=1.0))


def test_the_sensitivity_of_the_proof_is_reached_and_never_exceeded():
    rng = np.random.default_rng(1)
    mechanism = GramVectorMechanism(n_features=2, ratio=1.0)

    def moved(phi, z, psi, y):
        one = mechanism.to_coordinates(mechanism.encode(np.array([phi]), np.array([0.5 * z])))
        other = mechanism.to_coordinates(mechanism.encode(np.array([psi]), np.array([0.5 * y])))
        return float(np.linalg.norm(one - other))

    assert joint_sensitivity(1.0) == pytest.approx(3.0 / np.sqrt(2.0))
    worst = moved((1.0, 0.0), 1.0, (0.5, np.sqrt(0.75)), -1.0)  # phi.psi = 1/2 and opposite rewards
    assert worst == pytest.approx(3.0 / np.sqrt(2.0), abs=1e-5)
    drawn = rng.normal(size=(2000, 2, 2))
    drawn /= np.maximum(1.0, np.linalg.norm(drawn, axis=2, keepdims=True))
    rewards = rng.uniform(-1, 1, (2000, 2))
    assert max(moved(p, z, q, y) for (p, q), (z, y) in zip(drawn, rewards, strict=True)) <= worst + 1e-6
