"""The posterior from sums in cells, held against regression on single points."""

import numpy as np
import pytest

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.cell_regression import posterior_from_cells
from dpbandits.models.noisy_regression import WeightPosterior

pytestmark = pytest.mark.numerics

M = 3
PRIOR = WeightPosterior.prior(0.5, ((0, M),))


def blocks(k=2, c=4, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "sums": rng.standard_normal((k, c)),
        "counts": rng.integers(1, 20, (k, c)).astype(float),
        "features": rng.standard_normal((k, c, M)) / 3,
    }


def test_it_is_the_normal_equations():
    found = blocks()
    law = posterior_from_cells(**found, noise_sd=1.5, prior=PRIOR)
    rows = (found["counts"][..., None] * found["features"]).reshape(-1, M)
    weight = 1.0 / (found["counts"].ravel() / 4.0 + 1.5**2)
    precision = rows.T @ (weight[:, None] * rows) + np.eye(M) / 0.5
    np.testing.assert_allclose(law.covariance, np.linalg.inv(precision))
    np.testing.assert_allclose(
        law.mean, np.linalg.solve(precision, rows.T @ (weight * found["sums"].ravel()))
    )


def test_one_person_a_cell_without_noise_is_regression_on_rewards():
    rng = np.random.default_rng(1)
    phi, z = rng.standard_normal((1, 30, M)) / 3, rng.standard_normal((1, 30))
    law = posterior_from_cells(z, counts=np.ones((1, 30)), features=phi, noise_sd=0.0, prior=PRIOR)
    exact = PRIOR.given([phi[0].T @ phi[0]], phi[0].T @ z[0], reward_variance=0.25)
    np.testing.assert_allclose(law.mean, exact.mean)
    np.testing.assert_allclose(law.covariance, exact.covariance)


def test_blocks_may_come_in_two_parts():
    found = blocks(k=3)
    whole = posterior_from_cells(**found, noise_sd=1.0, prior=PRIOR, count_error=0.2)
    first, rest = ({name: part[s] for name, part in found.items()} for s in (slice(1), slice(1, 3)))
    law = posterior_from_cells(**first, noise_sd=1.0, prior=PRIOR, count_error=0.2)
    law = posterior_from_cells(**rest, noise_sd=1.0, prior=law, count_error=0.2)
    np.testing.assert_allclose(law.mean, whole.mean)
    np.testing.assert_allclose(law.covariance, whole.covariance)


def test_counts_that_may_be_wrong_make_less_sure_and_most_where_least_is_known():
    """The first block's variance grows by (a n)^2 times the prior's variance of the cell."""
    found = blocks(k=1)
    law = posterior_from_cells(**found, noise_sd=0.5, prior=PRIOR, count_error=0.3)
    counts, features = found["counts"][0], found["features"][0]
    rows = counts[:, None] * features
    variance = counts / 4.0 + 0.25 + (0.3 * counts) ** 2 * 0.5 * (features**2).sum(axis=1)
    precision = rows.T @ (rows / variance[:, None]) + np.eye(M) / 0.5
    np.testing.assert_allclose(law.covariance, np.linalg.inv(precision))


def test_a_cell_without_people_says_nothing():
    found = blocks()
    found["counts"][:, 1] = 0.0
    law = posterior_from_cells(**found, noise_sd=0.0, prior=PRIOR)
    found["sums"][:, 1] = 99.0
    np.testing.assert_array_equal(posterior_from_cells(**found, noise_sd=0.0, prior=PRIOR).mean, law.mean)


@pytest.mark.parametrize("name", ["sums", "counts", "features"])
def test_what_does_not_fit_is_refused(name):
    for wrong in (lambda part: part[:, :2], lambda part: np.full_like(part, np.nan)):
        found = blocks()
        found[name] = wrong(found[name])
        with pytest.raises(InvalidData):
            posterior_from_cells(**found, noise_sd=1.0, prior=PRIOR)
    found = blocks()
    with pytest.raises(InvalidData):
        posterior_from_cells(**(found | {"counts": -found["counts"]}), noise_sd=1.0, prior=PRIOR)
    for wrong in ({"noise_sd": -1.0}, {"count_error": np.inf}):
        with pytest.raises(InvalidParameter):
            posterior_from_cells(**found, **({"noise_sd": 1.0} | wrong), prior=PRIOR)
