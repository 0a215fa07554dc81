"""Finite: exact membership, and the row numbers that go with it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from dpbandits.domains import Domain, Finite, from_config
from dpbandits.errors import InvalidData, InvalidParameter

# Few distinct values, so that rows share columns, and signed zeros come up.
values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 0.1, 1e-300, 1e30, 2.0**53])
pools = hnp.arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 3)), elements=values)


@given(pools, st.integers(0, 2**32))
def test_membership_and_index_agree_with_brute_force(array, seed):
    members = np.unique(array + 0.0, axis=0)
    pool = Finite(points=members)
    rng = np.random.default_rng(seed)
    others = rng.choice([0.0, -0.0, 1.0, 0.1, 0.1 + 2e-17, 0.3, np.nan, np.inf], size=(30, pool.dim))
    queries = np.concatenate([others, pool.sample(10, rng)])
    expected = (queries[:, None, :] == members[None]).all(axis=2)
    np.testing.assert_array_equal(pool.contains(queries), expected.any(axis=1))
    hits = queries[expected.any(axis=1)]
    np.testing.assert_array_equal(pool.index(hits), expected.argmax(axis=1)[expected.any(axis=1)])


def test_index_keeps_the_order_of_the_points_and_the_leading_shape():
    points = np.random.default_rng(3).random((500, 4))
    pool = Finite(points=points)
    order = np.random.default_rng(4).permutation(500)
    np.testing.assert_array_equal(pool.index(points[order].reshape(5, 100, 4)), order.reshape(5, 100))
    assert pool.n_points == 500
    assert isinstance(pool, Domain)


def test_nearly_a_member_is_none():
    pool = Finite(points=[[1.0, 2.0], [-3.0, 0.0]])
    near = [[1.0, 2.0], [1.0, np.nextafter(2.0, 3.0)], [np.nan, 2.0], [np.inf, 2.0], [-3.0, -0.0]]
    np.testing.assert_array_equal(pool.contains(near), [True, False, False, False, True])


@given(pools)
def test_clip_finds_the_nearest_member(array):
    pool = Finite(points=np.unique(np.clip(array, -2, 2) + 0.0, axis=0))
    queries = np.random.default_rng(0).normal(size=(3, 5, pool.dim))
    clipped = pool.clip(queries)
    assert pool.contains(clipped).all()
    distances = np.linalg.norm(queries[..., None, :] - pool.points, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(queries - clipped, axis=-1), distances.min(axis=-1))


def test_sample_is_uniform():
    pool = Finite(points=np.arange(5.0)[:, None])
    counts = np.bincount(pool.index(pool.sample(50_000, np.random.default_rng(2))), minlength=5)
    # Binomial sd 89 around 10,000; 6 sd and 5 cells: false alarms below 1e-8 (seed fixed).
    assert np.abs(counts - 10_000).max() < 6 * 89.5


def test_config_and_equality():
    pool = Finite(points=[[0.1, -0.0], [2.0, 3.0]])
    assert from_config(pool.to_config()) == pool
    assert hash(from_config(pool.to_config())) == hash(pool)
    assert pool != Finite(points=[[2.0, 3.0], [0.1, 0.0]])  # the order is part of it
    assert pool != "pool"
    assert repr(pool) == "Finite(2 points in 2 dimensions)"


@pytest.mark.parametrize(
    "points", [[], [[]], [1.0, 2.0], [[1.0], [np.nan]], [[0.0], [-0.0]], [["a"]], [[1, 2], [1]]]
)
def test_bad_points_are_refused(points):
    with pytest.raises(InvalidParameter):
        Finite(points=points)


@pytest.mark.parametrize(
    "points", [[[777.25, 1.0]], [[np.nan, 1.0]], [[777.25]], [777.25], [["777.25", "1"]]]
)
def test_strangers_are_refused_without_showing_them(points):
    pool = Finite(points=[[0.0, 1.0]])
    for method in (pool.validate, pool.index):
        with pytest.raises(InvalidData) as caught:
            method(points)
        assert "777" not in str(caught.value)
