"""The statement of block release is true word for word, whichever way the policy is set up."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import (
    ContextLaw,
    ExploreThenCommit,
    GPBandit,
    GPTuning,
)
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.state.live import WITNESSED_EVERY
from noises import UncountedNoise
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
    return guarantee, " ".join(f"{guarantee.explain()} {guarantee.annex()}".split())


def test_the_reason_is_that_of_the_certificate():
    _, concentrated = statement(noise=UncountedNoise())
    _, near = statement()
    _, simulated = statement(noise=SimulatedNoise(0))
    assert "total variation" not in concentrated
    assert "within the stated total variation of rounded real-valued Gaussian noise" in near
    assert "billboard" in concentrated
    assert "the largest change that one user's contributions make to all releases together" in concentrated
    assert "billboard" in near
    assert "zero-concentrated" not in simulated


@pytest.mark.parametrize("user_ids", [True, False])
@pytest.mark.parametrize("sets", ["private", "public"])
def test_only_what_the_promise_needs_is_assumed(sets, user_ids):
    guarantee, text = statement(decision_sets=sets, user_ids=user_ids)
    assert ("reaches its own user only" in text) == (sets == "private")
    assert ("All rounds of one person, and no others, carry one id" in text) == user_ids
    for of_ids in ("one of its user's", "visitor without an id", "a single ask without an id"):
        assert (of_ids in text) == user_ids
    assert "{" not in text
    assert "data given to warm_start" in text
    assert all(assumption.text.strip() for assumption in guarantee.assumptions)


def test_a_bad_decision_set_takes_its_round_as_the_statement_says():
    """Refusing it depends on private data: if it took no round, it would move everybody who follows."""
    guarantee, text = statement()
    (order,) = [one for one in guarantee.assumptions if "Every ask takes one round" in one.text]
    assert order.enforced
    assert "same order" not in text
    assert "number and times of asks (participation) (not covered)" in text
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


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
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
    explore = ExploreThenCommit(**cells).guarantee
    blocks, _ = statement()
    cells["privacy"] = JointDP(epsilon=4.0)
    answers = ExploreThenCommit(**cells).guarantee
    assert any("number and times of asks" in observer.sees for observer in answers.observers)
    for guarantee, answering in ((answers, True), (explore, False), (blocks, False)):
        timed = [one for one in guarantee.assumptions if "Only the server can measure" in one.text]
        assert [one.enforced for one in timed] == [False] * answering
    (parts,) = [one for one in answers.assumptions if one.name == "logs in parts"]
    assert "fit into the horizon together" in parts.text
    shared = [
        "Nothing else is computed from these people's data",
        "and no others, carry one id",
        "Only one copy of a saved state is continued",
        "No parameter was chosen by looking at private data",
        "No attacker reaches the server",
        "No user id",
        "whatever",
    ]
    for guarantee in (explore, blocks):
        for part in shared:
            assert any(part in one.text for one in guarantee.assumptions), part
        stored = "stored before anything that is computed from it is shown"
        assert any(stored in one.text and one.enforced for one in guarantee.assumptions)
        coins = [
            one.enforced for one in guarantee.assumptions if "keyed by (seed, purpose, round)" in one.text
        ]
        assert coins == [True] * (guarantee is not explore)
        assert not any(
            "equally many" in one.text or "same order" in one.text for one in guarantee.assumptions
        )


def restorings(guarantee):
    return [one for one in guarantee.assumptions if one.name in ("no rollback", "rollback detection")]


def test_what_a_ledger_does_not_notice_is_listed_as_unchecked():
    """It sees releases and openings: an older copy put back between them asks anew."""
    ledger = dpb.MemoryLedger()
    ledger.open_account("people", privacy=JointDP(2, 1e-5))
    guarantee, said = statement(account=ledger.account("people"))
    (put_back,) = [
        one for one in guarantee.assumptions if "restored" in one.text and "copy of the" in one.text
    ]
    assert not put_back.enforced
    assert "unless the policy runs in a folder" in put_back.text
    assert "the ledger refuses a second one" in said


def test_what_a_ledger_notices_of_a_folder_is_enforced_and_the_rest_is_listed(tmp_path):
    ledger = dpb.MemoryLedger()
    ledger.open_account("people", privacy=JointDP(4, 1e-5))
    for runtime in ({}, {"account": ledger.account("people")}):
        with GPBandit.open(tmp_path / f"{len(runtime)}", new=small(**runtime)) as policy:
            put_back = [
                one
                for one in policy.guarantee.assumptions
                if "restored" in one.text and "copy of the" in one.text
            ]
        assert [one.enforced for one in put_back] == ([True, False] if runtime else [False])
        if runtime:
            assert all(f"the last {WITNESSED_EVERY}" in one.text for one in put_back)


def marginals(epsilon, delta, **changes):
    columns = {name: dpb.Range(0, 1) for name in "abcd"}
    arguments = {"contexts": dpb.Schema(**columns), "arms": ["m", "n"], "reward_range": (0, 1)}
    arguments |= {"horizon": 2000, "privacy": JointDP(epsilon, delta)}
    guarantee = GPBandit(**(arguments | changes)).guarantee
    assert any("counts of people" in record.name for record in guarantee.mechanisms)
    return guarantee, " ".join(f"{guarantee.explain()} {guarantee.annex()}".split())


def test_marginal_tables_say_what_their_counts_rest_on():
    near, said = marginals(0.01, 1e-6)
    assert near.certificate.other.distance > 0.0
    assert "within the stated total variation" in said
    assert "Gaussian noise on the counts. Its delta plus (1 + e^epsilon) times that" in said
    assert "data given to warm_start" in said
    concentrated, said = marginals(1.0, 1e-6, noise=UncountedNoise())
    assert concentrated.certificate.other.rho > 0.0
    assert "total variation" not in said


def test_marginal_tables_state_no_delta_that_they_do_not_use():
    pure, said = marginals(1.0, 1e-14)
    assert (pure.epsilon, pure.delta) == (1.0, 0.0)
    assert "The allowed delta of 1e-14 is not used" in said
    used, said = marginals(1.0, 1e-6)
    assert (used.epsilon, used.delta) == (1.0, 1e-6)
    assert "is not used" not in said


def test_blocks_that_are_not_mixed_are_not_called_so():
    mixed, _ = statement()
    alone, _ = statement(horizon=None)
    assert "matrix mechanism over the blocks" in mixed.mechanisms[0].name
    assert "each block by itself" in alone.mechanisms[0].name


def test_a_reward_off_the_range_contributes_where_rewards_are_clipped_and_the_statement_knows_it():
    _, said = statement(clip=True)
    assert "off the range where rewards are not clipped" in said
    policy = small(clip=True)
    assert policy.tell(policy.ask(np.array([[0.5]]), user="one").id, 7.0).value == "counted"


def test_a_release_made_beside_the_answers_is_stored_before_anything_of_it_leaves(tmp_path):
    """It is fitted before: the statement says no more than that nothing leaves."""
    _, said = statement(lag=2)
    assert "stored before anything that is computed from it is shown" in said
    assert "before anything is computed" not in said


def test_who_brings_no_candidates_brings_a_decision_set_whatever_is_protected():
    for sets in ("private", "public"):
        _, said = statement(decision_sets=sets)
        assert "To bring none is to bring a decision set like any other" in said


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_that_there_is_one_ledger_is_assumed_where_one_is_relied_on():
    """Put back with the state beside it, a file of charges notices nothing."""
    ledger = dpb.MemoryLedger()
    ledger.open_account("people", privacy=JointDP(20, 1e-3))
    cells = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "actions": CellMeasure.uniform(low=0, high=1, cells=3),
        "contexts": CellMeasure.uniform(low=0, high=1, cells=3),
        "reward_range": (0.0, 1.0),
        "horizon": 4000,
        "privacy": JointDP(epsilon=4.0, delta=1e-6),
    }
    for runtime in ({}, {"account": ledger.account("people")}):
        for promised in (
            statement(**runtime)[0],
            marginals(1.0, 1e-6, **runtime)[0],
            ExploreThenCommit(**cells, **runtime).guarantee,
        ):
            one = [a.enforced for a in promised.assumptions if a.name == "one ledger"]
            assert one == [False] * bool(runtime)


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_that_a_histogram_was_charged_is_assumed_where_an_account_pays():
    ledger = dpb.MemoryLedger()
    ledger.open_account("people", privacy=JointDP(20, 1e-3))
    cells = CellMeasure.uniform(low=0, high=1, cells=3)
    counted = ContextLaw.from_private_histogram(
        np.random.default_rng(0).random((50, 1)), cells=cells, epsilon=1.0, users=range(50)
    )
    for contexts, runtime, assumed in (
        (counted, {"account": ledger.account("people")}, True),
        (counted, {}, False),
        (cells, {"account": ledger.account("people")}, False),
    ):
        promised = ExploreThenCommit(
            kernel=dpb.kernels.SquaredExponential(lengthscale=0.4),
            actions=cells,
            contexts=contexts,
            reward_range=(0.0, 1.0),
            horizon=4000,
            privacy=JointDP(epsilon=4.0, delta=1e-6),
            **runtime,
        ).guarantee
        found = [a.enforced for a in promised.assumptions if a.name == "histogram charged"]
        assert found == [False] * assumed


@pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")
def test_a_row_beyond_its_users_bound_takes_no_place_of_the_horizon_as_the_statement_says():
    cells = CellMeasure.uniform(low=0, high=1, cells=3)
    policy = ExploreThenCommit(
        kernel=dpb.kernels.SquaredExponential(lengthscale=0.4),
        actions=cells,
        contexts=cells,
        reward_range=(0.0, 1.0),
        horizon=2,
        privacy=JointDP(epsilon=4.0, delta=1e-6),
    )
    (rule,) = [a for a in policy.guarantee.assumptions if "are dropped and take no place" in a.text]
    assert rule.enforced
    policy.learn([[0.1], [0.2], [0.3]], [0.1, 0.5, 0.9], [1.0, 1.0, 1.0], users=["a", "a", "b"])
    assert policy.unsafe_left_out == {"unreadable": 0, "surplus": 1}
