"""Ma2025's figures and table in miniature, with made-up tables: every row runs, statistics are right."""

import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.errors import InvalidParameter
from dpbandits.lab.plot import to_png, to_svg
from dpbandits.lab.study import Runs
from dpbandits.tables import Range, Schema
from reproduction.__main__ import app
from reproduction.experiments import Choice
from reproduction.local_worlds import TUNING_WORLDS
from reproduction.ma2025 import cells as ma2025_cells
from reproduction.ma2025 import methods as ma2025_methods
from reproduction.ma2025.cells import (
    FIRST_SEED,
    PRINTED_METHODS,
    SHIFT_METHODS,
    CrowdCell,
    PublishedCell,
)
from reproduction.ma2025.classification import ClassificationTable
from reproduction.ma2025.items import STUDY
from reproduction.ma2025.methods import (
    ABSES,
    CHOSEN,
    CODE_METHODS,
    MARKS,
    METHODS,
    NOT_PRIVATE,
    PRINTED_CONSTANTS,
    Source,
    curve,
    local_curves,
)
from reproduction.ma2025.published import runs_of as published_runs_of
from reproduction.ma2025.table_2 import PAIRS, PRINTED, PRINTED_PAIRS, printed_table2, table2
from reproduction.tuning import ma2025_methods as ma2025_tuning


@pytest.fixture
def made_up(monkeypatch):
    """A table of 2,000 people whose class follows from one column, in the place of every real one."""

    def build(name, half, data):
        rng = np.random.default_rng(0)
        x = rng.random((2000, 2))
        return ClassificationTable.from_frame(
            {"a": x[:, 0], "b": x[:, 1]},
            schema=Schema(a=Range(0, 1), b=Range(0, 1)),
            labels=(x[:, 0] > 0.41).astype(int),
            arms=["low", "high"],
            auxiliary=np.arange(2000) % 2 == 0,
            name=name,
            split="every second",
        ).half(half)

    monkeypatch.setattr(ma2025_methods, "table_half", build)


FIGURES = [item for item in STUDY.items if item.startswith(("figure", "table"))]


@pytest.mark.parametrize("item", FIGURES)
def test_every_cell_stands_once(item):
    found = STUDY.cells(item)
    assert len(set(found)) == len(found)
    assert {cell.method for cell in found} <= {*METHODS, *CODE_METHODS}
    assert not {cell.world for cell in found} & set(TUNING_WORLDS)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("with_sources", [False, True])
def test_every_method_runs_on_tables(made_up, method, with_sources):
    sources = (Source(n_users=None, epsilon=4.0),) if with_sources else ()
    if method in (*ABSES, "smooth") and with_sources:
        with pytest.raises(InvalidParameter, match="target alone"):
            curve(method, "taxi", seed=3, sources=sources)
        return
    found = curve(method, "taxi", seed=3, epsilon=4.0, sources=sources)
    assert found.shape == (MARKS,)
    assert ((found >= 0) & (found < 0.75)).all()


@pytest.mark.parametrize("method", ["tree", "linear", "neural", "ma2025"])
def test_sources_of_worlds_help_those_who_learn(method):
    """Three crowds each; for all but the paper's own rule a jump-start cuts the regret."""
    sources = (Source(n_users=4000, epsilon=8.0, kappa=0.9),)

    def mean(given):
        runs = [curve(method, "ma", seed=s, epsilon=1.0, n_users=2000, sources=given)[-1] for s in range(3)]
        return np.mean(runs)

    alone, helped = mean(()), mean(sources)
    assert abs(alone - 0.41) < 0.03 if method == "ma2025" else helped < 0.8 * alone


