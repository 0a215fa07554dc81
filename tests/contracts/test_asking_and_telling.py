import html
import re
import threading
import time

import numpy as np
import pandas as pd
import pytest

from contracts.cases import (
    HORIZON,
    counting_users,
    decision_set,
    every_policy,
    learning,
    not_learning,
    of_candidates,
    reward_of,
    to_predict,
)
from contracts.driving import ask, drive, step, warm
from dpbandits.domains import Box
from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    HorizonExceeded,
    InvalidData,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.policy import Receipt
from dpbandits.policy.bookkeeping import RoundStatus
from internals import policy as internals


@every_policy
def test_a_decision_is_one_of_the_candidates(case):
    policy = case.make()
    for round_index in range(HORIZON):
        candidates = decision_set(round_index)
        decision = ask(policy, round_index)
        assert np.array_equal(decision.action, candidates[decision.index])
        assert decision.propensity is None or 0.0 < decision.propensity <= 1.0
        assert policy.tell(decision.id, reward_of(decision.action, round_index)) is Receipt.COUNTED


@every_policy
def test_a_user_may_stand_after_what_was_brought(case):
    named, placed = case.make(), case.make()
    by_name = named.ask(decision_set(0), user=0), named.ask_batch(decision_set(1)[None], users=[1])
    in_place = placed.ask(decision_set(0), 0), placed.ask_batch(decision_set(1)[None], [1])
    assert [one.index for one in (by_name[0], by_name[1][0])] == [in_place[0].index, in_place[1].indices[0]]


@every_policy
def test_it_shows_its_promise_and_public_numbers(case):
    policy = case.make()
    drive(policy, 0, 3)
    promise = f"epsilon={policy.privacy.epsilon!r}, delta={policy.privacy.delta!r}, " if case.private else ""
    assert repr(policy).startswith(f"{type(policy).__name__}({promise}horizon={HORIZON}, asked=3, lineage=")
    shown = internals.shown_in_a_notebook(policy)
    assert html.escape(policy.guarantee.explain()) in shown
    assert html.escape(repr(policy)) in shown
    assert shown.count("<") == len(
        re.findall('</?(?:code|details|summary|pre)(?: style="[a-z: -]+")?>', shown)
    )


@every_policy
def test_calls_out_of_order_change_nothing(case):
    policy = case.make()
    with pytest.raises(UnknownDecision):
        policy.tell("no-such-decision", 0.5)
    told, given_up, waiting = (ask(policy, round_index) for round_index in range(3))
    policy.tell(told.id, 0.5)
    policy.abandon(given_up.id)
    before = internals.fingerprint(policy)
    for decision in (told, given_up):
        with pytest.raises(AlreadyTold):
            policy.tell(decision.id, 0.5)
        with pytest.raises(AlreadyTold):
            policy.abandon(decision.id)
    again = policy.tell_batch([told.id, given_up.id], [0.5, None])
    assert again == (Receipt.REFUSED, Receipt.REFUSED)
    with pytest.raises(UnknownDecision):
        policy.tell_batch([waiting.id, case.make().ask(decision_set(0), user="u").id], np.array([0.1, 0.2]))
    with pytest.raises(ProtocolError):
        policy.warm_start(decision_set(0), np.full(5, 0.5))
    assert policy.pending == (waiting.id,)
    assert internals.fingerprint(policy) == before


@every_policy
def test_the_horizon_is_kept(case):
    policy = case.make()
    drive(policy, 0, HORIZON - 1)
    before = internals.fingerprint(policy)
    with pytest.raises(HorizonExceeded):
        policy.ask_batch(np.stack([decision_set(0)] * 2), users=["a", "b"])
    assert internals.fingerprint(policy) == before
    step(policy, HORIZON - 1)
    with pytest.raises(HorizonExceeded):
        ask(policy, HORIZON)


