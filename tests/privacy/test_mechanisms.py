"""The joint contribution: its sensitivity attacked by search and optimisation, its sums exact."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy.gram_vector import (
    BITS,
    LATTICE,
    GramVectorMechanism,
    joint_sensitivity,
    quantise_features,
    quantise_rewards,
)

RATIOS = [0.1, 0.3, 1.0, 1.9, 2.0, 2.1, 4.0, 10.0]


def in_the_ball(rng, n, m):
    """Directions uniform; lengths 0, 1 and everything between."""
    directions = rng.standard_normal((n, m))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    lengths = rng.choice([0.0, 1.0, 1.0, rng.random(), rng.random()], size=(n, 1))
    return directions * lengths


def natural_distance(phi, z, psi, y, ratio):
    """The distance of the module's docstring, from matrices, for rewards in [-1/2, 1/2]."""
    gram = np.outer(phi, phi) - np.outer(psi, psi)
    vector = z * phi - y * psi
    return math.sqrt((gram**2).sum() + ratio / 0.25 * (vector**2).sum())


class TestSensitivity:
    def test_known_values(self):
        assert joint_sensitivity(2.0) == pytest.approx(2 * math.sqrt(2))
        assert joint_sensitivity(1.0) == pytest.approx(3 / math.sqrt(2))
        assert joint_sensitivity(9.0) == pytest.approx(6.0)

    @pytest.mark.parametrize("ratio", RATIOS)
    def test_random_search_never_exceeds_it(self, ratio):
        rng = np.random.default_rng(1)
        worst = 0.0
        for m in (1, 2, 3, 6):
            phi, psi = in_the_ball(rng, 20_000, m), in_the_ball(rng, 20_000, m)
            z, y = (rng.choice([-0.5, 0.0, 0.5, rng.uniform(-0.5, 0.5)], 20_000) for _ in range(2))
            gram = np.einsum("ni,nj->nij", phi, phi) - np.einsum("ni,nj->nij", psi, psi)
            vector = z[:, None] * phi - y[:, None] * psi
            squares = (gram**2).sum((1, 2)) + 4 * ratio * (vector**2).sum(1)
            worst = max(worst, math.sqrt(squares.max()))
        assert worst <= joint_sensitivity(ratio) * (1 + 1e-12)
        assert worst >= joint_sensitivity(ratio) * 0.95  # and the search is not blind

    @pytest.mark.parametrize("ratio", RATIOS)
    def test_optimisation_reaches_but_never_exceeds_it(self, ratio):
        rng = np.random.default_rng(2)
        m = 3

        def unpack(v):
            phi, psi = v[:m], v[m : 2 * m]
            phi, psi = (w / max(1.0, float(np.linalg.norm(w))) for w in (phi, psi))
            return phi, 0.5 * np.tanh(v[-2]), psi, 0.5 * np.tanh(v[-1])

        best = max(
            -minimize(lambda v: -natural_distance(*unpack(v), ratio), rng.standard_normal(2 * m + 2) * 2).fun
            for _ in range(12)
        )
        assert best <= joint_sensitivity(ratio) * (1 + 1e-9)
        assert best >= joint_sensitivity(ratio) * (1 - 1e-3)

    def test_a_missing_reward_moves_less(self):
        for ratio in RATIOS:
            phi = np.array([1.0, 0.0])
            missing = natural_distance(phi, 0.5, np.zeros(2), 0.0, ratio)
            assert missing == pytest.approx(math.sqrt(1 + ratio))
            assert missing < joint_sensitivity(ratio)

    @pytest.mark.parametrize("ratio", [0.3, 2.0, 5.0])
    def test_quantised_integers_keep_it_exactly(self, ratio):
        """Integer arithmetic throughout: squared distances as Python integers, no rounding."""
        rng = np.random.default_rng(3)
        m, one = 4, 1 << BITS
        phi = in_the_ball(rng, 400, m)
        w = math.sqrt(min(2 + ratio, 4.0))  # pairs at the worst distance, too
        cosine = 1 - w * w / 2
        a = np.eye(m)[0]
        b = cosine * a + math.sqrt(max(0.0, 1 - cosine**2)) * np.eye(m)[1]
        phi = np.concatenate([phi, np.tile([a, b], (50, 1)) @ random_rotation(rng, m)])
        q = quantise_features(phi).astype(object)
        n = quantise_rewards(rng.choice([-0.5, 0.5], len(phi))).astype(object)
        bound = joint_sensitivity(ratio) ** 2
        for i in range(len(q) - 1):
            q1, q2, n1, n2 = list(map(int, q[i])), list(map(int, q[i + 1])), int(n[i]), int(n[i + 1])
            gram = sum((q1[s] * q1[t] - q2[s] * q2[t]) ** 2 for s in range(m) for t in range(m))
            for sign in (1, -1):
                vector = sum((n1 * x - sign * n2 * y) ** 2 for x, y in zip(q1, q2, strict=True))
                assert (gram + ratio * vector) / one**4 <= bound * (1 + 1e-15)

    def test_rounds_multiply_it(self):
        """k rounds that all move the sum in one direction reach k times the single-round bound."""
        one, five = GramVectorMechanism(n_features=2), GramVectorMechanism(n_features=2, rounds_per_user=5)
        assert five.sensitivity == 5 * one.sensitivity
        up, down = np.tile([[1.0, 0.0]], (5, 1)), np.tile([[-1.0, 0.0]], (5, 1))
        rewards = np.full(5, 0.5)
        moved = five.to_coordinates(five.encode(up, rewards) - five.encode(down, rewards))
        assert np.linalg.norm(moved) == pytest.approx(five.sensitivity)

    def test_vector_only(self):
        mechanism = GramVectorMechanism(n_features=2, vector_only=True)
        phi = np.array([[0.6, 0.8]])
        moved = mechanism.encode(phi, np.array([0.5])) - mechanism.encode(phi, np.array([-0.5]))
        distance = np.linalg.norm(mechanism.to_coordinates(moved))
        assert mechanism.size == 2
        assert distance <= mechanism.sensitivity
        assert distance == pytest.approx(mechanism.sensitivity, rel=1e-5)

    @given(st.integers(0, 10_000))
    def test_mechanism_keeps_it_end_to_end(self, seed):
        rng = np.random.default_rng(seed)
        ratio = rng.choice(RATIOS)
        supports = ((0, 2), (2, 5))
        mechanism = GramVectorMechanism(n_features=5, ratio=ratio, supports=supports)
        phi = np.zeros((2, 5))
        for row in phi:
            start, stop = supports[rng.integers(2)]
            row[start:stop] = in_the_ball(rng, 1, stop - start)
        z = rng.choice([-0.5, 0.5, 0.1], 2)
        moved = mechanism.encode(phi[:1], z[:1]) - mechanism.encode(phi[1:], z[1:])
        distance = float(np.linalg.norm(mechanism.to_coordinates(moved)))
        assert distance <= mechanism.sensitivity * (1 + 1e-14)
        assert distance == pytest.approx(natural_distance(phi[0], z[0], phi[1], z[1], ratio), abs=1e-4)


