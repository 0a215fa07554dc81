"""Row mechanisms: the guarantee by exact ratios, the laws by their moments, the rule by cases."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.privacy import RowDP, SecureNoise, SimulatedNoise
from dpbandits.privacy.calibration import rounding_distance
from dpbandits.privacy.rows import (
    AnswerLaplace,
    CellLaw,
    CellResponse,
    GaussianLaw,
    GaussianRows,
    L2Laplace,
    L2LaplaceLaw,
    choose_row_mechanism,
)
from dpbandits.privacy.rows.noise_laws import from_config
from noises import UncountedNoise

BUDGETS = st.tuples(st.floats(0.05, 12.0), st.floats(1e-3, 30.0), st.integers(1, 8))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(BUDGETS, st.integers(0, 2**32 - 1))
def test_l2_laplace_ratio_never_exceeds_epsilon(budget, seed):
    """The law is exp(-rate |k - x|): the worst ratio over outputs is exp(rate |x - x'|) after rounding."""
    epsilon, distance, dim = budget
    mechanism = L2Laplace(definition=RowDP(epsilon=epsilon, distance=distance), dim=dim)
    rng = np.random.default_rng(seed)
    x = rng.uniform(-20, 20, dim)
    step = rng.standard_normal(dim)
    other = x + step * (distance * 0.999999 / np.linalg.norm(step))
    moved = np.rint(x / mechanism.step) - np.rint(other / mechanism.step)
    assert mechanism.rate * np.linalg.norm(moved) <= epsilon
    # Diagonal corner case: every coordinate's rounding at its worst.
    worst = distance / mechanism.step + math.sqrt(dim)
    assert mechanism.rate * worst <= epsilon
    assert mechanism.rate * worst >= epsilon * (1 - 1e-9)
    assert mechanism.scale * epsilon / distance == pytest.approx(1.0, abs=1.0e-4 * math.sqrt(dim))


def test_l2_laplace_loss_grows_with_distance():
    mechanism = L2Laplace(definition=RowDP(epsilon=0.5, distance=2.0), dim=3)
    assert mechanism.epsilon_at(2.0) == 0.5
    assert mechanism.epsilon_at(20.0) == pytest.approx(5.0, rel=1e-3)
    assert mechanism.certificate.epsilon == 0.5


@pytest.mark.parametrize("noise", [SecureNoise(), SimulatedNoise(3)], ids=["secure", "simulated"])
@pytest.mark.parametrize("dim", [1, 2, 5])
def test_l2_laplace_rows_have_the_stated_law(noise, dim):
    n = 20_000
    mechanism = L2Laplace(definition=RowDP(epsilon=0.5, distance=1.0), dim=dim)
    points = np.random.default_rng(0).uniform(-17, 17, (n, dim))
    released = mechanism.privatize(points, noise)
    assert np.all(released / mechanism.step == np.rint(released / mechanism.step))
    radii = np.linalg.norm(released - points, axis=1) / mechanism.scale
    assert abs(radii.mean() - dim) < 6 * math.sqrt(dim / n)
    assert mechanism.law.sd == pytest.approx(mechanism.scale * math.sqrt(dim + 1))


def test_simulated_rows_repeat_and_secure_rows_do_not():
    mechanism = L2Laplace(definition=RowDP(epsilon=1.0, distance=1.0), dim=2)
    points = np.zeros((50, 2))
    one = mechanism.privatize(points, SimulatedNoise(9))
    np.testing.assert_array_equal(one, mechanism.privatize(points, SimulatedNoise(9)))
    assert (mechanism.privatize(points, SecureNoise()) != mechanism.privatize(points, SecureNoise())).any()


def test_gaussian_rows_certificate_and_scale():
    definition = RowDP(epsilon=1.0, delta=1e-6, distance=2.0)
    secure = GaussianRows(definition=definition, dim=4, noise=UncountedNoise())
    assert secure.certificate.delta_at(1.0) <= 1e-6
    assert secure.scale == pytest.approx(4.531 * 2.0, rel=1e-3)
    near = GaussianRows(definition=definition, dim=4, noise=SecureNoise())
    assert near.certificate.delta_at(1.0) <= 1e-6
    assert near.scale == pytest.approx(4.225 * 2.0, rel=1e-3)
    simulated = GaussianRows(definition=definition, dim=4, noise=SimulatedNoise(1))
    assert simulated.scale == pytest.approx(4.225 * 2.0, rel=1e-3)
    # rho is proportional to the squared distance, so a row twice as far loses more than twice epsilon.
    assert secure.epsilon_at(2.0) == pytest.approx(1.0, rel=1e-3)
    assert secure.epsilon_at(4.0) > 2.0
    assert simulated.epsilon_at(4.0) > 2.0


def test_gaussian_rows_noise():
    mechanism = GaussianRows(
        definition=RowDP(epsilon=2.0, delta=1e-6, distance=1.0), dim=30, noise=SimulatedNoise(2)
    )
    points = np.random.default_rng(1).uniform(-1, 1, (700, 30))
    released = mechanism.privatize(points, SimulatedNoise(2))
    assert released.shape == (700, 30)
    errors = released - points
    assert abs(errors.std() / mechanism.scale - 1) < 6 / math.sqrt(2 * errors.size)
    small = GaussianRows(definition=RowDP(epsilon=1.0, delta=1e-5, distance=1.0), dim=2, noise=SecureNoise())
    drawn = small.privatize(np.zeros((2000, 2)), SecureNoise())
    assert abs(drawn.std() / small.scale - 1) < 6 / math.sqrt(2 * drawn.size)


class NoNoise(SimulatedNoise):
    """Calibrates as any source does, and adds nothing: what leaves is the exact lattice point."""

    def integer_gaussian(self, sigma, size):
        return np.zeros(size, dtype=np.int64)


def test_gaussian_rows_noise_covers_the_worst_neighbours():
    """Two rows at the promised distance, each rounded away from the other: the noise covers them."""
    distance, r, noise = 2.0, 3, NoNoise(0)
    mechanism = GaussianRows(definition=RowDP(epsilon=1.0, delta=1e-6, distance=distance), dim=r, noise=noise)
    # just below a rounding edge, and the distance further along the diagonal
    below = np.full(r, (0.5 - 1e-4) * mechanism.step)
    points = np.array([below, below + distance / math.sqrt(r)])
    assert np.linalg.norm(points[1] - points[0]) <= distance * (1.0 + 1e-12)
    one, other = mechanism.privatize(points, noise)
    moved = float(np.linalg.norm(np.rint((other - one) / mechanism.step)))
    assert moved > distance / mechanism.step + 0.5  # rounding did move them apart
    assert mechanism.reach >= moved * mechanism.step
    definition = mechanism.definition
    needed, _ = noise.gaussian_scale(moved, definition.epsilon, definition.delta, draws=r)
    assert mechanism.sigma >= needed


def test_gaussian_rows_refuse_what_cannot_work():
    with pytest.raises(InvalidParameter, match="delta"):
        GaussianRows(definition=RowDP(epsilon=1.0, distance=1.0), dim=2, noise=SecureNoise())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.floats(0.05, 30.0), st.integers(1, 3), st.integers(2, 12))
