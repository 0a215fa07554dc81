"""What adapters show, raise and print holds nothing of the people: canaries go in, and must not come out."""

import traceback

import numpy as np
import pytest

import dpbandits as dpb
from adapters.people import ARMS, PEOPLE, block
from dpbandits.adapters import mabwiser
from dpbandits.adapters.optuna import PolicySampler
from dpbandits.adapters.sklearn import LoggedPolicy

AGE, REWARD, USER = 73.6180339887, 0.4142135623, "canary-user-7"
SEEN = ("73.618", "0.4142", "canary")
PERSON = np.array([[AGE, 1.0]])


def said(call):
    """What an error says, as a log would keep it."""
    with pytest.raises(dpb.errors.DPBanditsError) as caught:
        call()
    last = caught.value
    return "".join(traceback.format_exception_only(last)) + repr(last) + repr(last.__cause__)


def clean(*texts):
    for text in texts:
        assert not any(canary in text for canary in SEEN), "something private was shown"


def test_mabwisers_calls():
    mab = mabwiser.MAB(block(user_ids=True))
    arm = mab.predict(PERSON, users=[USER])
    clean(
        repr(mab),
        repr(mab.predict(PERSON, users=[USER])),
        said(lambda: mab.partial_fit([arm], [REWARD], PERSON, users=["another"])),
        said(lambda: mab.partial_fit([arm], [REWARD], PERSON)),
        said(lambda: mab.partial_fit([arm], [REWARD, REWARD], PERSON, users=[USER])),
        said(lambda: mab.fit([arm], [REWARD], PERSON, users=[USER])),
        said(lambda: mab.predict_expectations([[AGE, "canary"]])),
        repr(mab.predict_expectations([[5.0, 0.0]])),
    )


def test_an_estimator_shows_its_public_arguments_alone():
    estimator = LoggedPolicy(
        contexts=PEOPLE, arms=ARMS, horizon=50, privacy=dpb.JointDP(epsilon=20, delta=1e-5)
    )
    people, rewards = np.repeat(PERSON, 40, axis=0), np.full(40, REWARD)
    users = [f"{USER}{number}" for number in range(40)]
    wrong = said(lambda: estimator.fit(people, rewards[:3], arms=["mail"] * 40, users=users))
    estimator.fit(people, rewards, arms=["mail"] * 40, users=users)
    again = said(lambda: estimator.fit(people, rewards, arms=["mail"] * 40, users=users))
    outside = said(lambda: estimator.predict([[AGE + 100, 1.0]]))
    shown = (repr(estimator), estimator._repr_html_(), repr(estimator.policy_), repr(estimator.published_))
    clean(wrong, again, outside, *shown)


def test_a_studys_sampler():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    sampler = PolicySampler(block())
    study = optuna.create_study(sampler=sampler, direction="maximize")
    trial = study.ask()
    sampler.meet(trial, {"age": AGE, "region": "canary"})
    unread = said(lambda: trial.suggest_categorical("offer", ARMS))
    other = study.ask()
    sampler.meet(other, PERSON[0])
    other.suggest_categorical("offer", ARMS)
    clean(unread, repr(sampler), str(sampler), repr(study.trials))
