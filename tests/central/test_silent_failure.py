"""Configurations that used to fail silently: each is warned about, refused, or found by `diagnostics()`.

What is said rests on public numbers or on releases. Tests of that come last.
"""

import warnings

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import (
    ExploreThenCommit,
    ExploreTuning,
    GPBandit,
    GPTuning,
    NothingReleased,
    NothingToLearn,
)
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.baselines import ExactGPUCB, FeatureGPUCB
from dpbandits.models.features import LittleVariance
from dpbandits.models.features.people import box_kernel
from dpbandits.models.kernels import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.certificates import PureDP
from tuning import placed

PRICES = dpb.Box(low=[1.0], high=[20.0])
PEOPLE = dpb.Schema(age=dpb.Range(18, 90), home=dpb.Categories(["own", "rent"]))
SQUARE = dpb.Box(low=[0.0, 0.0], high=[1.0, 1.0])
MATERN = dpb.kernels.Matern(nu=2.5, lengthscale=0.3)


def bandit(**changes):
    arguments = {
        "domain": PRICES,
        "reward_range": (0.0, 1.0),
        "horizon": 1_000,
        "privacy": JointDP(epsilon=1.0, delta=1e-6),
        "user_ids": False,
        "noise": SimulatedNoise(3),
    }
    if "contexts" in changes:
        arguments.pop("domain")
    return GPBandit(**placed(arguments | changes))


