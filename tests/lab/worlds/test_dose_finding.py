import numpy as np
import pytest

from dpbandits.central.logged.policy import ExploreThenCommit
from dpbandits.errors import InvalidParameter
from dpbandits.lab.worlds.dose_finding import DoseFinding, expected_response
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SimulatedNoise


def test_patients_follow_their_law_and_their_seed():
    world = DoseFinding(seed=3)
    people = world.patients(0, 20_000)
    counts = np.bincount(world.contexts.locate(people), minlength=world.contexts.size)
    expected = 20_000 * world.contexts.weights
    statistic = (((counts - expected) ** 2) / expected).sum()
    assert statistic < world.contexts.size + 5.5 * np.sqrt(2 * world.contexts.size) + 20
    assert np.array_equal(world.patients(5, 9), people[5:9])
    assert not np.array_equal(DoseFinding(seed=4).patients(0, 5), people[:5])


def test_rewards_scatter_around_the_mean_inside_the_range():
    world = DoseFinding(seed=1)
    doses = np.full(5000, 6.0)
    rewards, people = world.rewards(0, 5000, doses), world.patients(0, 5000)
    means = expected_response(doses, people[:, 0], people[:, 1])
    assert np.abs(rewards).max() <= 1.0
    assert abs((rewards - means).mean()) < 5.3 * 0.2 / np.sqrt(3 * 5000)
    assert np.array_equal(world.rewards(10, 20, doses[:10]), rewards[10:20])


def test_the_best_dose_depends_on_the_patient():
    doses = np.linspace(0, 10, 101)
    best = [
        doses[expected_response(doses, np.array(age), np.array(clearance)).argmax()]
        for age, clearance in ((85.0, 0.6), (85.0, 1.5), (25.0, 0.6))
    ]
    assert best[0] + 1.0 < best[1]
    assert best[0] + 1.0 < best[2]


def test_a_private_policy_beats_every_fixed_dose():
    world, rounds = DoseFinding(seed=2), 20_000
    usca = ExploreThenCommit(
        kernel=SquaredExponential(lengthscale=(0.25, 0.5, 0.53)),
        actions=world.actions,
        contexts=world.contexts,
        reward_range=world.reward_range,
        horizon=rounds,
        privacy=JointDP(epsilon=1.0, delta=1e-6, user_ids=False),
        noise=SimulatedNoise(2),
        seed=2,
    )
    doses = usca.explore(0, rounds)
    usca.learn(world.patients(0, rounds), doses, world.rewards(0, rounds, doses))
    held = np.arange(rounds, rounds + 4000)
    chosen = usca.publish().choose(world.patients(held[0], held[-1] + 1))
    private = world.losses(rounds, rounds + 4000, chosen).mean()
    fixed = [world.losses(rounds, rounds + 4000, np.full(4000, dose)).mean() for dose in range(40)]
    assert private < 0.6 * min(fixed)


def test_bad_parameters_are_refused():
    with pytest.raises(InvalidParameter):
        DoseFinding(seed=-1)
