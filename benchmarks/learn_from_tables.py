"""Time and memory of the sums of a log that `central.learn` needs: `python -m benchmarks.learn_from_tables`.

The table is made before the clock starts: text ids, two rows a user, four contexts, three arms, propensities,
as one Parquet file. Seconds of processor time of one thread, and the peak memory of a process that does one
line only. "plain SQL" is the query that a person writes by hand: the same cells, without the rules that read
rows, bounds or a limit of a user's rows. With `--evaluate` the sums are those of a private evaluation of one
policy of marginal tables, doubly robust. With `--features` they are those of smooth features of six numbers,
by two statements, for twenty arms drawn evenly. With `--loaded`, beside one of the two, a `LoggedTable`
computes them from rows that are loaded. With `--postgres ADDRESS` the same rows are in a table `dpb_log`
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
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.central.logged.engine import summed_by
from dpbandits.central.logged.evaluation import Evaluation
from dpbandits.central.logged.logged_table import LogColumns, LoggedTable, plan_of, tables_policy
from dpbandits.central.logged.people import people_menu
from dpbandits.central.logged.plan import SumsPlan
from dpbandits.central.logged.source_log import opened_log
from dpbandits.central.published_function import PublishedFunction
from dpbandits.privacy.definitions import JointDP
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.files import read_table_file
from dpbandits.tables.warehouse import source_of

SEED = 1_000_000
ARMS = ["mail", "call", "nothing"]
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
NUMBERS = Schema(**{f"x{i}": Range(0, 1) for i in range(6)})
MANY = [f"arm-{arm}" for arm in range(20)]
SMOOTH_ROWS = """
SELECT 'u-' || lpad(CAST(hash(i // 2) % 1000000007 AS VARCHAR), 10, '0') || CAST(i // 2 AS VARCHAR) AS person,
random() AS x0, random() AS x1, random() AS x2, random() AS x3, random() AS x4, random() AS x5,
'arm-' || CAST(CAST(floor(20 * random()) AS INTEGER) AS VARCHAR) AS offer, random() AS paid
FROM range({rows}) AS made(i)
"""


def made(path: Path, rows: int, statement: str) -> None:
    """Write the rows of a statement to a Parquet file."""
    import duckdb

    with duckdb.connect(config={"threads": 1, "memory_limit": "1GB"}) as database:
        database.execute(f"SELECT setseed({SEED / 2**31})")
        database.execute(f"COPY ({statement.format(rows=rows)}) TO '{path}' (FORMAT parquet)")


def one(table: str, rows: int, rows_per_user: int, memory: int) -> dict[str, float]:
    """Add up the tables of one release in this process."""
    columns = LogColumns(
        contexts=PEOPLE.names, action="offer", reward="paid", propensity="chance", user="person"
    )
    menu = people_menu(PEOPLE, arms=ARMS)
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


def learned(folder: Path) -> None:
    """Publish a policy of marginal tables, learned from 20,000 other rows, to a folder."""
    rng, rows = np.random.default_rng(SEED + 1), 20_000
    held = {
        "age": 18 + 72 * rng.random(rows),
        "income": 1000 * rng.random(rows),
        "paid": rng.integers(0, 2, rows),
    }
    held["region"] = rng.choice(["north", "south", "east", "west"], rows)
    held["plan"], held["offer"] = rng.choice(["a", "b", "c"], rows), rng.choice(ARMS, rows)
    log = LoggedTable.of_people(
        held,
        contexts=PEOPLE,
        arms=ARMS,
        action="offer",
        reward="paid",
        reward_range=(0, 1),
        release="marginals",
    )
    privacy = JointDP(epsilon=1.0, delta=1e-6, user_ids=False)
    log.publish(privacy, horizon=rows).function.save(folder)


def evaluated(table: str, rows_per_user: int, memory: int, policy: str, *, loaded: bool) -> dict[str, float]:
    """Add up the sums of a private evaluation of one policy in this process."""
    function, key = PublishedFunction.load(policy), bytes(32)
    privacy = JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=rows_per_user)
    terms: dict[str, Any] = {"policies": {"policy": function}, "privacy": privacy, "against": "mail"}
    roles: dict[str, Any] = {"action": "offer", "reward": "paid", "reward_range": (0, 1), "user": "person"}
    roles |= {"propensity": "chance"}
    began, wall = time.process_time(), time.perf_counter()
    if loaded:
        names = [*PEOPLE.names, "offer", "paid", "chance", "person"]
        kinds = {name: float if name in ("age", "income", "paid", "chance") else str for name in names}
        held = read_table_file(table, kinds, gaps=kinds)
        log = LoggedTable.of_people(held, contexts=PEOPLE, arms=ARMS, **roles)
        sums = Evaluation(log=log, **terms).unsafe_sums(key)
    elif function.menu is None:  # for type checkers
        raise SystemExit("no menu")
    else:
        told: dict[str, Any] = {"clip": False, "memory": memory, "threads": 1, "progress": False}
        with opened_log(table, function.menu, **roles, **told) as where:
            sums = Evaluation(log=where, **terms).unsafe_sums(key)
    return {
        "entries": len(sums),
        "cpu": time.process_time() - began,
        "wall": time.perf_counter() - wall,
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def smooth(table: str, rows: int, rows_per_user: int, memory: int, *, loaded: bool) -> dict[str, float]:
    """Add up the counts and the rewards of one release of features in this process."""
    roles: dict[str, Any] = {
        "action": "offer",
        "reward": "paid",
        "reward_range": (0.0, 1.0),
        "user": "person",
    }
    told: dict[str, Any] = {"contexts": NUMBERS, "arms": MANY, **roles, "release": "features"}
    privacy = JointDP(epsilon=1.0, delta=0.1 / rows, rounds_per_user=rows_per_user)
    names = [*NUMBERS.names, "offer", "paid", "person"]
    policy = LoggedTable.of_people({name: [None] for name in names}, **told).policy(privacy, horizon=rows)
    rules = replace(policy.unsafe_rules, menu=people_menu(NUMBERS, arms=MANY))
    plans = [SumsPlan.of_cells(rules, None), plan_of(policy)]
    began, wall = time.process_time(), time.perf_counter()
    if loaded:
        kinds = {name: str if name in ("offer", "person") else float for name in names}
        log = LoggedTable.of_people(read_table_file(table, kinds, gaps=kinds), **told)
        for plan in plans:
            log.unsafe_sums(privacy, horizon=rows, key=bytes(32), plan=plan)
    else:
        columns = LogColumns(contexts=NUMBERS.names, action="offer", reward="paid", user="person")
        with source_of(table, memory=memory, threads=1) as source:
            for plan in plans:
                summed_by(source, plan, rules, columns, clip=False, key=bytes(32))
    return {
        "entries": sum(plan.size for plan in plans),
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

    texts = {"person", "region", "plan", "offer"}
    with psycopg.connect(address, autocommit=True) as connection, duckdb.connect() as database:
        names = [name for name, *_ in database.execute(f"DESCRIBE FROM '{path}'").fetchall()]
        declared = ", ".join(f"{name} {'text' if name in texts else 'double precision'}" for name in names)
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
    parser.add_argument("--evaluate", action="store_true", help="sums of an evaluation")
    parser.add_argument("--features", action="store_true", help="sums of a release of features")
    parser.add_argument("--loaded", action="store_true", help="beside one of these: rows are loaded")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    parser.add_argument("--policy", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        table, rows, most, memory = given.one[0], *map(int, given.one[1:])
        if given.policy:
            print(json.dumps(evaluated(table, most, memory, given.policy, loaded=given.loaded)))
            return
        if given.features:
            print(json.dumps(smooth(table, rows, most, memory, loaded=given.loaded)))
            return
        print(json.dumps(one(table, rows, most, memory) if most else plain(table, memory)))
        return
    print("| rows | k | engine | entries | CPU, s | wall, s | peak, MB |\n|---|---|---|---|---|---|---|")
    for rows in given.rows or [1_000_000, 10_000_000]:
        with tempfile.TemporaryDirectory() as scratch:
            path = (given.folder or Path(scratch)) / f"{rows}{'-smooth' * given.features}.parquet"
            if not path.exists():
                made(path, rows, SMOOTH_ROWS if given.features else ROWS)
            engine, table, limits = "DuckDB", str(path), [*(given.k or [2, 1]), 0]
            if given.postgres:
                engine, table, limits = "PostgreSQL", _in_postgres(given.postgres, path), limits[:-1]
            others = []
            if given.evaluate:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    learned(Path(scratch) / "policy")
                others = ["--policy", str(Path(scratch) / "policy")]
            if given.evaluate or given.features:
                others += ["--features"] * given.features + ["--loaded"] * given.loaded
                what = "features" if given.features else "evaluate"
                engine, limits = f"{'rows loaded' if given.loaded else engine}, {what}", given.k or [2, 1]
            for most in limits:
                own = [table, str(rows), str(most), str(given.memory * 10**6)]
                command = [sys.executable, "-W", "ignore", "-m", __spec__.name, "--one", *own, *others]
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
