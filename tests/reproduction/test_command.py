import json

import pytest
from typer.testing import CliRunner

from dpbandits.errors import InvalidParameter
from reproduction import PAPERS, study
from reproduction.__main__ import app
from reproduction.dubey2021.cells import RANDOM
from reproduction.pavlovic2025.errors import METHODS

NAME = "SE .5 in 1+1"
SMALL = ("--rounds", "400", "--epsilon", "1", "--reps", "2", "--seed", "1500000")


def run(*arguments):
    done = CliRunner().invoke(app, ["pavlovic2025", *map(str, arguments)])
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


def test_lemmas_have_standard_errors():
    (line,) = rows("lemmas", "--rounds", "30", "--reps", "2", "--seed", "1500000")
    assert line["gap s.e."] > 0.0


def test_ratios_stay_below_one_and_come_close(monkeypatch):
    from reproduction.pavlovic2025 import ratios as pavlovic2025_ratios

    monkeypatch.setattr(pavlovic2025_ratios, "CELLS", 9)
    found = rows("ratios", "--epsilon", "1")
    assert {row["kernel"] for row in found} == set(pavlovic2025_ratios.KERNELS)
    assert all(0.9 <= row["ratio"] <= 1.0 + 1e-9 for row in found)


def test_unknown_settings_are_refused():
    with pytest.raises(InvalidParameter):
        run("errors", "--world", "SE .1 in 9+9")


def test_list_names_every_item():
    ran = CliRunner().invoke(app, ["--list", "--json"])
    assert ran.exit_code == 0, ran.output
    found = {(line["paper"], line["item"]) for line in json.loads(ran.output)}
    assert found == {(name, item) for name in PAPERS for item in study(name).items}
    some = CliRunner().invoke(app, ["ma2025", "table-2", "--list"])
    assert some.exit_code == 0, some.output
    assert "table-2-questions" in some.output
    assert "dubey2021" not in some.output


@pytest.mark.parametrize("said", ["delta", "=1", "=", "delta=0.1 delta=0.5"])
def test_a_field_without_name_or_value_and_one_named_twice_are_refused(said):
    words = [word for part in said.split() for word in ("--where", part)]
    ran = CliRunner().invoke(app, ["dubey2021", "figure-2", *words])
    assert isinstance(ran.exception, InvalidParameter)
    assert "NAME=VALUE" in str(ran.exception)


def test_values_of_fields_are_json_or_text():
    words = ["--where", "delta=0.5", "--column", RANDOM, "--where", f"column={RANDOM}", "--reps", "2"]
    ran = CliRunner().invoke(app, ["dubey2021", "figure-2", *words, "--json"])
    assert ran.exit_code == 0, ran.output
    (row,) = json.loads(ran.stdout)
    assert (row["column"], row["reps"]) == (RANDOM, 2)


@pytest.mark.parametrize("flag", ["--resume", "--fresh"])
def test_resuming_needs_a_folder(flag):
    ran = CliRunner().invoke(app, ["dubey2021", "figure-1", flag])
    assert isinstance(ran.exception, InvalidParameter)
    assert "--out" in str(ran.exception)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("einstein1905", "dubey2021"),
        ("ma2025 nothing", "figure-8"),
        ("ma2025 figure-8 --world nowhere --reps 2", "the worlds are"),
        ("ma2025 figure-8 --jobs 0 --reps 2", "jobs"),
    ],
)
def test_a_mistake_is_answered_by_what_there_is(words, told):
    ran = CliRunner().invoke(app, words.split())
    assert isinstance(ran.exception, InvalidParameter)
    assert told in str(ran.exception)
