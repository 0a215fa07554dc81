"""Databases in tests, and cells that are hard to read."""

import shutil
from datetime import date
from decimal import Decimal

import pytest

from service.databases import fresh

HOSTILE = [
    *("30", "30.0", "030", "+30", "-30", "3e1", "3E+1", "300e-1", ".5", "5.", "1_0", "1__0", "_1"),
    *("1_", "1e_5", "1_0e0_1", "0x1A", "0X1a", "0x_1a", "0x1g", "0x", "0x0", "-0x1"),
    *("0xffffffffffffffff", "true", "FALSE", "True", "1e999", "-1e999", "1e-999", "-1e-999", "5e-324"),
    *("-5e-324", "1e308", "1.7976931348623158e308", "1.7976931348623159e308"),
    *("2.4703282292062328e-324", "-2.4e-324", "1e99999999999999999999", "-1e-99999999999999999999"),
    *("0e99999999999999999999", "1e0000000001", "nan", "NaN", "-nan", "+nan", "inf", "-Infinity"),
    *("NA", "n/a", "null", "None", "NAT", "<na>", "1.#IND", "2,5", "1,000.5", "41y", "--", "+", "."),
    *("e5", "1e", "1e+", "12abc", "2024-05-31", "17:30", "1.0.0", "\u0663\u0660", "\uff11\uff12"),
    *("0.1", "0.09999999999999999", "0.7", "0.7000000000000001", "-0.3", "18", "17.999999999999996"),
    *("90", "90.00000000000001", "north", "NORTH", "north.", "o'west", "o''west", "none", "None"),
    *("South", "1", "2", "30", "2.0", "002", "7.5", "7.50", "75e-1", "a", "A", "NA", "Größe", "größe"),
    *("ß"),
    *("", " ", "\t30\n", " north ", "\u00a030\u2003", "\u200b30", "30\x00", "3 0", "'; --", "\\", "\\x30"),
    *("1" + "0" * 300, "0" * 400 + "30", "0." + "0" * 400 + "1", "9" * 5000, "0x" + "f" * 300, "1e-300"),
    *(
        "0x" + "0" * 40 + "1e",
        "9007199254740993",
        "2e-1_0",
        "fal\u017fe",
        "1.#\u0130nd",
        "\uff2e\uff21",
        "x" * 5000,
        "1e-301",
    ),
]


def written(name):
    return '"' + name.replace('"', '""') + '"'


class Connected:
    """A database with a connection of Python's DB-API."""

    def rows(self, statement):
        return self.connection.execute(statement).fetchall()

    def columns(self, statement):
        """The names of the columns of a statement."""
        found = self.connection.execute(statement)
        names = [one[0] for one in found.description]
        found.fetchall()
        return names

    def plan(self, statement):
        return self.rows(f"EXPLAIN (FORMAT json) {statement}")

    def stored(self, cells):
        """The cells as this database can store them."""
        return cells

    def declared(self, kind):
        """The name of a type in this database."""
        return kind


class DuckDB(Connected):
    """An embedded DuckDB."""

    dialect = "duckdb"

    def __init__(self):
        duckdb = pytest.importorskip("duckdb")
        self.connection = duckdb.connect(config={"threads": 1})

    def fill(self, table, types):
        """Make the table `people` of these columns, with the column `row`, the number of each row."""
        import pyarrow as pa

        rows = pa.table({"row": range(len(next(iter(table.values())))), **table})
        self.connection.register("cells", rows)
        wanted = ", ".join(f"CAST({written(name)} AS {types[name]}) AS {written(name)}" for name in table)
        self.connection.execute(f'CREATE OR REPLACE TABLE people AS SELECT "row", {wanted} FROM cells')  # noqa: S608


class Postgres(Connected):
    """A PostgreSQL."""

    dialect = "postgres"

    def __init__(self, server):
        import psycopg

        self.connection = psycopg.connect(fresh(server), autocommit=True)

    def fill(self, table, types):
        columns = ", ".join(f"{written(name)} {types[name]}" for name in table)
        self.connection.execute("DROP TABLE IF EXISTS people")
        self.connection.execute(f'CREATE TABLE people ("row" integer, {columns})')
        with self.connection.cursor() as cursor, cursor.copy("COPY people FROM STDIN") as copy:
            for row in zip(range(len(next(iter(table.values())))), *table.values(), strict=True):
                copy.write_row(row)

    def stored(self, cells):
        return [cell and cell.replace("\0", "?") for cell in cells]


class Spark:
    """A Spark on this machine."""

    dialect = "spark"

    def __init__(self):
        sql = pytest.importorskip("pyspark.sql")
        if shutil.which("java") is None:
            pytest.skip("Spark needs Java")
        options = {
            "spark.sql.shuffle.partitions": "1",
            "spark.ui.enabled": "false",
            "spark.sql.session.timeZone": "America/New_York",
            "spark.driver.host": "127.0.0.1",
        }
        builder = sql.SparkSession.builder.master("local[1]")
        for name, value in options.items():
            builder = builder.config(name, value)
        self.connection = builder.getOrCreate()
        self.connection.sparkContext.setLogLevel("ERROR")
        self.connection.close = self.connection.stop

    def fill(self, table, types):
        columns = ", ".join(f"`{name.replace('`', '``')}` {self.declared(types[name])}" for name in table)
        made = [map(SPARK_VALUES.get(types[name], lambda one: one), own) for name, own in table.items()]
        rows = list(zip(range(len(next(iter(table.values())))), *made, strict=True))
        frame = self.connection.createDataFrame(rows, f"`row` int, {columns}")
        frame.createOrReplaceTempView("people")

    def rows(self, statement):
        return [tuple(row) for row in self.connection.sql(statement).collect()]

    def columns(self, statement):
        return self.connection.sql(statement).columns

    def plan(self, statement):
        return self.rows(f"EXPLAIN {statement}")

    def stored(self, cells):
        return cells

    def declared(self, kind):
        return SPARK_TYPES.get(kind, kind)


SPARK_TYPES = {
    "text": "string",
    "double precision": "double",
    "real": "float",
    "numeric(9, 2)": "decimal(9, 2)",
    "timestamp": "timestamp_ntz",
    "timestamptz": "timestamp",
}
SPARK_VALUES = {
    "numeric(9, 2)": lambda one: None if one is None else Decimal(str(one)),
    "date": lambda one: date.fromisoformat(one) if isinstance(one, str) else one,
}
KINDS = [
    "duckdb",
    "debian",
    "wheel",
    pytest.param("spark", marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
]
"""All kinds of databases."""


def opened(kind):
    """The database of this kind."""
    if kind in ("duckdb", "spark"):
        return {"duckdb": DuckDB, "spark": Spark}[kind]()
    return Postgres(kind)
