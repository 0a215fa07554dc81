"""The attack on noise drawn only for the user's own bin: it must catch that, and nothing else."""

import numpy as np
import pytest

from dpbandits.audit.catalogue.broken import own_bin_noise
from dpbandits.errors import InvalidParameter
from dpbandits.privacy.reports import MECHANISMS, PaperLaplace, mechanism
from reproduction.ma2025.own_bin_noise import read_bins

N_CELLS = 8


def estimates_of(report, cell, *, positive, words):
    """(n_cells, 2) signed sum and count that the server estimates from one real report."""
    payload = np.frombuffer(report.encode(cell, positive=positive, words=words), np.uint8)[None]
    return np.stack(report.estimate(report.aggregate(payload), 1), axis=1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_attack_reads_every_bin_from_own_bin_noise(epsilon):
    rng = np.random.default_rng(1)
    found = read_bins(
        lambda cell: own_bin_noise(cell, n_cells=N_CELLS, epsilon=epsilon, rng=rng), epsilon=epsilon, seed=1
    )
    assert found.success == 1.0
    assert found.excess > 30


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_the_attack_stays_below_the_bound_on_honest_reports(name):
    one, rng = mechanism(name, n_cells=N_CELLS, epsilon=1.0), np.random.default_rng(2)

    def words(n):
        return rng.integers(0, 1 << 64, size=n, dtype=np.uint64)

    found = read_bins(lambda cell: estimates_of(one, cell, positive=True, words=words), epsilon=1.0, seed=2)
    assert found.excess < 5.2  # one-sided, false alarm below 1e-7
    assert 0.5 - 5.2 * 0.5 / found.trials**0.5 < found.success


def test_own_bin_noise_has_too_little_variance_by_the_number_of_bins():
    """Sums over users of one bin: honest noise comes from all n, the public code's from the bin's n/8."""
    rng, n, epsilon, runs = np.random.default_rng(3), 800, 1.0, 400
    people = np.full(N_CELLS, n // N_CELLS)
    honest = PaperLaplace(n_cells=N_CELLS, epsilon=epsilon)
    zeros = np.zeros(N_CELLS, int)
    right = np.array([honest.simulate(people, zeros, rng).reshape(-1, 2)[0, 0] for _ in range(runs)])
    wrong = [people[0] + rng.laplace(scale=4 / epsilon, size=people[0]).sum() for _ in range(runs)]
    ratio = np.var(right) / np.var(wrong)
    assert 5.0 < ratio < 12.8  # 8, within 5 standard errors of a ratio of variances of 400 draws


def test_no_trials_are_refused():
    with pytest.raises(InvalidParameter):
        read_bins(lambda _: np.zeros((2, 2)), epsilon=1.0, trials=0)