def random_rotation(rng, m):
    return np.linalg.qr(rng.standard_normal((m, m)))[0]


class TestQuantisation:
    @given(st.integers(0, 10_000))
    def test_no_row_is_longer_than_one(self, seed):
        rng = np.random.default_rng(seed)
        m = int(rng.integers(1, 40))
        phi = in_the_ball(rng, 20, m)
        phi[:5] *= rng.choice([1.0 + 1e-15, 1.0 + 1e-7, 2.0, 1e150, 1e300], (5, 1))
        q = quantise_features(phi)
        for row in q:
            assert sum(int(x) ** 2 for x in row) <= 1 << (2 * BITS)
        assert np.array_equal(q, np.trunc(q))

    def test_long_rows_keep_their_direction(self):
        q = quantise_features(np.array([[3.0, 4.0]]))
        assert q[0] / (1 << BITS) == pytest.approx([0.6, 0.8], abs=1e-5)

    def test_short_rows_are_off_by_less_than_one_step(self):
        phi = in_the_ball(np.random.default_rng(0), 100, 7)
        assert np.abs(quantise_features(phi) / (1 << BITS) - phi).max() < 2.0**-BITS

    def test_rewards_stay_in_range(self):
        n = quantise_rewards(np.array([-0.5, -0.25, 0.0, 0.5, 0.5000001, 1e9]))
        assert n.tolist() == [-(1 << BITS), -(1 << 19), 0, 1 << BITS, 1 << BITS, 1 << BITS]


