"""MABWiser's calls on our policies, and its policies in our laboratory."""

import pickle

import numpy as np
import pytest

import dpbandits as dpb
from adapters.people import ARMS, PEOPLE, SHARED, block, contexts, paid
from dpbandits.adapters.mabwiser import MAB
from dpbandits.errors import InvalidData, InvalidParameter, ProtocolError


def test_the_calls_of_mabwiser_work_as_there():
    mab, people = MAB(block()), contexts(90)
    one = mab.predict(people[0])
    assert one in ARMS == mab.arms
    several = mab.predict(people[1:])
    assert isinstance(several, list)
    assert set(several) <= set(ARMS)
    mab.partial_fit([one, *several], paid(people, [one, *several]), people)
    expected = mab.predict_expectations(people[:2].tolist())
    assert [set(row) for row in expected] == [set(ARMS)] * 2
    assert set(mab.predict_expectations(people[0].tolist())) == set(ARMS)
    assert mab.guarantee.epsilon == 4


def test_a_log_is_learned_from_before_the_first_prediction():
    """60 rows in two blocks: expectations then follow the log, whose arms others chose."""
    policy, people = block(privacy=dpb.JointDP(epsilon=50, delta=1e-4, user_ids=False)), contexts(60)
    mab, given = MAB(policy), np.random.default_rng(1).choice(ARMS, 60)
    mab.fit(given, paid(people, given), people)
    mab.predict(people[:1])  # releases what is due
    [old, young] = mab.predict_expectations([[90, 0], [10, 0]])
    assert old["call"] > old["mail"]
    assert young["mail"] > young["call"]
    assert policy.diagnostics()["rounds_asked"] == 61


def test_what_would_break_the_promise_is_refused():
    mab, people = MAB(block()), contexts(3)
    given = mab.predict(people)
    for again in (given, ["mail"] * 3):
        with pytest.raises(ProtocolError, match="second fit"):
            mab.fit(again, [1, 1, 1], people)
    for call in (
        lambda: MAB(dpb.lab.baselines.FeatureGPUCB(**SHARED)).add_arm("fax"),
        lambda: MAB(dpb.lab.baselines.FeatureGPUCB(**SHARED)).remove_arm("mail"),
        lambda: mab.warm_start({}, 0.5),
        lambda: pickle.dumps(mab),
    ):
        with pytest.raises(ProtocolError):
            call()
    kernel, box = dpb.kernels.SquaredExponential(lengthscale=1), dpb.Box(low=[0], high=[1])
    with pytest.raises(InvalidParameter, match="contexts"):
        MAB(block(domain=box, contexts=None, arms=None, kernel=kernel))


def test_arms_come_and_go_at_the_next_release():
    policy, people = (
        block(tuning=dpb.central.GPTuning(release="marginals", blocks=[30, 60, 90])),
        contexts(90),
    )
    mab = MAB(policy)
    first = mab.predict(people[:10])
    mab.add_arm("fax")
    mab.remove_arm("mail")
    with pytest.raises(ProtocolError, match="binarizer"):
        mab.add_arm("fax", binarizer=lambda arm, reward: reward)
    assert mab.arms == ARMS
    mab.partial_fit(first, np.zeros(10), people[:10])
    given = mab.predict(people[10:30])
    later = mab.predict(people[30:60])  # releases, while rewards of the first ones are open
    assert mab.arms == [*(arm for arm in ARMS if arm != "mail"), "fax"]
    assert "fax" in later
    mab.partial_fit([*given, *later], np.ones(50), people[10:60])
    assert policy.pending == ()


def test_a_reward_reaches_the_round_of_its_own_person_and_no_other():
    """Two people alike but for their rewards: who is left out of the rows moves nobody else's round.

    Were rows matched by context and arm alone, the second person's reward would land in the first's round.
    """
    policy = block()
    mab, twins = MAB(policy), np.array([[40.0, 1.0], [40.0, 1.0]])
    given = mab.predict(twins)
    with pytest.raises(InvalidData, match="got 1 rows for 2 open decisions"):
        mab.partial_fit(given[1:], [1.0], twins[1:])
    assert len(policy.pending) == 2  # nothing was taken
    mab.partial_fit(given, [np.nan, 1.0], twins)
    assert policy.pending == ()


def test_one_persons_text_moves_nobody_else():
    """Lists of several people: what cannot be read is one person's alone, and takes a round all the same."""
    policy = block()
    mab = MAB(policy)
    for unreadable in (["x", 1], [[40], 1], [40, 1, 7], [None, 1]):
        first, second = mab.predict([[40, 1], unreadable])
        assert first in ARMS
        assert second is None
    assert policy.diagnostics()["rounds_asked"] == 8
    named = dpb.Schema(age=dpb.Range(0, 100), region=dpb.Categories(["north", "west"]))
    mab = MAB(block(contexts=named))
    assert set(mab.predict([[40, "west"], (50, "north")])) <= set(ARMS)
    assert mab.predict([40, "west"]) in ARMS


def test_a_row_of_no_decision_counts_nothing_and_the_others_count():
    policy = block()
    mab, people = MAB(policy), contexts(3)
    given = mab.predict(people)
    others = people.copy()
    others[1, 0] = (people[1, 0] + 30) % 100
    with pytest.raises(InvalidData, match="the others were"):
        mab.partial_fit(given, [1.0, 1.0, 1.0], others)
    with pytest.raises(InvalidData, match="0 open decisions"):
        mab.partial_fit(given, [1.0, 1.0, 1.0], people)
    assert policy.pending == ()


def test_named_users_may_report_in_any_order():
    policy = block(user_ids=True)
    mab, people, users = MAB(policy), contexts(3), ["u", "v", "w"]
    given = mab.predict(people, users=users)
    back = [2, 0]
    mab.partial_fit([given[k] for k in back], [1.0, 0.0], people[back], users=["w", "u"])
    assert len(policy.pending) == 1
    with pytest.raises(InvalidData, match="no decision"):
        mab.partial_fit(given[1:2], [1.0], people[1:2], users=["u"])  # another's
    assert len(policy.pending) == 1
    assert mab.predict(people[:1], users=["u"]) is None  # all rounds were had


def test_the_non_private_baselines_have_the_same_calls():
    mab, people = MAB(dpb.lab.baselines.FeatureGPUCB(**SHARED)), contexts(40)
    mab.fit(["mail", "call"] * 20, paid(people, ["mail", "call"] * 20), people)
    assert mab.predict(people[:1]) in ARMS


def test_our_policies_may_be_of_people_without_contexts():
    everyone = dpb.Schema(who=dpb.Categories(["anyone"]))
    mab = MAB(block(contexts=everyone))
    assert mab.predict({"who": ["anyone"]}) in ARMS
    assert PEOPLE.dim == 2