@counting_users
def test_a_user_takes_part_as_often_as_was_promised(case):
    policy = case.make()
    step(policy, 0)
    before = internals.fingerprint(policy)
    with pytest.raises(ContributionExceeded):
        step(policy, 0)
    assert internals.fingerprint(policy) == before
    batch = policy.ask_batch(np.stack([decision_set(1)] * 3), users=["twice", "twice", "once"])
    assert batch.refused.tolist() == [False, True, False]  # a visitor too many is refused alone
    assert policy.diagnostics()["rounds_asked"] == 4
    assert policy.tell_batch(batch.ids, [0.5] * 3)[1] is Receipt.REFUSED


class Name(str):
    __slots__ = ()

    def __str__(self):
        return "hidden"


@counting_users
@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("u", Name("u")),
        ("u", np.str_("u")),
        (7, np.int64(7)),
        (7, RoundStatus(1) + 6),
        (1, RoundStatus(1)),
        (51624, "51624"),
        ("51624", b"51624"),
        (51624, " 51624 "),
        (np.int64(51624), np.bytes_(b"51624")),
    ],
    ids=["subclass", "numpy text", "numpy", "integer", "member", "text", "bytes", "blanks", "numpy bytes"],
)
def test_equal_ids_are_one_user(case, one, same):
    policy = case.make()
    policy.ask(decision_set(0), user=one)
    with pytest.raises(ContributionExceeded):
        policy.ask(decision_set(1), user=same)


@counting_users
@pytest.mark.parametrize(
    "nobody",
    [
        None,
        float("nan"),
        np.float64("nan"),
        np.datetime64("NaT"),
        pd.NA,
        "",
        "\u200b",
        b"",
        float("inf"),
        ["u"],
    ],
    ids=["none", "nan", "numpy nan", "nat", "pandas", "empty", "unseen", "bytes", "infinite", "list"],
)
def test_who_has_no_id_is_refused_alone(case, nobody):
    policy = case.make()
    before = internals.fingerprint(policy)
    with pytest.raises(InvalidData):
        policy.ask(decision_set(0), user=nobody)
    assert internals.fingerprint(policy) == before
    batch = policy.ask_batch(np.stack([decision_set(0)] * 2), users=[nobody, "u"])
    assert batch.refused.tolist() == [True, False]
    with pytest.raises(InvalidData):
        policy.ask(decision_set(0), user=True)


@every_policy
def test_any_text_is_an_id(case):
    policy = case.make()
    policy.ask(decision_set(0), user="\ud800" if policy.user_ids else None)


@counting_users
def test_threads_take_turns(case, monkeypatch):
    policy = case.make()
    drive(policy, 0, 8)
    check = internals.book(policy).check_open

    def slow_check(*arguments, **options):
        digests = check(*arguments, **options)
        time.sleep(0.01)  # lets the other threads in, if anything does
        return digests

    monkeypatch.setattr(internals.book(policy), "check_open", slow_check)
    outcomes = []

    def contend():
        try:
            outcomes.append(policy.ask(decision_set(8), user="everywhere").id)
        except ContributionExceeded:
            outcomes.append(None)

    threads = [threading.Thread(target=contend) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome is None for outcome in outcomes) == [False, True, True, True]


NAN_ROW = decision_set(0).copy()
NAN_ROW[2, 1] = np.nan
INFINITE_ROW = decision_set(0).copy()
INFINITE_ROW[0, 0] = np.inf


@of_candidates
@pytest.mark.parametrize(
    "candidates",
    [
        decision_set(0)[:, :1],
        decision_set(0)[0],
        np.zeros((2, 3, 2)),
        object(),
    ],
    ids=["columns", "1-d", "3-d", "object"],
)
def test_candidates_that_were_sent_wrongly_are_refused_and_change_nothing(case, candidates):
    policy = case.make()
    drive(policy, 0, 3)
    before = internals.fingerprint(policy)
    with pytest.raises(InvalidData):
        ask(policy, 3, candidates=candidates)
    assert internals.fingerprint(policy) == before


