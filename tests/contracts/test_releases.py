"""Raw data meets noise in one place, and everything else sees what comes out of it."""

import json

import numpy as np
import pytest

from contracts.cases import (
    BLOCKS,
    HORIZON,
    decision_set,
    mixing_blocks,
    releasing_in_blocks,
    reward_of,
    to_predict,
)
from contracts.driving import ask, drive
from dpbandits.errors import ContributionExceeded
from dpbandits.privacy import JointDP
from internals import policy as internals


def tell_otherwise(policy, start, stop):
    """Other rewards than `drive` tells, some of them missing, some given up."""
    chosen = []
    for t in range(start, stop):
        decision = ask(policy, t)
        chosen.append(decision.index)
        if t % 3 == 0:
            policy.tell(decision.id, 1.0 - reward_of(decision.action, t))
        elif t % 3 == 1:
            policy.abandon(decision.id)
    return chosen


@releasing_in_blocks
def test_answers_depend_on_releases_alone(case, monkeypatch):
    """With the same releases, whatever they were computed from, all answers are the same."""
    seen = []
    for run in (drive, tell_otherwise):
        policy = case.make()
        internals.fix_releases(monkeypatch, policy)
        chosen = run(policy, 0, HORIZON)
        seen.append(
            (chosen, *(values.tolist() for values in policy.predict(to_predict(policy, decision_set(77)))))
        )
    assert seen[0] == seen[1]


@mixing_blocks
def test_every_release_carries_its_own_noise(case):
    policy = case.make()
    drive(policy, 0, HORIZON)
    release = internals.mechanism(policy)
    mixed = release.factor.matrix @ release.mechanism.to_coordinates(internals.raw_sums(policy))
    noise = (policy.released - mixed * 2.0**20) / release.sigma
    assert noise.shape == (len(BLOCKS), release.mechanism.size)
    for drawn in noise:
        assert 0.4 < np.sqrt(np.mean(drawn**2)) < 2.0
    assert np.abs(np.corrcoef(noise)[np.triu_indices(len(BLOCKS), 1)]).max() < 0.99


@mixing_blocks
def test_all_rounds_of_a_user_together_move_releases_by_at_most_the_sensitivity(case):
    rounds, runs = 3, []
    for reward in (0.0, 1.0):
        policy = case.make(privacy=JointDP(epsilon=4.0, delta=1e-6, rounds_per_user=rounds))
        for t in range(BLOCKS[0] + 1):
            mine = t < rounds
            decision = policy.ask(decision_set(5)[:1], user="one" if mine else f"user-{t}")
            policy.tell(decision.id, reward if mine else 0.5)
        with pytest.raises(ContributionExceeded):
            policy.ask(decision_set(5)[:1], user="one")
        runs.append(policy)
    moved = np.linalg.norm((runs[0].released - runs[1].released).astype(float))
    assert moved <= internals.mechanism(runs[0]).sensitivity
    once = internals.mechanism(case.make()).sensitivity
    assert moved > 0.9 * once  # three rounds of one user do add up; one round's noise would not do
    assert internals.mechanism(runs[0]).sigma > 2.9 * internals.mechanism(case.make()).sigma


def shown(policy):
    """What anybody may look at, with the random names of this life taken out."""
    shown = [repr(policy), str(policy), json.dumps(policy.diagnostics()), json.dumps(policy.to_config())]
    shown += [
        repr(value) for value in vars(policy).values() if type(value).__module__.startswith("dpbandits")
    ]
    points = to_predict(policy, decision_set(77))
    recommended = policy.recommend(points if policy.menu is None else points[0])
    shown += [policy.guarantee.explain(), str(policy.predict(points)), str(recommended)]
    shown.append(str(policy.released.tolist()))
    lineage = internals.lineage(policy)
    return "\n".join(shown).replace(lineage, "LINEAGE").replace(lineage[:8], "LINEAGE")


@releasing_in_blocks
def test_before_a_release_nothing_that_is_shown_depends_on_anybody(case):
    one, other = case.make(), case.make()
    drive(one, 0, BLOCKS[0] - 1)
    tell_otherwise(other, 0, BLOCKS[0] - 1)
    assert shown(one) == shown(other)
