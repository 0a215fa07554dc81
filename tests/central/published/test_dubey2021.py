"""Dubey2021 as published: the tree against direct sums, its scale, printed constants, doubling."""

import math
import re
import shutil

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

from dpbandits.central.published import (
    FORMULAS,
    Dubey2021,
    correct_local_scale,
    correct_scale,
    printed_levels,
    printed_local_scales,
    printed_scale,
    real_epsilon,
    real_local_mu,
)
from dpbandits.domains import Box
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.runner import run
from dpbandits.models.features import MercerFeatures
from dpbandits.models.features.fourier import QuadratureFourierFeatures
from dpbandits.models.kernels import SquaredExponential
from dpbandits.privacy import GaussianDP, JointDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.calibration import gaussian_mu, membership_bound
from dpbandits.privacy.certificates import NearGaussianDP, ZeroConcentratedDP
from dpbandits.privacy.prefix_sums import BinaryTree
from internals.dubey2021 import epoch_release, go_to_epoch, nodes, released_statistics, shifted_gram, weights
from internals.policy import failing_fit
from reproduction.dubey2021.gap_world import three_hills
from reproduction.dubey2021.theory import noise_spectrum
from tuning import built, placed

SE = SquaredExponential(lengthscale=1.0)
FEATURES = QuadratureFourierFeatures(kernel=SE, dim=2, nodes=4)
DOMAIN = Box(low=[-2, -2], high=[2, 2])


class Silence(SimulatedNoise):
    """Calibrates as usual and adds nothing."""

    def integer_gaussian(self, sigma, size):
        return np.zeros(size, dtype=np.int64)


def policy(cls=Dubey2021, **changes):
    arguments = {
        "domain": DOMAIN,
        "reward_range": (0, 1),
        "horizon": 40,
        "privacy": JointDP(epsilon=1.0, delta=1e-5),
        "user_ids": False,
        "features": FEATURES,
        "noise": SimulatedNoise(1),
        "seed": 2,
    }
    return built(Dubey2021, arguments | changes) if cls is Dubey2021 else cls(**placed(arguments | changes))


def drive(p, rounds):
    rng = np.random.default_rng(0)
    actions, rewards = [], []
    for _ in range(rounds):
        decision = p.ask(DOMAIN.sample(5, rng))
        rewards.append(float(rng.random() < 0.5))
        actions.append(decision.action)
        p.tell(decision.id, rewards[-1])
    p.ask(DOMAIN.sample(5, rng))
    return np.array(actions), np.array(rewards)


@pytest.mark.parametrize("rounds", [1, 2, 7, 8, 21, 33])
@pytest.mark.parametrize("horizon", [40, None])
def test_without_noise_the_prefix_is_the_sum(rounds, horizon):
    p = policy(noise=Silence(0), horizon=horizon)
    actions, rewards = drive(p, rounds)
    gram, half = released_statistics(p)
    phi = FEATURES(actions)
    assert gram == pytest.approx(phi.T @ phi, abs=1e-4)
    assert 2 * half == pytest.approx(phi.T @ rewards, abs=1e-4)


class Interrupted(Silence):
    """Silent, and cut off once, while noise number `at` is drawn."""

    at = 0

    def integer_gaussian(self, sigma, size):
        self.at -= 1
        if self.at == 0:
            raise KeyboardInterrupt
        return super().integer_gaussian(sigma, size)


@pytest.mark.parametrize("at", [1, 2, 4, 7, 8, 64])
@pytest.mark.parametrize("horizon", [80, None])
def test_an_interrupted_release_is_done_again_and_loses_nobody(at, horizon):
    noise = Interrupted(0)
    noise.at = at
    p, rng, actions = policy(noise=noise, horizon=horizon), np.random.default_rng(0), []
    cut = 0
    for _ in range(66):
        candidates = DOMAIN.sample(1, rng)
        try:
            decision = p.ask(candidates)
        except KeyboardInterrupt:
            cut += 1
            decision = p.ask(candidates)
        actions.append(decision.action)
        p.tell(decision.id, 1.0)
    assert cut == 1
    p.ask(candidates)
    phi = FEATURES(np.array(actions))
    assert released_statistics(p)[0] == pytest.approx(phi.T @ phi, abs=1e-4)


def test_a_fit_that_failed_is_tried_again(monkeypatch):
    p = policy(noise=Silence(0))
    decision = p.ask(DOMAIN.sample(2, np.random.default_rng(0)))
    p.tell(decision.id, 1.0)
    before = weights(p).copy()
    failing_fit(monkeypatch, p)
    with pytest.raises(ZeroDivisionError):
        p.ask(DOMAIN.sample(2, np.random.default_rng(1)))
    monkeypatch.undo()
    p.ask(DOMAIN.sample(2, np.random.default_rng(1)))
    assert not np.array_equal(weights(p), before)


