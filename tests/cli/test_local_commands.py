"""`dpbandits local simulate`, as its own application."""

import json

import numpy as np
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
    assert values["anomaly"] < 20


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


DESCRIPTION = """
path = "people.csv"
horizon = 300
[columns.region]
categories = ["north", "south", "unknown"]
missing = "unknown"
[columns.age]
low = 18
high = 90
missing = 50
[user]
column = "person"
rows = 2
[rewards]
columns = ["mail", "call"]
low = 0
high = 10
[privacy]
epsilon = 4
"""


@pytest.fixture
def described(tmp_path):
    """400 people, 100 of them with two rows; one cell in ten is missing."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(500):
        region = ["north", "south", "NA"][rng.choice(3, p=[0.45, 0.45, 0.1])]
        age = "" if rng.random() < 0.1 else str(rng.integers(18, 91))
        mail = 9 if region == "north" else 1
        lines.append(f"{row % 400},{region},{age},{mail},{10 - mail}")
    (tmp_path / "people.csv").write_text("\n".join(["person,region,age,mail,call", *lines]) + "\n")
    (tmp_path / "people.toml").write_text(DESCRIPTION)
    return tmp_path / "people.toml"


def test_a_toml_file_alone_is_enough(described):
    done = invoke("--data", described, "--json")
    assert done.exit_code == 0, done.output
    values = json.loads(done.stdout)
    assert (values["users"], values["epsilon"], values["dim"], values["arms"]) == (300, 4.0, 2, 2)
    assert values["world"] == "people"
    assert 0 < values["average_reward"] < 10
    assert values["average_reward"] + values["average_regret"] == pytest.approx(9.0)
    assert values["references"]["random arms"] == pytest.approx(5.0)
    assert values["bins"] >= 1
    shown = invoke("--data", described, "--users", 50, "--epsilon", 1, "--learner", "ma2025")
    assert "reward of random arms" in shown.stdout
    assert "50 users, epsilon = 1" in shown.stdout


def test_all_people_come_once_where_nothing_is_said(described):
    described.write_text(DESCRIPTION.replace("horizon = 300", ""))
    assert json.loads(invoke("--data", described, "--json").stdout)["users"] == 400


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--world", "ma"), "leave one out"),
        (("--dim", 3), "leave out --dim"),
        (("--users", 401), "the table has 400 users"),
        (("--source", "10,2,0,1"), "use --world"),
    ],
    ids=str,
)
def test_what_does_not_go_with_a_table_is_said(described, options, says):
    done = invoke("--data", described, *options)
    assert isinstance(done.exception, InvalidParameter)
    assert says in str(done.exception)


def test_what_is_missing_is_said(described):
    described.write_text(DESCRIPTION.partition("[privacy]")[0])
    assert "--epsilon" in str(invoke("--data", described).exception)
    assert "--users" in str(invoke("--epsilon", 1).exception)
    assert ".toml" in str(invoke("--data", "nowhere", "--epsilon", 1).exception)
    described.write_text(
        DESCRIPTION.replace("[rewards]", "[log]\narm = 'mail'\narms = [1, 2]\nreward = 'call'").replace(
            'columns = ["mail", "call"]', ""
        )
    )
    assert "every arm" in str(invoke("--data", described).exception)
