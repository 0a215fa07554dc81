"""The published transformation is reproduced, refuses to be used by accident, and falls to its attacks."""

import numpy as np
import pytest

from dpbandits.audit.attacks.po_gp_ucb import distinguish_by_column_space, recover_rows, recovery_error
from dpbandits.errors import (
    BrokenMechanism,
    HorizonExceeded,
    InvalidData,
    InvalidParameter,
    UnknownDecision,
)
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced.published.kharkovskii2020 import (
    PublishedModeler,
    PublishedTransform,
    singular_value_threshold,
)


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


def test_algorithm_2_finds_a_hill_and_never_asks_twice():
    rows = table(3, n=300)
    released = transform(20.0).publish(rows)
    value = -((rows - 5.0) ** 2).sum(axis=1) / 400
    for acquisition in ("deviation", "variance"):
        modeler = PublishedModeler(
            released, kernel=SquaredExponential(lengthscale=8.0), noise_sd=0.01, acquisition=acquisition
        )
        asked = []
        for _ in range(30):
            asked.append(modeler.ask())
            modeler.tell(asked[-1], value[asked[-1]])
        assert len(set(asked)) == 30
        assert value.max() - value[asked].max() < 0.1
    with pytest.raises(InvalidParameter):
        PublishedModeler(
            released, kernel=SquaredExponential(lengthscale=8.0), noise_sd=0.01, acquisition="ei"
        )


def test_the_unit_of_the_answers_changes_no_choice_of_algorithm_2():
    rows = table(3, n=60)
    value = -((rows - 5.0) ** 2).sum(axis=1) / 400
    asked = []
    for scale in (1.0, 2.0**-43):
        kernel = scale**2 * SquaredExponential(lengthscale=8.0)
        modeler = PublishedModeler(rows, kernel=kernel, noise_sd=scale * 0.01)
        order = []
        for _ in range(12):
            order.append(modeler.ask())
            modeler.tell(order[-1], scale * value[order[-1]])
        asked.append(order)
    assert asked[0] == asked[1]


def test_algorithm_2_asks_for_no_row_twice_even_before_it_is_told():
    modeler = PublishedModeler(table(3, n=5), kernel=SquaredExponential(lengthscale=8.0), noise_sd=0.01)
    with pytest.raises(UnknownDecision):
        modeler.tell(0, 1.0)
    rows = [modeler.ask() for _ in range(5)]
    assert sorted(rows) == list(range(5))
    with pytest.raises(HorizonExceeded):
        modeler.ask()
    for bad in (np.nan, np.inf):
        with pytest.raises(InvalidData):
            modeler.tell(0, bad)


def test_a_share_of_beta_explores_less():
    """Of two rows left one is near a good answer, the other far away: beta_t says which is asked for."""
    rows = np.array([[0.0, 0.0], [4.0, 0.0], [40.0, 0.0]])
    kernel = SquaredExponential(lengthscale=8.0)
    width = np.sqrt(2.0 * np.log(3 * 2**2 * np.pi**2 / (6 * 0.025)))
    near, far = np.exp(-0.5 * (4.0 / 8.0) ** 2), np.exp(-0.5 * (40.0 / 8.0) ** 2)
    bounds = {
        share: [2.0 * k + np.sqrt(share) * width * np.sqrt(1.0 - k**2) for k in (near, far)]
        for share in (1.0, 0.2)
    }
    assert bounds[1.0][1] > bounds[1.0][0]
    assert bounds[0.2][1] < bounds[0.2][0]
    first = next(
        seed
        for seed in range(50)
        if PublishedModeler(rows, kernel=kernel, noise_sd=1e-4, seed=seed).ask() == 0
    )
    for share, wanted in ((1.0, 2), (0.2, 1)):
        modeler = PublishedModeler(rows, kernel=kernel, noise_sd=1e-4, exploration_share=share, seed=first)
        modeler.tell(modeler.ask(), 2.0)
        assert modeler.ask() == wanted
    with pytest.raises(InvalidParameter):
        PublishedModeler(rows, kernel=kernel, noise_sd=1e-4, exploration_share=0.0)


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
