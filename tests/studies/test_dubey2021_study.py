"""Dubey2021's experiments in miniature: cells, worlds, robustness of block release, report seeds."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.cli.study import app
from dpbandits.environments import dubey2021_figure1
from dpbandits.errors import InvalidParameter
from dpbandits.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.studies import dubey2021_worlds
from dpbandits.studies.dubey2021 import (
    BLOCKS,
    COLUMNS,
    ITEMS,
    LOCAL,
    OPEN,
    PUBLIC,
    RANDOM,
    ROBUSTNESS_COLUMNS,
    TREE,
    Cell,
    cells,
    run_item,
)
from dpbandits.studies.dubey2021_report import picture, verdict

FIRST = FIRST_REPORT_SEED


@pytest.fixture
def short(monkeypatch):
    """The first figure's world with 120 rounds."""

    def small(*, seed):
        return dubey2021_figure1(seed=seed, horizon=120)

    monkeypatch.setitem(dubey2021_worlds.WORLDS, "figure1", small)


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_has_every_column(item):
    found = cells(item)
    assert {cell.column for cell in found} == set(ROBUSTNESS_COLUMNS if item == "robustness" else COLUMNS)
    assert len({cell.name for cell in found}) == len(found)


def test_figure_in_miniature(short, tmp_path):
    results = run_item("figure1", reps=2, out=tmp_path)
    assert len(results) == len(cells("figure1"))
    again = run_item("figure1", reps=2, out=tmp_path)
    assert [r.regret for r in again] == [r.regret for r in results]
    by_column = {(r.cell.column, r.cell.epsilon): r.regret for r in results}
    assert by_column[OPEN, None] < by_column[RANDOM, None]
    assert all(np.isfinite(r.regret) and r.standard_error >= 0 for r in results)
    assert {verdict(r) for r in results} == {
        "not in the paper",
        "cannot be compared: curves, functions not given",
    }
    assert picture("figure1", results).startswith(b"\x89PNG")


def test_command(short, tmp_path):
    arguments = ["dubey2021", "figure2", "--reps", "2", "--column", RANDOM, "--column", LOCAL]
    ran = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path), "--json"])
    assert ran.exit_code == 0, ran.output
    assert '"column": "local"' in ran.output
    assert (tmp_path / "dubey2021-figure2.png").exists()
    shown = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path)])
    assert "not printed" in shown.output or "random" in shown.output


def test_tuning_seeds_are_refused(short):
    with pytest.raises(InvalidParameter):
        run_item("figure1", reps=2, seed=200)


def test_unknown_names_are_refused():
    with pytest.raises(InvalidParameter):
        cells("figure9")
    with pytest.raises(InvalidParameter):
        dubey2021_worlds.world("nowhere", 0)
    with pytest.raises(InvalidParameter):
        Cell(column="nothing", world="figure1", epsilon=1.0, delta=1e-5).simulate(FIRST)
    with pytest.raises(InvalidParameter):
        Cell(column=TREE, world="figure1").simulate(FIRST)


@pytest.mark.parametrize("name", ["styblinski-tang-20", "michalewicz-10", "camelback"])
def test_table_worlds_have_features_for_everybody(name):
    world = dubey2021_worlds.world(name, 3)
    points = world.decision_sets(0, 2)
    for features in (dubey2021_worlds.block_features(name), dubey2021_worlds.tree_features(name)):
        phi = features(points)
        assert (np.linalg.norm(phi, axis=-1) <= 1.0).all()


@pytest.mark.slow
def test_block_release_learns_where_the_paper_does_not():
    """20 seeds: the means are 10 standard errors apart."""
    wanted = [Cell(column=c, world="figure1", epsilon=1.0, delta=0.1) for c in (BLOCKS, PUBLIC, TREE)]
    blocks, public, tree = run_item("figure1", reps=20, of=wanted)
    assert blocks.regret < 80
    assert public.regret < 80
    assert tree.regret > 250
