"""Learning where the data is: one charge and one release, whatever fails, and no cell in an error."""

import warnings
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpbandits.budget import MemoryLedger
from dpbandits.central import LoggedTable, learn
from dpbandits.central.logged.published_table import PublishedTable
from dpbandits.central.published_function import PublishedCells
from dpbandits.cli.main import app
from dpbandits.errors import BudgetExceeded, DataUnavailable, InvalidData, InvalidParameter
from dpbandits.privacy import JointDP
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.warehouse import DuckSource

ROWS = 4000
PROMISE = JointDP(epsilon=2.0, delta=1e-6, rounds_per_user=2)
PEOPLE = Schema(age=Range(18, 90), region=Categories(["north", "south"]))
TOML = """
privacy = {epsilon = 2, delta = 1e-6}
horizon = 4000
user = {column = "person", rows = 2}
[columns]
age = {low = 18, high = 90}
region = {categories = ["north", "south"]}
[log]
arm = "offer"
arms = ["mail", "call"]
reward = "paid"
low = 0
high = 1
"""

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")


@pytest.fixture
def held():
    """Calls pay in the south, and mail in the north."""
    rng = np.random.default_rng(2)
    south, called = rng.random(ROWS) < 0.5, rng.random(ROWS) < 0.5
    return pd.DataFrame(
        {
            "age": rng.integers(18, 91, ROWS),
            "region": np.where(south, "south", "north"),
            "offer": np.where(called, "call", "mail"),
            "paid": (rng.random(ROWS) < np.where(south == called, 0.8, 0.2)).astype(float),
            "person": [f"secret{i // 2}" for i in range(ROWS)],
        }
    )


def learned(source, folder, **more):
    told = {"action": "offer", "reward": "paid", "reward_range": (0, 1), "user": "person"}
    given = {"contexts": PEOPLE, "arms": ["mail", "call"], "privacy": PROMISE, "horizon": ROWS, **told}
    return learn(source, directory=folder, **given | more)


def places(held, folder):
    """Return addresses of the same rows: files of several formats, a glob, and a database."""
    held.to_parquet(folder / "log.parquet")
    held.to_csv(folder / "log.csv", index=False)
    (folder / "parts").mkdir()
    for part in range(2):
        held[part::2].to_parquet(folder / "parts" / f"{part}.parquet")
    with duckdb.connect(folder / "shop.db") as database:
        database.register("given", held)
        database.execute("CREATE TABLE log AS SELECT * FROM given")
    return [
        folder / "log.parquet",
        str(folder / "log.csv"),
        str(folder / "parts" / "*.parquet"),
        f"duckdb:///{folder / 'shop.db'}?table=log",
        held,
    ]


def test_a_policy_is_learned_wherever_the_table_is(held, tmp_path):
    for number, source in enumerate(places(held, tmp_path)):
        published = learned(source, tmp_path / f"policy-{number}", memory=10**9, threads=1)
        assert published.function.recommend({"age": 40, "region": "south"}) == "call"
        assert published.function.recommend({"age": 40, "region": "north"}) == "mail"
        assert published.action == "offer"


