"""`Schema.check`: what would become of the cells of test data, counted, and no cell refused."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpbandits.errors import InvalidData
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.files import read_table_file

AGE, DOSE = Range(16, 64, clip=True), Range(0, 5)
REGION, ROOM = Categories(["north", "south"]), Categories([1, 2, 3])
PEOPLE = Schema(age=AGE, dose=DOSE, region=REGION, room=ROOM)
SOUND = {"age": [16, 40], "dose": [0.0, 5.0], "region": ["south", "north"], "room": [3, 1.0]}


def counts(column, cells):
    found = Schema(c=column).check({"c": cells}).columns["c"]
    return found.missing, found.unreadable, found.outside


def test_sound_data_are_sound():
    found = PEOPLE.check(SOUND)
    assert found.sound
    assert (found.rows, found.missing_rows, found.clipped_rows) == (2, 0, 0)
    assert "all read" in str(found)


@pytest.mark.parametrize(
    ("column", "cells", "expected"),
    [
        (AGE, [None, math.nan, pd.NA, pd.NaT, 20], (4, 0, 0)),
        (AGE, ["20", "2O", [20], Decimal(20), 10**400, math.inf, 20], (0, 4, 0)),
        (AGE, [15.9, 64.1, -5, 10**300, 20], (0, 0, 4)),
        (AGE, np.array([15.9, math.nan, math.inf, 20.0]), (1, 1, 1)),
        (AGE, np.array([15, 20, 65]), (0, 0, 2)),
        (AGE, np.array(["20", "x"]), (0, 1, 0)),
        (AGE, np.array([True, False]), (0, 0, 2)),
        (AGE, np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"), (1, 1, 0)),
        (DOSE, [None, "x", 6.0, 1.0], (1, 1, 1)),
        (REGION, ["north", "mars", None, math.nan, 3, ["north"]], (2, 1, 2)),
        (ROOM, [1, 3.0, 4, "1", None, 2.5], (1, 0, 2)),
    ],
)
def test_cells_are_counted_by_what_is_wrong_with_them(column, cells, expected):
    assert counts(column, cells) == expected


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_data_frames_may_have_gaps(frame):
    """`encode` refuses them; here they are what is looked for."""
    table = frame({"age": [20.0, None, 90.0], "dose": [1.0, 9.0, 2.0]})
    schema = Schema(age=AGE, dose=DOSE)
    found = schema.check(table)
    assert (found.missing_rows, found.clipped_rows) == (1, 1)
    assert (found.columns["age"].missing, found.columns["dose"].outside) == (1, 1)
    with pytest.raises(InvalidData):
        schema.encode(table)


def test_a_table_from_a_file_is_checked_as_one_from_memory(tmp_path):
    """A column that was read by its values counts every row of theirs."""
    path = tmp_path / "people.csv"
    path.write_text("age,region\n20,north\n90,mars\n90,south\n15,mars\n")
    found = Schema(age=AGE, region=REGION).check(read_table_file(path, {"age": float, "region": str}))
    assert (found.columns["age"].outside, found.columns["region"].outside) == (3, 2)
    assert (found.missing_rows, found.clipped_rows) == (2, 1)


def test_columns_are_checked_as_for_encode():
    for table, options in (
        ({"age": [20]}, {}),
        ({**SOUND, "more": [1, 2]}, {}),
        ({**SOUND, "age": [20]}, {}),
        (5, {}),
    ):
        with pytest.raises(InvalidData):
            PEOPLE.check(table, **options)
    assert PEOPLE.check({**SOUND, "more": [1, 2]}, ignore_extra=True).sound


def test_a_row_is_missing_exactly_where_it_cannot_be_encoded():
    """Over mixtures of cells: `encode` takes what is not missing, and clips what is clipped."""
    pool = [20, 16.0, 64, 15, 1e9, math.inf, math.nan, None, pd.NA, "20", "north", "mars", True, 1, 3.0, [1]]
    rng = np.random.default_rng(3)
    for _ in range(400):
        row = {name: [pool[rng.integers(len(pool))]] for name in PEOPLE.names}
        found = PEOPLE.check(row)
        try:
            point = PEOPLE.encode(row)
        except InvalidData:
            assert (found.missing_rows, found.clipped_rows) == (1, 0)
        else:
            assert found.missing_rows == 0
            assert found.clipped_rows == int(not 16 <= float(row["age"][0]) <= 64)
            assert np.isfinite(point).all()
    ages = Schema(age=AGE)
    taken = [cell for cell in pool if not ages.check({"age": [cell]}).missing_rows]
    assert taken == [20, 16.0, 64, 15, 1e9, "20", True, 1, 3.0]


def test_what_is_found_holds_no_value():
    found = PEOPLE.check(
        {"age": [31337, None], "dose": ["31337x", 1], "region": ["Ann", "north"], "room": [1, 2]}
    )
    for text in (str(found), repr(found)):
        assert "31337" not in text
        assert "Ann" not in text
    assert str(found).splitlines() == [
        "2 rows, 2 missing, 0 clipped",
        "- age: 1 missing, 1 clipped",
        "- dose: 1 unreadable",
        "- region: 1 outside",
        "- room: all read",
    ]


def test_a_row_that_a_column_fills_is_not_missing():
    schema = Schema(age=Range(0, 10, missing=4), region=Categories(["a", "b"]))
    found = schema.check({"age": [1, None, "x"], "region": ["a", "a", "NA"]})
    assert (found.missing_rows, found.columns["age"].missing, found.columns["region"].missing) == (1, 1, 1)


def test_columns_with_cells_that_cannot_be_used_are_named():
    """A cell that a declared value replaces can be used."""
    schema = Schema(age=AGE, old=Range(0, 10, clip=True, missing=5), region=REGION)
    found = schema.check({"age": [20, None], "old": [None, 99], "region": ["north", "mars"]})
    assert found.refused(schema.columns) == ("age", "region")
