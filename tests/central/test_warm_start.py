"""From a private log to an adaptive policy: what it learns, what it promises, and on which grounds."""

import json
from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.budget import MemoryLedger, cost_of_guarantee
from dpbandits.central import ExploreThenCommit, ExploreTuning, GPBandit, GPTuning, PublishedFunction
from dpbandits.errors import BudgetExceeded, CorruptState, InvalidData, InvalidParameter, ProtocolError
from dpbandits.lab.baselines import ExactGPUCB, FeatureGPUCB, Uniform
from dpbandits.privacy import Guarantee, JointDP, LocalDP, PureDP, SecureNoise, SimulatedNoise
from dpbandits.state import read_state, write_state

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
ARMS = ["mail", "call", "nothing"]
ROWS = 20_000


def table(count, seed=0):
    rng = np.random.default_rng(seed)
    regions = np.array(["north", "south", "west"])
    return {"age": rng.integers(18, 91, count), "region": regions[rng.integers(3, size=count)]}


def worth(people, arms):
    """Calls pay in the north, mail elsewhere."""
    north = people["region"] == "north"
    return np.where(arms == "call", np.where(north, 0.8, 0.3), np.where(arms == "mail", 0.6, 0.4))


@pytest.fixture(scope="module")
def learned():
    """A function that was learned of a log, published once."""
    log = ExploreThenCommit(
        contexts=PEOPLE,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=ROWS,
        privacy=JointDP(4.0, 1e-6),
        tuning=ExploreTuning(release="features"),
        seed=1,
    )
    people, arms = table(ROWS), np.array(log.explore(0, ROWS))
    rewards = (np.random.default_rng(2).random(ROWS) < worth(people, arms)).astype(float)
    log.learn(people, arms, rewards, users=[f"log-{row}" for row in range(ROWS)])
    return log.publish()


def bandit(**changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": ARMS,
        "reward_range": (0, 1),
        "horizon": 1_000,
        "privacy": JointDP(1.0, 1e-6),
        "tuning": GPTuning(release="features", blocks=[100, 400]),
    }
    return GPBandit(**(arguments | changes))


def said(guarantee):
    return " ".join(f"{guarantee.explain()} {guarantee.annex()}".split())


# -- what is learned --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [bandit, lambda: FeatureGPUCB(contexts=PEOPLE, arms=ARMS, reward_range=(0, 1))]
)
def test_it_begins_with_what_the_function_predicts(learned, make):
    policy, people = make(), table(300, seed=5)
    cold = make().predict(people)
    policy.warm_start(learned, disjoint=True)
    (mean, sd), (theirs, spread) = policy.predict(people), learned.predict(people)
    assert np.abs(mean - theirs).mean() < 0.35 * np.abs(cold[0] - theirs).mean()
    assert (sd < cold[1]).all()
    assert sd.mean() > 0.7 * spread.mean()
    best = np.array([worth(people, np.full(300, arm)) for arm in ARMS]).argmax(axis=0)
    assert (mean.argmax(axis=1) == best).mean() > 0.9


def test_it_is_as_certain_as_the_function_and_not_more(learned):
    policy = bandit()
    policy.warm_start(learned, disjoint=True)
    law, points = policy.publish(), policy.domain.sample(500, np.random.default_rng(7))
    _, sd = law.posterior.predict(law.features(points))  # of what features can describe
    assert 0.7 < sd.mean() / learned.at_points(points)[1].mean() < 1.5


def test_its_first_answers_are_those_of_the_function(learned):
    policy = bandit()
    policy.warm_start(learned, disjoint=True)
    people = table(90, seed=6)
    given = policy.ask_batch(people, [f"u-{t}" for t in range(90)]).arms
    assert (
        np.mean([arm == best for arm, best in zip(given, learned.recommend_batch(people), strict=True)]) > 0.8
    )


def test_arms_that_the_function_does_not_have_are_left_open(learned):
    policy, people = bandit(arms=["fax", "call"]), table(50, seed=5)
    cold = bandit(arms=["fax", "call"]).predict(people)
    policy.warm_start(learned, disjoint=True)
    mean, sd = policy.predict(people)
    np.testing.assert_allclose(mean[:, 0], cold[0][:, 0])
    np.testing.assert_allclose(sd[:, 0], cold[1][:, 0])
    assert np.abs(mean[:, 1] - learned.predict(people)[0][:, 1]).mean() < 0.1


