"""Values of a log in an engine are computed from the integers of NumPy, whatever the cells hold, and once."""

from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpbandits as dpb
from dpbandits.budget import MemoryLedger
from dpbandits.central.logged.evaluation import Evaluation
from dpbandits.central.logged.source_log import opened_log
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.export.lookups import Lookups
from dpbandits.models.measures import CellMeasure, FiniteAxis, IntervalAxis
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.tables.menu import Menu
from dpbandits.tables.sql.ids import id_in
from dpbandits.tables.warehouse import DuckSource
from service import databases
from tables import engines
from tables.logs import OFFERS, PEOPLE, Lying, hostile, stored

pytestmark = pytest.mark.filterwarnings("ignore::dpbandits.central.logged.policy.NothingToLearn")

KEY = b"k" * 32
PEOPLE_MENU = Menu(contexts=PEOPLE, arms=OFFERS)
TOLD = {"user": "person", "clip": False, "memory": None, "threads": 1, "progress": False}
ROLES = {"action": "offer", "reward": "paid", "reward_range": (0, 1), "propensity": "chance"}


def log_of(held, people=PEOPLE, **more):
    """The log as NumPy reads it, with ids by the rule of databases."""
    given = {"contexts": people, "arms": OFFERS, "user": "person", **ROLES} | more
    if given["user"] is not None:
        held = held.assign(person=[id_in(cell) for cell in held["person"]])
    return dpb.central.LoggedTable.of_people(held, **given)


