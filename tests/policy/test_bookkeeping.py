import sys

import numpy as np
import pytest

from dpbandits import _checks
from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    CorruptState,
    HorizonExceeded,
    InvalidData,
    UnknownDecision,
)
from dpbandits.policy.bookkeeping import RoundBook, RoundStatus
from dpbandits.tables.coded import Coded
from dpbandits.tables.owners import Owners, first_rows


def book(**changes):
    arguments = {"dim": 2, "horizon": 10, "rounds_per_user": 2, "user_ids": True, "lineage": "ab" * 16}
    return RoundBook(**(arguments | changes))


def enter(rounds, users, actions=None):
    actions = np.zeros((len(users), 2)) if actions is None else actions
    return rounds.open(rounds.check_open(len(users), users), actions)


def settle(rounds, ids, rewards):
    usable = np.ones(len(ids), dtype=bool)
    became = rounds.settle(rounds.rounds_of(ids), np.array(rewards), usable, ~usable)
    return (became == RoundStatus.TOLD).tolist()


def test_the_horizon_is_refused_before_anything_changes():
    rounds = book(horizon=3, rounds_per_user=None)
    enter(rounds, ["a", "b"])
    with pytest.raises(HorizonExceeded):
        rounds.check_open(2, ["c", "d"])
    assert rounds.asked == 2
    enter(rounds, ["c"])


def test_a_users_rounds_are_bounded_also_inside_one_batch():
    rounds = book()
    enter(rounds, ["a", "b", "a"])
    with pytest.raises(ContributionExceeded):
        rounds.check_open(1, ["a"])
    with pytest.raises(ContributionExceeded):
        rounds.check_open(3, ["c", "c", "c"])
    enter(rounds, ["b", "c"])


def test_one_person_has_one_id_however_it_is_written():
    rounds = book(rounds_per_user=1)
    enter(rounds, ["1", np.int64(2), b"\xff", "Jos\u00e9"])
    accented = "Jose\u0301"  # as some systems write the same name
    same_number = (1, 1.0, b"1", np.str_("1"), " 1", "01", "1.0", "\uff11", 2, "2")
    unseen = (
        "1\u200b",
        "\ufeff1",
        "1\x00",
        "Jos\u00e9\u00ad",
        "\u2060Jos\u00e9",
    )  # zero-width, BOM, NUL, soft hyphen
    for again in (*same_number, *unseen, "\udcff", accented, accented.encode()):
        with pytest.raises(ContributionExceeded):
            rounds.check_open(1, [again])
    endless = 10 ** (sys.get_int_max_str_digits() + 1)
    for nobody in (
        None,
        float("nan"),
        np.datetime64("NaT"),
        "",
        " ",
        b"",
        "\u200b",
        True,
        endless,
        float("inf"),
    ):
        with pytest.raises(InvalidData):
            rounds.check_open(1, [nobody])
    enter(rounds, ["011", -1, "Jose", "jos\u00e9", "1b"])  # case counts, and an accent does


@pytest.mark.parametrize("users", ["ab", b"ab", 2, frozenset("b"), ["a"], ["a", "b", "c"]], ids=repr)
def test_users_are_one_id_a_decision_set(users):
    rounds = book()
    with pytest.raises(InvalidData, match="users"):
        rounds.check_open(2, users)
    assert len(rounds.check_open(2, iter(["a", "b"]))) == 2


def test_rounds_of_a_person_are_counted_over_a_restart():
    rounds = book(rounds_per_user=3)
    enter(rounds, ["a", "a", "b", 7])
    again = book(rounds_per_user=3)
    again.restore(rounds.state_arrays())
    for user, left in (("a", 1), ("b", 2), ("7", 2)):
        again.check_open(left, [user] * left)
        with pytest.raises(ContributionExceeded):
            again.check_open(left + 1, [user] * (left + 1))


def test_ids_are_required_exactly_when_the_policy_counts_users():
    with pytest.raises(InvalidData):
        book().check_open(1, None)
    with pytest.raises(InvalidData):
        book(user_ids=False).check_open(1, ["a"])
    with pytest.raises(InvalidData):
        book().check_open(2, ["a"])


