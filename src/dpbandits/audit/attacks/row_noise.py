"""The strongest attack on noise on rows: which of two positions a row has, by the larger likelihood.

By the Neyman-Pearson lemma no other test is better, so its success rate is what epsilon must bound.
"""

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.audit.attacks.guesses import Guesses
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows import RowMechanism

__all__ = ["likelihood_attack"]


def likelihood_attack(
    mechanism: RowMechanism, first: FloatArray, second: FloatArray, *, noise: NoiseSource, trials: int
) -> Guesses:
    """Guess which of two positions a row has, from its release, by the larger likelihood.

    Args:
        mechanism: what is attacked.
        first: (d,) one position.
        second: (d,) the other.
        noise: source of the releases; each trial is one row.
        trials: releases of each position.
    """
    points = np.array([first, second], dtype=np.float64)
    released = mechanism.privatize(np.repeat(points, trials, axis=0), noise)
    images = [_image(mechanism, point) for point in points]
    scores = mechanism.law.log_density(released - images[0]) - mechanism.law.log_density(released - images[1])
    ties = np.where(scores == 0.0, 0.5, scores > 0.0)
    correct = float(ties[:trials].sum() + (1.0 - ties[trials:]).sum())
    bound = mechanism.certificate_at(float(np.linalg.norm(points[0] - points[1]))).membership_bound()
    return Guesses(trials=2 * trials, correct=correct, bound=bound)


def _image(mechanism: RowMechanism, point: FloatArray) -> FloatArray:
    """Where the mechanism's noise is centred for a row: the row, or its cell's centre."""
    config = mechanism.to_config()
    if config["type"] == "randomised_response":
        side = 2.0 * config["half_width"] / config["cells_per_dimension"]
        cell = np.clip(np.floor((point + config["half_width"]) / side), 0, config["cells_per_dimension"] - 1)
        return np.asarray((cell + 0.5) * side - config["half_width"])
    return point