def test_the_radius_covers_the_function():
    """Theorem 1: the function lies within the radius everywhere, but for a chance of alpha = .1.

    30 functions of norm at most 1 in the span of the features, Bernoulli rewards. Were the chance of a
    miss .1, more than 15 of 30 would miss with probability below 1e-8.
    """
    points = DOMAIN.sample(100, np.random.default_rng(9))
    missed, slack = 0, []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        centre, share = DOMAIN.sample(1, rng), rng.uniform(0.2, 0.7)
        weights = share * FEATURES(centre)[0]  # share k(centre, x), near enough to [0, 1]
        p = policy(noise=SimulatedNoise(seed), horizon=61, privacy=JointDP(epsilon=40.0, delta=1e-3))
        for _ in range(60):
            decision = p.ask(DOMAIN.sample(4, rng))
            chance = FEATURES(decision.action[None])[0] @ weights
            p.tell(decision.id, float(rng.random() < chance))
        p.ask(points[:2])
        mean, half = p.predict(points)
        error = np.abs(mean - np.clip(FEATURES(points) @ weights, 0.0, 1.0))
        missed += bool((error > 2.0 * half).any())
        slack.append((2.0 * half).mean() / error.mean())
    assert missed <= 15
    assert np.median(slack) < 100.0  # and the radius is not infinite


@pytest.mark.parametrize(("taken", "bound"), [({}, "printed"), ({"spectral_bound": "sharp"}, "sharp")])
def test_the_shift_is_twice_the_bound_on_the_noise(taken, bound):
    """Lemma 3 at m = 16, T = 40 with silent noise: the smallest eigenvalue is the shift, and the noise
    of a prefix exceeds its bound in none of 200 draws (alpha = .1 allows 20 of them)."""
    p = policy(noise=Silence(0), **taken)
    drive(p, 1)
    m, levels = FEATURES.n_features, p.diagnostics()["levels"]
    log, sd = math.log(2.0 * 40 / 0.1), p.diagnostics()["node_noise_sd"]
    # the paper's sigma is that of v in (v + v^T)/sqrt(2)
    own = {"noise_sd": sd / math.sqrt(2.0), "levels": levels, "n_features": m, "rounds": 40}
    bound = {
        "printed": noise_spectrum(**own, failure_probability=0.1).smallest,
        "sharp": math.sqrt(levels) * sd * (math.sqrt(2.0 * m) + math.sqrt(2.0 * log)),
    }[bound]
    assert p.diagnostics()["spectral_bound"] == pytest.approx(bound)
    smallest = np.linalg.eigvalsh(shifted_gram(p))[0]
    assert smallest == pytest.approx(2.0 * bound, rel=1e-6)
    rng = np.random.default_rng(0)
    for _ in range(200):
        Z = rng.standard_normal((levels, m, m)) * p.diagnostics()["node_noise_sd"]
        noise = (Z + np.swapaxes(Z, 1, 2)).sum(axis=0) / 2.0
        assert np.linalg.norm(noise, 2) < bound


def test_the_bound_of_the_shift_is_no_part_of_the_promise():
    """Same noise, same guarantee; another bound is refused and is kept in a configuration."""
    sharp = policy(spectral_bound="sharp")
    assert sharp.guarantee.annex() == policy().guarantee.annex()
    assert sharp.diagnostics()["node_noise_sd"] == policy().diagnostics()["node_noise_sd"]
    assert sharp.to_config()["tuning"]["spectral_bound"] == "sharp"
    with pytest.raises(InvalidParameter, match="spectral_bound"):
        policy(spectral_bound="sharper")


def test_doubling_carries_finished_epochs_on():
    p = policy(noise=Silence(0), horizon=None)
    actions, rewards = drive(p, 70)
    assert p.diagnostics()["epoch"] == 1
    assert 2 * released_statistics(p)[1] == pytest.approx(FEATURES(actions).T @ rewards, abs=1e-4)
    assert "double" in p.guarantee.annex()


def test_doubling_claims_no_more_than_holds_of_all_its_trees():
    """The draws of one tree say nothing of the others: the certificate is one that counts no draws."""
    guarantee = policy(horizon=None, noise=SecureNoise()).guarantee
    assert isinstance(guarantee.certificate, ZeroConcentratedDP)
    assert isinstance(policy(noise=SecureNoise()).guarantee.certificate, NearGaussianDP)


