"""Rewards as they come: late, never, together, by rounds or by time; who is late moves nobody else."""

import json
import warnings
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from contracts.cases import BLOCKS, CASES, decision_set, every_policy, releasing_in_blocks, reward_of
from dpbandits.central import GPBandit, GPTuning
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter, UnknownDecision
from dpbandits.policy import Receipt
from dpbandits.state import read_state, write_state

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
[BLOCK_CASE] = [case for case in CASES if case.name == "block"]


def timed(**changes):
    return BLOCK_CASE.make(**{"reporting_delay": HOUR} | changes)


def ask(policy, t, at):
    return policy.ask(decision_set(t), f"user-{t}", at=at)


def released(policy):
    return len(policy.released)


# -- many at once, never, clicks ----------------------------------------------------------------------------


@every_policy
def test_several_decisions_are_abandoned_each_by_itself(case):
    policy = case.make()
    ids = policy.ask_batch(np.stack([decision_set(t) for t in range(4)]), [f"u-{t}" for t in range(4)]).ids
    policy.tell(ids[0], 0.5)
    with pytest.raises(UnknownDecision):
        policy.abandon_batch([ids[1], "nobody"])
    for one in (ids[1], 3, None):
        with pytest.raises(InvalidData, match="expected a sequence of decision ids"):
            policy.abandon_batch(one)
        with pytest.raises(InvalidData, match="expected a sequence of decision ids"):
            policy.tell_batch(one, [0.5])
    given = policy.abandon_batch([ids[0], ids[1], ids[2], ids[1]])
    assert given == (Receipt.REFUSED, Receipt.ABANDONED, Receipt.ABANDONED, Receipt.REFUSED)
    assert policy.pending == (ids[3],)


@every_policy
def test_clicks_are_rewards_as_they_are_and_nan_says_that_none_will_come(case):
    policy = case.make()
    ids = policy.ask_batch(np.stack([decision_set(t) for t in range(5)]), [f"u-{t}" for t in range(5)]).ids
    assert policy.tell(ids[0], True) is Receipt.COUNTED
    assert policy.tell(ids[1], np.False_) is Receipt.COUNTED
    counted, abandoned = Receipt.COUNTED, Receipt.ABANDONED
    assert policy.tell_batch(ids[2:], [True, np.nan, None]) == (counted, abandoned, abandoned)


@releasing_in_blocks
def test_that_a_reward_is_late_is_told_to_nobody_but_its_caller(case, caplog, capfd):
    """Who is late is private: no warning, no log, no stream, no number of it."""
    one, other = case.make(), case.make()
    late = []
    for policy in (one, other):
        first = policy.ask(decision_set(0), "user-0")
        for t in range(1, BLOCKS[0] + 2):
            policy.tell(policy.ask(decision_set(t), f"user-{t}").id, 0.5)
        late.append(first.id)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert one.tell(late[0], 1.0) is Receipt.LATE
    assert capfd.readouterr() == ("", "")
    assert caplog.text == ""
    assert one.diagnostics() == other.diagnostics()


# -- by time ------------------------------------------------------------------------------------------------


def test_a_release_waits_for_its_time_and_is_made_by_the_first_ask_after_it():
    policy = timed()
    waiting = [ask(policy, t, START + t * HOUR / 60).id for t in range(BLOCKS[0])]
    ended = START + (BLOCKS[0] - 1) * HOUR / 60
    ask(policy, 8, ended + HOUR - timedelta(seconds=1))
    assert released(policy) == 0
    assert all(policy.tell(one, 0.5) is Receipt.COUNTED for one in waiting[:-1])
    ask(policy, 9, ended + HOUR)
    assert released(policy) == 1
    assert policy.tell(waiting[-1], 0.5) is Receipt.LATE


def test_the_time_of_a_reward_decides_about_that_reward_alone():
    policy = timed()
    ids = [ask(policy, t, START).id for t in range(BLOCKS[0] + 1)]
    assert policy.tell(ids[0], 0.5, at=START + HOUR) is Receipt.COUNTED
    assert policy.tell(ids[1], 0.5, at=START + HOUR + timedelta(seconds=1)) is Receipt.LATE
    assert policy.tell(ids[BLOCKS[0]], 0.5, at=START + 5 * HOUR) is Receipt.COUNTED  # its block goes on
    times = [START, START + 2 * HOUR]
    assert policy.tell_batch(ids[2:4], [0.5, 0.5], at=times) == (Receipt.COUNTED, Receipt.LATE)
    assert policy.tell_batch(ids[3:5], [0.5, 0.5], at=START) == (Receipt.REFUSED, Receipt.COUNTED)
    ask(policy, 19, START + HOUR / 2)
    assert released(policy) == 0  # a reward's time makes no release
    ask(policy, 20, START + HOUR)
    assert released(policy) == 1


