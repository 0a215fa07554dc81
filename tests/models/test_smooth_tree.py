"""Smooth functions on trees of bins: features against quadrature, posteriors against plain Gaussians."""

import numpy as np

from dpbandits.models.features.box import BoxFeatures
from dpbandits.models.trees.smooth import SmoothTree

FEATURES = BoxFeatures(dim=2, length=0.5, smooth_sd=0.25, constant_sd=0.3)


def assert_last_of_chain(mean, variance, phi, precision, observed, spread):
    """f_u = phi_u w + the steps down to u, as one Gaussian vector: its last entry, given what was told."""
    steps = np.cumsum(np.concatenate([[0.0], spread**2]))
    covariance = phi @ phi.T + np.minimum.outer(steps, steps)
    gain = covariance[-1] @ np.linalg.inv(covariance + np.diag(1 / precision))
    assert abs(mean[0, 0] - gain @ observed) < 1e-9
    assert abs(variance[0, 0] - (covariance[-1, -1] - gain @ covariance[-1])) < 1e-9


def test_features_of_a_box_are_means_over_it():
    low, high = np.array([[0.125, 0.5], [0.0, 0.0]]), np.array([[0.25, 1.0], [1.0, 1.0]])
    steps = (np.arange(400) + 0.5) / 400
    for box in range(2):
        axes = [low[box, c] + (high[box, c] - low[box, c]) * steps for c in range(2)]
        x, y = np.meshgrid(*axes, indexing="ij")
        points = np.stack([x.ravel(), y.ravel()], axis=1)
        tiny = FEATURES(points - 1e-5, points + 1e-5).mean(axis=0)
        assert np.abs(FEATURES(low[box : box + 1], high[box : box + 1])[0] - tiny).max() < 1e-5


def test_the_prior_has_the_stated_deviations_and_is_smooth():
    """Averaged over the cube and a margin of .2 about it, where every cosine has the same mean square."""
    axis = -0.2 + 1.4 * (np.arange(40) + 0.5) / 40
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    phi = FEATURES(points - 1e-6, points + 1e-6)
    assert np.allclose(phi[:, 0], 0.3)
    assert abs((phi[:, 1:] ** 2).sum(axis=1).mean() / 0.25**2 - 1) < 1e-6
    rough = BoxFeatures(dim=2, length=0.25, smooth_sd=0.25, constant_sd=0.3)
    step = np.array([0.1, 0.0])
    moves = [
        ((one(points + step - 1e-6, points + step + 1e-6) - one(points - 1e-6, points + 1e-6)) ** 2).sum()
        for one in (FEATURES, rough)
    ]
    assert 2.0 * moves[0] < moves[1]  # a shorter lengthscale moves more


def test_the_lowest_frequencies_are_kept_in_any_dimension():
    wide = BoxFeatures(dim=12, length=0.3, smooth_sd=0.25, constant_sd=0.3)
    assert wide.n_features == 64
    assert wide(np.zeros((1, 12)), np.ones((1, 12))).shape == (1, 64)
    flat = BoxFeatures(dim=2, length=50.0, smooth_sd=0.25, constant_sd=0.3)
    assert flat.n_features == 1
    assert np.allclose(flat(np.zeros((1, 2)), np.ones((1, 2))), 0.3)


def chain(depth, seed):
    """A root and its first children, one below the other; data in every node of the chain."""
    rng = np.random.default_rng(seed)
    low, high = np.zeros((1, 2)), np.ones((1, 2))
    boxes = [(low.copy(), high.copy())]
    for level in range(depth):
        high = high.copy()
        high[0, level % 2] /= 2
        boxes.append((low.copy(), high.copy()))
    phi = np.concatenate([FEATURES(*box) for box in boxes])
    return phi, rng.uniform(5, 200, depth + 1), rng.normal(0, 0.3, depth + 1), 0.2 / 2.0 ** np.arange(depth)


def test_along_a_path_the_posterior_is_the_plain_gaussian_one():
    phi, precision, observed, spread = chain(4, seed=1)
    tree = SmoothTree(phi[0], n_arms=1)
    leaf = 0
    for level in range(4):
        told = precision[level : level + 1, None]
        children = np.array([[2 * level + 1, 2 * level + 2]])
        other = phi[level + 1]  # the sibling's features do not matter: it has no data
        tree.split(
            np.array([leaf]),
            children,
            features=np.stack([phi[level + 1], other]),
            precision=told,
            moment=told * observed[level],
            spread=spread[level : level + 1],
        )
        leaf = int(children[0, 0])
    told = precision[4:, None]
    tree.update(np.array([leaf]), precision=told, moment=told * observed[4])
    mean, variance = tree.at(np.array([leaf]))

    assert_last_of_chain(mean, variance, phi, precision, observed, spread)


def test_what_is_handed_down_anew_is_what_other_data_had_handed_down_at_once():
    phi, precision, observed, spread = chain(4, seed=2)
    tree, generations, leaf = SmoothTree(phi[0], n_arms=1), [], 0
    told, moments = np.zeros((9, 1)), np.zeros((9, 1))
    for level in range(4):
        told[leaf], moments[leaf] = precision[level], precision[level] * observed[level]
        parents, children = np.array([leaf]), np.array([[2 * level + 1, 2 * level + 2]])
        generations.append((parents, children, spread[level : level + 1]))
        tree.split(
            parents,
            children,
            features=np.stack([phi[level + 1], phi[level + 1]]),
            precision=3.0 * told[parents],
            moment=-told[parents],
            spread=spread[level : level + 1],
        )
        leaf = int(children[0, 0])
    tree.hand_down(generations, told, moments)
    last = precision[4:, None]
    tree.update(np.array([leaf]), precision=last, moment=last * observed[4])
    mean, variance = tree.at(np.array([leaf]))
    assert_last_of_chain(mean, variance, phi, precision, observed, spread)


def test_arms_do_not_see_each_other_and_bins_do():
    tree = SmoothTree(FEATURES(np.zeros((1, 2)), np.ones((1, 2)))[0], n_arms=2)
    nothing = np.zeros((1, 2))
    low, high = np.array([[0.0, 0.0], [0.5, 0.0]]), np.array([[0.5, 1.0], [1.0, 1.0]])
    tree.split(
        np.array([0]),
        np.array([[1, 2]]),
        features=FEATURES(low, high),
        precision=nothing,
        moment=nothing,
        spread=np.array([0.1]),
    )
    before = tree.at(np.array([1, 2]))[1].copy()
    precision = np.array([[0.0, 0.0], [1e4, 0.0]])
    tree.update(np.array([1, 2]), precision=precision, moment=0.2 * precision)
    mean, variance = tree.at(np.array([1, 2]))
    assert mean[0, 0] > 0.05  # the first bin hears of the second
    assert variance[0, 0] < before[0, 0]
    assert np.array_equal(mean[:, 1], [0.0, 0.0])
    assert np.allclose(variance[:, 1], before[:, 1])
