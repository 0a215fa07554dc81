"""The statement of block release is true word for word, whichever way the policy is set up."""

import re

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import ExploreThenCommit, GPBandit, GPTuning, PhasedExploreThenCommit
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy import JointDP, SecureNoise, SimulatedNoise
from dpbandits.state.live import WITNESSED_EVERY
from tuning import built


def small(**changes):
    arguments = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "n_features": 4,
        "domain": dpb.Box(low=[0.0], high=[1.0]),
        "reward_range": (0.0, 1.0),
        "horizon": 40,
        "privacy": JointDP(epsilon=1.0, delta=1e-6),
    }
    return built(GPBandit, arguments | changes)


def statement(**changes):
    guarantee = small(**changes).guarantee
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


def test_a_bad_decision_set_takes_its_round_as_the_statement_says():
    """Refusing it depends on private data: if it took no round, it would move everybody who follows."""
    guarantee, text = statement()
    (order,) = [one for one in guarantee.assumptions if "Every ask takes one round" in one.text]
    assert order.enforced
    assert "same order" not in text
    assert "that somebody took part is not hidden" in text
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
    assert policy.ask(np.array([[0.5]]), user="two").id.split("-")[1] == "1"


@pytest.mark.filterwarnings("ignore::dpbandits.central.explore_then_commit.policy.NothingToLearn")
def test_all_policies_of_the_room_rest_on_one_list():
    """Whatever is computed beside, copies, one id a person, what is out of reach: nobody's list lacks one."""
    cells = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "actions": CellMeasure.uniform(low=0, high=1, cells=3),
        "contexts": CellMeasure.uniform(low=0, high=1, cells=3),
        "reward_range": (0.0, 1.0),
        "horizon": 4000,
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
    }
    explore, phases = ExploreThenCommit(**cells).guarantee, PhasedExploreThenCommit(**cells).guarantee
    blocks, _ = statement()
    cells["privacy"] = JointDP(epsilon=4.0)
    answers = ExploreThenCommit(**cells).guarantee
    assert any("how many asks there were" in observer.sees for observer in answers.observers)
    for guarantee, answering in ((answers, True), (explore, False), (phases, False), (blocks, False)):
        timed = [one for one in guarantee.assumptions if "nobody but the server times it" in one.text]
        assert [one.enforced for one in timed] == [False] * answering
    (parts,) = [one for one in answers.assumptions if "learned in parts" in one.text]
    assert "no more rows than the horizon" in parts.text
    shared = [
        "Nothing else is computed from the same people's data",
        "carry that person's one id",
        "Only one copy of a saved state goes on",
        "every other parameter were chosen without looking",
        "are out of the attacker's reach",
        "No user id",
        "whatever",
    ]
    for guarantee in (explore, phases, blocks):
        for part in shared:
            assert any(part in one.text for one in guarantee.assumptions), part
        assert not any(
            "equally many" in one.text or "same order" in one.text for one in guarantee.assumptions
        )


def test_what_a_ledger_does_not_notice_is_listed_as_unchecked():
    """It sees releases and openings: an older copy put back between them asks anew."""
    ledger = dpb.state.MemoryLedger()
    ledger.open_account("people", epsilon=2, delta=1e-5)
    guarantee, said = statement(ledger=ledger, account="people")
    (put_back,) = [one for one in guarantee.assumptions if "put back" in one.text]
    assert not put_back.enforced
    assert "unless the policy lives in a folder" in put_back.text
    assert "the ledger refuses a second one" in said


def test_what_a_ledger_notices_of_a_folder_is_enforced_and_the_rest_is_listed(tmp_path):
    ledger = dpb.state.MemoryLedger()
    ledger.open_account("people", epsilon=4, delta=1e-5)
    for runtime in ({}, {"ledger": ledger, "account": "people"}):
        with GPBandit.open(tmp_path / f"{len(runtime)}", new=small(**runtime)) as policy:
            put_back = [one for one in policy.guarantee.assumptions if "put back" in one.text]
        assert [one.enforced for one in put_back] == ([True, False] if runtime else [False])
        if runtime:
            assert all(f"the last {WITNESSED_EVERY}" in one.text for one in put_back)
