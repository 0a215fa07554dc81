"""The samplers' laws, exactly where they can be enumerated and by chi-square elsewhere.

False alarms: every statistical check is a z score against 6, about 1e-9 a check.
"""

import itertools
import math
from collections import Counter
from decimal import Context, Decimal

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency

from dpbandits.errors import InvalidParameter
from dpbandits.privacy import SecureNoise
from dpbandits.privacy import samplers as es
from dpbandits.privacy.words import SimulatedWords, secure_words
from internals.noise import always_exact, gaussian_exponent, large_above
from noises import opendp_gaussian


def chi_square_z(observed, expected):
    """Normal score of Pearson's statistic over cells with at least 10 expected counts."""
    large = expected >= 10
    statistic = ((observed - expected)[large] ** 2 / expected[large]).sum()
    cells = large.sum()
    return (statistic - cells) / math.sqrt(2 * cells)


@pytest.mark.parametrize(
    ("rate", "dim", "radius"), [(0.7, 1, 60), (0.9, 2, 40), (1.5, 3, 12), (0.02, 1, 2000)]
)
def test_l2_laplace_has_the_law_it_states(rate, dim, radius):
    size = 200_000
    drawn = es.lattice_l2_laplace(rate, size, dim, SimulatedWords(3, stream=dim))
    axis = np.arange(-radius, radius + 1)
    grid = np.stack(np.meshgrid(*[axis] * dim), axis=-1).reshape(-1, dim)
    law = np.exp(-rate * np.linalg.norm(grid, axis=1))
    law /= law.sum()
    counts = Counter(map(tuple, drawn.tolist()))
    observed = np.array([counts.get(tuple(cell), 0) for cell in grid.tolist()])
    assert abs(chi_square_z(observed, law * size)) < 6


def test_l2_laplace_on_a_fine_lattice_has_gamma_radii():
    size, dim, rate = 100_000, 3, 2.0**-18
    drawn = es.lattice_l2_laplace(rate, size, dim, SimulatedWords(5))
    radii = rate * np.linalg.norm(drawn, axis=1)
    assert abs(radii.mean() - dim) < 6 * math.sqrt(dim / size)
    assert abs((radii**2).mean() - dim * (dim + 1)) < 6 * math.sqrt(
        15 * 24 / size
    )  # var of Gamma(3)^2 is 216
    directions = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    assert np.abs(directions.mean(axis=0)).max() < 6 / math.sqrt(3 * size)


def test_geometric_is_geometric_also_above_the_digits():
    size, rate = 200_000, 0.3
    drawn = es.geometric(rate, size, SimulatedWords(11))
    law = np.exp(-rate * np.arange(80)) * (1 - math.exp(-rate))
    observed = np.bincount(drawn, minlength=80)[:80]
    assert abs(chi_square_z(observed, law * size)) < 6
    # With a huge rate there are no digits below the top part: everything comes from the tail.
    tail = es.geometric(65.0, 50, SimulatedWords(12))
    assert (tail == 0).all()


def test_bernoulli_exp_matches_its_probability():
    size = 400_000
    for exponent in (0.0, 1e-9, 0.5, 3.0):
        share = es.bernoulli_exp(np.full(size, exponent), SimulatedWords(2)).mean()
        chance = math.exp(-exponent)
        assert abs(share - chance) <= 6 * math.sqrt(chance * (1 - chance) / size) + 1e-9 * (exponent > 0) * 10


def test_doubtful_words_are_decided_exactly():
    """A word equal to the first 64 digits of the chance needs the digits behind it, on both sides."""
    context = Context(prec=80)
    chance = context.exp(Decimal("-0.5"))
    bits = int(context.multiply(chance, Decimal(2**128)))
    head, tail = bits >> 64, bits % 2**64

    def scripted(values):
        queue = iter(values)
        return lambda n: np.array([next(queue) for _ in range(n)], dtype=np.uint64)

    below = es.bernoulli_exp(np.array([0.5]), scripted([head, tail - 1]))
    above = es.bernoulli_exp(np.array([0.5]), scripted([head, tail + 1]))
    assert below.tolist() == [True]
    assert above.tolist() == [False]
    longer = es.bernoulli_exp(
        np.array([0.5]), scripted([head, tail, 0])
    )  # undecided after 128 digits as well
    assert longer.tolist() == [True]


def test_the_fast_path_agrees_with_decimal_arithmetic(monkeypatch):
    """Sending every proposal through the exact path changes no draw."""
    fast = es.lattice_l2_laplace(0.05, 300, 3, SimulatedWords(8))
    always_exact(monkeypatch)
    exact = es.lattice_l2_laplace(0.05, 300, 3, SimulatedWords(8))
    np.testing.assert_array_equal(fast, exact)


def test_large_exponents_never_use_float_differences(monkeypatch):
    fast = es.lattice_l2_laplace(0.05, 200, 2, SimulatedWords(8))
    large_above(monkeypatch, 1e-6)
    exact = es.lattice_l2_laplace(0.05, 200, 2, SimulatedWords(8))
    np.testing.assert_array_equal(fast, exact)


