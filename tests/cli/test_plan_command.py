"""`dpbandits plan`: facts from a file and options, and no table that is not said to be public."""

import json

import pytest
from typer.testing import CliRunner

from dpbandits.cli.main import app

FILE = """
path = "people.csv"

[columns.age]
low = 18
high = 90

[label]
column = "bought"
categories = ["no", "yes"]

[plan]
effect = 0
"""


@pytest.fixture
def people(tmp_path):
    path = tmp_path / "people.toml"
    path.write_text(FILE)
    return path


def call(*arguments):
    return CliRunner().invoke(app, ["plan", *map(str, arguments)])


def test_it_answers_from_facts_and_opens_no_table(people):
    result = call(people, "--arms", "mail,call,nothing", "--users", 50_000, "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found["users"] == 50_000
    assert {trust: one["reachable"] for trust, one in found["answers"].items()} == {
        "central": False,
        "local": False,
    }
    spoken = call(people, "--arms", "mail,call", "--users", 100, "--trust", "local")
    assert "not reachable" in spoken.stdout


def test_two_worlds_are_printed_once_the_time_is_up_and_as_preliminary(people):
    facts = ["--arms", "a,b", "--users", 60, "--effect", 0.3, "--trust", "central", "--epsilon", 0.1]
    short = call(people, *facts, "--seconds", 0, "--jobs", 1)
    assert short.exit_code == 0
    assert short.stdout.count("PRELIMINARY") == 1
    long = call(people, *facts, "--worlds", 4, "--jobs", 1)
    assert "PRELIMINARY" not in long.stdout
    assert "4 worlds like theirs" in long.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--users", "60"], "arms"),
        (["--arms", "a,b"], "users"),
        (["--arms", "a,b", "--users", "60", "--public"], "--arms"),
        (["--users", "60", "--public"], "people.csv"),
        (["--arms", "a,b", "--users", "60", "--effect", "much"], "effect"),
        (["--arms", "a,b", "--users", "60", "--base-rate", "0.1:x"], "number"),
        (["--arms", "a,b", "--users", "60", "--target", "1.5"], "target"),
        (["--arms", "a,b", "--users", "60", "--rates", "0.1,0.2"], "ARM=NUMBER"),
        (["--arms", "a,b", "--users", "60", "--rates", "a=0.1, b=0.2, a=0.3"], "twice"),
        (["--arms", "a,b", "--users", "60", "--effect", "0.1", "--rates", "a=0.4:0.45"], "lacks b"),
        (["--arms", "a,b", "--users", "60", "--effect", "0.1", "--rates", "a=0.2:0.25,b=0.6:0.65"], "rates"),
    ],
)
def test_what_is_missing_is_named(people, arguments, said):
    result = call(people, *arguments)
    assert result.exit_code != 0
    assert said in str(result.exception) + result.output


def test_a_holdout_is_planned_without_a_file():
    options = ["--holdout", 0.1, "--looks", 4, "--rate", 0.01, "--users", 100_000]
    spoken = call(*options, "--half-width", 0.0025)
    assert spoken.exit_code == 0
    assert "plus or minus 0.0027 after the last look" in spoken.stdout
    assert "A holdout of 14% of the users gives plus or minus 0.0025" in spoken.stdout
    found = json.loads(call(*options, "--json").stdout)
    assert found["half_width"] < found["always"]
    assert found["smallest_share"] is None
    more = json.loads(call(*options, "--metrics", 2, "--json").stdout)
    assert more["half_width"] > found["half_width"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "people"),
        (["--holdout", 0.1, "--rate", 0.01], "users"),
        (["--half-width", 0.1, "--users", 500], "rate"),
        (["--holdout", 0.9, "--rate", 0.01, "--users", 500], "share"),
        (["--holdout", 0.1, "--rate", 0.01, "--users", 500, "--trust", "distributed"], "trust"),
    ],
)
def test_what_a_holdout_lacks_is_named(arguments, said):
    result = call(*arguments)
    assert result.exit_code != 0
    assert said in str(result.exception) + result.output
