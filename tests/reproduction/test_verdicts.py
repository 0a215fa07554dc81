"""The page of verdicts: numbers from result files alone, and "not run" where there is none."""

import json
import math
import re
import shlex
from pathlib import Path

import pytest

from reproduction import PAPERS, study
from reproduction.behind import CHANGED, ahead, behind
from reproduction.experiments import Choice
from reproduction.kharkovskii2020.methods import PUBLISHED, PUBLISHED_CODE
from reproduction.kharkovskii2020.verdicts import explained, run_often, small_r
from reproduction.ma2025.table_2 import PRINTED_PAIRS
from reproduction.verdicts import COLUMNS, NOT_RUN, items_page, verdicts
from reproduction.verdicts import ITEMS as ITEMS_PAGE

RESULTS = Path(__file__).resolve().parents[2] / "reproduction" / "results"


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
    (tmp_path / "dubey2021-figure-1.json").write_text(json.dumps(rows))
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
    (tmp_path / "ma2025-table-2.json").write_text(json.dumps({"cells": [], "ratios": rows}))
    row = line(verdicts(tmp_path), "Ma2025", "Table 2, adult (1, 1) at n/4")
    assert row["verdict"] == verdict
    assert row["printed"] == "its rule 1.459, 0.987; linear 0.954, 0.950; neural 0.906, 0.935"
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
        "Algorithm 1",
        "Algorithm 3",
    ):
        assert words in items["Dubey2021"]
    for words in (
        "Figure 6",
        "Figure 7a",
        "Figure 8",
        "Figure 9c, n 80,000",
        "Table 1",
        "Theorem 2.6",
        "Proposition 2.7",
        "Rewards of Table 2",
        "3.4",
        "(12)",
        "(14)",
        "Centres",
        "targets",
    ):
        assert words in items["Ma2025"]
    assert items["Ma2025"].count("Table 2,") == len(PRINTED_PAIRS) * 3 * 2 + 1  # and sums of ranks
    for words in ("4.1", "4.3", "4.4", "6.2", "7.1", "8.2", "clip", "continuous"):
        assert words in items["Pavlovic2025"]
    assert all(f"Table {number}," in items["Kharkovskii2020"] for number in range(1, 13))
    for words in ("Largest r", "prepared"):
        assert words in items["Kharkovskii2020"]
    rows = {row["item"]: row["verdict"] for row in found["Kharkovskii2020"]}
    assert (
        rows["Largest r with sigma_min >= omega, of those tried"] == "reproduced: 10, 15, 20 and 10, 15, 20"
    )
    prepared = rows["Branin prepared: most likely lengthscales, isotropic, norm 25"]
    assert prepared == "reproduced: 187.2; 192.3 as its public code scales rows"


ELEMENTS = {
    "Dubey2021": {
        "Figure": 2,
        "Table": 1,
        "Algorithm": 3,
        "Theorem": 5,
        "Lemma": 13,
        "Corollary": 4,
        "Remark": 7,
    },
    "Kharkovskii2020": {"Figure": 3, "Table": 12, "Algorithm": 2, "Theorem": 5, "Lemma": 12, "Remark": 6},
}
"""How many of each a paper has; they are numbered from 1 on."""

PAVLOVIC = "2.1 3.1 4.1 4.2 4.3 4.4 6.1 6.2 6.3 7.1 7.2 7.3 8.1 8.2 9.1"
"""Numbers of its theorems and lemmas, which it counts by section."""


def numbers_of(kind, items):
    """Numbers that stand behind a kind of element: "Lemma 4 (13)", "Theorem 3 with Lemma 7"."""
    words = rf"(?:{kind}s? )(\d+(?:\.\d+)?)(?: \((\d+(?:\.\d+)?)\))?(?:, (\d+))*"
    return {number for item in items for found in re.findall(words, item) for number in found if number}


@pytest.mark.parametrize("paper", ELEMENTS)
def test_every_element_of_a_paper_has_a_line(paper):
    items = [row["item"] for row in verdicts(RESULTS)[paper]]
    for kind, count in ELEMENTS[paper].items():
        assert numbers_of(kind, items) >= {str(number) for number in range(1, count + 1)}, kind


