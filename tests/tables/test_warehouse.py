import gzip
import logging
import os
import stat
import subprocess
import sys
import tempfile
import tomllib
from contextlib import suppress
from datetime import date
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from dpbandits.errors import DataUnavailable, DPBanditsError, InvalidData, InvalidParameter, MissingExtra
from dpbandits.tables.sketch import read_sample
from dpbandits.tables.warehouse import DuckSource, source_of

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Temporary folders of an engine are made in a folder of the test's own."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))


def as_csv(path, text):
    path.write_text(text, newline="")
    return str(path)


def as_parquet(path, **columns):
    parquet.write_table(pa.table(columns), path)
    return str(path)


def counted(where, **options):
    """Number of rows, and the sum of the column `age`."""
    with source_of(where, **options) as source:
        sql = "SELECT count(*) AS n, CAST(sum(TRY_CAST(age AS BIGINT)) AS BIGINT) AS total FROM "
        found = source.query(sql + source.relation)
    assert all(column.dtype == np.int64 for column in found.values())
    return found["n"].tolist(), found["total"].tolist()


def test_files_of_every_format_are_tables(tmp_path):
    text = as_csv(tmp_path / "t.csv", "age, word,\n 1 ,x,\n2,y,7\n")
    (tmp_path / "t.tsv.gz").write_bytes(gzip.compress(b"age\tword\n1\tx\n2\ty\n"))
    table = pa.table({"age": [1, 2], "word": ["x", "y"]})
    as_parquet(tmp_path / "t.parquet", age=[1, 2], word=["x", "y"])
    for name, new in (("t.arrow", pa.ipc.new_file), ("t.feather", pa.ipc.new_stream)):
        with new(tmp_path / name, table.schema) as file:
            file.write_table(table)
    for name in ("t.csv", "t.tsv.gz", "t.parquet", "t.arrow", "t.feather"):
        assert counted(tmp_path / name) == ([2], [3])
    with source_of(text) as source:
        assert source.columns() == {"age": "VARCHAR", "word": "VARCHAR", "": "VARCHAR"}
        assert source.dialect == "duckdb"
    with source_of(tmp_path / "t.arrow") as source:
        assert source.columns() == {"age": "BIGINT", "word": "VARCHAR"}
        for _ in range(2):  # a statement does not use the rows up
            assert source.query(f"SELECT count(*) AS n FROM {source.relation}")["n"].tolist() == [2]


@pytest.mark.parametrize("name", ["log[1].parquet", "log*.parquet", "it's.parquet", "log?.csv"])
def test_a_path_that_looks_like_a_pattern_or_ends_a_text_is_a_path(tmp_path, name):
    for other in (name, "log1.parquet", "logx.csv"):
        make = as_parquet if other.endswith("parquet") else (lambda path, age: as_csv(path, "age\n7\n"))
        make(tmp_path / other, age=[7])
    assert counted(tmp_path / name) == ([1], [7])


def test_a_pattern_names_files_of_one_format_with_one_header(tmp_path):
    as_parquet(tmp_path / "a1.parquet", age=[1])
    as_parquet(tmp_path / "a2.parquet", age=[2, 3])
    assert counted(tmp_path / "a*.parquet") == ([3], [6])
    as_csv(tmp_path / "b1.csv", "age,word\n1,x\n")
    as_csv(tmp_path / "b2.csv", "word,age\nx,1\n")
    with pytest.raises(InvalidData, match="different lines of column names"):
        source_of(tmp_path / "b*.csv")
    with pytest.raises(InvalidParameter, match="expected a file ending"):
        source_of(tmp_path / "*1.*")
    for name in ("none.csv", "none*.csv", "."):
        with pytest.raises((DataUnavailable, InvalidParameter)):
            source_of(tmp_path / name)
    as_parquet(tmp_path / "a3.parquet", age=[4], other=[1])
    assert counted(tmp_path / "a*.parquet") == ([4], [10])
    for other in ({"other": [1]}, {"age": [1.5]}, {"age": ["x"]}, {"age": pa.array([1], pa.int32())}):
        as_parquet(tmp_path / "a4.parquet", **other)  # a cast would fail on a cell, or round it
        with pytest.raises(InvalidData, match="lacks columns of the first file, or has other types"):
            source_of(tmp_path / "a*.parquet")


