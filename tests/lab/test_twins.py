"""`lab.twin`: a policy's double without privacy or in another room, from its configuration alone."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.errors import InvalidParameter, ProtocolError
from flat import spec_with

PEOPLE = dpb.Schema(age=dpb.Range(0, 100), region=dpb.Categories(["north", "south"]))
ARMS = ["mail", "call"]
SHARED = {"contexts": PEOPLE, "arms": ARMS, "reward_range": (0, 1)}
PROMISE = {"privacy": dpb.JointDP(epsilon=0.5, delta=1e-5, user_ids=False)}


def bandit(**changes):
    return dpb.central.GPBandit(**{**SHARED, **PROMISE, "horizon": 400, **changes})


def visitors(n, seed=0):
    rng = np.random.default_rng(seed)
    return {"age": rng.integers(0, 101, n), "region": rng.choice(["north", "south"], n)}


def bought(people, arms, seed=1):
    right = np.where(people["age"] > 50, "call", "mail") == np.array(arms)
    return np.random.default_rng(seed).random(len(right)) < 0.1 + 0.8 * right


def serve(policy, n=400, batch=20):
    """Whoever comes, as every policy is asked and told; the share that bought in the second half."""
    people, paid = visitors(n), []
    for first in range(0, n, batch):
        here = {name: column[first : first + batch] for name, column in people.items()}
        decisions = policy.ask_batch(here)
        paid.append(bought(here, decisions.arms, seed=first))
        policy.tell_batch(decisions.ids, paid[-1].astype(float))
    return np.concatenate(paid)[n // 2 :].mean()


SPEC = spec_with(contexts=PEOPLE, arms=ARMS, privacy=dpb.LocalDP(epsilon=0.5), reports_per_version=20)


@pytest.mark.parametrize("room", ["lab", "central", "local"])
@pytest.mark.parametrize(
    "original",
    [
        bandit,
        lambda: SPEC,
        lambda: dpb.lab.baselines.FeatureGPUCB(**SHARED, horizon=400),
    ],
    ids=["GPBandit", "Spec", "FeatureGPUCB"],
)
def test_the_same_calls_serve_the_same_people(original, room):
    promises = {"lab": {}, "central": PROMISE, "local": {"privacy": dpb.LocalDP(epsilon=2)}}
    double = dpb.lab.twin(original(), room=room, **promises[room])
    earned = serve(double)
    assert 0 <= earned <= 1
    people = visitors(7)
    mean, sd = double.predict(people)
    assert mean.shape == sd.shape == (7, 2)
    assert double.recommend({"age": 30, "region": "south"}) in ARMS
    assert double.publish() is not None
    expected = {"lab": "none", "central": "enforced", "local": "simulated"}
    assert double.guarantee.status == expected[room]
    if room == "lab":
        assert earned > 0.7  # a coin earns 0.5; whoever knows earns 0.9
    if room == "local":
        assert double.guarantee.epsilon == 2
        assert "No device made these reports" in double.guarantee.annex()


def test_a_twin_knows_nothing_of_what_its_policy_learned():
    policy = dpb.lab.twin(bandit())
    serve(policy)
    fresh = dpb.lab.twin(policy)
    assert fresh.diagnostics()["rounds_asked"] == 0
    np.testing.assert_array_equal(fresh.predict(visitors(5))[0], 0.5)
    assert type(fresh) is type(policy)


def test_the_double_has_the_policys_features_and_other_arguments_change():
    policy = bandit(tuning=dpb.central.GPTuning(n_features=5), seed=7)
    double = dpb.lab.twin(policy, horizon=50, tuning=dpb.lab.baselines.GPUCBTuning(ucb_weight=0.1))
    assert double.features.to_config() == policy.features.to_config()
    assert (double.horizon, double.seed, double.tuning.ucb_weight) == (50, 7, 0.1)
    same = dpb.lab.twin(policy, room="central", seed=8)
    assert same.to_config() == policy.to_config() | {"seed": 8}
    elsewhere = dpb.lab.twin(
        policy,
        room="local",
        privacy=dpb.LocalDP(epsilon=3),
        tuning=dpb.local.SpecTuning(reports_per_version=10),
    )
    spec = elsewhere.spec
    assert (spec.tuning.reports_per_version, spec.privacy.epsilon, elsewhere.horizon) == (10, 3, 400)
    assert dpb.lab.twin(SPEC, room="central").privacy.epsilon == SPEC.privacy.epsilon


def test_actions_with_a_value_of_ones_own_have_a_double():
    actions = dpb.Actions(dpb.Range(0, 3, steps=4), value=lambda action, mean: (3 - action) * mean)
    policy = bandit(arms=None, actions=actions, noise=dpb.SimulatedNoise(5))
    open_to_all = dpb.lab.twin(policy)
    assert open_to_all.guarantee.status == "simulated"
    same = dpb.lab.twin(policy, room="central", seed=8)
    assert (same.noise.to_config(), same.seed) == (policy.noise.to_config(), 8)
    assert same.actions.valued(np.ones(4)).tolist() == [3, 2, 1, 0]


def test_candidates_have_a_double_without_privacy():
    kernel, box = dpb.kernels.SquaredExponential(lengthscale=0.3), dpb.Box(low=[0], high=[1])
    policy = dpb.central.GPBandit(domain=box, kernel=kernel, reward_range=(0, 1), horizon=50, **PROMISE)
    double = dpb.lab.twin(policy)
    assert double.ask(np.array([[0.1], [0.9]]), user="u").index in (0, 1)
    with pytest.raises(InvalidParameter, match="contexts= and arms="):
        dpb.lab.twin(policy, room="local")
    for other in (3, dpb.lab):
        with pytest.raises(InvalidParameter, match="no twin"):
            dpb.lab.twin(other)
    with pytest.raises(InvalidParameter, match="room"):
        dpb.lab.twin(policy, room="cloud")


@pytest.mark.filterwarnings("ignore::dpbandits.central.NothingToLearn")
def test_explore_then_commit_keeps_its_calls_and_its_number_of_answers():
    """At epsilon 0.5 the private one is far off in a thousand rows; its double is as good as the raw sums."""
    policy = dpb.central.ExploreThenCommit(
        **SHARED, privacy=dpb.JointDP(epsilon=0.5, delta=1e-5, user_ids=False), horizon=1000,
        tuning=dpb.central.ExploreTuning(publish_epsilon=0.3, answer_epsilon=0.06),
        noise=dpb.SimulatedNoise(1),
    )  # fmt: skip
    double = dpb.lab.twin(policy)
    assert double.remaining_answers == policy.remaining_answers == 3
    people, errors = visitors(1000), []
    for one in (policy, double):
        given = one.explore(0, 1000)
        one.learn(people, given, bought(people, given).astype(float))
        with pytest.raises(ProtocolError, match="nothing was published"):
            one.predict(people)
        published = one.publish()
        mean, _ = one.predict({"age": [10, 90], "region": ["north", "south"]})
        errors.append(np.abs(mean - [[0.9, 0.1], [0.1, 0.9]]).max())
        assert one.answer({"age": 90, "region": "north"}).arm in ARMS
        np.testing.assert_array_equal(published.predict(people)[0], one.predict(people)[0])
    assert errors[1] < 0.2 < errors[0]
    assert double.guarantee.status == "none"
    assert policy.guarantee.status == "simulated"
    assert dpb.lab.twin(double).remaining_answers == 3


def test_a_simulated_crowd_learns_and_goes_on_where_it_was_saved(tmp_path):
    spec = spec_with(contexts=PEOPLE, arms=ARMS, privacy=dpb.LocalDP(epsilon=8), reports_per_version=50)
    crowd, saved, same = (dpb.lab.baselines.LocalCrowd(spec=spec, seed=3) for _ in range(3))
    assert serve(crowd, 2000, batch=50) > 0.65
    for one in (saved, same):
        serve(one, 1000, batch=50)
    saved.save(tmp_path / "crowd")
    loaded = dpb.lab.baselines.LocalCrowd.load(tmp_path / "crowd")
    people = visitors(300, seed=5)
    np.testing.assert_array_equal(loaded.predict(people)[0], same.predict(people)[0])
    assert loaded.ask_batch(people).arms == same.ask_batch(people).arms
    assert serve(loaded, 400) == serve(same, 400)


def test_a_distributed_crowd_learns_and_goes_on_where_it_was_saved(tmp_path):
    spec = dpb.distributed.DistributedSpec(
        contexts=PEOPLE, arms=ARMS, privacy=dpb.DistributedDP(epsilon=4), horizon=2000
    )
    crowd, saved, same = (dpb.lab.baselines.DistributedCrowd(spec=spec, seed=3) for _ in range(3))
    assert serve(crowd, 2000, batch=20) > 0.65
    for one in (saved, same):
        serve(one, 1000, batch=20)
    saved.save(tmp_path / "crowd")
    loaded = dpb.lab.baselines.DistributedCrowd.load(tmp_path / "crowd")
    people = visitors(300, seed=5)
    np.testing.assert_array_equal(loaded.predict(people)[0], same.predict(people)[0])
    assert loaded.ask_batch(people).arms == same.ask_batch(people).arms
    assert serve(loaded, 900) == serve(same, 900)  # beyond the last version too
    assert loaded.publish().version == len(spec.reports_per_version)
    given = loaded.ask_batch(visitors(10), available=[["call"]] * 10)
    assert set(given.arms) == {"call"}


def test_people_whose_reward_does_not_come_report_all_the_same():
    """Otherwise the number of reports would tell who was rewarded."""
    spec = spec_with(contexts=PEOPLE, arms=ARMS, privacy=dpb.LocalDP(epsilon=2), reports_per_version=10)
    crowd = dpb.lab.baselines.LocalCrowd(spec=spec)
    for _ in range(5):
        crowd.ask_batch(visitors(10))
    assert crowd.publish().version == 4
    assert np.isfinite(crowd.predict(visitors(10))[0]).all()
    given = crowd.ask_batch(visitors(10), available=[["call"]] * 10)
    assert set(given.arms) == {"call"}
    box, privacy = dpb.Box(low=[0], high=[1]), dpb.LocalDP(epsilon=1)
    numbered = dpb.local.Spec(contexts=box, arms=range(2), privacy=privacy)
    with pytest.raises(InvalidParameter, match="chooser"):
        dpb.lab.baselines.LocalCrowd(spec=numbered)


def test_what_the_double_publishes_predicts_as_it_does():
    double = dpb.lab.twin(bandit())
    serve(double)
    published, people = double.publish(), visitors(20)
    np.testing.assert_allclose(published.predict(people)[0], double.predict(people)[0])
    again = type(published).from_json(published.to_json())
    np.testing.assert_allclose(again.predict(people)[1], double.predict(people)[1])
    assert again.guarantee.status == "none"
