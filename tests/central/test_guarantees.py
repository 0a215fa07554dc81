"""The statement of block release is true word for word, whichever way the policy is set up."""

import re

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.privacy import JointDP, SecureNoise, SimulatedNoise
from tuning import built


def statement(**changes):
    arguments = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "n_features": 4,
        "domain": dpb.Box(low=[0.0], high=[1.0]),
        "reward_range": (0.0, 1.0),
        "horizon": 40,
        "privacy": JointDP(epsilon=1.0, delta=1e-6),
    }
    guarantee = built(GPBandit, arguments | changes).guarantee
    return guarantee, re.sub(r"\s+", " ", guarantee.explain())


def test_the_reason_is_that_of_the_certificate():
    _, concentrated = statement(noise=SecureNoise(certificate="concentrated"))
    _, near = statement()
    _, simulated = statement(noise=SimulatedNoise(0))
    assert "total variation" not in concentrated
    assert "within the stated total variation of rounded real-valued Gaussian noise" in near
    assert "billboard" in concentrated
    assert "billboard" in near
    assert "zero-concentrated" not in simulated


@pytest.mark.parametrize("user_ids", [True, False])
@pytest.mark.parametrize("sets", ["private", "public"])
def test_only_what_the_promise_needs_is_assumed(sets, user_ids):
    guarantee, text = statement(decision_sets=sets, user_ids=user_ids)
    assert ("reaches its own user only" in text) == (sets == "private")
    assert ("rounds carry that person's one id" in text) == user_ids
    assert "data given to warm_start" in text
    assert all(assumption.text.strip() for assumption in guarantee.assumptions)


def test_a_refused_ask_takes_no_round_as_the_statement_says():
    """Refusing depends on private data, so the order of users is an assumption, not a fact."""
    guarantee, _ = statement()
    (order,) = [one for one in guarantee.assumptions if "A refused ask takes no round" in one.text]
    assert not order.enforced
    policy = GPBandit(
        kernel=dpb.kernels.SquaredExponential(lengthscale=0.4),
        domain=dpb.Box(low=[0.0], high=[1.0]),
        reward_range=(0.0, 1.0),
        horizon=40,
        privacy=JointDP(epsilon=1.0, delta=1e-6),
        tuning=GPTuning(n_features=4),
    )
    with pytest.raises(dpb.errors.InvalidData):
        policy.ask(np.array([[2.0]]), user="one")
    assert policy.ask(np.array([[0.5]]), user="two").id.split("-")[1] == "0"