def test_doubling_goes_on_after_a_restart(tmp_path):
    one = policy(horizon=None)
    drive(one, 70)
    one.save(tmp_path / "tree.state")
    shutil.copy(tmp_path / "tree.state", tmp_path / "copy.state")
    other = Dubey2021.load(tmp_path / "copy.state")
    sets = DOMAIN.sample(30, np.random.default_rng(5)).reshape(6, 5, 2)
    for candidates in sets:
        left, right = one.ask(candidates), other.ask(candidates)
        assert left.index == right.index
        one.tell(left.id, 1.0)
        other.tell(right.id, 1.0)
    assert np.array_equal(nodes(one), nodes(other))


def test_one_user_moves_all_nodes_by_at_most_the_sensitivity():
    """Two runs without noise that differ in one user's reward, or in whether it came."""
    target = 5

    def run(reward):
        p = policy(noise=Silence(0), horizon=16)
        seen = []
        for t in range(16):
            decision = p.ask(DOMAIN.sample(1, np.random.default_rng(t)))
            seen.append(nodes(p).copy())
            if t == target and reward is None:
                p.abandon(decision.id)
            else:
                p.tell(decision.id, reward if t == target else 0.5)
        return p, np.array(seen)

    whole, first = run(1.0)
    for reward in (0.0, None):
        _, second = run(reward)
        moved = 0.0
        for t in range(1, 16):  # every node once: when it was released
            level = (t & -t).bit_length() - 1
            moved += float(((first[t, level] - second[t, level]).astype(float) ** 2).sum())
        assert 0.0 < math.sqrt(moved) <= epoch_release(whole).sensitivity


def test_noise_of_a_prefix_is_popcount_nodes():
    """The prefix at t = 7 is three nodes; 1,404 numbers, variance within 7 standard deviations, .79."""
    draws = []
    for seed in range(2):
        p = policy(noise=SimulatedNoise(seed), features=QuadratureFourierFeatures(kernel=SE, dim=2, nodes=6))
        rng = np.random.default_rng(seed)
        for _ in range(7):
            p.abandon(p.ask(DOMAIN.sample(3, rng)).id)
        p.ask(DOMAIN.sample(3, rng))
        draws.append(nodes(p).sum(axis=0) / epoch_release(p).sigma)
    assert np.mean(np.concatenate(draws) ** 2) == pytest.approx(3.0, abs=7 * 3 * math.sqrt(2 / 1404))


def test_scale_of_the_papers_promise():
    p = policy(horizon=1024)
    assert p.diagnostics()["node_noise_sd"] == pytest.approx(35.0, abs=0.01)
    assert p.guarantee.status == "simulated"
    assert p.guarantee.certificate.delta_at(1.0) <= 1e-5


