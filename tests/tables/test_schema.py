"""Schema: the same rows come out of every kind of table, and no error shows a cell."""

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpbandits.domains import Arms, Box, Product
from dpbandits.errors import InvalidData, InvalidParameter, MissingExtra
from dpbandits.tables import Categories, Range, Schema

SCHEMA = Schema(
    age=Range(16, 64),
    hours=Range(0, 100, clip=True),
    region=Categories(["north", "south"]),
    visits=Categories([3, 1, 2]),
    member=Categories([False, True]),
)
ROWS = {
    "age": [16, 40, 64],
    "hours": [50.0, 250.0, -1.0],
    "region": ["south", "north", "south"],
    "visits": [3, 2, 1],
    "member": [True, False, True],
}
ENCODED = np.array([[0, 0.5, 1, 0, 1], [0.5, 1, 0, 2, 0], [1, 0, 1, 1, 1]], dtype=float)

FRAMES = {
    "mapping": lambda rows: rows,
    "arrays": lambda rows: {name: np.array(cells) for name, cells in rows.items()},
    "tuples": lambda rows: {name: tuple(cells) for name, cells in rows.items()},
    "pandas": pd.DataFrame,
    "pandas-nullable": lambda rows: pd.DataFrame(rows).convert_dtypes(),
    "pandas-object": lambda rows: pd.DataFrame(rows, dtype=object),
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
}
every_frame = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


@every_frame
def test_every_kind_of_table_is_encoded_alike(make):
    points = SCHEMA.encode(make(ROWS))
    assert points.dtype == np.float64
    np.testing.assert_array_equal(points, ENCODED)
    assert SCHEMA.domain.contains(points).all()
    shuffled = {name: ROWS[name] for name in sorted(ROWS)}
    np.testing.assert_array_equal(SCHEMA.encode(make(shuffled)), ENCODED)


def test_other_column_types():
    frame = pd.DataFrame(ROWS).astype({"region": "category", "age": "float32", "visits": float})
    np.testing.assert_array_equal(SCHEMA.encode(frame), ENCODED)
    frame = pl.DataFrame(ROWS).with_columns(
        pl.col("region").cast(pl.Categorical),
        pl.col("age").cast(pl.Decimal(10, 2)),
        pl.col("visits").cast(pl.UInt8),
    )
    np.testing.assert_array_equal(SCHEMA.encode(frame), ENCODED)


def test_domain_follows_the_columns():
    box, arms = Box(low=[0, 0], high=[1, 1]), Arms(["north", "south"])
    assert SCHEMA.domain == Product(box, arms, Arms(["3", "1", "2"]), Arms(["False", "True"]))
    assert SCHEMA.dim == SCHEMA.domain.dim == 5
    assert SCHEMA.names == ("age", "hours", "region", "visits", "member")
    assert SCHEMA.columns["age"] == Range(16, 64)
    SCHEMA.columns.clear()
    assert SCHEMA.dim == 5
    interleaved = Schema(a=Range(0, 1), b=Categories(["x"]), c=Range(0, 1))
    assert [part.dim for part in interleaved.domain.parts] == [1, 1, 1]


def test_config_and_equality():
    again = Schema.from_config(json.loads(json.dumps(SCHEMA.to_config())))
    assert again == SCHEMA
    assert hash(again) == hash(SCHEMA)
    assert repr(again) == repr(SCHEMA)
    assert Schema(**dict(reversed(SCHEMA.columns.items()))) != SCHEMA
    assert Schema(**{"hours-per-week": Range(0, 1)}).names == ("hours-per-week",)


def replaced(**changes):
    return {**ROWS, **changes}


def refuses(table, schema=SCHEMA, match=""):
    with pytest.raises(InvalidData, match=match) as caught:
        schema.encode(table)
    message = str(caught.value)
    assert "canary" not in message
    assert "777" not in message
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@every_frame
def test_missing_values_are_refused(make):
    for column, cells in {
        "age": [None, 30, 40],
        "hours": [1.0, None, 2.0],
        "region": ["north", None, "south"],
        "visits": [3, None, 1],
        "member": [None, True, False],
    }.items():
        refuses(make(replaced(**{column: cells})), match=f"column '{column}' has missing values")
    refuses(make(replaced(age=[float("nan"), 30.0, 40.0])), match="column 'age' has missing values")


@every_frame
def test_values_outside_are_refused_by_column_only(make):
    refuses(make(replaced(age=[16, 777, 20])), match=r"column 'age' has values outside Range\(16, 64\)")
    refuses(
        make(replaced(age=[16.0, 20.0, float("-inf")])),
        match="column 'age' has cells that are not finite numbers",
    )
    refuses(
        make(replaced(hours=[1.0, 20.0, float("inf")])),
        match="column 'hours' has cells that are not finite numbers",
    )
    refuses(
        make(replaced(region=["north", "canary", "south"])), match="column 'region' has values outside the 2"
    )
    refuses(make(replaced(visits=[777, 1, 2])), match="column 'visits' has values outside")