@pytest.mark.parametrize("release", ["features", "cells"])
def test_a_policy_over_points_begins_from_another_such_policy(release):
    box, kernel = dpb.Box([0.0], [1.0]), dpb.kernels.SquaredExponential(lengthscale=0.3)
    shared = {"domain": box, "kernel": kernel, "reward_range": (0, 1), "privacy": JointDP(8.0, 1e-6)}
    first = GPBandit(**shared, horizon=4_000, tuning=GPTuning(blocks=[3_000], decision_sets="public"))
    batch = first.ask_batch(users=[f"u-{t}" for t in range(3_000)])
    first.tell_batch(batch.ids, 1.0 - np.abs(batch.actions[:, 0] - 0.7))
    first.ask(user="last")
    assert first.publish().recommend() == pytest.approx(first.recommend(), abs=1e-3)
    second = GPBandit(**shared, horizon=500, tuning=GPTuning(release=release))
    second.warm_start(first.publish(), disjoint=True)
    assert second.recommend() == pytest.approx(first.recommend(), abs=0.1)
    with pytest.raises(InvalidParameter, match="has another domain"):
        GPBandit(**(shared | {"domain": dpb.Box([0.0], [2.0])}), horizon=500).warm_start(
            first.publish(), disjoint=True
        )


# -- what is promised -------------------------------------------------------------------------------------


def test_of_other_people_nothing_is_spent_and_the_statement_says_on_what_it_rests(learned):
    policy = bandit()
    before = policy.guarantee
    policy.warm_start(learned, disjoint=True)
    after = policy.guarantee
    assert (after.epsilon, after.delta, after.certificate) == (
        before.epsilon,
        before.delta,
        before.certificate,
    )
    [one] = [
        a for a in after.assumptions if a.text.startswith("Nobody whose data is in the published function")
    ]
    assert not one.enforced
    assert "epsilon = 4, delta = 1e-06" in said(after)


def test_of_the_same_people_both_promises_add_up(learned):
    policy = bandit()
    own = policy.guarantee
    policy.warm_start(learned, disjoint=False)
    both = policy.guarantee
    assert both.delta == own.delta + learned.guarantee.delta
    assert own.epsilon < learned.guarantee.epsilon < both.epsilon <= own.epsilon + learned.guarantee.epsilon
    assert both.certificate.delta_at(both.epsilon) <= both.delta
    assert both.certificate == own.certificate.beside(learned.guarantee.certificate)
    assert learned.guarantee.neighbours in both.neighbours
    assert [record.name for record in both.mechanisms[1:]] == ["published function given to warm_start"]
    assert "The promise covers both releases together" in said(both)


@pytest.mark.parametrize("disjoint", [True, False])
def test_the_promise_is_kept_with_the_state_and_read_from_the_log(learned, disjoint, tmp_path):
    policy = bandit()
    policy.warm_start(learned, disjoint=disjoint)
    policy.save(tmp_path / "state")
    [entry] = read_state(tmp_path / "state").public["promise"]["releases"]
    assert entry["purpose"] == ("prior of others" if disjoint else "prior of the same")
    assert entry["certificate"] == learned.guarantee.certificate.to_config()
    again = GPBandit.load(tmp_path / "state")
    assert again.guarantee == policy.guarantee
    people = table(5)
    np.testing.assert_array_equal(again.predict(people)[0], policy.predict(people)[0])


def saved(learned, folder, *, disjoint=False):
    policy = bandit()
    policy.warm_start(learned, disjoint=disjoint)
    policy.save(folder / "state")
    return read_state(folder / "state")


def kept(state):
    return json.loads(state.arrays["beginning"].tobytes())


def with_beginning(state, config):
    array = np.frombuffer(json.dumps(config).encode(), dtype=np.uint8).copy()
    return replace(state, arrays={**state.arrays, "beginning": array})


def left_out(state):
    return replace(state, arrays={name: a for name, a in state.arrays.items() if name != "beginning"})


def said_to_be_disjoint(state):
    return with_beginning(state, {**kept(state), "disjoint": True})


def said_to_be_paid(state):
    return with_beginning(state, {**kept(state), "paid": "here"})