def test_randomised_response_ratio_is_at_most_e_epsilon(epsilon, dim, per_side):
    """Exact rational arithmetic on the integers that decide."""
    from fractions import Fraction

    mechanism = CellResponse(
        definition=RowDP(epsilon=epsilon, distance=1.0), dim=dim, half_width=1.0, cells_per_dimension=per_side
    )
    keep = Fraction(mechanism.keep_words, 2**64)
    ratio = keep * (mechanism.cells - 1) / (1 - keep)
    assert math.log(ratio) <= epsilon * (1 + 1e-12)
    assert math.log(ratio) >= epsilon - 1e-6 * (1 + math.exp(epsilon - 20))
    assert 1 / ratio <= math.exp(epsilon)


def test_randomised_response_law_by_counting():
    mechanism = CellResponse(
        definition=RowDP(epsilon=2.0, distance=1.0), dim=2, half_width=3.0, cells_per_dimension=3
    )
    n = 90_000
    released = mechanism.privatize(np.tile([[0.4, -2.9]], (n, 1)), SimulatedNoise(4))
    centres, counts = np.unique(released, axis=0, return_counts=True)
    assert len(centres) == 9
    own = np.all(np.isclose(centres, [0.0, -2.0]), axis=1)
    keep = math.exp(2.0) / (math.exp(2.0) + 8)
    assert abs(counts[own][0] / n - keep) < 6 * math.sqrt(keep * (1 - keep) / n)
    other = (1 - keep) / 8
    assert np.abs(counts[~own] / n - other).max() < 6 * math.sqrt(other / n)
    assert mechanism.epsilon_at(100.0) == 2.0


