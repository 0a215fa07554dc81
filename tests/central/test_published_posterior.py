"""What a `GPBandit` publishes decides for anyone, anywhere, as the policy does, and holds releases alone."""

import json
import subprocess
import sys

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning, PublishedFunction, PublishedPosterior
from dpbandits.errors import CorruptState, InvalidData, StateError
from dpbandits.models.features import MercerFeatures
from dpbandits.models.features.additive import additive_features
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.noisy_regression import WeightPosterior
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.state import StateStore

pytestmark = pytest.mark.numerics

PEOPLE = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["north", "south", "west"]))
ARMS = ["mail", 2, True]
BLOCKS = (8, 20, 40)
KERNEL = dpb.kernels.SquaredExponential(lengthscale=0.4)
BOX = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])


def bandit(**changes):
    arguments = {
        "contexts": PEOPLE,
        "arms": ARMS,
        "reward_range": (-1, 3),
        "horizon": 64,
        "privacy": JointDP(epsilon=8.0, delta=1e-6),
        "noise": SimulatedNoise(3),
        "tuning": GPTuning(n_features=5, blocks=BLOCKS),
    }
    return GPBandit(**(arguments | changes))


def people(count, seed=0):
    rng = np.random.default_rng(seed)
    regions = ["north", "south", "west"]
    return [{"age": int(rng.integers(18, 91)), "region": regions[rng.integers(3)]} for _ in range(count)]


def drive(policy, start, stop):
    for t in range(start, stop):
        one = people(1, seed=t)[0]
        decision = policy.ask(one, user=t)
        policy.tell(decision.id, 3.0 if decision.arm == 2 else -1.0 + (one["region"] == "west"))


