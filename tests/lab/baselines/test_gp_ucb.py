"""GP-UCB without privacy: its quick choices against the formula, however rewards come."""

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.lab.baselines import ExactGPUCB, FeatureGPUCB, GPUCBTuning
from dpbandits.models import gaussian_process
from dpbandits.models.features import MercerFeatures
from dpbandits.models.gaussian_process import FeatureGP
from dpbandits.models.kernels import SquaredExponential

pytestmark = pytest.mark.numerics

KERNEL = SquaredExponential(lengthscale=0.4)
SQUARE = dpb.Box([0, 0], [1, 1])
FEATURES = MercerFeatures(kernel=KERNEL, domain=SQUARE, n_features=20)
PRIOR, NOISE, WEIGHT = 0.3, 0.2, 0.7


def bandit(kind=FeatureGPUCB, **changes):
    shared = {"domain": SQUARE, "reward_range": (0, 1), "features": FEATURES, "seed": 4}
    own = {"tuning": GPUCBTuning(prior_variance=PRIOR, noise_variance=NOISE, ucb_weight=WEIGHT)}
    return kind(**{**shared, **own, **changes})


def paid(point):
    return float(0.5 + 0.4 * np.sin(5.0 * point[0]) * point[1])


class Formula:
    """Upper bounds of the posterior, by one solve of everything that was seen."""

    def __init__(self):
        m = FEATURES.n_features
        self.precision = np.eye(m) / (PRIOR * FEATURES.scale**2)
        self.pull = np.zeros(m)

    def scores(self, candidates):
        phi = FEATURES(candidates)
        half = np.linalg.solve(self.precision, phi.T)
        return half.T @ self.pull + WEIGHT * np.sqrt(np.einsum("ij,ji->i", phi, half))

    def learn(self, point, reward):
        phi = FEATURES(point[None])[0]
        self.precision += np.outer(phi, phi) / NOISE
        self.pull += phi * (reward - 0.5) / NOISE


def test_every_choice_is_that_of_the_formula_and_costs_no_regret():
    rng, policy, formula = np.random.default_rng(0), bandit(), Formula()
    own = exact = 0.0
    for _ in range(800):
        candidates = rng.random((12, 2))
        scores = formula.scores(candidates)
        decision = policy.ask(candidates)
        assert scores[decision.index] >= scores.max() - 1e-10
        own += paid(decision.action)
        exact += paid(candidates[scores.argmax()])
        policy.tell(decision.id, paid(decision.action))
        formula.learn(decision.action, paid(decision.action))
    assert own == exact


@pytest.mark.parametrize("told", ["at once", "one round later", "in tens", "after a save"])
def test_when_and_how_rewards_come_moves_what_is_learned_by_rounding_only(told, tmp_path):
    """A reward that follows its decision meets the features that the choice saw; others are computed anew."""
    rng, policy, formula = np.random.default_rng(1), bandit(), Formula()
    open_ = []
    for number in range(60):
        decision = policy.ask(rng.random((9, 2)))
        open_.append(decision)
        if told == "after a save":
            policy.save(tmp_path / "policy")
            policy = FeatureGPUCB.load(tmp_path / "policy")
        if told in ("at once", "after a save"):
            policy.tell(decision.id, paid(decision.action))
            open_.clear()
        elif told == "one round later" and number:
            policy.tell(open_[0].id, paid(open_.pop(0).action))
        elif told == "in tens" and len(open_) == 10:
            policy.tell_batch([one.id for one in open_], [paid(one.action) for one in open_])
            open_.clear()
        formula.learn(decision.action, paid(decision.action))
    for one in open_:
        policy.tell(one.id, paid(one.action))
    points = rng.random((50, 2))
    published = policy.publish().posterior
    half = np.linalg.solve(formula.precision, formula.pull)
    np.testing.assert_allclose(FEATURES(points) @ published.mean, FEATURES(points) @ half, atol=1e-10)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 4, 1, 2]])
def test_what_a_batch_was_chosen_by_is_not_taken_for_what_is_known_when_it_is_told(order):
    rng, policy, formula = np.random.default_rng(6), bandit(), Formula()
    for _ in range(12):
        batch = list(policy.ask_batch(rng.random((5, 9, 2))))
        for place in order:
            policy.tell(batch[place].id, paid(batch[place].action))
            formula.learn(batch[place].action, paid(batch[place].action))
    points = rng.random((50, 2))
    half = np.linalg.solve(formula.precision, formula.pull)
    learned = FEATURES(points) @ policy.publish().posterior.mean
    np.testing.assert_allclose(learned, FEATURES(points) @ half, atol=1e-10)


def test_a_batch_is_chosen_as_one_by_one():
    policy, rng = bandit(), np.random.default_rng(2)
    for _ in range(30):
        decision = policy.ask(rng.random((9, 2)))
        policy.tell(decision.id, paid(decision.action))
    sets = rng.random((7, 9, 2))
    together = policy.ask_batch(sets).indices.tolist()
    assert together == [policy.ask(one).index for one in sets]