class TestEncode:
    def test_sums_are_exact_integers(self):
        """Against Python integers, over more rows than one chunk holds and at the largest products."""
        rng = np.random.default_rng(0)
        phi = in_the_ball(rng, 20_000, 3)
        phi[:9_000] = [1.0, 0.0, 0.0]
        z = rng.uniform(-0.5, 0.5, 20_000)
        z[:9_000] = 0.5
        mechanism = GramVectorMechanism(n_features=3)
        q, n = quantise_features(phi).astype(np.int64), quantise_rewards(z).astype(np.int64)
        expected = [sum(map(int, (q[:, i] * q[:, j]).tolist())) for i in range(3) for j in range(i, 3)]
        expected += [sum(map(int, (n * q[:, i]).tolist())) for i in range(3)]
        assert mechanism.encode(phi, z).tolist() == expected

    @given(st.integers(0, 1000), st.integers(1, 200))
    def test_shards_add_up_bit_for_bit(self, seed, cut):
        rng = np.random.default_rng(seed)
        phi, z = in_the_ball(rng, 200, 5), rng.uniform(-0.5, 0.5, 200)
        mechanism = GramVectorMechanism(n_features=5)
        order = rng.permutation(200)
        whole = mechanism.encode(phi, z)
        parts = mechanism.encode(phi[order[:cut]], z[order[:cut]])
        parts = parts + mechanism.encode(phi[order[cut:]], z[order[cut:]])
        assert np.array_equal(whole, parts)

    def test_no_rounds_are_zero(self):
        mechanism = GramVectorMechanism(n_features=2)
        assert not mechanism.encode(np.zeros((0, 2)), np.zeros(0)).any()

    @pytest.mark.parametrize(
        ("features", "centred"),
        [
            (np.zeros((3, 3)), np.zeros(3)),
            (np.zeros(2), np.zeros(1)),
            (np.zeros((3, 2)), np.zeros(2)),
            (np.array([[np.nan, 0.0]]), np.zeros(1)),
            (np.array([[0.123456, 0.0]]), np.array([np.inf])),
        ],
    )
    def test_refuses_bad_data_without_showing_it(self, features, centred):
        with pytest.raises(InvalidData) as caught:
            GramVectorMechanism(n_features=2).encode(features, centred)
        assert "0.123" not in str(caught.value)


