"""DP-IMED and DP-KLUCB: their rate, their episodes, what a user moves, and that they find the best arm."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.lab.baselines import ArmEpisodes
from dpbandits.lab.baselines.arm_episodes import private_divergence
from internals import policy as internals

indices = pytest.mark.parametrize("index", ["imed", "kl-ucb"])


def policy(**changes):
    arguments = {
        "contexts": dpb.Schema(age=dpb.Range(0, 1)),
        "arms": ["a", "b", "c"],
        "horizon": 2000,
        "privacy": dpb.JointDP(epsilon=1.0, user_ids=False),
        "noise": dpb.SimulatedNoise(1),
    }
    return ArmEpisodes(**(arguments | changes))


def released(chooser):
    """(episodes, 3): arms, ends and noisy sums."""
    shape, content = internals.raw_arrays(chooser)["released"]
    return np.frombuffer(content, dtype=np.int64).reshape(shape)


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 4.0, 800.0])
def test_the_rate_is_the_least_sum_of_what_rewards_and_noise_pay(epsilon):
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 40))
    x[:2] = 0.0, 1.0
    z = x[:, None] + np.linspace(0.0, 1.0, 20_001) * (y - x)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        parts = [
            np.where(own > 0, own * np.log(own / of), 0.0)
            for own, of in ((z, y[:, None]), (1 - z, 1 - y[:, None]))
        ]
    least = (epsilon * np.abs(z - x[:, None]) + sum(parts)).min(axis=1)
    np.testing.assert_allclose(private_divergence(x, y, epsilon), least, rtol=1e-6, atol=1e-7)


@indices
def test_every_episode_has_as_many_rounds_as_its_arm_had(index):
    chooser, given = policy(index=index), []
    for t in range(200):
        decision = chooser.ask({"age": 0.5})
        given.append(decision.index)
        if t % 3:  # who does not report changes no episode
            chooser.tell(decision.id, float(decision.arm == "b"))
    had, start = np.zeros(3, dtype=int), 0
    for arm, end, _ in released(chooser):
        assert end - start == max(1, had[arm])
        assert set(given[start:end]) == {arm}
        had[arm], start = had[arm] + end - start, end
    assert (had > 0).all()


@indices
def test_the_best_arm_is_found(index):
    chooser, rng, right = policy(index=index, horizon=4000), np.random.default_rng(3), []
    for _ in range(4000):
        decision = chooser.ask({"age": rng.random()})
        chooser.tell(decision.id, float(rng.random() < (0.3, 0.8, 0.5)[decision.index]))
        right.append(decision.arm == "b")
    assert np.mean(right[2000:]) > 0.9
    mean, deviation = chooser.predict([{"age": 0.1}, {"age": 0.9}])
    assert np.array_equal(mean[0], mean[1])  # contexts change nothing
    assert abs(mean[0, 1] - 0.8) < 6 * deviation[0, 1] < 0.2


def sums_of(own, *, rounds_per_user=2, noise=5):
    """Releases where the user of rounds 2 and 9 is told `own`: there is one arm, so all paths are one."""
    chooser = policy(
        arms=["only"],
        horizon=40,
        privacy=dpb.JointDP(epsilon=1.0, rounds_per_user=rounds_per_user),
        noise=dpb.SimulatedNoise(noise),
    )
    mine = dict(zip((2, 9), own, strict=True))
    for t in range(33):
        decision = chooser.ask({"age": 0.5}, user="me" if t in mine else f"user-{t}")
        reward = mine.get(t, 0.3)
        if reward is not None:
            chooser.tell(decision.id, reward)
    return chooser, released(chooser)


def test_a_user_moves_all_releases_by_no_more_than_noise_is_scaled_to():
    """The noise is the same in both runs, so what differs is what the user moved."""
    chooser, highest = sums_of([1.0, 1.0])
    (record,) = chooser.guarantee.mechanisms
    assert (record.sensitivity, record.scale >= record.sensitivity) == (2 * 2**21, True)  # epsilon is 1
    assert highest[:, 1].tolist() == [1, 2, 4, 8, 16, 32]
    for own in ([0.0, 0.0], [0.0, None], [None, None], [0.2, 0.9]):
        other = sums_of(own)[1]
        assert np.array_equal(other[:, :2], highest[:, :2])
        moved = np.abs(other[:, 2] - highest[:, 2])
        assert 0 < moved.sum() <= record.sensitivity
        assert (moved.sum() - moved[2] - moved[4], moved.max() <= 2**21) == (0, True)
    assert np.abs(sums_of([0.0, 0.0])[1] - highest).sum() == record.sensitivity


def test_every_episode_has_noise_of_its_own_of_the_stated_scale():
    chooser, first = sums_of([0.3, 0.3])
    drawn = np.array([sums_of([0.3, 0.3], noise=100 + seed)[1][:, 2] - first[:, 2] for seed in range(40)])
    scale = chooser.guarantee.mechanisms[0].scale
    assert (drawn.std(axis=0) > 0.5 * np.sqrt(2.0) * scale).all()
    assert np.abs(np.corrcoef(drawn.T) - np.eye(6)).max() < 0.85  # independent: below 1e-9


def test_rounds_of_another_arm_count_nothing():
    """In the third episode its arm is never on offer: no reward of those rounds enters its sum."""

    def third(reward):
        chooser, played = policy(horizon=60), []
        for t in range(3):
            decision = chooser.ask({"age": 0.5}, available=played if t == 2 else None)
            chooser.tell(decision.id, reward if t == 2 else 0.5)
            played.append(decision.arm)
        chooser.ask({"age": 0.5})
        assert len(set(played)) == 2
        return released(chooser)

    low, high = third(0.0), third(1.0)
    assert len(low) == 3
    assert np.array_equal(low, high)


def test_it_promises_pure_epsilon_and_says_so():
    guarantee = policy(privacy=dpb.JointDP(epsilon=1.0, delta=1e-6)).guarantee
    assert (guarantee.definition.epsilon, guarantee.definition.delta) == (1.0, 0.0)
    assert (guarantee.status, guarantee.mechanisms[0].law) == ("simulated", "discrete Laplace")
    assert guarantee.mechanisms[0].name.startswith("centred rewards of the arm that an episode plays")
