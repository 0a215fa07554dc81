"""The joint law across actions as plain numbers, against dense computations."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.stats import multivariate_normal

from dpbandits.domains import Arms, Box, Product
from dpbandits.errors import InvalidParameter
from dpbandits.models import features
from dpbandits.models.marginals import EffectFeatures, Effects
from dpbandits.models.marginals.action_basis import ActionBasis
from dpbandits.models.marginals.action_features import ActionFeatures
from dpbandits.models.marginals.actions import (
    COLUMNS_THAT_MATTER,
    MANY_COLUMNS,
    ActionEffects,
    ActionWeights,
    BinSums,
    evidence_of,
)
from dpbandits.models.marginals.inclusion import LEAST

pytestmark = pytest.mark.numerics

BASIS = ActionBasis((7, 3), (True, False))
ACROSS = ActionEffects.of(Effects.of([None, 3]), BASIS)


def _people(count=30):
    rng = np.random.default_rng(4)
    levels = np.column_stack([rng.integers(24, size=count), rng.integers(3, size=count)])
    return levels, ACROSS.effects(levels), rng


def test_the_basis_is_a_constant_then_centred_functions_of_every_column():
    table = BASIS.table
    assert table.shape == (21, len(BASIS.term_of))
    np.testing.assert_array_equal(table[:, 0], 1.0)
    np.testing.assert_allclose(table[:, 1:].mean(axis=0), 0.0, atol=1e-12)
    for term in (1, 2):
        assert (table[:, BASIS.term_of == term] ** 2).mean(axis=0).sum() == pytest.approx(1.0)
    assert BASIS.grid[1].tolist() == [0, 1]  # the last column's steps vary fastest


def test_bins_join_neighbours_and_keep_categories_apart():
    assert ActionBasis((20,), (True,)).bins(5).tolist() == [step // 4 for step in range(20)]
    bins = BASIS.bins(9)
    assert len(set(bins.tolist())) == bins.max() + 1
    for code in range(int(bins.max()) + 1):
        assert len(set(BASIS.grid[bins == code, 1].tolist())) == 1


def test_weights_of_every_action_predict_as_products_of_features_do():
    _, phi, rng = _people()
    weights = rng.normal(size=(2, ACROSS.n_weights))
    per_action = ACROSS.of_actions(weights)
    for action in (0, 8, 20):
        psi = np.tile(BASIS.table[action], (len(phi), 1))
        np.testing.assert_allclose(
            ACROSS.products(phi, psi) @ weights.T, phi @ per_action[:, action].T, atol=1e-12
        )


def test_the_average_over_users_is_the_mean_of_the_function_and_of_its_draws():
    _, phi, rng = _people()
    law = ActionWeights(
        rng.normal(size=ACROSS.n_weights), rng.normal(size=(ACROSS.n_weights,) * 2), ACROSS.prior
    )
    average = ACROSS.averaged(law, phi.mean(axis=0))
    for before, after in ((law.mean, average.mean), (law.factor[:, 3], average.factor[:, 3])):
        expected = (phi @ ACROSS.of_actions(before).T).mean(axis=0)
        np.testing.assert_allclose(
            phi @ ACROSS.of_actions(after).T, np.tile(expected, (len(phi), 1)), atol=1e-9
        )


def test_the_posterior_is_that_of_the_dense_regression_on_all_bins():
    """Maps within bins, the shared errors of counts and the prior, in one dense computation."""
    levels, phi, rng = _people()
    cells_of = levels[:, 1]
    cells = csr_array((np.ones(30), (cells_of, np.arange(30))), shape=(3, 30))
    given = rng.uniform(0.0, 2.0, size=(30, 21))
    bins, weights = BASIS.bins(6), ACROSS.n_weights
    count = int(bins.max()) + 1
    errors, maps = rng.normal(size=(count, 3, 3)), list(ACROSS.maps(cells, given, phi, bins))
    noise = [np.diag(rng.uniform(1.0, 3.0, size=3)) + 0.3 for _ in range(count)]
    sums = rng.normal(size=(count, 3))
    told = (BinSums(maps[b], noise[b], sums[b], errors[b]) for b in range(count))
    precision, shift = evidence_of(told, weights=weights, errors=3)
    found = ActionWeights.of(ACROSS, precision, shift, ACROSS.prior)

    dense = np.zeros((count * 3, weights))
    for b in range(count):
        for person in range(30):
            for action in np.flatnonzero(bins == b):
                row = ACROSS.products(phi[person : person + 1], BASIS.table[action : action + 1])[0]
                dense[3 * b + cells_of[person]] += given[person, action] * row
    stacked = errors.reshape(-1, 3)
    covariance = stacked @ stacked.T
    for b in range(count):
        covariance[3 * b : 3 * b + 3, 3 * b : 3 * b + 3] += noise[b]
    prior = np.diag(ACROSS.variances(ACROSS.prior))
    gain = prior @ dense.T @ np.linalg.inv(dense @ prior @ dense.T + covariance)
    np.testing.assert_allclose(found.mean, gain @ sums.ravel(), atol=1e-9)
    np.testing.assert_allclose(found.factor @ found.factor.T, prior - gain @ dense @ prior, atol=1e-9)


def test_learned_variances_follow_the_squares():
    small, large = (ACROSS.learned(np.full(ACROSS.n_weights, own)) for own in (1e-6, 1.0))
    assert (small < ACROSS.prior).all()
    assert (large > ACROSS.prior).all()


WIDE = ActionEffects(Effects((2,) * 9 + (3,), (False,) * 10, ((0, 1), (1, 4))), ActionBasis((4,), (True,)))


def _told(matter, *, rows=400, sd=0.3):
    """Precision and shift of the weights of `WIDE` from single outcomes, which some columns decide."""
    rng = np.random.default_rng(5)
    levels = np.column_stack([rng.integers(0, size, rows) for size in WIDE.effects.sizes])
    phi = WIDE.products(WIDE.effects(levels), WIDE.basis.table[rng.integers(4, size=rows)])
    weights = np.zeros(WIDE.n_weights)
    for column in matter:
        own, alone = WIDE.holds(column)
        weights[own[alone]] = rng.choice([-0.15, 0.15], alone.sum())
    outcomes = phi @ weights + sd * rng.standard_normal(rows)
    return phi.T @ phi / sd**2, phi.T @ outcomes / sd**2


def test_the_probability_that_a_column_matters_is_the_evidence_for_it_against_none():
    precision, shift = _told(matter=(1,), rows=40)
    found = ActionWeights.fitted(WIDE, precision, shift, WIDE.prior, steps=1)
    before = COLUMNS_THAT_MATTER / 10
    used = WIDE.variances(WIDE.prior * WIDE.shares(np.full(10, before)))

    def log_evidence(variances):
        covariance = precision + precision * variances @ precision
        return multivariate_normal.logpdf(shift, cov=covariance, allow_singular=True)

    for column in range(10):
        own, _ = WIDE.holds(column)
        with_it, without = used.copy(), used.copy()
        with_it[own], without[own] = with_it[own] / before, 1e-12 * without[own]
        odds = before / (1.0 - before) * np.exp(log_evidence(with_it) - log_evidence(without))
        expected = np.clip(odds / (1.0 + odds), LEAST, 1.0 - LEAST)
        assert found.included[column] == pytest.approx(expected, rel=1e-3)


def test_columns_that_matter_are_found_and_others_are_shrunk():
    told = _told(matter=(1, 9), rows=2_000)
    found = ActionWeights.fitted(WIDE, *told, WIDE.prior, steps=15)
    assert set(np.flatnonzero(found.included > 0.9)) == {1, 9}
    plain = ActionWeights.of(WIDE, *told, found.variances)
    others = WIDE.holds(6)[0]
    assert (found.mean[others] ** 2).sum() < 0.5 * (plain.mean[others] ** 2).sum()


def test_an_interaction_needs_both_of_its_columns_and_few_columns_all_matter():
    shares = WIDE.variances(WIDE.shares(np.linspace(0.1, 1.0, 10)))
    both = np.intersect1d(WIDE.holds(0)[0], WIDE.holds(1)[0])
    assert len(both) > 0
    np.testing.assert_allclose(shares[both], 0.1 * 0.2)
    assert ActionEffects(Effects.of([2] * MANY_COLUMNS), WIDE.basis).included is None
    few = ActionWeights.fitted(
        ACROSS, np.eye(ACROSS.n_weights), np.ones(ACROSS.n_weights), ACROSS.prior, steps=3
    )
    assert few.included is None


def test_interactions_of_contexts_are_left_out_where_they_do_not_fit_and_too_many_columns_are_refused():
    basis = ActionBasis((20,), (True,))
    many = ActionEffects.of(Effects.of([None] * 9), basis)
    assert many.n_weights <= 1_200
    assert ActionEffects.of(Effects.of([300]), basis).n_weights <= 1_200  # three cosines of the action fit
    with pytest.raises(InvalidParameter, match="take fewer"):
        ActionEffects.of(Effects.of([700]), basis)


def test_features_are_short_and_survive_their_configuration():
    domain = Product(Box(low=[0], high=[1]), Arms(3))
    own = ActionFeatures(base=EffectFeatures(domain=domain), sizes=(7, 3), ordered=(True, False))
    rng = np.random.default_rng(0)
    points = np.column_stack([rng.random(200), rng.integers(3, size=200), rng.integers(21, size=200)])
    phi = own(points)
    assert np.linalg.norm(phi, axis=1).max() <= 1.0
    again = features.from_config(own.to_config())
    np.testing.assert_array_equal(again(points), phi)
    weights = rng.normal(size=own.n_features)
    per_action = own.of_actions(weights)[points[:, -1].astype(int)]
    np.testing.assert_allclose((own.base(points[:, :-1]) * per_action).sum(axis=1), phi @ weights, atol=1e-12)