def learned(people=PEOPLE, epsilon=200.0, rows=4000):
    """A policy that gives every arm to some of the people."""
    rng = np.random.default_rng(5)
    held = {
        name: np.array([str(v) for v in column.values], dtype=object)[
            rng.integers(0, len(column.values), rows)
        ]
        if isinstance(column, dpb.Categories)
        else column.low + column.span * rng.random(rows)
        for name, column in people.columns.items()
        if hasattr(column, "span") or isinstance(column, dpb.Categories)
    }
    best = (held["income"] // 334).astype(int)
    given = rng.integers(0, 3, rows)
    held |= {"offer": np.array(OFFERS, dtype=object)[given], "paid": (best == given) * 1.0}
    log = dpb.central.LoggedTable.of_people(
        held,
        contexts=people,
        arms=OFFERS,
        action="offer",
        reward="paid",
        reward_range=(0, 1),
        release="marginals",
    )
    return log.publish(JointDP(epsilon, 1e-6), horizon=rows).function


@pytest.fixture(scope="module")
def effects():
    return learned()


def of_cells(guarantee):
    """A published table of expected rewards over 5 x 2 x 3 cells."""
    axes = (
        IntervalAxis(np.array([0, 0.1, 0.125, 0.5, 0.9, 1.0])),
        IntervalAxis(np.array([0, 0.5, 1.0])),
        FiniteAxis(np.arange(3.0)),
    )
    return dpb.central.PublishedCells(
        actions=CellMeasure.finite([0.0, 1.0, 2.0]),
        contexts=CellMeasure(axes, np.ones(30)),
        mean=np.random.default_rng(2).random((3, 30)) * 1.2 - 0.1,
        sd=np.ones((3, 30)),
        guarantee=guarantee,
        menu=Menu(contexts=PEOPLE, arms=OFFERS),
    )


def evaluation(policies, log, *, k=1, **more):
    given = {"against": "call", "noise": SimulatedNoise(1), "privacy": JointDP(1.0, 1e-6, rounds_per_user=k)}
    return Evaluation(policies=policies, log=log, **given | more)


def from_engine(source, policies, *, clip=False, user="person", propensity="chance", k=1, **more):
    menu = next(iter(policies.values())).menu
    roles = ROLES | {"user": user, "propensity": propensity}
    with opened_log(source, menu, clip=clip, memory=None, threads=1, progress=False, **roles) as log:
        return evaluation(policies, log, k=k, **more).unsafe_sums(KEY)


CASES = [
    (1, False, "doubly_robust", "effects"),
    (2, True, "doubly_robust", "both"),
    (3, False, "ips", "both"),
    (40, True, "doubly_robust", "cells"),
]


@pytest.mark.parametrize("kind", ["duckdb", *databases.KINDS])
@pytest.mark.parametrize(("k", "clip", "method", "which"), CASES)
def test_an_engine_adds_up_what_numpy_does(kind, k, clip, method, which, effects, tmp_path):
    held = hostile(1500)
    both = {"effects": effects, "cells": of_cells(effects.guarantee)}
    policies = both if which == "both" else {which: both[which]}
    expected = evaluation(policies, log_of(held, clip=clip), k=k, method=method).unsafe_sums(KEY)
    source = held
    if kind != "duckdb":
        address = databases.fresh(kind)
        stored(address, held)
        source = f"{address}&table=log"
    found = from_engine(source, policies, clip=clip, k=k, method=method)
    np.testing.assert_array_equal(found, expected)
    assert 60 < found[-1] < 1500
    assert np.abs(found[:-1]).min() > 0


def assert_same_scores(policy, log):
    """The arrays that are looked up give the policy's own predictions and decisions."""
    points = log.rows["contexts"]
    points = points[np.isfinite(points).all(axis=1)]
    own, looked_up = policy.means(points), Lookups.of(policy.rule())
    np.testing.assert_allclose(looked_up.means(points), own, atol=1e-11)
    chosen = looked_up.best_of(looked_up.means(points))
    np.testing.assert_array_equal(chosen, policy.best_of(own))
    assert len(set(chosen.tolist())) > 1


def test_arrays_have_the_scores_of_the_policy(effects):
    for policy in (effects, of_cells(effects.guarantee)):
        assert_same_scores(policy, log_of(hostile(3000)))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_spark_adds_up_what_numpy_does(effects):
    ibis, engine = pytest.importorskip("ibis"), engines.opened("spark")
    held, policies = hostile(5000), {"effects": effects, "cells": of_cells(effects.guarantee)}
    engine.fill({name: own.tolist() for name, own in held.items()}, dict.fromkeys(held, "text"))
    expected = evaluation(policies, log_of(held), k=2).unsafe_sums(KEY)
    table = ibis.pyspark.connect(engine.connection).table("people")
    with opened_log(table, PEOPLE_MENU, **ROLES, **(TOLD | {"threads": None})) as log:
        found = evaluation(policies, log, k=2).unsafe_sums(KEY)
    engine.connection.close()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:fetch_arrow_table:DeprecationWarning")  # in Ibis
def test_an_ibis_table_is_evaluated_by_its_own_connection(effects):
    ibis, held = pytest.importorskip("ibis"), hostile(1000)
    backend = ibis.duckdb.connect()
    backend.con.register("given", pa.Table.from_pandas(held, preserve_index=False))
    backend.raw_sql("CREATE TABLE log AS FROM given")
    table = backend.table("log").filter(ibis._.offer.fill_null("") != "fax")
    expected = evaluation({"effects": effects}, log_of(held[held["offer"] != "fax"]), k=2).unsafe_sums(KEY)
    with opened_log(table, PEOPLE_MENU, **ROLES, **(TOLD | {"threads": None})) as log:
        found = evaluation({"effects": effects}, log, k=2).unsafe_sums(KEY)
    backend.disconnect()
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("unit", "zone"), [("us", None), ("ns", "UTC"), ("ns", "Asia/Kolkata")])
def test_dates_periods_and_missing_values_are_read_as_numpy_reads_them(unit, zone):
    """Exported JSON has no such columns, but an engine reads them."""
    people = dpb.Schema(
        income=dpb.Range(0, 1000, missing=10),
        since=dpb.DateRange("2020-01-01", "2024-12-31"),
        hour=dpb.Cycle("day"),
        plan=dpb.Categories(["a", "b"], missing="b", unknown="a"),
    )
    rng, rows = np.random.default_rng(3), 1500
    moments = pd.Timestamp("2019-06-01") + pd.to_timedelta(rng.integers(0, 2200 * 24 * 60, rows), unit="min")
    income, offer = rng.random(rows) * 1100, rng.choice([*OFFERS, "fax"], rows)
    held = pd.DataFrame(
        {
            "income": [None if one > 1050 else one for one in income],
            "since": [str(one.date()) for one in moments],
            "hour": moments.as_unit(unit).tz_localize(zone),
            "plan": rng.choice(["a", "b", "c", None], rows),
            "offer": offer,
            # the best offer depends on the income, so that a policy has several whatever its noise
            "paid": 0.7 * ((income < 500) == (offer == OFFERS[0])) + 0.3 * rng.random(rows),
            "chance": 0.2 + rng.random(rows),
            "person": [f"u{i // 2}" for i in range(rows)],
        }
    )
    policy = log_of(held, people, release="marginals").publish(JointDP(200.0, 1e-6), horizon=rows).function
    expected = evaluation({"policy": policy}, log_of(held, people), k=2).unsafe_sums(KEY)
    np.testing.assert_array_equal(from_engine(held, {"policy": policy}, k=2), expected)
    assert_same_scores(policy, log_of(held, people))
    assert 100 < expected[-1] < rows / 2