class TestPrintedConstants:
    @pytest.mark.parametrize(
        ("formula", "delta", "ratio"),
        [
            ("lemma-2", 1e-5, 10.474),
            ("lemma-2", 0.1, 11.995),
            ("lemma-2-statement", 1e-5, 2715.0),
            ("lemma-12", 1e-5, 2366.8),
            ("lemma-12-proof", 1e-5, 14.813),
        ],
    )
    def test_printed_noise_over_the_right_noise(self, formula, delta, ratio):
        at = {"levels": 11, "delta": delta, "epsilon": 1.0}
        assert printed_scale(formula, **at) / correct_scale(**at) == pytest.approx(ratio, rel=1e-4)

    def test_printed_numbers_by_hand(self):
        # sqrt(2) for (v + v^T)/sqrt(2), beside 16 n 2 ln(10/beta)^2 with n = 3 and ln(10/beta) = 4
        at = {"levels": 3, "delta": 10.0 * math.exp(-4.0), "epsilon": 2.0}
        assert printed_scale("lemma-2", **at) == pytest.approx(math.sqrt(2.0 * 16 * 3 * 2 * 16) / 2.0)
        assert printed_scale("lemma-2-statement", **at) == pytest.approx(
            math.sqrt(2.0) * 16 * 3 * 2 * 16 / 4.0
        )
        assert printed_scale("lemma-12-proof", **at) == pytest.approx(math.sqrt(2.0 * 16 * 3 * 4 * 16))
        # with B = 2, rho = 1/2 and ln(8T/beta) = 6: 1 + 4 + 2/4 6 = 8
        spread = {"norm_bound": 2.0, "reward_sd": 0.5}
        rounds = 5
        delta = 8.0 * rounds * math.exp(-6.0)
        found = printed_scale("lemma-2", levels=3, delta=delta, epsilon=1.0, rounds=rounds, **spread)
        assert found == pytest.approx(math.sqrt(2.0 * 16 * 3 * 8.0) * math.log(10.0 / delta))
        # ln(4T/beta) = 4: 1 + 4 + 4/4 = 6, and times alpha^2 = 9
        delta = 4.0 * rounds * math.exp(-4.0)
        found = printed_scale("lemma-12", levels=3, delta=delta, epsilon=3.0, rounds=rounds, **spread)
        assert found == pytest.approx(math.sqrt(2.0) * 16 * 3 * 6.0 * math.log(4.0 / delta) ** 2 * 9.0)

    @pytest.mark.parametrize(("rounds", "levels"), [(1, 1), (2, 2), (1000, 11), (1024, 11), (1025, 12)])
    def test_the_paper_counts_one_node_more_where_rounds_are_no_power_of_two(self, rounds, levels):
        assert printed_levels(rounds) == levels

    def test_the_proof_of_lemma_12_has_no_epsilon_and_under_noises_below_a_twentieth(self):
        at = {"levels": 11, "delta": 1e-5}
        assert real_epsilon(printed_scale("lemma-12-proof", epsilon=0.02, **at), **at) > 0.04
        assert real_epsilon(printed_scale("lemma-12-proof", epsilon=0.06, **at), **at) < 0.06

    def test_lemma_12_under_noises_at_small_epsilon(self):
        for epsilon, broken in ((0.065, True), (0.075, False)):
            at = {"levels": 11, "delta": 1e-5}
            printed = printed_scale("lemma-12", epsilon=epsilon, **at)
            assert (printed < correct_scale(epsilon=epsilon, **at)) is broken
            assert (real_epsilon(printed, **at) > epsilon) is broken

    def test_broken_needs_acknowledgement_and_names_its_attack(self):
        broken = {
            "privacy": JointDP(epsilon=0.05, delta=1e-5),
            "paper_constants": "lemma-12",
            "horizon": 1024,
        }
        with pytest.raises(InvalidParameter, match="acknowledge_broken"):
            policy(**broken)
        guarantee = policy(**broken, acknowledge_broken=True).guarantee
        assert guarantee.status == "broken"
        assert "likelihood-ratio" in guarantee.attack
        text = " ".join(guarantee.annex().split())
        assert "it satisfies epsilon = 0.1437, and a likelihood-ratio test" in text

    @pytest.mark.parametrize("rounds", [1, 3])
    def test_what_a_printed_scale_keeps_is_what_its_noise_gives(self, rounds):
        """Of exact noise, too: the textbook certificate says more than any attack can reach."""
        guarantee = policy(
            privacy=JointDP(epsilon=0.05, delta=1e-5, rounds_per_user=rounds),
            paper_constants="lemma-12",
            horizon=1024,
            noise=SecureNoise(),
            acknowledge_broken=True,
        ).guarantee
        told = re.search(
            r"satisfies epsilon = (\S+), and .* reaches (\S+)\.", " ".join(guarantee.annex().split())
        )
        keeps, reached = map(float, told.groups())
        scale = printed_scale("lemma-12", levels=11, epsilon=0.05, delta=1e-5)
        together = {1: 11, 3: 1 + 1 + 4 + 9 * 9}[rounds]  # rounds 1 and 3 alone, 1 with 2, and all in nine
        nodes = 2 * math.sqrt(2) * math.sqrt(together)
        assert reached == pytest.approx(GaussianDP(nodes / scale).epsilon_at(1e-5), rel=1e-3)
        assert keeps == pytest.approx(GaussianDP(nodes / scale).epsilon_at(1e-5), rel=1e-3)

    @pytest.mark.parametrize("rounds", [2, 3, 7])
    def test_a_printed_scale_is_broken_where_it_keeps_less_than_was_promised_and_nowhere_else(self, rounds):
        """Every epsilon at which k sqrt(L), for rounds that share no low node, calls a sound scale broken."""
        levels, delta, moved = 11, 1e-5, 2 * math.sqrt(2)
        together = moved * BinaryTree(1024).together(rounds)
        statuses = {}
        for epsilon in np.linspace(0.07, 0.25, 61):
            scale = printed_scale("lemma-12", levels=levels, epsilon=epsilon, delta=delta)
            sound = GaussianDP(together * (1 + 1e-6) / scale).delta_at(epsilon) <= delta
            apart = GaussianDP(moved * rounds * math.sqrt(levels) / scale).delta_at(epsilon) > delta
            guarantee = policy(
                privacy=JointDP(epsilon=float(epsilon), delta=delta, rounds_per_user=rounds),
                paper_constants="lemma-12",
                horizon=1024,
                acknowledge_broken=True,
            ).guarantee
            assert (guarantee.status == "broken") is not sound
            statuses[sound, apart] = guarantee.attack
        assert (True, True) in statuses  # the band
        assert "reaches the epsilon in the annex" in statuses[False, True]

    def test_what_is_neither_proven_nor_attacked_says_so(self):
        """Of doubling epochs the later ones may be worse for users of several rounds than the first."""
        found = [
            policy(
                privacy=JointDP(epsilon=float(epsilon), delta=1e-5, rounds_per_user=3),
                paper_constants="lemma-12",
                horizon=None,
                acknowledge_broken=True,
            ).guarantee
            for epsilon in np.linspace(0.07, 0.25, 31)
        ]
        attacks = [one.attack for one in found if one.status == "broken"]
        assert sum("reaches no more than was promised" in attack for attack in attacks) >= 1
        assert sum("features e_1" in attack for attack in attacks) >= 1

    def test_what_is_shown_of_unknown_horizons_is_the_epoch_that_is_named(self):
        common = {"horizon": None, "privacy": JointDP(epsilon=0.072, delta=1e-5)}
        printed = policy(**common, paper_constants="lemma-12", acknowledge_broken=True)
        right = policy(**common)
        for p, shown in ((printed, "first"), (right, "current")):
            go_to_epoch(p, 2)
            assert f"shown is the {shown} epoch's" in " ".join(p.guarantee.annex().split())
        assert (printed.guarantee.mechanisms[0].releases, right.guarantee.mechanisms[0].releases) == (64, 256)

    def test_what_was_broken_in_the_first_epoch_stays_broken(self):
        """At epsilon = .072 Lemma 12 is too little for 64 rounds and enough for 1,024."""
        p = policy(
            horizon=None,
            privacy=JointDP(epsilon=0.072, delta=1e-5),
            paper_constants="lemma-12",
            acknowledge_broken=True,
        )
        first = p.guarantee.annex()
        go_to_epoch(p, 5)
        assert p.guarantee.status == "broken"
        assert p.guarantee.annex() == first

    @pytest.mark.parametrize("formula", FORMULAS)
    def test_printed_scales_fall_shortest_in_the_smallest_tree(self, formula):
        at = {"epsilon": 0.1, "delta": 1e-5}
        ratios = [
            printed_scale(formula, levels=k, **at) / correct_scale(levels=k, **at) for k in range(1, 23)
        ]
        # those that grow like the root of the levels fall equally short in every tree
        assert (np.diff(ratios) > -1e-12 * ratios[0]).all()

    @pytest.mark.parametrize("formula", FORMULAS)
    def test_over_noised_formulas_say_what_they_really_give(self, formula):
        guarantee = policy(paper_constants=formula, horizon=1024).guarantee
        assert guarantee.status == "simulated"
        assert guarantee.epsilon_at(1e-5) < 1.0
        text = " ".join(guarantee.annex().split())
        assert f"the printed formula '{formula}'" in text.replace("- ", "-")  # a line may end at a hyphen

    def test_refuses_what_was_not_printed(self):
        with pytest.raises(InvalidParameter):
            policy(paper_constants="lemma-99")
        with pytest.raises(InvalidParameter):
            printed_scale("lemma-2", levels=3, epsilon=1.0, delta=0.0)