@every_frame
def test_types_that_are_no_numbers_are_refused(make):
    refuses(make(replaced(age=["777", "30", "40"])), match="column 'age'")
    refuses(make(replaced(age=["16y", "30", "40"])), match="column 'age'")
    refuses(make(replaced(age=[datetime(2020, 1, 1, tzinfo=UTC)] * 3)), match="column 'age'")
    refuses(make(replaced(visits=["3", "one", "2"])), match="column 'visits'")


@every_frame
def test_columns_must_be_the_declared_ones(make):
    refuses(
        make({name: cells for name, cells in ROWS.items() if name != "region"}), match=r"lacks .*\['region'\]"
    )
    refuses(make(replaced(canary=[1, 2, 3])), match="1 columns that the schema does not declare")
    np.testing.assert_array_equal(SCHEMA.encode(make(replaced(canary=[1, 2, 3])), ignore_extra=True), ENCODED)


def test_mappings_that_are_no_tables_are_refused():
    refuses(replaced(age=[16, 20]), match="different lengths")
    refuses(replaced(age=30), match="one-dimensional")
    refuses(replaced(region="canary"), match="one-dimensional")
    refuses(replaced(age=[[16, 777], [20, 30], [1, 2]]), match="column 'age'")
    refuses(replaced(age=[[16, 777], [20], [1, 2]]), match="column 'age'")
    refuses(replaced(age=np.zeros((3, 2))), match="one-dimensional")
    refuses(replaced(region=[["canary"], ["north"], ["south"]]), match="not single values")
    refuses(replaced(age=[16, "canary", 20]), match="column 'age'")
    refuses(replaced(age=[16, 10**400, 20]), match="column 'age'")
    refuses(replaced(age=[16, Decimal(777), 20]), match="column 'age'")
    refuses(replaced(age=np.ma.masked_array([16, 777, 20], mask=[False, True, False])), match="masked")


def test_things_that_are_no_tables_are_refused():
    for bad in (
        [1, 2],
        np.zeros((3, 5)),
        None,
        "age",
        pd.Series([1]),
        pl.Series([1]),
        pl.DataFrame(ROWS).lazy(),
    ):
        refuses(bad, match="cannot read")
    doubled = pd.DataFrame(ROWS)
    doubled.columns = ["age", "hours", "region", "visits", "visits"]
    refuses(doubled, match="distinct column names")


def test_frames_without_narwhals_name_the_extra_and_mappings_still_work(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "narwhals"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "narwhals", None)
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    with pytest.raises(MissingExtra, match=r"dpbandits\[warehouse\]"):
        SCHEMA.encode(pd.DataFrame(ROWS))
    np.testing.assert_array_equal(SCHEMA.encode(ROWS), ENCODED)


def test_empty_tables_have_no_rows():
    assert SCHEMA.encode({name: [] for name in ROWS}).shape == (0, 5)


def test_scaling_uses_public_bounds_only():
    """Rows are encoded the same alone and in company: nothing is scaled by what the data happens to be."""
    alone = np.concatenate(
        [SCHEMA.encode({name: [cells[i]] for name, cells in ROWS.items()}) for i in range(3)]
    )
    np.testing.assert_array_equal(alone, ENCODED)


@pytest.mark.parametrize(
    "make",
    [
        Schema,
        lambda: Schema(age=(0, 1)),
        lambda: Schema(age=Range),
        lambda: Range(1, 1),
        lambda: Range(0, float("inf")),
        lambda: Range("a", "b"),
        lambda: Categories([]),
        lambda: Categories("abc"),
        lambda: Categories(["a", "a"]),
        lambda: Categories(["a", 1]),
        lambda: Categories([1, True]),
        lambda: Categories([0.5, 1.5]),
        lambda: Categories([None]),
        lambda: Schema.from_config({}),
        lambda: Schema.from_config({"type": "Schema", "columns": [{"name": "a", "type": "Range", "low": 0}]}),
        lambda: Schema.from_config({"type": "Schema", "columns": [{"name": "a", "type": "Other"}]}),
    ],
)
def test_bad_declarations_are_refused(make):
    with pytest.raises(InvalidParameter):
        make()


NOTHING = [None, float("nan"), "", " NA ", "null", "NaN"]