def test_equal_rows_are_told_apart_by_public_coins_alone():
    drawn = [bandit(seed=seed).ask(np.full((4, 2), 0.5)).index for seed in range(200)]
    assert np.bincount(drawn, minlength=4).min() > 10
    again = [bandit(seed=seed).ask(np.full((4, 2), 0.5)).index for seed in range(200)]
    assert drawn == again


@pytest.mark.parametrize("n_arms", range(2, 11))
def test_arms_of_which_nothing_is_known_tie_and_go_by_the_coin(n_arms):
    """At the default number of features. An arm is never drawn with probability <= 10 * 0.9^200 < 1e-8."""
    people = dpb.Schema(age=dpb.Range(18, 90), region=dpb.Categories(["n", "s", "w"]))
    arms = [f"arm {number}" for number in range(n_arms)]
    policy = FeatureGPUCB(contexts=people, arms=arms, reward_range=(0, 1), seed=3)
    ages = np.random.default_rng(7).uniform(18, 90, 200)
    brought = [{"age": age, "region": "nsw"[number % 3]} for number, age in enumerate(ages)]
    features = policy.features(policy.menu.sets(policy.menu.points(brought)))
    prior = FeatureGP(features.shape[-1], prior_variance=policy.features.scale**2, noise_variance=NOISE)
    mean, sd = prior.predict_from_features(features)
    assert not mean.any()
    np.testing.assert_allclose(sd, np.repeat(sd[:, :1], n_arms, axis=1), rtol=1e-13)
    assert {policy.ask(person).arm for person in brought} == set(arms)


def test_candidates_that_tie_in_exact_arithmetic_are_recommended_by_their_place():
    """Rewards are symmetric in both axes, and so is what is learned. Rounding differs at each corner."""
    rng = np.random.default_rng(0)
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]])
    policy = ExactGPUCB(domain=SQUARE, kernel=KERNEL, reward_range=(0, 1), noise_sd=0.5, seed=0)
    seen, sets = (0.5 + rng.uniform(0, 0.5, (n, 1, 2)) * signs for n in (15, 60))
    decisions = policy.ask_batch(seen.reshape(-1, 1, 2))
    policy.tell_batch(decisions.ids, np.repeat(rng.integers(0, 2, 15), 4).astype(float))
    assert [policy.recommend(candidates) for candidates in sets] == [0] * 60


def test_a_tell_that_is_interrupted_leaves_no_look_that_passes_for_fresh(monkeypatch):
    rng, stopped, whole = np.random.default_rng(8), bandit(), bandit()
    sets = rng.random((2, 9, 2))
    moved = gaussian_process.dger

    def moved_and_stopped(*arguments, **options):
        moved(*arguments, **options)
        raise KeyboardInterrupt

    for policy in (stopped, whole):
        first, second = policy.ask_batch(sets)
        with monkeypatch.context() as patch:
            if policy is stopped:
                patch.setattr(gaussian_process, "dger", moved_and_stopped)
                with pytest.raises(KeyboardInterrupt):
                    policy.tell(first.id, 0.9)
            else:
                policy.tell(first.id, 0.9)
        policy.tell(second.id, 0.2)
    at = rng.random((20, 2))
    np.testing.assert_allclose(stopped.predict(at), whole.predict(at), rtol=1e-12)


def test_forgetting_still_fades_what_came_before():
    quick, slow = bandit(forget=8), bandit()
    for policy in (quick, slow):
        rng = np.random.default_rng(3)
        for _ in range(60):
            decision = policy.ask(rng.random((9, 2)))
            policy.tell(decision.id, paid(decision.action))
    at = np.array([[0.5, 0.5]])
    assert quick.predict(at)[1][0] > 1.5 * slow.predict(at)[1][0]


def test_a_point_of_the_whole_domain_is_not_mistaken_for_a_row_of_the_last_choice():
    policy, alone = bandit(), bandit()
    for _ in range(3):
        policy.ask(np.array([[0.1, 0.9], [0.8, 0.2]]))  # never told
        decision = policy.ask()
        policy.tell(decision.id, paid(decision.action))
        alone.tell(alone.ask(decision.action[None]).id, paid(decision.action))
    at = np.array([[0.3, 0.4]])
    np.testing.assert_allclose(policy.predict(at), alone.predict(at), atol=1e-10)


class First(FeatureGPUCB):
    """A rule of one's own."""

    def _choose(self, candidates, available, start):
        return np.zeros(len(candidates), dtype=np.int64), None


def test_a_rule_of_ones_own_is_the_one_that_decides():
    rng, policy = np.random.default_rng(2), bandit(First)
    for _ in range(20):
        decision = policy.ask(rng.random((12, 2)))
        assert decision.index == 0
        policy.tell(decision.id, 0.5)
