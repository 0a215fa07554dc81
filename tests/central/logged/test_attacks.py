"""What a hostile row, shard, copy or machine could do: every one of these once broke a promise, or could."""

import copy
import pickle
from decimal import Decimal

import numpy as np
import pytest

from dpbandits.budget import MemoryLedger
from dpbandits.central.logged import calibration
from dpbandits.central.logged.calibration import Budget
from dpbandits.central.logged.contexts import ContextLaw
from dpbandits.central.logged.policy import ExploreThenCommit
from dpbandits.central.logged.sums import RewardSums
from dpbandits.central.published.pavlovic2025 import USCA
from dpbandits.errors import (
    ContributionExceeded,
    CorruptState,
    IncompatibleState,
    InvalidData,
    InvalidParameter,
    ProtocolError,
)
from dpbandits.models.features import eigen as eigenfeatures
from dpbandits.models.kernels import Matern, SquaredExponential
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy.definitions import JointDP
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from dpbandits.state import store
from internals.logged import add_in_chunks, other_machine, published_tables, rules_caps, sums
from tuning import built

CONTEXTS = CellMeasure.uniform(low=0, high=1, cells=6)
ACTIONS = CellMeasure.uniform(low=0, high=1, cells=7)


def build(**changes):
    arguments = {
        "kernel": SquaredExponential(lengthscale=0.4),
        "actions": ACTIONS,
        "contexts": CONTEXTS,
        "reward_range": (0.0, 1.0),
        "horizon": 3000,
        "privacy": JointDP(epsilon=3.0, delta=1e-6),
        "user_ids": False,
        "publish_epsilon": 1.0,
        "answer_epsilon": 0.5,
        "noise": SimulatedNoise(3),
    }
    return built(ExploreThenCommit, arguments | changes)


def rows(n, seed=0):
    rng = np.random.default_rng(seed)
    contexts, actions = rng.random(n), rng.integers(7, size=n)
    return contexts, actions, 1.0 - ((actions + 0.5) / 7 - contexts) ** 2


# -- rows --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reward", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("chance", [5e-324, 1e-310, 1e-160, 1.0])
def test_no_propensity_moves_a_cell_beyond_its_cap(reward, chance):
    """0 * inf is not a number, which astype(int64) made -2^63."""
    usca = build()
    usca.learn([0.1], [0.5], [reward], propensities=[chance])
    kept = sums(usca)
    assert (np.abs(kept) <= usca.calibration.caps).all()
    assert (kept.min() >= 0) == (reward >= 0.5)
    nobody = build(bound=1e-30, actions=ACTIONS.with_weights([0, 1, 1, 1, 1, 1, 1]))
    nobody.learn([0.1], [0], [reward], propensities=[chance])
    assert not sums(nobody).any()


def test_sums_refuse_what_is_no_number_and_what_contradicts_their_caps():
    empty = RewardSums(np.array([[5, 5]]))
    with pytest.raises(InvalidData):
        empty.with_rows(np.array([0]), np.array([np.nan]))
    with pytest.raises(CorruptState):
        RewardSums(empty.caps, np.array([[6, 0]]), 1)


