"""Simulated forgers: what they want follows what is published, and their arm is promoted."""

from dataclasses import replace

import numpy as np
import pytest

from dpbandits.domains import Box
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.local import PublishedArms, Robust
from dpbandits.local.contract.grid import PublishedQuestions
from dpbandits.privacy import LocalDP
from flat import changed, spec_with
from reproduction.forgers import ForgedCrowd, Forgers
from reproduction.local_worlds import world
from reproduction.ma2025.local import unit_spec

SPEC = spec_with(
    contexts=Box(low=[0], high=[1]),
    arms=range(2),
    privacy=LocalDP(epsilon=2.0),
    mechanism="signed",
    reports_per_version=40,
    max_leaves=4,
    learner="tree",
    seed=5,
)


def test_a_crowd_without_forgers_is_the_crowd_it_was_and_forgers_are_no_users():
    one = world("tune-waves")
    spec = unit_spec(one, epsilon=1.0, learner="smooth")
    plain = simulate(spec, one, n_users=2000, seed=3)
    assert simulate(
        spec, one, n_users=2000, seed=3, robust=Robust(bytes(16), surprise=1e9)
    ).average_regret == (pytest.approx(plain.average_regret))
    forged = ForgedCrowd(spec, one, n_users=2000, seed=3, forgers=Forgers(share=0.1, arm=0)).run()
    assert plain.users.sum() == 2000
    assert forged.users.sum() == 1800
    burst = Forgers(share=0.1, arm=0, when="burst").among(2000, np.random.default_rng(0))
    assert np.flatnonzero(burst).tolist() == list(range(1000, 1200))


def test_forgers_promote_their_arm():
    """Of 4,000 people 20% forge: the promoted arm is pulled in most bins at the end."""
    one = world("tune-waves")
    spec = unit_spec(one, epsilon=1.0, learner="smooth")
    _, means = one.draw(2000, np.random.default_rng(0))
    arm = int(means.mean(axis=0).argmin())
    found = ForgedCrowd(spec, one, n_users=4000, seed=3, forgers=Forgers(share=0.2, arm=arm)).run()
    weights = found.rule.weights()
    assert weights[:, arm].mean() > 0.8
    assert found.anomaly > 8


def test_forgers_answer_questions_the_way_that_moves_their_arm():
    spec = changed(SPEC, mechanism="auto", learner="questions", constants={"parts": 2.0})
    size = spec.protocol.grids.whole.size
    halves, arms = np.arange(size) % 2, (np.arange(size) // 2) % 2
    published = PublishedQuestions(version=0, arms=arms, parts=halves, turned=(halves == 1) ^ (arms == 0))
    # in part 0 arm 1 is asked about as it is, and arm 0 turned; in part 1 the other way round
    assert Forgers(share=0.1, arm=1).wanted(published, spec).tolist() == [1.0, -1.0]
    assert Forgers(share=0.1, arm=1, aim="demote").wanted(published, spec).tolist() == [-1.0, 1.0]
    assert Forgers(share=0.1, arm=0).wanted(published, spec).tolist() == [-1.0, 1.0]


def test_one_bit_of_a_forger_costs_less_than_signs_in_every_bin():
    """At epsilon 1, 5% of 8,000, two crowds: the arm that is promoted ends in fewer people's hands."""
    one, lost = world("tune-waves"), {}
    _, means = one.draw(2000, np.random.default_rng(0))
    forgers = Forgers(share=0.05, arm=int(means.mean(axis=0).argmin()))
    for name in ("questions", "smooth"):
        spec = unit_spec(one, epsilon=1.0, learner=name)
        runs = [ForgedCrowd(spec, one, n_users=8000, seed=seed, forgers=forgers).run() for seed in (3, 4)]
        lost[name] = np.mean([run.regret[-20:].sum() / run.users[-20:].sum() for run in runs])
    assert lost["questions"] < 0.75 * lost["smooth"]


def test_what_forgers_want_follows_what_is_published():
    published = PublishedArms(version=0, splits=(0,), arms=np.array([1, 0]))
    assert Forgers(share=0.1, arm=1).wanted(published, SPEC).tolist() == [1.0, -1.0]
    assert Forgers(share=0.1, arm=1, aim="reverse").wanted(published, SPEC).tolist() == [-1.0, 1.0]
    assert Forgers(share=0.1, arm=1, aim="demote").wanted(published, SPEC).tolist() == [-1.0, 0.0]
    there = Forgers(share=0.1, arm=lambda points: (points[:, 0] < 0.5).astype(int))
    assert there.wanted(published, SPEC).tolist() == [1.0, 1.0]
    chosen = PublishedArms(version=0, splits=(0,), weights=np.full((2, 2), 0.5))
    assert Forgers(share=0.1, arm=1).wanted(chosen, replace(SPEC, chooser="client")).tolist() == [
        -1.0,
        1.0,
        -1.0,
        1.0,
    ]


@pytest.mark.parametrize("change", [{"share": 2.0}, {"aim": "help"}, {"when": "never"}, {"arm": -1}])
def test_forgers_that_cannot_be_are_refused(change):
    with pytest.raises(InvalidParameter, match=r"expected|at least|at most"):
        Forgers(**({"share": 0.1, "arm": 0} | change))
