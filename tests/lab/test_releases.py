"""The benchmark of kinds of release: what it reports was not tuned on, and is shown whole."""

import json
import sys
from pathlib import Path

import pytest

from dpbandits.lab.evaluation import FIRST_REPORT_SEED

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RESULTS = BENCHMARKS.parent / "docs" / "_results" / "cells.json"


@pytest.fixture
def releases(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import releases

    yield releases
    sys.modules.pop("releases")


def test_seeds_that_are_reported_were_not_tuned_on(releases):
    for line in releases.LINES:
        seeds = range(line.first_seed, line.first_seed + line.seeds)
        if line.group == "rule":
            assert seeds[-1] < FIRST_REPORT_SEED
        else:
            assert seeds[0] >= FIRST_REPORT_SEED
        assert not set(seeds) & set(releases.TUNING_SEEDS)


def test_the_results_shown_are_of_every_line_and_of_its_seeds(releases):
    rows = json.loads(RESULTS.read_text())
    shown = {tuple(row[name] for name in releases.FIELDS): row["first_seed"] for row in rows}
    assert len(shown) == len(rows)
    wanted = {
        tuple(getattr(line, name) for name in releases.FIELDS): line.first_seed for line in releases.LINES
    }
    assert shown == wanted
