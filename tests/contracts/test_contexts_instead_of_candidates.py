"""The contracts for `ExploreThenCommit`, which is given contexts and chooses among public actions.

It is no `RoundPolicy`: nobody brings candidates, so `ask(candidates)`, `predict(points)` and `warm_start`
have no meaning for it, and it learns from logs. What the suite asks of every policy is asked here.
"""

import copy
import json
import logging
import pickle

import numpy as np
import pytest

from dpbandits.central import ExploreThenCommit
from dpbandits.errors import (
    DPBanditsError,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy import Guarantee, JointDP, SimulatedNoise
from internals import logged as rows_inside
from internals import policy as internals
from tuning import built

HORIZON = 64
CANARY_USER = "canary-4711-user"
CANARY_REWARD = 0.81726354
CANARY_CONTEXT = 0.59384756
BAD_CONTEXTS = [np.nan, np.inf, 1.5, -0.1, "half", None, 0.5 + 0j, object()]
BAD_REWARDS = [np.nan, np.inf, 1.5, -0.1, "half", None, 0.5 + 0j]


def shared(**changes):
    return {
        "kernel": SquaredExponential(lengthscale=0.4),
        "actions": CellMeasure.uniform(low=0, high=1, cells=5),
        "contexts": CellMeasure.uniform(low=0, high=1, cells=4),
        "reward_range": (0.0, 1.0),
        "horizon": HORIZON,
        "noise": SimulatedNoise(3),
        "seed": 11,
    } | changes


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def usca(**changes):
    own = {
        "privacy": JointDP(epsilon=40.0, delta=1e-6),
        "publish_epsilon": 20.0,
        "answer_epsilon": 5.0,
    }
    return built(ExploreThenCommit, shared(**(own | changes)))


pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")


def context_of(t):
    return np.random.default_rng(t).random()


def learned(policy, t, reward=0.7):
    policy.learn([context_of(t)], [0.1 + (t % 5) / 5], [reward], users=[f"user-{t}"])


def traces(number):
    return {f"{number:.6f}", f"{number:.7g}", repr(number), f"{number:.6e}"}


class Refused:
    """Collects what refused calls say, causes included."""

    def __init__(self):
        self.texts = []

    def __call__(self, call, *arguments, **options):
        try:
            call(*arguments, **options)
        except DPBanditsError as error:
            while error is not None:
                self.texts.append(f"{error!r} {error.args}")
                error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        else:
            raise AssertionError("this call should have been refused")


def visible(policy, refused, caplog):
    parts = [repr(policy), str(policy), json.dumps(policy.to_config()), json.dumps(policy.diagnostics())]
    parts += [policy.guarantee.explain(), policy.guarantee.to_json(), *refused.texts, caplog.text]
    parts += [
        repr(value) for value in vars(policy).values() if type(value).__module__.startswith("dpbandits")
    ]
    return "\n".join(parts)


def assert_no_canary(text):
    assert CANARY_USER not in text
    for number in (CANARY_REWARD, CANARY_CONTEXT, 1.0 + CANARY_REWARD, 1.0 + CANARY_CONTEXT):
        for trace in traces(number):
            assert trace not in text


def test_no_canary_is_seen_in_logs_that_usca_learns(caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    policy, refused = usca(), Refused()
    good = ([CANARY_CONTEXT], [0.5], [CANARY_REWARD])
    policy.learn(*good, users=[CANARY_USER])
    policy.learn(*good, users=[CANARY_USER])
    policy.learn(*good, users=[[CANARY_USER]])
    policy.learn([1.0 + CANARY_CONTEXT], [0.5], [0.5], users=["a"])
    policy.learn([0.5], [1.0 + CANARY_CONTEXT], [0.5], users=["b"])
    policy.learn([0.5], [0.5], [1.0 + CANARY_REWARD], users=["c"])
    policy.learn(*good, propensities=[1.0 + CANARY_REWARD], users=["d"])
    refused(policy.learn, *good, propensities=[1.0 + CANARY_REWARD, 0.5], users=["e"])
    refused(policy.learn, [CANARY_CONTEXT] * 2, [0.5], [CANARY_REWARD], users=["e"])
    refused(policy.answer, [1.0 + CANARY_CONTEXT])
    shard = policy.shard()
    shard.learn(*good, users=[CANARY_USER])
    refused(policy.merge, shard)
    policy.answer([CANARY_CONTEXT])
    released = policy.publish()
    policy.save(tmp_path / "state")
    refused(ExploreThenCommit.from_config, policy.to_config() | {"reward_range": CANARY_USER})
    assert_no_canary(visible(policy, refused, caplog) + repr(shard) + repr(shard.rules) + repr(released))


SENT_WRONGLY = [[[0.5, 0.5]], [[[0.5, 0.5]]], [[0.5], [0.5, 0.5]]]


@pytest.mark.parametrize("bad", BAD_CONTEXTS, ids=lambda bad: repr(bad).partition(" at 0x")[0])
def test_a_bad_context_takes_its_place_and_counts_nothing(bad):
    logged, empty = usca(), usca()
    logged.learn([bad, 0.5], [0.5, 0.5], [0.5, 0.9], users=["u", "v"])
    empty.learn([0.5], [0.5], [0.9], users=["v"])
    np.testing.assert_array_equal(rows_inside.sums(logged), rows_inside.sums(empty))
    assert logged.unsafe_left_out == {"unreadable": 1, "surplus": 0}
    logged.learn([0.5], [0.5], [0.5], users=["u"])
    assert logged.unsafe_left_out == {"unreadable": 1, "surplus": 1}
    left = logged.remaining_answers
    with pytest.raises(InvalidData, match="the answer is taken"):
        logged.answer([bad])
    assert logged.remaining_answers == left - 1  # as after a good one, for whoever asks next


@pytest.mark.parametrize("bad", SENT_WRONGLY, ids=repr)
def test_contexts_that_were_sent_wrongly_are_refused_and_change_nothing(bad):
    logged = usca()
    before = internals.fingerprint(logged)
    with pytest.raises(InvalidData):
        logged.learn(bad, [2], [0.5], users=["u"])
    assert internals.fingerprint(logged) == before


@pytest.mark.parametrize("bad", BAD_REWARDS, ids=repr)
def test_a_bad_reward_counts_nothing_and_keeps_no_other_from_counting(bad):
    logged, empty = usca(), usca()
    logged.learn([0.5, 0.5], [0.5, 0.5], [bad, 0.9], users=["u", "v"])
    empty.learn([0.5], [0.5], [0.9], users=["v"])
    np.testing.assert_array_equal(rows_inside.sums(logged), rows_inside.sums(empty))


@pytest.mark.parametrize("bad", [None, -1, 5, 0.33, "x", np.nan], ids=repr)
def test_an_action_that_is_none_counts_nothing_and_changes_no_other(bad):
    logged, without = usca(), usca()
    logged.learn([0.5, 0.5, 0.5], [0.5, bad, 0.7], [0.9] * 3, users=["u", "v", "w"])
    without.learn([0.5, 0.5], [0.5, 0.7], [0.9] * 2, users=["u", "w"])
    if bad == 0.33:  # a point in a public cell counts there, and leaves numbers what they are
        without.learn([0.5], [0.33], [0.9], users=["v"])
    np.testing.assert_array_equal(rows_inside.sums(logged), rows_inside.sums(without))


def test_horizon_and_users_are_kept():
    logged = usca()
    for t in range(HORIZON):
        learned(logged, t)
    sums = rows_inside.sums(logged).copy()
    learned(logged, HORIZON)
    assert logged.unsafe_left_out == {"unreadable": 0, "surplus": 1}
    np.testing.assert_array_equal(rows_inside.sums(logged), sums)
    logged = usca()
    learned(logged, 0)
    learned(logged, 0)
    logged.learn([0.1, 0.2, 0.3], [0.3, 0.5, 0.7], [0.5, 0.5, 0.5], users=["7", 7, "once"])
    once = usca()
    learned(once, 0)
    once.learn([0.1, 0.3], [0.3, 0.7], [0.5, 0.5], users=["7", "once"])
    np.testing.assert_array_equal(rows_inside.sums(logged), rows_inside.sums(once))


def test_exploration_of_logs_depends_on_the_row_alone():
    policy, other = usca(), usca()
    before = policy.explore(0, HORIZON)
    learned(policy, 0)
    policy.answer([0.5])
    assert np.array_equal(policy.explore(0, HORIZON), before)
    assert np.array_equal(other.explore(10, 20), before[10:20])


def test_the_guarantee_is_a_statement_that_survives_json_and_never_changes(tmp_path):
    policy = usca()
    guarantee = policy.guarantee
    assert Guarantee.from_json(guarantee.to_json()) == guarantee
    assert guarantee.status == "simulated"
    assert guarantee.certificate.delta_at(guarantee.epsilon) <= guarantee.delta * (1 + 1e-9)
    assert guarantee.membership_bound() <= 1.0
    for t in range(30):
        learned(policy, t)
    policy.save(tmp_path / "state")
    assert policy.guarantee == guarantee
    assert type(policy).load(tmp_path / "state").guarantee == guarantee
    for enforced, policy in ((True, usca()), (False, usca(user_ids=False))):
        about = [a.enforced for a in policy.guarantee.assumptions if a.text.startswith("No user")]
        assert about == [enforced]


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused(duplicate):
    with pytest.raises(ProtocolError):
        duplicate(usca())


def test_configurations_build_the_same_and_strange_ones_nothing():
    policy = usca()
    config = json.loads(json.dumps(policy.to_config()))
    assert type(policy).from_config(config).to_config() == policy.to_config()
    for broken in (
        {},
        config | {"policy": "other"},
        config | {"surprise": 1},
        {key: value for key, value in config.items() if key != "kernel"},
        config | {"kernel": 7},
        config | {"contexts": {"measure": []}},
        config | {"privacy": None},
    ):
        with pytest.raises(InvalidParameter):
            type(policy).from_config(broken)


class Frame:
    columns = ("context",)

    def __array__(self, dtype=None, copy=None):
        return np.array([[0.5]])


@pytest.mark.parametrize(
    "bad", [Frame(), np.ma.masked_array([[0.5]], mask=[[True]])], ids=["frame", "masked"]
)
def test_tables_and_masks_are_not_taken_for_rows(bad):
    logged = usca()
    before = internals.fingerprint(logged)
    for call in (
        lambda: logged.learn(bad, [2], [0.5], users=["u"]),
        lambda: logged.learn([0.5], [0.5], [0.5], propensities=bad, users=["u"]),
        lambda: logged.learn([0.5], np.ma.masked_array([2], mask=[True]), [0.5], users=["u"]),
        lambda: logged.answer(bad),
    ):
        with pytest.raises(InvalidData):
            call()
    assert internals.fingerprint(logged) == before


# -- what is available ------------------------------------------------------------------------------------


def marks(*cells):
    mask = np.zeros(5, dtype=bool)
    mask[list(cells)] = True
    return mask


@pytest.mark.parametrize("wrong", [np.ones(4, dtype=bool), np.ones(5), [[True], [True, False]], {}], ids=repr)
def test_marks_of_another_shape_take_nothing(wrong):
    other = usca()
    with pytest.raises(InvalidData, match="available: expected booleans of shape"):
        other.answer([0.5], available=wrong)
    assert other.diagnostics()["answers_given"] == 0


def test_where_nothing_is_available_the_answer_is_taken():
    other = usca()
    with pytest.raises(InvalidData, match="at least one action; the answer is taken"):
        other.answer([0.5], available=marks())
    assert other.diagnostics()["answers_given"] == 1


def test_an_answer_is_the_best_of_what_is_available():
    policy = usca(horizon=4_000, privacy=JointDP(epsilon=50.0, delta=1e-6), answer_epsilon=15.0)
    actions, users = np.arange(4_000) % 5, [f"user-{t}" for t in range(4_000)]
    policy.learn(np.random.default_rng(0).random(4_000), 0.1 + actions / 5.0, actions / 4.0, users=users)
    assert policy.answer([0.5]).index == 4
    assert policy.answer([0.5], available=marks(0, 1, 2)).index == 2
