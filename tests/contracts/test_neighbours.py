"""What one user brings moves that user's own contribution and nothing else."""

import contextlib
from functools import cache

import numpy as np
import pytest

from contracts.cases import (
    BLOCKS,
    CASES,
    HORIZON,
    decision_set,
    every_policy,
    mixing_blocks,
    releasing_in_blocks,
    reward_of,
)
from contracts.driving import ask, drive
from dpbandits.errors import InvalidData
from dpbandits.models.features import in_fixed_shapes
from dpbandits.policy import Receipt
from dpbandits.privacy.prefix_sums import identity
from internals import policy as internals

TARGET = 3
BAD_REWARDS = {"nothing told": None, "outside": 7.5}


def drive_with(case, change, target):
    """Run to the horizon; `change` replaces what the target brings, or leaves the reward out."""
    policy = case.make()
    seen = internals.spy_on_coins(policy)
    chosen = []
    for t in range(HORIZON):
        candidates = decision_set(t)
        if t == target and change in ("set", "ties"):
            candidates = decision_set(500) if change == "set" else np.repeat(candidates[:1], 5, axis=0)
        if t == target and change == "garbage":
            with pytest.raises(InvalidData):
                ask(policy, t, np.full((5, 2), np.nan))
            chosen.append(-1)
            continue
        decision = ask(policy, t, candidates)
        chosen.append(decision.index)
        if t == target and change in BAD_REWARDS:
            with contextlib.suppress(InvalidData):
                policy.tell(decision.id, BAD_REWARDS[change])
        elif not (t == target and change == "missing"):
            reward = 1.0 if t == target and change == "reward" else reward_of(decision.action, t)
            policy.tell(decision.id, reward)
    return policy, chosen, {draw: value for draw, value in seen.items() if draw[1] != target}


@cache
def undisturbed(case, target):
    """What everybody else is answered, and draws, where nothing changes."""
    return drive_with(case, "nothing", target)[1:]


@every_policy
@pytest.mark.parametrize("target", [TARGET, BLOCKS[0] + 2], ids=["in the first block", "after a release"])
@pytest.mark.parametrize("change", ["set", "ties", "reward", "missing", "garbage", *BAD_REWARDS])
def test_nobody_elses_public_draw_moves(case, change, target):
    chosen, seen = undisturbed(case, target)
    _, others, changed = drive_with(case, change, target)
    assert seen == changed
    if case.private and case.blocks:  # until its block is released, nothing can depend on the target at all
        before = [t for t in range(BLOCKS[0] if target < BLOCKS[0] else BLOCKS[1]) if t != target]
        assert [chosen[t] for t in before] == [others[t] for t in before]


@every_policy
@pytest.mark.parametrize("change", ["set", "ties"])
def test_in_batches_nobody_elses_public_draw_moves(case, change):
    """After a release, where rounds are asked together; in the later ones all candidates tie."""

    def driven(changed):
        policy, target = case.make(), BLOCKS[0] + 2
        drive(policy, 0, BLOCKS[0])
        seen, chosen = internals.spy_on_coins(policy), []
        for start in (BLOCKS[0], BLOCKS[0] + 6):
            rounds = range(start, start + 6)
            sets = np.stack([decision_set(t) for t in rounds])
            if target not in rounds:
                sets[:] = sets[:, :1]
            elif changed:
                sets[2] = decision_set(500) if change == "set" else sets[2, :1]
            users = [f"user-{t}" for t in rounds] if policy.user_ids else None
            decisions = policy.ask_batch(sets, users=users)
            policy.tell_batch(decisions.ids, [0.5] * 6)
            chosen += decisions.indices.tolist()
        others = {draw: value for draw, value in seen.items() if draw[1] != target}
        return others, chosen[:2] + chosen[3:]

    (seen, chosen), (others, changed) = driven(False), driven(True)
    assert seen == others
    if case.private and case.blocks:
        assert chosen == changed


def forced(case, missing=(), late=(), reward=None, garbage=()):
    """One candidate a round, so that actions cannot depend on releases."""
    policy = case.make()
    waiting = {}
    for t in range(HORIZON):
        if t in garbage:
            with pytest.raises(InvalidData):
                ask(policy, t, np.full((1, 2), np.inf))
            continue
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
    garbage, _ = forced(case, garbage=(TARGET,))
    np.testing.assert_array_equal(internals.raw_sums(missing), internals.raw_sums(garbage))
    if case.make().tuning.decision_sets == "private":
        np.testing.assert_array_equal(internals.drawn(missing), internals.drawn(garbage))
    assert not np.array_equal(internals.raw_sums(missing)[0], internals.raw_sums(whole)[0])
    if case.mixes:  # else what later blocks sum, and where, follows from the first release
        np.testing.assert_array_equal(internals.raw_sums(missing)[1:], internals.raw_sums(whole)[1:])


@mixing_blocks
@pytest.mark.parametrize("change", [{"missing": (TARGET,)}, {"reward": 0.0}, {"reward": 1.0}])
def test_one_user_moves_all_releases_by_at_most_the_sensitivity(case, change):
    whole, _ = forced(case)
    changed, _ = forced(case, **change)
    moved = np.linalg.norm((internals.drawn(whole) - internals.drawn(changed)).astype(float))
    assert 0.0 < moved <= internals.mechanism(whole).sensitivity


@mixing_blocks
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


def on_the_edge(features, n):
    """(n, 2) points of the square with a feature that the next float takes over a step of the lattice."""
    low, high = np.random.default_rng(0).random((2, n, 2))
    at = np.arange(n), np.arange(n) % min(6, features.n_features)

    def value(points):
        return features(points)[at] * 2.0**20

    step, rises = np.floor(0.5 * (value(low) + value(high))), value(low) <= value(high)
    for _ in range(80):
        middle = 0.5 * (low + high)
        before = ((value(middle) < step) == rises)[:, None]
        low, high = np.where(before, middle, low), np.where(before, high, middle)
    return high


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.private and case.blocks and case.mixes and not case.people],
    ids=repr,
)
def test_what_one_user_becomes_on_the_lattice_depends_on_nobody_else(case):
    """Each of some reports alone: their integers are those that they have among all."""

    def made():
        return case.make(blocks=(60,), n_features=20, factor=identity(1))

    points = on_the_edge(made().features, 61)

    def told_by(who):
        policy = made()
        ids = policy.ask_batch(points[:60, None], users=[f"user-{t}" for t in range(60)]).ids
        policy.tell_batch([ids[t] for t in who], np.ones(len(who)))
        ask(policy, 60, points[60:])
        return internals.raw_sums(policy)[0]

    some, encode = range(0, 60, 6), internals.mechanism(made()).mechanism.encode
    alone = [told_by([t]) for t in some]
    np.testing.assert_array_equal(np.sum(alone, axis=0), told_by(some))
    others = told_by([t for t in range(60) if t not in some])
    np.testing.assert_array_equal(np.sum(alone, axis=0) + others, told_by(range(60)))
    phi = in_fixed_shapes(made().features, points)
    for t, own in zip(some, alone, strict=True):
        np.testing.assert_array_equal(own, encode(phi[t : t + 1], np.array([0.5])))


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