def test_an_interrupted_learn_counts_nothing(monkeypatch):
    contexts, actions, rewards = rows(600)
    units = [f"u{i}" for i in range(600)]
    usca, calls = build(user_ids=True), []
    real = np.rint

    def interrupted(*arguments, **options):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(*arguments, **options)

    add_in_chunks(monkeypatch, 128)
    monkeypatch.setattr("dpbandits.central.logged.sums.np.rint", interrupted)
    with pytest.raises(KeyboardInterrupt):
        usca.learn(contexts, actions, rewards, users=units)
    monkeypatch.undo()
    assert not sums(usca).any()
    usca.learn(contexts, actions, rewards, users=units)
    whole = build(user_ids=True)
    whole.learn(contexts, actions, rewards, users=units)
    assert np.array_equal(sums(usca), sums(whole))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["ann"], np.array(["ann"])),
        ([5], np.array([5])),
        ([np.int32(5)], np.array([5], dtype=np.uint64)),
        ([b"ann"], np.array([b"ann"])),
        ([type("Id", (str,), {})("ann")], ["ann"]),
        ([51624], ["51624"]),
        ([b"51624"], [np.int64(51624)]),
    ],
)
def test_equal_ids_are_one_unit_whatever_their_type(one, other):
    usca = build(user_ids=True)
    usca.learn([0.1], [0.5], [1.0], users=one)
    once = sums(usca).copy()
    usca.learn([0.1], [0.5], [1.0], users=other)
    assert np.array_equal(sums(usca), once)
    shard = usca.shard()
    shard.learn([0.1], [0.5], [1.0], users=other)
    with pytest.raises(ContributionExceeded):
        usca.merge(shard)


@pytest.mark.parametrize("unit", [None, object(), ("ann", 1), float("nan"), float("inf"), "", b" "])
def test_a_row_of_nobody_counts_zero(unit):
    usca = build(user_ids=True)
    usca.learn([0.1], [0.5], [1.0], users=[unit])
    assert not sums(usca).any()
    assert usca.unsafe_left_out == {"unreadable": 0, "surplus": 1}


# -- shards ------------------------------------------------------------------------------------------------


def test_a_shard_counts_once(tmp_path):
    usca = build()
    shard = usca.shard()
    shard.learn([0.1] * 3, [0.5] * 3, [1.0] * 3)
    twin = pickle.loads(pickle.dumps(shard))  # noqa: S301  # as a worker would send it back
    shard.save(tmp_path / "shard")
    outer = usca.shard()
    outer.merge(shard)
    with pytest.raises(ContributionExceeded):
        shard.merge(shard)
    usca.merge(outer)
    once = sums(usca).copy()
    shard.learn([0.1], [0.5], [1.0])
    for again in (outer, shard, twin, usca.shard().load_sums(tmp_path / "shard")):
        with pytest.raises(ContributionExceeded, match="merged before"):
            usca.merge(again)
    assert np.array_equal(sums(usca), once)
    usca.save(tmp_path / "state")
    with pytest.raises(ContributionExceeded):
        ExploreThenCommit.load(tmp_path / "state").merge(usca.shard().load_sums(tmp_path / "shard"))
    fresh = usca.shard()
    fresh.learn([0.1] * 3, [0.5] * 3, [1.0] * 3)
    usca.merge(fresh)
    assert np.array_equal(sums(usca), 2 * once)


# -- the law of contexts -----------------------------------------------------------------------------------


WHERE = np.full(50, 0.2)


def histogram(contexts=WHERE, **options):
    return ContextLaw.from_private_histogram(
        contexts, cells=CONTEXTS, epsilon=0.5, noise=SimulatedNoise(1), **options
    )


def test_a_histogram_must_cover_as_many_rows_of_a_user_as_the_promise():
    promise = JointDP(epsilon=3.0, delta=1e-6, rounds_per_user=4)
    with pytest.raises(InvalidParameter, match="histogram covers 1 row"):
        build(contexts=histogram(), privacy=promise)
    record = build(contexts=histogram(rounds_per_user=5), privacy=promise).guarantee.mechanisms[0]
    assert (record.scale, record.sensitivity) == (2 * 5 / 0.5, 10.0)
    law = histogram(rounds_per_user=4)
    assert ContextLaw.from_config(law.to_config()) == law


def test_a_histogram_says_whether_it_counted_units():
    def sentence(law):
        found = [a for a in build(contexts=law).guarantee.assumptions if "histogram of contexts" in a.text]
        return found[0].enforced

    assert not sentence(histogram())
    assert sentence(histogram(users=[f"u{i}" for i in range(50)]))
    twice = histogram(users=["ann", np.str_("ann"), *(f"u{i}" for i in range(48))])
    once = np.r_[WHERE[:1], np.nan, WHERE[2:]]  # the second row counts nowhere
    assert twice == histogram(users=[f"u{i}" for i in range(50)], contexts=once)
    with pytest.raises(InvalidData):
        histogram(users=["ann"])