class TestForms:
    @pytest.mark.parametrize("supports", [None, ((0, 2), (2, 3), (3, 6))])
    def test_coordinates_are_isometric_and_invertible(self, supports):
        rng = np.random.default_rng(0)
        mechanism = GramVectorMechanism(n_features=6, supports=supports, ratio=1.5)
        coordinates = rng.standard_normal((4, mechanism.size))
        gram, vector = mechanism.from_coordinates(coordinates)
        assert gram.shape == (4, 6, 6)
        assert np.array_equal(gram, gram.swapaxes(1, 2))
        squares = (gram**2).sum((1, 2)) + 1.5 / 0.25 * (vector**2).sum(1)
        assert squares == pytest.approx((coordinates**2).sum(1))

    def test_natural_units(self):
        rng = np.random.default_rng(0)
        phi, z = in_the_ball(rng, 50, 4), rng.uniform(-0.5, 0.5, 50)
        mechanism = GramVectorMechanism(n_features=4, ratio=3.0)
        gram, vector = mechanism.from_coordinates(mechanism.to_coordinates(mechanism.encode(phi, z)))
        assert gram == pytest.approx(phi.T @ phi, abs=50 * 2.0**-18)
        assert vector == pytest.approx(z @ phi, abs=50 * 2.0**-18)

    @pytest.mark.parametrize("ratio", [0.5, 2.0, 9.0])
    def test_largest_coordinate_is_reached(self, ratio):
        mechanism = GramVectorMechanism(n_features=2, ratio=ratio)
        largest = max(
            np.abs(mechanism.to_coordinates(mechanism.encode(np.array([phi]), np.array([0.5])))).max()
            for phi in ([1.0, 0.0], [math.sqrt(0.5), math.sqrt(0.5)])
        )
        assert largest == pytest.approx(mechanism.largest_coordinate)

    def test_supports_leave_products_across_out(self):
        mechanism = GramVectorMechanism(n_features=3, supports=((0, 2), (2, 3)))
        assert mechanism.size == 3 + 1 + 3
        phi = np.array([[0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
        gram, _ = mechanism.from_coordinates(mechanism.to_coordinates(mechanism.encode(phi, np.zeros(2))))
        assert gram == pytest.approx(phi.T @ phi, abs=1e-5)

    @pytest.mark.parametrize("vector_only", [False, True])
    def test_rows_of_their_support_are_encoded_as_with_their_zeros(self, vector_only):
        supports, rng = ((0, 2), (2, 3), (3, 7)), np.random.default_rng(1)
        mechanism = GramVectorMechanism(n_features=7, supports=supports, vector_only=vector_only)
        support, rewards = rng.integers(3, size=50), rng.uniform(-0.6, 0.6, 50)
        own, dense = rng.uniform(-0.7, 0.7, (50, 4)), np.zeros((50, 7))
        for row, (low, high) in enumerate(supports[index] for index in support):
            own[row, high - low :] = 0.0
            dense[row, low:high] = own[row, : high - low]
        sums = mechanism.encode(own, rewards, support=support)
        assert np.array_equal(sums, mechanism.encode(dense, rewards))
        for bad in (np.full(50, 3), np.full(50, -1), support[:5]):
            with pytest.raises(InvalidData):
                mechanism.encode(own, rewards, support=bad)
        with pytest.raises(InvalidData):
            mechanism.encode(dense, rewards, support=support)

    @pytest.mark.parametrize("supports", [None, ((0, 2), (2, 3), (3, 7))])
    def test_gram_matrices_by_support_are_those_of_all(self, supports):
        mechanism = GramVectorMechanism(n_features=7, supports=supports)
        coordinates = np.random.default_rng(0).standard_normal((3, mechanism.size))
        gram, vector = mechanism.from_coordinates(coordinates)
        assert np.array_equal(gram, np.swapaxes(gram, 1, 2))
        assert vector.shape == (3, 7)
        grams = mechanism.grams_from_coordinates(coordinates)
        for (low, high), block in zip(mechanism.ranges, grams, strict=True):
            assert np.array_equal(block, gram[:, low:high, low:high])
        again = mechanism.gram_to_coordinates(grams)
        assert again == pytest.approx(coordinates[:, : mechanism.gram_size], rel=1e-14)

    def test_noise_in_natural_units(self):
        """Unit noise on coordinates gives the stated deviations (40,000 draws, 7 deviations)."""
        rng = np.random.default_rng(0)
        mechanism = GramVectorMechanism(n_features=2, ratio=3.0)
        gram, vector = mechanism.from_coordinates(2.0 * rng.standard_normal((40_000, 5)))
        assert gram[:, 0, 0].std() == pytest.approx(mechanism.gram_noise_sd(2.0), rel=0.025)
        assert gram[:, 0, 1].std() == pytest.approx(mechanism.gram_noise_sd(2.0) / math.sqrt(2), rel=0.025)
        assert vector[:, 0].std() == pytest.approx(mechanism.vector_noise_sd(2.0), rel=0.025)

    def test_at_ratio_two_the_vector_costs_what_it_costs_alone(self):
        joint, alone = GramVectorMechanism(n_features=2), GramVectorMechanism(n_features=2, vector_only=True)
        assert joint.vector_noise_sd(joint.sensitivity) == pytest.approx(1.0)
        assert alone.vector_noise_sd(alone.sensitivity) == pytest.approx(1.0)

    def test_vector_only_has_no_gram(self):
        mechanism = GramVectorMechanism(n_features=2, vector_only=True)
        assert mechanism.gram_noise_sd(3.0) == 0.0
        assert mechanism.vector_from_coordinates(np.array([1.0, 2.0])).tolist() == [0.5, 1.0]
        with pytest.raises(InvalidParameter, match="vector_from_coordinates"):
            mechanism.from_coordinates(np.zeros(2))

    def test_lattice(self):
        mechanism = GramVectorMechanism(n_features=1, vector_only=True)
        sums = mechanism.encode(np.ones((1, 1)), np.array([0.5]))
        assert sums[0] * LATTICE == 1.0

    @pytest.mark.parametrize(
        "arguments",
        [
            {"n_features": 0},
            {"n_features": 2.0},
            {"n_features": 2, "ratio": 0.0},
            {"n_features": 2, "rounds_per_user": 0},
            {"n_features": 3, "supports": ((0, 2),)},
            {"n_features": 3, "supports": ((0, 2), (1, 3))},
            {"n_features": 3, "supports": ((0, 0), (0, 3))},
            {"n_features": 3, "supports": ()},
        ],
    )
    def test_refuses_bad_parameters(self, arguments):
        with pytest.raises(InvalidParameter):
            GramVectorMechanism(**arguments)

    def test_config_rebuilds_it(self):
        mechanism = GramVectorMechanism(n_features=5, supports=((0, 2), (2, 5)), rounds_per_user=2)
        assert GramVectorMechanism(**mechanism.to_config()) == mechanism
