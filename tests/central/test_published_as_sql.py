"""A database decides by the statement of `to_sql` as the library does, whatever a cell holds."""

import json
import math
from functools import cache

import numpy as np
import pytest
from typer.testing import CliRunner

import dpbandits as dpb
from dpbandits._cells import as_objects
from dpbandits.cli.main import app
from dpbandits.errors import InvalidParameter
from dpbandits.export import to_sql
from dpbandits.models.measures import CellMeasure, FiniteAxis, IntervalAxis
from dpbandits.models.ties import TIE
from dpbandits.tables.menu import Menu
from dpbandits.tables.sql.dialects import ENGINES
from tables.engines import HOSTILE, KINDS, opened

pytestmark = pytest.mark.numerics

PEOPLE = dpb.Schema(
    age=dpb.Range(18, 90, clip=True),
    share=dpb.Range(-0.3, 0.7, missing=0.1),
    zero=dpb.Range(0, 1e-20),
    region=dpb.Categories(["north", "south", "o'west", "none"]),
    visits=dpb.Categories([1, 2, 30], missing=2, unknown=30),
    **{'pl"an': dpb.Categories(["a", "7.5", "NA", "Größe"], unknown="a")},
)
FEW = dpb.Schema(age=dpb.Range(18, 90, missing=40), region=dpb.Categories(["north", "south", "west"]))
ARMS = ["mail", "it's", "nothing"]


@cache
def learned():
    """A published policy that has learned different arms from 1,500 people whose cells are plain."""
    policy = dpb.central.GPBandit(
        contexts=PEOPLE,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=2_000,
        privacy=dpb.JointDP(epsilon=200, delta=1e-6),
        noise=dpb.SimulatedNoise(1),
        seed=1,
    )
    people = plain(1_500)
    chosen = policy.ask_batch(people, users=range(1_500))
    signs = sum(
        column.points(as_objects(people[name])) > (0.4 if isinstance(column, dpb.Range) else 0.5)
        for name, column in PEOPLE.columns.items()
    )
    policy.tell_batch(chosen.ids, (chosen.indices == signs % len(ARMS)).astype(float))
    return policy.publish()


def cells():
    """A published table of expected rewards over 5 x 3 cells of two columns."""
    axes = (IntervalAxis(np.array([0, 0.1, 0.125, 0.5, 0.9, 1.0])), FiniteAxis(np.arange(3.0)))
    return dpb.central.PublishedCells(
        actions=CellMeasure.finite([0.0, 0.5, 1.0]),
        contexts=CellMeasure(axes, np.ones(15)),
        mean=np.random.default_rng(2).random((3, 15)),
        sd=np.ones((3, 15)),
        guarantee=learned().guarantee,
        menu=Menu(contexts=FEW, arms=ARMS),
    )


PUBLISHED = {"effects": learned, "cells": cells}


def plain(count, schema=PEOPLE, seed=0):
    """Columns of readable cells."""
    rng = np.random.default_rng(seed)
    found = {}
    for name, column in schema.columns.items():
        if isinstance(column, dpb.Range):
            shares = np.where(rng.random(count) < 0.3, rng.integers(0, 25, count) / 24, rng.random(count))
            found[name] = np.clip(column.low + shares * column.span, column.low, column.high).tolist()
        else:
            found[name] = [column.values[place] for place in rng.integers(0, len(column.values), count)]
    return found


def hostile(count, schema=PEOPLE, seed=0):
    """Columns of texts: every hostile cell in every column once, then random rows with one or with many."""
    rng = np.random.default_rng(seed)
    cells = [None, *HOSTILE]
    table = {name: [str(cell) for cell in own] for name, own in plain(count, schema, seed).items()}
    names = list(table)
    for row in range(count):
        own, place = divmod(row, len(cells))
        if own < len(names):
            table[names[own]][row] = cells[place]
        elif rng.random() < 0.5:
            for name in names if rng.random() < 0.1 else [rng.choice(names)]:
                table[name][row] = cells[rng.integers(len(cells))]
    return table