def test_what_is_published_predicts_and_recommends_as_the_policy_does():
    policy = bandit()
    drive(policy, 0, 45)
    published, everybody = policy.publish(), people(30, seed=99)
    mean, sd = policy.predict(everybody)
    for function in (published, PublishedPosterior.from_json(published.to_json())):
        assert function.predict(everybody)[0].shape == (30, 3)
        np.testing.assert_allclose(function.predict(everybody)[0], mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(function.predict(everybody)[1], sd, rtol=1e-12)
        assert function.recommend_batch(everybody) == tuple(policy.recommend(one) for one in everybody)
        assert function.recommend(everybody[0]) == policy.recommend(everybody[0])
        assert function.arms == tuple(ARMS)
        assert function.guarantee == policy.guarantee
    assert len(set(mean.ravel().tolist())) > 3  # something was learned


def test_choices_among_arms_are_those_of_the_predicted_means_and_need_no_deviations(monkeypatch):
    policy = bandit()
    for user, one in enumerate(people(45)):
        decision = policy.ask(one, user=user)
        policy.tell(decision.id, 3.0 if (decision.arm == 2) == (one["region"] == "west") else -1.0)
    published, everybody = policy.publish(), [*people(30, seed=99), {"age": 30, "region": "unknown"}]
    mean, _ = published.predict(everybody)
    monkeypatch.setattr(WeightPosterior, "predict_function", None)
    chosen = published.choose(everybody)
    assert chosen.tolist() == [*mean[:-1].argmax(axis=1).tolist(), -1]
    assert len(set(chosen.tolist())) > 2
    without = [[arm for place, arm in enumerate(ARMS) if place != best] for best in chosen.tolist()]
    second = np.where(np.arange(3) == chosen[:-1, None], -np.inf, mean[:-1]).argmax(axis=1)
    expected = [*(ARMS[place] for place in second.tolist()), None]
    assert published.recommend_batch(everybody, available=without) == tuple(expected)


@pytest.mark.parametrize("release", ["features", "marginals"])
def test_what_is_read_is_written_in_the_same_text(release):
    """Before any data, and after a release: whoever reads a function and writes it changes no byte."""
    policy = bandit(tuning=GPTuning(release=release, blocks=BLOCKS))
    for rounds in ((0, 0), (0, 12)):
        drive(policy, *rounds)
        text = policy.publish(prior=True).to_json()
        assert PublishedPosterior.from_json(text).to_json() == text


def test_the_policy_of_many_columns_and_arms_can_be_read():
    """With 30 columns and 100 arms a text has 85 million characters. The limit is the memory's."""
    text = bandit().publish().to_json()
    long = text + " " * (1 << 26)
    assert PublishedPosterior.from_json(long).to_json() == text
    assert PublishedFunction.from_files({"policy.json": long.encode()}).to_json() == text
    usual = dpb.memory_limit()
    dpb.set_memory_limit(1 << 28)
    try:
        with pytest.raises(CorruptState, match="is longer than 67108864 characters"):
            PublishedPosterior.from_json(long)
    finally:
        dpb.set_memory_limit(usual)


def test_what_is_due_is_released_first_and_nothing_else_is(tmp_path):
    policy, other = bandit(), bandit()
    for one in (policy, other):
        drive(one, 0, 8)
    before = policy.predict(people(1))[0]
    published = policy.publish()
    assert policy.diagnostics()["blocks_released"] == 1
    assert not np.array_equal(published.predict(people(1))[0], before)
    drive(policy, 8, 15)
    assert policy.publish().to_json() == published.to_json()  # no block has ended since
    drive(other, 8, 15)
    np.testing.assert_array_equal(policy.released, other.released)  # asking releases the same


def test_a_release_that_was_not_kept_does_not_leave(monkeypatch, tmp_path):
    policy = bandit()
    policy.save(tmp_path / "state")
    drive(policy, 0, 8)
    with monkeypatch.context() as patch:

        def full(*arguments):
            raise OSError(28, "No space left on device")

        patch.setattr(StateStore, "commit", full)
        with pytest.raises((OSError, StateError)):
            policy.publish()
    assert policy.diagnostics()["blocks_released"] == 0
    policy.publish()
    assert policy.diagnostics()["blocks_released"] == 1


def test_nothing_but_releases_is_in_it():
    """Whoever asked and told since the last release leaves no trace."""
    policy, other = bandit(), bandit()
    for one in (policy, other):
        drive(one, 0, 30)
    for t in range(30, 39):
        decision = policy.ask(people(1, seed=t)[0], user=t)
        policy.tell(decision.id, 3.0)
    assert policy.publish().to_json() == other.publish().to_json()
    held = json.loads(policy.publish().to_json())
    assert set(held) == {
        *("format", "kind", "people", "arms", "reward_range", "features", "mean", "factors"),
        *("weight_variance", "guarantee"),
    }


def test_a_prior_may_be_published():
    published = bandit().publish()
    mean, sd = published.predict(people(2))
    np.testing.assert_allclose(mean, 1.0)
    assert (sd > 0).all()


MAPS = {
    "mercer": MercerFeatures(kernel=KERNEL, domain=BOX, n_features=6),
    "scaled": MercerFeatures(kernel=KERNEL, domain=BOX, n_features=6, scale=0.7),
    "varied": MercerFeatures(kernel=3.0 * KERNEL, domain=BOX, n_features=6),
    "additive": additive_features(BOX, lengthscale=0.4, per_column=3),
    "quadrature": QuadratureFourierFeatures(kernel=KERNEL, dim=2, nodes=3),
}


@pytest.mark.parametrize("name", MAPS)
def test_of_candidates_too_and_of_every_map(name, tmp_path):
    policy = bandit(contexts=None, arms=None, domain=BOX, tuning=GPTuning(features=MAPS[name], blocks=BLOCKS))
    rng = np.random.default_rng(5)
    for t in range(45):
        decision = policy.ask(rng.random((4, 2)), user=t)
        policy.tell(decision.id, 3.0 * decision.action[0])
    published, points = policy.publish(), rng.random((20, 2))
    published.save(tmp_path / "function")
    again = PublishedFunction.load(tmp_path / "function")
    for function in (published, again):
        for mine, theirs in zip(function.predict(points), policy.predict(points), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)
        assert function.choose(points).tolist() == [policy.recommend(points)]
        with pytest.raises(InvalidData, match="no arms"):
            function.recommend(points)
    said = policy.guarantee
    written = (tmp_path / "function" / "guarantee.txt").read_text()
    assert written == f"{said.explain()}\n\n\n{said.annex()}\n"


def test_it_rests_on_no_eigenvectors_of_the_machine_that_reads_it():
    """Eigenvectors that came out otherwise there would turn the map under the published weights."""
    policy = bandit()
    drive(policy, 0, 45)
    text, everybody = policy.publish().to_json(), people(5, seed=3)
    program = (
        "import json, sys, numpy as np\n"
        "def refuse(*arguments, **options): raise RuntimeError('recomputed')\n"
        "np.linalg.eigh = refuse\n"
        "from dpbandits.central import PublishedPosterior\n"
        "text, people = json.load(sys.stdin)\n"
        "print(json.dumps([part.tolist() for part in PublishedPosterior.from_json(text).predict(people)]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps([text, everybody]),
        capture_output=True,
        text=True,
        check=True,
    )
    np.testing.assert_allclose(json.loads(done.stdout), policy.publish().predict(everybody), rtol=1e-12)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda held: held.pop("factors"),
        lambda held: held["factors"].pop(),
        lambda held: held["factors"][0].pop(),
        lambda held: held["mean"].pop(),
        lambda held: held["mean"].__setitem__(0, None),
        lambda held: held["mean"].__setitem__(0, "1"),
        lambda held: held["mean"].__setitem__(0, 1e300),
        lambda held: held["arms"].pop(),
        lambda held: held["arms"].append("mail"),
        lambda held: held["people"]["columns"].pop(),
        lambda held: held["features"]["base"]["projection"].pop(),
        lambda held: held["features"]["base"]["landmarks"][0].pop(),
        lambda held: held.update(weight_variance=-1),
        lambda held: held.update(format=2),
        lambda held: held.update(kind="other"),
        lambda held: held.update(reward_range=[0, 1]),
        lambda held: held["guarantee"].update(epsilon="1"),
    ],
)
def test_what_was_spoilt_is_refused(spoil):
    held = json.loads(bandit().publish().to_json())
    spoil(held)
    with pytest.raises(CorruptState):
        PublishedPosterior.from_json(json.dumps(held))


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"format": 1}', "NaN"])
def test_other_texts_are_refused(text):
    with pytest.raises(CorruptState):
        PublishedPosterior.from_json(text)


def test_people_who_cannot_be_read_are_refused_by_column_alone():
    published = bandit().publish()
    with pytest.raises(InvalidData, match="region") as refused:
        published.recommend({"age": 44, "region": "east 4711"})
    assert "4711" not in str(refused.value)
    with pytest.raises(InvalidData, match="expected one"):
        published.recommend(people(2))
    assert repr(published) == "PublishedPosterior(epsilon=8.0, delta=1e-06, arms=3, n_features=15)"