def gaussian_cells(sigma, size):
    """Integers with at least 10 expected draws; expected counts, theirs and that of all others together."""
    reach = int(12 * sigma) + 2
    values = np.arange(-reach, reach + 1)
    law = np.exp(-0.5 * (values / sigma) ** 2)
    law /= law.sum()
    large = law * size >= 10
    return values[large], np.append(law[large], law[~large].sum()) * size


def counts_in(drawn, values):
    inside = np.bincount(
        drawn[(drawn >= values[0]) & (drawn <= values[-1])] - values[0], minlength=len(values)
    )
    return np.append(inside, len(drawn) - inside.sum())


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.7, 61.0])
def test_the_discrete_gaussian_has_its_law(sigma):
    """Pearson's statistic with a false-alarm rate of 1e-9."""
    size = 300_000
    values, expected = gaussian_cells(sigma, size)
    observed = counts_in(es.discrete_gaussian(sigma, size, SimulatedWords(21)), values)
    held = expected > 0.5
    statistic = ((observed - expected)[held] ** 2 / expected[held]).sum()
    assert chi2.sf(statistic, held.sum() - 1) > 1e-9


def test_the_discrete_gaussian_is_the_one_that_opendp_draws():
    """Two samples of one law: Pearson's statistic with a false-alarm rate of 1e-9."""
    size, sigma = 30_000, 3.0
    values, _ = gaussian_cells(sigma, size)
    ours = counts_in(SecureNoise().integer_gaussian(sigma, size), values)
    theirs = counts_in(opendp_gaussian(sigma, size), values)
    table = np.stack([ours, theirs])
    assert chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-9


@pytest.mark.parametrize("sigma", [0.01, 0.3, 1.0, 123.456, 1e7 / 3, 2.0**52 / 7])
def test_proposal_times_acceptance_is_the_discrete_gaussian(sigma):
    """exp(-t|k|) exp(-g(k)) is proportional to exp(-k^2/(2 sigma^2)): to 50 digits, over the whole range."""
    context = Context(prec=120)
    rate = min(1.0 / sigma, 16.0)
    square = context.multiply(Decimal(2), context.multiply(Decimal(sigma), Decimal(sigma)))
    constants = []
    for magnitude in sorted({round(step * sigma / 4) for step in range(60)}):
        proposed = context.multiply(Decimal(rate), Decimal(magnitude))
        wanted = context.divide(Decimal(magnitude**2), square)
        accepted = gaussian_exponent(magnitude, sigma, rate, context)
        assert accepted >= 0
        constants.append(context.subtract(context.add(proposed, accepted), wanted))
    assert max(constants) - min(constants) < Decimal("1e-50")


@pytest.mark.parametrize("sigma", [2.0**20, 2.0**52])
def test_the_discrete_gaussian_on_a_fine_lattice_has_gaussian_moments(sigma):
    size = 200_000
    scaled = es.discrete_gaussian(sigma, size, SimulatedWords(22)) / sigma
    for power, mean, variance in ((1, 0.0, 1.0), (2, 1.0, 2.0), (4, 3.0, 96.0)):
        assert abs((scaled**power).mean() - mean) < 6 * math.sqrt(variance / size)


@pytest.mark.parametrize("sigma", [0.05, 0.9, 37.0, 2.0**52])
def test_the_fast_path_of_the_discrete_gaussian_agrees_with_decimal_arithmetic(monkeypatch, sigma):
    fast = es.discrete_gaussian(sigma, 300, SimulatedWords(8))
    always_exact(monkeypatch)
    np.testing.assert_array_equal(fast, es.discrete_gaussian(sigma, 300, SimulatedWords(8)))


@pytest.mark.parametrize("sigma", [0.0, 2.0**-21, 2.0**53, -1.0, math.nan, math.inf])
def test_a_discrete_gaussian_off_the_lattice_is_refused(sigma):
    with pytest.raises(InvalidParameter):
        es.discrete_gaussian(sigma, 1, SimulatedWords(1))


def test_uniform_below_is_uniform_and_redraws_the_remainder():
    size, n = 120_000, 6
    counts = np.bincount(es.uniform_below(n, size, SimulatedWords(1)), minlength=n)
    assert abs(chi_square_z(counts, np.full(n, size / n))) < 6
    words = iter([2**64 - 1, 5])
    assert (
        es.uniform_below(3, 1, lambda k: np.array([next(words) for _ in range(k)], dtype=np.uint64))[0] == 2
    )


def test_bad_parameters_are_refused():
    words = SimulatedWords(0)
    for call in (
        lambda: es.geometric(0.0, 1, words),
        lambda: es.geometric(2.0**-60, 1, words),
        lambda: es.lattice_l2_laplace(100.0, 1, 1, words),
        lambda: es.uniform_below(0, 1, words),
        lambda: SimulatedWords(-1),
    ):
        with pytest.raises(InvalidParameter):
            call()


def test_secure_words_differ_and_fill_the_word():
    first, second = secure_words(1000), secure_words(1000)
    assert (first != second).any()
    ones = np.unpackbits(first.view(np.uint8)).mean()
    assert abs(ones - 0.5) < 6 * 0.5 / math.sqrt(64_000)


def test_streams_of_one_seed_are_different():
    draws = [SimulatedWords(4, stream=stream)(8).tolist() for stream in range(5)]
    assert all(a != b for a, b in itertools.combinations(draws, 2))
