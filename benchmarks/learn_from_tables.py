"""Time and memory of the sums that `central.learn` needs: `python -m benchmarks.learn_from_tables`.

The table is made before the clock starts: text ids, two rows a user, four contexts, three arms, propensities,
as one Parquet file. Seconds of processor time of one thread, and the peak memory of a process that does one
line only. "plain SQL" is the query that a person writes by hand: the same cells, without the rules that read
rows, bounds or a limit of a user's rows. With `--postgres ADDRESS` the same rows are in a table `dpb_log`
there; the seconds that count are then wall time. Prints Markdown, and with `--out` replaces lines of a file
of results. The seed of the rows is 1,000,000.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

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


def plain(table: str, memory: int) -> dict[str, float]:
    """Add up cells as a query written by hand does."""
    import duckdb

    began, wall = time.process_time(), time.perf_counter()
    digits = "floor((age - 18) / 72 * 768) AS l0, floor(income / 1000 * 768) AS l1, region AS l2, plan AS l3"
    sets = ", ".join(f"(offer, l{i}, l{j})" for i, j in itertools.combinations(range(4), 2))
    folder = tempfile.mkdtemp(dir=Path(table).parent)
    options: dict[str, Any] = {"threads": 1, "memory_limit": f"{memory}B", "temp_directory": folder}
    with duckdb.connect(config=options) as database:
        rows = f"SELECT offer, paid / chance AS earned, {digits} FROM '{table}'"  # noqa: S608
        found = database.execute(
            f"SELECT offer, l0, l1, l2, l3, sum(earned) AS earned, count(*) AS counted FROM ({rows}) "  # noqa: S608
            f"GROUP BY GROUPING SETS ({sets})"
        ).fetchnumpy()
    return {
        "entries": len(found["counted"]),
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


def _noted(path: Path, line: dict[str, object]) -> None:
    """Put a line into a file of results, in place of one of the same run."""
    kept = json.loads(path.read_text()) if path.exists() else []
    kept = [one for one in kept if any(one[name] != line[name] for name in ("rows", "k", "engine"))]
    kept = sorted([*kept, line], key=lambda one: (one["rows"], one["engine"], -one["k"]))
    path.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")


def main() -> None:
    """Print a line for each number of rows, engine, and limit of rows of a user."""
    parser = argparse.ArgumentParser(description="Time and memory of the sums of a log.")
    parser.add_argument("--rows", type=int, action="append", help="number of rows; may be repeated")
    parser.add_argument("--memory", type=int, default=400, help="limit of the engine in MB")
    parser.add_argument("--k", type=int, action="append", help="rows of a user; may be repeated")
    parser.add_argument("--postgres", help="address of a PostgreSQL database, which alone is measured")
    parser.add_argument("--folder", type=Path, help="folder in which files of rows are kept")
    parser.add_argument("--out", type=Path, help="file of results")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        table, rows, most, memory = given.one[0], *map(int, given.one[1:])
        print(json.dumps(one(table, rows, most, memory) if most else plain(table, memory)))
        return
    print("| rows | k | engine | entries | CPU, s | wall, s | peak, MB |\n|---|---|---|---|---|---|---|")
    for rows in given.rows or [1_000_000, 10_000_000]:
        with tempfile.TemporaryDirectory() as scratch:
            path = (given.folder or Path(scratch)) / f"{rows}.parquet"
            if not path.exists():
                made(path, rows)
            engine, table, limits = "DuckDB", str(path), [*(given.k or [2, 1]), 0]
            if given.postgres:
                engine, table, limits = "PostgreSQL", _in_postgres(given.postgres, path), limits[:-1]
            for most in limits:
                own = [table, str(rows), str(most), str(given.memory * 10**6)]
                command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--one", *own]
                done = subprocess.run(command, check=True, stdout=subprocess.PIPE)  # noqa: S603
                found = json.loads(done.stdout)
                told = f"{found['cpu']:.1f} | {found['wall']:.1f} | {found['megabytes']:.0f}"
                name = engine if most else "plain SQL"
                print(f"| {rows:,} | {most} | {name} | {found['entries']:,} | {told} |", flush=True)
                if given.out:
                    about = {"rows": rows, "k": most, "engine": name, "limit_megabytes": given.memory}
                    _noted(given.out, about | found | {"load": os.getloadavg()[0]})


if __name__ == "__main__":
    main()
