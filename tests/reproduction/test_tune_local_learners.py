"""Tuning of the local policies: equal candidates and crowds for every case, resumable, on tuning worlds."""

import json

import pytest

from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.worlds.contextual import REPORT_WORLDS
from reproduction.local_worlds import TUNING_WORLDS
from reproduction.ma2025.local import CASES, TUNED_CASES
from reproduction.tuning.local_learners import (
    FACTORS,
    FIRST_SEED,
    LINE,
    RANGES,
    RUNGS,
    candidates,
    main,
    tuned,
)

SMALL = ((3, 1), (1, 1))


def test_cases_under_one_policy_get_the_same_candidates():
    drawn = candidates("smooth", 24)
    assert drawn == candidates("smooth", 24)
    assert len({json.dumps(one) for one in drawn}) == 24
    for one in drawn:
        assert all(low <= one[name] <= high for name, (low, high) in RANGES["smooth"].items())
    assert {CASES[case].policy for case in TUNED_CASES} == set(RANGES)
    assert FIRST_SEED + sum(crowds for _, crowds in RUNGS) < FIRST_REPORT_SEED
    assert not set(TUNING_WORLDS) & set(REPORT_WORLDS)


@pytest.mark.parametrize("case", ["smooth-laplace", "eliminate-auto"])
def test_the_best_go_on_and_the_first_row_is_is_taken(case, tmp_path):
    rows = tuned(case, n_users=400, rungs=SMALL, path=tmp_path / "runs.jsonl")
    assert [row["rung"] for row in rows] == [2] * len(FACTORS) + [1, 0, 0]
    assert rows[0]["crowds"] == rows[4]["crowds"] == 2
    assert rows[0]["stderr"] > 0
    for better, worse in ((0, 1), (1, 2), (2, 3), (5, 6)):
        assert rows[better]["score"] <= rows[worse]["score"]
    name = LINE[CASES[case].policy]
    scaled = sorted(row["constants"][name] / rows[4]["constants"][name] for row in rows[:4])
    assert scaled == pytest.approx(sorted(FACTORS), rel=0.01)
    again = tuned(case, n_users=400, rungs=SMALL, path=tmp_path / "runs.jsonl")
    assert again == rows


def test_the_command_keeps_other_cases(tmp_path, capsys):
    out = tmp_path / "tuning.json"
    out.write_text(json.dumps([{"case": "other"}]))
    main(["--cases", "eliminate-auto", "--users", "300", "--rungs", "[[2, 1]]", "--out", str(out)])
    rows = json.loads(out.read_text())
    assert [row["case"] for row in rows] == ["other"] + ["eliminate-auto"] * (2 + len(FACTORS))
    assert json.loads(capsys.readouterr().out) == rows[1]