def of_a_stronger_function(state):
    config = kept(state)
    for part in (config["guarantee"], *config["guarantee"]["mechanisms"]):
        part["certificate"] = PureDP(1e-3).to_config()
    return with_beginning(state, config)


def not_in_the_log(state):
    promise = {**state.public["promise"], "releases": []}
    return replace(state, public={**state.public, "promise": promise})


def garbage(state):
    return replace(state, arrays={**state.arrays, "beginning": np.arange(7, dtype=np.uint8)})


@pytest.mark.parametrize(
    "change",
    [left_out, said_to_be_disjoint, said_to_be_paid, of_a_stronger_function, not_in_the_log, garbage],
)
def test_a_state_that_says_otherwise_than_its_log_is_refused(learned, change, tmp_path):
    write_state(tmp_path / "state", change(saved(learned, tmp_path)))
    with pytest.raises(CorruptState):
        GPBandit.load(tmp_path / "state")


def test_simulated_noise_of_the_function_makes_the_whole_statement_simulated(learned, tmp_path):
    first = bandit(noise=SimulatedNoise(3))
    policy = bandit(noise=SecureNoise())
    policy.warm_start(first.publish(), disjoint=True)
    assert policy.guarantee.status == "simulated"
    policy.save(tmp_path / "state")
    assert GPBandit.load(tmp_path / "state").guarantee.status == "simulated"
    untouched = bandit()
    untouched.warm_start(learned, disjoint=True)
    assert untouched.guarantee.status == "enforced"


# -- what is paid -----------------------------------------------------------------------------------------


def ledger_of(privacy):
    ledger = MemoryLedger()
    ledger.open_account("people", privacy=privacy)
    return ledger


def spent(ledger):
    return ledger.balance("people").spent


def test_an_account_pays_for_both_under_ids_of_their_own(learned):
    ledger = ledger_of(JointDP(20.0, 1e-5))
    policy = bandit(account=ledger.account("people"))
    policy.warm_start(learned, disjoint=False)
    theirs = spent(ledger)
    policy.ask({"age": 30, "region": "west"}, "u")
    terms = ledger.balance("people").terms
    alone = cost_of_guarantee(bandit().guarantee).charged_to(terms, account="people")
    function = cost_of_guarantee(learned.guarantee).charged_to(terms, account="people")
    assert theirs == function
    assert spent(ledger) == function.plus(alone)
    assert any("paid for the function" in a.text and a.enforced for a in policy.guarantee.assumptions)


def test_an_account_that_has_paid_is_named_and_pays_once(learned):
    ledger = ledger_of(JointDP(20.0, 1e-5))
    ledger.charge("people", charge_id="learn:1", cost=cost_of_guarantee(learned.guarantee))
    ledger.charge("people", charge_id="small", cost=cost_of_guarantee(bandit().guarantee))
    before = spent(ledger)
    for wrong in ("learn:2", "small"):
        policy = bandit(account=ledger.account("people"))
        with pytest.raises(InvalidParameter, match="has not paid for this function under that id"):
            policy.warm_start(learned, disjoint=False, charged_as=wrong)
        assert policy.guarantee.epsilon == 1.0
    policy = bandit(account=ledger.account("people"))
    policy.warm_start(learned, disjoint=False, charged_as="learn:1")
    assert spent(ledger) == before
    assert policy.guarantee.epsilon > 4.0
    [one] = [
        a for a in policy.guarantee.assumptions if a.text.startswith("The earlier charge named to warm_start")
    ]
    assert not one.enforced  # nobody knows what a charge was for
    assert "learn:1" not in policy.guarantee.to_json()


def test_a_promise_of_both_rests_on_what_the_function_rests_on(learned):
    """Of three in a chain the middle one speaks of the first one's people for itself, not for the last."""
    policy = bandit()
    policy.warm_start(learned, disjoint=False)
    texts = [one.text for one in policy.guarantee.assumptions if not one.enforced]
    alone = {one.text for one in bandit().guarantee.assumptions}
    for one in learned.guarantee.assumptions:
        if not one.enforced and one.text not in alone:
            assert one.text in texts
    parts = {one.part for one in policy.guarantee.assumptions if one.text not in alone}
    assert parts == {"Published function"}
    assert not any("from which the published function began" in text for text in texts)
    middle = bandit()
    middle.warm_start(learned, disjoint=True)
    for _ in range(2):
        last = bandit()
        last.warm_start(middle.publish(), disjoint=False)
        [earlier] = [one for one in last.guarantee.assumptions if one.name == "earlier users"]
        assert earlier.text.startswith("Nobody whose data is in an earlier function")
        assert not earlier.enforced
        middle = last