def test_every_numbered_statement_of_pavlovic2025_has_a_line():
    items = [row["item"] for row in verdicts(RESULTS)["Pavlovic2025"]]
    assert numbers_of("Theorem", items) | numbers_of("Lemma", items) == set(PAVLOVIC.split())


def test_the_page_of_items_is_what_the_results_say():
    """`python -m reproduction.verdicts` writes it."""
    assert ITEMS_PAGE.read_text(encoding="utf-8") == items_page(RESULTS)


def test_the_page_of_items_has_a_line_for_every_verdict(tmp_path):
    """Also of an empty folder: every line says that it was not run, or is computed."""
    lines = [line for line in items_page(tmp_path).splitlines() if line.startswith("| ")]
    papers = verdicts(tmp_path)
    assert len(lines) == sum(len(rows) for rows in papers.values()) + 2 * len(papers)
    heads = lines[0].split(" | ")
    for line in lines:
        assert len(re.split(r"(?<!\\)\|", line)) == len(heads) + 2


def test_published_columns_alone_are_rerun_with_the_printed_shift():
    choice = Choice(columns=study("dubey2021").published)
    cells = study("dubey2021").cells("figure-1", choice)
    assert {cell.column for cell in cells} == {"tree, right noise", "tree, printed Lemma 2"}
    for cell in cells:
        assert cell.settings["policy"]["tuning"]["spectral_bound"] == "printed"


def test_a_published_method_that_does_worse_is_counted(tmp_path):
    common = {"world": "printed", "delta": 0.1, "reps": 20, "first_seed": 1_000_000, "standard_error": 1.0}
    rows = [
        common | {"column": column, "epsilon": epsilon, "regret": regret}
        for epsilon, tree, own in ((0.5, 200.0, 100.0), (1.0, 50.0, 100.0), (10.0, 101.0, 100.0))
        for column, regret in (("tree, right noise", tree), ("block release", own))
    ]
    (tmp_path / "dubey2021-figure-1.json").write_text(json.dumps(rows))
    assert ahead(tmp_path) == [
        {
            "item": "Dubey2021 figure-1",
            "published method": "tree, right noise",
            "places": "3",
            "ours is better": "2",
            "told apart": "1",
            "by a factor of": "2.00 to 2.00",
        }
    ]


@pytest.mark.parametrize(("tree", "told"), [(90.0, None), (101.0, "no"), (140.0, "yes")])
def test_where_a_published_method_does_better_is_told(tmp_path, tree, told):
    """Three results: ours is ahead, behind within two standard errors, and behind beyond them."""
    common = {"world": "printed", "epsilon": 0.5, "delta": 0.1, "reps": 20, "first_seed": 1_000_000}
    rows = [
        common | {"column": "tree, right noise", "regret": 100.0, "standard_error": 3.0},
        common | {"column": "local, as published", "regret": 1.0, "standard_error": 0.1},  # ours is not run
        common | {"column": "block release", "regret": tree, "standard_error": 4.0},
    ]
    (tmp_path / "dubey2021-figure-1.json").write_text(json.dumps(rows))
    found = behind(tmp_path)
    assert [row["told apart"] for row in found] == ([] if told is None else [told])
    assert all(row["published method"] == "tree, right noise" for row in found)


def test_what_would_be_ahead_with_one_part_changed_is_said_and_is_not_called_published(tmp_path):
    place = {"world": "camelback", "epsilon": 10.0, "delta": 0.1, "reps": 5, "first_seed": 1_000_000}
    names = ("as published", "no noise drawn", "beta_t 0", "a tenth of beta_t")
    rows = [
        place | {"column": name, "regret": regret, "standard_error": 1.0}
        for name, regret in zip(names, (50.0, 50.0, 50.0, 500.0), strict=True)
    ]
    ours = place | {"column": "block release", "regret": 100.0, "standard_error": 1.0}
    (tmp_path / "dubey2021-table-1-parts.json").write_text(json.dumps(rows))
    (tmp_path / "dubey2021-table-1.json").write_text(json.dumps([ours]))
    (found,) = behind(tmp_path)
    assert found["published method"] == f"{CHANGED}tree, right noise, beta_t 0"
    assert found["told apart"] == "yes"


