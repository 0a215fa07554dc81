"""Fresh noise in every block: no block is mixed with another, every noise is whole, and one is counted."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPTuning
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import BlockAggregation
from dpbandits.models.features import MercerFeatures
from dpbandits.privacy.prefix_sums import identity, square_root_toeplitz

DOMAIN = dpb.Box(low=[0], high=[1])
FEATURES = MercerFeatures(kernel=dpb.kernels.SquaredExponential(lengthscale=0.5), domain=DOMAIN, n_features=3)
both = pytest.mark.parametrize("release", ["features", "cells"])


def policy(release="features", **changes):
    arguments = {
        "domain": DOMAIN,
        "reward_range": (0.0, 1.0),
        "horizon": 60,
        "privacy": dpb.JointDP(epsilon=1.0, delta=1e-5, rounds_per_user=2),
        "noise": dpb.SimulatedNoise(5),
        "tuning": GPTuning(release=release, blocks=(10, 20, 40), features=FEATURES),
    }
    return BlockAggregation(**(arguments | changes))


def released(release, own=(0.9, 0.9), rewards=(1.0, 1.0), **changes):
    """Releases where the user of rounds 2 and 12 is offered `own` alone and is told `rewards`."""
    chooser, mine = (
        policy(release, **changes),
        dict(zip((2, 12), zip(own, rewards, strict=True), strict=True)),
    )
    for t in range(41):
        place, reward = mine.get(t, (t / 41, 0.3))
        decision = chooser.ask([[place]], user="me" if t in mine else f"user-{t}")
        chooser.tell(decision.id, reward)
    return chooser, chooser.released


def test_a_block_that_a_user_was_not_in_is_the_same():
    _, one = released("features")
    _, other = released("features", (0.1, 0.6), (0.0, 0.0))
    moved = np.abs(one - other).sum(axis=1)
    assert (moved[:2] > 0).all()
    assert moved[2] == 0  # nothing of earlier blocks is mixed into it


def test_a_user_moves_all_releases_by_no_more_than_noise_is_scaled_to():
    chooser, highest = released("features")
    (record,) = chooser.guarantee.mechanisms
    worst = 0.0
    for own, rewards in (((0.9, 0.9), (0.0, 0.0)), ((0.1, 0.1), (0.0, 0.0)), ((0.0, 1.0), (0.0, 1.0))):
        moved = float(np.linalg.norm(released("features", own, rewards)[1] - highest))
        worst = max(worst, moved)
        assert moved <= record.sensitivity
    assert worst > 0.2 * record.sensitivity


@both
def test_each_noise_is_whole_and_one_is_counted(release):
    """The variance of s noises is s times that of one; the guarantee and the stated scale do not change."""
    spread = []
    for noises in (1, 4):
        drawn = [
            released(release, noises=noises, noise=dpb.SimulatedNoise(seed))[1] for seed in range(100, 108)
        ]
        spread.append(np.var([one - np.mean(drawn, axis=0) for one in drawn]))
    # eight runs of 27 numbers or more: the ratio of variances is within a factor of two of 4
    assert 2.0 < spread[1] / spread[0] < 8.0
    one, four = (policy(release, noises=noises) for noises in (1, 4))
    assert one.guarantee.mechanisms == four.guarantee.mechanisms
    name = "vector_noise_sd" if release == "features" else "cell_noise_sd"
    assert four.diagnostics()[name] == pytest.approx(2.0 * one.diagnostics()[name])  # what is learned by


def test_a_run_that_was_saved_goes_on_with_as_many_noises(tmp_path):
    whole, part = policy(noises=3), policy(noises=3)
    for chooser in (whole, part):
        for t in range(15):
            chooser.tell(chooser.ask([[0.5]], user=t).id, 0.5)
    part.save(tmp_path / "state")
    again = BlockAggregation.load(tmp_path / "state")
    for chooser in (whole, again):
        for t in range(15, 41):
            chooser.ask([[0.5]], user=t)
    assert np.array_equal(whole.released, again.released)


def test_it_says_that_it_is_a_simulation():
    found = policy(noises=2).guarantee
    assert found.status == "simulated"
    assert "2 independent noises are added" in found.notes[-1]
    assert policy().tuning.factor.to_config() == identity(3).to_config()
    assert policy(tuning=GPTuning(features=FEATURES), horizon=1000).blocks == (62, 140, 236, 357, 509, 698)


@pytest.mark.parametrize(
    "changes",
    [
        {"noise": dpb.SecureNoise()},
        {"tuning": GPTuning(release="marginals")},
        {"tuning": GPTuning(features=FEATURES, blocks=(10, 20), factor=square_root_toeplitz(2))},
        {"noises": 17},
        {"horizon": 1 << 40},
    ],
    ids=repr,
)
def test_what_cannot_be_aggregated_is_refused(changes):
    with pytest.raises(InvalidParameter, match=r"noise|tuning|horizon"):
        policy(**changes)
