"""Block release: factors, exact sensitivity of what is released, unbiased estimates, claimed noise."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.calibration import rounding_distance
from dpbandits.privacy.certificates import GaussianDP, NearGaussianDP
from dpbandits.privacy.gram_vector import LATTICE, GramVectorMechanism
from dpbandits.privacy.noise import SecureNoise, SimulatedNoise
from dpbandits.privacy.prefix_sums import (
    RELEASE_UNIT,
    BinaryTree,
    BlockRelease,
    Factor,
    identity,
    square_root_toeplitz,
)
from internals.noise import prepared
from noises import UncountedNoise


class Silence:
    """A noise source that adds nothing: shows what a release would be without noise."""

    status = "simulated"
    gaussian_law = "none"

    def gaussian_scale(self, sensitivity, epsilon, delta, *, draws=None):
        return SimulatedNoise(0).gaussian_scale(sensitivity, epsilon, delta)

    def integer_gaussian(self, sigma, size):
        return np.zeros(size, dtype=np.int64)

    integer_laplace = integer_gaussian

    def to_config(self):
        return {"kind": "Silence"}


def release_of(*, factor=None, noise=None, mechanism=None, **others):
    arguments = {
        "factor": factor or square_root_toeplitz(4),
        "mechanism": mechanism or GramVectorMechanism(n_features=3),
        "noise": noise or SimulatedNoise(0),
        "epsilon": 1.0,
        "delta": 1e-6,
    }
    return BlockRelease(**{**arguments, **others})


def stream(release, sums):
    """All releases of the block sums (K, D)."""
    return np.stack([release.release(j, sums[: j + 1]) for j in range(len(sums))])


@pytest.mark.parametrize("rounds", [4, 7, 8, 11, 16])
def test_no_rounds_move_a_tree_further_than_the_first_ones(rounds):
    """All sets of rounds of trees that are small enough; where k is at most half of them, exactly."""
    tree, ends = BinaryTree(rounds), np.arange(1, rounds + 1)
    starts = np.array([tree.node(int(end))[1] for end in ends])
    holds = (starts[:, None] < ends) & (ends <= ends[:, None])  # (nodes, rounds)
    sets = (np.arange(1 << rounds)[:, None] >> np.arange(rounds)) & 1
    moved, sizes = ((sets @ holds.T) ** 2).sum(axis=1), sets.sum(axis=1)
    for k in range(1, rounds // 2 + 1):
        assert math.sqrt(moved[sizes == k].max()) == pytest.approx(tree.together(k), rel=1e-12)
    for k in range(1, rounds + 1):
        first = moved[(1 << k) - 1]
        assert math.sqrt(first) == pytest.approx(tree.together(k), rel=1e-12)


class TestFactors:
    @pytest.mark.parametrize(("n_blocks", "squared"), [(32, 4.70), (80, 6.05)])
    def test_prefix_variance_of_the_square_root(self, n_blocks, squared):
        assert square_root_toeplitz(n_blocks).prefix_variance()[-1] == pytest.approx(squared, abs=0.01)

    def test_square_root_squares_to_prefix_sums(self):
        matrix = square_root_toeplitz(9).matrix / square_root_toeplitz(9).matrix[0, 0]
        assert matrix @ matrix == pytest.approx(np.tril(np.ones((9, 9))))

    def test_known_prefix_variances(self):
        factor = square_root_toeplitz(6)
        c = factor.matrix[:, 0] / factor.matrix[0, 0]
        s = np.cumsum(c**2)
        assert factor.prefix_variance() == pytest.approx(s[-1] * s)
        assert identity(6).prefix_variance() == pytest.approx(np.arange(1, 7))

    @pytest.mark.parametrize("factor", [square_root_toeplitz(7), identity(7)])
    def test_covariance_is_the_inverse(self, factor):
        for k in (1, 3, 7):
            r = factor.matrix[:k, :k]
            assert factor.block_covariance(k) @ (r.T @ r) == pytest.approx(np.eye(k), abs=1e-10)
        assert factor.block_covariance().sum() == pytest.approx(factor.prefix_variance()[-1])

    @pytest.mark.parametrize("n_blocks", [1, 2, 50, 300])
    def test_columns_have_norm_at_most_one(self, n_blocks):
        norms = np.linalg.norm(square_root_toeplitz(n_blocks).matrix, axis=0)
        assert norms.max() == pytest.approx(1.0)
        assert norms.max() <= 1.0 + 1e-12

    @pytest.mark.parametrize(
        "matrix",
        [
            np.ones((2, 3)),
            np.zeros((0, 0)),
            np.array([[1.0, 0.1], [0.0, 1.0]]),
            np.array([[1.0, 0.0], [0.1, 1.0]]),
            np.array([[1.0, 0.0], [0.0, 0.0]]),
            np.array([[np.nan, 0.0], [0.0, 1.0]]),
            np.array([[1.0, 0.0], [0.0, 1e-13]]),
            np.array([[1.0, 0.0], [0.0, 1e-320]]),
        ],
    )
    def test_refuses_what_is_no_factor(self, matrix):
        with pytest.raises(InvalidParameter):
            Factor(matrix)

    def test_cannot_be_changed_afterwards(self):
        source = np.eye(2)
        factor = Factor(source)
        source[0, 0] = 5.0
        assert factor.matrix[0, 0] == 1.0
        with pytest.raises(ValueError, match="read-only"):
            factor.matrix[0, 0] = 5.0

    def test_survives_its_config(self):
        factor = square_root_toeplitz(5)
        assert Factor.from_config(factor.to_config()) == factor
        assert hash(Factor.from_config(factor.to_config())) == hash(factor)

    def test_asks_for_blocks_that_exist(self):
        with pytest.raises(InvalidParameter):
            identity(3).block_covariance(4)


class TestSensitivity:
    @given(st.integers(0, 10_000))
    def test_neighbours_stay_within_it(self, seed):
        """Releases without noise, on neighbouring data, are never further apart than claimed."""
        rng = np.random.default_rng(seed)
        blocks, rounds = int(rng.integers(1, 7)), int(rng.integers(1, 4))
        ratio = float(rng.choice([0.5, 2.0, 5.0]))
        mechanism = GramVectorMechanism(n_features=3, rounds_per_user=rounds, ratio=ratio)
        factor = square_root_toeplitz(blocks) if rng.random() < 0.7 else identity(blocks)
        release = release_of(factor=factor, mechanism=mechanism, noise=Silence())
        others = rng.integers(-(2**45), 2**45, (blocks, mechanism.size))
        sums = [others.copy(), others.copy()]
        for _ in range(rounds):
            block = int(rng.choice([0, rng.integers(blocks)]))
            phi = rng.standard_normal(3)
            phi /= np.linalg.norm(phi)
            # opposite features: the worst for the vector; a turn: the worst for the Gram
            turned = -phi if ratio > 2 else np.roll(phi, 1) * rng.choice([-1.0, 1.0])
            for side, features in zip(sums, (phi, turned), strict=True):
                if rng.random() < 0.9:
                    side[block] += mechanism.encode(features[None], np.array([0.5]))
        moved = stream(release, sums[0]) - stream(release, sums[1])
        assert np.linalg.norm(moved.astype(float)) <= release.sensitivity

    def test_bound_is_nearly_reached(self):
        mechanism = GramVectorMechanism(n_features=2, rounds_per_user=2)
        release = release_of(mechanism=mechanism, noise=Silence())
        one, other = (np.zeros((4, mechanism.size), dtype=np.int64) for _ in range(2))
        one[0] = mechanism.encode(np.array([[1.0, 0.0]] * 2), np.array([0.5, 0.5]))
        other[0] = mechanism.encode(np.array([[-1.0, 0.0]] * 2), np.array([0.5, 0.5]))
        moved = np.linalg.norm((stream(release, one) - stream(release, other)).astype(float))
        assert moved == pytest.approx(release.sensitivity, rel=1e-4)

    def test_rounding_alone_stays_within_its_term(self):
        """A user whose data hardly differ still flips roundings in every release; the term covers all."""
        mechanism = GramVectorMechanism(n_features=4)
        release = release_of(factor=square_root_toeplitz(8), mechanism=mechanism, noise=Silence())
        term = release.sensitivity - mechanism.sensitivity / RELEASE_UNIT
        assert term >= math.sqrt(8 * mechanism.size)
        rng = np.random.default_rng(0)
        worst = 0.0
        for _ in range(50):
            sums = rng.integers(-(2**50), 2**50, (8, mechanism.size))
            nearby = sums.copy()
            nearby[0] += rng.integers(-(2**19), 2**19, mechanism.size)
            shift = np.linalg.norm(mechanism.to_coordinates(nearby[0] - sums[0])) / RELEASE_UNIT
            moved = np.linalg.norm(stream(release, sums) - stream(release, nearby))
            assert moved <= term + shift
            worst = max(worst, float(moved))
        assert worst > math.sqrt(mechanism.size)  # more than one release's roundings did flip

    def test_rounding_can_exceed_the_sensitivity_of_the_sums(self):
        """Without its term the calibration would be too small: neighbours further apart than 2 sqrt(2)."""
        mechanism = GramVectorMechanism(n_features=4)
        release = release_of(factor=identity(1), mechanism=mechanism, noise=Silence())
        phi, reward = np.full((1, 4), 0.5), np.array([0.5])
        rng = np.random.default_rng(0)
        worst = 0.0
        for _ in range(300):
            others = rng.integers(0, 2**40, (1, mechanism.size))
            one, other = others + mechanism.encode(phi, reward), others + mechanism.encode(-phi, reward)
            worst = max(worst, float(np.linalg.norm(stream(release, one) - stream(release, other))))
        assert mechanism.sensitivity / RELEASE_UNIT < worst <= release.sensitivity

    @pytest.mark.parametrize(("rounds", "blocks", "touched"), [(1, 6, 6), (3, 6, 6), (2, 1, 1)])
    def test_rounding_term_counts_touched_releases(self, rounds, blocks, touched):
        mechanism = GramVectorMechanism(n_features=4, rounds_per_user=rounds)
        release = release_of(factor=square_root_toeplitz(blocks), mechanism=mechanism)
        term = release.sensitivity - mechanism.sensitivity / RELEASE_UNIT
        assert term == pytest.approx(math.sqrt(mechanism.size * touched), rel=0.01)
        alone = release_of(factor=identity(6), mechanism=mechanism)
        term = alone.sensitivity - mechanism.sensitivity / RELEASE_UNIT
        assert term == pytest.approx(math.sqrt(mechanism.size * min(6, rounds)), rel=0.01)

    def test_float_arithmetic_stays_within_its_slack(self):
        """The mixed sums against exact rational arithmetic, at the largest sums that are accepted."""
        from fractions import Fraction

        mechanism = GramVectorMechanism(n_features=2)
        release = release_of(factor=square_root_toeplitz(40), mechanism=mechanism, noise=Silence())
        rng = np.random.default_rng(0)
        weights = [Fraction(float(w)) for w in mechanism.to_coordinates(np.full(5, 2**40))]
        worst = Fraction(0)
        for _ in range(20):
            shares = rng.dirichlet(np.ones(40))[:, None] * rng.choice([-1.0, 1.0], (40, 5))
            sums = (shares * release.max_rounds * (1 - 1e-9) / LATTICE).astype(np.int64)
            released = release.release(39, sums)
            for d in range(5):
                exact = sum(
                    Fraction(float(release.factor.matrix[39, i])) * int(sums[i, d]) for i in range(40)
                )
                exact *= weights[d] / 2**40 / Fraction(RELEASE_UNIT)
                worst = max(worst, abs(int(released[d]) - exact))
        assert worst <= Fraction(1, 2) + Fraction(release.slack) / 2

    def test_rounding_is_a_small_price(self):
        release = release_of(factor=square_root_toeplitz(12), mechanism=GramVectorMechanism(n_features=100))
        exact = release.mechanism.sensitivity / RELEASE_UNIT
        assert exact < release.sensitivity < exact * (1 + 1e-4)

    def test_identity_does_not_pay_for_more_blocks(self):
        few, many = release_of(factor=identity(2)), release_of(factor=identity(500))
        assert many.sensitivity == pytest.approx(few.sensitivity, rel=1e-7)


class TestNoise:
    def test_scale_at_the_usual_promise(self):
        """sigma_A = 2 sqrt(2)/mu and sigma_u = 1/mu for simulated noise."""
        release = release_of()
        assert release.gram_noise_sd == pytest.approx(2 * math.sqrt(2) / 0.2367, rel=1e-3)
        assert release.vector_noise_sd == pytest.approx(1 / 0.2367, rel=1e-3)
        concentrated = release_of(noise=UncountedNoise())
        assert concentrated.vector_noise_sd == pytest.approx(4.53, rel=1e-3)

    def test_near_gaussian_certificate_saves_noise(self):
        near = release_of(noise=SecureNoise())
        assert near.certificate.distance == 4 * 9 * rounding_distance(near.sigma)  # every draw counted
        assert near.sigma == pytest.approx(release_of().sigma, rel=1e-3)
        assert near.sigma < 0.94 * release_of(noise=UncountedNoise()).sigma

    def test_vector_only_costs_the_same(self):
        mechanism = GramVectorMechanism(n_features=3, vector_only=True)
        assert release_of(mechanism=mechanism).vector_noise_sd == pytest.approx(1 / 0.2367, rel=1e-3)

    def test_certificate_proves_the_promise(self):
        for noise in (SimulatedNoise(0), SecureNoise(), UncountedNoise()):
            release = release_of(noise=noise)
            assert release.certificate.delta_at(1.0) <= 1e-6
            if isinstance(release.certificate, (GaussianDP, NearGaussianDP)):
                assert release.sensitivity / release.sigma <= release.certificate.mu
            else:
                assert release.sensitivity**2 / (2 * release.sigma**2) <= release.certificate.rho
            assert release.record().certificate == release.certificate
            assert release.record().releases == 4

    @pytest.mark.parametrize("noise", [SimulatedNoise(5), SecureNoise()])
    def test_released_noise_has_the_claimed_spread(self, noise):
        """8,000 draws: variance within 7 standard deviations, .11; false alarm below 3e-12."""
        mechanism = GramVectorMechanism(n_features=40)
        release = release_of(factor=square_root_toeplitz(10), mechanism=mechanism, noise=noise)
        released = stream(release, np.zeros((10, mechanism.size), dtype=np.int64))
        assert np.mean((released / release.sigma) ** 2) == pytest.approx(1.0, abs=0.11)
        gram, vector = mechanism.from_coordinates(release.block_estimates(released))
        white = np.tensordot(release.factor.matrix, vector, 1) / release.vector_noise_sd
        assert np.mean(white**2) == pytest.approx(1.0, abs=7 * math.sqrt(2 / white.size))
        diagonal = np.tensordot(release.factor.matrix, gram, 1)[:, range(40), range(40)]
        assert np.mean(diagonal**2) == pytest.approx(release.gram_noise_sd**2, rel=7 * math.sqrt(2 / 400))

    def test_every_release_is_fresh(self):
        release = release_of(noise=SimulatedNoise(1))
        sums = np.zeros((1, release.mechanism.size), dtype=np.int64)
        assert not np.array_equal(release.release(0, sums), release.release(0, sums))

    def test_prepares_ahead(self):
        noise = SecureNoise()
        release = release_of(noise=noise)
        release.prepare()
        assert sum(map(len, prepared(noise)[release.sigma])) == release.mechanism.size
        release_of().prepare()  # nothing to do for simulated noise


class TestEstimates:
    def test_without_noise_estimates_are_the_sums(self):
        rng = np.random.default_rng(0)
        mechanism = GramVectorMechanism(n_features=3)
        release = release_of(factor=square_root_toeplitz(6), mechanism=mechanism, noise=Silence())
        sums = rng.integers(-(2**46), 2**46, (6, mechanism.size))
        released = stream(release, sums)
        exact = mechanism.to_coordinates(sums)
        assert release.block_estimates(released) == pytest.approx(exact, abs=1e-4)
        assert release.block_estimates(released[:3]) == pytest.approx(exact[:3], abs=1e-4)
        assert release.block_estimates(released[:4]).sum(axis=0) == pytest.approx(
            exact[:4].sum(axis=0), abs=1e-4
        )

    def test_prefix_noise_is_as_claimed(self):
        """4,000 coordinates: variance within 7 standard deviations, .16."""
        mechanism = GramVectorMechanism(n_features=88)
        release = release_of(factor=square_root_toeplitz(5), mechanism=mechanism)
        released = stream(release, np.zeros((5, mechanism.size), dtype=np.int64))
        for j in range(5):
            spread = (
                np.mean(release.block_estimates(released[: j + 1]).sum(axis=0) ** 2) / release.noise_sd**2
            )
            assert spread == pytest.approx(release.factor.prefix_variance()[j], rel=0.16)


class TestProtocol:
    def test_same_seed_same_releases(self):
        sums = np.ones((4, 9), dtype=np.int64)
        one, other = stream(release_of(), sums), stream(release_of(), sums)
        assert np.array_equal(one, other)

    @pytest.mark.parametrize(
        "sums",
        [
            np.zeros((2, 9), dtype=np.int64),
            np.zeros((1, 8), dtype=np.int64),
            np.zeros((1, 9)),
            np.zeros(9, dtype=np.int64),
        ],
    )
    def test_refuses_other_shapes(self, sums):
        with pytest.raises(InvalidData, match="expected int64"):
            release_of().release(0, sums)

    def test_refuses_sums_of_too_many_rounds_without_showing_them(self):
        release = release_of(max_rounds=10)
        sums = np.zeros((1, 9), dtype=np.int64)
        sums[0, 0] = 11 << 40
        with pytest.raises(InvalidData, match="max_rounds = 10") as caught:
            release.release(0, sums)
        assert str(11 << 40) not in str(caught.value)

    def test_refuses_blocks_that_do_not_exist(self):
        with pytest.raises(InvalidParameter, match="block 4"):
            release_of().release(4, np.zeros((5, 9), dtype=np.int64))

    def test_a_promise_that_cannot_be_kept_fails_at_once(self):
        with pytest.raises(InvalidParameter, match="delta"):
            release_of(delta=0.0)
        with pytest.raises(InvalidParameter, match="max_rounds"):
            release_of(max_rounds=1 << 23)
