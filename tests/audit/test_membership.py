import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.audit import Guesses, attack_reward
from dpbandits.central import GPBandit, GPTuning
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import FeatureGPUCB, Uniform
from dpbandits.lab.worlds import synthetic_income
from reproduction.dubey2021.gap_world import three_hills

WORLD = three_hills(seed=5, horizon=40)
KERNEL = dpb.kernels.SquaredExponential(lengthscale=1.0)
FEATURES = dpb.features.MercerFeatures(kernel=KERNEL, domain=WORLD.domain, n_features=6)


def private(epsilon, seeds=lambda _: 0):
    def make(trial):
        return GPBandit(
            domain=WORLD.domain,
            reward_range=WORLD.reward_range,
            horizon=40,
            privacy=dpb.JointDP(epsilon=epsilon, delta=1e-6),
            noise=dpb.SimulatedNoise(trial),
            seed=seeds(trial),
            tuning=GPTuning(blocks=[10], features=FEATURES),
        )

    return make


def non_private(_trial):
    return FeatureGPUCB(features=FEATURES, domain=WORLD.domain, reward_range=WORLD.reward_range)


def test_without_privacy_one_persons_reward_is_read_off():
    attack = attack_reward(non_private, WORLD, rounds=10, trials=40)
    assert attack.correct == attack.trials
    assert attack.bound == 1.0


@pytest.mark.parametrize("epsilon", [1.0, 6.0])
def test_a_guarantee_holds_against_the_same_attack(epsilon):
    attack = attack_reward(private(epsilon), WORLD, rounds=10, trials=100)
    # beyond the bound by five binomial standard deviations: probability below 3e-7
    assert attack.correct <= attack.trials * attack.bound + 5 * np.sqrt(attack.trials) / 2


def test_a_weak_promise_is_attacked_with_success():
    attack = attack_reward(private(20.0), WORLD, rounds=10, trials=200)
    assert attack.success > 0.75  # luck would need 50 of 200 heads to spare: below 1e-11


def test_the_prediction_for_contexts_and_arms_is_that_of_the_persons_own_arm():
    """Read off what is published: a date or a category among the contexts is no hindrance."""
    world, policies = synthetic_income(seed=1, n_rows=200), []

    def make(trial):
        policies.append(
            GPBandit(
                contexts=world.schema, arms=world.arms.labels, reward_range=(0, 1), horizon=200,
                privacy=dpb.JointDP(epsilon=1, delta=1e-6), noise=dpb.SimulatedNoise(trial),
                tuning=GPTuning(release="marginals", blocks=[20]),
            )
        )  # fmt: skip
        return policies[-1]

    attack = attack_reward(make, world, rounds=20, trials=20)
    assert attack.bound < 1.0
    assert len(policies) == 41
    # what an attacker compares is what the policy says of the first person's arm, and of no other
    frame = {"age": [30.0], "education": [12.0], "gender": ["female"], "region": ["South"]}
    first = policies[1]
    point = np.append(first.menu.encode(frame)[0], 2.0)
    assert first.publish().at_points(point[None])[0][0] == pytest.approx(first.predict(frame)[0][0, 2])


def test_luck_alone_is_half():
    attack = attack_reward(
        lambda _: Uniform(domain=WORLD.domain, reward_range=WORLD.reward_range), WORLD, rounds=10, trials=400
    )
    assert abs(attack.success - 0.5) < 0.125  # five standard deviations


class Counted:
    """A world that counts how often it is asked."""

    horizon, reward_range = WORLD.horizon, WORLD.reward_range

    def __init__(self):
        self.asked = []

    def decision_sets(self, start, stop):
        self.asked.append("sets")
        return WORLD.decision_sets(start, stop)

    def rewards(self, start, stop, indices):
        self.asked.append("rewards")
        return WORLD.rewards(start, stop, indices)


def test_the_people_are_made_once_for_all_trials():
    world = Counted()
    assert attack_reward(private(1.0), world, rounds=10, trials=12) == attack_reward(
        private(1.0), WORLD, rounds=10, trials=12
    )
    assert sorted(world.asked) == ["rewards", "sets", "sets"]


def test_policies_that_answer_otherwise_are_paid_otherwise():
    world = Counted()
    attack_reward(private(1.0, seeds=lambda trial: trial), world, rounds=10, trials=5)
    assert world.asked.count("rewards") == 10


def test_a_policy_without_noise_is_run_once_for_either_reward():
    made = []
    attack = attack_reward(
        lambda trial: made.append(trial) or non_private(trial), WORLD, rounds=10, trials=4000
    )
    assert (attack.trials, attack.correct) == (4000, 4000)
    assert len(made) == 3  # two, and the one that says what is promised


def test_trials_that_are_run_apart_are_the_same_trials():
    """In as many parts as there are, in whatever process; the guesses are those of one after another."""
    calls = []

    def run(parts):
        calls.extend(parts)
        return reversed([part() for part in reversed(parts)])

    apart = attack_reward(private(1.0), WORLD, rounds=10, trials=25, run=run)
    assert apart == attack_reward(private(1.0), WORLD, rounds=10, trials=25)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "arguments", [{"rounds": 0}, {"rounds": 40}, {"rounds": 10, "target": 10}, {"rounds": 10, "trials": 1}]
)
def test_impossible_attacks_are_refused(arguments):
    with pytest.raises(InvalidParameter):
        attack_reward(non_private, WORLD, **arguments)


def test_the_standard_error_is_binomial():
    attack = Guesses(trials=100, correct=80, bound=0.9)
    assert attack.success == 0.8
    assert attack.standard_error == pytest.approx(0.04)