def test_the_rule_takes_the_smallest_error():
    def chosen(dim, epsilon, distance, delta=0.0, n=10_000):
        definition = RowDP(epsilon=epsilon, delta=delta, distance=distance)
        return choose_row_mechanism(
            definition=definition, n=n, dim=dim, half_width=25 / math.sqrt(dim), noise=SecureNoise()
        ).name

    assert chosen(2, 1.0, 1.0) == "l2_laplace"
    assert chosen(2, 1.0, 1.0, delta=1e-5) == "l2_laplace"
    assert chosen(20, 1.0, 1.0, delta=1e-5) == "gaussian"
    assert chosen(20, 1.0, 1.0, delta=1e-5, n=200_000) == "l2_laplace"  # delta >= 1/n is not taken
    assert chosen(2, 8.0, 50.0) == "randomised_response"
    crossover = [dim for dim in range(2, 24) if chosen(dim, 1.0, 1.0, delta=1e-5) == "gaussian"]
    assert crossover == list(range(min(crossover), 24))


def test_the_rule_passes_over_what_cannot_carry_an_epsilon():
    """At extreme epsilons a candidate that cannot draw is no reason to refuse one that can."""

    def chosen(epsilon):
        definition = RowDP(epsilon=epsilon, distance=1.0)
        mechanism = choose_row_mechanism(
            definition=definition, n=100, dim=2, half_width=10.0, noise=SecureNoise()
        )
        mechanism.privatize(np.zeros((3, 2)), SimulatedNoise(1))
        return mechanism.name

    assert chosen(1e-8) == "randomised_response"
    for epsilon in (2e-6, 1e5):
        chosen(epsilon)
    with pytest.raises(InvalidParameter, match="no mechanism"):
        chosen(1e-10)


def test_gaussian_rows_count_the_draws_of_one_row():
    definition = RowDP(epsilon=1.0, delta=1e-6, distance=1.0)
    near = GaussianRows(definition=definition, dim=3, noise=SecureNoise())
    concentrated = GaussianRows(definition=definition, dim=3, noise=UncountedNoise())
    assert near.scale < 0.94 * concentrated.scale
    assert near.certificate.distance == 3 * rounding_distance(near.scale / near.step)
    assert near.certificate.delta_at(1.0) <= 1e-6
    far, twice = near.certificate_at(2.0), concentrated.certificate_at(2.0)
    assert far.distance == near.certificate.distance  # the noise is the same
    assert far.mu == pytest.approx(2.0 * near.certificate.mu, rel=1e-4)
    assert twice.rho == pytest.approx(4.0 * concentrated.certificate.rho, rel=1e-4)


def test_the_rule_can_be_overridden_and_refuses_nonsense():
    definition = RowDP(epsilon=1.0, delta=1e-6, distance=1.0)
    common = {"definition": definition, "n": 100, "dim": 2, "half_width": 10.0, "noise": SecureNoise()}
    assert choose_row_mechanism(**common, mechanism="gaussian").name == "gaussian"
    assert choose_row_mechanism(**common, mechanism="randomised_response", cells_per_dimension=4).cells == 16
    with pytest.raises(InvalidParameter, match="mechanism: expected one of"):
        choose_row_mechanism(**common, mechanism="tree")
    with pytest.raises(InvalidParameter):
        choose_row_mechanism(**{**common, "dim": 40, "definition": RowDP(epsilon=1.0, distance=1.0)})


def test_mixtures_have_the_law_s_moments():
    for law in (L2LaplaceLaw(dim=3, scale=0.7), GaussianLaw(dim=3, deviation=1.3)):
        for nodes in (5, 10):
            scales, weights = law.difference_mixture(nodes)
            assert weights.sum() == pytest.approx(1.0)
            assert weights @ scales**2 == pytest.approx(2 * law.sd**2)
    cells = CellLaw(dim=2, keep=0.8, width=1.0, half_width=5.0)
    scales, weights = cells.difference_mixture()
    assert weights.sum() == pytest.approx(1.0)
    assert weights @ scales**2 == pytest.approx(2 * cells.sd**2)


