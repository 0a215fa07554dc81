"""Weights that so many rounds cannot tell anything about keep their prior law; the others change little."""

import numpy as np
import pytest

from dpbandits.central import GPBandit, regression
from dpbandits.central.regression import (
    REWARD_VARIANCE,
    SPREADS,
    UNRESOLVED,
    posterior_from_releases,
    resolved,
)
from dpbandits.domains import Ball, Box, Finite
from dpbandits.models.features import MercerFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.prefix_sums import BlockRelease, square_root_toeplitz
from tuning import built

pytestmark = pytest.mark.numerics

PRIOR = 0.2
TWO = ((0, 20), (20, 40))
SQUARE = Box(low=[0.0, 0.0], high=[1.0, 1.0])


@pytest.mark.parametrize("rounds", [1.0, 24.0, 850.0, 1e6])
def test_what_is_left_makes_up_little_of_a_mean_of_all_rewards(rounds):
    largest = np.random.default_rng(3).permutation(np.geomspace(1e-12, 1.0, 60))
    among = resolved(largest, rounds=rounds)
    left = np.setdiff1d(np.arange(60), among)
    most = UNRESOLVED * REWARD_VARIANCE / rounds
    assert largest[left].sum() <= most < largest[left].sum() + largest[among].min()
    assert largest[left].max() < largest[among].min()
    assert (np.diff(among) > 0).all()


def test_features_that_are_all_alike_are_all_solved_for():
    assert len(resolved(np.full(100, 0.01), rounds=500.0)) == 100


