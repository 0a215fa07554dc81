"""`GPTuning(forget=...)`: what was released counts for less and less, and releases are not mixed."""

from dataclasses import replace

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.central.schedule import BLOCKS_A_HALF_LIFE, fading_blocks
from dpbandits.domains import Arms, Box, Product
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab import twin
from dpbandits.lab.evaluation import run
from dpbandits.lab.worlds import FunctionBandit, UniformCandidates, camelback
from dpbandits.models.cell_regression import posterior_from_cells
from dpbandits.models.gaussian_process import FeatureGP
from dpbandits.models.noisy_regression import WeightPosterior, posterior_from_block_statistics
from dpbandits.privacy import JointDP, SimulatedNoise
from reproduction.changing import Changing

KINDS = ("features", "cells", "marginals")
LINE, COLUMNS = Box(low=[0.0], high=[1.0]), Box(low=[0.0] * 4, high=[1.0] * 4)


def world(kind, *, horizon=4_000, seed=1_000_000):
    """The right half pays, and after half the time the left half."""
    people = kind == "marginals"

    def mean(points):
        right = (points[..., 0] > 0.5) == (points[..., -1] > 0.5)
        return np.where(right if people else points[..., 0] > 0.5, 0.8, 0.2)

    def candidates(coins, start, stop):
        if not people:
            return UniformCandidates(domain=LINE, n_candidates=2)(coins, start, stop)
        own = coins.uniform("environment/candidates", start, stop, 4)
        return np.stack([np.insert(own, 4, arm, axis=1) for arm in (0, 1)], axis=1)

    before = FunctionBandit(
        name="halves",
        domain=Product(COLUMNS, Arms(2)) if people else LINE,
        mean=mean,
        candidates=candidates,
        n_candidates=2,
        horizon=horizon,
        seed=seed,
    )
    after = replace(before, mean=lambda points: 1.0 - mean(points))
    return Changing(before=before, after=after, begin=horizon // 2, end=horizon // 2)


def policy(kind, forget, *, domain=None, horizon=4_000, epsilon=4.0, **options):
    learns_with = {} if kind == "marginals" else {"kernel": dpb.kernels.SquaredExponential(lengthscale=0.4)}
    given = {"release": kind, "forget": forget}
    if "blocks" in options:
        given["blocks"] = options.pop("blocks")
    return GPBandit(
        domain=domain or world(kind).domain,
        reward_range=(0, 1),
        horizon=horizon,
        privacy=JointDP(epsilon=epsilon, delta=0.0 if kind == "cells" else 1e-6, user_ids=False),
        tuning=GPTuning(**given),
        noise=SimulatedNoise(5),
        **learns_with,
        **options,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_change_a_policy_that_forgets_earns_what_one_that_does_not_has_lost(kind):
    """One seed each, and margins of many standard errors."""
    changing = world(kind)
    stays, forgets = (run(policy(kind, half), changing) for half in (None, 400))
    late = slice(3_000, None)
    assert forgets.expected[late].mean() > stays.expected[late].mean() + 0.1
    assert forgets.expected[late].mean() > 0.6  # random: .5, best: about .65 of two points, .8 of two arms


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_short_to_the_very_end_and_the_promise_is_the_same(kind):
    stays, forgets = policy(kind, None), policy(kind, 400)
    assert np.diff((0, *forgets.blocks)).max() == 400 // BLOCKS_A_HALF_LIFE
    assert forgets.blocks[-1] > 4_000 - 400 // BLOCKS_A_HALF_LIFE
    own, other = forgets.guarantee, stays.guarantee
    assert (own.epsilon, own.delta, own.status) == (other.epsilon, other.delta, other.status)
    assert forgets.tuning.forget == 400
    assert type(forgets).from_config(forgets.to_config()).to_config() == forgets.to_config()


def test_no_block_is_mixed_with_another():
    """The horizon is known, and without `forget` blocks are mixed: every release is then of all before it."""
    assert np.count_nonzero(policy("features", None).tuning.factor.matrix) > 20
    factor = policy("features", 400).tuning.factor.matrix
    assert np.array_equal(factor, np.eye(len(factor)))


@pytest.mark.parametrize("kind", KINDS)
def test_it_goes_on_where_it_was(kind, tmp_path):
    changing = world(kind, horizon=600)
    whole, cut = (policy(kind, 200, domain=changing.domain, horizon=600) for _ in range(2))

    def some(one, start, stop):
        decisions = one.ask_batch(changing.decision_sets(start, stop))
        one.tell_batch(decisions.ids, changing.rewards(start, stop, decisions.indices))
        return decisions.indices

    for start in range(0, 300, 50):
        assert np.array_equal(some(whole, start, start + 50), some(cut, start, start + 50))
    cut.save(tmp_path / "state")
    taken_up = GPBandit.load(tmp_path / "state")
    for start in range(300, 600, 50):
        assert np.array_equal(some(whole, start, start + 50), some(taken_up, start, start + 50))


@pytest.mark.parametrize("kind", KINDS)
def test_public_data_fade_like_releases(kind):
    """People of whom nothing is learned come after public data, which say little in the end."""
    domain = world(kind).domain
    points = domain.sample(200, np.random.default_rng(1))
    found = []
    for forget in (None, 100):
        one = policy(kind, forget, domain=domain, epsilon=0.01)
        one.warm_start(points, np.ones(200))
        before = one.predict(points)[0].mean()
        for _ in range(8):
            one.ask_batch(np.stack([points[:100], points[100:]], axis=1))
        found.append((before - 0.5, one.predict(points)[0].mean() - 0.5))
    (began, stays), (same, fades) = found
    assert began == same > 0.2
    assert abs(fades) < 0.6 * abs(stays)


def test_a_share_of_all_is_all_and_a_share_of_none_is_the_prior_of_cells():
    rng = np.random.default_rng(3)
    prior = WeightPosterior.prior(0.3, ((0, 3),))
    given = {"counts": rng.uniform(5, 9, (2, 4)), "features": rng.normal(size=(2, 4, 3)), "noise_sd": 1.5}
    sums = rng.normal(size=(2, 4))

    def law(part=slice(None), **kept):
        told = {name: value if name == "noise_sd" else value[part] for name, value in given.items()}
        return posterior_from_cells(sums[part], prior=prior, **told, **kept)

    assert np.allclose(law(kept=np.ones(2)).mean, law().mean)
    assert np.allclose(law(kept=np.array([1.0, 0.0])).mean, law(slice(1, 2)).mean)
    half = precision(law(kept=np.array([1.0, 0.5])))
    bare, first, both = precision(prior), precision(law(slice(0, 1))), precision(law())
    assert np.allclose(half, both - 0.5 * (first - bare))


def test_a_share_of_a_block_is_that_share_of_its_information():
    rng = np.random.default_rng(4)
    rows = rng.normal(size=(2, 30, 3))
    grams, vectors = np.einsum("knm,knl->kml", rows, rows), rng.normal(size=(2, 3))
    given = {
        "gram_noise_sd": 0.7,
        "vector_noise_sd": 2.0,
        "prior_variance": 0.3,
        "reward_variance": 0.25,
    }

    def law(part=slice(None), **kept):
        own = grams[part]
        return posterior_from_block_statistics(
            own, vectors[part], noise_covariance=np.eye(len(own)), **given, **kept
        )

    bare = np.eye(3) / 0.3
    assert np.allclose(law(kept=np.ones(2)).mean, law().mean)
    one = precision(law(slice(0, 1))) - bare
    assert np.allclose(precision(law(slice(0, 1), kept=np.array([0.25]))) - bare, 0.25 * one)
    both = precision(law(kept=np.array([0.25, 1.0]))) - bare
    assert np.allclose(both, 0.25 * one + precision(law(slice(1, 2))) - bare)


@pytest.mark.parametrize("kept", [[0.5], [0.0, 1.0], [0.5, 1.1], [np.nan, 1.0]])
def test_what_is_no_share_is_refused(kept):
    with pytest.raises((InvalidParameter, InvalidData)):
        posterior_from_block_statistics(
            np.stack([np.eye(2)] * 2),
            np.zeros((2, 2)),
            noise_covariance=np.eye(2),
            gram_noise_sd=1.0,
            vector_noise_sd=1.0,
            prior_variance=1.0,
            reward_variance=0.25,
            kept=np.array(kept),
        )


def test_a_model_that_fades_moves_towards_its_prior():
    rng = np.random.default_rng(5)
    model = FeatureGP(3, prior_variance=0.5, noise_variance=0.25)
    model.add_batch(rng.normal(size=(20, 3)), rng.normal(size=20))
    told = precision(model.posterior) - np.eye(3) / 0.5
    pull = precision(model.posterior) @ model.mean_weights
    model.fade(0.25)
    assert np.allclose(precision(model.posterior), 0.25 * told + np.eye(3) / 0.5)
    assert np.allclose(precision(model.posterior) @ model.mean_weights, 0.25 * pull)
    model.fade(0.0)
    assert np.allclose(model.mean_weights, 0.0)
    with pytest.raises(InvalidParameter):
        model.fade(1.5)


def precision(law):
    return np.linalg.inv(law.factor @ law.factor.T)


def test_the_double_without_privacy_forgets_as_the_policy_does():
    assert twin(policy("features", 400)).forget == 400
    assert twin(policy("features", None)).forget is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"forget": 3}, "forget"),
        ({"forget": 2.5}, "forget"),
    ],
)
def test_what_cannot_fade_is_refused(changes, said):
    with pytest.raises(InvalidParameter, match=said):
        GPTuning(**changes)