@pytest.mark.parametrize("nothing", NOTHING, ids=repr)
def test_a_schema_says_what_stands_for_a_missing_value(nothing):
    schema = Schema(age=Range(0, 10, missing=4), code=Categories([3, 5], missing=5))
    words = Schema(region=Categories(["north", "unknown"], missing="unknown"))
    frame = {"age": [10, nothing], "code": [3, nothing]}
    assert schema.encode(frame).tolist() == [[1.0, 0.0], [0.4, 1.0]]
    assert words.encode({"region": ["north", nothing]}).tolist() == [[0.0], [1.0]]
    for name, column in Schema(age=Range(0, 10), code=Categories([3, 5])).columns.items():
        with pytest.raises(InvalidData, match=f"'{name}' has missing values"):
            Schema(**{name: column}).encode({name: frame[name]})


def test_what_stands_for_a_missing_value_is_there_in_frames_too():
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    schema = Schema(age=Range(0, 10, missing=4), code=Categories([3, 5], missing=5))
    for frame in (
        pd.DataFrame({"age": [10.0, None], "code": [3, None]}),
        pd.DataFrame({"age": [10, None], "code": [3, None]}, dtype="Int64"),
        pd.DataFrame({"age": [10, pd.NA], "code": [3, pd.NaT]}, dtype=object),
        pl.DataFrame({"age": [10, None], "code": [3, None]}),
    ):
        assert schema.encode(frame).tolist() == [[1.0, 0.0], [0.4, 1.0]]
        with pytest.raises(InvalidData, match="has missing values"):
            Schema(age=Range(0, 10), code=Categories([3, 5])).encode(frame)


def test_values_outside_are_no_missing_ones():
    for column, cell in (
        (Categories([3, 5], missing=5), 4),
        (Range(0, 10, missing=4), 11),
        (Range(0, 1, missing=0), "x"),
    ):
        with pytest.raises(InvalidData):
            Schema(x=column).encode({"x": [cell]})
    declared = Categories(["NA", "EU"])  # who lists the word means the word
    assert Schema(x=declared).encode({"x": ["EU", "NA"]}).tolist() == [[1.0], [0.0]]


def test_what_stands_for_a_missing_value_is_checked_and_kept():
    schema = Schema(age=Range(0, 10, missing=4), region=Categories(["a", "b"], missing="b"))
    assert Schema.from_config(json.loads(json.dumps(schema.to_config()))) == schema
    assert "missing" in repr(schema)
    plain = Schema(age=Range(0, 10), region=Categories(["a", "b"]))
    assert plain != schema
    assert "missing" not in json.dumps(plain.to_config())  # as it was before there was one
    for make in (
        lambda: Range(0, 10, missing=11),
        lambda: Range(0, 10, missing=float("nan")),
        lambda: Range(0, 10, missing="4"),
        lambda: Categories(["a"], missing="b"),
        lambda: Categories([0, 1], missing=True),
        lambda: Categories(["a"], missing=["a"]),
    ):
        with pytest.raises(InvalidParameter, match="missing"):
            make()


def test_a_schema_is_written_and_read_as_toml():
    schema = Schema(
        age=Range(16, 64.5, clip=True, missing=40),
        **{
            'hours "per" week\n\x7f\u00e9': Range(-1e22, 1e-300),
            "": Categories([False, True], missing=False),
        },
        code=Categories([3, -5], missing=-5),
        region=Categories(["north", 'a"b\\', "\U0001f600", "\x00\x7f"]),
    )
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_toml(Schema(age=Range(0, 1)).to_toml()) == Schema(age=Range(0, 1))


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[columns.age", "not a TOML file"),
        ("a = " + "[" * 5000, "TOML|nested"),
        ("", "lacks columns"),
        ("columns = 3", "columns is a int"),
        ("[columns]", "at least one column"),
        ("[columns.age]\nlow = 1\nhigh = 2\n[label]\ncolumn = 'x'", "unknown keys label"),
        ("[columns.age]\nlow = 1\nhihg = 2", "lacks high"),
        ("[columns.age]\ncategories = ['a']\nmising = 'a'", "unknown keys mising"),
        (b"[columns]", "a bytes, expected the text"),
    ],
)
def test_texts_that_declare_no_schema_are_refused(text, match):
    with pytest.raises(InvalidParameter, match=match):
        Schema.from_toml(text)


def test_a_configuration_names_no_column_twice_and_clips_by_true_or_false():
    config = Schema(age=Range(18, 90), member=Range(0, 1)).to_config()
    config["columns"][1]["name"] = "age"
    with pytest.raises(InvalidParameter, match="same name"):
        Schema.from_config(config)
    for clip in ("no", 1, None):
        with pytest.raises(InvalidParameter, match="True or False"):
            Range(0, 1, clip=clip)
