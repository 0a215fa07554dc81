"""Open Bandit Pipeline's dict and its policy interface. It does not install on Python 3.11."""

import enum
import pickle

import numpy as np
import pytest

import dpbandits as dpb
from adapters.people import ARMS, PROMISE, SHARED, block, contexts, paid, young_and_old
from dpbandits.adapters import obp
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError


class PolicyType(enum.Enum):
    """As `obp.policy.policy_type` has it."""

    CONTEXT_FREE = 0
    CONTEXTUAL = 1
    OFFLINE = 2


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


def replay(log, policy):
    """What `obp.simulator.run_bandit_replay` does: rewards of matching actions only."""
    selected = []
    for action, reward, context in zip(log["action"], log["reward"], log["context"], strict=True):
        assert policy.policy_type != PolicyType.CONTEXT_FREE
        assert policy.policy_type == PolicyType.CONTEXTUAL
        selected.append(policy.select_action(context.reshape(1, -1)))
        if action == selected[-1][0]:
            policy.update_params(action=action, reward=reward, context=context.reshape(1, -1))
    return np.array(selected)


def test_a_replay_takes_a_round_a_row_and_learns_from_matches_only():
    """The rounds' blocks follow the asks: how many rewards came moves nobody."""
    inner, log = block(), feedback(100)
    policy = obp.OnlinePolicy(inner)
    selected = replay(log, policy)
    assert selected.shape == (100, 1)
    assert inner.diagnostics()["rounds_asked"] == 100
    assert len(inner.pending) <= 1  # a round without a reward is over at the next
    assert (policy.n_actions, policy.dim, policy.len_list, policy.batch_size) == (3, 2, 1, 1)
    assert policy.policy_name == type(inner).__name__
    assert policy.policy_type == "contextual"  # as older versions name it


def test_a_reward_is_of_the_last_selection_and_told_once():
    policy, person, other = obp.OnlinePolicy(block()), contexts(2)[:1], contexts(2)[1:]
    with pytest.raises(ProtocolError, match="select one first"):
        policy.update_params(action=0, reward=1.0, context=person)
    [action] = policy.select_action(person)
    for wrong in ((1 - min(action, 1), person), (action, other)):
        with pytest.raises(InvalidData, match="selected last"):
            policy.update_params(action=wrong[0], reward=1.0, context=wrong[1])
    policy.update_params(action=action, reward=1.0, context=person)
    with pytest.raises(ProtocolError):
        policy.update_params(action=action, reward=1.0, context=person)
    for refused in (policy.initialize, lambda: pickle.dumps(policy)):
        with pytest.raises(ProtocolError):
            refused()
    with pytest.raises(InvalidParameter, match="user_ids=False"):
        obp.OnlinePolicy(block(user_ids=True))


def test_its_dict_is_a_log_for_explore_then_commit():
    log = feedback(4000)
    learned, same = (
        dpb.central.ExploreThenCommit(
            **SHARED, **PROMISE, horizon=4000, user_ids=False, noise=dpb.SimulatedNoise(2)
        )
        for _ in range(2)
    )
    obp.learn(learned, log)
    given = [ARMS[code] for code in log["action"]]
    same.learn(log["context"], given, log["reward"], propensities=log["pscore"])
    published = learned.publish()
    np.testing.assert_array_equal(published.mean, same.publish().mean)
    dist = obp.action_dist(published, [[90, 0], [5, 1]])
    assert dist.shape == (2, 3, 1)
    assert dist[:, :, 0].argmax(axis=1).tolist() == [ARMS.index("call"), ARMS.index("mail")]
    np.testing.assert_array_equal(dist.sum(axis=1), 1.0)


def test_a_log_that_is_another_is_refused_before_anything_is_read():
    policy = dpb.central.ExploreThenCommit(**SHARED, **PROMISE, horizon=400, user_ids=False)
    log = feedback()
    with pytest.raises(InvalidData, match="'reward'"):
        obp.learn(policy, {name: value for name, value in log.items() if name != "reward"})
    with pytest.raises(InvalidData, match="position"):
        obp.learn(policy, log | {"position": np.zeros(399)})
    odd = log["action"].copy()
    odd[:3] = 7
    obp.learn(policy, log | {"action": odd})  # what is no arm counts nothing
    assert sum(policy.unsafe_left_out.values()) == 3


@pytest.mark.parametrize("place", [1, -1, np.nan])
def test_a_row_at_another_position_counts_nothing_and_refuses_nobody_elses(place):
    policy = dpb.central.ExploreThenCommit(**SHARED, **PROMISE, horizon=400, user_ids=False)
    position = np.zeros(400)
    position[7] = place
    obp.learn(policy, feedback() | {"position": position})
    assert sum(policy.unsafe_left_out.values()) == 1


def test_a_world_gives_its_dict():
    log = obp.feedback_of(young_and_old(50), rounds=40)
    assert log["context"].shape == (40, 2)
    assert log["expected_reward"].shape == (40, 2)
    rows = np.arange(40)
    np.testing.assert_array_equal(log["reward"], log["expected_reward"][rows, log["action"]])
    np.testing.assert_allclose(log["pi_b"].sum(axis=1), 1.0)
