import numpy as np
import pytest
from scipy import stats

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.models.measures import CellMeasure


def test_laws_are_those_of_their_bins():
    edges = np.linspace(0.0, 1.0, 11)
    beta = CellMeasure.beta(2, 5, low=-1, high=3, cells=10)
    np.testing.assert_allclose(beta.weights, np.diff(stats.beta(2, 5).cdf(edges)), atol=1e-14)
    assert CellMeasure.uniform(low=0, high=1, cells=7).weights == pytest.approx(np.full(7, 1 / 7))


def test_products_number_cells_row_major_and_find_them_again():
    measure = CellMeasure.product(
        CellMeasure.finite([[0.0, 1.0], [2.0, 0.5]], [1, 3]), CellMeasure.histogram([0, 1, 4], [0.5, 0.5])
    )
    assert measure.points.tolist() == [[0, 1, 0.5], [0, 1, 2.5], [2, 0.5, 0.5], [2, 0.5, 2.5]]
    np.testing.assert_allclose(measure.weights, [0.125, 0.125, 0.375, 0.375])
    np.testing.assert_array_equal(measure.locate(measure.points), np.arange(4))
    assert measure.locate([[2.0, 0.5, 4.0]]).tolist() == [3]  # the last bin holds its upper edge


@pytest.mark.parametrize("values", [[-0.1], [1.1], [np.nan], [[0.1, 0.2]], ["a"]])
def test_values_off_the_public_range_are_refused_without_being_shown(values):
    with pytest.raises(InvalidData) as caught:
        CellMeasure.uniform(low=0, high=1, cells=4).locate(values, name="contexts")
    assert "-0.1" not in str(caught.value)
    assert "1.1" not in str(caught.value)


def test_points_outside_a_finite_list_are_refused():
    with pytest.raises(InvalidData):
        CellMeasure.finite([0.0, 0.5]).locate([0.25])


@pytest.mark.parametrize(
    "make",
    [
        lambda: CellMeasure.uniform(low=1, high=1, cells=4),
        lambda: CellMeasure.uniform(low=0, high=1, cells=0),
        lambda: CellMeasure.finite([0.0, 0.0]),
        lambda: CellMeasure.finite([0.0, 1.0], [1.0]),
        lambda: CellMeasure.finite([0.0, 1.0], [0.0, 0.0]),
        lambda: CellMeasure.finite([0.0, 1.0], [-1.0, 2.0]),
        lambda: CellMeasure.beta(0, 1, low=0, high=1, cells=3),
        lambda: CellMeasure.from_config({"axes": [{}], "weights": [1]}),
    ],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(InvalidParameter):
        make()


def test_configuration_comes_back_bit_for_bit():
    measure = CellMeasure.product(
        CellMeasure.beta(0.7, 3, low=0, high=1, cells=17),
        CellMeasure.finite([[1.0], [2.0], [5.0]], [1, 2, 4]),
    )
    again = CellMeasure.from_config(measure.to_config())
    assert again == measure
    assert again.weights.tobytes() == measure.weights.tobytes()


def test_draws_follow_the_law():
    measure = CellMeasure.finite([0.0, 1.0, 2.0], [0.0, 0.25, 0.75])
    cells = measure.cells_at(np.random.default_rng(0).random(40_000))
    counts = np.bincount(cells, minlength=3)
    assert counts[0] == 0
    assert abs(counts[1] - 10_000) < 5.3 * np.sqrt(40_000 * 0.25 * 0.75)
    assert measure.cells_at(np.array([1.0 - 2.0**-54])).tolist() == [2]
