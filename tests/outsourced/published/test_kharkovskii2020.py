"""The published transformation is reproduced, refuses to be used by accident, and falls to its attacks."""

import numpy as np
import pytest

from dpbandits.audit.attacks.po_gp_ucb import distinguish_by_column_space, recover_rows, recovery_error
from dpbandits.errors import BrokenMechanism, InvalidData, InvalidParameter
from dpbandits.outsourced.published.kharkovskii2020 import PublishedTransform, singular_value_threshold


def transform(epsilon, seed=0, dimension=10):
    return PublishedTransform(
        epsilon=epsilon, delta=1e-5, dimension=dimension, seed=seed, acknowledge_broken=True
    )


def table(seed=0, n=1000, d=2):
    """Uniform rows whose smallest singular value lies near 490 (n = 1000, side 50)."""
    return np.random.default_rng(seed).uniform(-25, 25, (n, d))


def test_it_refuses_without_the_acknowledgement():
    with pytest.raises(BrokenMechanism, match="d \\+ 1 rows"):
        PublishedTransform(epsilon=1.0, delta=1e-5)
    with pytest.raises(BrokenMechanism):
        PublishedTransform(epsilon=1.0, delta=1e-5, acknowledge_broken=1)
    guarantee = transform(1.0).guarantee
    assert guarantee.status == "broken"
    assert "column space" in guarantee.attack
    assert "BROKEN" in guarantee.explain()


def test_the_threshold_is_the_printed_one():
    expected = 16 * np.sqrt(10 * np.log(2e5)) * np.log(16 * 10 / 1e-5) / 3.0
    assert singular_value_threshold(epsilon=3.0, delta=1e-5, dimension=10) == pytest.approx(expected)
    with pytest.raises(InvalidParameter):
        singular_value_threshold(epsilon=0.0, delta=1e-5, dimension=10)


def test_singular_values_are_inflated_as_the_paper_or_its_code_does():
    """To sqrt(s^2 + omega^2) or s + omega below the threshold; above it both leave them alone."""
    rows = table() - table().mean(axis=0)
    left, values, right = np.linalg.svd(rows, full_matrices=False)
    own = {"epsilon": 1.0, "delta": 1e-5, "seed": 3, "acknowledge_broken": True}
    paper, code = (PublishedTransform(inflation=name, **own) for name in ("squares", "sum"))
    mixing = np.random.Generator(np.random.Philox(3)).standard_normal((2, 10)) / np.sqrt(10)
    for made, inflated in ((paper, np.hypot(values, paper.threshold)), (code, values + code.threshold)):
        np.testing.assert_allclose(made.publish(rows), (left * inflated) @ right @ mixing)
    weak = dict(own, epsilon=1000.0)
    two = [PublishedTransform(inflation=name, **weak).publish(rows) for name in ("squares", "sum")]
    np.testing.assert_array_equal(*two)
    with pytest.raises(InvalidParameter):
        PublishedTransform(inflation="none", **own)


def test_both_branches_have_the_singular_values_of_algorithm_1():
    rows = table()
    centred = rows - rows.mean(axis=0)
    for epsilon, inflated in ((20.0, False), (1.0, True)):
        published = transform(epsilon)
        assert published.inflates(rows) is inflated
        released = published.publish(rows)
        rng = np.random.Generator(np.random.Philox(0))
        mixing = rng.standard_normal((2, 10))
        left, values, right = np.linalg.svd(centred, full_matrices=False)
        if inflated:
            values = np.sqrt(values**2 + published.threshold**2)
        np.testing.assert_allclose(released, (left * values) @ right @ mixing / np.sqrt(10))


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 20.0])
@pytest.mark.parametrize("seed", range(3))
def test_three_known_rows_give_all_others(epsilon, seed):
    """Both branches (20 is the uninflated one): 1,000 rows of two columns to 1e-8 of their spread."""
    rows = table(seed)
    released = transform(epsilon, seed=seed).publish(rows)
    known = np.array([1, 500, 900])
    assert recovery_error(released, rows, known) < 1e-8
    assert np.abs(recover_rows(released, known, rows[known]) - rows).max() < 1e-8


def test_recovery_in_more_columns_and_with_more_known_rows():
    rows = table(4, d=5)
    released = transform(0.5).publish(rows)
    assert recovery_error(released, rows, np.arange(6)) < 1e-8
    assert recovery_error(released, rows, np.arange(40)) < 1e-8
    with pytest.raises(InvalidData, match="at least 6"):
        recover_rows(released, np.arange(5), rows[:5])


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 3.0, 20.0])
def test_the_column_space_tells_neighbours_apart_every_time(epsilon):
    """Neighbours differ in one row by a thousandth: 40 of 40 pairs are told apart, in both directions."""
    rng = np.random.default_rng(7)
    for seed in range(40):
        rows = table(seed, n=200)
        neighbour = rows.copy()
        neighbour[seed % 200] += 1e-3 * rng.standard_normal(2)
        released = transform(epsilon, seed=seed).publish(rows)
        assert distinguish_by_column_space(released, rows)
        assert not distinguish_by_column_space(released, neighbour)


def test_parameters_are_checked():
    for options in (
        {"epsilon": np.inf},
        {"epsilon": np.nan},
        {"delta": 1.0},
        {"dimension": 2.5},
        {"dimension": 0},
        {"dimension": True},
    ):
        given = {"epsilon": 1.0, "delta": 1e-5, "dimension": 10, **options}
        with pytest.raises(InvalidParameter):
            PublishedTransform(**given, acknowledge_broken=True)


def test_bad_tables_are_refused():
    for bad in (np.zeros(3), np.zeros((1, 2)), np.array([[0.0, np.nan], [1.0, 1.0]])):
        with pytest.raises(InvalidData):
            transform(1.0).publish(bad)
