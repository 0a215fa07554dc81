"""`central learn`, `predict` and `evaluate` for logs in which the decision is a number."""

import csv
import io

import numpy as np
import pytest
from typer.testing import CliRunner

import dpbandits as dpb
from dpbandits.central import LoggedTable
from dpbandits.cli import app
from dpbandits.errors import InvalidData, InvalidParameter

WORLD = dpb.lab.worlds.PRICE_WORLDS["price-1"]
RANGE = {"income": dpb.Range(0, 1)}
TOML = """
path = "log.csv"
horizon = 4000
columns.income = {{low = 0, high = 1}}
privacy = {{epsilon = 3, delta = 1e-6}}
log = {{reward = "bought", low = 0, high = 1{drawn}}}

[actions.columns.price]
low = 1
high = 20
steps = 20

[actions.value]
type = "Revenue"
price = "price"

[actions.shape]
price = "decreasing"
"""


def log(seed, rows=4000):
    """Numbers from a mixture of an even density and one near 8, with their densities, as columns."""
    rng = np.random.default_rng(seed)
    income = WORLD.people(seed, rows)[:, 0]
    near = np.clip(rng.triangular(4, 8, 12, rows), 4, 12)
    price = np.where(rng.random(rows) < 0.7, near, rng.uniform(1, 20, rows))
    density = 0.7 * np.clip(1 - np.abs(price - 8) / 4, 0, None) / 4 + 0.3 / 19
    bought = rng.random(rows) < 1 / (1 + np.exp((price - 5 - 9 * income) / 1.5))
    return {"income": income, "price": price, "density": density, "bought": bought.astype(float)}


def written(path, columns):
    rows = zip(*(own.tolist() for own in columns.values()), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)]) + "\n")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "log.csv", log(1))
    (tmp_path / "log.toml").write_text(TOML.format(drawn=', density = "density"'))
    return tmp_path


def run(*words, status=0):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == status, done.output
    return done.output or str(done.exception)


def test_a_log_of_numbers_is_learned_once_predicted_and_evaluated(folder):
    statement = run("central", "learn", "log.toml", "--out", "policy")
    assert "Known densities" in statement
    before = (folder / "policy" / "policy.json").read_bytes()
    run("central", "learn", "log.toml", "--out", "policy")  # the same run draws no new noise
    assert (folder / "policy" / "policy.json").read_bytes() == before

    (folder / "new.csv").write_text("income\n0.1\n0.9\nmuch\n")
    rows = list(csv.DictReader(io.StringIO(run("central", "predict", "policy", "new.csv", "--every-action"))))
    published = dpb.central.PublishedFunction.load("policy")
    for row, income in zip(rows, (0.1, 0.9), strict=False):
        assert float(row["price"]) == published.recommend({"income": income})
        curve = published.curve({"income": income})
        assert float(row["value"]) == pytest.approx(curve.value.max(), rel=1e-4)
        assert float(row["mean:20.0"]) == pytest.approx(curve.outcome[-1], abs=1e-5)
    assert rows[2]["price"] == ""
    assert float(rows[0]["price"]) < float(rows[1]["price"])

    written(folder / "held.csv", log(2))
    lines = run("central", "evaluate", "policy", "held.csv", "--density", "density").splitlines()
    values = dict(line.split(": ") for line in lines[1:])
    found = {name: float(value.split(" ")[0]) for name, value in values.items()}
    others = WORLD.people(5, 20_000)
    means = WORLD.values(WORLD.means(others))
    true = means[np.arange(len(others)), published.choose(WORLD.table(others))].mean()
    assert found["policy"] == pytest.approx(true, abs=0.5)
    assert found["always 6.0"] == pytest.approx(means[:, 5].mean(), abs=0.5)
    assert found["random"] == pytest.approx(means.mean(), abs=0.5)


def test_evaluate_needs_to_know_how_numbers_were_drawn(folder):
    run("central", "learn", "log.toml", "--out", "policy")
    assert "--density" in run("central", "evaluate", "policy", "log.csv", status=1)
    steps = log(3) | {"price": np.arange(4000) % 20 + 1.0}
    written(folder / "steps.csv", steps)
    even = run("central", "evaluate", "policy", "steps.csv", "--propensity", "uniform")
    assert even.count("always") == 20