BAD_SETS = {
    "nan": NAN_ROW,
    "inf": INFINITE_ROW,
    "outside": decision_set(0) + 2.0,
    "empty": np.zeros((0, 2)),
    "objects": np.array([[None, 0.5], [0.5, 0.5]], dtype=object),
    "list": [["a", 0.5], [0.5, 0.5]],
    "text": np.array([["a", "0.5"]]),
    "complex": np.array([[1 + 1j, 0.5]]),
}


@every_policy
@pytest.mark.parametrize("bad", BAD_SETS)
def test_a_bad_decision_set_takes_its_round_and_counts_nothing(case, bad):
    policy = case.make()
    drive(policy, 0, 3)
    with pytest.raises(InvalidData, match="the round is taken"):
        ask(policy, 3, candidates=BAD_SETS[bad])
    assert policy.diagnostics()["rounds_asked"] == 4
    assert policy.pending == ()
    if case.counts_users:
        with pytest.raises(ContributionExceeded):
            ask(policy, 3)


@every_policy
def test_a_bad_set_in_a_batch_is_marked_and_the_others_are_answered_as_without_it(case):
    good, seen = np.stack([decision_set(t) for t in range(6)]), []
    available = np.ones((6, 5), dtype=bool)
    for spoilt in (False, True):
        policy = case.make()
        drive(policy, 10, 20)
        coins = internals.spy_on_coins(policy)
        sets, mask = good.copy(), available.copy()
        if spoilt:
            sets[1], mask[4] = np.nan, False
        users = [f"user-{t}" for t in range(6)]
        batch = policy.ask_batch(sets, users=users, available=mask)
        seen.append((batch, coins, policy))
    (whole, coins, _), (batch, spoilt_coins, policy) = seen
    kept = [0, 2, 3, 5]
    assert batch.refused.tolist() == [False, True, False, False, True, False]
    assert not whole.refused.any()
    assert batch.indices[kept].tolist() == whole.indices[kept].tolist()
    assert batch.indices[batch.refused].tolist() == [-1, -1]
    assert np.isnan(batch.actions[batch.refused]).all()
    assert coins == spoilt_coins
    receipts = policy.tell_batch(batch.ids, np.full(6, 0.5))
    assert [one is Receipt.REFUSED for one in receipts] == batch.refused.tolist()
    assert [one is Receipt.COUNTED for one in receipts] == (~batch.refused).tolist()


class Overwritten(Box):
    """While it looks at rows, somebody else writes into the array that they came in."""

    came = None

    def encloses(self, points):
        found = super().encloses(points)
        if self.came is not None:
            self.came[:] = np.nan
        return found


@of_candidates
@pytest.mark.parametrize("alone", [True, False])
def test_what_was_looked_at_is_what_is_chosen_from(case, alone):
    domain = Overwritten([0, 0], [1, 1])
    policy = case.make(domain=domain)
    drive(policy, 0, 3)
    rows = decision_set(3)
    domain.came = came = rows.copy() if alone else rows[None].copy()
    user = "user-3" if policy.user_ids else None
    if alone:
        decision = policy.ask(came, user)
        assert not np.shares_memory(decision.action, came)
    else:
        batch = policy.ask_batch(came, None if user is None else [user])
        assert not np.shares_memory(batch.actions, came)
        decision = batch[0]
    assert np.isnan(came).all()
    assert np.array_equal(decision.action, rows[decision.index])
    assert policy.tell(decision.id, 0.5) is Receipt.COUNTED
    domain.came = None
    drive(policy, 4, HORIZON)  # releases, and learns from this round too


class Frame:
    """Looks like a data frame and turns into an array."""

    columns = ("a", "b")

    def __array__(self, dtype=None, copy=None):
        return decision_set(0)


@of_candidates
@pytest.mark.parametrize(
    "candidates",
    [np.ma.masked_array(decision_set(0), mask=decision_set(0) > 0.9), Frame(), [[0.5, 0.5], [0.5]]],
    ids=["masked", "frame", "ragged"],
)
def test_tables_and_masks_are_not_taken_for_points(case, candidates):
    policy = case.make()
    before = internals.fingerprint(policy)
    with pytest.raises(InvalidData):
        ask(policy, 0, candidates=candidates)
    with pytest.raises(InvalidData):
        policy.ask_batch(candidates, users=["u"])
    assert internals.fingerprint(policy) == before


