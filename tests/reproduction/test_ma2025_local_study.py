"""The local study in miniature: every case runs, tuning and reporting stay apart."""

import json

import pytest
from typer.testing import CliRunner

from dpbandits.errors import InvalidParameter
from reproduction.__main__ import app
from reproduction.experiments import Choice
from reproduction.ma2025.items import STUDY
from reproduction.ma2025.local import (
    CASES,
    outcomes,
    public_code_ratios,
    reference_regrets,
    report_speed,
)


@pytest.mark.parametrize("case", sorted(CASES))
def test_every_case_runs(case):
    runs = outcomes(CASES[case], "ma", epsilon=2.0, n_users=600, seeds=[1, 2])
    assert runs.shape == (2, 2)
    # regret and reward add up to what the best arms pay, about .887 on this world
    assert abs(runs.sum(axis=1) - 0.887).max() < 0.02


def test_tables_resume_and_refuse_tuning_seeds(tmp_path):
    arguments = ["ma2025", "local", "--column", "smooth-auto", "--world", "ma", "--epsilon", "2"]
    arguments += ["--rounds", "500", "--reps", "2", "--out", str(tmp_path), "--json"]
    first = CliRunner().invoke(app, arguments)
    assert first.exit_code == 0, first.output
    assert CliRunner().invoke(app, arguments).output == first.output
    (row,) = json.loads(first.output)
    assert json.loads((tmp_path / "local-worlds.json").read_text()) == [row]
    assert row["first_seed"] >= 1_000_000
    assert 0 < row["average_regret"] < 0.5
    with pytest.raises(InvalidParameter, match="report seeds"):
        STUDY.run("local", seed=5)


def test_public_code_is_an_item():
    rows, _ = STUDY.run("public-code", choice=Choice(columns=["public code"]))
    assert [row["depth"] for row in rows] == [3, 5, 6, 7]
    assert all(row["variance"] > row["depth"] for row in rows)


def test_public_code_understates_noise_by_the_number_of_bins():
    ratios = public_code_ratios(epsilon=1.0, n_users=2000, depth=5, n_batches=200, runs=4000, seed=3)
    assert 32 * 0.85 < ratios["variance"] < 32 * 1.18
    assert abs(ratios["radius"] - 10.0) < 0.1


def test_reference_regrets_are_the_known_ones():
    random, constant = reference_regrets("ma")
    assert abs(random - 0.414) < 0.002
    assert abs(constant - 0.384) < 0.002


@pytest.mark.parametrize("mechanism", ["signed", "questions"])
def test_report_speed_counts_every_report(mechanism):
    row = report_speed(mechanism, n_bins=2, n_reports=3000)
    assert row["bins"] >= 2
    assert row["absorbed_per_second"] > 0
    assert 8 <= row["server_bytes_per_report"] < 16


def test_questions_stand_beside_the_tree_on_the_same_crowds_and_sources():
    choice = Choice(columns=["good", "questions-good"], worlds=["ma"], rounds=[600])
    tree, questions = STUDY.run("transfer", choice=choice, reps=2)[0]
    assert questions["tree_regret"] == pytest.approx(tree["average_regret"])
    assert questions["gap"] == pytest.approx(questions["average_regret"] - tree["average_regret"])
    assert "gap" not in tree
