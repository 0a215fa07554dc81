"""The committed results cover the whole panel and name each cell where a baseline wins."""

import json
from pathlib import Path

import pytest

from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from reproduction.studies import panel, panel_tables

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
