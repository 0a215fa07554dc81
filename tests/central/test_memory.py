"""The memory of a configuration is estimated from public numbers, and one that does not fit is refused."""

import gc
import re
import weakref

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.published import Dubey2021
from dpbandits.domains import Arms, Box, Product
from dpbandits.errors import InvalidParameter
from dpbandits.lab.baselines import FeatureGPUCB, PrivateRidge
from dpbandits.models.features import ArmFeatures, MercerFeatures
from internals import marginals

PRIVACY = dpb.JointDP(epsilon=1, delta=1e-6)


def built(kind=GPBandit, *, columns=3, arms=4, horizon=2000, **more):
    people = dpb.Schema(**{f"x{column}": dpb.Range(0, 1) for column in range(columns)})
    own = {"privacy": PRIVACY} if kind is not FeatureGPUCB else {}
    own |= more
    return kind(contexts=people, arms=list(range(arms)), reward_range=(0, 1), horizon=horizon, **own)


@pytest.fixture
def limit():
    before = dpb.memory_limit()
    yield dpb.set_memory_limit
    dpb.set_memory_limit(before)


MEASURED = (
    # columns, arms, rounds, features an arm, measured peak in MB: python -m benchmarks.memory
    (3, 50, 2_000, 40, 95),
    (3, 20, 3_000, 100, 208),
    (3, 20, 3_000, 150, 449),
    (10, 20, 1_000, None, 68),
    (10, 100, 600, None, 281),
    (30, 20, 3_000, None, 45),
    (60, 50, 1_500, None, 178),
)


@pytest.mark.parametrize(("columns", "arms", "horizon", "n_features", "megabytes"), MEASURED)
def test_estimates_are_within_a_factor_of_two_of_measured_peaks(
    columns, arms, horizon, n_features, megabytes
):
    tuning = None if n_features is None else GPTuning(release="features", n_features=n_features)
    found = built(columns=columns, arms=arms, horizon=horizon, tuning=tuning).bytes_needed
    assert 0.5 < found / (1e6 * megabytes) < 2.0


@pytest.mark.parametrize(
    ("horizon", "epsilon", "weights"), [(20_000, 1, 169), (20_000, 8, 337), (3_000, 8, 217)]
)
def test_weights_of_wide_tables_are_forecast_as_releases_find_them(horizon, epsilon, weights):
    """Measured with rewards that no column explains: what releases find moves the number by a tenth."""
    privacy = dpb.JointDP(epsilon=epsilon, delta=1e-6)
    policy = built(columns=30, arms=20, horizon=horizon, privacy=privacy)
    assert policy.features.base.n_features == 121
    assert marginals.expected_weights(policy) == pytest.approx(weights, rel=0.15)


@pytest.mark.parametrize(("columns", "release"), [(3, "features"), (10, "marginals")])
def test_bytes_are_linear_in_arms(columns, release):
    tuning = GPTuning(release=release)
    few, many = (built(columns=columns, arms=arms, tuning=tuning).bytes_needed for arms in (20, 80))
    assert 2.0 < many / few < 4.5


def test_a_policy_that_does_not_fit_is_refused_in_numbers(limit):
    needed = built(arms=100).bytes_needed
    limit(int(needed) + 1)
    built(arms=100)
    limit(int(needed / 2))
    words = re.escape(f"needs about {needed / 1e9:.1f} GB of memory")
    with pytest.raises(InvalidParameter, match=rf"{words}.*fewer columns, arms.*set_memory_limit"):
        built(arms=100)


def test_the_default_limit_refuses_what_killed_processes_and_takes_what_fits():
    with pytest.raises(InvalidParameter, match="GB of memory"):
        built(columns=3, arms=100, tuning=GPTuning(release="features", n_features=500))
    assert built(columns=3, arms=100).bytes_needed < 1e8
    assert built(columns=10, arms=100).bytes_needed < 1.5e9