def test_a_reward_is_taken_once():
    rounds = book()
    ids = enter(rounds, ["a", "b"])
    assert settle(rounds, [ids[1]], [0.5]) == [True]
    with pytest.raises(AlreadyTold):
        rounds.round_of(ids[1])
    assert rounds.open_among(rounds.rounds_of([ids[0], ids[1], ids[0]])).tolist() == [True, False, False]
    assert rounds.pending == (ids[0],)
    rounds.abandon(ids[0])
    with pytest.raises(AlreadyTold):
        rounds.round_of(ids[0])


@pytest.mark.parametrize(
    "bad", ["", "0", "abababab-0", "abababab-00-ffffffff", 3, None, "x" * 100, "abababab-²-1"]
)
def test_foreign_ids_are_unknown(bad):
    rounds = book()
    enter(rounds, ["a"])
    with pytest.raises(UnknownDecision):
        rounds.rounds_of([bad])


def test_a_closed_round_loses_its_reward_and_its_action():
    rounds = book()
    ids = enter(rounds, ["a", "b", "c"], np.arange(6.0).reshape(3, 2))
    settle(rounds, [ids[0], ids[2]], [0.1, 0.3])
    actions, rewards, told, refused = rounds.block(0, 2)
    assert actions.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert (rewards[0], told.tolist(), refused.tolist()) == (0.1, [True, False], [False, False])
    rounds.close(2)
    assert settle(rounds, [ids[1]], [0.2]) == [False]
    actions, rewards, told, _ = rounds.block(2, 3)
    assert actions.tolist() == [[4.0, 5.0]]
    assert (rewards.tolist(), told.tolist()) == ([0.3], [True])
    with pytest.raises(IndexError):
        rounds.block(0, 2)


def test_a_refused_round_is_taken_and_never_told():
    rounds = book()
    digests = rounds.check_open(2, ["a", "b"])
    first, second = rounds.open(digests, np.zeros((2, 2)), np.array([True, False]))
    assert rounds.pending == (second,)
    assert settle(rounds, [first, second], [0.5, 0.5]) == [False, True]
    rounds.abandon(first)
    *_, told, refused = rounds.block(0, 2)
    assert (told.tolist(), refused.tolist()) == ([False, True], [True, False])


def test_a_restored_book_goes_on_and_disowns_ids_it_never_saved():
    rounds = book(horizon=None)
    kept = enter(rounds, ["a"])
    arrays = {name: array.copy() for name, array in rounds.state_arrays().items()}
    lost = enter(rounds, ["b"])
    restored = book(horizon=None)
    restored.restore(arrays)
    replaced = enter(restored, ["c"])
    assert restored.rounds_of(kept).tolist() == [0]
    assert restored.rounds_of(replaced).tolist() == [1]
    with pytest.raises(UnknownDecision):
        restored.rounds_of(lost)
    enter(restored, ["a"])
    with pytest.raises(ContributionExceeded):
        restored.check_open(1, ["a"])


def test_torn_arrays_are_refused():
    rounds = book()
    enter(rounds, ["a"])
    arrays = rounds.state_arrays()
    with pytest.raises(CorruptState):
        book().restore({name: value for name, value in arrays.items() if name != "book_status"})
    with pytest.raises(CorruptState):
        book().restore(arrays | {"book_status": np.zeros(5, dtype=np.uint8)})


def test_the_repr_shows_no_user():
    rounds = book()
    enter(rounds, ["canary"])
    assert "canary" not in repr(rounds)
    assert b"canary" not in b"".join(array.tobytes() for array in rounds.state_arrays().values())


@pytest.mark.parametrize(("usable", "missing"), [(True, False), (False, True), (False, False)])
def test_a_round_told_by_itself_becomes_what_it_becomes_in_a_batch(usable, missing):
    alone, together, became_of = book(user_ids=False), book(user_ids=False), []
    for rounds in (together, alone):
        ids = rounds.open([], np.zeros((4, 2)), np.array([False, True, False, True]))
        rounds.close(2)
        whole = np.array([rounds.round_of(one) for one in ids])
        if rounds is alone:
            became = [rounds.settle_one(i, 0.25, usable=usable, missing=missing) for i in whole.tolist()]
        else:
            flags = np.full(4, usable), np.full(4, missing)
            became = rounds.settle(whole, np.full(4, 0.25), *flags).tolist()
        became_of.append(became)
    assert became_of[0] == became_of[1]
    ours, theirs = alone.state_arrays(), together.state_arrays()
    assert np.array_equal(ours["book_status"], theirs["book_status"])
    assert np.array_equal(ours["book_rewards"], theirs["book_rewards"])
    expected = {
        (True, False): ["LATE", "REFUSED", "TOLD", "REFUSED"],
        (False, True): ["ABANDONED", "REFUSED"] * 2,
    }
    names = expected.get((usable, missing), ["MISSED", "REFUSED", "PENDING", "REFUSED"])
    assert [RoundStatus(one).name for one in became_of[0]] == names
    if usable or missing:
        with pytest.raises(AlreadyTold):
            alone.round_of(ids[2])


