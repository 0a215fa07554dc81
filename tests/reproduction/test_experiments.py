"""Items and studies of papers: names, choices of cells, files that are put together from parts."""

import json
from dataclasses import dataclass

import pytest

from dpbandits.errors import InvalidParameter
from dpbandits.lab.study import Cell
from reproduction import PAPERS, study
from reproduction.dubey2021.cells import OPEN, PAPER_COLUMNS, RANDOM
from reproduction.experiments import Choice, Item, Study


def test_every_paper_has_a_study_whose_cells_are_told_apart():
    for name in PAPERS:
        paper = study(name)
        assert paper.name == name
        for item, what in paper.items.items():
            cells = paper.cells(item)
            told = {json.dumps([cell.name, cell.settings]) for cell in cells}
            assert len(told) == len(cells) > 0
            assert what.about
            assert what.key
            assert what.columns


def test_unknown_names_are_answered_by_those_that_are_known():
    with pytest.raises(InvalidParameter, match="dubey2021, kharkovskii2020, ma2025, pavlovic2025"):
        study("smith1999")
    dubey = study("dubey2021")
    with pytest.raises(InvalidParameter, match="figure-1, figure-2, table-1"):
        dubey.item("figure9")
    with pytest.raises(InvalidParameter, match=r"'random'.*'printed'"):
        dubey.cells("figure-1", Choice(columns=["nothing"]))


def test_a_part_replaces_its_own_rows_and_leaves_the_others(tmp_path):
    @dataclass(frozen=True, kw_only=True)
    class Product(Cell):
        world: str
        column: str

        def simulate(self, seed):
            return {"value": float(seed)}

    cells = [Product(world=world, column=column) for world in "ab" for column in "xy"]
    item = Item(about="a test", cells=cells, key=("world", "column"), shown="world | column", reps=2)
    study = Study(name="made-up", title="Made up", measured="nothing", items={"table": item})
    study.run("table", choice=Choice(worlds=["b"]), out=tmp_path)
    study.run("table", choice=Choice(columns=["x"]), reps=3, out=tmp_path)
    rows = json.loads((tmp_path / "made-up-table.json").read_text())
    assert [(row["world"], row["column"], row["reps"]) for row in rows] == [
        ("a", "x", 3),
        ("b", "x", 3),
        ("b", "y", 2),
    ]


def test_a_choice_by_fields_keeps_what_has_them_and_what_has_none_of_their_kind():
    """Names go into lists of objects; a cell without the field belongs to every value, as without epsilon."""
    ma, dubey = study("ma2025"), study("dubey2021")
    where = {"sources.0.gamma": 2, "sources.0.epsilon": 8, "sources.0.n_users": 100_000}
    found = ma.cells("figure-8", Choice(where=where, columns=["tree"], worlds=["ma-edge"]))
    assert [[source.gamma for source in cell.sources] for cell in found] == [[], [2.0, 2.0]]
    (alone,) = ma.cells("figure-8", Choice(where={"sources": []}, columns=["tree"], worlds=["ma-edge"]))
    assert alone.sources == ()
    where = {"sources.0.epsilon": 2, "sources.1.epsilon": 8}
    orders = ma.cells("figure-9c", Choice(where=where, worlds=["ma-edge"]))
    assert {tuple(source.epsilon for source in cell.sources) for cell in orders} == {(2.0, 8.0)}
    found = dubey.cells("figure-2", Choice(where={"delta": 0.5}))
    assert {(cell.column, cell.delta) for cell in found} == {
        *((column, 0.5) for column in PAPER_COLUMNS[:4]),
        (OPEN, None),
        (RANDOM, None),
    }


@pytest.mark.parametrize("name", ["gama", "sources.0.gama", "sources.gamma", "sources.x.gamma", ""])
def test_a_field_that_no_cell_has_is_refused(name):
    """Else a slip of the pen would run everything."""
    with pytest.raises(InvalidParameter, match="no cell has"):
        study("ma2025").cells("figure-8", Choice(where={name: 2}))


def test_a_cluster_of_two_workers_gives_identical_rows(tmp_path):
    pytest.importorskip("distributed")
    pytest.importorskip("joblib")
    chosen = Choice(columns=[RANDOM], worlds=["printed"])
    dubey = study("dubey2021")
    here, _ = dubey.run("figure-1", choice=chosen, reps=3)
    there, _ = dubey.run("figure-1", choice=chosen, reps=3, cluster="local:2", out=tmp_path)
    for rows in (here, there):
        for row in rows:
            row.pop("seconds")
    assert here == there
    assert len((tmp_path / "dubey2021.jsonl").read_text().splitlines()) == 3
