"""What one user brings moves that user's own contribution and nothing else."""

import numpy as np
import pytest

from contracts.cases import BLOCKS, HORIZON, decision_set, every_policy, releasing_in_blocks, reward_of
from contracts.driving import ask, drive
from dpbandits.policy import Receipt
from internals import policy as internals

TARGET = 3


def drive_with(case, change, target):
    """Run to the horizon; `change` replaces the target's decision set, reward, or leaves the reward out."""
    policy = case.make()
    seen = internals.spy_on_coins(policy)
    chosen = []
    for t in range(HORIZON):
        candidates = decision_set(t)
        if t == target and change in ("set", "ties"):
            candidates = decision_set(500) if change == "set" else np.repeat(candidates[:1], 5, axis=0)
        decision = ask(policy, t, candidates)
        chosen.append(decision.index)
        if not (t == target and change == "missing"):
            reward = 1.0 if t == target and change == "reward" else reward_of(decision.action, t)
            policy.tell(decision.id, reward)
    return policy, chosen, seen


@every_policy
@pytest.mark.parametrize("target", [TARGET, BLOCKS[0] + 2], ids=["in the first block", "after a release"])
@pytest.mark.parametrize("change", ["set", "ties", "reward", "missing"])
def test_nobody_elses_public_draw_moves(case, change, target):
    _, chosen, seen = drive_with(case, "nothing", target)
    _, others, changed = drive_with(case, change, target)
    assert seen == changed
    if case.private and case.blocks:  # until its block is released, nothing can depend on the target at all
        before = [t for t in range(BLOCKS[0] if target < BLOCKS[0] else BLOCKS[1]) if t != target]
        assert [chosen[t] for t in before] == [others[t] for t in before]


def forced(case, missing=(), late=(), reward=None):
    """One candidate a round, so that actions cannot depend on releases."""
    policy = case.make()
    waiting = {}
    for t in range(HORIZON):
        decision = ask(policy, t, decision_set(t)[:1])
        if t in late:
            waiting[t] = decision
        elif t not in missing:
            value = reward if t == TARGET and reward is not None else reward_of(decision.action, t)
            policy.tell(decision.id, value)
    receipts = [policy.tell(decision.id, 0.5) for decision in waiting.values()]
    return policy, receipts


@releasing_in_blocks
def test_a_missing_or_late_reward_moves_its_own_block_only(case):
    whole, _ = forced(case)
    missing, _ = forced(case, missing=(TARGET,))
    late, receipts = forced(case, late=(TARGET,))
    assert receipts == [Receipt.LATE]
    np.testing.assert_array_equal(internals.raw_sums(missing), internals.raw_sums(late))
    np.testing.assert_array_equal(internals.drawn(missing), internals.drawn(late))
    assert not np.array_equal(internals.raw_sums(missing)[0], internals.raw_sums(whole)[0])
    np.testing.assert_array_equal(internals.raw_sums(missing)[1:], internals.raw_sums(whole)[1:])


@releasing_in_blocks
@pytest.mark.parametrize("change", [{"missing": (TARGET,)}, {"reward": 0.0}, {"reward": 1.0}])
def test_one_user_moves_all_releases_by_at_most_the_sensitivity(case, change):
    whole, _ = forced(case)
    changed, _ = forced(case, **change)
    moved = np.linalg.norm((internals.drawn(whole) - internals.drawn(changed)).astype(float))
    assert 0.0 < moved <= internals.mechanism(whole).sensitivity


@releasing_in_blocks
def test_a_reward_moves_its_own_contribution_and_no_one_elses(case):
    """Exactly, in integers: centring or scaling by anything from the data would move others too."""
    low, high, missing = (
        forced(case, reward=0.0)[0],
        forced(case, reward=1.0)[0],
        forced(case, missing=(TARGET,))[0],
    )
    features = low.features(decision_set(TARGET)[:1])

    def own(reward):
        return internals.mechanism(low).mechanism.encode(
            features, low.reward_range.to_centred(np.array([reward]))
        )

    for one, other, contribution in (
        (high, low, own(1.0) - own(0.0)),
        (high, missing, own(1.0)),
        (low, missing, own(0.0)),
    ):
        moved = internals.raw_sums(one) - internals.raw_sums(other)
        np.testing.assert_array_equal(moved[0], contribution)
        assert not moved[1:].any()


@releasing_in_blocks
def test_an_abandoned_decision_counts_like_a_missing_reward(case):
    missing, _ = forced(case, missing=(TARGET,))
    abandoned = case.make()
    for t in range(HORIZON):
        decision = ask(abandoned, t, decision_set(t)[:1])
        if t == TARGET:
            abandoned.abandon(decision.id)
        else:
            abandoned.tell(decision.id, reward_of(decision.action, t))
    np.testing.assert_array_equal(internals.drawn(missing), internals.drawn(abandoned))


@releasing_in_blocks
def test_nothing_is_released_before_its_block_is_over(case):
    policy = case.make()
    for block, end in enumerate(BLOCKS):
        drive(policy, policy.diagnostics()["rounds_asked"], end)
        assert len(policy.released) == block
        ask(policy, end)
        assert len(policy.released) == block + 1


@releasing_in_blocks
def test_a_reporting_delay_waits_for_rewards(case):
    policy = case.make(reporting_delay=4)
    waiting = [ask(policy, t) for t in range(BLOCKS[0] + 4)]
    assert all(policy.tell(decision.id, 0.5) is Receipt.COUNTED for decision in waiting)
    ask(policy, BLOCKS[0] + 4)
    assert len(policy.released) == 1
