"""Features and Gram matrices by support are those of the dense vectors, without their zeros."""

import warnings

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits.audit.catalogue.parts import AxisFeatures
from dpbandits.domains import Arms, Box, Product
from dpbandits.models.decision_sets import PublicSets, uniform_decision_sets
from dpbandits.models.features import ArmFeatures, MercerFeatures, Placed, blocks_of

RNG = np.random.default_rng(3)
BOX = Box(low=[0, 0], high=[1, 1])
BASE = MercerFeatures(kernel=dpb.kernels.Matern(nu=2.5, lengthscale=0.5), domain=BOX, n_features=5, scale=1.0)
ARMS = ArmFeatures(base=BASE, arm_column=2, n_arms=4)
NESTED = ArmFeatures(base=ARMS, arm_column=3, n_arms=2)
DOMAIN = Product(BOX, Arms(4))


def points(n, columns):
    return np.column_stack([RNG.random((n, 2)), *(RNG.integers(k, size=n) for k in (4, 2)[: columns - 2])])


CASES = [(BASE, 2), (ARMS, 3), (NESTED, 4)]


@pytest.mark.parametrize(("features", "columns"), CASES)
def test_sums_by_support_are_the_dense_ones(features, columns):
    rows, values = points(60, columns), RNG.standard_normal(60)
    phi, placed = features(rows), features.placed(rows)
    assert placed.phi.shape == (60, 5)
    dense = phi.T @ phi
    for (low, high), block in zip(
        features.supports, blocks_of(placed.gram(features.supports), features.supports), strict=True
    ):
        assert block == pytest.approx(dense[low:high, low:high], abs=1e-12)
    assert placed.vector(features.supports, values) == pytest.approx(phi.T @ values, abs=1e-12)


def test_a_map_that_says_nothing_of_its_structure_is_split_by_its_zeros():
    features = AxisFeatures(5)
    rows = np.column_stack([RNG.integers(5, size=30), RNG.uniform(0.1, 1, 30)]).astype(float)
    placed = features.placed(rows)
    assert placed.phi.shape == (30, 1)
    assert np.array_equal(placed.support, rows[:, 0])
    assert np.array_equal(placed.phi[:, 0], rows[:, 1])
    assert placed.gram(features.supports) == pytest.approx((features(rows) ** 2).sum(axis=0))


def test_no_rows_add_nothing():
    nothing = Placed(np.zeros(0, dtype=np.int64), np.zeros((0, 5)))
    assert not nothing.gram(ARMS.supports).any()
    assert not nothing.vector(ARMS.supports, np.zeros(0)).any()


@pytest.mark.parametrize(("features", "domain"), [(BASE, BOX), (ARMS, DOMAIN)])
def test_public_sets_choose_and_sum_as_dense_features_do(features, domain):
    sets = uniform_decision_sets(domain, n_sets=30, n_candidates=6, seed=1)
    public, phi = PublicSets(features, sets), features(sets)
    weights = RNG.standard_normal((30, features.n_features))
    best = np.einsum("snm,sm->sn", phi, weights).argmax(axis=1)
    chosen = phi[np.arange(30), best]
    every = phi.reshape(-1, features.n_features)
    for flat, rows in ((public.mean_gram_uniform(), every), (public.mean_gram_of_best(weights), chosen)):
        dense = rows.T @ rows / len(rows)
        for (low, high), block in zip(features.supports, blocks_of(flat, features.supports), strict=True):
            assert block == pytest.approx(dense[low:high, low:high], abs=1e-12)


@pytest.mark.parametrize("arm_column", [0, 2])
def test_scores_are_the_dense_ones_and_those_of_a_set_depend_on_it_alone(arm_column):
    features = ArmFeatures(base=BASE, arm_column=arm_column, n_arms=4)
    sets = uniform_decision_sets(DOMAIN, n_sets=7, n_candidates=4, seed=2)  # a context beside every arm
    sets[3:5, :, :2] = RNG.random((2, 4, 2))  # a context of its own for every row
    sets[5] = sets[5, [2, 0, 0, 1]]
    sets = np.ascontiguousarray(np.roll(sets, 1, axis=2) if arm_column == 0 else sets)
    weights = RNG.standard_normal((7, features.n_features))
    ready = features.to_score(weights)
    scores = features.scores_of_known(sets, ready)
    assert scores == pytest.approx(features.project_each(sets, weights), abs=1e-9)
    kept = [0, 3, 5]
    assert features.scores_of_known(sets[kept], ready[kept]) == pytest.approx(scores[kept], abs=1e-14)
    alone = [features.scores_of_known(sets[one : one + 1], ready[one : one + 1])[0] for one in range(7)]
    assert np.array(alone) == pytest.approx(scores, abs=1e-14)


@pytest.mark.parametrize(("dim", "nu"), [(1, 2.5), (3, 0.5), (5, 1.5)])  # of one column nothing is cut
def test_nobodys_scores_depend_on_what_others_are_offered(dim, nu):
    box = Box(low=[0] * dim, high=[1] * dim)
    with warnings.catch_warnings(action="ignore"):  # few features hold little of a rough kernel
        base = MercerFeatures(kernel=dpb.kernels.Matern(lengthscale=0.4, nu=nu), domain=box, n_features=10)
    features, rng = ArmFeatures(base=base, arm_column=dim, n_arms=4), np.random.default_rng(5)
    for n_sets in (1, 2, 3, 6, 17, 31):
        contexts = np.repeat(rng.random((n_sets, 1, dim)), 4, axis=1)
        sets = np.concatenate([contexts, np.tile(np.arange(4.0)[None, :, None], (n_sets, 1, 1))], axis=2)
        weights = features.to_score(rng.standard_normal((n_sets, features.n_features)))
        scores = features.scores_of_known(sets, weights)
        other, longer = sets.copy(), np.concatenate([sets, np.zeros((n_sets, 3, dim + 1))], axis=1)
        other[0, :, :dim] = rng.random((4, dim))
        assert np.array_equal(features.scores_of_known(other, weights)[1:], scores[1:])
        assert np.array_equal(features.scores_of_known(longer, weights)[:, :4], scores)
        alone = [features.scores_of_known(sets[i : i + 1], weights[i : i + 1])[0] for i in range(n_sets)]
        assert np.array_equal(alone, scores)
