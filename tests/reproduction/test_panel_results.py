"""The committed results cover the whole panel and name each cell where a baseline wins."""

import json
from pathlib import Path

import pytest

from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from reproduction.studies import few_columns, panel, panel_tables

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


def test_results_are_those_of_the_panel_and_say_where_a_baseline_wins():
    shown = json.loads((RESULTS / "panel.json").read_text())
    rows = {(row["table"], row["setting"], row["epsilon"]): row for row in shown["rows"]}
    wanted = {
        (table, setting, epsilon)
        for table in panel_tables.TABLES
        for setting, epsilons in panel.EPSILONS.items()
        for epsilon in epsilons
    }
    assert set(rows) == wanted
    assert shown["cells"] == len(wanted)
    assert shown["first_seed"] >= FIRST_REPORT_SEED
    assert shown["seeds"] >= 3
    assert sum(shown["cpu_minutes"].values()) < 2 * 90  # two cores
    for (_, setting, _), row in rows.items():
        others = {end["way"]: end for end in row["ways"] if end["way"] != panel.POLICY}
        assert set(others) == set(panel.WAYS[setting])
        assert set(row["ceilings"]) == set(panel.CEILINGS)
        ahead = {way for way, end in others.items() if end["gap"] > 0.01 and end["gap"] > 3.0 * end["gap_se"]}
        assert row["behind"] == bool(ahead)
        assert row["best"] in ahead or not ahead
        for end in others.values():
            assert end["gap"] == pytest.approx(end["reward"] - row["reward"])
    assert shown["behind"] == sum(row["behind"] for row in rows.values())
    order = [(not row["behind"], -row["gap"]) for row in shown["rows"]]
    assert order == sorted(order)


def test_results_of_few_columns_are_complete_and_their_shares_add_up():
    shown = json.loads((RESULTS / "few-columns.json").read_text())
    assert [row["table"] for row in shown["three"]] == list(few_columns.THREE)
    assert [row["table"] for row in shown["two"]] == list(few_columns.TWO)
    assert shown["first_seed"] >= FIRST_REPORT_SEED
    assert shown["seeds"] >= 8
    for row in shown["three"] + shown["two"]:
        assert list(row["epsilons"]) == [f"{epsilon:g}" for epsilon in few_columns.EPSILONS]
        for one in row["epsilons"].values():
            gained = (one["reward"] - row["random"]) / (row["ridge"] - row["random"])
            assert one["share"] == pytest.approx(gained)
    for epsilon, share in shown["shares"].items():
        own = [row["epsilons"][epsilon]["share"] for row in shown["three"]]
        assert share == pytest.approx(sum(own) / len(own))