@pytest.mark.parametrize(("regret", "told"), [(0.074, "yes"), (0.0779, "no"), (0.09, None)])
def test_in_table_2_rewards_are_compared_with_their_own_errors(tmp_path, regret, told):
    """Not their ratios to ABSE's: the noise of the divisor is the same for both and hides what is clear."""
    place = {"world": "taxi", "epsilon": 1.0, "standard_error": 0.0002, "standard_error_at_quarter": 0.1}
    place |= {"sources": [{"epsilon": 4.0}], "regret_at_quarter": 0.5}
    cells = [
        place | {"method": "tree", "regret": 0.078},
        place | {"method": "linear", "regret": regret},
        place | {"method": "linear", "regret": 0.01, "sources": []},  # ours was not run there
        place | {"method": "abse", "regret": 0.01, "epsilon": None},  # not private
    ]
    where = {"table": "taxi", "epsilon": 1.0, "source_epsilon": 4.0, "moment": "n", "standard_error": 0.01}
    ratios = [where | {"row": f"{row} with sources", "ratio": 1.0} for row in ("tree", "linear")]
    (tmp_path / "ma2025-table-2.json").write_text(json.dumps({"cells": cells, "ratios": ratios}))
    found = behind(tmp_path)
    assert [row["told apart"] for row in found] == ([] if told is None else [told])
    assert all(row["published method"] == "linear" for row in found)
    assert all(row["item"].endswith("sources at 4, reward at n") for row in found)


@pytest.mark.parametrize(
    ("regret", "error", "reps", "said"),
    [
        (0.40, 0.001, 10, "reproduced"),
        (0.50, 0.08, 10, "not told apart"),
        (0.50, 0.01, 10, "not reproduced"),
        (0.50, 0.03, 3, "not told apart"),  # 3.7 standard errors of three runs
        (0.50, 0.03, 10, "not reproduced"),
    ],
)
def test_published_runs_of_ma2025_are_compared_with_their_code_which_is_not_private(
    tmp_path, regret, error, reps, said
):
    """Published: .3879 +- .0039 of 30 runs. Within 15% it is reproduced; else Welch's test at 5% decides."""
    place = {"world": "ma-code", "epsilon": 1.0, "n_users": 10_000, "sources": []}
    place |= {"reps": reps, "first_seed": 5_000_000}
    rows = [
        place | {"method": "ma2025-code", "regret": regret, "standard_error": error},
        place | {"method": "tree", "regret": 0.1, "standard_error": 0.002, "reps": 2},
    ]
    (tmp_path / "ma2025-figure-7a.json").write_text(json.dumps(rows))
    lines = {row["item"]: row for row in verdicts(tmp_path)["Ma2025"]}
    found = lines["Figure 7a, n 10,000, epsilon 1"]
    assert found["printed"] == "0.388 (0.004, 30 runs)"
    assert found["verdict"].startswith(f"not private; {said} as its code runs")
    assert (found["ours"], found["honest"]) == ("0.100 (0.002)", NOT_RUN)
    assert found["seeds"] == f"code {reps}, ours 2 from 5,000,000"
    assert not behind(tmp_path)  # what is not private is no published method at the same promise


def test_table_1_of_dubey2021_is_compared_at_whatever_scale(tmp_path):
    common = {"world": "camelback", "reps": 10, "first_seed": 1_000_000, "standard_error": 1.0}
    rows = [
        common | {"column": "tree, right noise", "regret": 1000.0, "epsilon": 1.0, "delta": 0.1},
        common | {"column": "non-private", "regret": 200.0, "epsilon": None, "delta": None},
    ]
    (tmp_path / "dubey2021-table-1.json").write_text(json.dumps(rows))
    found = {row["item"]: row for row in verdicts(tmp_path)["Dubey2021"]}
    row = found["Table 1, camelback, alpha 1"]
    assert row["verdict"].startswith("not reproduced: 1.98 times non-private as printed, 5.00 here")


