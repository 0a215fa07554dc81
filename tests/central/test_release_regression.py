"""Choosing how far to trust the public law, schedules, and an unknown horizon."""

import numpy as np
import pytest

from dpbandits.central import GPBandit, default_blocks
from dpbandits.central.regression import (
    SPREADS,
    likely_spread,
    posterior_from_releases,
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