class Noting(MemoryLedger):
    """A ledger that shows the ids of its charges."""

    ids: tuple[str, ...] = ()

    def charge(self, account, *, charge_id, cost):
        super().charge(account, charge_id=charge_id, cost=cost)
        self.ids += (charge_id,)


def test_what_a_policy_pays_for_itself_pays_for_no_function(learned, tmp_path):
    """Saving charges the policy's own promise, which is larger than the function's: it was not for that."""
    ledger = Noting()
    ledger.open_account("people", privacy=JointDP(20.0, 1e-5))
    policy = bandit(account=ledger.account("people"), privacy=JointDP(5.0, 1e-6))
    policy.save(tmp_path / "policy")
    [own] = ledger.ids
    with pytest.raises(InvalidParameter, match="has not paid for this function under that id"):
        policy.warm_start(learned, disjoint=False, charged_as=own)
    policy.warm_start(learned, disjoint=False)
    assert (float(spent(ledger).epsilon), len(ledger.ids)) == (9.0, 2)


def test_an_account_that_comes_later_pays_for_both_and_once(learned, tmp_path):
    """A policy that began without an account and is loaded with one: what is stated is what was paid."""
    policy = bandit()
    policy.warm_start(learned, disjoint=False)
    policy.save(tmp_path / "policy")
    ledger = ledger_of(JointDP(20.0, 1e-5))
    policy = GPBandit.load(tmp_path / "policy", account=ledger.account("people"), adopt=True)
    policy.ask({"age": 30, "region": "west"}, "u")
    assert float(spent(ledger).epsilon) == 5.0
    assert any("paid for the function" in a.text and a.enforced for a in policy.guarantee.assumptions)
    policy.save(tmp_path / "policy")
    policy = GPBandit.load(tmp_path / "policy", ledger=ledger)
    policy.ask({"age": 30, "region": "west"}, "v")
    assert float(spent(ledger).epsilon) == 5.0
    assert any("paid for the function" in a.text and a.enforced for a in policy.guarantee.assumptions)


def test_an_account_that_cannot_pay_leaves_all_as_it_was(learned):
    ledger = ledger_of(JointDP(2.0, 1e-5))
    policy = bandit(account=ledger.account("people"))
    before = policy.predict(table(3))
    with pytest.raises(BudgetExceeded):
        policy.warm_start(learned, disjoint=False)
    assert policy.guarantee.epsilon == 1.0
    np.testing.assert_array_equal(policy.predict(table(3))[0], before[0])
    policy.warm_start(learned, disjoint=True)  # of others it costs nothing
    assert not any(spent(ledger).amounts)


# -- what is refused --------------------------------------------------------------------------------------


def test_whose_data_it_is_must_be_said(learned):
    with pytest.raises(InvalidParameter, match="disjoint=True if nobody"):
        bandit().warm_start(learned)
    with pytest.raises(InvalidParameter, match="with rewards is public"):
        bandit().warm_start(table(3), np.zeros(3), arms=["mail"] * 3, disjoint=True)
    with pytest.raises(InvalidParameter, match="account pays nothing"):
        bandit().warm_start(learned, disjoint=True, charged_as="learn:1")
    with pytest.raises(InvalidParameter, match="has no account"):
        bandit().warm_start(learned, disjoint=False, charged_as="learn:1")


def test_what_does_not_fit_is_refused_in_words(learned):
    others = dpb.Schema(age=dpb.Range(18, 91), region=dpb.Categories(["north", "south", "west"]))
    with pytest.raises(InvalidParameter, match="has other contexts"):
        bandit(contexts=others).warm_start(learned, disjoint=True)
    with pytest.raises(InvalidParameter, match="none of these arms"):
        bandit(arms=["fax", "visit"]).warm_start(learned, disjoint=True)
    with pytest.raises(InvalidParameter, match=r"a dict without rewards.*central.PublishedFunction"):
        bandit().warm_start(table(3), disjoint=True)
    with pytest.raises(InvalidParameter, match="nothing is proven"):
        bandit().warm_start(learned.under(Guarantee.without_privacy()), disjoint=True)
    local = replace(
        learned.guarantee, definition=LocalDP(4.0), certificate=PureDP(4.0), epsilon=4.0, delta=0.0
    )
    with pytest.raises(InvalidParameter, match="only disjoint=True"):
        bandit().warm_start(learned.under(local), disjoint=False)
    bandit().warm_start(learned.under(local), disjoint=True)


