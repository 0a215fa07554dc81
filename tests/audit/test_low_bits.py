"""The last bits of float noise give its centre away; lattice noise has none that could."""

import numpy as np
import pytest

from dpbandits.audit import build
from dpbandits.audit.attacks.low_bits import finest_bit, naive_gaussian, naive_laplace, off_grid
from dpbandits.privacy import SecureNoise
from dpbandits.privacy.rows import AnswerLaplace

SURE = 1.0 - 1e-9


def test_the_finest_bit_of_doubles_large_and_small():
    values = np.array([1.0, -1.0, 3.0, 0.5, 2.0**-1074, 2.0**-1022 * 1.5, 0.1, 2.0**52 + 1, 0.0])
    assert finest_bit(values).tolist() == [0, 0, 0, -1, -1074, -1023, -55, 0, 0]


@pytest.mark.parametrize(
    "add",
    [
        lambda values: naive_laplace(values, epsilon=0.1),
        lambda values: naive_laplace(values, epsilon=8.0),
        lambda values: naive_gaussian(values, epsilon=1.0, delta=1e-6),
    ],
)
def test_noise_added_to_one_is_never_off_the_grid_and_to_zero_it_is(add):
    """The first is a fact about float64. The second has at least 1% a draw: 4000 of them miss by 1e-17."""
    ones, zeros = off_grid(add(np.ones(4000))), off_grid(add(np.zeros(4000)))
    assert (ones == 0.0).all()
    assert (zeros == -1.0).any()


@pytest.mark.parametrize("name", ["broken-float-laplace", "broken-float-gaussian"])
def test_naive_float_noise_is_caught(name):
    row = build(name).run(samples=20_000, confidence=SURE)
    assert row.known_broken
    assert row.as_expected
    assert row.lower_bound > 2.0 * row.claimed_epsilon


@pytest.mark.parametrize("name", ["low-bits-lattice-laplace", "low-bits-lattice-gaussian"])
def test_the_same_attack_proves_next_to_nothing_on_the_lattice(name):
    row = build(name).run(samples=20_000, confidence=SURE)
    assert not row.known_broken
    assert row.lower_bound < 0.1


def test_outputs_lie_on_one_lattice_wherever_the_centre_is():
    mechanism = AnswerLaplace(epsilon=1.0, distance=1.0, low=-8.0, high=8.0)
    for centre in (0.0, 1.0, 1.0 / 3.0):
        released = mechanism.privatize(np.full(2000, centre), SecureNoise()) / mechanism.step
        assert (released == np.rint(released)).all()