@pytest.fixture(scope="module", params=KINDS)
def engine(request):
    found = opened(request.param)
    yield found
    found.connection.close()


def decided(engine, function, table, types=None, read="decision", **options):
    """Decisions of a statement, in the order of the rows. `function` is published, or its text."""
    text = function if isinstance(function, str) else function.to_decisions()
    kinds = dict.fromkeys(table, "text") | (types or {})
    engine.fill(table, kinds)
    statement = to_sql(text, engine.dialect, **options)
    names = [ENGINES[engine.dialect].name(name) for name in ("row", read)]
    found = engine.rows(f"SELECT {', '.join(names)} FROM ({statement}) AS found")  # noqa: S608
    return [arm for _, arm in sorted(found, key=lambda row: row[0])]


def stored(engine, table):
    """The table without null characters where they cannot be stored."""
    return {name: engine.stored(own) for name, own in table.items()}


@pytest.mark.parametrize("rule", PUBLISHED)
@pytest.mark.parametrize("count", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_database_decides_as_the_library_whatever_a_cell_holds(engine, rule, count):
    function = PUBLISHED[rule]()
    table = stored(engine, hostile(count, function.menu.contexts))
    wanted = list(function.recommend_batch(table))
    assert set(wanted) == {*ARMS, None}
    assert decided(engine, function, table) == wanted
    with_fallback = [ARMS[1] if arm is None else arm for arm in wanted]
    assert decided(engine, function, table, fallback=ARMS[1]) == with_fallback


def test_columns_of_numbers_truth_values_and_dates_are_read_as_their_values(engine):
    function, rows = learned(), 500
    table = plain(rows)
    rng = np.random.default_rng(5)
    table["age"] = [None if rng.random() < 0.1 else round(age, 2) for age in table["age"]]
    table["share"] = [
        (math.nan, math.inf, -math.inf, share)[min(3, rng.integers(9))] for share in table["share"]
    ]
    table["visits"] = [bool(visits > 1) for visits in table["visits"]]
    types = {
        "age": "numeric(9, 2)",
        "share": "double precision",
        "zero": "double precision",
        "visits": "boolean",
    }
    wanted = list(function.recommend_batch(table))
    assert set(wanted) == {*ARMS, None}
    assert decided(engine, function, table, types) == wanted
    table["age"] = ["2024-05-31"] * rows
    assert decided(engine, function, table, types | {"age": "date"}, fallback="mail") == ["mail"] * rows


def test_the_first_of_tied_arms_is_chosen_as_in_the_library(engine):
    policy = json.loads(learned().to_decisions())
    weights = policy["rule"]["mean"][0]
    table, count = plain(300), 300

    def with_constants(*added):
        policy["rule"]["mean"] = [[weights[0] + one, *weights[1:]] for one in added]
        return json.dumps(policy)

    assert decided(engine, with_constants(0.0, TIE / 4, -1e-9), table) == [ARMS[0]] * count
    assert decided(engine, with_constants(0.0, 1e-9, 1e-9 + TIE / 4), table) == [ARMS[1]] * count


@pytest.mark.timeout(60)  # such a plan may take hours
def test_a_plan_repeats_no_expression(engine):
    """A plan that repeats the layers of the statement grows beyond memory with 30 columns and 100 arms."""
    statement = learned().to_sql(engine.dialect)
    decided(engine, learned(), plain(10))
    plan = engine.plan(statement)
    assert len(str(plan)) < 2 * len(statement)


def test_names_and_labels_are_quoted_and_other_columns_are_kept(engine):
    policy, label = json.loads(cells().to_decisions()), "it''s; DROP TABLE people \\"
    policy["arms"] = ["mail", label, "nothing"]
    policy["columns"][1]["name"] = 're"gion'
    table = {"age": [20, 80, 80], 're"gion': ["north", "south", "mars"], "Other column": ["x", None, "'"]}
    found = decided(engine, json.dumps(policy), table, decision='deci"--', read='deci"--')
    assert found[2] is None
    assert {*found[:2]} <= {"mail", label, "nothing"}
    other, row = map(ENGINES[engine.dialect].name, ("Other column", "row"))
    kept = engine.rows(f"SELECT {other} FROM people ORDER BY {row}")  # noqa: S608
    assert [cell for (cell,) in kept] == ["x", None, "'"]
    statement = to_sql(json.dumps(policy), engine.dialect, decision='deci"--')
    assert engine.columns(statement) == ["row", *table, 'deci"--']


def test_the_command_prints_the_statement(tmp_path):
    learned().save(tmp_path / "published")
    words = ["--dialect", "postgres", "--table", "visitors", "--fallback", "mail"]
    done = CliRunner().invoke(app, ["export", "sql", str(tmp_path / "published"), *words])
    assert done.stdout == learned().to_sql("postgres", table="visitors", fallback="mail")


@pytest.mark.parametrize("arms", [[1, 2, 3], [0.5, 2, 7], [True, False]])
def test_arms_keep_their_type(engine, arms):
    policy = json.loads(cells().to_decisions())
    policy["arms"] = arms
    policy["rule"]["scores"] = [row[: len(arms)] for row in policy["rule"]["scores"]]
    found = decided(engine, json.dumps(policy), plain(50, FEW), fallback=arms[0])
    assert set(map(type, found)) == {float if 0.5 in arms else type(arms[0])}


@pytest.mark.parametrize(
    ("names", "dialect"), [(("Age", "age"), "duckdb"), (("x" * 63 + "a", "x" * 63 + "b"), "postgres")]
)
def test_names_that_a_database_takes_for_the_same_are_refused(names, dialect):
    """DuckDB would read the first of both columns twice."""
    two = dpb.Schema(**dict.fromkeys(names, dpb.Range(0, 1)))
    policy = dpb.central.GPBandit(
        contexts=two, arms=ARMS, reward_range=(0, 1), horizon=100, privacy=dpb.JointDP(1, 1e-6)
    )
    other = {"duckdb": "postgres", "postgres": "duckdb"}[dialect]
    assert policy.publish().to_sql(other)
    with pytest.raises(InvalidParameter, match=r"for the same.* Rename one"):
        policy.publish().to_sql(dialect)
    with pytest.raises(InvalidParameter, match=r"one of them and decision, for the same"):
        policy.publish().to_sql(other, decision=names[0])


def test_what_has_no_such_statement_is_refused():
    function = learned()
    policy = json.loads(function.to_decisions())
    with pytest.raises(InvalidParameter, match="dialect: expected one of 'duckdb', 'postgres'"):
        function.to_sql("oracle")
    with pytest.raises(InvalidParameter, match="fallback"):
        function.to_sql("duckdb", fallback="fax")
    with pytest.raises(InvalidParameter, match="null characters"):
        function.to_sql("duckdb", table="a\0")
    for arms in (["mail", 1, 2], [True, 2, 3]):
        with pytest.raises(InvalidParameter, match="several types"):
            to_sql(json.dumps(policy | {"arms": arms}), "duckdb")
    dates = [{"name": "day", "type": "Categories", "values": ["2024-05-31", "x"], "coded": True}]
    rule = {"type": "cells", "edges": [[1]], "scores": [[0, 1, 2], [2, 1, 0]]}
    with pytest.raises(InvalidParameter, match="is a date"):
        to_sql(json.dumps(policy | {"columns": dates, "rule": rule}), "duckdb")
    unnamed = [{"low": 0, "high": 1}]
    with pytest.raises(InvalidParameter, match="columns by name"):
        to_sql(json.dumps(policy | {"columns": unnamed, "rule": rule | {"edges": [[0.5]]}}), "duckdb")
    features = dpb.central.GPBandit(
        contexts=FEW,
        arms=ARMS,
        reward_range=(0, 1),
        horizon=500,
        privacy=dpb.JointDP(epsilon=1, delta=1e-6),
        tuning=dpb.central.GPTuning(release="features"),
    )
    with pytest.raises(InvalidParameter, match="sums of effects or constant on cells"):
        features.publish(prior=True).to_sql("duckdb")
