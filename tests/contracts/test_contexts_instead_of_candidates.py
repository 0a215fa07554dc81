"""The contracts for `ExploreThenCommit` and `PhasedExploreThenCommit`, which are given contexts and choose
among public actions.

They are no `BasePolicy`: nobody brings candidates, so `ask(candidates)`, `predict(points)` and `warm_start`
have no meaning for them, and `ExploreThenCommit` learns from logs. What the suite asks of every policy is
asked here.
"""

import copy
import json
import logging
import pickle

import numpy as np
import pytest

from dpbandits.central import ExploreThenCommit, PhasedExploreThenCommit
from dpbandits.errors import (
    AlreadyTold,
    ContributionExceeded,
    DPBanditsError,
    HorizonExceeded,
    InvalidData,
    InvalidParameter,
    ProtocolError,
    UnknownDecision,
)
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.policy import Receipt
from dpbandits.privacy import Guarantee, JointDP, SimulatedNoise
from internals import explore_then_commit as rows_inside
from internals import policy as internals
from tuning import built

HORIZON = 64
PHASES = (8, 24)
TARGET = 3
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


def phased(**changes):
    own = {
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
        "phases": PHASES,
        "exploration": (1.0, 0.5),
    }
    return built(PhasedExploreThenCommit, shared(**(own | changes)))


@pytest.mark.filterwarnings("ignore::dpbandits.central.explore_then_commit.policy.NothingToLearn")
def usca(**changes):
    own = {
        "privacy": JointDP(epsilon=40.0, delta=1e-6),
        "publish_epsilon": 20.0,
        "answer_epsilon": 5.0,
    }
    return built(ExploreThenCommit, shared(**(own | changes)))


pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.central.explore_then_commit.policy.NothingToLearn")


def context_of(t):
    return np.random.default_rng(t).random()


def step(policy, t):
    decision = policy.ask([context_of(t)], user=f"user-{t}" if policy.user_ids else None)
    policy.tell(decision.id, 1.0 - (decision.action[0] - context_of(t)) ** 2)
    return decision.index


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