def said_by(**changes):
    """What a constructor warns of."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        bandit(**changes)
    return [str(one.message) for one in seen if issubclass(one.category, NothingToLearn)]


# -- units of a box ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [bandit, FeatureGPUCB, ExactGPUCB], ids=["private", "features", "exact"])
def test_a_lengthscale_is_a_share_of_each_range_of_a_box(make):
    """Asked and told alike, a policy over a wide box predicts what one over the unit square does."""
    wide = dpb.Box(low=[1.0, -5.0], high=[20.0, -3.0])
    kernel = dpb.kernels.Matern(nu=1.5, lengthscale=(0.3, 0.6)) + 0.5 * dpb.kernels.SquaredExponential(
        lengthscale=0.4, columns=[1]
    )
    rng, found = np.random.default_rng(0), []
    sets, grid = rng.random((150, 4, 2)), rng.random((20, 2))
    for domain in (SQUARE, wide):
        shared = {"reward_range": (0.0, 1.0), "horizon": 200}
        policy = make(domain=domain, kernel=kernel, **shared)
        decisions = policy.ask_batch(domain.from_unit(sets.reshape(-1, 2)).reshape(sets.shape))
        policy.tell_batch(decisions.ids, domain.to_unit(decisions.actions)[:, 0])
        policy.ask(domain.from_unit(sets[0]))
        found.append(policy.predict(domain.from_unit(grid)))
    np.testing.assert_allclose(found[0], found[1], atol=1e-6)


def test_codes_have_no_unit_and_distances_between_them_are_refused():
    domain = dpb.domains.Product(PRICES, dpb.Arms(["a", "b"]))
    kernel = dpb.kernels.Matern(nu=2.5, lengthscale=0.3, columns=[0]) * dpb.kernels.Indicator(columns=[1])
    made = bandit(domain=domain, kernel=kernel).features.kernel
    assert made.parts[0].lengthscale == pytest.approx(0.3 * 19.0)
    assert made.parts[1] == dpb.kernels.Indicator(columns=[1])
    with pytest.raises(InvalidParameter, match="codes"):
        bandit(domain=domain, kernel=MATERN)


def test_a_unit_box_keeps_the_kernel_as_it_was_given():
    assert bandit(domain=SQUARE, kernel=MATERN).features.kernel == MATERN


def test_a_configuration_does_not_scale_its_kernel_twice():
    policy = bandit(kernel=MATERN)
    assert GPBandit.from_config(policy.to_config()).features.to_config() == policy.features.to_config()


def test_a_kernel_of_ones_own_says_how_it_scales_or_is_refused_beside_a_wide_box():
    class Flat(Kernel):
        def _evaluator(self, Y):
            return lambda X, out: out.fill(1.0)

    unit = dpb.Box(low=[3.0], high=[4.0])
    assert isinstance(bandit(domain=unit, kernel=Flat(), horizon=None).features.kernel, Flat)
    with pytest.raises(InvalidParameter, match="in_units_of"):
        bandit(kernel=Flat())


def test_lengthscales_that_do_not_fit_the_columns_are_refused_at_once():
    with pytest.raises(InvalidParameter, match="2 came for 1 columns"):
        bandit(kernel=dpb.kernels.Matern(nu=2.5, lengthscale=(0.1, 0.2)))


def test_a_box_has_a_default_kernel_and_other_domains_have_none():
    assert bandit().features.to_config() == bandit(kernel=box_kernel(PRICES)).features.to_config()
    product = dpb.domains.Product(PRICES, dpb.Arms(3))
    assert bandit(domain=product).features.kernel.parts[1] == dpb.kernels.Indicator(
        correlation=0.6, columns=(1,)
    )
    with pytest.raises(InvalidParameter, match="kernel"):
        bandit(domain=dpb.domains.Ball(centre=[0.0], radius=1.0))


# -- what public numbers say before any data ---------------------------------------------------------------


@pytest.mark.parametrize(
    "changes",
    [
        {"horizon": 2},
        {"privacy": JointDP(epsilon=0.05, delta=1e-6)},
        {"domain": SQUARE, "kernel": dpb.kernels.Matern(nu=2.5, lengthscale=2 / 19)},
        {"domain": dpb.Box(low=[0.0] * 8, high=[1.0] * 8)},
        {"contexts": PEOPLE, "arms": list(range(200)), "horizon": 100},
        {"contexts": PEOPLE, "arms": list(range(200)), "horizon": 100, "privacy": JointDP(1.0)},
        {"contexts": PEOPLE, "arms": ["mail", "call"], "horizon": 2},
        {"privacy": JointDP(0.05), "horizon": 100},
    ],
    ids=["horizon 2", "epsilon", "kernel", "columns", "200 arms", "200 arms, pure", "people", "cells"],
)
def test_what_cannot_learn_says_so_and_what_to_do_before_anybody_asks(changes):
    [said] = said_by(**changes)
    assert "keep about that share of a best decision's advantage" in said
    assert "Take more rounds, a larger epsilon" in said
    assert f"{changes.get('horizon', 1_000)} rounds" in said
    assert f"{len(changes.get('arms', ''))} arms" in said or "arms" not in changes
    assert bandit_quietly(**changes).diagnostics()["expected_correlation"] < 0.25


def bandit_quietly(**changes):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingToLearn)
        warnings.simplefilter("ignore", LittleVariance)
        return bandit(**changes)


def run(setting, seed):
    """The correlation that a whole run learns of a typical function, and what was expected."""
    rng, rounds = np.random.default_rng(seed), setting["horizon"]
    policy = bandit_quietly(**setting, noise=SimulatedNoise(seed), seed=seed)
    if "arms" in setting:
        columns = policy.domain.dim - 1
        points = rng.random((400, columns))
        truth = (points - 0.5) @ rng.normal(size=(columns, 2))
    else:
        points = policy.domain.sample(400, rng)
        truth = policy.features(points) @ rng.normal(size=(policy.features.n_features, 1))
    truth = 0.5 + 0.1 * (truth - truth.mean()) / truth.std()
    for own in np.array_split(rng.integers(len(points), size=(rounds, 4)), 20):
        if "arms" in setting:
            own = own[:, 0]
            decisions = policy.ask_batch(people_at(points[own]))
            means = truth[own, [int(arm) for arm in decisions.arms]]
        else:
            decisions = policy.ask_batch(points[own])
            means = truth[own[np.arange(len(own)), decisions.indices], 0]
        policy.tell_batch(decisions.ids, (rng.random(len(own)) < means).astype(float))
    policy.publish()
    learned = policy.predict(people_at(points) if "arms" in setting else points)[0]
    expected = policy.diagnostics()["expected_correlation"]
    return np.corrcoef(learned.ravel(), truth.ravel())[0, 1], expected


def people_at(points):
    return {f"x{column}": values for column, values in enumerate(points.T)}


def ranges(count, horizon, **tuning):
    contexts = dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(count)})
    return {"contexts": contexts, "arms": [0, 1], "horizon": horizon, "tuning": GPTuning(**tuning)}


@pytest.mark.parametrize(
    "setting",
    [
        {"kernel": MATERN, "horizon": 2_000, "privacy": JointDP(0.3, 1e-6)},
        {"domain": SQUARE, "kernel": MATERN, "horizon": 2_000},
        {"kernel": MATERN, "horizon": 1_000, "privacy": JointDP(1.0), "tuning": GPTuning(release="cells")},
        ranges(2, 3_000),
        ranges(4, 4_000, release="marginals"),
        ranges(6, 2_000, release="marginals"),
    ],
    ids=["features", "square", "cells", "people", "4 columns", "6 columns"],
)
def test_the_expected_correlation_is_near_that_of_whole_runs(setting):
    """Eight runs on fixed seeds; the correlation of all runs pooled is larger by up to a half."""
    found = [run(setting, seed) for seed in range(8)]
    mean, expected = np.mean(found, axis=0)
    assert abs(mean - expected) < 0.2


def test_a_kernel_of_little_variance_is_told_what_helps():
    [said] = said_by(kernel=1e-4 * MATERN)
    assert "variance is 0.0001" in said
    assert "more rounds" not in said
    assert said_by(kernel=MATERN) == []


def test_one_round_is_no_rounds():
    [said] = said_by(horizon=1)
    assert "1 round, 1 column, epsilon 1 and" in said


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"kernel": MATERN},
        {"domain": SQUARE},
        {"contexts": PEOPLE, "arms": ["mail", "call"], "horizon": 5_000},
        {"contexts": PEOPLE, "arms": ["mail", "call"], "horizon": 5_000, "privacy": JointDP(1.0)},
        {"privacy": JointDP(1.0), "horizon": 3_000},
        {"horizon": None},
    ],
)
def test_what_can_learn_is_not_warned_about(changes):
    assert said_by(**changes) == []


def test_a_lengthscale_in_the_units_of_the_points_is_noticed():
    """Three tenths of a range of 19 are 5.7, which as a share would be a nearly constant function."""
    [said] = said_by(kernel=dpb.kernels.Matern(nu=2.5, lengthscale=5.7))
    assert "share of each range" in said


# -- which release, and for whom ---------------------------------------------------------------------------


def test_cells_are_not_chosen_where_candidates_are_brought_and_no_law_of_them_is_declared():
    free = bandit(horizon=1_000)
    assert free.tuning.release == free.diagnostics()["release"] == "features"
    assert free.ask(np.array([[2.0], [3.0]])).index in (0, 1)
    sets = np.random.default_rng(0).uniform(1.0, 20.0, (50, 5, 1))
    known = bandit(tuning=GPTuning(public_decision_sets=sets))
    assert known.tuning.release == "cells"
    assert known.ask(np.array([[2.0], [3.0]])).index in (0, 1)


def test_a_pure_promise_over_a_box_answers_over_the_whole_box_and_refuses_candidates(tmp_path):
    policy = bandit(privacy=JointDP(1.0), user_ids=True)
    policy.save(tmp_path / "state")
    for one in (policy, GPBandit.load(tmp_path / "state"), GPBandit.from_config(policy.to_config())):
        for brought, ask in ((np.array([[2.0]]), one.ask), (np.array([[[2.0]]]), one.ask_batch)):
            with pytest.raises(InvalidData, match="public_decision_sets") as refused:
                ask(brought, ["u-1"] if ask == one.ask_batch else "u-1")
            assert "release='cells'" in str(refused.value)
        assert one.rounds_asked == 0  # nothing was taken
        assert one.ask(user="u-1").action.shape == (1,)
    named = bandit(privacy=JointDP(1.0), tuning=GPTuning(release="cells"))
    assert named.ask(np.array([[2.0]])).index == 0


def test_whole_says_that_nobody_brings_candidates_and_is_no_word_for_arms():
    policy = bandit(tuning=GPTuning(public_decision_sets="whole"))
    assert policy.tuning.release == "cells"
    with pytest.raises(InvalidData, match="candidates: expected none"):
        policy.ask(np.array([[2.0]]))
    with pytest.raises(InvalidParameter, match="for a domain"):
        bandit(contexts=PEOPLE, arms=["a", "b"], tuning=GPTuning(public_decision_sets="whole"))
    with pytest.raises(InvalidParameter, match="public_decision_sets"):
        GPTuning(public_decision_sets="everything")


@pytest.mark.parametrize(
    ("changes", "release"),
    [({}, "cells"), ({"contexts": PEOPLE, "arms": ["mail", "call"], "horizon": 5_000}, "marginals")],
)
def test_a_delta_of_zero_is_allowed_and_the_release_that_keeps_it_is_named(changes, release):
    policy = bandit_quietly(privacy=JointDP(1.0), **changes)
    assert policy.guarantee.certificate == PureDP(1.0)
    assert policy.diagnostics()["release"] == release
    assert f"kind {release!r}" in policy.guarantee.annex()
    assert "of the kind" not in bandit(**changes).guarantee.annex()


@pytest.mark.parametrize("release", ["features", "marginals"])
def test_explore_then_commit_names_its_release_too(release):
    policy = ExploreThenCommit(
        contexts=PEOPLE,
        arms=["mail", "call"],
        reward_range=(0, 1),
        horizon=20_000,
        privacy=JointDP(1.0, user_ids=False),
        tuning=ExploreTuning(release=release),
    )
    assert policy.diagnostics()["release"] == release
    assert f"kind {release!r}" in policy.guarantee.annex()


def test_publishing_before_any_release_says_when_to():
    policy = bandit(tuning=GPTuning(blocks=(10, 20)))
    with pytest.warns(NothingReleased, match="after 10 rounds"):
        mean, _ = policy.publish().predict([[3.0]])
    assert mean.tolist() == [0.5]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        policy.publish(prior=True)
        for _ in range(10):
            policy.tell(policy.ask().id, 1.0)
        policy.publish()


# -- what releases say -------------------------------------------------------------------------------------


def in_contexts(policy, rounds, *, told=1.0, seed=1):
    """Every visitor brings a context of their own beside twenty prices; low prices are bought."""
    rng, done = np.random.default_rng(seed), 0
    for end in (*policy.batch_boundaries, rounds):
        count = min(end, rounds) - done
        if count <= 0:
            continue
        sets = np.empty((count, 20, 2))
        sets[:, :, 0], sets[:, :, 1] = rng.random(count)[:, None], np.linspace(0.0, 1.0, 20)
        decisions = policy.ask_batch(sets)
        price = decisions.actions[:, 1]
        rewards = np.where(rng.random(count) < price * np.exp(-2.0 * price), 1.0, 0.0)
        policy.tell_batch(decisions.ids, np.where(rng.random(count) < told, rewards, np.nan))
        done += count
    return policy


def test_cells_that_are_asked_in_contexts_are_found():
    """Their predictions leave the reward range, as they take candidates for uniform ones."""
    tuning = GPTuning(release="cells")
    found = in_contexts(
        bandit(domain=SQUARE, horizon=3_000, privacy=JointDP(1.0), tuning=tuning), 2_990
    ).diagnostics()
    assert found["predictions"]["lowest"] < -1.0
    assert found["crowded_cells"] > 0
    assert "contradict the reward range 0 to 1" in found["warnings"][0]
    assert "expected numbers of users in their cells" in found["warnings"][1]
    assert all("public_decision_sets" in said for said in found["warnings"])


def test_cells_of_declared_contexts_are_not_found():
    sets = np.empty((400, 20, 2))
    sets[:, :, 0] = np.random.default_rng(9).random(400)[:, None]
    sets[:, :, 1] = np.linspace(0.0, 1.0, 20)
    tuning = GPTuning(release="cells", public_decision_sets=sets)
    policy = bandit(domain=SQUARE, horizon=3_000, privacy=JointDP(1.0), tuning=tuning)
    found = in_contexts(policy, 2_990).diagnostics()
    assert found["warnings"] == []
    assert found["predictions"]["outside"] == 0


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_features_asked_by_the_default_rule_in_contexts_stay_in_range(seed):
    policy = in_contexts(bandit(domain=SQUARE, horizon=3_000, noise=SimulatedNoise(seed)), 2_990, seed=seed)
    found = policy.diagnostics()
    assert found["warnings"] == []
    assert found["told_share"] == pytest.approx(1.0, abs=6.0 * found["told_share_sd"])


def test_rewards_that_do_not_come_are_seen_in_what_was_released():
    policy = bandit(domain=SQUARE, horizon=3_000, privacy=JointDP(4.0, 1e-6))
    found = in_contexts(policy, 2_990, told=0.1).diagnostics()
    assert found["told_share"] == pytest.approx(0.1, abs=6.0 * found["told_share_sd"])
    assert any("covers about" in said for said in found["warnings"])


@pytest.mark.parametrize("home", ["rent", "castle"])
def test_contexts_that_cannot_be_read_are_seen_in_the_released_counts(home):
    policy = bandit(contexts=PEOPLE, arms=["mail", "call"], horizon=5_000, privacy=JointDP(1.0))
    for _ in range(5):
        homes = [home if number % 2 == 0 else "own" for number in range(1_000)]
        policy.ask_batch({"age": [40] * 1_000, "home": homes})
    found = policy.diagnostics()
    share = 1.0 if home == "rent" else 0.5
    assert found["read_share"] == pytest.approx(share, abs=6.0 * found["read_share_sd"])
    assert any("readable contexts" in said for said in found["warnings"]) == (home == "castle")


# -- and nothing else --------------------------------------------------------------------------------------


def test_what_is_said_before_data_rests_on_no_secret():
    """Whatever the noise and the seed are, and whatever other policy was asked before."""
    bad = {"horizon": 100, "contexts": PEOPLE, "arms": list(range(50))}
    other = said_by(**bad, noise=dpb.privacy.SecureNoise(), seed=4)
    assert said_by(**bad) == other != []


@pytest.mark.parametrize("release", ["features", "cells", "marginals"])
def test_diagnostics_change_with_releases_only(release):
    """Between two releases two crowds, of whom one is all but absent, leave the same diagnostics."""
    arguments = {"tuning": GPTuning(release=release, blocks=(100, 900)), "horizon": 1_000}
    if release == "marginals":
        arguments |= {"contexts": PEOPLE, "arms": ["mail", "call"]}
    found = []
    for world in range(2):
        policy = bandit_quietly(**arguments)
        for t in range(400):
            own = world and t >= 101
            if release == "marginals":
                context = {"age": 89 if own else 30, "home": "castle" if own else "own"}
                decisions = policy.ask_batch([context])
            else:
                decisions = policy.ask_batch([[[20.0 if own else 2.0]]])
            if t % 2 or not own:
                policy.tell_batch(decisions.ids, [1.0 if own else 0.0])
        found.append(policy.diagnostics())
    assert found[0] == found[1]
    assert found[0]["blocks_released"] == 1


def test_the_share_that_diagnostics_tell_is_as_noisy_as_what_was_released():
    """All rounds are told. With noise of known deviation what is shown scatters by it, and is never exact."""
    shares = []
    for seed in range(24):
        policy = bandit_quietly(noise=SimulatedNoise(seed), tuning=GPTuning(blocks=(50, 900)))
        decisions = policy.ask_batch(np.full((50, 1, 1), 5.0))
        policy.tell_batch(decisions.ids, np.ones(50))
        policy.ask(np.array([[5.0]]))
        found = policy.diagnostics()
        shares.append((found["told_share"] - 1.0) / found["told_share_sd"])
    # false alarm < 1e-6: 24 normals have a standard deviation between .4 and 2
    assert 0.4 < np.std(shares) < 2.0


def test_counts_that_diagnostics_tell_are_as_noisy_as_what_was_released():
    shares = []
    for seed in range(24):
        policy = bandit_quietly(
            contexts=PEOPLE,
            arms=["mail", "call"],
            noise=SimulatedNoise(seed),
            tuning=GPTuning(release="marginals", blocks=(50, 900)),
        )
        policy.ask_batch({"age": [40] * 50, "home": ["own"] * 50})
        policy.ask({"age": 40, "home": "own"})
        found = policy.diagnostics()
        shares.append((found["read_share"] - 1.0) / found["read_share_sd"])
    assert 0.4 < np.std(shares) < 2.0


@pytest.mark.parametrize("lengthscale", [5.0, 20.0, (0.3, 5.0)])
def test_a_kernel_that_is_flat_along_a_column_of_contexts_warns(lengthscale):
    """In the column's own unit, years say, such a lengthscale kept .0 of the gain in silence."""
    columns = {"age": dpb.Range(18, 90)} | (
        {"visits": dpb.Range(0, 9)} if isinstance(lengthscale, tuple) else {}
    )
    arguments = {
        "contexts": dpb.Schema(**columns), "arms": ["a", "b"], "reward_range": (0, 1), "horizon": 20_000,
        "privacy": dpb.JointDP(epsilon=2, delta=1e-6),
    }  # fmt: skip
    with pytest.warns(NothingToLearn, match="along column"):
        dpb.central.GPBandit(**arguments, kernel=dpb.kernels.SquaredExponential(lengthscale=lengthscale))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dpb.central.GPBandit(**arguments, kernel=dpb.kernels.SquaredExponential(lengthscale=0.3))


def test_a_kernel_that_is_flat_along_a_column_of_a_box_warns():
    with pytest.warns(NothingToLearn, match="along column 1 of 2"):
        dpb.central.GPBandit(
            domain=dpb.Box(low=[1, 0], high=[20, 5]), kernel=dpb.kernels.Matern(nu=2.5, lengthscale=(4, 1.2)),
            reward_range=(0, 1), horizon=3000, privacy=dpb.JointDP(epsilon=1, delta=1e-6),
        )  # fmt: skip


def test_a_kernel_that_is_flat_over_cells_warns():
    cells = CellMeasure.uniform(low=0, high=20, cells=6)
    with pytest.warns(NothingToLearn, match="along column"):
        dpb.central.ExploreThenCommit(
            kernel=dpb.kernels.SquaredExponential(lengthscale=6), actions=cells, contexts=cells,
            reward_range=(0, 1), horizon=5000, privacy=dpb.JointDP(epsilon=2, delta=1e-6),
        )  # fmt: skip