class Trap:
    """An object that fails in a way of its own when it is read."""

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("31337")


class TrapNumber(float):
    """A number that fails in a way of its own when it is read."""

    def __float__(self):
        raise RuntimeError("31337")


@of_candidates
def test_what_fails_when_it_is_read_is_what_cannot_be_read(case):
    policy = case.make()
    with pytest.raises(InvalidData) as refused:
        ask(policy, 0, candidates=Trap())
    assert "31337" not in str(refused.value)
    assert policy.diagnostics()["rounds_asked"] == 0
    spoilt = decision_set(0).astype(object)
    spoilt[0, 0] = TrapNumber(0.5)
    with pytest.raises(InvalidData, match="the round is taken") as refused:
        ask(policy, 0, candidates=spoilt)
    assert "31337" not in str(refused.value)
    assert policy.diagnostics()["rounds_asked"] == 1
    with pytest.raises(InvalidData):
        policy.tell(ask(policy, 1).id, TrapNumber(0.5))


@every_policy
def test_what_is_told_twice_keeps_no_other_from_counting(case):
    """Whether somebody has told is theirs: a batch with a second reward of theirs counts all the others."""
    with_twice, without = case.make(), case.make()
    sets = np.stack([decision_set(index) for index in range(3)])
    ids = {policy: policy.ask_batch(sets, users=["a", "b", "c"]).ids for policy in (with_twice, without)}
    for policy in ids:
        policy.tell(ids[policy][0], 0.5)
    first, second, third = ids[with_twice]
    receipts = with_twice.tell_batch([first, second, second, third], [0.9, 0.25, 0.75, 1.0])
    assert receipts == (Receipt.REFUSED, Receipt.COUNTED, Receipt.REFUSED, Receipt.COUNTED)
    without.tell_batch(ids[without][1:], [0.25, 1.0])
    assert internals.raw_rounds(with_twice)[0] == internals.raw_rounds(without)[0]


@every_policy
@pytest.mark.parametrize("missing", [None, np.nan, np.float64("nan")], ids=["none", "nan", "numpy"])
def test_a_missing_reward_gives_the_decision_up(case, missing):
    policy = case.make()
    first, second = ask(policy, 0), ask(policy, 1)
    assert policy.tell(first.id, missing) is Receipt.ABANDONED
    assert policy.pending == (second.id,)
    with pytest.raises(AlreadyTold):
        policy.tell(first.id, 0.5)


@every_policy
def test_one_bad_reward_keeps_no_other_from_counting(case):
    spoilt, without = case.make(), case.make()
    sets, users = np.stack([decision_set(t) for t in range(5)]), [f"user-{t}" for t in range(5)]
    decisions = [policy.ask_batch(sets, users=users).ids for policy in (spoilt, without)]
    told = spoilt.tell_batch(decisions[0], [0.1, None, 7.5, "x", 0.4])
    assert told == (Receipt.COUNTED, Receipt.ABANDONED, Receipt.REFUSED, Receipt.REFUSED, Receipt.COUNTED)
    without.tell_batch([decisions[1][0], decisions[1][4]], [0.1, 0.4])
    without.abandon(decisions[1][1])
    assert spoilt.pending == tuple(decisions[0][2:4])
    for policy in (spoilt, without):
        drive(policy, 5, 30)
    points = to_predict(spoilt, decision_set(99))
    np.testing.assert_array_equal(spoilt.predict(points)[0], without.predict(points)[0])