class TestPrintedNumbersFromThePaperAlone:
    """The factors, derived again without the library's own formulas: SciPy's normal law and a search."""

    @staticmethod
    def allowed(epsilon, delta):
        """The mu at which the Gaussian mechanism's curve passes through (epsilon, delta)."""

        def over(mu):
            tail = math.exp(epsilon + norm.logcdf(-epsilon / mu - mu / 2))
            return norm.cdf(-epsilon / mu + mu / 2) - tail - delta

        return brentq(over, 1e-3, 20.0, xtol=1e-14)

    @pytest.mark.parametrize(("delta", "factor"), [(1e-5, 10.5), (0.1, 12.0)])
    def test_lemma_2(self, delta, factor):
        """Its noise (v + v^T)/sqrt(2) over what n nodes need, and the same where the root is left out.

        What one round moves is searched for, over vectors [phi; y] of two and three features.
        """
        rng, n = np.random.default_rng(3), 1 + math.ceil(math.log2(1024))
        moved = 0.0
        for _ in range(4000):
            phi, psi = rng.standard_normal((2, rng.integers(1, 4)))
            psi = -phi if rng.random() < 0.5 else psi
            phi, psi = phi / np.linalg.norm(phi), psi / np.linalg.norm(psi)
            one, other = np.append(phi, 1.0), np.append(psi, rng.choice([-1.0, 1.0]))
            moved = max(moved, np.linalg.norm(np.outer(one, one) - np.outer(other, other)))
        assert moved == pytest.approx(math.sqrt(8.0), rel=1e-9)
        # (v + v^T)/sqrt(2) has the variance of v off the diagonal and twice that on it, while the norm counts
        # an entry off the diagonal twice and one on it once: squared distance over noise is half the norm's
        variance = 16.0 * n * 2.0 * math.log(10.0 / delta) ** 2  # alpha = B = 1, bounded rewards
        reached = math.sqrt(n) * moved / math.sqrt(2.0) / math.sqrt(variance)
        over = self.allowed(1.0, delta) / reached
        assert over == pytest.approx(factor, abs=0.05)
        at = {"levels": n, "epsilon": 1.0, "delta": delta}
        assert printed_scale("lemma-2", **at) / correct_scale(**at) == pytest.approx(over, rel=1e-9)
        statement = over * math.sqrt(variance)  # it says of sigma what holds of its square
        assert printed_scale("lemma-2-statement", **at) / correct_scale(**at) == pytest.approx(statement)
        if delta == 1e-5:
            assert statement == pytest.approx(2714.0, abs=1.0)

    @pytest.mark.parametrize(
        ("bound", "log", "joint"), [(1.0, True, 1.437), (20.0, True, 2.035), (1.0, False, 2.090)]
    )
    def test_lemma_5(self, bound, log, joint):
        """Gram and vector of one user, both at once, at (10, 1e-5), m = 64, the lemma's delta 1e-5."""
        tail = 2.0 * math.log(8.0 * 64 / 1e-5) if log else 0.0
        gram = 8.0 * math.log(2.5 / 1e-5) / 100.0
        vector = 8.0 * (bound**2 + tail) * math.log(5.0 / 1e-5) / 100.0
        cosine = np.cos(np.linspace(0.0, math.pi, 200_001))  # of phi and psi; both rewards at the bound
        squares = (2.0 - 2.0 * cosine**2) / gram + bound**2 * (2.0 - 2.0 * cosine) / vector
        largest = math.sqrt(squares.max())
        assert largest == pytest.approx(joint, abs=5e-4)
        assert self.allowed(10.0, 1e-5) == pytest.approx(2.0004, abs=1e-4)
        assert self.allowed(5.0, 5e-6) == pytest.approx(1.088, abs=5e-4)
        assert (largest > self.allowed(10.0, 1e-5)) is (bound > 1.0 or not log)
        assert math.sqrt(2.0 / gram) == pytest.approx(1.418, abs=5e-4)
        if bound == 1.0 and log:
            assert 2.0 / math.sqrt(vector) == pytest.approx(0.323, abs=5e-4)
        own = {"n_features": 64, "failure_probability": 1e-5} if log else {}
        found = printed_local_scales(epsilon=10.0, delta=1e-5, reward_bound=bound, **own)
        assert found == pytest.approx((math.sqrt(gram), math.sqrt(vector)))
        assert real_local_mu(found, reward_bound=bound) == pytest.approx(largest, rel=1e-6)

    def test_lemma_2_from_neighbouring_data_sets_in_a_tree_of_four(self):
        """Every node as the paper sums it, its noise as the paper adds it, one user replaced by any other.

        No closed form: the covariance of (v + v^T)/sqrt(2) is that of the linear map, the distance is taken
        in it over all nodes, and rewards squared stay out of the release.
        """
        rng = np.random.default_rng(0)
        angles = np.linspace(0.0, 2.0 * math.pi, 24, endpoint=False)
        vectors = [np.zeros(2), *np.stack([np.cos(angles), np.sin(angles)], -1)]
        users = np.array([[*phi, y] for phi in vectors for y in (-1.0, -0.5, 0.0, 1.0)])
        released = [(i, j) for i in range(3) for j in range(i + 1) if (i, j) != (2, 2)]
        mixed = np.zeros((len(released), 9))
        for at, (i, j) in enumerate(released):
            mixed[at, 3 * i + j] += math.sqrt(0.5)
            mixed[at, 3 * j + i] += math.sqrt(0.5)
        whiten = np.linalg.inv(np.linalg.cholesky(mixed @ mixed.T))
        nodes = [(start, start + size) for size in (1, 2, 4) for start in range(0, 4, size)]

        def sums(table):
            each = np.array([[row[i] * row[j] for i, j in released] for row in table])
            return np.array([each[start:stop].sum(axis=0) for start, stop in nodes])

        moved = 0.0
        for _ in range(40):
            table = users[rng.integers(len(users), size=4)]
            before, at = sums(table), rng.integers(4)
            for other in users:
                after = sums(np.concatenate([table[:at], other[None], table[at + 1 :]]))
                moved = max(moved, np.linalg.norm((after - before) @ whiten.T))
        n = printed_levels(4)
        assert n == 3
        assert moved == pytest.approx(math.sqrt(n * 8.0 / 2.0), rel=1e-12)
        for delta, factor in ((1e-5, 10.474), (0.1, 11.995)):
            noise = math.sqrt(16.0 * n * 2.0 * math.log(10.0 / delta) ** 2)
            over = self.allowed(1.0, delta) * noise / moved
            assert over == pytest.approx(factor, rel=1e-4)
            at_four = {"levels": n, "epsilon": 1.0, "delta": delta}
            assert printed_scale("lemma-2", **at_four) / correct_scale(**at_four) == pytest.approx(over)

    @pytest.mark.parametrize(("bound", "log"), [(1.0, True), (20.0, True), (1.0, False)])
    def test_lemma_5_from_every_pair_of_users_on_a_grid(self, bound, log):
        """Three entries of a mirrored triangle and two of a vector, at 2 degrees; none moves further."""
        own = {"n_features": 2, "failure_probability": 1e-5} if log else {}
        scales = printed_local_scales(epsilon=10.0, delta=1e-5, reward_bound=bound, **own)
        angles = np.linspace(0.0, 2.0 * math.pi, 180, endpoint=False)
        phi = np.stack([np.cos(angles), np.sin(angles)], -1)
        users = np.concatenate(
            [
                np.column_stack(
                    [
                        phi[:, [0]] * phi / scales.gram,
                        phi[:, [1]] ** 2 / scales.gram,
                        y * phi / scales.vector,
                    ]
                )
                for y in bound * np.array([-1.0, -0.5, 0.0, 1.0])
            ]
        )
        squares = (users**2).sum(axis=1)
        largest = math.sqrt((squares[:, None] + squares - 2.0 * users @ users.T).max())
        claimed = real_local_mu(scales, reward_bound=bound)
        assert largest <= claimed * (1.0 + 1e-9)
        assert largest == pytest.approx(claimed, rel=1e-3)


