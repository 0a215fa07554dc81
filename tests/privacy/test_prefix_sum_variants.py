"""Every prefix-sum mechanism: exact variance and sensitivity, and attacks on adaptive streams."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import beta

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.calibration import gaussian_delta, rounding_distance
from dpbandits.privacy.certificates import GaussianDP
from dpbandits.privacy.gram_vector import GramVectorMechanism
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from dpbandits.privacy.prefix_sums import (
    RELEASE_UNIT,
    BinaryTree,
    BlockRelease,
    Factor,
    TreeRelease,
    factor_for,
    identity,
    optimised_factor,
    prefix_cost,
    square_root_toeplitz,
)
from noises import UncountedNoise

SCHEDULE = (24, 51, 82, 117, 157, 202, 254, 312, 378, 453, 539, 636, 746, 870)


def information(factor, boundaries):
    """What each release knows about a statistic that is alike in all rounds."""
    return np.cumsum((factor.matrix @ np.diff((0, *boundaries))) ** 2)


def loss(factor, boundaries, horizon):
    return float((np.diff((*boundaries, horizon)) / information(factor, boundaries)).sum())


def tree_release(n, *, noise=None, **mechanism):
    return TreeRelease(
        tree=BinaryTree(n),
        mechanism=GramVectorMechanism(**{"n_features": 2, **mechanism}),
        noise=noise or SimulatedNoise(0),
        epsilon=1.0,
        delta=1e-5,
    )


def nodes_of(tree):
    """(T, T) dense matrix, row t - 1 the node released at round t."""
    t = np.arange(1, tree.n_blocks + 1)
    first, rounds = t - (t & -t), np.arange(tree.n_blocks)
    return ((first[:, None] <= rounds) & (rounds < t[:, None])).astype(np.float64)


class TestExactCosts:
    """Variance and sensitivity equal their formulas, computed another way from the dense strategy."""

    @pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 21, 64])
    def test_tree(self, n):
        tree = BinaryTree(n)
        nodes = nodes_of(tree)
        assert np.linalg.norm(nodes, axis=0).max() == pytest.approx(tree.column_norm)
        decoder = np.tril(np.ones((n, n))) @ np.linalg.inv(nodes)
        assert np.isin(decoder.round(9), (0.0, 1.0)).all()
        assert (decoder**2).sum(axis=1) == pytest.approx(tree.prefix_variance())
        assert tree.prefix_variance().tolist() == [t.bit_count() for t in range(1, n + 1)]
        assert tree.levels == math.floor(math.log2(n)) + 1

    def test_nodes_end_where_they_are_released(self):
        tree = BinaryTree(12)
        assert [tree.node(t) for t in (1, 2, 3, 4, 12)] == [(0, 0), (1, 0), (0, 2), (2, 0), (2, 8)]
        with pytest.raises(InvalidParameter):
            tree.node(13)

    @pytest.mark.parametrize(
        "factor",
        [identity(9), identity(1), square_root_toeplitz(9), optimised_factor(SCHEDULE, 1024)],
    )
    def test_factors(self, factor):
        k = factor.n_blocks
        assert np.linalg.norm(factor.matrix, axis=0).max() == pytest.approx(factor.column_norm)
        assert factor.column_norm <= 1.0 + 1e-12
        decoder = np.tril(np.ones((k, k))) @ np.linalg.inv(factor.matrix)
        assert (decoder**2).sum(axis=1) == pytest.approx(factor.prefix_variance())
        assert prefix_cost(factor) == pytest.approx(factor.column_norm**2 * factor.prefix_variance())

    def test_closed_forms(self):
        c = np.array([math.comb(2 * k, k) / 4.0**k for k in range(32)])
        s = np.cumsum(c**2)
        assert prefix_cost(square_root_toeplitz(32)) == pytest.approx(s[-1] * s)
        assert prefix_cost(identity(32)).tolist() == list(range(1, 33))
        assert prefix_cost(identity(1)).tolist() == [1.0]
        assert prefix_cost(BinaryTree(1024))[1022] == pytest.approx(11 * 10)

    def test_scale_of_the_tree_at_the_papers_promise(self):
        """sigma = 2 sqrt(2) sqrt(11)/mu = 35.0 at T = 1024, (1, 1e-5)."""
        assert tree_release(1024).noise_sd == pytest.approx(35.0, abs=0.01)

    def test_all_state_the_same_things(self):
        for mechanism in (BinaryTree(5), identity(5), square_root_toeplitz(5)):
            assert mechanism.n_blocks == 5
            assert mechanism.prefix_variance().shape == (5,)


class TestOptimisedFactor:
    def test_gains_over_its_start(self):
        best, start = optimised_factor(SCHEDULE, 1024), square_root_toeplitz(14)
        assert loss(best, SCHEDULE, 1024) < 0.85 * loss(start, SCHEDULE, 1024)

    def test_no_small_change_improves_it(self):
        best = optimised_factor(SCHEDULE, 1024)
        value = loss(best, SCHEDULE, 1024)
        rng = np.random.default_rng(0)
        for _ in range(200):
            moved = best.matrix + 0.01 * np.tril(rng.standard_normal((14, 14)))
            assert loss(Factor(moved / np.linalg.norm(moved, axis=0)), SCHEDULE, 1024) > value * (1 - 1e-9)

    def test_a_schedule_is_optimised_once(self):
        once = optimised_factor(SCHEDULE, 1024)
        assert optimised_factor(np.array(SCHEDULE), 1024) is once
        assert optimised_factor(SCHEDULE, 1025) != once
        with pytest.raises(ValueError, match="read-only"):
            once.matrix[0, 0] = 0.0

    def test_works_when_nothing_follows_the_last_block(self):
        assert optimised_factor([5, 10], 10).n_blocks == 2

    @pytest.mark.parametrize("boundaries", [[], [0, 4], [4, 4], [4, 30]])
    def test_refuses_no_schedule(self, boundaries):
        with pytest.raises(InvalidParameter):
            optimised_factor(boundaries, 20)


class TestRule:
    def test_rule(self):
        assert factor_for([7], horizon=9) == identity(1)
        assert factor_for([7, 9], horizon=None) == identity(2)
        assert factor_for(SCHEDULE, horizon=1024) == optimised_factor(SCHEDULE, 1024)
        assert factor_for(range(1, 201), horizon=300) == square_root_toeplitz(200)
        for boundaries in ([], range(1, 2050)):
            with pytest.raises(InvalidParameter):
                factor_for(boundaries, horizon=3000)

    @pytest.mark.parametrize("n", [40, 128])
    def test_each_choice_costs_least_where_it_is_taken(self, n):
        """By the loss that the rule minimises, on equal blocks."""
        ends = tuple(range(8, 8 * n + 1, 8))
        horizon = 8 * (n + 1)
        losses = [loss(f, ends, horizon) for f in (identity(n), square_root_toeplitz(n))]
        assert loss(factor_for(ends, horizon=horizon), ends, horizon) < min(losses)
        tree = 1.0 / (math.sqrt(BinaryTree(n).levels) ** 2 * BinaryTree(n).prefix_variance())
        assert losses[1] < (np.diff((*ends, horizon)) / (np.array(ends) ** 2 * tree)).sum()


class TestTreeSensitivity:
    def test_neighbours_stay_within_it_and_nearly_reach_it(self):
        n, mechanism = 16, GramVectorMechanism(n_features=2)
        release = tree_release(n)
        change = mechanism.encode(np.array([[1.0, 0.0]]), np.array([0.5])) - mechanism.encode(
            np.array([[-1.0, 0.0]]), np.array([0.5])
        )
        worst = 0.0
        for user in range(n):
            data = np.zeros((n, mechanism.size), dtype=np.int64)
            data[user] = change
            nodes = mechanism.to_coordinates((nodes_of(release.tree) @ data).astype(np.int64)) / RELEASE_UNIT
            worst = max(worst, float(np.linalg.norm(np.rint(nodes))))
        assert release.sensitivity * 0.9999 < worst <= release.sensitivity

    @pytest.mark.parametrize("rounds", [2, 3, 7])
    def test_rounds_spread_over_epochs_lose_no_more_than_the_promise(self, rounds):
        """Unknown horizon: every epoch is calibrated to all of a user's rounds, and squared losses add up."""
        epochs = [64, 128, 256, 1 << 20]
        whole = {n: tree_release(n, rounds_per_user=rounds) for n in epochs}
        rng = np.random.default_rng(0)
        for _ in range(30):
            shares = rng.multinomial(rounds, rng.dirichlet(np.full(len(epochs), 0.5)))
            lost = 0.0
            for n, own in zip(epochs, shares, strict=True):
                if own:
                    moved = tree_release(n, rounds_per_user=int(own)).sensitivity
                    lost += (moved / whole[n].sigma) ** 2
            assert lost <= whole[64].certificate.mu ** 2 * (1 + 1e-9)

    def test_a_user_touches_as_many_draws_as_the_certificate_counts(self):
        """The near-Gaussian certificate counts D n draws, whatever the horizon."""
        near = tree_release(4096, noise=SecureNoise())
        assert near.touched == near.mechanism.size * near.tree.levels
        assert near.certificate.distance == near.touched * rounding_distance(near.sigma)
        assert near.certificate.delta_at(1.0) <= 1e-5
        concentrated = tree_release(4096, noise=UncountedNoise())
        assert near.sigma < 0.94 * concentrated.sigma
        several = replace(near, one_of_several=True)
        assert (several.sigma, several.certificate) == (concentrated.sigma, concentrated.certificate)

    def test_touched_draws_suffice_when_shifts_follow_from_the_past(self):
        """Exact losses of discrete noise whose second shift depends on the first release, and of releases
        that nobody touches, on a lattice so coarse that the distance to a Gaussian shows.
        """
        sigma, support = 2.0, np.arange(-40, 41)
        law = np.exp(-(support**2) / (2.0 * sigma**2))
        law /= law.sum()

        def shifted(by):
            moved = np.exp(-((support - by) ** 2) / (2.0 * sigma**2))
            return moved / moved.sum()

        total = 0.0
        epsilon, s = 1.0, math.sqrt(2.0)
        for first, chance in zip(support, law, strict=True):
            second = (-1, 1)[int(first > 0)]  # v_2 of size 1, its sign known from the past
            other = shifted(1)[first + 40] * shifted(second)
            total += np.maximum(chance * law - math.exp(epsilon) * other, 0.0).sum()
        claim = gaussian_delta(epsilon, s / sigma) + (1.0 + math.e) * 2 * rounding_distance(sigma)
        assert total <= claim
        assert total > 0.5 * gaussian_delta(epsilon, s / sigma)  # and is no wild guess

    def test_refuses_what_is_no_node(self):
        with pytest.raises(InvalidData):
            tree_release(8).release(np.zeros(5))
        with pytest.raises(InvalidParameter):
            tree_release(1 << 23)

    @pytest.mark.parametrize("noise", [SimulatedNoise(1), SecureNoise()])
    def test_certificate_proves_the_promise(self, noise):
        release = tree_release(100, noise=noise)
        assert release.certificate.delta_at(1.0) <= 1e-5
        assert release.record().certificate == release.certificate