def test_laws_survive_json_and_refuse_others():
    for law in (
        L2LaplaceLaw(dim=3, scale=0.7),
        GaussianLaw(dim=1, deviation=2.0),
        CellLaw(dim=2, keep=0.5, width=1.0, half_width=4.0),
    ):
        assert from_config(law.to_config()) == law
    for bad in ({"type": "cauchy"}, {"type": "gaussian"}, {"type": "gaussian", "dim": 0, "deviation": 1.0}):
        with pytest.raises(InvalidParameter):
            from_config(bad)
    with pytest.raises(InvalidParameter):
        CellLaw(dim=2, keep=0.5, width=20.0, half_width=4.0)


def test_answer_noise():
    noise = AnswerLaplace(epsilon=0.5, distance=4.0, low=0.0, high=10.0)
    released = noise.privatize(np.full(20_000, 25.0), SimulatedNoise(1))
    assert abs(released.mean() - 10.0) < 6 * noise.sd / math.sqrt(20_000)
    assert released.std() == pytest.approx(math.sqrt(2) * 8.0, rel=0.05)
    assert noise.rate * (4.0 / noise.step + 1) <= 0.5
    again = AnswerLaplace.from_config(noise.to_config())
    assert again == noise
    one = noise.privatize(np.array([1.0]), SimulatedNoise(1), position=1)
    assert one != noise.privatize(np.array([1.0]), SimulatedNoise(1), position=2)


def test_answers_that_do_not_fit_the_lattice_are_refused():
    """2^50 steps are the most that float64 rounds exactly with the noise on top; nothing wraps around."""
    for low, high in ((0.0, 1e12), (-1e12, 0.0), (1e12, 1e12 + 1)):
        with pytest.raises(InvalidParameter, match="do not fit the lattice"):
            AnswerLaplace(epsilon=1.0, distance=1e-3, low=low, high=high)
    edge = 2.0**34 * (1 - 2.0**-40)  # just below 2^50 steps of 2^-16
    noise = AnswerLaplace(epsilon=1.0, distance=1.0, low=-edge, high=edge)
    assert abs(noise.privatize(np.array([1e300]), SimulatedNoise(1))[0] - edge) < 100
    for epsilon in (1e-12, 1e9):
        with pytest.raises(InvalidParameter, match="rate of lattice noise"):
            AnswerLaplace(epsilon=epsilon, distance=1.0, low=0.0, high=1.0)
        with pytest.raises(InvalidParameter, match="rate of lattice noise"):
            L2Laplace(definition=RowDP(epsilon=epsilon, distance=1.0), dim=2)


@pytest.mark.parametrize("cells", [2, 3, 1000, 2**31])
def test_randomised_response_keeps_its_ratio_at_the_smallest_epsilon(cells):
    """Both ratios, exactly; without the limit the true cell would be reported less often than others."""
    from fractions import Fraction

    def mechanism(epsilon):
        return CellResponse(
            definition=RowDP(epsilon=epsilon, distance=1.0), dim=1, half_width=1.0, cells_per_dimension=cells
        )

    smallest = mechanism(1e-9)
    keep = Fraction(smallest.keep_words, 2**64)
    ratio = keep * (cells - 1) / (1 - keep)
    assert 1 <= ratio <= 1 + Fraction(1e-9) + Fraction(1e-9) ** 2 / 2  # below e^epsilon
    with pytest.raises(InvalidParameter, match="at least 1e-09"):
        mechanism(9e-10)


def test_rows_must_be_rows():
    mechanism = L2Laplace(definition=RowDP(epsilon=1.0, distance=1.0), dim=2)
    for bad in (np.zeros(3), np.zeros((3, 3)), np.array([[0.0, np.nan]]), np.array([[0.0, 1e300]])):
        with pytest.raises(InvalidData):
            mechanism.privatize(bad, SimulatedNoise(0))
    with pytest.raises(InvalidParameter, match="reject nearly every draw"):
        L2Laplace(definition=RowDP(epsilon=1.0, distance=1.0), dim=40)