class TestLemma5:
    """The local split into halves, by brute force over pairs of users."""

    @pytest.mark.parametrize("bound", [1.0, 1.3, 2.0, 20.0])
    def test_one_user_moves_both_parts_by_the_joint_sensitivity(self, bound):
        rng = np.random.default_rng(0)
        largest = 0.0
        for cosine in np.linspace(-1.0, 1.0, 2001):
            y, z = bound * rng.choice([-1.0, 0.5, 1.0], 2) if rng.random() < 0.2 else (bound, bound)
            gram = 2.0 - 2.0 * cosine**2
            vector = y * y + z * z - 2.0 * y * z * cosine
            largest = max(largest, math.sqrt(gram + vector))
        distance = correct_local_scale(epsilon=1.0, delta=1e-5, reward_bound=bound) * gaussian_mu(1.0, 1e-5)
        assert largest <= distance * (1 + 1e-12)
        assert largest == pytest.approx(distance, rel=1e-5)

    def test_printed_halves(self):
        """The Gram's half is 1.418-GDP where 1.088 is allowed; the whole may be 2.0004-GDP."""
        at = {"epsilon": 10.0, "delta": 1e-5}
        tail = {"n_features": 64, "failure_probability": 1e-5}
        found = printed_local_scales(**at, **tail)
        assert math.sqrt(2.0) / found.gram == pytest.approx(1.418, abs=5e-4)
        assert 2.0 / found.vector == pytest.approx(0.323, abs=5e-4)
        assert gaussian_mu(5.0, 5e-6) == pytest.approx(1.088, abs=5e-4)
        assert gaussian_mu(10.0, 1e-5) == pytest.approx(2.0004, abs=1e-4)
        assert real_local_mu(found) == pytest.approx(1.437, abs=5e-4)
        wide = printed_local_scales(**at, **tail, reward_bound=20.0)
        assert real_local_mu(wide, reward_bound=20.0) == pytest.approx(2.035, abs=5e-4)
        bounded = printed_local_scales(**at)
        assert real_local_mu(bounded) == pytest.approx(2.090, abs=5e-4)

    def test_printed_numbers_by_hand(self):
        at = {"epsilon": 2.0, "delta": 5.0 * math.exp(-3.0)}
        found = printed_local_scales(
            **at, n_features=4, failure_probability=32.0 * math.exp(-2.0), reward_bound=3.0
        )
        assert found.gram**2 == pytest.approx(2.0 * (3.0 - math.log(2.0)))
        assert found.vector**2 == pytest.approx(2.0 * (9.0 + 2.0 * 2.0) * 3.0)

    @pytest.mark.parametrize("bound", [1.0, 20.0])
    def test_the_least_mu_is_the_largest_over_pairs_of_users(self, bound):
        """Over the lower triangle, whose noise is mirrored; the worst pair differs on the diagonal alone."""
        scales = printed_local_scales(epsilon=3.0, delta=1e-4, reward_bound=bound)
        half = np.linspace(0.0, np.pi / 2, 2001)
        phi, psi = (
            np.stack([np.cos(np.pi / 4 + s * half), np.sin(np.pi / 4 + s * half)], -1) for s in (1, -1)
        )
        gap = phi[:, :, None] * phi[:, None, :] - psi[:, :, None] * psi[:, None, :]
        triangle = gap[:, 0, 0] ** 2 + gap[:, 1, 0] ** 2 + gap[:, 1, 1] ** 2
        vector = bound**2 * ((phi - psi) ** 2).sum(axis=1)
        largest = math.sqrt((triangle / scales.gram**2 + vector / scales.vector**2).max())
        assert real_local_mu(scales, reward_bound=bound) == pytest.approx(largest, rel=1e-5)

    def test_refuses_halves_of_a_tail(self):
        with pytest.raises(InvalidParameter):
            printed_local_scales(epsilon=1.0, delta=0.0)
        with pytest.raises(InvalidParameter, match="together"):
            printed_local_scales(epsilon=1.0, delta=0.1, n_features=3)


