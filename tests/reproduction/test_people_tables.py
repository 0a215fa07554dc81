"""The benchmark of contexts and arms: what it reports was not tuned on, what it keeps is not run again."""

import json
from pathlib import Path

import pytest

from reproduction.studies import people_tables
from reproduction.studies import tables_of_people as tables

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "people-tables.json"


def test_what_is_reported_was_not_tuned_on():
    assert not set(tables.TUNING) & set(tables.REPORT)
    assert not set(people_tables.tables_of("tuning")) & set(people_tables.tables_of("report"))
    sources = {
        name: tables.SPECS[name].source for name in (*tables.TUNING, *tables.REPORT) if name != "adult"
    }
    assert len(set(sources.values())) == len(sources)  # no table under two names
    assert len(tables.REPORT) >= 11  # ten, and Adult
    seeds = [{cell.seed for cell in people_tables.cells_of(which, 3, None)} for which in ("tuning", "report")]
    assert max(seeds[0]) < 1_000_000 <= min(seeds[1])


def test_the_results_shown_are_of_tables_that_were_not_tuned_on():
    shown = json.loads(RESULTS.read_text())
    assert shown["which"] == "report"
    assert {row["table"] for row in shown["tables"]} == set(people_tables.tables_of("report"))
    for row in shown["tables"]:
        assert {way["method"] for way in row["ways"]} == set(people_tables.METHODS)


def test_the_logs_shown_are_of_tables_that_were_not_tuned_on():
    shown = json.loads(RESULTS.read_text())["log"]
    assert shown["which"] == "report"
    assert {row["table"] for row in shown["tables"]} == set(people_tables.tables_of("report"))
    for row in shown["tables"]:
        assert {way["method"] for way in row["ways"]} == set(people_tables.LOG_METHODS)
        assert row["best_open_reward"] >= row["constant"]
    cells = people_tables.cells_of("report", 1, None, "log")
    assert min(cell.seed for cell in cells) >= 1_000_000
    assert not {cell.file for cell in cells} & {
        cell.file for cell in people_tables.cells_of("report", 1, None)
    }


@pytest.mark.filterwarnings("ignore::dpbandits.central.NothingToLearn")
def test_a_log_is_evaluated_on_people_that_it_does_not_hold(tmp_path):
    out = tmp_path / "out"
    arguments = ["--group", "log", "--which", "tuning", "--only", "few", "--seeds", "1", "--rows", "400"]
    people_tables.main([*arguments, "--cells", str(tmp_path), "--out", str(out)])
    assert len(list(tmp_path.glob("log-few*.json"))) == 2 * (3 + 3 * 3)
    for row in json.loads(out.read_text())["log"]["tables"]:
        assert row["people"] == 300
        own = [way for way in row["ways"] if way["method"] == "marginals"]
        assert all(0.0 <= way["covered"] <= 1.0 and way["expected_error"] > 0.0 for way in own)


def test_a_cell_that_was_run_is_kept_and_results_are_shares_of_the_open_uplift(tmp_path, capsys):
    arguments = [
        "--which",
        "tuning",
        "--only",
        "few",
        "--seeds",
        "1",
        "--rows",
        "200",
        "--cells",
        str(tmp_path),
    ]
    people_tables.main([*arguments, "--out", str(tmp_path / "out")])
    cells = list(tmp_path.glob("few*.json"))
    assert len(cells) == 2 * (3 + 4 * 3)  # tables; open methods, and four private ones at three epsilons
    changed = json.loads(cells[0].read_text()) | {"seconds": -1.0}
    cells[0].write_text(json.dumps(changed))
    people_tables.main([*arguments, "--out", str(tmp_path / "out")])
    assert json.loads(cells[0].read_text())["seconds"] == -1.0
    results = json.loads((tmp_path / "out").read_text())
    assert {row["table"] for row in results["tables"]} == {"few:0", "few:1"}
    for row in results["tables"]:
        assert row["best_open_reward"] >= row["constant"]
        for way in row["ways"]:
            if way["share"] is not None:
                uplift = row["best_open_reward"] - row["random"]
                assert way["share"] == pytest.approx((way["reward"] - row["random"]) / uplift)