def test_a_late_reward_counts_as_one_that_never_came():
    runs = []
    for at in (START + 3 * HOUR, None):
        policy = timed()
        ids = [ask(policy, t, START).id for t in range(BLOCKS[0])]
        for t, one in enumerate(ids):
            if t == 3 and at is None:
                policy.abandon(one)
            else:
                policy.tell(one, reward_of(decision_set(t)[0], t), at=at if t == 3 else START)
        ask(policy, 20, START + 2 * HOUR)
        runs.append(policy.released)
    np.testing.assert_array_equal(*runs)


def test_times_are_datetimes_or_seconds_and_the_clock_never_goes_back():
    policy = timed()
    naive, seconds = START.replace(tzinfo=None), START.timestamp()
    for t in range(BLOCKS[0]):
        ask(policy, t, [START, naive, seconds, np.float64(seconds), seconds - 1e6][t % 5])
    ask(policy, 8, seconds + 3599)
    assert released(policy) == 0
    ask(policy, 9, naive + HOUR)
    assert released(policy) == 1


def test_without_a_time_the_wall_clock_is_meant():
    policy = timed(reporting_delay=timedelta(0))
    for t in range(BLOCKS[0] + 1):
        policy.ask(decision_set(t), f"user-{t}")
    assert released(policy) == 1
    waiting = timed()
    for t in range(BLOCKS[0] + 1):
        waiting.ask(decision_set(t), f"user-{t}")
    assert released(waiting) == 0


@pytest.mark.parametrize("wrong", ["noon", np.nan, np.inf, True, {}, timedelta(1), 1j], ids=repr)
def test_what_is_no_time_takes_nothing(wrong):
    policy = timed()
    first = ask(policy, 0, START)
    with pytest.raises(InvalidData, match=r"at is a .*, expected a datetime"):
        ask(policy, 1, wrong)
    with pytest.raises(InvalidData, match="at is a "):
        policy.tell(first.id, 0.5, at=wrong)
    with pytest.raises(InvalidData, match="has 2 times, expected one, or 1"):
        policy.tell_batch([first.id], [0.5], at=[START, START])
    assert policy.diagnostics()["rounds_asked"] == 1
    assert policy.tell(first.id, 0.5, at=START) is Receipt.COUNTED


def test_rounds_and_a_time_are_delays_and_nothing_else_is():
    for wrong in (-1, 0.5, "1h", timedelta(-1), None):
        with pytest.raises(InvalidParameter, match="reporting_delay"):
            GPTuning(reporting_delay=wrong)
    with pytest.raises(InvalidParameter, match="lag"):
        GPTuning(reporting_delay=HOUR, lag=3)
    policy = timed()
    assert GPBandit.from_config(json.loads(json.dumps(policy.to_config()))).tuning.reporting_delay == HOUR


def test_the_statement_says_whose_the_clock_is():
    policy = timed()
    [one] = [a for a in policy.guarantee.assumptions if "public clock" in a.text]
    assert not one.enforced
    assert "public clock" not in timed(reporting_delay=3).guarantee.explain()


# -- saved, and in a folder ---------------------------------------------------------------------------------


def test_times_are_kept_with_the_state(tmp_path):
    policy = timed()
    ids = [ask(policy, t, START).id for t in range(BLOCKS[0] + 1)]
    policy.save(tmp_path / "state")
    again = GPBandit.load(tmp_path / "state")
    assert again.tell(ids[0], 0.5, at=START + 2 * HOUR) is Receipt.LATE
    ask(again, 20, START + HOUR)
    assert released(again) == 1
    state = read_state(tmp_path / "state")
    write_state(
        tmp_path / "torn",
        state.__class__(**vars(state) | {"arrays": {**state.arrays, "deadlines": np.zeros(2)}}),
    )
    with pytest.raises(CorruptState):
        GPBandit.load(tmp_path / "torn")


def test_after_a_crash_a_release_waits_longer_and_no_less(tmp_path):
    policy = GPBandit.open(tmp_path / "home", new=timed())
    ids = [ask(policy, t, START).id for t in range(BLOCKS[0])]
    assert policy.tell(ids[0], 0.5, at=START + 2 * HOUR) is Receipt.LATE
    policy.close()
    again = GPBandit.open(tmp_path / "home")
    ask(again, 8, START + HOUR)  # when the block ended was not written down: it ends now
    assert released(again) == 0
    assert again.tell(ids[1], 0.5) is Receipt.COUNTED
    ask(again, 9, START + 2 * HOUR)
    assert released(again) == 1
