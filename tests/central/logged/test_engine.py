"""A log's integer tables from an engine are those of NumPy, whatever the cells hold."""

import dataclasses

import duckdb
import numpy as np
import pandas as pd
import psycopg
import pyarrow as pa
import pytest

from dpbandits.central import ExploreThenCommit, ExploreTuning
from dpbandits.central.logged.engine import summed_by
from dpbandits.central.logged.logged_table import LogColumns, LoggedTable, plan_of
from dpbandits.central.logged.people import people_menu
from dpbandits.central.logged.plan import SumsPlan
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.privacy import JointDP
from dpbandits.tables import Actions, Categories, Cycle, DateRange, Ordered, Range, Schema
from dpbandits.tables.sql.ids import id_in
from dpbandits.tables.warehouse import source_of
from service import databases
from tables import engines
from tables.logs import OFFERS, PEOPLE, Lying, hostile, stored

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")

KEY = b"k" * 32
TWO = JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=2)


def log_of(held, **more):
    """The log as NumPy reads it, with ids by the rule of databases."""
    told = {"action": "offer", "reward": "paid", "reward_range": (0, 1), "propensity": "chance"}
    given = {"contexts": PEOPLE, "arms": OFFERS, "user": "person", "release": "marginals", **told} | more
    if given["user"] is not None:
        held = held.assign(person=[id_in(cell) for cell in held["person"]])
    return LoggedTable.of_people(held, **given)


def policy_for(promise, horizon, *, user_ids=True, bound=1.0, logged=None, **menu):
    privacy = JointDP(
        promise.epsilon, promise.delta, rounds_per_user=promise.rounds_per_user, user_ids=user_ids
    )
    return ExploreThenCommit(
        contexts=PEOPLE, reward_range=(0, 1), horizon=horizon, privacy=privacy,
        tuning=ExploreTuning(release="marginals", bound=bound, logged=logged), **menu or {"arms": OFFERS},
    )  # fmt: skip


def from_engine(source, policy, *, clip=False, **names):
    told = {"action": "offer", "reward": "paid", "propensity": "chance", "user": "person"} | names
    columns = LogColumns(contexts=PEOPLE.names, **told)
    plan = SumsPlan.of(policy.calibration.release, user_ids=policy.user_ids)
    return summed_by(source, plan, policy.unsafe_rules, columns, clip=clip, key=KEY)


@pytest.mark.parametrize("k", [1, 2, 40])
@pytest.mark.parametrize("clip", [False, True])
def test_duckdb_adds_up_hostile_rows_as_numpy_does(k, clip):
    held, promise = hostile(4000), JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=k)
    expected = log_of(held, clip=clip).unsafe_sums(promise, horizon=4000, key=KEY, bound=1.0)
    with source_of(held) as source:
        found = from_engine(source, policy_for(promise, 4000), clip=clip)
    np.testing.assert_array_equal(found, expected)
    assert found.any()