def test_the_attack_on_too_little_noise_works():
    """Lemma 12 at epsilon = .02: a test on the stacked nodes beats what (.02, 1e-5) would allow."""
    levels, delta, epsilon = 11, 1e-5, 0.02
    sigma = printed_scale("lemma-12", levels=levels, epsilon=epsilon, delta=delta)
    distance = 2 * math.sqrt(2) * math.sqrt(levels)
    rng = np.random.default_rng(0)
    n = 400_000
    side = rng.integers(2, size=n)
    # sufficient statistic: the projection of all nodes on the direction between the neighbours
    seen = (side - 0.5) * distance + sigma * rng.standard_normal(n)
    rate = np.mean((seen > 0) == (side == 1))
    # standard error .0008; the claim allows .505, the printed noise .55
    assert rate - 7 * 0.0008 > membership_bound(epsilon, delta)


def test_learns_where_noise_is_little():
    world = three_hills(seed=3, horizon=300)
    p = policy(
        domain=world.domain,
        horizon=300,
        features=QuadratureFourierFeatures(kernel=SE, dim=2, nodes=8),
        privacy=JointDP(epsilon=50.0, delta=1e-3),
    )
    result = run(p, world)
    random = float((result.best - result.uniform).sum())
    assert result.regret.sum() < 0.8 * random


