"""Dates and times between public moments, and what comes round again."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from dpbandits import JointDP, LocalDP
from dpbandits.central import GPBandit, LoggedTable
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.local import Spec
from dpbandits.tables import Categories, Cycle, DateRange, Range, Schema
from dpbandits.tables.described import DescribedTable
from dpbandits.tables.menu import Menu

TEN_DAYS = DateRange("2024-01-01", "2024-01-10", missing="2024-01-06")
MISSING = [None, float("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), "", " NaT", "NA", "none", "<NA>", "null"]


def encoded(column, cells):
    return Schema(c=column).encode({"c": cells})


@pytest.mark.parametrize(
    ("cell", "share"),
    [
        ("2024-01-01", 0.0),
        ("2024-01-02T12:00", 0.15),
        (" 2024-01-02 12:00:00 ", 0.15),
        (date(2024, 1, 3), 0.2),
        (datetime(2024, 1, 10, 23, 59, 59, 999999), 1.0),  # noqa: DTZ001
        (datetime(2024, 1, 2, 21, tzinfo=timezone(timedelta(hours=9))), 0.15),
        (pd.Timestamp("2024-01-02T21:00", tz="Asia/Tokyo"), 0.15),
        (np.datetime64("2024-01-02T12"), 0.15),
        (20240103, 0.2),
        ("20240103", 0.2),
        (20240103.0, 0.2),
    ],
)
def test_a_moment_is_a_share_of_the_range(cell, share):
    assert encoded(TEN_DAYS, [cell, "2024-01-06"])[0, 0] == pytest.approx(share, abs=1e-9)


@pytest.mark.parametrize("cell", MISSING, ids=str)
@pytest.mark.parametrize("filled", [TEN_DAYS, Cycle("day", missing=6), Cycle("week", missing=0)])
def test_what_is_missing_is_filled_or_refused(filled, cell):
    stands = {"2024-01-06": 0.5} if isinstance(filled, DateRange) else {}
    found = encoded(filled, [cell])
    assert found.shape == (1, filled.width)
    if stands:
        assert found.tolist() == [[0.5]]
    bare = DateRange("2024-01-01", "2024-01-10") if stands else Cycle(filled.period)
    with pytest.raises(InvalidData, match="'c' has missing values"):
        encoded(bare, [cell])


@pytest.mark.parametrize("cell", ["2023-12-31", "2024-01-11", date(2025, 1, 1)])
def test_moments_outside_are_refused_or_moved(cell):
    with pytest.raises(InvalidData, match="'c' has values outside DateRange") as caught:
        encoded(TEN_DAYS, [cell])
    assert str(cell) not in str(caught.value)
    assert encoded(TEN_DAYS.clipping(), [cell])[0, 0] in (0.0, 1.0)


@pytest.mark.parametrize("column", [TEN_DAYS, Cycle("year", missing=0), Cycle(24, missing=12)])
@pytest.mark.parametrize("cell", ["noon", b"\xff", [1], {}, 1 + 2j, float("inf"), 10**400], ids=str)
def test_what_is_no_time_and_no_number_is_refused_and_takes_its_own_row(column, cell):
    good = "2024-01-06" if column.kind is datetime else 3
    with pytest.raises(InvalidData, match="'c' has cells that are no"):
        encoded(column, [good, cell])
    points = Menu(contexts=Schema(c=column), arms=["a"]).points({"c": [good, cell]})
    assert np.isnan(points).any(axis=1).tolist() == [False, True]
    assert Schema(c=column).check({"c": [good, cell]}).columns["c"].unreadable == 1


def test_a_number_is_no_time_and_a_time_no_number():
    for column, cells in ((TEN_DAYS, [5.0]), (Cycle("day"), [5]), (Cycle(24), ["2024-01-01"])):
        with pytest.raises(InvalidData, match="no"):
            encoded(column, cells)
        with pytest.raises(InvalidData, match="no"):
            encoded(column, np.array(cells))


@pytest.mark.parametrize(
    ("period", "left", "right"),
    [
        ("day", "2024-03-05T23:59", "2024-03-06T00:01"),
        ("week", "2024-03-10T23:00", "2024-03-11T01:00"),  # Sunday, Monday
        ("year", "2023-12-31T20:00", "2024-01-01T04:00"),
        (24, 23.99, 0.01),
        (24, 24, 0),
        (7.0, -1, 6),
    ],
)
def test_nothing_jumps_where_a_cycle_begins_anew(period, left, right):
    near = np.linalg.norm(np.subtract(*encoded(Cycle(period), [left, right])))
    assert near < 0.05


@pytest.mark.parametrize(
    ("period", "here", "opposite"),
    [("day", "2024-03-05T03:00", "2024-03-07T15:00"), ("week", "2024-03-04", "2024-03-14T12:00"), (12, 1, 7)],
)
def test_half_a_cycle_away_is_as_far_as_it_goes(period, here, opposite):
    points = encoded(Cycle(period), [here, opposite])
    assert np.linalg.norm(points[0] - points[1]) == pytest.approx(1.0, abs=1e-9)
    assert ((points >= 0) & (points <= 1)).all()


def test_a_missing_place_is_that_place():
    for period, place, cell in (("day", 6, "2024-01-01T06:00"), ("week", 2, "2024-01-03"), (12, 3, 3)):
        found = encoded(Cycle(period, missing=place), [None, cell])
        np.testing.assert_allclose(found[0], found[1], atol=1e-12)
    january = encoded(Cycle("year", missing=31), [None, "2024-02-01"])
    np.testing.assert_allclose(january[0], january[1], atol=1e-12)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: DateRange("2024-01-02", "2024-01-01"),
        lambda: DateRange("soon", "2024-01-01"),
        lambda: DateRange(3, 4),
        lambda: DateRange("2024-01-01", "2024-01-02", missing="2024-02-01"),
        lambda: Cycle("month"),
        lambda: Cycle(0),
        lambda: Cycle(float("nan")),
        lambda: Cycle("day", missing=25),
        lambda: Cycle(7, missing=-1),
        lambda: Cycle(True),
    ],
)
def test_wrong_declarations_are_refused(wrong):
    with pytest.raises(InvalidParameter):
        wrong()


SCHEMA = Schema(
    age=Range(18, 90),
    at=Cycle("day", missing=12),
    since=DateRange("2020-01-01", datetime(2024, 12, 31, 6), clip=True, missing="2022-01-01"),  # noqa: DTZ001
    hour=Cycle(24.0),
    region=Categories(["north", "south"]),
)


def test_a_schema_of_them_comes_back_from_toml_and_json():
    assert Schema.from_toml(SCHEMA.to_toml()) == SCHEMA
    assert Schema.from_config(SCHEMA.to_config()) == SCHEMA
    quoted = '[columns.since]\nfirst = "2020-01-01"\nlast = 2024-12-31T06:00:00\n'
    assert Schema.from_toml(quoted).columns["since"] == DateRange(date(2020, 1, 1), "2024-12-31T06:00:00")


def test_a_point_has_two_coordinates_of_a_cycle():
    assert (SCHEMA.dim, SCHEMA.domain.dim, SCHEMA.codes) == (7, 7, {6: 2})
    row = [40, "2024-01-01T06:00", "2024-01-01", 6, "south"]
    point = SCHEMA.encode(dict(zip(SCHEMA.names, ([cell] for cell in row), strict=True)))
    assert point.shape == (1, 7)
    menu = Menu(contexts=SCHEMA, arms=["a", "b"])
    np.testing.assert_array_equal(menu.point(dict(zip(SCHEMA.names, row, strict=True))), point[0])
    np.testing.assert_array_equal(menu.point(row), point[0])
    assert menu.encode(row).shape == (1, 7)
    with pytest.raises(InvalidData, match="5 values in the schema's order"):
        menu.refuse(list(range(7)), None)


TIMES = ["2024-01-02T12:00:00", "2024-01-06", None, "2024-01-01T00:00:00.5"]
AT = [datetime.fromisoformat(text) if text else None for text in TIMES]


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_every_file_holds_them(tmp_path, ending):
    path = tmp_path / f"t.{ending}"
    table = pa.table({"at": pa.array(AT, pa.timestamp("ms")), "day": pa.array(AT, pa.date32())})
    if ending == "csv":
        path.write_text("at,day\n" + "".join(f"{cell or 'NaT'},{(cell or '')[:10]}\n" for cell in TIMES))
    else:
        (parquet.write_table if ending == "parquet" else feather.write_feather)(table, path)
    filled = "[columns.at]\nfirst = 2024-01-01\nlast = 2024-01-10\nmissing = 2024-01-06\n"
    described = DescribedTable.from_text(filled + filled.replace("columns.at", "columns.day"))
    points = described.schema.encode(described.read(path))
    assert points[:, 0].tolist() == pytest.approx([0.15, 0.5, 0.5, 0.05 / 86400], abs=1e-12)
    assert points[:, 1].tolist() == pytest.approx([0.1, 0.5, 0.5, 0.0], abs=1e-12)
    (tmp_path / "bad.csv").write_text("at,day\nnoon,2024-01-02\n")
    bare = DescribedTable.from_text(filled.replace("missing = 2024-01-06\n", ""))
    with pytest.raises(InvalidData, match="'at' has cells that are not of type datetime"):
        bare.read(tmp_path / "bad.csv")


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "arrow"])
def test_every_frame_holds_them(frame):
    points = Schema(at=TEN_DAYS).encode(frame({"at": AT}))
    assert points[:, 0].tolist() == pytest.approx([0.15, 0.5, 0.5, 0.05 / 86400], abs=1e-12)


def test_times_with_a_zone_are_read_as_utc_whatever_type_they_come_in(tmp_path):
    at = pd.Series([datetime(2024, 1, 2, 12, tzinfo=UTC)]).dt.tz_convert("Asia/Tokyo")
    nine = encoded(Cycle("day"), ["2024-01-02T12:00"])
    assert encoded(Cycle("day"), ["2024-01-02T21:00+09:00"]) == pytest.approx(nine)
    assert Schema(at=Cycle("day")).encode(pd.DataFrame({"at": at})) == pytest.approx(nine)
    parquet.write_table(pa.table({"at": pa.array(at)}), tmp_path / "t.parquet")
    described = DescribedTable.from_text('[columns.at]\nperiod = "day"\n')
    assert described.schema.encode(described.read(tmp_path / "t.parquet")) == pytest.approx(nine)


def test_policies_of_every_room_take_them():
    people, arms = Schema(hour=Cycle(24), region=Categories(["n", "s"])), ["a", "b"]
    policy = GPBandit(
        contexts=people, arms=arms, reward_range=(0, 1), horizon=100, privacy=JointDP(epsilon=1, delta=1e-6)
    )
    assert policy.ask({"hour": 3, "region": "n"}, user="u").arm in arms
    assert Spec(contexts=SCHEMA, arms=arms, privacy=LocalDP(epsilon=1)).dim == 7
    rng = np.random.default_rng(0)
    hour, arm = rng.uniform(0, 24, 4000), rng.integers(2, size=4000)
    paid = 0.5 + 0.4 * np.where(arm == 0, 1, -1) * np.sin(2 * np.pi * hour / 24)
    log = LoggedTable.of_people(
        {"hour": hour, "region": ["n"] * 4000, "arm": np.array(arms)[arm], "paid": paid},
        contexts=people, arms=arms, action="arm", reward="paid", reward_range=(0, 1),
    )  # fmt: skip
    # gaps between arms are 40 deviations of the noise: a false alarm below 1e-300
    function = log.publish(JointDP(epsilon=4, delta=1e-6), horizon=4000).function
    asked = [{"hour": hour, "region": "n"} for hour in (3, 6, 9, 15, 18, 21)]
    assert function.recommend_batch(asked) == ("a", "a", "a", "b", "b", "b")


def test_many_people_are_read_as_each_of_them_is():
    """A cell that cannot be read costs its own row, and nobody else's, whatever the others hold."""
    rng = np.random.default_rng(4)
    wild = [None, "", "x", 20, 20.5, 91, True, float("nan"), float("inf"), [1], {}, 10**400, pd.NaT]
    good = {
        "age": [18, 44.5],
        "at": ["2024-01-01T06:00"],
        "since": ["2021-05-05", "1999-01-01"],
        "hour": [3],
        "region": ["north", "south"],
    }
    menu, people = Menu(contexts=SCHEMA, arms=["a"]), []
    for _ in range(300):
        person = {name: cells[rng.integers(len(cells))] for name, cells in good.items()}
        for name in rng.permutation(SCHEMA.names)[: rng.integers(3)]:
            person[name] = wild[rng.integers(len(wild))]
        people.append(person)
    table = {name: [person[name] for person in people] for name in SCHEMA.names}
    alone = np.array([menu.point(person) for person in people])
    assert 50 < np.isnan(alone).all(axis=1).sum() < 250
    np.testing.assert_array_equal(menu.points(table), alone)
    np.testing.assert_array_equal(SCHEMA.points(table), alone)
    found = SCHEMA.check(table)
    assert found.missing_rows == np.isnan(alone).all(axis=1).sum()
