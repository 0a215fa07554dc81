"""The benchmark of kinds of release: what it reports was not tuned on, and is shown whole."""

import json
import math
from pathlib import Path

from dpbandits.central.choice_of_kind import CELL_BOXES
from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from reproduction.studies import releases

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "cells.json"
KINDS = ("cells", "features")


def test_seeds_that_are_reported_were_not_tuned_on():
    for line in releases.LINES:
        seeds = range(line.first_seed, line.first_seed + line.seeds)
        if line.group == "rule":
            assert seeds[-1] < FIRST_REPORT_SEED
        else:
            assert seeds[0] >= FIRST_REPORT_SEED
        assert not set(seeds) & set(releases.EARLIER_SEEDS)


def test_the_results_shown_are_of_every_line_and_of_its_seeds():
    rows = json.loads(RESULTS.read_text())
    shown = {tuple(row[name] for name in releases.FIELDS): row["first_seed"] for row in rows}
    assert len(shown) == len(rows)
    wanted = {
        tuple(getattr(line, name) for name in releases.FIELDS): line.first_seed for line in releases.LINES
    }
    assert shown == wanted


def test_the_boxes_of_the_rule_are_those_that_the_tuning_worlds_chose():
    rows = [row for row in json.loads(RESULTS.read_text()) if row["group"] == "rule"]
    assert releases.boxes(rows, CELL_BOXES) == CELL_BOXES
    best = {kind: [row | {"regret": 0.0} if row["kind"] == kind else row for row in rows] for kind in KINDS}
    assert releases.boxes(best["features"], CELL_BOXES) == ()
    assert len(releases.boxes(best["cells"], CELL_BOXES)) > len(CELL_BOXES)


def test_where_cells_are_taken_they_lost_less_but_for_lines_that_the_page_counts():
    rows = [row for row in json.loads(RESULTS.read_text()) if row["group"] == "checked"]
    lost = {(row["kind"], row["world"], row["delta"], row["epsilon"], row["horizon"]): row for row in rows}
    worse, most = [], 0.0
    for kind, world, delta, epsilon, horizon in lost:
        numbers = int(world.removeprefix("box-")), delta, epsilon, horizon
        taken = any(all(own <= limit for own, limit in zip(numbers, box, strict=True)) for box in CELL_BOXES)
        if kind == "features" and taken:
            cells, features = lost["cells", world, 0.0, epsilon, horizon], lost[kind, world, *numbers[1:]]
            if cells["regret"] >= features["regret"]:
                worse.append((world, delta, epsilon, horizon))
                error = math.hypot(cells["standard_error"], features["standard_error"])
                most = max(most, (cells["regret"] - features["regret"]) / error)
    assert len(worse) == 4
    assert {horizon for *_, horizon in worse} == {500, 3_000}
    assert round(most, 1) == 0.6
    page = (RESULTS.parents[2] / "docs" / "evidence" / "releases.md").read_text()
    assert "features had less regret in four of the lines" in page
    assert "by at most .6 standard errors of the difference" in page