def test_thirty_columns_and_a_hundred_arms_in_two_hundred_megabytes():
    names, rng = [f"x{number}" for number in range(30)], np.random.default_rng(4)
    people, arms = dpb.Schema(**{name: dpb.Range(0, 1) for name in names}), list(range(100))
    held = pd.DataFrame(rng.random((3000, 30)), columns=names)
    held["offer"], held["paid"] = rng.integers(0, 100, 3000), rng.integers(0, 2, 3000)
    log = dpb.central.LoggedTable.of_people(
        held,
        contexts=people,
        arms=arms,
        action="offer",
        reward="paid",
        reward_range=(0, 1),
        release="marginals",
    )
    policy = log.publish(JointDP(1.0, 1e-7, user_ids=False), horizon=3000).function
    given = {"privacy": JointDP(1.0, 1e-6), "against": 7}
    expected = evaluation({"policy": policy}, log, **given).unsafe_sums(KEY)
    roles = {"action": "offer", "reward": "paid", "reward_range": (0, 1), "propensity": None, "user": None}
    told = {"clip": False, "memory": 2 * 10**8, "threads": 1, "progress": False}
    with opened_log(held, policy.menu, **roles, **told) as opened:
        found = evaluation({"policy": policy}, opened, **given).unsafe_sums(KEY)
    np.testing.assert_array_equal(found, expected)


# -- once ---------------------------------------------------------------------------------------------

PROMISE = JointDP(1.0, 1e-6, rounds_per_user=2)


def plain(rows=1200):
    """A log without unreadable cells, whose ids and rewards are easy to find in a text."""
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 91, rows),
            "income": rng.random(rows) * 1000,
            "region": rng.choice(["north", "south"], rows),
            "offer": rng.choice(OFFERS, rows),
            "paid": rng.random(rows),
            "person": [f"secret{i // 2}" for i in range(rows)],
        }
    )


def values(policy, source, folder, **more):
    given = {"against": "call", "action": "offer", "reward": "paid", "user": "person"}
    return dpb.central.evaluate(policy, source, folder, PROMISE, **given | more)


def places(held, folder):
    """Addresses of the same rows: a file, a glob, a database and a frame."""
    held.to_parquet(folder / "log.parquet")
    (folder / "parts").mkdir()
    for part in range(2):
        held[part::2].to_csv(folder / "parts" / f"{part}.csv", index=False)
    with duckdb.connect(folder / "shop.db") as database:
        database.register("given", held)
        database.execute("CREATE TABLE log AS SELECT * FROM given")
    return [
        folder / "log.parquet",
        str(folder / "parts" / "*.csv"),
        f"duckdb:///{folder / 'shop.db'}?table=log",
        held,
    ]


def test_a_log_is_evaluated_wherever_it_is(effects, tmp_path):
    sharp = JointDP(1e4, rounds_per_user=2)
    given = {"against": "call", "action": "offer", "reward": "paid", "user": "person"}
    found = [
        dpb.central.evaluate(effects, source, tmp_path / f"out-{number}", sharp, **given)
        for number, source in enumerate(places(plain(), tmp_path))
    ]
    wanted = Evaluation(
        policies={"policy": effects},
        log=log_of(plain(), propensity=None),
        privacy=sharp,
        against="call",
    ).release()
    for one in found:
        assert one.moments.people == pytest.approx(600, abs=0.1)
        np.testing.assert_allclose(one.moments.sums, wanted.moments.sums, atol=0.05)


