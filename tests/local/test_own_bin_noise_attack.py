"""The attack on noise drawn only for the user's own bin: it must catch that, and nothing else.

Ma2025's public code adds Laplace noise to a bin's sums only for users who fall into it. Seen as a report,
the other bins' entries are exact zeros, and the bin is read off.
"""

import math

import numpy as np
import pytest

from dpbandits.privacy.frequency import MECHANISMS, PaperLaplace, mechanism

N_CELLS = 8
TRIALS = 4000


def own_bin_report(rng, cell, epsilon):
    """What leaves, in effect, under the public code: (n_cells, 2) sums U and V."""
    report = np.zeros((N_CELLS, 2))
    report[cell] = 1.0 + rng.laplace(scale=4 / epsilon, size=2)
    return report


def read_bin(report, first, second):
    """Which of two bins the report points at: the one whose entries are not all zero, else a coin's."""
    marks = [np.abs(report[cell]).sum() for cell in (first, second)]
    if (marks[0] > 0) != (marks[1] > 0):
        return first if marks[0] > 0 else second
    return first if marks[0] >= marks[1] else second


def accuracy(draw, seed):
    rng = np.random.default_rng(seed)
    hits = 0
    for _ in range(TRIALS):
        truth = int(rng.integers(2))
        hits += read_bin(draw(rng, truth), 0, 1) == truth
    return hits / TRIALS


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_the_attack_reads_every_bin_from_own_bin_noise(epsilon):
    bound = math.exp(epsilon) / (1 + math.exp(epsilon))
    won = accuracy(lambda rng, cell: own_bin_report(rng, cell, epsilon), seed=1)
    assert won == 1.0
    assert won > bound


@pytest.mark.parametrize("name", sorted(MECHANISMS))
def test_the_attack_stays_below_the_bound_on_honest_reports(name):
    epsilon = 1.0
    one = mechanism(name, n_cells=N_CELLS, epsilon=epsilon)

    def draw(rng, cell):
        words = lambda n: rng.integers(0, 1 << 64, size=n, dtype=np.uint64)  # noqa: E731
        record = np.frombuffer(one.encode(cell, positive=True, words=words), np.uint8)[None]
        signed, count = one.estimate(one.aggregate(record), 1)
        return np.stack([signed, count], axis=1)

    bound = math.exp(epsilon) / (1 + math.exp(epsilon))
    # one-sided, false alarm below 1e-7
    assert accuracy(draw, seed=2) < bound + 5.2 * math.sqrt(bound * (1 - bound) / TRIALS)


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