def test_learn_says_how_often_numbers_are_recommended_that_the_log_hardly_has(folder):
    said = run("central", "learn", "log.toml", "--out", "policy")
    assert "of users are recommended numbers that the log hardly has" in said
    assert run("central", "learn", "log.toml", "--out", "policy") == said
    (folder / "log.toml").write_text(TOML.format(drawn=', density = "uniform"'))
    assert "hardly has" not in run("central", "learn", "log.toml", "--out", "even")


@pytest.mark.parametrize(
    ("name", "cell", "says"),
    [
        ("income", 7.5, "in the columns ['income']"),
        ("price", 71.5, "actions in ['price']"),
        ("density", -0.5, "'density'"),
        ("density", "x", "'density'"),
        ("income", "x", "'income'"),
        ("bought", "", "'bought'"),
    ],
)
def test_evaluate_names_the_column_of_a_cell_that_it_cannot_use(folder, name, cell, says):
    run("central", "learn", "log.toml", "--out", "policy")
    rows = (folder / "log.csv").read_text().splitlines()[:50]
    cells = rows[3].split(",")
    cells[rows[0].split(",").index(name)] = str(cell)
    rows[3] = ",".join(cells)
    (folder / "bad.csv").write_text("\n".join(rows) + "\n")
    said = run("central", "evaluate", "policy", "bad.csv", "--density", "density", status=1)
    assert says in " ".join(said.split())
    assert not cell or str(cell) not in said.replace("'", "")


@pytest.mark.parametrize(
    ("drawn", "says"),
    [
        ("", 'need density = "COLUMN" or "uniform", or propensity'),
        (', density = "density", propensity = "chance"', "not both"),
        (', density = "price"', "names a column twice"),
        (', density = "density", arm = "price"', "unknown keys arm"),
    ],
)
def test_files_that_do_not_say_how_numbers_were_drawn_are_refused(folder, drawn, says):
    (folder / "log.toml").write_text(TOML.format(drawn=drawn))
    assert says in " ".join(run("central", "learn", "log.toml", "--out", "policy", status=1).split())


@pytest.mark.parametrize("drawn", [{}, {"density": "density", "propensity": "density"}])
def test_a_table_that_does_not_say_how_numbers_were_drawn_is_refused_with_both_remedies(drawn):
    with pytest.raises(InvalidParameter, match=r"density: .* propensity: .*"):
        LoggedTable.of_people(
            log(1, 9),
            contexts=dpb.Schema(**RANGE),
            actions=dpb.Schema(price=dpb.Range(1, 20)),
            reward="bought",
            reward_range=(0, 1),
            **drawn,
        )


def table_of(columns, **drawn):
    return LoggedTable.of_people(
        columns,
        contexts=dpb.Schema(**RANGE),
        actions=dpb.Schema(price=dpb.Range(1, 20)),
        reward="bought",
        reward_range=(0, 1),
        **drawn,
    )


def test_junk_in_a_table_costs_its_own_row_only():
    columns = {name: own.astype(object) for name, own in log(1, 60).items()}
    columns["density"][:5] = [None, "NA", "x", -1, 0]
    columns["price"][5:8] = ["cheap", 1e9, None]
    promise = dpb.JointDP(epsilon=1, delta=1e-6)
    found = table_of(columns, density="density").unsafe_left_out(promise, horizon=60)
    assert found == {"unreadable": 8, "surplus": 0}


def test_fingerprints_of_logs_depend_on_what_is_declared_and_on_every_density():
    key, promise = b"secret", dpb.JointDP(epsilon=1, delta=1e-6)
    columns = log(1, 60)
    other = columns | {"density": columns["density"] + np.eye(60)[3] * 1e-9}
    tables = [
        table_of(columns, density="density"),
        table_of(columns, density="uniform"),
        table_of(columns, propensity="density"),
        table_of(other, density="density"),
    ]
    prints = [one.fingerprint(key, promise, horizon=60) for one in tables]
    assert len(set(prints)) == 4
    assert prints[0] == table_of(columns, density="density").fingerprint(key, promise, horizon=60)


def test_a_column_named_uniform_is_ambiguous():
    columns = log(1, 9)
    with pytest.raises(InvalidParameter, match="rename it"):
        table_of(columns | {"uniform": columns["density"]}, density="uniform")


def test_missing_action_columns_are_named():
    with pytest.raises(InvalidData, match="price"):
        table_of({name: own for name, own in log(1, 9).items() if name != "price"}, density="density")