def test_columns_of_duckdb_that_compare_texts_without_case_are_read_as_numpy_reads_them(tmp_path):
    """Such a collation made two people of one, and read "NORTH" as "north"."""
    held = hostile(1500).assign(person=["aA"[i % 2] + str(i // 6) for i in range(1500)])
    held["region"] = np.where(np.arange(1500) % 3, held["region"], "NORTH")
    expected = log_of(held).unsafe_sums(TWO, horizon=1500, key=KEY, bound=1.0)
    with duckdb.connect(tmp_path / "shop.db") as database:
        names = ", ".join(f"{name} VARCHAR COLLATE NOCASE" for name in held)
        database.execute(f"CREATE TABLE log ({names})")
        database.register("given", pa.Table.from_pandas(held))
        database.execute("INSERT INTO log SELECT * FROM given")
    with source_of(f"duckdb:///{tmp_path / 'shop.db'}?table=log", threads=1) as source:
        np.testing.assert_array_equal(from_engine(source, policy_for(TWO, 1500)), expected)


@pytest.mark.parametrize("kind", databases.KINDS)
@pytest.mark.parametrize("clip", [False, True])
def test_postgresql_adds_up_hostile_rows_as_numpy_does(kind, clip):
    address, held = databases.fresh(kind), hostile(3000)
    stored(address, held)
    expected = log_of(held, clip=clip).unsafe_sums(TWO, horizon=3000, key=KEY, bound=1.0)
    with source_of(f"{address}&table=log", threads=1) as source:
        found = from_engine(source, policy_for(TWO, 3000), clip=clip)
        with pytest.raises(DataUnavailable) as error:
            source.query("SELECT CAST(person AS integer) FROM log")
    np.testing.assert_array_equal(found, expected)
    assert error.value.__cause__ is error.value.__context__ is None
    with source_of(f"{address}&table=other") as source, pytest.raises(DataUnavailable, match="no table"):
        source.columns()
    with pytest.raises(InvalidParameter, match="table=NAME"):
        source_of(address)
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("CREATE DOMAIN double AS text")
        connection.execute("ALTER TABLE log ALTER paid TYPE double")
    with (
        source_of(f"{address}&table=log") as source,
        pytest.raises(InvalidParameter, match="'paid' has the type defined as double"),
    ):
        from_engine(source, policy_for(TWO, 3000))


SMOOTH = [
    PEOPLE,
    Schema(
        day=DateRange("2024-01-01", "2024-12-31"),
        hour=Cycle(24, missing=3),
        region=Categories(["north", "none"]),
    ),
]


def smooth(rows):
    """A hostile log with dates and hours."""
    rng = np.random.default_rng(8)
    days = np.array([f"2024-{1 + i % 13:02}-{1 + i % 28:02}" for i in range(rows)], dtype=object)
    hours = np.round(30 * rng.random(rows), 2).astype(str).astype(object)
    return hostile(rows).assign(day=days, hour=np.where(rng.random(rows) < 0.2, "x", hours))


def smooth_sums(source, held, contexts, k=2, **more):
    """Return counts of contexts and capped rewards from an engine, and the same from NumPy."""
    promise = JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=k)
    log = log_of(held, contexts=contexts, release="features", **more)
    told = {"horizon": 4000, "bound": 0.6}
    policy = log.policy(promise, **told)
    rules = dataclasses.replace(policy.unsafe_rules, menu=people_menu(contexts, arms=OFFERS))
    plans, clip = (SumsPlan.of_cells(rules, None), plan_of(policy)), more.get("clip", False)
    assert 0 < min(plans[1].caps) < max(plans[1].caps) <= 2**20
    found = [summed_by(source, plan, rules, log.columns, clip=clip, key=KEY) for plan in plans]
    expected = [log.unsafe_sums(promise, key=KEY, plan=plan, **told) for plan in plans]
    assert all(one.any() for one in expected)
    return found, expected


@pytest.mark.parametrize("contexts", SMOOTH)
@pytest.mark.parametrize(("k", "more"), [(1, {}), (2, {"clip": True}), (40, {"propensity": None})])
def test_duckdb_adds_up_what_features_need_as_numpy_does(contexts, k, more):
    held = smooth(3000)
    with source_of(held) as source:
        for found, expected in zip(*smooth_sums(source, held, contexts, k, **more), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("contexts", SMOOTH)
@pytest.mark.parametrize("kind", databases.KINDS)
def test_postgresql_adds_up_what_features_need_as_numpy_does(kind, contexts):
    address, held = databases.fresh(kind), smooth(2000)
    stored(address, held)
    with source_of(f"{address}&table=log", threads=1) as source:
        for found, expected in zip(*smooth_sums(source, held, contexts), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", databases.KINDS)
def test_a_long_text_in_postgresql_is_one_that_cannot_be_read(kind):
    """Copies of one of 1 GB would exceed what PostgreSQL can hold, and the statement would fail."""
    address, held = databases.fresh(kind), hostile(300)
    long = held.assign(**{name: held[name].where(held.index % 50 > 0, "?" * 5000) for name in held})
    stored(address, long)
    with psycopg.connect(address, autocommit=True) as connection:
        for name in held:
            connection.execute(f"UPDATE log SET {name} = rpad('7', 1 << 20) WHERE {name} LIKE '??%'")  # noqa: S608
    expected = log_of(long).unsafe_sums(TWO, horizon=300, key=KEY, bound=1.0)
    with source_of(f"{address}&table=log", threads=1) as source:
        np.testing.assert_array_equal(from_engine(source, policy_for(TWO, 300)), expected)


old_names = pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # in Ibis


@old_names
@pytest.mark.parametrize("kind", ["duckdb", *databases.KINDS])
@pytest.mark.parametrize("k", [1, 2])
def test_an_ibis_table_is_added_up_by_its_backend_as_numpy_does(kind, k):
    ibis, held = pytest.importorskip("ibis"), hostile(2000)
    promise = JointDP(epsilon=1.0, delta=1e-6, rounds_per_user=k)
    if kind == "duckdb":
        backend = ibis.duckdb.connect()
        backend.con.register("given", pa.Table.from_pandas(held, preserve_index=False))
        backend.raw_sql("CREATE TABLE log AS FROM given")
    else:
        address = databases.fresh(kind)
        stored(address, held)
        backend = ibis.postgres.from_connection(psycopg.connect(address))
    table = backend.table("log").filter(ibis._.offer.fill_null("") != "fax")
    expected = log_of(held[held["offer"] != "fax"]).unsafe_sums(promise, horizon=2000, key=KEY, bound=1.0)
    with source_of(table) as source:
        np.testing.assert_array_equal(from_engine(source, policy_for(promise, 2000)), expected)
        with pytest.raises(DataUnavailable) as error:
            source.query("SELECT CAST(person AS integer) FROM log")
    if kind != "duckdb":  # a transaction of the caller stays open
        backend.con.rollback()
        backend.con.execute("CREATE TEMPORARY TABLE own (a integer)")
        with source_of(table) as source:
            from_engine(source, policy_for(promise, 2000))
        assert backend.con.execute("SELECT count(*) FROM own").fetchone() == (0,)
    backend.disconnect()
    assert error.value.__cause__ is error.value.__context__ is None
    assert expected.any()


@old_names
def test_ibis_tables_of_other_backends_or_without_one_and_limits_are_refused():
    ibis = pytest.importorskip("ibis")
    with pytest.raises(InvalidParameter, match="one connection"):
        source_of(ibis.table({"person": "string"}, name="log"))
    with pytest.raises(InvalidParameter, match="sqlite"):
        source_of(ibis.sqlite.connect().create_table("log", schema={"person": "string"}))
    table = ibis.duckdb.connect().create_table("log", schema={"a": "int64"})
    with pytest.raises(InvalidParameter, match="threads"):
        source_of(table, threads=1)
    with source_of(table.mutate(A=table.a)) as source, pytest.raises(InvalidData, match="case"):
        source.columns()


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_adds_up_a_hundred_thousand_hostile_rows_as_numpy_does():
    ibis, engine = pytest.importorskip("ibis"), engines.opened("spark")
    rows = 100_000
    held = pd.DataFrame({name: np.resize(own, rows) for name, own in hostile(9973).items()}, dtype=object)
    held["person"] = np.where(np.arange(rows) % 5 == 0, [str(i // 3) for i in range(rows)], held["person"])
    engine.fill({name: own.tolist() for name, own in held.items()}, dict.fromkeys(held, "text"))
    expected = log_of(held).unsafe_sums(TWO, horizon=rows, key=KEY, bound=1.0)
    with source_of(ibis.pyspark.connect(engine.connection).table("people")) as source:
        found = from_engine(source, policy_for(TWO, rows))
    engine.connection.close()
    np.testing.assert_array_equal(found, expected)
    assert found.any()


@pytest.mark.slow
def test_a_user_with_a_million_rows_has_k_of_them():
    rows = 1_000_000
    held = pd.DataFrame({name: np.resize(own, rows) for name, own in hostile(997).items()})
    held["person"] = np.where(np.arange(rows) % 9 == 0, [str(i // 50) for i in range(rows)], "busy")
    expected = log_of(held).unsafe_sums(TWO, horizon=rows, key=KEY, bound=1.0)
    with source_of(held) as source:
        np.testing.assert_array_equal(from_engine(source, policy_for(TWO, rows)), expected)


def test_without_users_every_row_counts():
    held, one = hostile(1000), JointDP(epsilon=1.0, delta=1e-6)
    expected = log_of(held, user=None).unsafe_sums(one, horizon=1000, key=KEY, bound=1.0)
    with source_of(held) as source:
        found = from_engine(source, policy_for(one, 1000, user_ids=False), user=None)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("kind", ["duckdb", *databases.KINDS])
def test_465_tables_of_thirty_columns_and_a_hundred_arms_fit_into_200_megabytes(kind):
    """A hash table for each of them, all at a time, needs several gigabytes, or minutes in PostgreSQL."""
    rng, names = np.random.default_rng(4), [f"x{number}" for number in range(30)]
    contexts, arms = Schema(**{name: Range(0, 1) for name in names}), list(range(100))
    rows = pd.DataFrame(rng.random((500, 30)), columns=names)
    rows["offer"], rows["paid"] = rng.integers(0, 100, 500), rng.integers(0, 2, 500)
    told = {"action": "offer", "reward": "paid", "reward_range": (0, 1), "release": "marginals"}
    one = JointDP(epsilon=1.0, delta=1e-7)
    log = LoggedTable.of_people(rows, contexts=contexts, arms=arms, **told)
    expected = log.unsafe_sums(one, horizon=10**6, key=KEY, bound=1.0)
    policy = ExploreThenCommit(
        contexts=contexts, arms=arms, reward_range=(0, 1), horizon=10**6,
        privacy=JointDP(epsilon=1.0, delta=1e-7, user_ids=False),
        tuning=ExploreTuning(release="marginals", bound=1.0),
    )  # fmt: skip
    columns = LogColumns(contexts=contexts.names, action="offer", reward="paid")
    plan = SumsPlan.of(policy.calibration.release, user_ids=False)
    where = rows
    if kind != "duckdb":
        where = f"{databases.fresh(kind)}&table=log"
        stored(where.removesuffix("&table=log"), rows)
    with source_of(where, memory=200 * 10**6, threads=2) as source:
        found = summed_by(source, plan, policy.unsafe_rules, columns, clip=False, key=KEY)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("logged", "weight"), [("densities", "density"), ("steps", None)])
def test_a_grid_of_actions_is_read_in_an_engine(logged, weight):
    rows, rng = 3000, np.random.default_rng(5)
    held = hostile(rows).rename(columns={"chance": "density"})
    held["price"] = np.where(rng.random(rows) < 0.2, held["age"], rng.integers(1, 6, rows).astype(str))
    held["size"] = rng.choice(["1", "2.0", "5", "3"], rows)
    actions = Actions(Schema(price=Range(1, 5, steps=5), size=Ordered([1, 2, 5])))
    told = {"density": "density"} if weight else {"propensity": "uniform"}
    log = log_of(held, arms=None, actions=actions, **{"action": None, "propensity": None} | told)
    expected = log.unsafe_sums(TWO, horizon=rows, key=KEY, bound=2.0)
    policy = policy_for(TWO, rows, bound=2.0, logged=logged, actions=actions)
    with source_of(held) as source:
        found = from_engine(source, policy, action=None, actions=("price", "size"), propensity=weight)
    np.testing.assert_array_equal(found, expected)
    assert found[: -len(found) // 2].any()


def test_a_table_without_a_column_or_with_a_nested_one_is_refused_by_its_public_names():
    held, policy = hostile(50), policy_for(TWO, 50)
    with source_of(held.drop(columns="paid")) as source, pytest.raises(InvalidData, match="paid"):
        from_engine(source, policy)
    nested = held.assign(age=[[1]] * 50)
    with source_of(nested) as source, pytest.raises(InvalidParameter, match="age"):
        from_engine(source, policy)


@pytest.mark.parametrize(
    "changed",
    [
        {"rewards": lambda sums: sums + 2**50},
        {"weights": lambda sums: sums + 1},
        {"place": lambda places: places * 0},
        {"place": lambda places: places + 10**9},
    ],
)
def test_impossible_sums_of_an_engine_are_refused(changed):
    with source_of(hostile(50)) as source, pytest.raises(DataUnavailable, match="impossible"):
        from_engine(Lying(source, **changed), policy_for(TWO, 50))
