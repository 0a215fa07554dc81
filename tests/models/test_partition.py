"""Dyadic partitions: the max-edge rule, look-up against plain boxes, and the same bins everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbandits.errors import InvalidParameter
from dpbandits.models.trees.partition import DyadicPartition


def grown(dim, tie, seed, choices):
    partition = DyadicPartition(dim=dim, tie=tie, seed=seed)
    for choice in choices:
        partition.split([partition.leaves[choice % len(partition.leaves)]])
    return partition


partitions = st.builds(
    grown,
    st.integers(1, 4),
    st.sampled_from(["first", "keyed"]),
    st.integers(0, 5),
    st.lists(st.integers(0, 1000), max_size=30),
)


@given(partitions, st.integers(0, 1000))
def test_every_point_lies_in_exactly_the_leaf_it_is_given(partition, seed):
    points = np.random.default_rng(seed).random((50, partition.dim))
    points[:10] = np.round(points[:10] * 4) / 4  # on thresholds and on the border
    low, high = partition.low[partition.leaves], partition.high[partition.leaves]
    inside = (points[:, None] >= low) & ((points[:, None] < high) | (high == 1.0) & (points[:, None] <= 1.0))
    members = inside.all(axis=2)
    assert (members.sum(axis=1) == 1).all()
    assert (partition.leaves[members.argmax(axis=1)] == partition.locate(points)).all()


@given(partitions)
def test_the_list_of_splits_rebuilds_the_partition(partition):
    again = DyadicPartition(
        dim=partition.dim, tie=partition.tie, seed=partition.seed, splits=partition.splits
    )
    for name in ("parent", "left", "right", "split_column", "depth", "threshold", "low", "high", "leaves"):
        assert np.array_equal(getattr(partition, name), getattr(again, name)), name


@given(partitions)
def test_splits_halve_a_longest_edge(partition):
    for node in partition.splits:
        edges = partition.high[node] - partition.low[node]
        column = partition.split_column[node]
        assert edges[column] == edges.max()
        for child in (partition.left[node], partition.right[node]):
            assert partition.parent[child] == node
            volume = np.prod(partition.high[child] - partition.low[child])
            assert volume == np.prod(edges) / 2
    volumes = (partition.high - partition.low)[partition.leaves].prod(axis=1)
    assert volumes.sum() == 1.0


def test_splitting_together_is_splitting_one_after_another():
    together, one = DyadicPartition(dim=2), DyadicPartition(dim=2)
    together.split([0])
    together.split([2, 1])
    for node in (0, 2, 1):
        one.split([node])
    assert np.array_equal(together.low, one.low)
    assert together.splits == one.splits


def test_keyed_ties_depend_on_seed_and_node_only():
    columns = [
        int(DyadicPartition(dim=8, tie="keyed", seed=s, splits=[0]).split_column[0]) for s in range(40)
    ]
    assert len(set(columns)) > 3
    assert columns == [
        int(DyadicPartition(dim=8, tie="keyed", seed=s, splits=[0, 1]).split_column[0]) for s in range(40)
    ]


@pytest.mark.parametrize("splits", [[1], [0, 0], [-1], [0, 7]])
def test_impossible_splits_are_refused(splits):
    with pytest.raises(InvalidParameter):
        DyadicPartition(dim=2, splits=splits)


@pytest.mark.parametrize("arguments", [{"dim": 0}, {"dim": 2.0}, {"dim": 2, "tie": "coin"}])
def test_bad_arguments_are_refused(arguments):
    with pytest.raises(InvalidParameter):
        DyadicPartition(**arguments)


def test_an_edge_too_short_to_halve_is_refused():
    partition = DyadicPartition(dim=1)
    smallest = 0
    for _ in range(52):
        smallest = int(partition.split([smallest])[0, 0])
    with pytest.raises(InvalidParameter, match="too short"):
        partition.split([smallest])


def test_points_are_found_from_any_node_that_holds_them():
    points = np.random.default_rng(0).random((200, 2))
    partition = DyadicPartition(dim=2, splits=[0, 1])
    before = partition.locate(points)
    for _ in range(3):
        partition.split(partition.leaves[::2])
        np.testing.assert_array_equal(partition.locate(points, before), partition.locate(points))
    at = partition.locate(points)
    np.testing.assert_array_equal(partition.locate(points, at), at)
    assert len(partition.locate(points[:0], at[:0])) == 0
