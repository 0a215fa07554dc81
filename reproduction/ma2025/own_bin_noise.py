"""Attack on reports with noise in the user's own bin only.

Ma2025's public code adds Laplace noise to a bin's sums only for users who fall into it. Seen as a report,
every other bin's entries are exactly zero, which reveals the bin. The attacker knows that the user is in one
of two bins, which are equally likely, and guesses one. If reports are epsilon-locally private, at most a
share e^epsilon/(1 + e^epsilon) of the guesses of any attacker is right. The noise itself is
`dpbandits.audit.catalogue.broken.own_bin_noise`.
"""

import math
from collections.abc import Callable

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.attacks.guesses import Guesses
from dpbandits.errors import InvalidParameter

__all__ = ["read_bins"]


def read_bins(
    draw: Callable[[int], FloatArray], *, epsilon: float, trials: int = 4000, seed: int = 0
) -> Guesses:
    """Read the bin off reports of users of bin 0 or bin 1.

    Args:
        draw: bin -> (n_cells, k) what a report of a user of that bin says of every bin.
        epsilon: Claimed epsilon of the report.
        trials: number of reports.
        seed: Seed of the fair coins that choose the bin.

    Raises:
        InvalidParameter: no trial.
    """
    if trials < 1:
        raise InvalidParameter("trials: expected at least one")
    truth = np.random.default_rng(seed).integers(2, size=trials)
    correct = sum(_named(draw(int(bin_))) == bin_ for bin_ in truth)
    return Guesses(trials=trials, correct=int(correct), bound=1.0 / (1.0 + math.exp(-epsilon)))


def _named(report: FloatArray) -> int:
    """The bin that alone has entries other than zero; else the one whose entries add up to more."""
    silent = (report[:2] == 0.0).all(axis=1)
    if silent[0] != silent[1]:
        return int(silent[0])
    return int(report[1].sum() > report[0].sum())
