"""Raw data must not show in anything a person or a log could see. Other rooms: `test_leaks_everywhere`."""

import json

import numpy as np
import pytest

from contracts.canaries import FEATURE, REWARD, USER, Lint
from contracts.cases import decision_set, every_policy, private, without_privacy
from contracts.driving import ask, drive
from dpbandits.errors import InvalidData
from dpbandits.privacy import Guarantee
from internals import policy as internals


def canary_set():
    candidates = decision_set(0)
    candidates[:, 0] = FEATURE
    return candidates


def see_all(lint, policy, decision, batch):
    lint.see(policy, decision, batch, internals.book(policy))
    lint.see(json.dumps(policy.to_config()), json.dumps(policy.diagnostics(), default=str))
    lint.see(policy.guarantee.explain(), policy.guarantee.to_json())


@every_policy
def test_no_canary_is_seen(case, caplog, tmp_path):
    lint = Lint(caplog)
    policy = case.make()
    decision = policy.ask(canary_set(), user=USER)
    outside, broken = canary_set(), canary_set()
    outside[1, 1] = 1.0 + FEATURE
    broken[1, 1] = np.nan
    lint.refuse(policy.tell, decision.id, 1.0 + REWARD)
    lint.refuse(policy.tell, decision.id, [REWARD, REWARD])
    policy.tell(decision.id, REWARD)
    see_all(lint, policy, decision, decision)  # while the canary is still in memory as it came
    lint.refuse(policy.tell, decision.id, REWARD)
    lint.refuse(policy.ask, outside, user="x")
    lint.refuse(policy.ask, broken, user="x")
    lint.refuse(policy.ask, canary_set()[:, :1], user=USER)
    lint.refuse(policy.ask, canary_set()[0], user=USER)
    if case.counts_users:
        lint.refuse(policy.ask, canary_set(), user=[USER])
        lint.refuse(policy.ask, canary_set(), user=USER)
    drive(policy, 1, 25)
    batch = policy.ask_batch(np.stack([canary_set()]), users=["someone-else"])
    policy.save(tmp_path / "state")
    see_all(lint, policy, decision, batch)
    lint.check()


@every_policy
def test_the_guarantee_is_a_statement_that_survives_json(case):
    policy = case.make()
    guarantee = policy.guarantee
    assert Guarantee.from_json(guarantee.to_json()) == guarantee
    assert guarantee.status == ("simulated" if case.private else "none")
    drive(policy, 0, 30)
    assert policy.guarantee == guarantee
    if case.private:
        assert guarantee.epsilon_at(guarantee.delta) <= guarantee.epsilon * (1 + 1e-9)
        assert guarantee.membership_bound() < 1.0


@private
def test_a_privacy_promise_says_whether_users_are_counted(case):
    for user_ids in (True, False):
        assumptions = case.make(user_ids=user_ids).guarantee.assumptions
        about_users = [one for one in assumptions if "takes part in" in one.text]
        assert [one.enforced for one in about_users] == [user_ids]


@private
def test_asks_without_users_are_refused_unless_the_policy_was_built_for_them(case):
    with pytest.raises(InvalidData):
        case.make(user_ids=True).ask(decision_set(0))
    policy = case.make(user_ids=False)
    with pytest.raises(InvalidData):
        policy.ask(decision_set(0), user="u")
    ask(policy, 0)


@without_privacy
def test_who_bounds_no_rounds_is_told_of_users_or_not(case):
    policy = case.make()
    assert not policy.user_ids
    policy.ask(decision_set(0), user="u")
    policy.ask(decision_set(1))
    assert policy.rounds_asked == 2