def attack_stream(strategy, noise_scale, trials, seed):
    """Success rate of the likelihood-ratio test on a stream that adapts to its own releases.

    Round 0 holds the target: its coordinate is -1/2 or +1/2 (distance 1). All later rounds contribute
    what an adversary makes of the releases so far, so as to carry the target's trace on. `strategy` is
    lower triangular. Whoever sees the releases knows the adversary's rule and subtracts it.
    """
    rng = np.random.default_rng(seed)
    k = len(strategy)
    secret = rng.integers(2, size=trials)
    data = np.zeros((trials, k))
    data[:, 0] = secret - 0.5
    released = np.zeros((trials, k))
    evidence = np.zeros(trials)
    for j in range(k):
        if j:
            data[:, j] = np.sign(released[:, :j].sum(axis=1)) * np.minimum(1.0, np.abs(released[:, j - 1]))
        released[:, j] = data @ strategy[j] + noise_scale * rng.standard_normal(trials)
        known = data[:, 1:] @ strategy[j, 1:]
        evidence += strategy[j, 0] * (released[:, j] - known) / noise_scale**2
    return np.mean((evidence > 0) == (secret == 1))


def bounds(rate, trials, alarm=1e-7):
    hits = round(rate * trials)
    return beta.ppf(alarm, hits, trials - hits + 1), beta.ppf(1 - alarm, hits + 1, trials - hits)