@every_policy
@pytest.mark.parametrize(
    "reward",
    [np.inf, -np.inf, 1.5, -0.1, "half", [0.5], [[0.5], [0.5, 0.5]], 0.5 + 0j, 10**400],
    ids=["inf", "-inf", "above", "below", "text", "list", "ragged", "complex", "huge"],
)
def test_bad_rewards_are_refused_and_change_nothing(case, reward):
    policy = case.make()
    decision = ask(policy, 0)
    before = internals.fingerprint(policy)
    with pytest.raises(InvalidData):
        policy.tell(decision.id, reward)
    assert internals.fingerprint(policy) == before
    assert policy.tell(decision.id, 0.5) is Receipt.COUNTED


@every_policy
def test_rewards_and_ids_must_pair_up(case):
    policy = case.make()
    decision = ask(policy, 0)
    with pytest.raises(InvalidData):
        policy.tell_batch([decision.id], np.array([0.1, 0.2]))
    with pytest.raises(InvalidData):
        policy.tell_batch(decision.id, np.array([0.1]))


@every_policy
def test_clipping_takes_the_nearest_reward_in_range(case):
    clipped, inside = case.make(clip=True), case.make()
    for policy, reward in ((clipped, 7.5), (inside, 1.0)):
        policy.tell(ask(policy, 0).id, reward)
        drive(policy, 1, 30)
    points = to_predict(clipped, decision_set(99))
    np.testing.assert_array_equal(clipped.predict(points)[0], inside.predict(points)[0])
    with pytest.raises(InvalidData):
        clipped.tell(ask(clipped, 31).id, np.inf)


@every_policy
def test_only_available_rows_are_chosen(case):
    policy = case.make()
    sets = np.stack([decision_set(t) for t in range(40)])
    available = np.random.default_rng(0).random((40, 5)) < 0.4
    available[:, 1] = True
    users = [f"user-{t}" for t in range(40)]
    for start in (0, 20):
        part = slice(start, start + 20)
        batch = policy.ask_batch(sets[part], users=users[part], available=available[part])
        assert available[part][np.arange(20), batch.indices].all()
    before = internals.fingerprint(policy)
    for mask in (np.ones((2, 4), dtype=bool), np.ones((2, 5))):
        with pytest.raises(InvalidData):
            policy.ask_batch(sets[:2], users=["a", "b"], available=mask)
    assert internals.fingerprint(policy) == before


@every_policy
def test_a_batch_decides_like_single_asks_while_nothing_is_released(case):
    together, alone = case.make(), case.make()
    sets = np.stack([decision_set(t) for t in range(8 if case.blocks else 1)])
    batch = together.ask_batch(sets, users=[f"user-{t}" for t in range(len(sets))])
    single = [ask(alone, t).index for t in range(len(sets))]
    assert batch.indices.tolist() == single
    assert [decision.id for decision in batch] == list(batch.ids)


@of_candidates
def test_predictions_are_finite_and_recommendations_are_rows(case):
    policy = case.make()
    points = decision_set(77, n=9)
    for start in (0, 30):
        drive(policy, start, start + 30)
        mean, sd = policy.predict(points)
        assert mean.shape == sd.shape == (9,)
        assert np.isfinite(mean).all()
        assert (sd >= 0.0).all()
        assert 0 <= policy.recommend(points) < 9


@learning
def test_what_learns_learns(case):
    policy = case.make()
    points = to_predict(policy, decision_set(77))
    before = policy.predict(points)[0]
    drive(policy, 0, 50)
    assert not np.array_equal(policy.predict(points)[0], before)


@learning
def test_public_data_can_come_first(case):
    policy = case.make()
    points = decision_set(5, n=40)
    warm(policy, points[:30])
    warm(policy, points[30:])
    mean, _ = policy.predict(to_predict(policy, np.array([[0.05, 0.5], [0.95, 0.5]])))
    assert np.min(mean[1] - mean[0]) > (0.2 if case.blocks else 0.0)  # the published shift leaves little
    drive(policy, 0, 30)


@not_learning
def test_public_data_is_refused_where_nothing_is_learned(case):
    points = decision_set(5)
    with pytest.raises(ProtocolError):
        case.make().warm_start(points, points[:, 0])
