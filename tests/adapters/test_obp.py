"""Open Bandit Pipeline's dict. Its package does not install on Python 3.11."""

import numpy as np
import pytest

import dpbandits as dpb
from adapters.people import ARMS, PROMISE, SHARED, contexts, paid, young_and_old
from dpbandits.adapters import obp
from dpbandits.errors import InvalidData


def feedback(n=400):
    people = contexts(n)
    actions = np.random.default_rng(1).integers(0, 3, n)
    return {
        "n_rounds": n,
        "n_actions": 3,
        "context": people,
        "action": actions,
        "position": None,
        "reward": paid(people, np.array(ARMS)[actions]),
        "pscore": np.full(n, 1 / 3),
    }


@pytest.mark.parametrize("release", [None, "features"])
def test_its_dict_is_a_log_for_explore_then_commit(release):
    log, tuning = feedback(4000), dpb.central.ExploreTuning(release=release)
    learned, same = (
        dpb.central.ExploreThenCommit(
            **SHARED, **PROMISE, horizon=4000, noise=dpb.SimulatedNoise(2), tuning=tuning
        )
        for _ in range(2)
    )
    obp.learn_from(learned, log)
    given = [ARMS[code] for code in log["action"]]
    same.learn(log["context"], given, log["reward"], propensities=log["pscore"])
    published, other = learned.publish(), same.publish()
    np.testing.assert_array_equal(
        published.predict(contexts(99, seed=3)), other.predict(contexts(99, seed=3))
    )
    kind = dpb.central.PublishedCells if release else dpb.central.PublishedPosterior
    assert type(published) is kind
    dist = obp.action_dist(published, [[90, 0], [5, 1]])
    assert dist.shape == (2, 3, 1)
    assert dist[:, :, 0].argmax(axis=1).tolist() == [ARMS.index("call"), ARMS.index("mail")]
    np.testing.assert_array_equal(dist.sum(axis=1), 1.0)


def test_a_log_that_is_another_is_refused_before_anything_is_read():
    policy = dpb.central.ExploreThenCommit(**SHARED, **PROMISE, horizon=400)
    log = feedback()
    with pytest.raises(InvalidData, match="'reward'"):
        obp.learn_from(policy, {name: value for name, value in log.items() if name != "reward"})
    with pytest.raises(InvalidData, match="position"):
        obp.learn_from(policy, log | {"position": np.zeros(399)})
    odd = log["action"].copy()
    odd[:3] = 7
    obp.learn_from(policy, log | {"action": odd})  # what is no arm counts nothing
    assert sum(policy.unsafe_left_out.values()) == 3


@pytest.mark.parametrize("place", [1, -1, np.nan])
def test_a_row_at_another_position_counts_nothing_and_refuses_nobody_elses(place):
    policy = dpb.central.ExploreThenCommit(**SHARED, **PROMISE, horizon=400)
    position = np.zeros(400)
    position[7] = place
    obp.learn_from(policy, feedback() | {"position": position})
    assert sum(policy.unsafe_left_out.values()) == 1


def test_a_world_gives_its_dict():
    log = obp.feedback_of(young_and_old(50), rounds=40)
    assert log["context"].shape == (40, 2)
    assert log["expected_reward"].shape == (40, 2)
    rows = np.arange(40)
    np.testing.assert_array_equal(log["reward"], log["expected_reward"][rows, log["action"]])
    np.testing.assert_allclose(log["pi_b"].sum(axis=1), 1.0)
