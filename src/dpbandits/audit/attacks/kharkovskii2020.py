"""Attacks on released tables: on the published transformation they win outright, on ours they do not.

- `recover_rows`: knows d + 1 (or more) rows in general position and which released rows they are; solves
  for the linear map and inverts it. Kharkovskii2020's Z = X_c A is linear in the centred rows, so this
  returns every row, to rounding.
- `distinguish_by_column_space`: knows the whole table up to one row's candidates; a candidate is accepted
  when Z lies in its column space.
- `likelihood_attack`: the strongest test between two positions of one row, for mechanisms with noise on
  rows. By the Neyman-Pearson lemma no other test is better, so its success rate is what epsilon must bound.
"""

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.audit.attacks.guesses import Guesses
from dpbandits.errors import InvalidData
from dpbandits.privacy.noise import NoiseSource
from dpbandits.privacy.rows import RowMechanism

__all__ = ["distinguish_by_column_space", "likelihood_attack", "recover_rows", "recovery_error"]


def recover_rows(released: FloatArray, known: IntArray, rows: FloatArray) -> FloatArray:
    """All rows (n, d) of a table from its release and some known rows.

    Args:
        released: Z (n, r).
        known: (k,) numbers of the rows that the attacker knows, k >= d + 1.
        rows: (k, d) what they are.

    Returns:
        (n, d) estimates: exact when Z = X_c A for any A of full row rank.
    """
    places, positions = np.asarray(known), np.asarray(rows, dtype=np.float64)
    if len(places) != len(positions) or len(places) < positions.shape[1] + 1:
        raise InvalidData(
            f"the attack needs at least {positions.shape[1] + 1} known rows in {positions.shape[1]} columns"
        )
    centre, image = positions.mean(axis=0), released[places].mean(axis=0)
    linear = np.linalg.lstsq(positions - centre, released[places] - image, rcond=None)[0]
    return np.asarray((released - image) @ np.linalg.pinv(linear) + centre)


def recovery_error(released: FloatArray, table: FloatArray, known: IntArray) -> float:
    """Largest error of `recover_rows` over all coordinates of all rows, relative to the table's spread."""
    recovered = recover_rows(released, known, table[known])
    return float(np.abs(recovered - table).max() / np.ptp(table, axis=0).max())


def distinguish_by_column_space(
    released: FloatArray, candidate: FloatArray, *, tolerance: float = 1e-9
) -> bool:
    """Whether a release can have come from a candidate table: its columns in the candidate's column space."""
    basis, _ = np.linalg.qr(candidate - candidate.mean(axis=0))
    outside = released - basis @ (basis.T @ released)
    return bool(np.linalg.norm(outside) < tolerance * np.linalg.norm(released))


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
    """Where the mechanism's noise is centred for a row: the row, its projection, or its cell's centre."""
    config = mechanism.to_config()
    if config["type"] == "gaussian" and config["projection"] is not None:
        return np.asarray(np.asarray(config["projection"]) @ point)
    if config["type"] == "randomised_response":
        side = 2.0 * config["half_width"] / config["cells_per_dimension"]
        cell = np.clip(np.floor((point + config["half_width"]) / side), 0, config["cells_per_dimension"] - 1)
        return np.asarray((cell + 0.5) * side - config["half_width"])
    return point