def test_no_canary_is_seen_in_phases(caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    policy, refused = phased(), Refused()
    decision = policy.ask([CANARY_CONTEXT], user=CANARY_USER)
    refused(policy.tell, decision.id, 1.0 + CANARY_REWARD)
    refused(policy.tell, decision.id, [CANARY_REWARD, CANARY_REWARD])
    policy.tell(decision.id, CANARY_REWARD)
    text = visible(policy, refused, caplog)
    refused(policy.tell, decision.id, CANARY_REWARD)
    refused(policy.ask, [CANARY_CONTEXT], user=CANARY_USER)
    refused(policy.ask, [1.0 + CANARY_CONTEXT], user="x")
    refused(policy.ask, [CANARY_CONTEXT], user=[CANARY_USER])
    for t in range(1, 30):
        step(policy, t)
    policy.save(tmp_path / "state")
    text += repr(decision) + repr(policy.published) + repr(internals.book(policy))
    assert_no_canary(text + visible(policy, refused, caplog))


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
    live = phased()
    with pytest.raises(InvalidData, match="the round is taken"):
        live.ask([bad], user="u")
    with pytest.raises(ContributionExceeded):
        live.ask([0.5], user="u")
    batch, whole = live.ask_batch([bad, 0.5], users=["v", "w"]), phased()
    whole.ask([0.5], user="u")
    assert batch.refused.tolist() == [True, False]
    assert batch.indices.tolist() == [-1, whole.ask_batch([0.1, 0.5], users=["v", "w"]).indices[1]]
    assert live.tell_batch(batch.ids, [0.5, 0.5]) == (Receipt.REFUSED, Receipt.COUNTED)
    assert live.diagnostics()["rounds_asked"] == 3


@pytest.mark.parametrize("bad", SENT_WRONGLY, ids=repr)
def test_contexts_that_were_sent_wrongly_are_refused_and_change_nothing(bad):
    logged, live = usca(), phased()
    before = internals.fingerprint(logged), internals.fingerprint(live)
    for call in (
        lambda: logged.learn(bad, [2], [0.5], users=["u"]),
        lambda: live.ask(bad, user="u"),
        lambda: live.ask_batch(bad, users=["u"]),
    ):
        with pytest.raises(InvalidData):
            call()
    assert (internals.fingerprint(logged), internals.fingerprint(live)) == before


@pytest.mark.parametrize("bad", BAD_REWARDS, ids=repr)
def test_a_bad_reward_counts_nothing_and_keeps_no_other_from_counting(bad):
    logged, empty, live = usca(), usca(), phased()
    logged.learn([0.5, 0.5], [0.5, 0.5], [bad, 0.9], users=["u", "v"])
    empty.learn([0.5], [0.5], [0.9], users=["v"])
    np.testing.assert_array_equal(rows_inside.sums(logged), rows_inside.sums(empty))
    first, second = live.ask([0.5], user="u").id, live.ask([0.5], user="v").id
    missing = bad is None or bad != bad
    told = live.tell_batch([first, second], [bad, 0.5])
    assert told == (Receipt.ABANDONED if missing else Receipt.REFUSED, Receipt.COUNTED)
    assert live.pending == (() if missing else (first,))
    if not missing:
        with pytest.raises(InvalidData):
            live.tell(first, bad)
        assert live.tell(first, 0.5) is Receipt.COUNTED


@pytest.mark.parametrize("bad", [None, -1, 5, 0.33, "x", np.nan], ids=repr)
def test_an_action_that_is_none_counts_nothing_and_changes_no_other(bad):
    logged, without = usca(), usca()
    logged.learn([0.5, 0.5, 0.5], [0.5, bad, 0.7], [0.9] * 3, users=["u", "v", "w"])
    without.learn([0.5, 0.5], [0.5, 0.7], [0.9] * 2, users=["u", "w"])
    if bad == 0.33:  # a point in a public cell counts there, and leaves numbers what they are
        without.learn([0.5], [0.33], [0.9], users=["v"])
    np.testing.assert_array_equal(rows_inside.sums(logged), rows_inside.sums(without))


def test_calls_out_of_order_change_nothing():
    policy = phased()
    with pytest.raises(UnknownDecision):
        policy.tell("no-such-decision", 0.5)
    told, given_up, waiting = (policy.ask([0.5], user=f"u{t}") for t in range(3))
    policy.tell(told.id, 0.5)
    policy.abandon(given_up.id)
    before = internals.fingerprint(policy)
    for decision in (told, given_up):
        with pytest.raises(AlreadyTold):
            policy.tell(decision.id, 0.5)
    again = policy.tell_batch([told.id, given_up.id], [0.5, None])
    assert again == (Receipt.REFUSED, Receipt.REFUSED)
    with pytest.raises(UnknownDecision):
        policy.tell(phased().ask([0.5], user="u").id, 0.5)
    with pytest.raises(InvalidData):
        policy.tell_batch([waiting.id], np.array([0.1, 0.2]))
    assert policy.pending == (waiting.id,)
    assert internals.fingerprint(policy) == before


def test_horizon_and_users_are_kept():
    logged, live = usca(), phased()
    for t in range(HORIZON):
        learned(logged, t)
        step(live, t)
    before = internals.fingerprint(logged), internals.fingerprint(live)
    sums = rows_inside.sums(logged).copy()
    learned(logged, HORIZON)
    assert logged.unsafe_left_out == {"unreadable": 0, "surplus": 1}
    np.testing.assert_array_equal(rows_inside.sums(logged), sums)
    with pytest.raises(HorizonExceeded):
        live.ask([0.5], user="new")
    assert internals.fingerprint(live) == before[1]
    live, logged = phased(), usca()
    step(live, 0)
    learned(logged, 0)
    before = internals.fingerprint(live)
    with pytest.raises(ContributionExceeded):
        step(live, 0)
    assert internals.fingerprint(live) == before
    learned(logged, 0)
    logged.learn([0.1, 0.2, 0.3], [0.3, 0.5, 0.7], [0.5, 0.5, 0.5], users=["7", 7, "once"])
    once = usca()
    learned(once, 0)
    once.learn([0.1, 0.3], [0.3, 0.7], [0.5, 0.5], users=["7", "once"])
    np.testing.assert_array_equal(rows_inside.sums(logged), rows_inside.sums(once))


@pytest.mark.parametrize("target", [TARGET, PHASES[0] + 2], ids=["in the first phase", "after a release"])
@pytest.mark.parametrize("change", ["context", "reward", "missing", "late", "abandoned"])
def test_nobody_elses_public_draw_moves(change, target):
    def run(changed):
        policy = phased()
        seen = internals.spy_on_coins(policy)
        chosen, waiting = [], None
        for t in range(HORIZON):
            mine = changed and t == target
            context = 0.99 if mine and change == "context" else context_of(t)
            decision = policy.ask([context], user=f"user-{t}")
            chosen.append(decision.index)
            if mine and change == "late":
                waiting = decision.id
            elif mine and change == "abandoned":
                policy.abandon(decision.id)
            elif not (mine and change == "missing"):
                policy.tell(decision.id, 0.0 if mine else 1.0 - (decision.action[0] - context_of(t)) ** 2)
        if waiting is not None:
            assert policy.tell(waiting, 0.5) is Receipt.LATE
        return policy, chosen, seen

    (one, chosen, seen), (other, others, changed_seen) = run(False), run(True)
    assert seen == changed_seen
    explores = internals.explores(one, 0, HORIZON)
    kept = [t for t in range(HORIZON) if t != target and (explores[t] or t < PHASES[0])]
    assert [chosen[t] for t in kept] == [others[t] for t in kept]
    moved = (internals.drawn(one) - internals.drawn(other)).astype(float)
    sensitivities = [release.sensitivity for release in internals.phase_mechanisms(one)]
    assert sum((np.linalg.norm(row) / s) ** 2 for row, s in zip(moved, sensitivities, strict=True)) <= 1.0


def test_exploration_of_logs_depends_on_the_row_alone():
    policy, other = usca(), usca()
    before = policy.explore(0, HORIZON)
    learned(policy, 0)
    policy.answer([0.5])
    assert np.array_equal(policy.explore(0, HORIZON), before)
    assert np.array_equal(other.explore(10, 20), before[10:20])


@pytest.mark.parametrize("make", [usca, phased])
def test_the_guarantee_is_a_statement_that_survives_json_and_never_changes(make, tmp_path):
    policy = make()
    guarantee = policy.guarantee
    assert Guarantee.from_json(guarantee.to_json()) == guarantee
    assert guarantee.status == "simulated"
    assert guarantee.certificate.delta_at(guarantee.epsilon) <= guarantee.delta * (1 + 1e-9)
    assert guarantee.membership_bound() <= 1.0
    for t in range(30):
        step(policy, t) if make is phased else learned(policy, t)
    policy.save(tmp_path / "state")
    assert policy.guarantee == guarantee
    assert type(policy).load(tmp_path / "state").guarantee == guarantee
    for enforced, policy in ((True, make()), (False, make(user_ids=False))):
        about = [a.enforced for a in policy.guarantee.assumptions if a.text.startswith("No user")]
        assert about == [enforced]


@pytest.mark.parametrize("make", [usca, phased])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_copies_are_refused(make, duplicate):
    with pytest.raises(ProtocolError):
        duplicate(make())


@pytest.mark.parametrize("make", [usca, phased])
def test_configurations_build_the_same_and_strange_ones_nothing(make):
    policy = make()
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


def test_saved_phases_go_on_exactly(tmp_path):
    whole, first = phased(), phased()
    expected = [step(whole, t) for t in range(HORIZON)]
    begun = [step(first, t) for t in range(20)]
    first.save(tmp_path / "state")
    again = PhasedExploreThenCommit.load(tmp_path / "state")
    assert begun + [step(again, t) for t in range(20, HORIZON)] == expected
    assert np.array_equal(internals.drawn(again), internals.drawn(whole))


class Frame:
    columns = ("context",)

    def __array__(self, dtype=None, copy=None):
        return np.array([[0.5]])


@pytest.mark.parametrize(
    "bad", [Frame(), np.ma.masked_array([[0.5]], mask=[[True]])], ids=["frame", "masked"]
)
def test_tables_and_masks_are_not_taken_for_rows(bad):
    logged, live = usca(), phased()
    before = internals.fingerprint(logged), internals.fingerprint(live)
    for call in (
        lambda: logged.learn(bad, [2], [0.5], users=["u"]),
        lambda: logged.learn([0.5], [0.5], [0.5], propensities=bad, users=["u"]),
        lambda: logged.learn([0.5], np.ma.masked_array([2], mask=[True]), [0.5], users=["u"]),
        lambda: logged.answer(bad),
        lambda: live.ask(bad, user="u"),
        lambda: live.ask_batch(bad, users=["u"]),
    ):
        with pytest.raises(InvalidData):
            call()
    assert (internals.fingerprint(logged), internals.fingerprint(live)) == before


# -- what is available ------------------------------------------------------------------------------------


def marks(*cells):
    mask = np.zeros(5, dtype=bool)
    mask[list(cells)] = True
    return mask


def test_only_actions_that_are_available_are_given_with_their_propensities():
    policy = phased()
    for t in range(PHASES[0]):
        decision = policy.ask([context_of(t)], f"user-{t}", available=marks(1, 3))
        assert decision.index in (1, 3)
        assert decision.propensity == pytest.approx(0.5)
        policy.tell(decision.id, 0.5)
    users = [f"user-{t}" for t in range(8, 40)]
    which = np.array([marks(t % 5) for t in range(8, 40)])
    batch = policy.ask_batch([[context_of(t)] for t in range(8, 40)], users, available=which)
    assert batch.indices.tolist() == [t % 5 for t in range(8, 40)]
    np.testing.assert_array_equal(batch.propensities, np.ones(32))


@pytest.mark.parametrize("wrong", [np.ones(4, dtype=bool), np.ones(5), [[True], [True, False]], {}], ids=repr)
def test_marks_of_another_shape_take_nothing(wrong):
    one, other = phased(), usca()
    with pytest.raises(InvalidData, match="available: expected booleans of shape"):
        one.ask([0.5], "u", available=wrong)
    with pytest.raises(InvalidData, match="available: expected booleans of shape"):
        other.answer([0.5], available=wrong)
    assert (one.diagnostics()["rounds_asked"], other.diagnostics()["answers_given"]) == (0, 0)


def test_where_nothing_is_available_the_round_and_the_answer_are_taken():
    one, other = phased(), usca()
    with pytest.raises(InvalidData, match="at least one action; the round is taken"):
        one.ask([0.5], "u", available=marks())
    with pytest.raises(InvalidData, match="at least one action; the answer is taken"):
        other.answer([0.5], available=marks())
    assert (one.diagnostics()["rounds_asked"], other.diagnostics()["answers_given"]) == (1, 1)


def test_an_answer_is_the_best_of_what_is_available():
    policy = usca(horizon=4_000, privacy=JointDP(epsilon=50.0, delta=1e-6), answer_epsilon=15.0)
    actions, users = np.arange(4_000) % 5, [f"user-{t}" for t in range(4_000)]
    policy.learn(np.random.default_rng(0).random(4_000), 0.1 + actions / 5.0, actions / 4.0, users=users)
    assert policy.answer([0.5]).index == 4
    assert policy.answer([0.5], available=marks(0, 1, 2)).index == 2


def test_what_is_explored_among_few_counts_by_their_share():
    """Where only two of five actions are to be had each comes more often: its rewards must not count more."""
    policy = phased(
        horizon=4_000, phases=(3_000,), exploration=(1.0,), privacy=JointDP(epsilon=50.0, delta=1e-6)
    )
    contexts = np.random.default_rng(0).random(3_001)
    few = np.where((contexts < 0.5)[:, None], marks(0, 1), marks(0, 1, 2, 3, 4))
    users = [f"user-{t}" for t in range(3_000)]
    batch = policy.ask_batch(contexts[:3_000, None], users, available=few[:3_000])
    policy.tell_batch(batch.ids, np.full(3_000, 0.9))
    policy.ask([0.5], "last")
    mean, _ = policy.published.predict([[0.2], [0.8]])
    assert abs(mean[0, 0] - mean[1, 0]) < 0.1  # 0.4 apart where rounds count alike


def test_what_one_may_be_given_moves_nobody_else():
    alone, other = phased(), phased()
    for policy, mine in ((alone, None), (other, marks(2))):
        for t in range(PHASES[0]):
            decision = policy.ask([context_of(t)], f"user-{t}", available=mine if t == TARGET else None)
            if t != TARGET:
                policy.tell(decision.id, 0.5)
    given = [[one.ask([context_of(t)], f"user-{t}").index for t in range(8, 20)] for one in (alone, other)]
    assert given[0] == given[1]
