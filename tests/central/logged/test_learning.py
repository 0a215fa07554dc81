"""Learning where the data is: one charge and one release, whatever fails, and no cell in an error."""

import warnings

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from dpbandits.budget import MemoryLedger
from dpbandits.central import LoggedTable, learn
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


def test_an_engine_that_fails_after_the_charge_releases_nothing_and_a_repetition_pays_nothing(
    held, tmp_path, monkeypatch
):
    account = MemoryLedger().open_account("people", privacy=JointDP(2.1, 1e-5, rounds_per_user=2))
    whole, asked, paid = DuckSource.query, [], []

    def dropped(self, sql, **told):
        asked.append(sql)
        if len(asked) < 3:
            raise DataUnavailable("the statement failed")
        return whole(self, sql, **told)

    monkeypatch.setattr(DuckSource, "query", dropped)
    for _ in range(2):
        with pytest.raises(DataUnavailable):
            learned(held, tmp_path / "out", account=account)
        assert not (tmp_path / "out").exists()
        paid.append(account.ledger.balance("people"))
    learned(held, tmp_path / "out", account=account)
    assert paid == [account.ledger.balance("people")] * 2
    assert len(set(asked)) == 1  # the run's key orders the rows of a user, also in a repetition


def test_no_error_warning_or_statement_repeats_a_cell(held, tmp_path, monkeypatch):
    held.loc[:200, "paid"] = -7.125
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
        assert "7.125" not in text
    assert not (tmp_path / "missing.private").exists()


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
    for wrong in (["--release", "features"], ["--uniform-contexts"], ["--lengthscale", "0.2"]):
        assert CliRunner().invoke(app, [*given, *wrong]).exit_code != 0


def test_the_statement_says_that_all_rows_count_and_who_reads_them(held, tmp_path):
    in_memory = {name: held[name].to_numpy() for name in held}
    told = {"contexts": PEOPLE, "arms": ["mail", "call"], "action": "offer", "reward": "paid"}
    for user, bound in (("person", True), (None, False)):
        log = LoggedTable.of_people(in_memory, **told, reward_range=(0, 1), user=user)
        promise = PROMISE if user else JointDP(epsilon=2.0, delta=1e-6, user_ids=False)
        ours = log.publish(promise, horizon=ROWS // 2).function.guarantee
        theirs = learned(
            held, tmp_path / str(user), user=user, privacy=promise, horizon=ROWS // 2
        ).function.guarantee
        for found, engine in ((ours, False), (theirs, True)):
            names = {one.name: one for one in found.assumptions}
            assert names["whole table"].enforced
            assert names["contribution bound"].enforced == bound
            assert ("secret key" in names["whole table"].text) == bound
            assert "enter or leave" not in found.theorem
            assert "no row of others" in found.theorem
            assert not {"one place per row", "logs in parts"} & names.keys()
            assert ("engine" in names) == engine == ("engine" in found.observers[0].who)
        assert ours.certificate == theirs.certificate