def test_more_blocks_than_can_be_kept_are_refused():
    with pytest.raises(InvalidParameter, match="at most 12 rounds: use a longer half-life"):
        fading_blocks((10, 200), 100, longest=1 << 22)
    with pytest.raises(InvalidParameter, match="pass a horizon"):
        policy("features", 100, horizon=None)


def test_worlds_that_differ_in_more_than_rewards_do_not_change_into_each_other():
    one, other = camelback(seed=1, horizon=10), camelback(seed=2, horizon=10)
    with pytest.raises(InvalidParameter, match="rewards"):
        Changing(before=one, after=other, begin=5, end=5)
    with pytest.raises(InvalidParameter, match="end"):
        Changing(before=one, after=one, begin=5, end=11)


def test_a_world_changes_bit_by_bit():
    before = camelback(seed=1, horizon=40)
    changing = Changing(
        before=before, after=replace(before, mean=lambda x: 0.0 * x[..., 0]), begin=10, end=30
    )
    assert changing.changed(0, 40)[[0, 9, 10, 19, 29, 39]].tolist() == [0.0, 0.0, 0.05, 0.5, 1.0, 1.0]
    shares = changing.mean_rewards(0, 40) / before.mean_rewards(0, 40)
    assert np.allclose(shares, 1.0 - changing.changed(0, 40)[:, None])
    paid = changing.rewards(0, 40, np.zeros(40, dtype=int))
    assert np.array_equal(paid[:10], before.rewards(0, 10, np.zeros(10, dtype=int)))
    assert not paid[30:].any()