def test_a_generous_histogram_is_drawn():
    law = ContextLaw.from_private_histogram(np.full(50, 0.2), cells=CONTEXTS, epsilon=40.0)
    assert law.measure.weights.argmax() == 1


def test_an_answers_message_says_nothing_of_the_person():
    """One message for everybody to whom nothing can be given, and one for everybody off the cells."""
    usca = build(answer_epsilon=0.1)
    for contexts, available in (((0.1, 0.5, 0.9), [False] * 7), ((-3.0, 1.5, 1e9, np.nan), None)):
        said = set()
        for place in contexts:
            with pytest.raises(InvalidData) as caught:
                usca.answer([place], available=available)
            said.add(str(caught.value))
        assert len(said) == 1, said


# -- budgets -----------------------------------------------------------------------------------------------


def test_parts_never_add_up_to_more_than_the_promise_and_are_always_accepted_again():
    """0.05 - 0.01 was 0.04 in floats, where the decimals of the two leave 0.039999999999999998."""
    rng = np.random.default_rng(0)
    for total in [*np.round(np.linspace(0.05, 5, 150), 3), *rng.uniform(0.01, 20, 150)]:
        epsilon = float(total)
        spent = 0.2 * epsilon
        for delta in (0.0, 1e-6):
            promise = JointDP(epsilon=epsilon, delta=delta)
            budget = Budget.divided(promise, histogram=spent, publish=None, answer=None)
            parts = [spent, budget.publish_epsilon, *[budget.answer_epsilon] * budget.answers]
            assert sum(Decimal(repr(part)) for part in parts) <= Decimal(repr(epsilon))
            assert sum(parts) >= epsilon * (1.0 - 1e-12)
            again = Budget.divided(
                promise,
                histogram=spent,
                publish=budget.publish_epsilon,
                answer=budget.answer_epsilon if budget.answers else None,
            )
            assert again == budget


def test_an_account_with_exactly_the_promise_pays_for_all_of_it(tmp_path):
    ledger = MemoryLedger()
    ledger.open_account("town", privacy=JointDP(0.5, 1e-6))
    ledger.charge("town", charge_id="histogram", cost=JointDP(0.3 - 0.2))  # 0.09999999999999998
    law = ContextLaw.from_private_histogram(
        np.full(50, 0.2), cells=CONTEXTS, epsilon=0.3 - 0.2, noise=SimulatedNoise(1)
    )
    promise = JointDP(epsilon=0.5, delta=1e-6)
    options = {"publish_epsilon": None, "answer_epsilon": None}
    usca = build(contexts=law, privacy=promise, account=ledger.account("town"), **options)
    usca.learn(*rows(10))
    usca.save(tmp_path / "state")
    usca.publish()
    ExploreThenCommit.load(tmp_path / "state", ledger=ledger).publish()


# -- copies, places and machines ---------------------------------------------------------------------------


