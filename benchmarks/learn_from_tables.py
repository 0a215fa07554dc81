"""Time and memory of the sums that `central.learn` needs: `python -m benchmarks.learn_from_tables`.

The table is made before the clock starts: text ids, two rows a user, four contexts, three arms, propensities,
as one Parquet file in a temporary folder. Seconds of processor time of one thread, and the peak memory of a
process that does one line only. With `--postgres ADDRESS` the same rows are in a table `dpb_log` there, which
is made and dropped; seconds are then wall time. Prints Markdown. The seed of the rows is 1,000,000.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dpbandits.central.logged.engine import summed_by
from dpbandits.central.logged.logged_table import LogColumns, tables_policy
from dpbandits.central.logged.people import people_menu
from dpbandits.central.logged.plan import SumsPlan
from dpbandits.privacy.definitions import JointDP
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.warehouse import source_of

SEED = 1_000_000
PEOPLE = Schema(
    age=Range(18, 90),
    income=Range(0, 1000),
    region=Categories(["north", "south", "east", "west"]),
    plan=Categories(["a", "b", "c"]),
)
ROWS = """
SELECT 'u-' || lpad(CAST(hash(i // 2) % 1000000007 AS VARCHAR), 10, '0') || CAST(i // 2 AS VARCHAR) AS person,
18 + 72 * random() AS age, 1000 * random() AS income,
['north', 'south', 'east', 'west'][1 + CAST(floor(4 * random()) AS INTEGER)] AS region,
['a', 'b', 'c'][1 + CAST(floor(3 * random()) AS INTEGER)] AS plan,
['mail', 'call', 'nothing'][1 + CAST(floor(3 * random()) AS INTEGER)] AS offer,
CAST(random() < 0.3 AS DOUBLE) AS paid, 0.2 + 0.3 * random() AS chance
FROM range({rows}) AS made(i)
"""


def made(path: Path, rows: int) -> None:
    """Write the rows to a Parquet file."""
    import duckdb

    with duckdb.connect(config={"threads": 1, "memory_limit": "1GB"}) as database:
        database.execute(f"SELECT setseed({SEED / 2**31})")
        database.execute(f"COPY ({ROWS.format(rows=rows)}) TO '{path}' (FORMAT parquet)")


def one(table: str, rows: int, rows_per_user: int, memory: int) -> dict[str, float]:
    """Add up the tables of one release in this process."""
    columns = LogColumns(
        contexts=PEOPLE.names, action="offer", reward="paid", propensity="chance", user="person"
    )
    menu = people_menu(PEOPLE, arms=["mail", "call", "nothing"])
    if menu is None:  # there are contexts and arms; for type checkers
        raise SystemExit("no menu")
    privacy = JointDP(epsilon=1.0, delta=0.1 / rows, rounds_per_user=rows_per_user)
    policy = tables_policy(menu, columns, (0.0, 1.0), None, privacy, horizon=rows, bound=None)
    plan = SumsPlan.of(policy.calibration.release, user_ids=True)
    began, wall = time.process_time(), time.perf_counter()
    source = source_of(table, memory=memory, threads=1)
    summed_by(source, plan, policy.unsafe_rules, columns, clip=False, key=bytes(32))
    source.close()
    return {
        "entries": plan.size,
        "cpu": time.process_time() - began,
        "wall": time.perf_counter() - wall,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def _in_postgres(address: str, path: Path) -> str:
    """Copy the rows to a table of a PostgreSQL database, and return its address."""
    import duckdb
    import psycopg

    kinds = {"age", "income", "paid", "chance"}
    names = ["person", *PEOPLE.names, "offer", "paid", "chance"]
    declared = ", ".join(f"{name} {'double precision' if name in kinds else 'text'}" for name in names)
    with psycopg.connect(address, autocommit=True) as connection, duckdb.connect() as database:
        connection.execute(f"DROP TABLE IF EXISTS dpb_log; CREATE TABLE dpb_log ({declared})".encode())
        found = database.execute(f"SELECT {', '.join(names)} FROM '{path}'")  # noqa: S608
        with connection.cursor().copy("COPY dpb_log FROM STDIN") as copy:
            while rows := found.fetchmany(10_000):
                for row in rows:
                    copy.write_row(row)
        connection.execute("ANALYZE dpb_log")
    return f"{address}{'&' if '?' in address else '?'}table=dpb_log"


def main() -> None:
    """Print a line for each number of rows and each limit of rows of a user."""
    parser = argparse.ArgumentParser(description="Time and memory of the sums of a log.")
    parser.add_argument("--rows", type=int, action="append", help="number of rows; may be repeated")
    parser.add_argument("--memory", type=int, default=400, help="limit of the engine in MB")
    parser.add_argument("--postgres", help="address of a PostgreSQL database for the same rows")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        table, rows, most, memory = given.one
        print(json.dumps(one(table, int(rows), int(most), int(memory))))
        return
    print("| rows | k | engine | entries | CPU, s | wall, s | peak, MB |\n|---|---|---|---|---|---|---|")
    for rows in given.rows or [1_000_000, 10_000_000]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "log.parquet"
            made(path, rows)
            tables = {"DuckDB": str(path)}
            if given.postgres:
                tables["PostgreSQL"] = _in_postgres(given.postgres, path)
            for engine, table in tables.items():
                for most in (2, 1):
                    own = [table, str(rows), str(most), str(given.memory * 10**6)]
                    command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--one", *own]
                    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: S603
                    found = json.loads(done.stdout)
                    told = f"{found['cpu']:.1f} | {found['wall']:.1f} | {found['megabytes']:.0f}"
                    print(f"| {rows:,} | {most} | {engine} | {found['entries']:,} | {told} |", flush=True)


if __name__ == "__main__":
    main()
