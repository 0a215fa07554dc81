"""`dpbandits local simulate`, as its own application."""

import json

import pytest
from typer.testing import CliRunner

from dpbandits.cli.local import app
from dpbandits.errors import InvalidParameter

RUNNER = CliRunner()


def invoke(*arguments):
    return RUNNER.invoke(app, ["simulate", *map(str, arguments)])


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--learner", "eliminate"),
        ("--learner", "ma2025"),
        ("--mechanism", "hadamard"),
        ("--world", "radial-3d"),
    ],
    ids=str,
)
def test_json_has_the_regret_with_its_error(options):
    done = invoke("--users", 600, "--epsilon", 4, "--reps", 2, "--json", *options)
    assert done.exit_code == 0, done.output
    values = json.loads(done.stdout)
    assert 0 < values["average_regret"] < 0.5
    assert values["stderr"] > 0
    assert values["reps"] == 2


def test_dimensions_and_arms_of_ma_are_free(tmp_path):
    done = invoke("--users", 400, "--epsilon", 2, "--dim", 1, "--arms", 4, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "average regret" in done.stdout
    assert "one run" in done.stdout
    assert {file.name for file in (tmp_path / "out").iterdir()} == {"regret.csv", "regret.png", "bins.png"}
    rows = (tmp_path / "out" / "regret.csv").read_text().splitlines()
    assert rows[0] == "users,regret_per_user,stderr"
    assert len(rows) == 5


def test_three_columns_have_curves_and_no_picture_of_bins(tmp_path):
    done = invoke("--users", 300, "--epsilon", 2, "--dim", 3, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "bins.png").exists()


@pytest.mark.parametrize(
    "options",
    [
        ("--epsilon", 17),
        ("--epsilon", 0),
        ("--epsilon", 1, "--world", "atlantis"),
        ("--epsilon", 1, "--world", "diagonal", "--dim", 3),
    ],
    ids=str,
)
def test_bad_options_are_said(options):
    done = invoke("--users", 100, *options)
    assert isinstance(done.exception, InvalidParameter)
