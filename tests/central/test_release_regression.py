"""Choosing how far to trust the public law, schedules, and an unknown horizon."""

import numpy as np
import pytest

from dpbandits.central import GPBandit, default_blocks
from dpbandits.central.regression import (
    SPREADS,
    UNRESOLVED,
    likely_spread,
    posterior_from_releases,
    resolved,
    taken_together,
)
from dpbandits.central.schedule import open_ended_blocks
from dpbandits.domains import Box
from dpbandits.errors import InvalidData
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.noisy_regression import posterior_from_block_statistics
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.prefix_sums import BlockRelease, identity, square_root_toeplitz
from tuning import built

SIZES = np.array([24.0, 40.0, 80.0, 160.0, 320.0])


@pytest.mark.parametrize("spread", SPREADS)
def test_the_likely_spread_is_the_true_one_where_noise_is_little(spread):
    deviations = np.random.default_rng(1).standard_normal((5, 78)) * (spread * SIZES)[:, None]
    assert likely_spread(deviations, 1e-4 * np.eye(5), SIZES) == spread


def test_where_noise_covers_everything_the_public_law_is_trusted():
    deviations = 500.0 * np.random.default_rng(2).standard_normal((5, 36))
    assert likely_spread(deviations, 500.0**2 * np.eye(5), SIZES) == SPREADS[0]


def test_statistics_that_are_not_finite_are_named():
    with pytest.raises(InvalidData, match="NaN"):
        likely_spread(np.full((5, 3), np.nan), np.eye(5), SIZES)


@pytest.mark.parametrize(
    ("blocks", "features", "apart"), [(20, 100, 20), (20, 140, 14), (20, 500, 8), (3, 500, 3)]
)
def test_blocks_are_summed_where_the_system_would_be_large(blocks, features, apart):
    rounds = np.diff((0, *default_blocks(10_000)))[:blocks].astype(float)
    together = taken_together(rounds, features)
    if apart == blocks:
        assert together is None
    else:
        assert sum(together) == blocks
        assert len(together) <= apart
        sums = np.add.reduceat(rounds, np.cumsum((0, *together[:-1])))
        assert np.all(sums[np.array(together) > 1] < 2.0 * rounds.sum() / apart)


def test_sums_are_regressed_on_where_they_are_asked_for():
    m, rng, sizes = 260, np.random.default_rng(7), np.full(10, 30.0)
    release = BlockRelease(
        factor=square_root_toeplitz(10),
        mechanism=GramVectorMechanism(n_features=m),
        noise=SimulatedNoise(0),
        epsilon=4.0,
        delta=1e-6,
    )
    phi = rng.standard_normal((10, 30, m)) / m
    sums = np.stack([release.mechanism.encode(part, rng.random(30) - 0.5) for part in phi])
    released = np.stack([release.release(k, sums[: k + 1]) for k in range(10)])
    grams = np.stack([30.0 * np.eye(m) / m**2] * 10)
    found = {
        regression: posterior_from_releases(
            release,
            released,
            grams,
            block_sizes=sizes,
            regression=regression,
            spread=0.1,
            prior_variance=0.2,
            supports=((0, m),),
        ).mean
        for regression in ("blocks", "sums")
    }
    noisy, vectors = release.mechanism.from_coordinates(release.block_estimates(released))
    expected = posterior_from_block_statistics(
        noisy,
        vectors,
        noise_covariance=release.factor.block_covariance(10),
        gram_noise_sd=release.gram_noise_sd,
        vector_noise_sd=release.vector_noise_sd,
        prior_variance=0.2,
        reward_variance=0.25,
        prior_grams=grams,
        prior_gram_sd=0.1 * sizes,
        together=taken_together(sizes, m),
    )
    np.testing.assert_allclose(found["sums"], expected.mean, atol=1e-12)
    assert np.abs(found["sums"] - found["blocks"]).max() > 1e-6 * np.abs(found["blocks"]).max()