@pytest.mark.slow
def test_full_size_is_fast_enough():
    """A benchmark would say how fast; this says that nothing is quadratic in the horizon."""
    world = three_hills(seed=3, horizon=1024)
    p = policy(
        domain=world.domain, horizon=1024, features=QuadratureFourierFeatures(kernel=SE, dim=2, nodes=8)
    )
    assert run(p, world).seconds < 60.0


def test_the_radius_that_is_predicted_covers_what_the_features_leave_out():
    """A function of norm B can be B sqrt(k(x, x)) at x, whatever part of the kernel the features hold."""
    ten = Box(low=[0.0] * 10, high=[1.0] * 10)
    features = MercerFeatures(kernel=SquaredExponential(lengthscale=0.5), domain=ten, n_features=5, scale=0.5)
    told = policy(domain=ten, features=features, norm_bound=2.0, reward_range=(0, 4))
    points = ten.sample(50, np.random.default_rng(0))
    phi = features(points)
    beyond = 2.0 * np.sqrt(1.0 - 0.25 * (phi**2).sum(axis=1))
    _, half = told.predict(points)
    inside = 2.0 * half / 4.0 - beyond
    assert (beyond > 1.0).all()
    assert (inside >= 2.0 * 0.5 * np.linalg.norm(phi, axis=1) - 1e-9).all()  # B of the weights is B scale