def test_a_failing_engine_and_a_repetition_charge_once_and_release_once(effects, tmp_path, monkeypatch):
    account = MemoryLedger().open_account("people", privacy=JointDP(1.1, 1e-5, rounds_per_user=2))
    whole, asked, paid = DuckSource.query, [], []

    def dropped(self, sql, **told):
        asked.append(sql)
        if len(asked) < 3:
            raise [DataUnavailable("the statement failed"), KeyboardInterrupt][len(asked) - 1]
        return whole(self, sql, **told)

    monkeypatch.setattr(DuckSource, "query", dropped)
    for _ in range(2):
        with pytest.raises((DataUnavailable, KeyboardInterrupt)):
            values(effects, plain(), tmp_path / "out", account=account)
        assert not (tmp_path / "out").exists()
        paid.append(account.ledger.balance("people"))
    first = values(effects, plain(), tmp_path / "out", account=account)
    again = values(effects, plain(), tmp_path / "out", account=account)
    assert first.release_id == again.release_id
    assert paid == [account.ledger.balance("people")] * 2
    assert len(asked) == 3
    assert len(set(asked)) == 1  # the run's key orders the rows of a person, also in a repetition
    for other in ({"method": "ips"}, {"clip": True}, {"reward_range": (0, 2)}):
        with pytest.raises(InvalidParameter, match="another table or other options"):
            values(effects, plain(), tmp_path / "out", account=account, **other)


def test_no_error_or_statement_repeats_a_cell_and_the_guarantee_names_the_engine(
    effects, tmp_path, monkeypatch
):
    held = plain()
    held.loc[:200, "paid"] = -7.1253753
    said, whole = [], DuckSource.query
    noted = lambda own, sql, **told: said.append(sql) or whole(own, sql, **told)  # noqa: E731
    monkeypatch.setattr(DuckSource, "query", noted)
    released = values(effects, held.astype(str), tmp_path / "out")
    with pytest.raises(InvalidData) as missing:
        values(effects, held.drop(columns="age"), tmp_path / "missing")
    for text in [*said, str(missing.value), released.guarantee.explain(), str(released)]:
        assert "secret0" not in text
        assert "7.1253753" not in text
    assert not (tmp_path / "missing.private").exists()
    names = {one.name: one for one in released.guarantee.assumptions}
    assert not names["engine"].enforced
    assert names["contribution bound"].enforced
    assert "engine" in released.guarantee.observers[0].who


@pytest.mark.parametrize(
    "changed",
    [
        {"sum0": lambda sums: sums + 2**40},
        {"square1": lambda sums: sums - 2**40},
        {"people": lambda people: people - 10**6},
        {"people": lambda people: people + 2**60},
        {"people": lambda people: np.repeat(people, 2)},
    ],
)
def test_impossible_sums_of_an_engine_are_refused(changed, effects):
    with opened_log(plain(50), PEOPLE_MENU, **ROLES | TOLD | {"propensity": None, "user": None}) as log:
        lying = evaluation({"policy": effects}, replace(log, source=Lying(log.source, **changed)))
        with pytest.raises(DataUnavailable, match="impossible"):
            lying.unsafe_sums(KEY)


def test_what_no_engine_can_evaluate_is_refused_in_words(effects, tmp_path):
    smooth = dpb.central.GPBandit(
        contexts=PEOPLE, arms=OFFERS, reward_range=(0, 1), horizon=500, privacy=JointDP(1.0, 1e-6),
        tuning=dpb.central.GPTuning(release="features"),
    ).publish(prior=True)  # fmt: skip
    with pytest.raises(InvalidParameter, match=r"no form in SQL.*kernel.*LoggedTable.of_people"):
        values(smooth, plain(), tmp_path / "out")
    with pytest.raises(InvalidParameter, match="name the columns of the log"):
        values(effects, plain(), tmp_path / "out", action=None)
    with pytest.raises(InvalidParameter, match="has its columns"):
        values(effects, log_of(plain(), propensity=None), tmp_path / "out")
    with pytest.raises(InvalidParameter, match="at least one"):
        values({}, plain(), tmp_path / "out")
    with pytest.raises(InvalidData, match="lacks"):
        values(effects, plain(), tmp_path / "out", propensity="chance")
    assert list(tmp_path.iterdir()) == []
    with opened_log(plain(50), PEOPLE_MENU, **ROLES | TOLD | {"propensity": None}) as log:
        many, postgres = {str(i): effects for i in range(90)}, Lying(log.source)
        postgres.dialect = "postgres"
        evaluation(many, log)
        with pytest.raises(InvalidParameter, match="PostgreSQL has too few columns"):
            evaluation(many, replace(log, source=postgres))