@pytest.mark.parametrize("uniform", [True, False])
def test_features_are_learned_from_two_statements_or_one(held, tmp_path, monkeypatch, uniform):
    """The second statement has the caps that follow from the released counts. One user has many rows."""
    promise, asked, whole = replace(PROMISE, epsilon=20.0), [], DuckSource.query
    monkeypatch.setattr(
        DuckSource, "query", lambda own, sql, **told: asked.append(sql) or whole(own, sql, **told)
    )
    busy = {"age": 40, "region": "north", "offer": "call", "paid": 1.0, "person": ["secret"] * 6000}
    busy = pd.DataFrame(busy)
    pd.concat([held, busy]).to_parquet(tmp_path / "log.parquet")
    smooth = {"release": "features", "uniform_contexts": uniform, "privacy": promise}
    published = learned(tmp_path / "log.parquet", tmp_path / "out", horizon=ROWS // 2, **smooth)
    assert len(asked) == len(set(asked)) == 2 - uniform
    people = [{"age": 40, "region": place} for place in ("south", "north")]
    assert published.function.recommend_batch(people) == ("call", "mail")
    assert PublishedTable.load(tmp_path / "out").release_id == published.release_id
    mean, _ = published.function.predict(people)
    assert (np.abs(mean - [[0.2, 0.8], [0.8, 0.2]]).max() < 0.15) != uniform  # rows were counted
    assert len(published.function.guarantee.mechanisms) == 2 - uniform


def test_a_repetition_is_the_same_release_under_one_charge_and_another_run_is_refused(held, tmp_path):
    account = MemoryLedger().open_account("people", privacy=JointDP(2.1, 1e-5, rounds_per_user=2))
    first = learned(held, tmp_path / "out", account=account)
    once = account.ledger.balance("people")
    again = learned(held, tmp_path / "out", account=account)
    assert first.release_id == again.release_id
    assert account.ledger.balance("people") == once
    with pytest.raises(InvalidParameter, match="another"):
        learned(held, tmp_path / "out", account=account, horizon=ROWS + 1)
    with pytest.raises(BudgetExceeded):
        learned(held, tmp_path / "other", account=account)


@pytest.mark.parametrize("release", ["marginals", "features"])
def test_an_engine_that_fails_after_the_charge_releases_nothing_and_a_repetition_pays_nothing(
    held, tmp_path, monkeypatch, release
):
    """The first statement fails twice; of features then the second one fails once."""
    account = MemoryLedger().open_account("people", privacy=JointDP(2.1, 1e-5, rounds_per_user=2))
    whole, asked, paid = DuckSource.query, [], []
    failing = {"marginals": [1, 2], "features": [1, 2, 4]}[release]

    def dropped(self, sql, **told):
        asked.append(sql)
        if len(asked) in failing:
            raise DataUnavailable("the statement failed")
        return whole(self, sql, **told)

    monkeypatch.setattr(DuckSource, "query", dropped)
    for _ in failing:
        with pytest.raises(DataUnavailable):
            learned(held, tmp_path / "out", account=account, release=release)
        assert not (tmp_path / "out").exists()
        paid.append(account.ledger.balance("people"))
    learned(held, tmp_path / "out", account=account, release=release)
    assert paid == [account.ledger.balance("people")] * len(failing)
    first = asked[:3] if release == "marginals" else [*asked[:3], asked[4]]
    assert len(set(first)) == 1  # the run's key orders the rows of a user, also in a repetition


def test_no_error_warning_or_statement_repeats_a_cell(held, tmp_path, monkeypatch):
    held.loc[:200, "paid"] = -7.1253753
    said = []
    whole = DuckSource.query
    noted = lambda own, sql, **told: said.append(sql) or whole(own, sql, **told)  # noqa: E731
    monkeypatch.setattr(DuckSource, "query", noted)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learned(held.astype(str), tmp_path / "out")
    said += [str(one.message) for one in caught]
    with pytest.raises(InvalidData) as missing:
        learned(held.drop(columns="age"), tmp_path / "missing")
    for text in [*said, str(missing.value)]:
        assert "secret" not in text
        assert "7.1253753" not in text
    assert not (tmp_path / "missing.private").exists()


def test_a_table_without_rows_is_charged_and_published_like_any_other(held, tmp_path):
    """A warning would tell everybody who reads it that the table has no rows."""
    account = MemoryLedger().open_account("people", privacy=JointDP(2.1, 1e-5, rounds_per_user=2))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        empty = learned(held.astype(str)[:0], tmp_path / "empty", account=account)
        before = [str(one.message) for one in caught]
        caught.clear()
        learned(held.astype(str), tmp_path / "full")
    assert before == [str(one.message) for one in caught]
    assert account.ledger.balance("people").spent_epsilon > 0
    assert empty.function.recommend({"age": 40, "region": "south"}) in ("call", "mail")


def test_out_of_memory_has_a_fixed_text(held, tmp_path):
    many = pd.concat([held] * 50, ignore_index=True)
    with pytest.raises(DataUnavailable, match="memory") as error:
        learned(many, tmp_path / "out", memory=2 * 10**6, threads=1)
    assert error.value.__cause__ is error.value.__context__ is None


def test_the_command_learns_from_a_table_where_it_is(held, tmp_path):
    source = places(held, tmp_path)[2]
    (tmp_path / "people.toml").write_text(TOML)
    out = str(tmp_path / "out")
    given = ["central", "learn", str(tmp_path / "people.toml"), "--table", source, "--out", out]
    found = CliRunner().invoke(app, [*given, "--memory", "1", "--threads", "1"])
    assert found.exit_code == 0, found.output
    assert "epsilon" in found.output
    for other in (["--release", "features"], ["--uniform-contexts"], ["--lengthscale", "0.2"]):
        assert CliRunner().invoke(app, [*given, *other]).exit_code != 0  # another run has the folder
    smooth = [*given[:-1], f"{out}-smooth", "--release", "features", "--lengthscale", "0.5"]
    found = CliRunner().invoke(app, smooth)
    assert found.exit_code == 0, found.output
    assert isinstance(PublishedTable.load(tmp_path / "out-smooth").function, PublishedCells)


def test_the_statement_says_that_all_rows_count_and_who_reads_them(held, tmp_path):
    in_memory = {name: held[name].to_numpy() for name in held}
    told = {"contexts": PEOPLE, "arms": ["mail", "call"], "action": "offer", "reward": "paid"}
    for user, kind in (("person", "marginals"), (None, "marginals"), ("person", "features")):
        bound = user is not None
        log = LoggedTable.of_people(in_memory, **told, reward_range=(0, 1), user=user, release=kind)
        promise = PROMISE if user else JointDP(epsilon=2.0, delta=1e-6, user_ids=False)
        ours = log.publish(promise, horizon=ROWS // 2).function.guarantee
        asked = {"user": user, "privacy": promise, "horizon": ROWS // 2, "release": kind}
        theirs = learned(held, tmp_path / f"{user}-{kind}", **asked).function.guarantee
        for found, engine in ((ours, False), (theirs, True)):
            names = {one.name: one for one in found.assumptions}
            assert names["whole table"].enforced
            assert names["contribution bound"].enforced == bound
            assert ("secret key" in names["whole table"].text) == bound
            assert "enter or leave" not in found.theorem
            assert "no row of others" in found.theorem
            assert not {"one place per row", "logs in parts"} & names.keys()
            assert ("engine" in names) == engine == ("engine" in found.observers[0].who)
        if kind == "marginals":  # noisy counts decide how many features there are
            assert ours.certificate == theirs.certificate