@pytest.mark.parametrize("random", [3000.0, 300.0, 240.0])
def test_that_no_scale_fits_is_said_where_even_a_random_arm_does_better(tmp_path, random):
    common = {"world": "camelback", "reps": 10, "first_seed": 1_000_000, "standard_error": 1.0}
    rows = [
        common | {"column": "tree, right noise", "regret": 250.0, "epsilon": 1.0, "delta": 0.1},
        common | {"column": "non-private", "regret": 200.0, "epsilon": None, "delta": None},
        common | {"column": "random", "regret": random, "epsilon": None, "delta": None},
    ]
    (tmp_path / "dubey2021-table-1.json").write_text(json.dumps(rows))
    found = {row["item"]: row for row in verdicts(tmp_path)["Dubey2021"]}
    row = found["Table 1, camelback, alpha 1"]
    assert ("a random arm has 1.50: none fits" in row["verdict"]) is (random == 300.0)
    assert row["verdict"].endswith("; worse than a random arm") is (random == 240.0)


def test_printed_means_get_the_spread_of_ours(tmp_path):
    """.53 printed, .60 +- .03 here in 50 runs: beyond two of ours, within two of the difference's, .085."""
    row = {"method": PUBLISHED, "epsilon": math.exp(2.3), "dimension": 3, "reps": 50, "first_seed": 1_000_000}
    row |= {"regret": 0.60, "standard_error": 0.03}
    (tmp_path / "kharkovskii2020-branin31.json").write_text(json.dumps([row]))
    found = line(verdicts(tmp_path), "Kharkovskii2020", "Table 10,")
    assert found["verdict"] == "not private; 0 of 6 within two standard errors, 1 of the difference"
    lines = {line["setting"]: line for line in explained(tmp_path)}
    shown = lines["Branin as printed"]["regret along r"]
    assert shown == "Table 10: 0.600 not run not run not run not run not run, 1 of 6"
    assert lines["a fifth of beta_t"]["regret along r"] == lines["lengthscale 5"]["GP-UCB"] == NOT_RUN
    code = [row | {"method": PUBLISHED_CODE, "dimension": r, "regret": 0.0} for r in (3, 6, 8, 10)]
    (tmp_path / "kharkovskii2020-branin31-code-raw-shifted.json").write_text(json.dumps(code))
    found = line(verdicts(tmp_path), "Kharkovskii2020", "Table 10,")
    assert found["verdict"].endswith(", 1 of the difference; 2 as its public code runs")  # .038 and 0


def test_what_was_tried_for_small_r_and_what_was_run_often_stand_beside_the_printed_numbers(tmp_path):
    assert small_r(tmp_path)[0] == {
        "setting": "printed",
        "GP-UCB": "about 0",
        "r = 3, e^2.3": "0.53",
        "r = 5, e^2.7": "0.152",
        "r = 6, e^2.3": "0.184",
        "r = 8, e^2.3": "0.038",
        "r = 10, e^2.3": "0",
        "r = 20, e^2.3": "0.024",
    }
    assert all(row["GP-UCB"] == NOT_RUN for row in small_r(tmp_path)[1:])
    assert not run_often(tmp_path)
    row = {"method": PUBLISHED_CODE, "epsilon": math.exp(2.3), "dimension": 3, "standard_error": 0.01}
    row |= {"world": "branin31-code-raw-shifted", "regret": 0.03, "median": 0.001, "missed": 4}
    (tmp_path / "kharkovskii2020-branin31-small-r.json").write_text(json.dumps([row]))
    assert small_r(tmp_path)[1]["r = 3, e^2.3"] == "0.030 (0.010); 0.001; 4"
    row |= {"reps": 150, "fifties": [0.01, 0.02, 0.06], "worst": 0.5}
    (tmp_path / "kharkovskii2020-branin31-code-raw-often.json").write_text(json.dumps([row]))
    (line,) = run_often(tmp_path)
    assert (line["table"], line["printed"], line["means of fifty"]) == (10, "0.53", "0.010 to 0.060")
    assert line["standard errors apart"] == "25.0"  # of .01 sqrt(1 + 3)