class Made:
    """Releases of 40 features whose sizes are spread over many powers of two, in no order."""

    def __init__(self, *, supports=None, vector_only=False, blocks=4):
        rng = np.random.default_rng(11)
        self.sizes = np.full(blocks, 1200.0 / blocks)
        self.squares = np.random.default_rng(1).permutation(0.5 * 0.5 ** np.arange(40))
        self.release = BlockRelease(
            factor=square_root_toeplitz(blocks),
            mechanism=GramVectorMechanism(n_features=40, supports=supports, vector_only=vector_only),
            noise=SimulatedNoise(5),
            epsilon=40.0,
            delta=1e-6,
        )
        phi = np.sqrt(self.squares) * rng.uniform(-1.0, 1.0, (blocks, 1200 // blocks, 40))
        if supports is not None:  # a person's features are of one support
            phi[:, ::2, 20:] = phi[:, 1::2, :20] = 0.0
        rewards = 0.4 * np.tanh(phi @ rng.standard_normal(40))
        encode = self.release.mechanism.encode
        sums = np.stack([encode(*part) for part in zip(phi, rewards, strict=True)])
        self.released = np.stack([self.release.release(k, sums[: k + 1]) for k in range(blocks)])
        grams = np.swapaxes(phi, 1, 2) @ phi
        blocks = [grams[:, low:high, low:high] for low, high in self.release.mechanism.ranges]
        self.grams = np.concatenate([block.reshape(len(grams), -1) for block in blocks], axis=1)
        self.among = resolved(PRIOR * self.squares, rounds=1200.0)
        self.left = np.setdiff1d(np.arange(40), self.among)

    def law(self, largest=None):
        return posterior_from_releases(
            self.release,
            self.released,
            self.grams,
            block_sizes=self.sizes,
            prior_variance=PRIOR,
            supports=self.release.mechanism.ranges,
            largest=largest,
        )


@pytest.mark.parametrize(("vector_only", "off", "apart"), [(False, 1.0, 0.25), (True, 0.06, 0.01)])
@pytest.mark.parametrize("supports", [None, TWO])
def test_the_others_change_little(vector_only, off, apart, supports):
    """By no more than so many of their deviations, at points where all features are as large as they get."""
    made = Made(supports=supports, vector_only=vector_only, blocks=12)
    whole, found = made.law(), made.law(PRIOR * made.squares)
    among, left = made.among, made.left
    assert 5 < len(among) < 20
    assert 2 < np.count_nonzero(among < 20) < len(among) - 2
    np.testing.assert_array_equal(found.mean[left], 0.0)
    np.testing.assert_allclose(found.covariance[np.ix_(left, left)], PRIOR * np.eye(len(left)))
    np.testing.assert_array_equal(found.covariance[np.ix_(among, left)], 0.0)
    assert found.supports == whole.supports
    points = np.sqrt(made.squares) * np.random.default_rng(2).choice([-1.0, 1.0], (50, 40))
    if supports is not None:
        points[:25, :20] = points[25:, 20:] = 0.0
    (mean, spread), (less, less_spread) = whole.predict(points), found.predict(points)
    assert (np.abs(mean - less) / spread).max() < off
    assert np.abs(less_spread / spread - 1.0).max() < apart
    assert np.abs(found.mean[among]).max() > 0.3  # there was something to learn


def test_how_far_people_are_from_what_was_expected_is_found_in_what_was_released(monkeypatch):
    made = Made()
    largest = PRIOR * made.squares

    def trusted(spread):
        with monkeypatch.context() as one:
            one.setattr(regression, "SPREADS", (spread,))
            return made.law(largest).mean

    np.testing.assert_array_equal(made.law(largest).mean, trusted(SPREADS[0]))
    made.grams = made.grams + 100.0 * np.eye(40).ravel()  # other people were expected
    found = made.law(largest).mean
    assert any(np.array_equal(found, trusted(spread)) for spread in SPREADS[1:])


def test_a_support_of_which_nothing_is_resolved_keeps_its_prior():
    made = Made(supports=TWO)
    found = made.law(np.where(np.arange(40) < 20, 1.0, 1e-12))
    np.testing.assert_array_equal(found.mean[20:], 0.0)
    assert np.abs(found.mean[:20]).min() > 0.0
    np.testing.assert_allclose(found.covariance[20:, 20:], PRIOR * np.eye(20))


def test_where_nothing_is_resolved_the_prior_stands():
    found = Made().law(np.full(40, 1e-12))
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_allclose(found.covariance, PRIOR * np.eye(40))


def smooth(**changes):
    """Of 60 features of smooth functions, most are too small for so few rounds."""
    arguments = {
        "kernel": SquaredExponential(lengthscale=0.5),
        "n_features": 60,
        "domain": SQUARE,
        "reward_range": (0, 1),
        "horizon": 400,
        "release": "features",
        "privacy": JointDP(epsilon=2.0, delta=1e-6),
        "user_ids": False,
        "noise": SimulatedNoise(0),
    }
    given = {**arguments, **changes}
    return built(GPBandit, {name: value for name, value in given.items() if value is not None})


def driven(policy, rounds=200, seed=4):
    rng = np.random.default_rng(seed)
    points = policy.domain.sample(rounds * 5, rng).reshape(rounds, 5, -1)
    for low in range(0, rounds, 25):
        batch = policy.ask_batch(points[low : low + 25])
        policy.tell_batch(batch.ids, rng.random(25))
    policy.ask(points[0])
    return policy


def solved_for(policy):
    return np.flatnonzero(driven(policy).publish().posterior.mean)


WAYS = {
    "drawn sets": {},
    "public sets": {"decision_sets": "public"},
    "declared sets": {"public_decision_sets": np.full((3, 4, 2), 0.5)},
    "a fading past": {"forget": 200},
    "answers meanwhile": {"lag": 10},
    "a strong ridge": {"prior_variance": 1e-4, "thompson_scale": 0.0},
    "steep functions": {"prior_variance": 1.0},
}


@pytest.mark.parametrize("way", WAYS)
def test_a_policy_that_was_saved_finds_the_same(tmp_path, way):
    """What is solved for follows from public arguments alone."""
    policy = driven(smooth(**WAYS[way]))
    sets = np.random.default_rng(8).random((25, 5, 2))
    published = policy.publish()
    policy.save(tmp_path / "saved")
    again = GPBandit.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.publish().posterior.mean, published.posterior.mean)
    np.testing.assert_array_equal(again.ask_batch(sets).indices, policy.ask_batch(sets).indices)


def test_what_is_solved_for_is_a_matter_of_rounds_and_features():
    """Not of whom people are expected to be."""
    among = solved_for(smooth())
    assert 5 < len(among) < 30
    for way in ("public sets", "declared sets"):
        np.testing.assert_array_equal(solved_for(smooth(**WAYS[way])), among)
    features = smooth().features
    rows = features(SQUARE.sample(5_000, np.random.default_rng(1)))
    left = np.setdiff1d(np.arange(features.n_features), among)
    rounds = max(end for end in smooth().blocks if end <= 200)
    assert (PRIOR * features.scale**2 * rows[:, left] ** 2).sum(axis=1).max() <= REWARD_VARIANCE / rounds


class Half(MercerFeatures):
    """A map of somebody's own, of which only its owner knows how large it is."""

    def __call__(self, X):
        return 0.5 * super().__call__(X)


@pytest.mark.filterwarnings("ignore::dpbandits.models.features.LittleVariance")
@pytest.mark.parametrize(
    "changes",
    [
        {"n_features": 32},
        {"prior_variance": 0.19},
        {"domain": Ball(centre=[0.0, 0.0], radius=1.0)},
        {"domain": Finite(np.random.default_rng(0).random((80, 2)))},
        {"domain": Box(low=[0.0] * 4, high=[1.0] * 4)},
        {"kernel": None, "n_features": None, "features": Half},
    ],
    ids=["few features", "flat functions", "a ball", "points", "four columns", "a map of one's own"],
)
def test_elsewhere_all_are_solved_for(changes):
    if "features" in changes:
        own = Half(kernel=SquaredExponential(lengthscale=0.5), domain=SQUARE, n_features=40)
        changes = changes | {"features": own}
    policy = smooth(**changes)
    assert policy.features.n_features > 30
    assert len(solved_for(policy)) == policy.features.n_features
