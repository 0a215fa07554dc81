import json

import pytest
from typer.testing import CliRunner

from dpbandits.cli.lab import app
from dpbandits.errors import InvalidParameter
from dpbandits.lab.papers.pavlovic2025.errors import METHODS

NAME = "SE .5 in 1+1"
SMALL = ("--rounds", "400", "--epsilon", "1", "--reps", "2", "--seed", "1500000")


def run(*arguments):
    done = CliRunner().invoke(app, ["study", "pavlovic2025", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def rows(*arguments):
    return json.loads(run(*arguments, "--json"))


def test_errors_are_those_of_the_study_and_settings_are_kept(tmp_path):
    first = rows("errors", "--world", NAME, *SMALL, "--out", tmp_path)
    assert {row["method"] for row in first} == set(METHODS)
    assert {(row["worlds"], row["first seed"]) for row in first} == {(2, 1_500_000)}
    second = rows("errors", "--world", "SE .2 in 1+1", *SMALL, "--out", tmp_path)
    held = json.loads((tmp_path / "pavlovic2025-errors.json").read_text())
    assert held == first + second
    again = rows("errors", "--world", NAME, *SMALL, "--out", tmp_path)
    assert again == first
    assert len(json.loads((tmp_path / "pavlovic2025-errors.json").read_text())) == len(held)
    assert "not a private" in run("errors", "--world", NAME, *SMALL)


def test_lemmas_and_phases_have_standard_errors():
    (line,) = rows("lemmas", "--rounds", "30", "--reps", "2", "--seed", "1500000")
    assert line["gap s.e."] > 0.0
    (line,) = rows("phases", "--rounds", "600", "--epsilon", "2", "--reps", "2", "--seed", "1500000")
    assert 0.0 < line["phases"] < line["random"] * 1.2
    assert line["phases s.e."] > 0.0


def test_ratios_stay_below_one_and_come_close(monkeypatch):
    from dpbandits.lab.papers.pavlovic2025 import ratios as pavlovic2025_ratios

    monkeypatch.setattr(pavlovic2025_ratios, "CELLS", 9)
    found = rows("ratios", "--epsilon", "1")
    assert {row["kernel"] for row in found} == set(pavlovic2025_ratios.KERNELS)
    assert all(0.9 <= row["ratio"] <= 1.0 + 1e-9 for row in found)


def test_unknown_settings_are_refused():
    with pytest.raises(InvalidParameter):
        run("errors", "--world", "SE .1 in 9+9")
