"""Published policies as SQL: a database decides for every row of a table, without this library.

`to_sql` writes one SELECT statement from the text of `to_decisions()`. Layers of subqueries turn each cell
into a text, a number, a level and scores. A term of the policy, such as the joint effect of two columns, is a
constant array that is looked up by level. The statement holds only what the published policy holds.

Cells are read by the expressions of `dpbandits.tables.sql`, which no cell makes fail.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpbandits._calls import worded
from dpbandits._checks import one_of
from dpbandits._reading import reading
from dpbandits._typing import FloatArray, IntArray
from dpbandits.errors import InvalidParameter
from dpbandits.export.decisions import read
from dpbandits.export.lookups import Lookups
from dpbandits.models.ties import TIE
from dpbandits.tables.columns import COLUMNS
from dpbandits.tables.sql.cells import Reading, SqlCell, layers_of
from dpbandits.tables.sql.dialects import ENGINES, Dialect, SqlEngine, double, layered
from dpbandits.tables.sql.levels import SqlLevels

__all__ = ["Dialect", "scored", "to_sql"]


@worded
def to_sql(
    text: str,
    dialect: Dialect,
    *,
    table: str = "people",
    decision: str = "decision",
    fallback: Any = None,
) -> str:
    """Return a SELECT statement that gives every row of a table the arm that `recommend` gives its context.

    The statement returns all columns of the table and the arm. Columns that the policy does not use may have
    any name that does not begin with `dpb_`, and that the database tells apart from the policy's: DuckDB and
    Spark ignore case.

    Args:
        text: Result of `to_decisions()` of a function of contexts and arms.
        dialect: "duckdb", "postgres" for PostgreSQL 15 or newer with texts in UTF-8, or "spark" for Spark
            3.5 or newer.
        table: Name of the table or view with a column for every column of the policy.
        decision: Name of the column of arms in the result.
        fallback: Arm of a person whose context cannot be read. The default is NULL.

    Raises:
        CorruptState: The text is no exported policy.
        InvalidParameter: The policy chooses numbers, its scores are not sums of effects or constant on cells,
            it has more than 2^21 scores, arms are of several types, or a category is spelled like a
            date. The database takes two names for the same.

    Privacy:
        The statement is computed from the published policy and the names alone.
    """
    engine = ENGINES[one_of(dialect, tuple(ENGINES), name="dialect")]
    source, into = engine.name(table), engine.name(decision)
    policy = read(text)
    rule, arms = policy["rule"], policy["arms"]
    if rule["type"] not in ("effects", "cells") or "value" in policy:
        raise InvalidParameter(
            "to_sql: expected a policy with arms, whose scores are sums of effects or constant on cells: "
            "decide by its JSON"
        )
    *labels, otherwise = _labels(engine, arms, fallback)
    with reading("a policy with columns by name"):
        told = zip(policy["columns"], rule["edges"], strict=True)
        columns = {
            f"dpb_l{place}": _column(engine, place, column, edges)
            for place, (column, edges) in enumerate(told)
        }
    names = [decision, *(column["name"] for column in policy["columns"])]
    if len(set(map(engine.compared, names))) < len(names):
        raise InvalidParameter(
            "to_sql: the database takes two of the policy's columns, or one of them and decision, for "
            "the same: DuckDB and Spark ignore case, and PostgreSQL reads the first 63 bytes of a name. "
            "Rename one"
        )
    layers = layers_of(columns)
    if rule["type"] == "cells":
        best = np.argmax(np.array(rule["scores"]), axis=1).reshape([len(own) + 1 for own in rule["edges"]])
        layers.append([f"{_entry(engine, 'dpb_', range(best.ndim), best)} AS dpb_arm"])
        chosen = [f"dpb_arm = {arm}" for arm in range(len(arms))]
    else:
        looked_up, chosen = scored(engine, Lookups.of(rule), "dpb_")
        looked_up[0].append(f"{' + '.join(columns)} AS dpb_known")  # NULL if a cell cannot be read
        layers += looked_up
        chosen = [f"dpb_known IS NOT NULL AND {one}" for one in chosen]
    found = layered(source, layers, selected=f"{engine.packed} AS dpb_row")
    cases = " ".join(f"WHEN {one} THEN {label}" for one, label in zip(chosen, labels, strict=True))
    arm = f"CASE {cases} ELSE {otherwise} END AS {into}"
    return f"SELECT {engine.row}, {arm}\nFROM (\n{found}\n) AS dpb_policy\n"


def _column(engine: SqlEngine, place: int, told: dict[str, Any], edges: list[float]) -> Reading:
    """Read a column of an exported policy, whose levels 1, 2, ... begin at the coordinates `edges`."""
    told = dict(told)
    name, coded = told.pop("name"), told.pop("coded", False)
    levels = SqlLevels.of(COLUMNS.read(told), edges, name, coded=coded)
    return levels.reading(SqlCell(engine, name, str(place)))


def _labels(engine: SqlEngine, arms: Sequence[Any], fallback: Any) -> list[str]:
    if len({float if type(arm) is int else type(arm) for arm in arms}) != 1:
        raise InvalidParameter("to_sql: arms are of several types, and a column of SQL has one: rename them")
    if fallback is not None and fallback not in arms:
        raise InvalidParameter("fallback: expected one of the arms, or None")
    whole = all(isinstance(arm, int) for arm in arms)

    def literal(arm: Any) -> str:
        if isinstance(arm, str):
            return engine.literal(arm)
        return str(arm).upper() if whole else f"CAST({arm!r} AS {engine.double})"

    listed = [literal(arm) for arm in arms]
    return [*listed, "NULL" if fallback is None else listed[arms.index(fallback)]]


def _entry(engine: SqlEngine, prefix: str, columns: Sequence[int], table: FloatArray | IntArray) -> str:
    """Return the expression of a table's entry at the levels of these columns, one axis each."""
    index = f"{prefix}l{columns[0]}"
    for column, size in zip(columns[1:], table.shape[1:], strict=True):
        index = f"({index}) * {size} + {prefix}l{column}"
    kind = "integer" if table.dtype.kind == "i" else engine.double
    return engine.entry.format(engine.array.format(",".join(map(repr, table.ravel().tolist())), kind), index)


def scored(engine: SqlEngine, policy: Lookups, prefix: str) -> tuple[list[list[str]], list[str]]:
    """Return layers with the scores of the arms, and the conditions that an arm ties with the best one.

    The first arm whose condition holds is the one that `Lookups.best_of` returns.

    Args:
        engine: Dialect.
        policy: Arrays.
        prefix: First letters of all names. Levels are `{prefix}l0`, ..., and scores become `{prefix}s0`, ...
    """
    scores, n_arms = [], next(iter(policy.tables.values())).shape[-1]
    for arm in range(n_arms):
        parts = [double(policy.middle)]
        for group, table in policy.tables.items():
            own = table[..., arm]
            parts.append(_entry(engine, prefix, group, own) if group else f"({double(float(own))})")
        scores.append(" + ".join(parts))
    names, best = [f"{prefix}s{arm}" for arm in range(n_arms)], f"{prefix}best"
    ties = [f"{best} - {double(TIE * policy.unit)}"]
    ties += [f"{best} * {double(factor)}" for factor in (1.0 - TIE, 1.0 + TIE)]
    layers = [
        [f"{score} AS {name}" for score, name in zip(scores, names, strict=True)],
        [f"greatest({', '.join(names)}) AS {best}"],
        [f"least({', '.join(ties)}) AS {prefix}least"],
    ]
    return layers, [f"{name} >= {prefix}least" for name in names]
