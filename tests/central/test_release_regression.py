"""Choosing how far to trust the public law, schedules, and an unknown horizon."""

import numpy as np
import pytest

from dpbandits.central import GPBandit, default_blocks
from dpbandits.central.regression import (
    SPREADS,
    likely_spread,
)
from dpbandits.central.schedule import open_ended_blocks
from dpbandits.domains import Box
from dpbandits.errors import InvalidData
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.prefix_sums import identity
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


def make(**changes):
    arguments = {
        "kernel": SquaredExponential(lengthscale=0.4),
        "n_features": 5,
        "domain": Box(low=[0.0], high=[1.0]),
        "reward_range": (0, 1),
        "horizon": 200,
        "privacy": JointDP(epsilon=2.0, delta=1e-6),
        "user_ids": False,
        "noise": SimulatedNoise(0),
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
