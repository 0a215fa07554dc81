"""The scikit-learn estimator over a log."""

import copy
import importlib
import pickle
import sys

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

import dpbandits as dpb
from adapters.people import ARMS, PEOPLE, contexts, paid
from dpbandits.adapters.sklearn import LoggedPolicy, NotReleased
from dpbandits.errors import BudgetExceeded, InvalidData, InvalidParameter, MissingExtra, ProtocolError
from dpbandits.privacy.definitions import JointDP

N = 4000


def estimator(**changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": ARMS,
        "horizon": N,
        "privacy": dpb.JointDP(epsilon=8, delta=1e-5, user_ids=False),
        "noise": dpb.SimulatedNoise(5),
    }
    return LoggedPolicy(**(arguments | changes))


def log(n=N):
    people, given = contexts(n), np.random.default_rng(1).choice(ARMS, n)
    return people, paid(people, given), given


def test_it_fits_a_log_and_predicts_from_the_release():
    people, rewards, given = log()
    fitted = estimator().fit(people, rewards, arms=given)
    assert fitted.predict([[90, 0], [5, 1]]).tolist() == ["call", "mail"]
    chances, means = fitted.predict_proba(people[:50]), fitted.decision_function(people[:50])
    assert chances.shape == means.shape == (50, 3)
    np.testing.assert_array_equal(chances.sum(axis=1), 1.0)
    labels = fitted.predict(people[:50])
    np.testing.assert_array_equal(fitted.classes_[chances.argmax(axis=1)], labels)
    np.testing.assert_array_equal(fitted.classes_[means.argmax(axis=1)], labels)
    check_is_fitted(fitted)
    assert fitted.guarantee_.epsilon == 8
    assert (fitted.n_features_in_, list(fitted.feature_names_in_)) == (2, ["age", "region"])


def test_an_arm_that_raises_costs_its_own_row():
    class Arm:
        def __array__(self, *_, **__):
            raise RuntimeError("reward of Ann is 0.7")

        __len__ = __getitem__ = __array__

    people, rewards, _ = log(3)
    learner = estimator().partial_fit(people, rewards, arms=["mail", Arm(), "call"])
    assert learner.policy_.unsafe_left_out["unreadable"] == 1


def test_batches_are_added_and_released_once():
    """In batches or at once: the same release, as its noise is simulated and its sums are the same."""
    people, rewards, given = log()
    whole, parts = estimator().fit(people, rewards, arms=given), estimator()
    for rows in np.array_split(np.arange(N), 4):
        parts.partial_fit(people[rows], rewards[rows], arms=given[rows])
        with pytest.raises(NotReleased, match="no release"):
            parts.predict(people[:1])
    parts.publish()
    np.testing.assert_array_equal(parts.decision_function(people), whole.decision_function(people))
    assert parts.publish() is parts
    for again in (parts.partial_fit, parts.fit):
        with pytest.raises(ProtocolError, match="release was made"):
            again(people, rewards, arms=given)


def test_an_unfitted_estimator_is_refused_as_scikit_learn_refuses():
    for call in (estimator().predict, estimator().predict_proba, estimator().decision_function):
        with pytest.raises(NotFittedError):
            call([[50, 0]])
    with pytest.raises(NotFittedError):
        check_is_fitted(estimator())
    with pytest.raises(NotReleased, match="learn from rows first"):
        estimator().publish()


def test_a_promise_has_one_release_whoever_is_cloned():
    """Cross-validation fits clones on people that the folds share: without a ledger only one releases."""
    people, rewards, given = log(400)
    first = estimator()
    second, third = clone(first), clone(clone(first))
    second.fit(people, rewards, arms=given)
    for other in (first, third, clone(second)):
        with pytest.raises(BudgetExceeded, match="cross-validation"):
            other.fit(people, rewards, arms=given)
        with pytest.raises(NotFittedError):
            other.predict(people)
    waiting = clone(third).partial_fit(people, rewards, arms=given)
    with pytest.raises(BudgetExceeded):
        waiting.publish()
    with pytest.raises(BudgetExceeded):
        cross_val_score(
            estimator(), people, rewards, cv=2, params={"arms": given}, error_score="raise",
            scoring=lambda fitted, X, y: 0.0,
        )  # fmt: skip


def test_with_a_ledger_every_release_pays_until_the_account_is_empty():
    people, rewards, given = log(400)
    ledger = dpb.MemoryLedger()
    ledger.open_account("shop", privacy=JointDP(8, 1e-5))
    first = estimator(account=ledger.account("shop"))
    second = clone(first)
    assert second.account.ledger is ledger  # a copied ledger would have a full account of its own
    first.fit(people, rewards, arms=given)
    with pytest.raises(BudgetExceeded):
        second.fit(people, rewards, arms=given)
    assert float(ledger.balance("shop").spent_epsilon) == 8


def test_nothing_is_copied_or_pickled():
    people, rewards, given = log(400)
    for one in (estimator(), estimator().partial_fit(people, rewards, arms=given)):
        for copied in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(ProtocolError, match="copied or pickled"):
                copied(one)


def test_arguments_are_checked_where_learning_begins():
    people, rewards, given = log(40)
    with pytest.raises(InvalidParameter, match="horizon"):
        LoggedPolicy(contexts=PEOPLE, arms=ARMS).fit(people, rewards, arms=given)
    with pytest.raises(InvalidData, match="arms"):
        estimator().fit(people, rewards)
    one = estimator()
    with pytest.raises(InvalidData):
        one.fit(people, rewards[:-1], arms=given)
    one.fit(people, rewards, arms=given)  # nothing was spent


def test_without_scikit_learn_the_pip_line_is_given(monkeypatch):
    monkeypatch.delitem(sys.modules, "dpbandits.adapters.sklearn")
    for name in ("sklearn", "sklearn.base"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="pip install scikit-learn"):
        importlib.import_module("dpbandits.adapters.sklearn")


def test_it_stands_in_a_pipeline():
    people, rewards, given = log()
    line = make_pipeline(FunctionTransformer(), estimator())
    line.fit(people, rewards, loggedpolicy__arms=given)
    assert line.predict([[90, 0]]).tolist() == ["call"]
    assert "loggedpolicy__horizon" in line.get_params()


APPLY = (
    "check_estimator_cloneable",
    "check_estimator_tags_renamed",
    "check_valid_tag_types",
    "check_estimator_repr",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_get_params_invariance",
    "check_set_params",
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_mixin_order",
    "check_estimators_unfitted",
)
"""Of `check_estimator` those that speak of arguments, clones and unfitted estimators. The others fit X and y
without arms, or fit twice, or pickle: what they ask for is what the promise refuses."""


@pytest.mark.parametrize("name", APPLY)
def test_scikit_learns_own_checks(name):
    getattr(estimator_checks, name)("LoggedPolicy", LoggedPolicy())