def test_a_release_is_the_same_after_a_restart_on_another_machine(tmp_path, monkeypatch):
    usca = build()
    usca.learn(*rows(2000))
    usca.save(tmp_path / "state")
    policy = usca.publish()
    other_machine(monkeypatch)
    restored = ExploreThenCommit.load(tmp_path / "state")
    assert not np.array_equal(restored.features.psi, usca.features.psi)
    assert restored.publish().mean.tobytes() == policy.mean.tobytes()
    assert restored.publish().sd.tobytes() == policy.sd.tobytes()


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_sensitivities_after_a_restart_are_those_of_the_caps_that_rows_were_cut_at(
    tmp_path, monkeypatch, share
):
    usca = build(ridge=100.0)
    monkeypatch.setattr("dpbandits.central.logged.calibration.SHARES", (share,))
    wide = build(ridge=100.0)
    assert (wide.calibration.caps != usca.calibration.caps).any()  # another share wins there
    answers, release = wide.calibration.caps
    assert share == 1.0 or not np.array_equal(answers, release)
    wide.learn(*rows(1000))
    wide.save(tmp_path / "state")
    monkeypatch.undo()
    restored = ExploreThenCommit.load(tmp_path / "state")
    assert np.array_equal(restored.calibration.caps, wide.calibration.caps)
    assert np.array_equal(rules_caps(restored), wide.calibration.caps)
    assert (
        restored.calibration.release.sensitivity
        == wide.calibration.release.sensitivity
        != usca.calibration.release.sensitivity
    )
    kept = sums(restored)[0]
    assert (
        restored.calibration.scores(restored.calibration.answers, 2, kept)[1]
        == (wide.calibration.scores(wide.calibration.answers, 2, kept)[1])
    )
    shard = restored.shard()
    shard.learn(*rows(10))
    restored.merge(shard)


def test_a_basis_of_something_else_is_refused():
    features = eigenfeatures.EigenFeatures(
        kernel=Matern(nu=2.5, lengthscale=0.4), measures=(ACTIONS, CONTEXTS)
    )
    other = eigenfeatures.EigenFeatures(kernel=Matern(nu=0.5, lengthscale=0.4), measures=(ACTIONS, CONTEXTS))
    again = features.in_basis(features.eigenvalues, -features.psi)
    assert np.array_equal(again.psi, -features.psi)
    for values, psi in (
        (other.eigenvalues, other.psi),
        (features.eigenvalues, 2.0 * features.psi),
        (features.eigenvalues, features.psi[:, :-1]),
        (features.eigenvalues, np.full_like(features.psi, np.nan)),
    ):
        with pytest.raises(InvalidParameter):
            features.in_basis(values, psi)


def test_a_path_that_refuses_leaves_the_object_where_it_was(tmp_path):
    mine, theirs = build(), build()
    mine.save(tmp_path / "mine")
    theirs.save(tmp_path / "theirs")
    with pytest.raises(IncompatibleState):
        mine.save(tmp_path / "theirs")
    assert mine.answer([0.5]).number == 1
    assert ExploreThenCommit.load(tmp_path / "mine").remaining_answers == mine.remaining_answers


# -- questions ---------------------------------------------------------------------------------------------


def test_two_contexts_are_not_one_question():
    usca = build()
    with pytest.raises(InvalidData, match="expected one"):
        usca.answer([[0.1], [0.9]])
    assert usca.remaining_answers == 4


@pytest.mark.parametrize("context", [[float("nan")], [1.5], [None], ["x"]], ids=str)
def test_how_many_answers_are_left_says_nothing_of_a_context(context, tmp_path):
    """The count is public: a context that cannot be answered takes its answer, and pays, like another."""
    left, spent, later = [], [], []
    for place, asked in enumerate((context, [0.5])):
        ledger = MemoryLedger()
        ledger.open_account("people", privacy=JointDP(3, 1e-6))
        usca = build(account=ledger.account("people"))
        usca.learn(*rows(3000))
        usca.save(tmp_path / str(place))
        if place == 0:
            with pytest.raises(InvalidData, match="the answer is taken"):
                usca.answer(asked)
        else:
            usca.answer(asked)
        left.append((usca.remaining_answers, usca.diagnostics()["answers_given"]))
        spent.append(ledger.balance("people").spent)
        later.append(usca.answer([0.2]))
        again = ExploreThenCommit.load(tmp_path / str(place), ledger=ledger)
        assert again.remaining_answers == usca.remaining_answers
    assert left[0] == left[1]
    assert spent[0] == spent[1]
    assert (later[0].number, later[0].index) == (later[1].number, later[1].index)


@pytest.mark.parametrize(
    "change",
    [
        {"actions": CellMeasure.finite([0.0])},
        {"kernel": SquaredExponential(lengthscale=0.3, columns=(1,))},
        {"ridge": float("inf")},
    ],
)
def test_what_could_never_be_answered_is_refused_before_it_is_charged(change):
    with pytest.raises(InvalidParameter):
        build(**change)


