"""Messages on the tree against the dense Gaussian they stand for."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dpbandits.models.trees.messages import (
    Gaussians,
    downward,
    log_evidence,
    path_codes,
    shrunk,
    spreads,
    upward,
)
from dpbandits.models.trees.partition import DyadicPartition


def grown_tree(seed, n_splits, dim=2):
    rng, partition = np.random.default_rng(seed), DyadicPartition(dim=dim)
    for _ in range(n_splits):
        partition.split([rng.choice(partition.leaves)])
    return partition


def tree_covariance(partition, root_variance, steps):
    """Covariance of all nodes of a tree process."""
    n = partition.n_nodes
    paths = np.zeros((n, n))
    for node in range(n):
        at = node
        while at >= 0:
            paths[node, at] = 1.0
            at = partition.parent[at]
    variance = steps.copy()
    variance[0] = root_variance
    return paths @ np.diag(variance) @ paths.T


def random_evidence(partition, seed, n_arms=2, share=0.7):
    rng = np.random.default_rng(seed)
    precision = rng.gamma(2.0, 2.0, (partition.n_nodes, n_arms)) * (
        rng.random((partition.n_nodes, n_arms)) < share
    )
    return Gaussians(precision, precision * rng.normal(size=precision.shape))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 12))
def test_down_and_up_together_are_the_exact_posterior(seed, n_splits):
    partition, child_sd = grown_tree(seed, n_splits), 0.7
    local = random_evidence(partition, seed)
    below = upward(partition, local, child_sd=child_sd)
    root = Gaussians(np.full(2, 4.0), np.full(2, 2.0))
    down = downward(partition, root=root, local=local, below=below, child_sd=child_sd)
    whole = down + below
    prior = tree_covariance(partition, 0.25, spreads(partition, child_sd))
    for arm in range(2):
        precision = np.linalg.inv(prior) + np.diag(local.precision[:, arm])
        moment = np.linalg.inv(prior) @ np.full(partition.n_nodes, 0.5) + local.moment[:, arm]
        covariance = np.linalg.inv(precision)
        assert np.allclose(1.0 / whole.precision[:, arm], np.diag(covariance))
        assert np.allclose(whole.moment[:, arm] / whole.precision[:, arm], covariance @ moment)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 10))
def test_evidence_is_the_dense_one_up_to_a_constant(seed, n_splits):
    partition = grown_tree(seed, n_splits)
    observed = random_evidence(partition, seed + 1)
    base = spreads(partition, 0.5)

    def dense(scale):
        prior = tree_covariance(partition, scale * base[0], scale * base)
        total = 0.0
        for arm in range(2):
            seen = observed.precision[:, arm] > 0
            noise = np.diag(1.0 / observed.precision[seen, arm])
            covariance = prior[np.ix_(seen, seen)] + noise
            values = observed.moment[seen, arm] / observed.precision[seen, arm]
            total -= 0.5 * (np.linalg.slogdet(covariance)[1] + values @ np.linalg.solve(covariance, values))
        return total

    def fast(scale):
        scales = np.array([scale, 9.0])
        return log_evidence(
            partition, observed, root_variance=scales * base[0], variance=scales[:, None] * base
        )[0]

    assert np.isclose(fast(1.0) - fast(0.0), dense(1.0) - dense(0.0))
    assert np.isclose(fast(3.0) - fast(0.2), dense(3.0) - dense(0.2))


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.integers(1, 3))
def test_equal_codes_mean_equal_boxes(first, second, dim):
    one, other = grown_tree(first, 15, dim), grown_tree(second, 15, dim)
    codes = {int(code): node for node, code in enumerate(path_codes(one))}
    for node, code in enumerate(path_codes(other)):
        if int(code) in codes:
            assert np.array_equal(one.low[codes[int(code)]], other.low[node])
            assert np.array_equal(one.high[codes[int(code)]], other.high[node])
    assert len(codes) == one.n_nodes


def test_bins_too_deep_for_a_code_have_none():
    partition = DyadicPartition(dim=2)
    for _ in range(70):
        partition.split([partition.leaves[0]])
    codes = path_codes(partition)
    assert (codes[partition.depth > 61] == 0).all()
    assert (codes[partition.depth <= 61] > 0).all()


def test_silence_stays_silent():
    partition = grown_tree(0, 6)
    nothing = Gaussians.silent((partition.n_nodes, 3))
    assert not upward(partition, nothing, child_sd=0.5).precision.any()
    assert not shrunk(nothing, 1.0).precision.any()