def test_people_are_numbered_by_their_first_rows_however_their_ids_are_written():
    people = Owners.of(["b", " a", 7, "b", b"7", "a", "7"], count=7)
    assert (people.numbers.tolist(), people.texts) == ([0, 1, 2, 0, 2, 1, 2], ["b", "a", "7"])
    texts = Owners.of(["b", " a", "b", "a", "7"], count=5)
    assert (texts.numbers.tolist(), texts.texts) == ([0, 1, 0, 1, 2], ["b", "a", "7"])
    assert Owners.of(people, count=7) is people
    assert "ann" not in repr(Owners.of(["ann"], count=1))
    for nobody in (None, "", float("nan"), [1], object(), float("inf"), "NA"):
        assert Owners.of(["a", nobody, "b"], count=3).numbers.tolist() == [0, -1, 1]
    assert Owners.of(["1", True, "true"], count=3).texts == ["1"]  # as readers of files have it


def test_the_first_rows_of_every_person_are_kept():
    numbers = np.array([0, 1, 0, 0, 2, 1, 0])
    assert first_rows(numbers, 2).tolist() == [True, True, True, False, True, True, False]
    had = np.array([0, 2, 1])
    assert first_rows(numbers, 2, had).tolist() == [True, False, True, False, True, False, False]
    assert first_rows(numbers, 2, np.append(had, 2)).tolist() == first_rows(numbers, 2, had).tolist()


@pytest.mark.parametrize(
    "ids",
    [
        ["b", "a", "b"],
        [7, 3, 7],
        ["Jose\u0301", "Jos\u00e9", "x"],
        [" a", "a", "b"],
        ["07", "7", "8"],
        [2**70, 1, 2**70 + 1],
    ],
    ids=repr,
)
def test_people_are_the_same_in_an_array_a_list_and_by_their_values(ids):
    """Whole columns are read at once; one by one, by `person`, the same ids are the same people."""
    texts = [_checks.person(one) for one in ids]
    distinct = list(dict.fromkeys(texts))
    coded = Coded(np.array([1, 2, 0]), np.array([ids[2], *ids[:2]], dtype=object))
    for told in (ids, np.array(ids, dtype=object), coded, [str(ids[0]).encode(), *ids[1:]]):
        people = Owners.of(told, count=3)
        assert [people.texts[number] for number in people.numbers] == texts
        assert sorted(people.texts) == sorted(distinct)
    with pytest.raises(InvalidData, match="expected 4"):
        Owners.of(coded, count=4)


def test_the_last_id_is_known_at_once_and_as_long_as_it_is_valid():
    rounds = book(user_ids=False)
    first = rounds.open_one([], np.zeros(2), refused=False)
    assert rounds.round_of(first) == 0
    rounds.settle_one(0, 0.5, usable=True, missing=False)
    with pytest.raises(AlreadyTold):
        rounds.round_of(first)
    second = rounds.open_one([], np.zeros(2), refused=False)
    for other in (second[:-1], second + "0", second.upper() + " ", second.encode()):
        with pytest.raises(UnknownDecision):
            rounds.round_of(other)
    taken_up = book(user_ids=False)
    taken_up.restore(rounds.state_arrays())
    third = taken_up.open_one([], np.zeros(2), refused=False)
    assert [taken_up.round_of(one) for one in (second, third)] == [1, 2]
    rounds.restore(taken_up.state_arrays())  # an id that was issued here, of a round that is another one now
    assert rounds.round_of(second) == 1
    fourth = taken_up.open_one([], np.zeros(2), refused=False)
    with pytest.raises(UnknownDecision):
        rounds.round_of(fourth)