def test_a_column_of_many_categories_is_refused_before_its_tables_are_built():
    """The components of 60,000 categories would be 29 GB."""
    people = dpb.Schema(
        **{f"x{column}": dpb.Range(0, 1) for column in range(4)}, town=dpb.Categories(range(60_000))
    )
    with pytest.raises(InvalidParameter, match=r"GB of memory.*fewer categories"):
        GPBandit(contexts=people, arms=[0, 1], reward_range=(0, 1), horizon=1000, privacy=PRIVACY)


@pytest.mark.parametrize("kind", [FeatureGPUCB, PrivateRidge])
def test_baselines_are_refused_too(kind, limit):
    limit(1 << 14)
    with pytest.raises(InvalidParameter, match="fewer columns"):
        built(kind, columns=10, arms=40)


def test_a_whole_gram_across_arms_is_refused_by_its_bytes(limit):
    box = Box(low=[0], high=[1])
    kernel = dpb.kernels.Matern(nu=2.5, lengthscale=0.5)
    base = MercerFeatures(kernel=kernel, domain=box, n_features=8)
    features = ArmFeatures(base=base, arm_column=1, n_arms=20)
    limit(1 << 20)
    with pytest.raises(InvalidParameter, match="keeps arms apart"):
        Dubey2021(
            domain=Product(box, Arms(20)),
            reward_range=(0, 1),
            horizon=100,
            privacy=PRIVACY,
            features=features,
        )


def test_limits_are_positive_integers():
    for bad in (0, -1, 1.5, "4 GB"):
        with pytest.raises(InvalidParameter, match="most"):
            dpb.set_memory_limit(bad)


def test_more_of_anything_needs_more():
    given = {"columns": 3, "arms": 20, "horizon": 2000, "tuning": GPTuning(release="features", n_features=20)}
    least = built(**given).bytes_needed
    more = {"arms": 40, "horizon": 20_000, "tuning": GPTuning(release="features", n_features=40)}
    assert all(built(**{**given, name: value}).bytes_needed > least for name, value in more.items())
    public = GPTuning(release="features", n_features=20, decision_sets="public")
    assert built(**{**given, "tuning": public}).bytes_needed < least
    box = {"domain": Box(low=[0, 0], high=[1, 1]), "reward_range": (0, 1), "privacy": PRIVACY}
    cells = [
        GPBandit(**box, horizon=horizon, tuning=GPTuning(release="cells")).bytes_needed
        for horizon in (1000, 100_000)
    ]
    assert cells[0] < cells[1] < 1e9


def test_an_unknown_horizon_counts_as_ten_thousand_rounds():
    assert built(horizon=None).bytes_needed < 1e8


def test_bytes_depend_on_nothing_that_people_bring():
    policy = built(columns=2, horizon=200)
    before = policy.bytes_needed
    for number in range(60):
        decision = policy.ask(tuple(np.random.default_rng(number).random(2)), user=str(number))
        policy.tell(decision.id, 1.0)
    assert policy.bytes_needed == before == built(columns=2, horizon=200).bytes_needed


def test_a_saved_policy_that_does_not_fit_is_not_called_corrupt(limit, tmp_path):
    policy = built()
    policy.save(tmp_path / "policy.state")
    dpb.set_memory_limit(int(policy.bytes_needed / 2))
    with pytest.raises(InvalidParameter, match="set_memory_limit"):
        GPBandit.load(tmp_path / "policy.state")
    dpb.set_memory_limit(int(policy.bytes_needed) + 1)
    assert GPBandit.load(tmp_path / "policy.state").to_config() == policy.to_config()


def test_the_memory_of_a_closed_policy_is_free_at_once(tmp_path):
    gc.collect()
    gc.disable()
    try:
        policy = GPBandit.open(tmp_path / "folder", new=built())
        seen = weakref.ref(policy)
        policy.close()
        del policy
        assert seen() is None
    finally:
        gc.enable()
