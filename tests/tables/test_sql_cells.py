"""Databases read cells as the library does, whatever a cell holds."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pytest

import dpbandits as dpb
from dpbandits._cells import as_objects, number_of
from dpbandits.domains import Arms
from dpbandits.errors import InvalidParameter
from dpbandits.export.decisions import cut_at
from dpbandits.tables import Actions, Ordered
from dpbandits.tables.sql import cells, ids
from dpbandits.tables.sql.cells import SqlCell, layers_of
from dpbandits.tables.sql.dialects import ENGINES, layered
from dpbandits.tables.sql.levels import SqlLevels, first_reaching
from tables.engines import HOSTILE, KINDS, opened

pytestmark = pytest.mark.numerics

IDS = [
    *(
        "u7",
        "007",
        "7",
        "+7",
        "-7",
        "-0",
        "7.0",
        "7.",
        "7.5",
        "7e0",
        "0x7",
        "true",
        "False",
        "inf",
        "-Infinity",
    ),
    *("nan", "none", "NA", "", "  ", "Ann", "ann", "Ann ", "Zo\u00eb", "\uff17", "\u200b7", "7\t", "1_0"),
    *("2024-05-31", "20240531", "2024-05-31T17:30", "2024-W22-5", "17:30", "12345678-1234-5678-1234-abcdef"),
    *(
        "2024-0017",
        "x" * 4096,
        "x" * 4097,
        "9" * 30,
        "00" + "9" * 30,
        "12e30",
        "a'b",
        "a\\b",
        "1.2.3",
        "<na>",
    ),
]
COLUMNS = {
    "range": dpb.Range(18, 90),
    "clipped": dpb.Range(-0.3, 0.7, clip=True, missing=0.1),
    "tiny": dpb.Range(0, 1e-20, clip=True),
    "texts": dpb.Categories(["north", "south", "o'west", "none", "back\\slash"]),
    "numbers": dpb.Categories([1, 2, 30], missing=2, unknown=30),
    "mixed": dpb.Categories(["a", "7.5", "NA", "Größe"], unknown="a"),
    "truth": dpb.Categories([True, False]),
}
TYPED = {
    "bigint": [1, 2, 30, 0, -5, 2**53, 2**53 + 1, -(2**63), 20240531, None],
    "double precision": [1.0, 30.5, 0.1, -0.0, 5e-324, 1e300, math.nan, math.inf, -math.inf, 2.0**53, None],
    "real": [0.5, 30.0, 0.1, math.nan, None],
    "boolean": [True, False, None],
    "numeric(9, 2)": [Decimal("30.00"), Decimal("7.50"), Decimal("-0.25"), None],
    "date": [date(2024, 5, 31), date(1969, 12, 31), None],
    "timestamp": [datetime(2024, 5, 31, 17, 30, 0, 1), datetime(1, 1, 1), None],  # noqa: DTZ001
}


TIMES = [
    *(
        "2024-05-31",
        "20240531",
        "20240531.0",
        "2.0240531e7",
        "20_240_531",
        "2024-05-31T17:30",
        "2024-05-31 17:30:05",
    ),
    *(
        "2024-05-31x17:30",
        "20240531 17:30:05.1",
        "2024-05-31T17:30:05,1234567",
        "2024-05-31T17:30Z",
        "2024-W22-5",
    ),
    *(
        "2024-05-31T17:30+02",
        "2024-05-31T17:30-0230",
        "2024-05-31T17:30:05.9+23:59",
        "2024-05-31T17:30+24:00",
    ),
    *(
        "2024-05-31T17:30z",
        "2024-05-31t17:30",
        "2024-05-31T17:30:60",
        "2024-05-31T24:00",
        "2024-05-31T17",
        "2024-05-31T",
    ),
    *(
        "2024-02-29",
        "2023-02-29",
        "1900-02-29",
        "2000-02-29",
        "2024-04-31",
        "2024-13-01",
        "2024-00-10",
        "2024-5-31",
    ),
    *(
        "0001-01-01",
        "0001-01-01T00:00+00:01",
        "0000-12-31",
        "9999-12-31T23:59:59.999999",
        "9999-12-31T23:59-00:01",
    ),
    *(
        "2024-05",
        "17:30",
        "99999999",
        "10000101",
        "10000000",
        "1969-12-31T23:59:59.999999",
        "2024-12-31T23:59:59.9",
    ),
    *(
        "2023-12-31T23:59:59.999999",
        "2024-01-01",
        "2024-01-09T23:59:59.999999",
        "2024-01-10",
        "2024-01-11",
        "2024-01-02T",
    ),
    *(
        " 2024-01-03 ",
        "\u00a02024-01-03",
        "2024-01-0\u0663",
        "2024-01-03T00:00:00.\u0663",
        "+20240103",
        "-20240103",
    ),
]
DATES = {
    "days": dpb.DateRange("2024-01-01", "2024-01-10", missing="2024-01-06"),
    "times": dpb.DateRange("1969-12-31T12:00", "2024-05-31T17:30:05", clip=True),
    "long": dpb.DateRange("0001-01-01", "9999-12-31"),
    "day": dpb.Cycle("day"),
    "week": dpb.Cycle("week", missing=3.5),
    "year": dpb.Cycle("year"),
    "hours": dpb.Cycle(24, missing=23.5),
    "small": dpb.Cycle(1e-3),
}


@pytest.fixture(scope="module", params=KINDS)
def engine(request):
    found = opened(request.param)
    yield found
    found.connection.close()


def read(engine, readings, cells, kind="text"):
    """The values of readings of one column `cell`, a list for each. `readings` make them from a `SqlCell`."""
    engine.fill({"cell": cells}, {"cell": kind})
    made = {name: make(f"_{place}") for place, (name, make) in enumerate(readings.items())}
    names = ", ".join(f"v_{name}" for name in made)
    layers = layers_of({f"v_{name}": one for name, one in made.items()})
    row = ENGINES[engine.dialect].name("row")
    inner = layered("people", layers, selected=f"dpb_people.{row}")
    found = engine.rows(f"SELECT {names} FROM ({inner}) AS found ORDER BY {row}")  # noqa: S608
    return dict(zip(made, map(list, zip(*found, strict=True)), strict=True))


def cell(engine, place, kind=None):
    return SqlCell(ENGINES[engine.dialect], "cell", place, kind and engine.declared(kind))


EDGES = [0.1, 0.125, 0.5, 0.9, 1.0]


def edges_of(column):
    if isinstance(column, dpb.Range):
        return EDGES
    return list(range(1, len(column.values)))


def wanted_level(column, cells):
    points = column.points(as_objects(cells))
    levels = np.searchsorted(edges_of(column), points, side="right")
    return [
        None if math.isnan(point) else level for point, level in zip(points, levels.tolist(), strict=True)
    ]


def near(column):
    """Numbers at and next to the least numbers of levels."""
    if not isinstance(column, dpb.Range):
        return []
    cuts = [first_reaching(edge, column.low, column.high) for edge in edges_of(column)]
    cuts += [column.low, column.high]
    return [float(np.nextafter(cut, cut + side)) if side else cut for cut in cuts for side in (-1, 0, 1)]


def test_levels_of_texts(engine):
    given = [None, *HOSTILE, *(repr(one) for column in COLUMNS.values() for one in near(column))]
    given = engine.stored(given)
    readings = {
        name: lambda place, name=name: SqlLevels.of(COLUMNS[name], edges_of(COLUMNS[name]), name).reading(
            cell(engine, place)
        )
        for name in COLUMNS
    }
    found = read(engine, readings, given)
    for name, column in COLUMNS.items():
        assert found[name] == wanted_level(column, given), name


@pytest.mark.parametrize("kind", TYPED)
def test_levels_numbers_and_ids_of_typed_columns(engine, kind):
    """A typed column is read as the library reads the values, with its type known or not."""
    given = TYPED[kind]
    own = [float(np.float32(one)) if kind == "real" and one is not None else one for one in given]
    for declared in [kind] if kind == "real" else [kind, None]:
        readings = {
            name: lambda place, name=name: SqlLevels.of(COLUMNS[name], edges_of(COLUMNS[name]), name).reading(
                cell(engine, place, declared)  # noqa: B023
            )
            for name in COLUMNS
        }
        readings["number"] = lambda place: cells.number_reading(cell(engine, place, declared))  # noqa: B023
        found = read(engine, readings, given, kind)
        for name, column in COLUMNS.items():
            assert found[name] == wanted_level(column, own), (name, declared)
        assert found["number"] == finite(own)
    if kind in ("boolean", "date", "timestamp"):
        with pytest.raises(InvalidParameter, match="has no ids"):
            ids.id_reading(cell(engine, "", kind))
    else:
        found = read(engine, {"id": lambda place: ids.id_reading(cell(engine, place, kind))}, given, kind)
        assert found["id"] == [ids.id_in(one) for one in own]


def of_dates(engine, name, kind=None):
    """Levels of every coordinate of a column, as functions that make a reading, by name."""
    column = DATES[name]
    if isinstance(column, dpb.DateRange):
        made = [SqlLevels.of(column, EDGES, name)]
    else:
        made = SqlLevels.of_cycle(column, [EDGES[:-1], cut_at(8)], name)
    return {
        f"{name}{place}": lambda at, levels=levels: levels.reading(cell(engine, f"{at}{name}", kind))
        for place, levels in enumerate(made)
    }


def check_dates(engine, given, kind="text", declared=None):
    made = {name: one for column in DATES for name, one in of_dates(engine, column, declared).items()}
    found = read(engine, made, given, kind)
    for name, column in DATES.items():
        for place in range(column.width):
            wanted = wanted_levels_of_dates(name, place, given)
            assert found[f"{name}{place}"] == wanted, (name, place)
            assert len(set(wanted)) > 1 or declared


def wanted_levels_of_dates(name, place, given):
    column = DATES[name]
    own = column.points(as_objects(given)).reshape(len(given), -1)[:, place]
    edges = [EDGES if column.width == 1 else EDGES[:-1], cut_at(8)][place]
    levels = np.searchsorted(edges, own, side="right").tolist()
    return [None if math.isnan(one) else at for one, at in zip(own, levels, strict=True)]


def test_levels_of_dates_and_cycles(engine):
    hours = [repr(hour / 8) for hour in range(-9, 400)] + ["1e308", "-1e308", "5e-324", "-5e-324", "-0.0"]
    check_dates(engine, engine.stored([None, *TIMES, *HOSTILE, *hours, *on_edges()]))


def on_edges():
    """Times and numbers at and next to those at which levels change."""
    found = []
    for column in DATES.values():
        if isinstance(column, dpb.DateRange):
            first, last = column.ends()
            found += [first + round(share * (last - first)) for share in [0, *EDGES]]
    found += [round(hour * 3.6e9) + 20_000 * 86_400_000_000 for hour in range(24 * 7)]
    found += [round(day * 8.64e10) + 19_723 * 86_400_000_000 for day in np.arange(0, 366, 3.04368)]
    near = [at + side for at in found for side in (-1, 0, 1)]
    return [str(np.datetime64(at, "us")) for at in near if -62135596800000000 <= at <= 253402300799999999]


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz", "bigint", "double precision"])
def test_levels_of_typed_times(engine, kind):
    given = [None, *(np.datetime64(text).astype("datetime64[us]").item() for text in on_edges())]
    if kind == "date":
        given = [one and one.date() for one in given]
    elif kind == "timestamptz":
        given = [one and one.replace(tzinfo=UTC) for one in given]
    elif kind != "timestamp":
        number = int if kind == "bigint" else float
        given = [number(one) for one in (20240531, 20240532, 5, -3, 99999999, 10000101, 2**53, 12)] + [None]
    check_dates(engine, given, kind, kind)
    if kind == "timestamp" and engine.dialect == "duckdb":
        given = [None, *(one for one in given[1:] if 1700 < one.year < 2200)]
        check_dates(engine, given, "timestamp_ns", "TIMESTAMP_NS")


def finite(cells):
    numbers = [number_of(one) for one in cells]
    return [one if math.isfinite(one) else None for one in numbers]


def test_numbers_of_texts(engine):
    given = engine.stored([None, *HOSTILE])
    found = read(engine, {"number": lambda place: cells.number_reading(cell(engine, place))}, given)
    assert found["number"] == numbers_of_texts(given)


def numbers_of_texts(given):
    """The numbers of texts. One with more than 15 hexadecimal digits lies above all bounds."""
    digits = [(text or "").lower().replace("_", "").strip().removeprefix("0x").lstrip("0") for text in given]
    hexadecimal = ["x" in (text or "").lower() for text in given]
    told = zip(finite(given), digits, hexadecimal, strict=True)
    return [1.2e18 if one is not None and x and len(own) > 15 else one for one, own, x in told]


def test_codes_of_arms_and_actions(engine):
    given = engine.stored([None, *HOSTILE, *map(repr, np.linspace(-0.1, 5.1, 521).tolist())])
    given += ["3.0000019", "3.0000021", "2.9999981", "2.9999979", "4.5", "4.499999999999999"]
    labels = {
        "texts": ["north", "it's", "none"],
        "numbers": [0.1, 30, -5],
        "absent": ["NA", "41y", "7.5"],
    }
    readings = {
        name: lambda place, own=own: SqlLevels.of_arms(Arms(own), "arm").reading(cell(engine, place))
        for name, own in labels.items()
    }
    found = read(engine, readings, given)
    for name, own in labels.items():
        assert found[name] == [None if code < 0 else code for code in Arms(own).codes(given).tolist()], name
    for column in (
        dpb.Range(1, 5, steps=3),
        dpb.Range(1, 5, steps=3, clip=True, missing=2),
        dpb.Range(0, 0.7, steps=128),
        Ordered([-5, 0.1, 30, 1e18]),
        dpb.Categories(["north", "30", "none"], unknown="north"),
    ):
        actions = Actions(column)
        made = {
            str(between): next(iter(SqlLevels.of_actions(actions, between=between).values()))
            for between in (False, True)
        }
        readings = {
            between: lambda place, levels=levels: levels.reading(cell(engine, place))
            for between, levels in made.items()
        }
        found = read(engine, readings, given)
        for between in (False, True):
            wanted = actions.located(as_objects(given), between=between).tolist()
            assert found[str(between)] == [None if code < 0 else code for code in wanted], (column, between)


def test_ids(engine):
    given = engine.stored([None, *IDS, *HOSTILE])
    found = read(engine, {"id": lambda place: ids.id_reading(cell(engine, place))}, given)["id"]
    assert found == [ids.id_in(one) for one in given]
    same = ["7", "007", "+7", "7.0", "7."]
    assert {one for text, one in zip(given, found, strict=True) if text in same} == {"7"}


def drawn(count, seed=0):
    """Cells made of pieces of hostile ones, of characters that matter, and of numbers and times."""
    rng = np.random.default_rng(seed)
    pieces = [one[:40] for one in (*HOSTILE, *IDS, *TIMES) if one]
    marks = list("0123456789" * 3 + "+-._eExXTZ:, naif\t\n\u00a0\u0663\uff11'\\")
    found = []
    for kind, own in zip(rng.integers(0, 5, count).tolist(), rng.random((count, 4)), strict=True):
        some = [pieces[int(share * len(pieces))] for share in own[:2]]
        if kind == 0:
            found.append(some[0][: int(own[2] * 12)] + some[1][int(own[3] * 8) :])
        elif kind == 1:
            place = int(own[1] * (len(some[0]) + 1))
            found.append(
                some[0][:place] + marks[int(own[2] * len(marks))] + some[0][place + int(own[3] * 2) :]
            )
        elif kind == 2:
            found.append("".join(rng.choice(marks, int(own[0] * 8)).tolist()))
        elif kind == 3:
            found.append(f"{(own[0] - 0.3) * 10 ** (int(own[1] * 8) - 3):.{int(own[2] * 17) + 1}g}")
        else:
            at = np.datetime64(int((own[0] * 1.1 - 0.5) * 4e9 * 1e6), "us")
            found.append(
                str(at)[: (10, 16, 19, 22, 26)[int(own[1] * 5)]] + ("", "Z", "+02", "-0330")[int(own[2] * 4)]
            )
    return found


@pytest.mark.parametrize(
    "count", [2_000, pytest.param(100_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_drawn_cells_are_read_as_in_the_library(engine, count):
    given = engine.stored(drawn(count))
    made = {
        name: lambda place, name=name: SqlLevels.of(COLUMNS[name], edges_of(COLUMNS[name]), name).reading(
            cell(engine, place)
        )
        for name in ("clipped", "texts", "mixed")
    }
    made |= {"number": lambda place: cells.number_reading(cell(engine, place))}
    made |= {"id": lambda place: ids.id_reading(cell(engine, place))}
    for name in ("times", "year"):
        made |= of_dates(engine, name)
    found = read(engine, made, given)
    for name in ("clipped", "texts", "mixed"):
        assert found[name] == wanted_level(COLUMNS[name], given), name
    assert found["number"] == numbers_of_texts(given)
    assert found["id"] == [ids.id_in(one) for one in given]
    assert found["times0"] == wanted_levels_of_dates("times", 0, given)
    assert found["year1"] == wanted_levels_of_dates("year", 1, given)
    for name, own in found.items():
        assert len(set(own)) > 3, name


def test_types_without_a_reading_are_refused():
    for kind in (
        "BLOB",
        "bytea",
        "INTEGER[]",
        "STRUCT(a INTEGER)",
        "MAP(VARCHAR, INTEGER)",
        "interval",
        "json",
    ):
        with pytest.raises(InvalidParameter, match="column 'age' has the type"):
            SqlCell(ENGINES["duckdb"], "age", "", kind)
    assert SqlCell(ENGINES["duckdb"], "age", "", "ENUM('a', 'b)')").kind == "text"
