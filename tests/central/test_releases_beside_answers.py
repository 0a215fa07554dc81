"""Releases that are made beside the answers: decisions go by public indices, and never by time."""

import os
import threading
import time
from itertools import pairwise

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit
from dpbandits.policy import Receipt
from internals.noise import prepared
from internals.policy import at_every_draw, failing_posterior, raw_sums
from tuning import built

T = 64
RNG = np.random.default_rng(5)
SETS, REWARDS = RNG.random((T, 4, 2)), RNG.random((T, 4))


def policy(**changes):
    arguments = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "n_features": 6,
        "domain": dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0]),
        "reward_range": (0.0, 1.0),
        "horizon": T,
        "blocks": (8, 12, 30, 50),
        "lag": 6,
        "privacy": dpb.JointDP(epsilon=4.0, delta=1e-6),
        "noise": dpb.SimulatedNoise(3),
    }
    return built(GPBandit, arguments | changes)


def driven(one, edges):
    """Rows chosen in rounds asked in batches between these edges, every reward told at once."""
    chosen = []
    for low, high in pairwise(edges):
        decisions = one.ask_batch(SETS[low:high], users=list(range(low, high)))
        one.tell_batch(decisions.ids, REWARDS[np.arange(low, high), decisions.indices])
        chosen.extend(decisions.indices.tolist())
    return chosen


def test_decisions_depend_on_the_lag_and_not_on_time(monkeypatch):
    quick = policy()
    expected = driven(quick, range(T + 1))
    slow = policy()
    at_every_draw(monkeypatch, slow, lambda: time.sleep(0.1))
    assert driven(slow, range(T + 1)) == expected
    assert np.array_equal(slow.released, quick.released)
    assert policy().batch_boundaries == (14, 18, 36, 56)
    assert driven(policy(), [0, 14, 18, 36, 56, T]) == expected
    assert driven(policy(lag=0), range(T + 1)) != expected


def test_an_ask_does_not_wait_for_a_release_before_it_takes_effect(monkeypatch):
    late, go = policy(), threading.Event()
    at_every_draw(monkeypatch, late, lambda: go.wait(60))
    driven(late, range(9))
    late.ask_batch(SETS[8:12], users=list(range(8, 12)))
    late.ask_batch(SETS[12:14], users=[12, 13])  # the second block is due as well
    assert len(late.released) == 0
    go.set()
    late.ask(SETS[14], user=14)
    assert len(late.released) == 1


def test_a_reward_that_comes_after_its_block_was_begun_is_late(monkeypatch):
    one = policy()
    first = one.ask(SETS[0], user=0)
    driven(one, range(1, 9))
    one.ask(SETS[8], user="next")
    assert one.tell(first.id, 1.0) is Receipt.LATE


@pytest.mark.parametrize("failing", ["draw", "posterior"])
def test_what_fails_beside_the_answers_is_raised_by_the_next_ask_and_made_again(monkeypatch, failing):
    expected, one = policy(), policy()
    driven(expected, range(T + 1))
    driven(one, range(9))
    if failing == "draw":
        with monkeypatch.context() as patch:
            at_every_draw(patch, one, lambda: 1 / 0)
            one.ask(SETS[8], user="a")
            idle()
    else:
        with monkeypatch.context() as patch:
            failing_posterior(patch, one)
            one.ask(SETS[8], user="a")
            idle()
    asked = one.diagnostics()["rounds_asked"]
    with pytest.raises(ZeroDivisionError):
        one.ask(SETS[9], user="b")
    assert one.diagnostics()["rounds_asked"] == asked
    for t in range(9, 20):
        one.ask(SETS[t], user=f"u{t}")
    assert np.array_equal(one.released[0], expected.released[0])  # one draw, of the same rows
    assert one.noise.position == 2


def waiting_noise(source):
    """Draws that were prepared and not used."""
    return np.concatenate([np.zeros(0), *(block for blocks in prepared(source).values() for block in blocks)])


def idle():
    """Wait until nothing is made beside the answers."""
    deadline = time.monotonic() + 60.0
    while any("beside" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.001)


@pytest.mark.parametrize("cut", [7, 8, 9, 13, 14, 15, 33])
def test_a_policy_saved_with_a_release_under_way_goes_on_as_if_it_had_not_been(tmp_path, cut):
    expected = policy()
    chosen = driven(expected, range(T + 1))
    first = policy()
    driven(first, range(cut + 1))
    idle()
    first.save(tmp_path / "policy.state")
    again = GPBandit.load(tmp_path / "policy.state")
    assert driven(again, range(cut, T + 1)) == chosen[cut:]
    assert np.array_equal(again.released, expected.released)


def test_an_opened_folder_ends_blocks_where_they_had_ended(tmp_path):
    with GPBandit.open(tmp_path / "live", new=policy()) as first:
        missed = first.ask(SETS[0], user=0)
        driven(first, range(1, 9))
        first.ask(SETS[8], user="next")
        assert first.tell(missed.id, 1.0) is Receipt.LATE
        for t in range(9, 13):
            first.ask(SETS[t], user=f"u{t}")
    with GPBandit.open(tmp_path / "live") as again:
        for t in range(13, 16):
            again.ask(SETS[t], user=f"u{t}")
        released, sums = again.released, raw_sums(again)
    other = policy()
    other.ask(SETS[0], user=0)
    driven(other, range(1, 9))
    for t in range(8, 16):
        other.ask(SETS[t], user=f"u{t}")
    assert np.array_equal(raw_sums(other), sums)
    assert np.array_equal(other.released, released)


def test_secure_noise_is_drawn_ahead_and_used_once(monkeypatch):
    one, before = policy(lag=0, noise=dpb.SecureNoise()), {*threading.enumerate()}
    one.ask(SETS[0], user="first")
    idle()
    waiting = waiting_noise(one.noise)
    assert len(waiting) == 27  # what one release of six features takes
    driven(one, range(1, 9))
    one.ask(SETS[8], user="last")  # eight rounds were asked: the first release
    idle()
    fresh = waiting_noise(one.noise)
    assert len(fresh) == 27
    assert not np.array_equal(fresh, waiting)
    assert {*threading.enumerate()} <= before


def test_simulated_noise_has_no_thread():
    one = policy(lag=0)
    driven(one, range(T + 1))
    assert not any("beside" in thread.name for thread in threading.enumerate())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_no_noise_of_its_parent_and_ends():
    one = policy(noise=dpb.SecureNoise())
    one.ask(SETS[0], user="first")
    idle()
    child = os.fork()
    if child == 0:
        empty = len(waiting_noise(one.noise)) == 0
        try:
            one.ask(SETS[1], user="second")
        except dpb.errors.ForkedState:
            os._exit(0 if empty else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert len(waiting_noise(one.noise)) == 27