ITEMS = {
    "Dubey2021": """519 775 1,029 3,324 885 1,667 2,680 4,493 901 1,558 2,883 5,002 10.5 2.71e+03 1.418-GDP
        3,459""",
    "Ma2025": """41,292 57,773 621,957 3,930 14,318 18,945
        1.459 .987 .954 .950 .906 .935 1.101 .795 .724 .715 .750 .784 .801 .797 .786 .794 .800 .694 .693 .684
        .690 .700 .695 .989 .976 .984 .998 .994 .992 .996 .993 .995 1.602 .988 .986 1.110 1.210 .782 .771 .871
        .816 .846 .804 .798 .742 .688 .704 .698 .997 .985 .969 .990 .991 .964 .895 .930 1.102 .919 .762 .772
        .745 .808 .819 .788 .791 .719 .720 .683 .705 .974 1.000 .999 .968 .929 .857 .785 .792 .754 .674 .696
        1.001 1.002 15 45|55 52|37 43 22 44|54 56|33 36""",
    "Kharkovskii2020": """.073 .038 .018 .014 .118 .137 .083 .088 .078 .069 .081 .076 .682 .516 .495 .485 .493
        .53 .184 0 .005 .024 .091 .009 .019 .008 .127 .134 .077 .1 .096 .567 .553 .479 .453 .52 .259 .001 .026
        .05 .021 .003 .002 .094 .142 .097 .104 .591 .523 .486 .482 .489 .488 .152 .011 .099 .017 .082 .051
        .004 .023 .084 e^1.1 e^1.3 e^1.5 e^2.7 e^2.9 e^3.1 e^2.6 e^2.8 e^2.3 e^2.5""",
}
"""Every number of a figure or table that the list of what the papers print has."""


def test_every_printed_number_stands_on_the_page_and_none_is_not_at_hand():
    for paper, numbers in ITEMS.items():
        rows = verdicts(RESULTS)[paper]
        text = " ".join(f"{row['item']} {row['printed']}" for row in rows)
        held = {word.strip(",;:()") for word in text.replace(" 0.", " .").split()}
        assert not {number for number in numbers.split() if number not in held}
        assert not [row for row in rows if "not at hand" in row["printed"]]


def test_commands_choose_the_cells_of_their_lines():
    """Every one is taken by its study; in the figures of Ma2025 and Dubey2021 by no other place."""
    options = {"--world": "worlds", "--column": "columns", "--epsilon": "epsilons", "--rounds": "rounds"}
    checked = 0
    for rows in verdicts(RESULTS).values():
        for row in rows:
            if not row["run"].startswith("python -m reproduction "):
                continue
            checked += 1
            _, _, _, paper, item, *words = shlex.split(row["run"])
            assert paper in PAPERS
            assert item in study(paper).items
            where, said = {}, {}
            if "--published" in words:
                words.remove("--published")
                said["columns"] = list(study(paper).published)
            for option, value in zip(words[::2], words[1::2], strict=True):
                if option == "--where":
                    name, _, text = value.partition("=")
                    where[name] = json.loads(text)
                else:
                    made = value if option in ("--world", "--column") else json.loads(value)
                    said.setdefault(options[option], []).append(made)
            cells = study(paper).cells(item, Choice(**said, where=where))
            if (
                row["item"].startswith("Figure")
                and paper in ("ma2025", "dubey2021")
                and row["seeds"] != NOT_RUN
            ):
                labels = [{"epsilon": cell.epsilon} | cell.label for cell in cells]
                if any(label.get("sources") for label in labels):  # no option leaves out cells without one
                    labels = [label for label in labels if label["sources"]]
                names = ("epsilon", "delta", "n_users", "sources")
                places = {json.dumps([label.get(name) for name in names]) for label in labels}
                assert len({place for place in places if not place.startswith("[null")}) == 1, row["run"]
    assert checked > 100


def test_only_the_place_itself_is_rerun():
    row = line(verdicts(RESULTS), "Ma2025", "Figure 9a, 2 of 20,000, source epsilon 8, kappa 0")
    words = "--world ma-code --epsilon 2 --rounds 40000 --where sources.0.n_users=20000"
    words += " --where sources.0.epsilon=8 --where sources.0.kappa=0"
    assert row["run"] == f"python -m reproduction ma2025 figure-9a {words}"
    where = {"sources.0.n_users": 20_000, "sources.0.epsilon": 8, "sources.0.kappa": 0}
    cells = study("ma2025").cells("figure-9a", Choice(worlds=["ma-code"], rounds=[40_000], where=where))
    # where no source is, no option about sources leaves it out
    assert [cell.method for cell in cells if cell.sources] == ["ma2025-code", "tree"]