def test_columns_whose_names_an_engine_confuses_are_refused(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    parquet.write_table(twice, tmp_path / "t.parquet")
    nested = pa.table({"l": [[{"a": 1, "b": [2]}]], "a": [1]})
    parquet.write_table(nested, tmp_path / "n.parquet")
    with source_of(tmp_path / "n.parquet") as source:
        assert list(source.columns()) == ["l", "a"]
    with source_of(tmp_path / "t.parquet") as source, pytest.raises(InvalidData, match="twice"):
        source.columns()
    as_csv(tmp_path / "t.csv", "Age,age\n1,2\n")
    with source_of(tmp_path / "t.csv") as source, pytest.raises(InvalidData, match="case only"):
        source.columns()


def test_a_database_is_opened_for_reading(tmp_path):
    path = tmp_path / "my shop.db"
    with duckdb.connect(str(path)) as made:
        made.execute('CREATE TABLE "my log" AS SELECT 7 AS age')
        made.execute("CREATE SCHEMA s; CREATE VIEW s.log AS SELECT 8 AS age")
    before = path.read_bytes()
    url = f"duckdb:///{tmp_path}/my%20shop.db?table="
    assert counted(url + "my%20log") == ([1], [7])
    assert counted(url + "s.log") == ([1], [8])
    assert path.read_bytes() == before
    for bad in (url + "none", f"duckdb:///{tmp_path}/none.db?table=log"):
        with pytest.raises(DataUnavailable):
            source_of(bad)
    as_csv(tmp_path / "s3cret.db", "s3cret\n" * 9999)
    with pytest.raises(DataUnavailable, match="no DuckDB database"):
        source_of(f"duckdb:///{tmp_path}/s3cret.db?table=log")
    for bad in ("duckdb:///shop.db", "duckdb://host/shop.db?table=a", "mysql:///shop.db?table=a"):
        with pytest.raises(InvalidParameter, match="expected a path"):
            source_of(bad)


MIXED = [30, "s3cret", None, b"41", Decimal("2.5"), float("nan"), True, [1], "\ud800", date(2026, 1, 2)]


def test_frames_are_tables_and_a_cell_of_another_type_changes_no_other(tmp_path):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    for frame in (
        pandas.DataFrame({"age": [1, 2]}),
        polars.DataFrame({"age": [1, 2]}),
        pa.table({"age": [1, 2]}),
        polars.DataFrame({"age": ["1", "2"]}, schema={"age": polars.Categorical}),
    ):
        assert counted(frame) == ([2], [3])
    with source_of(pandas.DataFrame({"age": pandas.Series(MIXED, dtype=object)})) as source:
        rows = [batch.to_pydict()["age"] for batch in source.batches(f"SELECT * FROM {source.relation}", 99)]
    assert rows == [["30", "s3cret", None, "41", "2.5", None, "1", "\ufffd", "\ufffd", "2026-01-02"]]
    numbers = [2.0**53 + 2, 0.1, Decimal(2**53 + 1), Decimal("1E+999999")]
    with source_of(pandas.DataFrame({"age": pandas.Series([*numbers, "s3cret"], dtype=object)})) as source:
        rows = [batch.to_pydict()["age"] for batch in source.batches(f"SELECT * FROM {source.relation}", 99)]
    # a float beyond 2^53 names nobody, also beside a text
    assert rows == [["9.0071992547409940e+15", "0.1", "9007199254740993", "inf", "s3cret"]]
    with pytest.raises(InvalidData, match="eager data frame"):
        source_of(polars.DataFrame({"age": [1]}).lazy())


@pytest.mark.parametrize(
    ("text", "cut", "wrong"),
    [
        ("age,word\n1,s3cret\n2\n", False, "line 3 has 1 cells, expected 2"),
        ('age,word\n1,"s3cret\n2,x\n', False, "line 3 is not well-formed"),
        ("age,word\n1,s3cret\n2,\udcff\n", False, "is not UTF-8"),
        ("age,word\n1,s3cret\n2,x\n", True, "damaged file"),
    ],
    ids=["short line", "open quote", "no UTF-8", "cut file"],
)
def test_an_engines_error_repeats_no_cell_and_is_chained_to_none(tmp_path, text, cut, wrong, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    data, path = text.encode("utf-8", "surrogateescape"), tmp_path / ("t.csv.gz" if cut else "t.csv")
    path.write_bytes(gzip.compress(data)[:-9] if cut else data)
    with source_of(path) as source:
        for run, says in (
            (lambda: source.query(f"SELECT count(word) AS n FROM {source.relation}"), wrong),
            (
                lambda: list(source.batches(f"SELECT * FROM {source.relation}", 10)),
                "could not read the table",
            ),
        ):
            with pytest.raises(DataUnavailable, match=says) as caught:
                run()
            error = caught.value
            assert error.__context__ is None
            assert error.__cause__ is None
    assert "s3cret" not in str(error) + caplog.text + "".join(capfd.readouterr())


def test_a_failing_expression_repeats_no_cell(tmp_path):
    with source_of(as_csv(tmp_path / "t.csv", "age\ns3cret\n")) as source:
        with pytest.raises(DataUnavailable) as caught:
            source.query(f"SELECT CAST(age AS BIGINT) AS n FROM {source.relation}")
        assert "s3cret" not in str(caught.value)
        assert caught.value.__context__ is None
        for result in ("age", "NULL::BIGINT AS n", "sum(1) AS n", "1.5 AS n"):  # no integers of 64 bits
            with pytest.raises(InvalidData, match="no integer"):
                source.query(f"SELECT {result} FROM {source.relation} GROUP BY age")


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_a_damaged_arrow_file_is_an_error_of_the_library(tmp_path, compression):
    table = pa.table({"age": pa.array([1, None, 3]), "word": pa.array(["x", "y", None]).dictionary_encode()})
    path, rng = tmp_path / "t.arrow", np.random.default_rng(0)
    with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as file:
        file.write_table(table)
    whole = path.read_bytes()
    for place in rng.permutation(len(whole))[:30]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 + int(rng.integers(255))
        path.write_bytes(damaged)
        with suppress(DPBanditsError), source_of(path, threads=1) as source:
            source.query(f"SELECT count(word) AS n FROM {source.relation}")


def test_an_engine_stays_within_its_memory_and_removes_its_folder(tmp_path):
    rows = pa.table({"age": np.arange(2_000_000)})
    held = tmp_path / "temporary"
    places = "SELECT row_number() OVER (ORDER BY age % 7, age) AS place FROM {}"
    ordered = f"SELECT count(*) AS n FROM ({places}) WHERE place > 1"
    with source_of(rows, memory=40 << 20, threads=1) as source:
        (folder,) = held.iterdir()
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert source.query(ordered.format(source.relation))["n"].tolist() == [1_999_999]
    assert list(held.iterdir()) == []
    source = source_of(rows, memory=1 << 20, threads=1)
    with source, pytest.raises(DataUnavailable, match="out of memory"):
        source.query(ordered.format(source.relation))
    assert list(held.iterdir()) == []
    assert not Path(".tmp").exists()
    source_of(rows)  # one that nobody closes
    assert list(held.iterdir()) == []


def test_the_folder_of_a_killed_process_is_removed_and_that_of_a_live_one_stays(tmp_path):
    pytest.importorskip("fcntl", reason="needs POSIX file locks")
    held = tmp_path / "temporary"
    path = as_csv(tmp_path / "t.csv", "age\n1\n")
    killed = (
        "import os, sys; from dpbandits.tables.warehouse import source_of; held = source_of(sys.argv[1]); "
        "os.kill(os.getpid(), 9)"
    )
    with source_of(path) as live:
        (used,) = held.iterdir()
        subprocess.run(
            [sys.executable, "-c", killed, path], env={**os.environ, "TMPDIR": str(held)}, check=False
        )
        assert len(list(held.iterdir())) == 2
        with source_of(path):
            left = set(held.iterdir())
            assert used in left
            assert len(left) == 2
        assert set(held.iterdir()) == {used}
        assert live.query(f"SELECT count(*) AS n FROM {live.relation}")["n"] == 1
    assert list(held.iterdir()) == []


def test_an_engine_reads_no_address_and_takes_no_other_options(tmp_path):
    with source_of(as_csv(tmp_path / "t.csv", "age\n1\n")) as source:
        for sql in (
            "SELECT 1 AS n FROM read_parquet('https://localhost/t.parquet')",
            "INSTALL httpfs",
            "SET memory_limit = '1GB'",
            "SET autoinstall_known_extensions = true",
        ):
            with pytest.raises(DataUnavailable):
                source.query(sql)


@pytest.mark.parametrize("secret", ["se\u2100cret", "[secret]", "p[secret]p"])
def test_an_address_that_cannot_be_read_is_refused_without_its_password(secret):
    with pytest.raises(InvalidParameter, match="cannot be read") as error:
        source_of(f"postgresql://user:{secret}@localhost/shop?table=log")
    assert "cret" not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None


@pytest.mark.parametrize("where", ["host=db password=secret table=log", "user:secret@db?table=log"])
@pytest.mark.parametrize("read", [source_of, lambda where: read_sample(where, 5)])
def test_an_address_without_a_scheme_is_refused_without_its_password(read, where):
    with pytest.raises(InvalidParameter, match="expected a file ending in") as error:
        read(where)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(("where", "kind"), [(None, "a NoneType"), ({"age": [1]}, "a dict"), (3, "an int")])
def test_what_is_no_table_is_refused_with_what_would_be_one(where, kind):
    with pytest.raises(InvalidParameter, match=f"expected a path, a data frame.*, not {kind}"):
        source_of(where)


def test_the_extra_that_the_guide_names_reads_data_frames():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extra = project["optional-dependencies"]["warehouse"]
    assert {one.partition(">")[0] for one in extra} == {"duckdb", "narwhals", "pyarrow"}


def test_progress_is_shown_in_percent(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr("dpbandits._progress.EVERY", 0.005)
    monkeypatch.setattr("dpbandits.tables.warehouse.duck.POLLED", 0.01)
    with source_of(pa.table({"age": np.arange(500_000)}), threads=1) as source:
        sql = f"SELECT count(DISTINCT md5(CAST(age AS VARCHAR))) AS n FROM {source.relation}"
        found = source.query(sql, told="counting")["n"]
        assert source.query(sql)["n"] == found
    assert "counting: " in capfd.readouterr().err


def test_without_duckdb_the_error_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "duckdb", None)
    with pytest.raises(MissingExtra, match=r"dpbandits\[warehouse\]"):
        DuckSource.of_files(as_csv(tmp_path / "t.csv", "age\n1\n"))