def test_curve_at_the_last_mark_is_the_whole_average():
    found = ma2025_methods.at_marks(np.array([10.0, 5.0, 1.0]), 100, 250)
    assert math.isclose(found[-1], 16.0 / 250)
    assert math.isclose(found[MARKS // 5 * 2 - 1], 10.0 / 100)


def runs_of(cell, curves):
    """What would have been recorded, had the curves come out."""
    return Runs(cell=cell, records=[{"seed": n, "curve": one.tolist()} for n, one in enumerate(curves)])


def results(method, ratio, *, sources=(), epsilon=1.0, table="taxi", scatter=0.01):
    rng = np.random.default_rng([len(method), len(sources)])
    curves = np.full((30, MARKS), ratio) + scatter * rng.standard_normal((30, 1))
    cell = CrowdCell(method=method, world=table, epsilon=epsilon, sources=sources)
    return runs_of(cell, curves)


def test_table2_ratios_tests_and_ranks():
    source = tuple((Source(n_users=None, epsilon=own),) for own in (2.0, 8.0))
    runs = [runs_of(CrowdCell(method="abse", world="taxi"), np.full((30, MARKS), 0.5))]
    for epsilon in (1.0, 4.0):
        runs += [results("tree", 0.2, epsilon=epsilon), results("linear", 0.3, epsilon=epsilon)]
        runs += [results("tree", 0.1, sources=one, epsilon=epsilon) for one in source]
        runs += [results("linear", 0.1, sources=one, epsilon=epsilon) for one in source]
    found = table2(runs)
    assert len(found["ratios"]) == 2 * len(PAIRS) * 4
    first = next(row for row in found["ratios"] if row["row"] == "tree")
    assert abs(first["ratio"] - 0.4) < 0.02
    assert 0.001 < first["standard_error"] < 0.008
    alone = [test for test in found["tests"] if test["ours"] == "tree"]
    assert len(alone) == 2 * 2  # two epsilons, two moments: sources are not in it
    assert all(test["other"] == "linear" and test["gap"] < -0.15 for test in alone)
    assert all(test["p"] < 1e-5 <= 1 and test["p"] <= test["p_holm"] < 1e-3 for test in alone)
    both = [test for test in found["tests"] if test["ours"] == "tree with sources"]
    assert all(test["other"] == "linear with sources" and test["p_holm"] > 1e-3 for test in both)
    ranks = {row["row"]: row["rank_sum"] for row in found["rank_sums"] if row["epsilon"] == 1.0}
    assert ranks["linear"] == 4.0
    assert ranks["tree"] == 3.0
    with pytest.raises(InvalidParameter, match="abse"):
        table2(runs[1:])


def test_printed_table2_is_reward_over_abse_beside_the_papers_number():
    source = {own: (Source(n_users=None, epsilon=own),) for own in (1.0, 4.0)}
    common = {"table": "adult-birth"}
    runs = [runs_of(CrowdCell(method="abse-printed", world="adult-birth"), np.full((30, MARKS), 0.5))]
    runs.append(runs_of(CrowdCell(method="abse", world="adult-birth"), np.full((30, MARKS), 0.1)))
    for epsilon in (1.0, 2.0):
        runs += [results(method, 0.4, epsilon=epsilon, **common) for method in ("ma2025-c1", "linear")]
        for one in source.values():
            runs.append(results("tree", 0.2, epsilon=epsilon, sources=one, **common))
    rows = printed_table2(runs)
    assert len(rows) == len(PRINTED_PAIRS) * 2 * 5
    place = {(row["epsilon"], row["source_epsilon"], row["moment"], row["row"]): row for row in rows}
    ours = place[1.0, 4.0, "n/4", "tree with sources"]
    assert ours["ratio"] == pytest.approx(0.8 / 0.5, rel=0.01)
    assert 0 < ours["standard_error"] < 0.02
    assert (ours["best"], ours["significant"], ours["paper"]) == (True, True, None)
    theirs = place[1.0, 4.0, "n/4", "ma2025-c1"]
    assert (theirs["best"], theirs["significant"], theirs["paper"]) == (False, None, 0.987)
    assert place[2.0, 4.0, "n", "linear"]["paper"] == 0.762
    # neither is private: they stand beside, and cannot be the best
    assert place[1.0, 4.0, "n", "abse"]["ratio"] == pytest.approx(1.8)
    assert place[1.0, 4.0, "n", "random"]["ratio"] == pytest.approx(1.0)
    assert place[1.0, 4.0, "n", "tree with sources"]["best"]
    assert not place[1.0, 4.0, "n", "abse"]["best"]
    with pytest.raises(InvalidParameter, match="abse"):
        printed_table2(runs[1:])


def test_the_papers_table_2_is_complete():
    assert len(PRINTED) == 4 * 3 * 12
    assert PRINTED["adult", 1.0, 1.0, "n/4", "ldpmab with sources"] == 1.459
    assert PRINTED["jobs", 2.0, 1.0, "n", "ldpmab"] == 0.720
    assert PRINTED["taxi", 2.0, 4.0, "n", "neural"] == 1.000
    assert PRINTED["jobs", 1.0, 4.0, "n", "neural with sources"] == 0.698
    # rank sums as printed, 1 the best of six, over three tables and four pairs at n/4
    from scipy.stats import rankdata

    rows = [method + kind for method in ("ldpmab", "linear", "neural") for kind in (" with sources", "")]
    sums = dict.fromkeys(rows, 0.0)
    for table in ("adult", "jobs", "taxi"):
        for pair in PRINTED_PAIRS:
            ranks = rankdata([-PRINTED[(table, *pair, "n/4", row)] for row in rows], method="min")
            for row, rank in zip(rows, ranks, strict=True):
                sums[row] += rank
    assert sums["ldpmab with sources"] == 15.0


def test_command_resumes_and_prints(made_up, tmp_path):
    arguments = [
        "ma2025",
        "table-2-questions",
        "--reps",
        "2",
        "--world",
        "taxi",
        "--out",
        str(tmp_path),
        "--json",
    ]
    columns = ["--column", "abse", "--column", "tree", "--column", "linear"]
    first = CliRunner().invoke(app, [*arguments, *columns])
    assert first.exit_code == 0, first.output
    found = json.loads(first.output)
    assert {row["row"] for row in found["ratios"]} == {
        "tree",
        "linear",
        "tree with sources",
        "linear with sources",
    }
    assert found["references"]["taxi"]["random"] == 0.5
    assert 0.3 < found["references"]["taxi"]["best_constant"] < 0.5
    lines = (tmp_path / "ma2025.jsonl").read_text().splitlines()
    assert len(lines) == 2 * (1 + 2 * (2 + 4))
    assert CliRunner().invoke(app, [*arguments, *columns]).output == first.output
    assert (tmp_path / "ma2025.jsonl").read_text().splitlines() == lines
    assert (tmp_path / "ma2025-table-2-questions-part.png").read_bytes().startswith(b"\x89PNG")


def test_figures_have_pictures_and_verdicts(monkeypatch, tmp_path):
    for item in ("figure-7a", "figure-8", "figure-9a", "figure-9c", "code-parts"):
        some = [
            row
            for cell in STUDY.cells(item)
            for row in runs_of(cell, np.random.default_rng(1).random((2, MARKS)) / 2).rows
        ]
        picture = STUDY.item(item).picture(some)
        assert all(row["verdict"] for row in some)
        lines = {line.get_label() for axes in picture.axes for line in axes.lines}
        assert lines, item
    assert b"<svg" in to_svg(picture)[:2000]
    assert to_png(picture).startswith(b"\x89PNG")


def test_published_means_are_hollow_beside_the_public_code_alone():
    cells = [cell for cell in STUDY.cells("figure-7a") if cell.world == "ma-code"]
    some = [row for cell in cells for row in runs_of(cell, np.full((2, MARKS), 0.3)).rows]
    code, ours = STUDY.item("figure-7a").picture(some).axes

    def hollow(axes):
        found = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
        return sorted(y for line in found for y in line.get_ydata())

    assert hollow(code) == sorted(run.regret for run in published_runs_of("7a"))
    assert not hollow(ours)
    assert "not private" in code.get_title(loc="left")


def test_figures_have_the_papers_world_and_grid():
    def of(item, what):
        return {what(cell) for cell in STUDY.cells(item) if cell.world == "ma-edge"}

    items = [name for name in STUDY.items if name.startswith("figure")]
    assert items == [f"figure-{n}" for n in ("6", "7a", "7b", "8", "9a", "9b", "9c")]
    for item in items[1:]:
        every = item == "figure-7a"
        assert of(item, lambda cell: cell.method) == set(PRINTED_METHODS if every else SHIFT_METHODS)
    for item, sources in (("figure-7a", ()), ("figure-7b", (Source(n_users=5000, epsilon=8.0),))):
        assert of(item, lambda cell: cell.epsilon) == {1.0, 2.0, 4.0, 8.0, 16.0}
        sizes = of(item, lambda cell: cell.n_users)
        assert sizes == {10_000 * n for n in (1, 2, 4, 6, 8, 12, 16)}
        assert of(item, lambda cell: cell.sources) == {sources}
    assert of("figure-8", lambda cell: cell.n_users) == {80_000}
    assert of("figure-9a", lambda cell: cell.sources[0].kappa) == {0.0, 0.2, 0.4, 0.6, 0.8, 1.0}
    assert of("figure-9a", lambda cell: cell.sources[0].epsilon) == {1.0, 8.0}
    assert max(of("figure-9b", lambda cell: cell.sources[0].gamma)) == 2.0
    assert len(of("figure-9b", lambda cell: cell.sources[0].gamma)) == 11
    assert of("figure-9c", lambda cell: (cell.epsilon, cell.n_users)) == {
        (e, n) for e in (1.0, 2.0) for n in (10_000, 80_000)
    }


@pytest.mark.parametrize("figure", ["6", "7a", "7b", "8", "9a", "9b", "9c"])
def test_ours_and_the_public_code_run_at_every_published_place(figure):
    places = {(run.epsilon, run.n_users, run.sources) for run in published_runs_of(figure)}
    cells = [cell for cell in STUDY.cells(f"figure-{figure}") if cell.world == "ma-code"]
    for method in ("ma2025-code", "tree"):
        own = [(cell.epsilon, cell.n_users, cell.sources) for cell in cells if cell.method == method]
        assert len(own) == len(places)
        assert set(own) == places
    assert figure != "6" or {cell.n_users for cell in cells} == {10_000}


def test_a_published_cell_says_what_was_published_and_what_is_not_private():
    cells = {cell.method: cell for cell in STUDY.cells("code-parts")[:4]}
    rows = {
        name: cell.rows([{"seed": n, "curve": [0.3] * MARKS} for n in range(2)])[0]
        for name, cell in cells.items()
    }
    assert {row["published"] for row in rows.values()} == {0.3618}
    private = {name for name, row in rows.items() if row["verdict"].startswith("not private")}
    assert private == set(NOT_PRIVATE)
    assert rows["ma2025-code-honest"]["verdict"] == "0.83 of the published runs"
    assert "figure" not in rows["ma2025-code"]


def test_epsilon_1024_is_run_at_the_largest_of_ours_and_by_the_code_as_it_is(monkeypatch):
    asked = []
    monkeypatch.setattr(ma2025_cells, "curve", lambda *_, **own: asked.append(own) or np.zeros(MARKS))
    monkeypatch.setattr(
        ma2025_cells, "code_curves", lambda *_, **own: asked.append(own) or (np.zeros((1, MARKS)), None, None)
    )
    source = (Source(n_users=10_000, epsilon=1024.0),) * 2
    common = {"figure": "8", "world": "ma-code", "epsilon": 1024.0, "n_users": 80_000, "sources": source}
    for method in ("tree", "ma2025-code"):
        PublishedCell(method=method, **common).simulate(1)
    assert [(own["epsilon"], own["sources"][0].epsilon) for own in asked] == [(16.0, 16.0), (1024.0, 1024.0)]
    assert (asked[1]["batch"], asked[1]["planned"]) == (500, 2)


@pytest.mark.parametrize("method", ["tree", "ma2025-2log2"])
def test_local_curves_are_what_the_shares_lose(made_up, method):
    source = (Source(n_users=500, epsilon=8.0, kappa=0.0),)
    common = {"seed": 4, "epsilon": 8.0, "n_users": 1000, "sources": source}
    everyone, local, shares = local_curves(method, "ma-edge", **common, point=(1 / 3, 1 / 3), step=50)
    assert everyone.shape == local.shape == (MARKS,)
    assert np.allclose(shares.sum(axis=1), 1.0)
    # at (1/3, 1/3) the arms pay 1, 2 e^-2/(1 + e^-2) and 2 e^-8/(1 + e^-8)
    means = np.array([1.0, *(2 * np.exp(-x) / (1 + np.exp(-x)) for x in (2.0, 8.0))])
    assert np.allclose(local, shares @ (1.0 - means))
    with pytest.raises(InvalidParameter, match="synthetic"):
        local_curves(method, "taxi", **common | {"sources": ()}, point=(0.3, 0.3), step=50)


def test_the_printed_constants_are_arguments():
    for method, constant in PRINTED_CONSTANTS.items():
        assert ma2025_methods.constants_of(method, "ma-edge", ()) == {"constant": constant}
    assert sorted(PRINTED_CONSTANTS.values()) == pytest.approx([1.0, 2.0 / np.log(2.0), 64.0])


def test_tuning_and_reports_share_no_seed_and_no_people():
    assert FIRST_SEED >= 5_000_000
    with pytest.raises(InvalidParameter):
        STUDY.run("figure-6", reps=2, seed=10)
    with pytest.raises(InvalidParameter):
        STUDY.cells("figure-6", Choice(columns=["linear"]))
    with pytest.raises(InvalidParameter):
        STUDY.cells("figure1")


def test_everyone_has_nine_candidates_and_the_choice_is_one_of_them(made_up):
    grids, fine = ma2025_tuning.GRIDS, ma2025_tuning.FINE
    assert {len(grid) for grid in (*grids.values(), *fine.values())} == {9}
    assert set(CHOSEN) == set(grids)
    for entry, chosen in CHOSEN.items():
        assert chosen in fine.get(entry, grids[entry])
    found = ma2025_tuning.score("linear+", {"clip": 0.3}, table="taxi", pair=(4.0, 8.0), seed=1)
    assert 0 < found < 1.2


def test_tuning_command(made_up, tmp_path, capsys):
    arguments = ["tuning", "--column", "abse", "--world", "taxi", "--reps", "2"]
    ma2025_tuning.main([*arguments, "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    rows = json.loads((tmp_path / "ma2025-tuning.json").read_text())
    assert len(rows) == 9
    best = min(rows, key=lambda row: row["score"])
    assert str(best["constants"]) in printed.splitlines()[0]
    with pytest.raises(InvalidParameter, match="tuning seeds"):
        ma2025_tuning.STUDY.run("tuning", reps=2, seed=FIRST_SEED)


def test_figures_use_the_defaults_and_tables_the_chosen():
    assert ma2025_methods.constants_of("tree", "ma", ()) == {}
    assert ma2025_methods.constants_of("linear", "taxi", ()) == CHOSEN.get("linear", {})