def test_a_context_where_all_actions_are_alike_is_answered_at_random():
    usca = build()
    estimator = usca.calibration.answers.estimator
    flat = type(estimator)(estimator.features, 3000, estimator.ridge)
    flat.__dict__["scaled"] = np.ones((42, 3))
    plan = calibration.replace(usca.calibration.answers, estimator=flat)
    scores, span = usca.calibration.scores(plan, 0, sums(usca)[0])
    assert (scores == 0).all()
    assert span == 1


def test_charging_is_claimed_where_somebody_charges():
    ledger = MemoryLedger()
    ledger.open_account("town", privacy=JointDP(3.0, 1e-6))
    free, paid = build(), build(account=ledger.account("town"))
    texts = [" ".join(a.text for a in usca.guarantee.assumptions) for usca in (free, paid)]
    assert "charged to the ledger" not in texts[0]
    assert "charged to the ledger before it is drawn" in texts[1]


def published():
    return USCA(
        kernel=SquaredExponential(lengthscale=0.4),
        actions=ACTIONS,
        contexts=CONTEXTS,
        reward_range=(0.0, 1.0),
        horizon=30,
        privacy=JointDP(epsilon=1.0),
    )


@pytest.mark.parametrize("action", [-1, 7, 0.5])
def test_the_published_form_takes_cells_that_exist(action):
    usca = published()
    usca.learn([0.1], np.array([action]), [0.3])
    usca.learn([7.0, 0.1, np.nan], [1, 1, None], [0.3, np.nan, 0.3])
    assert not usca.unsafe_scores(1).any()


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_the_published_form_is_not_copied(duplicate):
    with pytest.raises(ProtocolError):
        duplicate(published())
    with pytest.raises(InvalidData):
        published().answer([[0.1], [0.2]])


class Died(BaseException):
    """The process ends here: nothing after it runs, nothing catches it."""


@pytest.mark.parametrize("step", ["encode", "write_durably", "replace_durably"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_whoever_dies_while_committing_has_spent_what_left_and_releases_once(
    tmp_path, monkeypatch, step, when
):
    ledger = MemoryLedger()
    ledger.open_account("town", privacy=JointDP(3.0, 1e-6))
    usca = build(account=ledger.account("town"), noise=SecureNoise())
    usca.learn(*rows(500))
    usca.save(tmp_path / "state")
    real = getattr(store, step)

    def dying(*arguments):
        if when == "after":
            real(*arguments)
        raise Died

    for spend in ("answer", "release"):
        with monkeypatch.context() as fatal:
            fatal.setattr(store, step, dying)
            with pytest.raises(Died):
                usca.answer([0.5]) if spend == "answer" else usca.publish()
        dead, usca = usca, ExploreThenCommit.load(tmp_path / "state", ledger=ledger)
        if published_tables(usca) is not None:  # witnessed: this one and no other
            assert np.array_equal(published_tables(usca), published_tables(dead))
        spent = float(ledger.balance("town").spent_epsilon)
        number = usca.answer([0.5]).number
        assert float(ledger.balance("town").spent_epsilon) >= max(spent, 0.5 * number)
        usca = ExploreThenCommit.load(tmp_path / "state", ledger=ledger)
        assert usca.remaining_answers == 4 - number
    first = usca.publish()
    again = ExploreThenCommit.load(tmp_path / "state", ledger=ledger).publish()
    assert again.mean.tobytes() == first.mean.tobytes()
    assert float(ledger.balance("town").spent_epsilon) <= 3.0


def test_noise_that_leaves_the_lattice_is_refused_before_any_data():
    promise = JointDP(epsilon=0.001, delta=1e-6, rounds_per_user=100)
    with pytest.raises(InvalidParameter, match="epsilon is too small"):
        build(privacy=promise, publish_epsilon=None, answer_epsilon=None)