def test_all_blocks_are_held_apart_unless_sums_are_asked_for():
    large = {
        "kernel": Matern(nu=1.5, lengthscale=0.4),
        "n_features": 12,
        "blocks": tuple(range(1, 199)),
    }
    assert make(**large).tuning.regression == "blocks"
    kept = make(**large, regression="sums")
    assert GPBandit.from_config(kept.to_config()).tuning.regression == "sums"


def make(**changes):
    arguments = {
        "kernel": SquaredExponential(lengthscale=0.4),
        "n_features": 5,
        "domain": Box(low=[0.0], high=[1.0]),
        "reward_range": (0, 1),
        "horizon": 200,
        "privacy": JointDP(epsilon=2.0, delta=1e-6),
        "noise": SimulatedNoise(0),
        "user_ids": False,
    }
    return built(GPBandit, {**arguments, **changes})


def test_unknown_horizon_spends_fresh_noise_in_every_block():
    policy = make(horizon=None)
    assert policy.blocks == open_ended_blocks(1 << 22)
    assert policy.tuning.factor == identity(len(policy.blocks))
    assert policy.guarantee.epsilon == 2.0
    rng = np.random.default_rng(0)
    for _ in range(4):
        batch = policy.ask_batch(rng.random((30, 4, 1)))
        policy.tell_batch(batch.ids, batch.actions[:, 0])
    assert len(policy.released) == 2  # blocks end at 24 and 54; the last ask came at round 90
    again = GPBandit.from_config(policy.to_config())
    assert again.to_config() == policy.to_config()


@pytest.mark.parametrize("horizon", [1, 2, 10, 300, 1024, 4096, 10_000, 1_000_000])
def test_schedules_exist_for_every_horizon(horizon):
    blocks = default_blocks(horizon)
    assert list(blocks) == sorted(set(blocks))
    assert blocks[0] >= 1
    assert blocks[-1] <= horizon


@pytest.mark.parametrize("rounds", [1.0, 24.0, 850.0, 1e6])
def test_what_is_left_unsolved_makes_up_little_of_a_mean_of_all_rewards(rounds):
    largest = np.random.default_rng(3).permutation(np.geomspace(1e-12, 1.0, 60))
    among = resolved(largest, rounds=rounds, variance_ratio=0.8)
    left = np.setdiff1d(np.arange(60), among)
    assert 0.8 * rounds * largest[left].sum() <= UNRESOLVED
    assert 0.8 * rounds * (largest[left].sum() + largest[among].min()) > UNRESOLVED
    assert largest[left].max() < largest[among].min()


def test_features_that_are_all_alike_are_all_solved_for():
    assert len(resolved(np.full(100, 0.01), rounds=500.0, variance_ratio=0.8)) == 100


