"""On the command line an account protects one unit, and nothing about another is charged to it."""

import numpy as np
import pytest
from typer.testing import CliRunner

from dpbandits.budget import SQLiteLedger
from dpbandits.cli.main import app
from dpbandits.errors import InvalidParameter


@pytest.fixture
def tables(tmp_path):
    rng = np.random.default_rng(0)
    n = 120
    age, dose = rng.uniform(20, 80, n), rng.uniform(0, 10, n)
    arms = rng.choice(["diet", "drug"], n)
    lines = ["id,age,dose,arm,effect"]
    lines += [f"p{i},{age[i]},{dose[i]},{arms[i]},{rng.random()}" for i in range(n)]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def curate(folder, name, *more, distance, epsilon="1"):
    return CliRunner().invoke(
        app,
        ["outsourced", "curate", str(folder / "table.csv"), "--columns", "age,dose", "--bounds", "20:80,0:10",
         "--epsilon", epsilon, "--distance", str(distance), "--objective", "effect",
         "--out", str(folder / name), "--secret", str(folder / f"{name}-secret"),
         "--ledger", str(folder / "book.db"), "--account", "people", *more],
    )  # fmt: skip


def learn(folder, name, *more):
    return CliRunner().invoke(
        app,
        ["central", "learn", str(folder / "table.csv"), "--context", "age,dose", "--action", "arm",
        "--reward", "effect",
         "--bounds", "20:80,0:10,0:1", "--user", "id", "--horizon", "120", "--epsilon", "1",
         "--out", str(folder / name), "--ledger", str(folder / "book.db"), "--account", "people", *more],
    )  # fmt: skip


ANSWERS = ("--answer-epsilon", "0.5", "--answer-bounds", "0:1", "--answer-distance", "0.1")


def spent(folder):
    return float(SQLiteLedger(folder / "book.db").balance("people").spent_epsilon)


@pytest.mark.parametrize(("answers", "each"), [((), 1.0), (ANSWERS, 1.5)])
def test_releases_of_one_account_are_added_up_at_its_distance(tables, answers, each):
    assert curate(tables, "a", "--budget", "90", distance=1).exit_code == 0
    assert spent(tables) == 1
    assert curate(tables, "b", *answers, distance=0.25).exit_code == 0  # four steps
    assert spent(tables) == 1 + 4 * each
    assert curate(tables, "c", *answers, distance=1.5).exit_code == 0  # covers a move of 1
    assert spent(tables) == 1 + 5 * each
    refused = curate(tables, "d", "--budget", "90", distance=0.25)  # the account is opened for moves of 1
    assert isinstance(refused.exception, InvalidParameter)
    assert "unit" in str(refused.exception)
    assert spent(tables) == 1 + 5 * each


def test_rows_and_users_are_apart(tables):
    assert curate(tables, "a", "--budget", "90,0.0001", distance=1).exit_code == 0
    refused = learn(tables, "b")
    assert isinstance(refused.exception, InvalidParameter)
    assert "another unit" in str(refused.exception)
    assert not (tables / "b").exists()
    assert spent(tables) == 1
    refused = learn(tables, "b", "--budget", "90,0.0001")
    assert "unit" in str(refused.exception)


@pytest.mark.parametrize("answers", [(), ANSWERS])
def test_users_and_rows_are_apart(tables, answers):
    done = learn(tables, "a", "--budget", "90,0.0001")
    assert done.exit_code == 0, done.output
    before = spent(tables)
    refused = curate(tables, "b", *answers, distance=1)
    assert isinstance(refused.exception, InvalidParameter)
    assert "another unit" in str(refused.exception)
    assert spent(tables) == before
