"""The runner with the library's own policies."""

import numpy as np
import pytest

from dpbandits.central import GPBandit, GPTuning
from dpbandits.lab.baselines import Uniform
from dpbandits.lab.evaluation import repeat, report_seeds, run, summarise
from dpbandits.lab.worlds import synthetic_income
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import JointDP, SimulatedNoise
from reproduction.dubey2021.gap_world import three_hills


def uniform(environment, seed):
    return Uniform(domain=environment.domain, reward_range=environment.reward_range, seed=seed)


def test_random_choice_has_no_uplift():
    repetitions = repeat(
        uniform,
        lambda seed: synthetic_income(seed=seed, n_rows=500),
        name="uniform",
        seeds=report_seeds(1_000_000, 4),
    )
    row = summarise(repetitions)["uniform"]
    # 2,000 guesses with success probability 1/4; |z| < 5: false alarm below 6e-7.
    assert abs(row.uplift.mean) < 5 * np.sqrt(0.25 * 0.75 / 2000)
    assert row.regret.mean + 500 * row.reward.mean == pytest.approx(500)


def test_batches_at_its_own_boundaries_do_not_change_a_private_policy():
    environment = three_hills(seed=3, horizon=160)

    def policy():
        return GPBandit(
            domain=environment.domain,
            reward_range=environment.reward_range,
            kernel=SquaredExponential(lengthscale=1.0),
            tuning=GPTuning(n_features=16),
            horizon=environment.horizon,
            privacy=JointDP(epsilon=10.0, delta=1e-4, user_ids=False),
            noise=SimulatedNoise(3),
            seed=3,
        )

    together, alone = run(policy(), environment), run(policy(), environment, boundaries=range(1, 160))
    assert len(policy().batch_boundaries) < 20
    assert np.array_equal(together.rewards, alone.rewards)
    assert np.array_equal(together.regret, alone.regret)
