"""LinUCB with a tree of noisy sums: its features, what a user moves, and that it learns."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.domains import Arms, Box, Product
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import LinearTree
from dpbandits.lab.baselines.linear_tree import LinearFeatures
from internals import policy as internals

DOMAIN = Product(Box(low=[0, -1], high=[1, 3]), Arms(3))


def test_features_are_linear_and_of_norm_at_most_one():
    features, rng = LinearFeatures(domain=DOMAIN), np.random.default_rng(0)
    points = DOMAIN.sample(500, rng)
    corners = np.array([[x, y, arm] for x in (0, 1) for y in (-1, 3) for arm in range(3)], dtype=float)
    phi = features(np.vstack([points, corners]))
    assert features.n_features == phi.shape[1] == 1 + 2 + 3
    assert np.linalg.norm(phi, axis=1).max() <= 1.0
    assert np.linalg.norm(phi[-12:], axis=1).min() > 1.0 - 1e-9  # no larger scale would do
    middle = features(0.5 * (corners[:3] + corners[-3:]))
    np.testing.assert_allclose(middle, 0.5 * (phi[-12:-9] + phi[-3:]))
    with pytest.raises(InvalidParameter, match="boxes and arms"):
        LinearFeatures(domain=dpb.domains.Ball(centre=[0, 0], radius=1.0))


def test_where_arms_are_last_each_has_weights_of_its_own():
    policy = LinearTree(domain=DOMAIN, reward_range=(0, 1), horizon=8, privacy=dpb.JointDP(1.0, 1e-6))
    assert policy.features.supports == ((0, 3), (3, 6), (6, 9))


def released(own):
    """Every node in the order of its release, where the users of rounds 0 and 2 bring and are told `own`."""
    policy = LinearTree(
        domain=Box(low=[-1], high=[1]),
        reward_range=(0.0, 1.0),
        horizon=8,
        privacy=dpb.JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=2),
        noise=dpb.SimulatedNoise(2),
    )
    mine, nodes = dict(zip((0, 2), own, strict=True)), []
    for t in range(8):
        point, reward = mine.get(t, (0.3, 0.5))
        decision = policy.ask([[point]], user="me" if t in mine else f"user-{t}")
        if t:  # the release of round t - 1, which completes the node of this level
            nodes.append(internals.kept_nodes(policy)[1][(t & -t).bit_length() - 1])
        policy.tell(decision.id, reward)
    return policy, np.concatenate(nodes).astype(float)


def test_a_user_moves_all_nodes_by_no_more_than_noise_is_scaled_to():
    """The noise is the same in both runs, so what differs is what the user moved."""
    policy, highest = released([(1.0, 1.0), (1.0, 1.0)])
    (record,) = policy.guarantee.mechanisms
    others = ([(1.0, 0.0)] * 2, [(-1.0, 1.0)] * 2, [(-1.0, 0.0)] * 2, [(0.0, 0.2), (1.0, 0.4)])
    moved = [np.linalg.norm(released(own)[1] - highest) for own in others]
    assert 0.3 * record.sensitivity < max(moved) <= record.sensitivity


def test_it_learns_a_line():
    policy = LinearTree(
        domain=Box(low=[-1], high=[1]),
        reward_range=(0.0, 1.0),
        horizon=1000,
        privacy=dpb.JointDP(epsilon=50.0, delta=1e-4, user_ids=False),
        noise=dpb.SimulatedNoise(0),
    )
    rng, chosen = np.random.default_rng(1), []
    for _ in range(1000):
        decision = policy.ask(rng.uniform(-1, 1, size=(2, 1)))
        policy.tell(decision.id, float(rng.random() < 0.5 + 0.5 * decision.action[0]))
        chosen.append(decision.action[0])
    # at random the mean is 0 with deviation .026; the better of two has 1/3
    assert np.mean(chosen[500:]) > 0.15
