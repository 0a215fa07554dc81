"""The page of verdicts: numbers from result files alone, and "not run" where there is none."""

import json
from pathlib import Path

import pytest

from dpbandits.lab.papers import PAPERS, study
from dpbandits.lab.papers.behind import behind
from dpbandits.lab.papers.ma2025.table_2 import PRINTED_PAIRS
from dpbandits.lab.papers.verdicts import COLUMNS, NOT_RUN, verdicts

RESULTS = Path(__file__).resolve().parents[3] / "docs" / "_results"


def line(found, paper, words):
    (row,) = [row for row in found[paper] if row["item"].startswith(words)]
    return row


def test_without_results_every_measured_number_is_not_run(tmp_path):
    found = verdicts(tmp_path)
    assert [paper.lower() for paper in found] == ["dubey2021", "ma2025", "pavlovic2025", "kharkovskii2020"]
    for rows in found.values():
        for row in rows:
            assert set(row) == set(COLUMNS)
            measured = {row[name] for name in ("honest", "as printed", "ours", "seeds")}
            fixed = {"none", "the same", "is non-private", "the same: its noise is as printed"}
            fixed.add("none: it is not private")
            assert measured <= {NOT_RUN, *fixed} or not any(text[:1].isdigit() for text in measured), row
            assert row["verdict"]
    assert line(found, "Dubey2021", "Figure 1, alpha 0.1,")["verdict"] == NOT_RUN


def test_numbers_are_those_of_the_files(tmp_path):
    common = {"epsilon": 0.5, "delta": 0.1, "reps": 20, "first_seed": 1_000_000, "standard_error": 2.25}
    rows = [
        common | {"column": "tree, right noise", "regret": 401.0},
        common | {"column": "block release", "regret": 41.4},
        common | {"column": "random", "regret": 600.0, "epsilon": None, "delta": None},
    ]
    (tmp_path / "dubey2021-figure1-printed.json").write_text(json.dumps(rows))
    found = verdicts(tmp_path)
    row = line(found, "Dubey2021", "Figure 1, alpha 0.5,")
    assert (row["honest"], row["ours"], row["random"]) == ("401 (2.2)", "41 (2.2)", "600 (2.2)")
    assert (row["as printed"], row["non-private"], row["seeds"]) == (NOT_RUN, NOT_RUN, "20 from 1,000,000")
    assert line(found, "Dubey2021", "Figure 1, alpha 1,")["honest"] == NOT_RUN


@pytest.mark.parametrize(
    ("ratio", "error", "verdict"),
    [
        (1.45, 0.01, "reproduced with sources"),
        (1.3, 0.01, "not reproduced"),
        (1.3, 0.2, "not told apart: too few repetitions"),
    ],
)
def test_table_2_is_compared_within_two_standard_errors(tmp_path, ratio, error, verdict):
    place = {"table": "adult-birth", "epsilon": 1.0, "source_epsilon": 1.0, "moment": "n/4", "reps": 50}
    rows = [
        place | {"row": row, "ratio": value, "standard_error": error}
        for row, value in (("ma2025-c1 with sources", ratio), ("ma2025-c1", 0.9), ("tree", 0.95))
    ]
    (tmp_path / "ma2025-table2-printed.json").write_text(json.dumps({"cells": [], "ratios": rows}))
    row = line(verdicts(tmp_path), "Ma2025", "Table 2, adult (1, 1) at n/4")
    assert row["verdict"] == verdict
    assert row["printed"] == "1.459, 0.987"
    assert row["honest"].startswith(
        f"c1 {ratio:.3f} ({error:.3f}), 0.900 ({error:.3f}); 2log2 not run, not run"
    )
    assert row["ours"] == f"not run, 0.950 ({error:.3f})"


def test_a_bound_that_is_passed_is_not_reproduced(tmp_path):
    bounds = {"bound 4.3": 50.0, "bound 4.4": 0.5, "holds 4.4": False, "bound 6.2": 90.0, "bound 7.1": 0.1}
    rest = ("gap", "error Z", "inverse Z", "variance")
    row = {"T": 300, "worlds": 20, "first seed": 1, **bounds}
    row |= dict.fromkeys(rest, 0.3) | {f"{name} s.e.": 0.01 for name in rest}
    (tmp_path / "pavlovic2025-lemmas.json").write_text(json.dumps([row]))
    found = verdicts(tmp_path)
    assert line(found, "Pavlovic2025", "Lemma 4.4")["verdict"] == "holds; outside its own condition"
    assert line(found, "Pavlovic2025", "Lemma 7.1")["verdict"] == "not reproduced: above its bound"
    assert line(found, "Pavlovic2025", "Lemma 4.3")["verdict"].startswith("holds; says nothing")


