"""Raw data must not show in anything a person or a log could see."""

import json
import logging

import numpy as np
import pytest

from contracts.cases import decision_set, every_policy, private
from contracts.driving import ask, drive
from dpbandits.errors import DPBanditsError
from dpbandits.privacy import Guarantee

CANARY_USER = "canary-4711-user"
CANARY_REWARD = 0.81726354
CANARY_FEATURE = 0.59384756


def traces(number):
    """Ways in which a number could be printed, six digits and more."""
    return {f"{number:.6f}", f"{number:.7g}", repr(number), f"{number:.6e}"}


def canary_set():
    candidates = decision_set(0)
    candidates[:, 0] = CANARY_FEATURE
    return candidates


def visible_text(policy, decision, batch, errors):
    texts = [
        repr(policy),
        str(policy),
        repr(decision),
        repr(batch),
        repr(policy._book),
        repr(policy._release) if hasattr(policy, "_release") else "",
    ]
    texts += [json.dumps(policy.to_config()), json.dumps(policy.diagnostics(), default=str)]
    texts += [policy.guarantee.explain(), policy.guarantee.to_json(), *errors]
    texts += [
        repr(value) for value in vars(policy).values() if type(value).__module__.startswith("dpbandits")
    ]
    return "\n".join(texts)


@every_policy
def test_no_canary_is_seen(case, caplog, tmp_path):
    caplog.set_level(logging.DEBUG)
    policy = case.make()
    decision = policy.ask(canary_set(), user=CANARY_USER)
    errors = []

    def attempt(call, *arguments, **options):
        try:
            call(*arguments, **options)
        except DPBanditsError as error:
            while error is not None:
                errors.append(f"{error!r} {error.args}")
                error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        else:
            raise AssertionError("this call should have been refused")

    outside, broken = canary_set(), canary_set()
    outside[1, 1] = 1.0 + CANARY_FEATURE
    broken[1, 1] = np.nan
    attempt(policy.tell, decision.id, 1.0 + CANARY_REWARD)
    attempt(policy.tell, decision.id, [CANARY_REWARD, CANARY_REWARD])
    policy.tell(decision.id, CANARY_REWARD)
    early = visible_text(policy, decision, decision, ())  # while the canary is still in memory as it came
    attempt(policy.tell, decision.id, CANARY_REWARD)
    attempt(policy.ask, outside, user="x")
    attempt(policy.ask, broken, user="x")
    attempt(policy.ask, canary_set(), user=[CANARY_USER])
    attempt(policy.ask, canary_set()[:, :1], user=CANARY_USER)
    attempt(policy.ask, canary_set()[0], user=CANARY_USER)
    if case.counts_users:
        attempt(policy.ask, canary_set(), user=CANARY_USER)
    drive(policy, 1, 25)
    batch = policy.ask_batch(np.stack([canary_set()]), users=["someone-else"])
    policy.save(tmp_path / "state")
    text = early + visible_text(policy, decision, batch, errors) + caplog.text
    assert CANARY_USER not in text
    for number in (CANARY_REWARD, CANARY_FEATURE, 1.0 + CANARY_REWARD, 1.0 + CANARY_FEATURE):
        for trace in traces(number):
            assert trace not in text


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


@every_policy
def test_asks_without_users_are_refused_unless_the_policy_was_built_for_them(case):
    from dpbandits.errors import InvalidData

    with pytest.raises(InvalidData):
        case.make(user_ids=True).ask(decision_set(0))
    policy = case.make(user_ids=False)
    with pytest.raises(InvalidData):
        policy.ask(decision_set(0), user="u")
    ask(policy, 0)
