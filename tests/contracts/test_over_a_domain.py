"""Asked without candidates a policy chooses out of its whole domain; nobody else's rounds notice."""

import numpy as np
import pytest

import dpbandits as dpb
from contracts.cases import BLOCKS, CASES, DOMAIN, HORIZON, decision_set, reward_of
from dpbandits.errors import ContributionExceeded, HorizonExceeded, InvalidData, InvalidParameter

pytestmark = pytest.mark.numerics

AMONG_CANDIDATES_ONLY = {
    "dubey2021",
    "linear tree",
    "constant arm",
    "private ridge",
    "cell histogram",
    "DP-IMED",
    "DP-KLUCB",
}

over_a_domain = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name not in AMONG_CANDIDATES_ONLY and not case.people], ids=repr
)
among_candidates = pytest.mark.parametrize(
    "case", [case for case in CASES if case.name in AMONG_CANDIDATES_ONLY], ids=repr
)


def drive(policy, start, stop, *, candidates_of=()):
    """Ask over the domain, but in some rounds among candidates; the points that were given."""
    points = []
    for t in range(start, stop):
        decision = policy.ask(decision_set(t) if t in candidates_of else None, f"user-{t}")
        policy.tell(decision.id, reward_of(decision.action, t))
        points.append(decision.action)
    return np.array(points)


@over_a_domain
def test_a_decision_is_a_point_of_the_domain_and_takes_its_round(case):
    policy = case.make()
    points = drive(policy, 0, HORIZON)
    assert DOMAIN.contains(points).all()
    assert len(np.unique(points[: BLOCKS[0]], axis=0)) >= (2 if case.learns else BLOCKS[0])
    with pytest.raises(HorizonExceeded):
        policy.ask(user="one more")
    best = policy.recommend()
    assert DOMAIN.contains(best[None])[0]
    if case.learns:  # no candidate is better
        grid = DOMAIN.grid(41)
        found, others = policy.predict(best[None])[0][0], policy.predict(grid)[0]
        assert found >= others.max() - 1e-6 * np.ptp(others)


@over_a_domain
def test_a_decision_over_a_domain_names_no_row_and_no_probability(case):
    decision = case.make().ask(user="somebody")
    assert (decision.index, decision.propensity, decision.arm) == (0, None, None)


@over_a_domain
def test_a_batch_of_users_is_given_what_each_would_be_given(case):
    one, other = case.make(), case.make()
    drive(one, 0, BLOCKS[0])
    drive(other, 0, BLOCKS[0])
    users = ["a", "b", "c"]
    together = one.ask_batch(users=users).actions
    np.testing.assert_allclose(together, [other.ask(user=user).action for user in users], atol=1e-3)
    with pytest.raises(InvalidData, match="pass users="):
        one.ask_batch()


@over_a_domain
def test_a_run_that_was_saved_goes_on_with_the_same_points(case, tmp_path):
    whole, policy = case.make(), case.make()
    expected = drive(whole, 0, 30)
    first = drive(policy, 0, 15)
    policy.save(tmp_path / "state")
    again = type(policy).load(tmp_path / "state")
    np.testing.assert_array_equal(np.vstack([first, drive(again, 15, 30)]), expected)


@over_a_domain
def test_points_do_not_depend_on_what_others_brought_before_it_is_released(case):
    if not (case.private and case.blocks):
        return
    alone, mixed = case.make(), case.make()
    mine = drive(alone, 0, BLOCKS[0])
    theirs = drive(mixed, 0, BLOCKS[0], candidates_of=(3, 5))
    kept = [t for t in range(BLOCKS[0]) if t not in (3, 5)]
    np.testing.assert_array_equal(mine[kept], theirs[kept])


@over_a_domain
def test_users_are_bounded_over_a_domain_too(case):
    policy = case.make()
    policy.ask(user="somebody")
    if case.private:
        with pytest.raises(ContributionExceeded):
            policy.ask(user="somebody")
        assert "A user who brings no candidates is offered the whole public domain" in " ".join(
            policy.guarantee.annex().split()
        )
    with pytest.raises(InvalidData, match="available is for arms"):
        policy.ask(user="another", available=["mail"])


@over_a_domain
def test_the_point_that_was_given_is_the_one_that_is_learned_from(case, tmp_path):
    """The chosen point is kept with its round: opened again, and on another processor, it is the same."""
    if not case.private:
        return
    policy = type(case.make()).open(tmp_path / "home", new=case.make())
    given = drive(policy, 0, 5)
    policy.close()
    again = type(policy).open(tmp_path / "home")
    assert again.diagnostics()["rounds_asked"] == 5
    np.testing.assert_array_equal(drive(again, 5, 12), drive_from(case, given, 12))


def drive_from(case, given, stop):
    policy = case.make()
    np.testing.assert_array_equal(drive(policy, 0, len(given)), given)
    return drive(policy, len(given), stop)


@among_candidates
def test_others_say_that_they_need_candidates_and_take_nothing(case):
    policy = case.make()
    for call in (policy.ask, policy.ask_batch):
        with pytest.raises(InvalidData, match=r"chooses among candidates: pass an array \(n, 2\)"):
            call(None, "somebody" if call == policy.ask else ["somebody"])
    assert policy.diagnostics()["rounds_asked"] == 0


def test_a_domain_of_too_many_combinations_takes_nothing():
    policy = dpb.central.GPBandit(
        kernel=dpb.kernels.Indicator(columns=(0, 1), correlation=0.95),
        domain=dpb.Product(dpb.Arms(200), dpb.Arms(200)),
        reward_range=(0, 1),
        horizon=64,
        privacy=dpb.JointDP(1, 1e-6),
    )
    with pytest.raises(InvalidParameter, match="bring candidates"):
        policy.ask(user="somebody")
    assert policy.diagnostics()["rounds_asked"] == 0