def spread_out(*, supports=None, vector_only=False, K=4, m=40):
    """Releases of features whose sizes fall fast, and what `posterior_from_releases` takes of them."""
    rng, sizes = np.random.default_rng(11), np.full(K, 100.0)
    release = BlockRelease(
        factor=square_root_toeplitz(K),
        mechanism=GramVectorMechanism(n_features=m, supports=supports, vector_only=vector_only),
        noise=SimulatedNoise(5),
        epsilon=40.0,
        delta=1e-6,
    )
    deviations = np.sqrt(0.5 * 0.5 ** np.arange(m))
    phi = deviations * rng.uniform(-1.0, 1.0, (K, 100, m))
    if supports is not None:  # a person's features are of one support
        for low, high in supports:
            phi[:, low // 20 :: 2, :low] = phi[:, low // 20 :: 2, high:] = 0.0
    rewards = 0.4 * np.tanh(phi @ rng.standard_normal(m))
    sums = np.stack([release.mechanism.encode(*part) for part in zip(phi, rewards, strict=True)])
    released = np.stack([release.release(k, sums[: k + 1]) for k in range(K)])
    grams = np.swapaxes(phi, 1, 2) @ phi
    common = {
        "block_sizes": sizes,
        "regression": "blocks",
        "spread": "likely",
        "prior_variance": 0.2,
        "supports": release.mechanism.ranges,
    }
    return release, released, grams, common, deviations**2


@pytest.mark.parametrize("vector_only", [False, True])
@pytest.mark.parametrize("supports", [None, ((0, 20), (20, 40))])
@pytest.mark.parametrize("regression", ["blocks", "sums", "prefix"])
def test_what_is_not_solved_for_changes_the_others_little(vector_only, supports, regression):
    release, released, grams, common, largest = spread_out(supports=supports, vector_only=vector_only)
    common["regression"] = regression
    whole = posterior_from_releases(release, released, grams, **common)
    found = posterior_from_releases(release, released, grams, largest=largest, **common)
    among = resolved(largest, rounds=400.0, variance_ratio=0.8)
    left = np.setdiff1d(np.arange(40), among)
    assert 5 < len(among) < 20
    np.testing.assert_array_equal(found.mean[left], 0.0)
    np.testing.assert_allclose(found.covariance[np.ix_(left, left)], 0.2 * np.eye(len(left)))
    np.testing.assert_array_equal(found.covariance[np.ix_(among, left)], 0.0)
    assert found.supports == whole.supports
    # At points of features at their largest both laws say the same, to a part of what they leave open.
    points = np.sqrt(largest) * np.random.default_rng(2).choice([-1.0, 1.0], (50, 40))
    if supports is not None:
        points[:, 20:] = 0.0
    (mean, spread), (less, less_spread) = whole.predict(points), found.predict(points)
    assert np.abs(mean - less).max() < UNRESOLVED**0.5 * spread.min()
    assert np.abs(less_spread / spread - 1.0).max() < UNRESOLVED


def test_a_support_of_which_nothing_is_resolved_keeps_its_prior():
    supports = ((0, 20), (20, 40))
    release, released, grams, common, largest = spread_out(supports=supports)
    found = posterior_from_releases(release, released, grams, largest=largest, **common)
    np.testing.assert_array_equal(found.mean[20:], 0.0)
    assert np.abs(found.mean[:5]).min() > 0.0


def test_where_nothing_is_resolved_the_prior_stands():
    release, released, grams, common, _ = spread_out()
    found = posterior_from_releases(release, released, grams, largest=np.full(40, 1e-12), **common)
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_allclose(found.covariance, 0.2 * np.eye(40))


def smooth(**changes):
    """Of 60 features of smooth functions, most are too small for so few rounds."""
    wide = Box(low=[0.0, 0.0], high=[1.0, 1.0])
    given = {"kernel": SquaredExponential(lengthscale=0.5), "n_features": 60, "domain": wide, "horizon": 400}
    return make(**{**given, "release": "features", **changes})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"decision_sets": "public"},
        {"public_decision_sets": np.full((3, 4, 2), 0.5)},
    ],
    ids=["drawn", "public", "declared"],
)
def test_a_policy_with_many_features_goes_on_as_it_would_have(tmp_path, changes):
    """What is solved for follows from public arguments alone: a policy that was saved finds the same."""
    policy, rng = smooth(**changes), np.random.default_rng(4)
    sets, rewards = rng.random((200, 5, 2)), rng.random(200)
    for low in range(0, 200, 25):
        policy.tell_batch(policy.ask_batch(sets[low : low + 25]).ids, rewards[low : low + 25])
    published = policy.publish()
    among = np.flatnonzero(published.posterior.mean)
    assert 5 < len(among) < 45
    largest = (policy.features(policy.domain.sample(5_000, rng)) ** 2).max(axis=0)
    left = np.setdiff1d(np.arange(policy.features.n_features), among)
    assert largest[left].sum() * 200 * published.weight_variance / 0.25 < 1.5 * UNRESOLVED
    policy.save(tmp_path / "saved")
    again = GPBandit.load(tmp_path / "saved")
    np.testing.assert_array_equal(again.publish().posterior.mean, published.posterior.mean)
    np.testing.assert_array_equal(again.ask_batch(sets[:25]).indices, policy.ask_batch(sets[:25]).indices)


def test_with_few_features_all_are_solved_for():
    policy, rng = smooth(n_features=20), np.random.default_rng(4)
    policy.tell_batch(policy.ask_batch(rng.random((25, 5, 2))).ids, rng.random(25))
    policy.ask(rng.random((5, 2)))
    assert np.all(policy.publish().posterior.mean)