class TestAttackOnAdaptiveStreams:
    """20,000 guesses; Clopper-Pearson bounds each fail with probability 1e-7."""

    STRATEGIES = (
        ("tree", nodes_of(BinaryTree(16)), BinaryTree(16).column_norm),
        ("toeplitz", square_root_toeplitz(16).matrix, 1.0),
        ("optimised", optimised_factor(SCHEDULE, 1024).matrix, 1.0),
    )

    @pytest.mark.parametrize(("name", "strategy", "column"), STRATEGIES)
    def test_claim_holds_and_is_tight(self, name, strategy, column):
        certificate = GaussianDP(1.0)
        rate = attack_stream(strategy, column, 20_000, seed=5)
        low, high = bounds(rate, 20_000)
        assert low <= certificate.membership_bound()
        # the calibration is exact for the target's column, so the best attack comes near the claim
        own = GaussianDP(float(np.linalg.norm(strategy[:, 0])) / column)
        assert low <= own.membership_bound() <= high

    @pytest.mark.parametrize(("name", "strategy", "column"), STRATEGIES)
    def test_too_little_noise_is_caught(self, name, strategy, column):
        """Calibrated as if every round entered one release only: the attack beats the claim."""
        worst = float(np.linalg.norm(strategy[:, 0]))
        rate = attack_stream(strategy, worst / 2.0, 20_000, seed=6)
        assert bounds(rate, 20_000)[0] > GaussianDP(1.0).membership_bound()

    def test_the_library_uses_the_column_it_claims(self):
        """The scale of real releases is the claimed distance over mu, for every mechanism."""
        for mechanism in (square_root_toeplitz(16), optimised_factor(SCHEDULE, 1024)):
            release = BlockRelease(
                factor=mechanism,
                mechanism=GramVectorMechanism(n_features=2),
                noise=SimulatedNoise(0),
                epsilon=1.0,
                delta=1e-5,
            )
            distance = mechanism.column_norm * release.mechanism.sensitivity
            assert release.noise_sd == pytest.approx(distance / release.certificate.mu, rel=1e-4)
        tree = tree_release(1024)
        distance = tree.tree.column_norm * tree.mechanism.sensitivity
        assert tree.noise_sd == pytest.approx(distance / tree.certificate.mu, rel=1e-4)
