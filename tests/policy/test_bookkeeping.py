import numpy as np
import pytest

from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    CorruptState,
    HorizonExceeded,
    InvalidData,
    UnknownDecision,
)
from dpbandits.policy.bookkeeping import RoundBook


def book(**changes):
    arguments = {"dim": 2, "horizon": 10, "rounds_per_user": 2, "user_ids": True, "lineage": "ab" * 16}
    return RoundBook(**(arguments | changes))


def enter(rounds, users, actions=None):
    actions = np.zeros((len(users), 2)) if actions is None else actions
    return rounds.open(rounds.check_open(len(users), users), actions)


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


def test_users_of_different_types_are_different_users():
    rounds = book(rounds_per_user=1)
    enter(rounds, ["1", 1, b"1", np.int64(2)])
    with pytest.raises(ContributionExceeded):
        rounds.check_open(1, [2])
    with pytest.raises(InvalidData):
        rounds.check_open(1, [1.0])


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
    assert rounds.settle(rounds.rounds_of([ids[1]]), np.array([0.5])).tolist() == [True]
    for attempt in ([ids[1]], [ids[0], ids[0]]):
        with pytest.raises(AlreadyTold):
            rounds.rounds_of(attempt)
    assert rounds.pending == (ids[0],)
    rounds.abandon(ids[0])
    with pytest.raises(AlreadyTold):
        rounds.rounds_of([ids[0]])


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
    rounds.settle(rounds.rounds_of([ids[0], ids[2]]), np.array([0.1, 0.3]))
    actions, rewards = rounds.told(0, 2)
    assert actions.tolist() == [[0.0, 1.0]]
    assert rewards.tolist() == [0.1]
    rounds.close(2)
    assert rounds.settle(rounds.rounds_of([ids[1]]), np.array([0.2])).tolist() == [False]
    actions, rewards = rounds.told(2, 3)
    assert actions.tolist() == [[4.0, 5.0]]
    assert rewards.tolist() == [0.3]
    with pytest.raises(IndexError):
        rounds.told(0, 2)


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