def test_it_comes_before_the_first_ask_and_once(learned):
    policy = bandit()
    policy.warm_start(learned, disjoint=True)
    with pytest.raises(ProtocolError, match="already started from a published function"):
        policy.warm_start(learned, disjoint=True)
    policy.ask({"age": 30, "region": "west"}, "u")
    with pytest.raises(ProtocolError, match="before the first ask"):
        policy.warm_start(learned, disjoint=True)


def test_marginal_tables_begin_from_a_published_function_too(learned):
    def make():
        return bandit(tuning=GPTuning(release="marginals"))

    policy, people = make(), table(300, seed=5)
    cold, theirs = make().predict(people)[0], learned.predict(people)[0]
    policy.warm_start(learned, disjoint=True)
    assert np.abs(policy.predict(people)[0] - theirs).mean() < 0.6 * np.abs(cold - theirs).mean()
    assert "published function given to warm_start" in said(policy.guarantee)


@pytest.mark.parametrize("policy_class", [ExactGPUCB, Uniform])
def test_policies_without_features_say_what_they_begin_from(policy_class, learned):
    with pytest.raises(InvalidData, match="does not begin from a PublishedCells"):
        policy_class(contexts=PEOPLE, arms=ARMS, reward_range=(0, 1)).warm_start(learned, disjoint=True)


def test_a_function_from_its_folder_is_the_same(learned, tmp_path):
    learned.save(tmp_path / "out")
    one, other = bandit(), bandit()
    one.warm_start(learned, disjoint=True)
    other.warm_start(PublishedFunction.load(tmp_path / "out"), disjoint=True)
    np.testing.assert_array_equal(one.predict(table(3))[0], other.predict(table(3))[0])
    assert one.guarantee == other.guarantee


# -- what the statement says of both ----------------------------------------------------------------------


def points(**changes):
    arguments = {
        "kernel": dpb.kernels.SquaredExponential(lengthscale=0.4),
        "domain": dpb.Box([0.0], [1.0]),
        "reward_range": (0, 1),
        "horizon": 40,
        "privacy": JointDP(1.0, 1e-6),
        "tuning": GPTuning(n_features=4),
    }
    return GPBandit(**(arguments | changes))


def test_cells_call_their_own_releases_pure_and_not_both_promises():
    policy = points(tuning=GPTuning(n_features=4, release="cells"))
    policy.warm_start(points().publish(), disjoint=False)
    promised = policy.guarantee
    assert promised.delta == 1e-6
    assert "delta is 0" not in said(promised)
    assert "Releases are pure epsilon" in said(promised)


def test_a_pure_loss_is_not_taken_for_a_concentrated_one_where_that_is_more():
    """(1, 0) and (1, 1e-6) are (2, 1e-6) together: meeting as concentrated losses they come to 5.4."""
    policy = points(tuning=GPTuning(n_features=4, release="cells"))
    policy.warm_start(points().publish(), disjoint=False)
    assert policy.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    twice = points()
    twice.warm_start(points().publish(), disjoint=False)
    assert twice.guarantee.epsilon < 1.5


def test_of_a_simulated_function_the_statement_says_whose_noise_it_was():
    policy = points()
    noise = policy.guarantee.mechanisms, policy.guarantee.theorem
    policy.warm_start(points(noise=SimulatedNoise(0)).publish(), disjoint=True)
    promised = policy.guarantee
    assert promised.status == "simulated"
    assert (promised.mechanisms, promised.theorem) == noise  # its own is secure, and is called so
    assert "Noise of the published function was simulated: nobody in its data is protected" in said(promised)
    sound = points()
    sound.warm_start(points().publish(), disjoint=True)
    assert "by that alone" not in said(sound.guarantee)