def test_every_row_that_the_papers_print_has_a_line():
    found = verdicts(RESULTS)
    items = {paper: " ".join(row["item"] for row in rows) for paper, rows in found.items()}
    for words in (
        "Figure 1",
        "Figure 2",
        "Table 1",
        "Lemma 2",
        "Lemma 5",
        "Lemma 12",
        "Theorem 1",
        "Remark 3",
    ):
        assert words in items["Dubey2021"]
    for words in ("Figure 6", "Figure 7a", "Figure 8", "Figure 9c", "Table 1", "Theorem 2.6", "3.4"):
        assert words in items["Ma2025"]
    assert items["Ma2025"].count("Table 2,") == len(PRINTED_PAIRS) * 3 * 2 + 1  # and sums of ranks
    for words in ("4.1", "4.3", "4.4", "6.2", "7.1", "8.2", "clip", "continuous"):
        assert words in items["Pavlovic2025"]
    assert all(f"Table {number}," in items["Kharkovskii2020"] for number in range(1, 13))


@pytest.mark.parametrize(("tree", "told"), [(90.0, None), (101.0, "no"), (140.0, "yes")])
def test_where_a_published_method_does_better_is_told(tmp_path, tree, told):
    """Three results: ours is ahead, behind within two standard errors, and behind beyond them."""
    common = {"world": "printed", "epsilon": 0.5, "delta": 0.1, "reps": 20, "first_seed": 1_000_000}
    rows = [
        common | {"column": "tree, right noise", "regret": 100.0, "standard_error": 3.0},
        common | {"column": "tree, printed Lemma 2", "regret": 1.0, "standard_error": 0.1},  # not honest
        common | {"column": "block release", "regret": tree, "standard_error": 4.0},
    ]
    (tmp_path / "dubey2021-figure1-printed.json").write_text(json.dumps(rows))
    found = behind(tmp_path)
    assert [row["told apart"] for row in found] == ([] if told is None else [told])
    assert all(row["published method"] == "tree, right noise" for row in found)


def test_in_table_2_the_larger_ratio_is_ahead_and_who_is_not_private_is_left_out(tmp_path):
    place = {"table": "taxi", "epsilon": 1.0, "source_epsilon": 4.0, "moment": "n", "standard_error": 0.01}
    kinds = {"tree": 0.9, "linear": 0.95, "tree with sources": 0.9, "linear with sources": 0.8, "abse": 1.0}
    rows = [place | {"row": row, "ratio": ratio} for row, ratio in kinds.items()]
    (tmp_path / "ma2025-table2-printed.json").write_text(json.dumps({"cells": [], "ratios": rows}))
    assert [row["published method"] for row in behind(tmp_path)] == ["linear"]


def test_table_1_of_dubey2021_is_compared_at_whatever_scale(tmp_path):
    common = {"world": "camelback", "reps": 10, "first_seed": 1_000_000, "standard_error": 1.0}
    rows = [
        common | {"column": "tree, right noise", "regret": 1000.0, "epsilon": 1.0, "delta": 0.1},
        common | {"column": "non-private", "regret": 200.0, "epsilon": None, "delta": None},
    ]
    (tmp_path / "dubey2021-table1-printed.json").write_text(json.dumps(rows))
    found = {row["item"]: row for row in verdicts(tmp_path)["Dubey2021"]}
    row = found["Table 1, camelback, alpha 1"]
    assert row["verdict"].startswith("not reproduced: 1.98 times non-private as printed, 5.00 here")


def test_commands_name_items_that_there_are():
    for rows in verdicts(RESULTS).values():
        for row in rows:
            if row["run"].startswith("dpbandits"):
                _, _, _, paper, item, *_ = row["run"].split()
                assert paper in PAPERS
                assert item in study(paper).items
