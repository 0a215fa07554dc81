"""Sums of a private evaluation, added up by an engine where the log is.

One SELECT statement reads rows by the rules of `dpbandits.tables.sql`, looks up the policies' scores as
`published.to_sql` does, and computes the integers of `dpbandits.central.logged.terms`, which has the
derivation. It returns one row: for each of the J numbers the sums of q and of floor(a q^2 / U) over persons,
and the number of persons. Nothing else leaves the engine. No row makes the statement fail.
"""

from typing import TYPE_CHECKING

import numpy as np

from dpbandits._typing import IntArray
from dpbandits.central.logged.engine import (
    WORDS,
    Cells,
    counted_rows,
    known_cells,
    packing,
    table_cells,
    unpacking,
)
from dpbandits.central.logged.terms import HALF, LEAST, STEPS, TermRules, bounds_of
from dpbandits.errors import DataUnavailable, InvalidParameter
from dpbandits.export.lookups import Lookups
from dpbandits.export.sql import scored
from dpbandits.tables.dates import Cycle
from dpbandits.tables.sql.cells import Reading, layers_of
from dpbandits.tables.sql.dialects import ENGINES, double, layered
from dpbandits.tables.sql.levels import SqlLevels

if TYPE_CHECKING:
    from dpbandits.central.logged.source_log import SourceLog

__all__ = ["moments_by", "moments_statement"]

_MOST_COLUMNS = 1600
"""Number of columns that a subquery may have in PostgreSQL, whose limit is 1,664."""

_MOST_PEOPLE = 2**42
"""Number of persons of whom int64 holds the sums, and noise on them."""


def moments_by(log: "SourceLog", rules: TermRules, *, square_weight: int, key: bytes) -> IntArray:
    """Return the sums of q (J,), those of squares (J,), and the number of persons, as one array (2J + 1,).

    Args:
        log: Table with the rows, and the roles of its columns.
        rules: Rules that turn rows into integers.
        square_weight: Weight a of squares; see `dpbandits.privacy.moments`.
        key: Secret by which the rows of a person that count are chosen.

    Raises:
        InvalidData: The table lacks a column.
        InvalidParameter: A column has a type, or a description, that is not read in an engine.
        DataUnavailable: The engine failed, or returned impossible sums.
    """
    text = moments_statement(log, rules, square_weight=square_weight, key=key)
    found = log.source.query(text, told="evaluating" if log.progress else None)
    numbers = rules.numbers
    names = [*(f"sum{j}" for j in range(numbers)), *(f"square{j}" for j in range(numbers)), "people"]
    if set(found) != set(names) or any(len(column) != 1 for column in found.values()):
        raise DataUnavailable("the engine returned impossible sums: nothing was released")
    vector = np.array([found[name][0] for name in names])
    sums, squares, people = vector[:numbers], vector[numbers:-1], vector[-1]
    whole = 0 <= people <= _MOST_PEOPLE and (np.abs(sums) <= HALF * people).all()
    if not whole or not ((squares >= 0) & (squares <= square_weight * HALF // 2 * people)).all():
        raise DataUnavailable("the engine returned impossible sums: nothing was released")
    return vector


def moments_statement(log: "SourceLog", rules: TermRules, *, square_weight: int, key: bytes) -> str:
    """Return the statement of `moments_by`. The arguments and errors are the same."""
    source, columns = log.source, log.columns
    engine, cell = ENGINES[source.dialect], table_cells(source, columns)
    menu, span = rules.menu, rules.reward_range
    readings = {
        "dpb_arm": SqlLevels.of_arms(menu.arms, str(columns.action)).reading(cell(str(columns.action), "a"))
    }
    readings |= known_cells(columns, (span.low, span.high), cell)
    layers: list[list[str]] = [[], [], []]
    chosen = [str(rules.against)]
    known = ["dpb_arm"]
    for place, policy in enumerate(rules.policies):
        if not isinstance(policy, Lookups):  # `Evaluation` has refused it; for type checkers
            raise InvalidParameter("policies: expected policies with a form in SQL")
        prefix = f"dpb_p{place}"
        levels = _levels(rules, policy, prefix, cell)
        readings |= levels
        known += levels if place == 0 else ()
        own, best = scored(engine, policy, prefix)
        for layer, more in zip(layers, own, strict=True):
            layer += more
        cases = " ".join(f"WHEN {one} THEN {arm}" for arm, one in enumerate(best))
        chosen.append(f"CASE {cases} END")
    low, high = double(span.low), double(span.high)
    inside = "dpb_reward IS NOT NULL" if log.clip else f"dpb_reward >= {low} AND dpb_reward <= {high}"
    marks = [f"({' + '.join(known)}) IS NOT NULL", inside]  # a sum is NULL if one of its parts is
    most = rules.largest_weight
    if columns.propensity is None:
        weight = double(min(1.0 / (1.0 / menu.n_arms), most))
    else:
        marks.append("dpb_chance > 0e0 AND dpb_chance <= 1e0")
        # Below 1/(2 M) the quotient is above M, and may overflow. Above 1 it may be too small to multiply.
        weight = (
            f"CASE WHEN dpb_chance > {double(0.5 / most)} AND dpb_chance <= 1e0 "
            f"THEN least(1e0 / dpb_chance, {double(most)}) ELSE {double(most)} END"
        )
    layers[0] += [
        f"CASE WHEN {' AND '.join(marks)} THEN 1 ELSE 0 END AS dpb_read",
        f"{weight} AS dpb_weight",
        f"{_share(rules, f'least(greatest(dpb_reward, {low}), {high})')} AS dpb_scaled",
    ]
    layers.append([f"{one} AS dpb_c{i}" for i, one in enumerate(chosen)])
    layers += _terms(rules, WORDS[source.dialect].rounded)
    layers = layers_of(readings) + layers
    if source.dialect == "postgres" and sum(map(len, layers)) > _MOST_COLUMNS:
        raise InvalidParameter(
            "policies: PostgreSQL has too few columns for all scores: evaluate fewer policies at a time, or "
            "read files of the log by DuckDB"
        )
    read = layered(source.relation, layers)
    names = [f"dpb_r{j}" for j in range(rules.numbers)]
    packed = packing([*(f"{name} + {HALF}" for name in names), "1"], [HALF] * len(names) + [0], rules.radices)
    several = rules.rows_per_user is not None and rules.rows_per_user > 1
    held, rows = counted_rows(engine, read, packed, rules.rows_per_user, key, ids=several)
    digits = unpacking(engine, [*names, "dpb_read"], rules.radices, [HALF] * len(names) + [0])
    over = WORDS[source.dialect].over
    if several:
        totals = ", ".join(f"CAST(sum({name}) AS bigint) AS {name}" for name in names)
        # An integer quotient of numbers of at least 0: T/n + 1/2 + U/2, rounded down.
        means = ", ".join(
            f"{over.format(f'(2 * ({name} + dpb_n * {HALF}) + dpb_n)', '(2 * dpb_n)')} - {HALF} AS {name}"
            for name in names
        )
        people = (
            f"SELECT {means}\nFROM (SELECT dpb_id, CAST(count(*) AS bigint) AS dpb_n, {totals}\n"
            f"FROM (SELECT dpb_id, {digits}\nFROM {rows} AS dpb_kept) AS dpb_unpacked\n"
            f"WHERE dpb_read = 1 GROUP BY dpb_id) AS dpb_summed"
        )
    else:
        people = (
            f"SELECT {', '.join(names)}\nFROM (SELECT {digits}\nFROM {rows} AS dpb_kept) AS dpb_unpacked\n"
            f"WHERE dpb_read = 1"
        )
    square = [over.format(f"({square_weight} * {name} * {name})", STEPS) for name in names]
    sums = [f"CAST(coalesce(sum({name}), 0) AS bigint) AS sum{j}" for j, name in enumerate(names)]
    squares = [f"CAST(coalesce(sum({one}), 0) AS bigint) AS square{j}" for j, one in enumerate(square)]
    listed = ", ".join([*sums, *squares, "CAST(count(*) AS bigint) AS people"])
    return f"{held}SELECT {listed}\nFROM (\n{people}\n) AS dpb_persons"


def _levels(rules: TermRules, policy: Lookups, prefix: str, cell: Cells) -> dict[str, Reading]:
    """Return the readings of the levels of all coordinates of contexts, as a policy has them."""
    found: list[Reading] = []
    edges = iter(policy.edges)
    for name, column in rules.menu.contexts.columns.items():
        held = cell(name, f"{prefix[4:]}c{len(found)}")
        if isinstance(column, Cycle):
            both = SqlLevels.of_cycle(column, [next(edges), next(edges)], name)
            found += [levels.reading(held) for levels in both]
        else:
            found.append(SqlLevels.of(column, next(edges), name).reading(held))
    return {f"{prefix}l{j}": reading for j, reading in enumerate(found)}


def _share(rules: TermRules, value: str) -> str:
    """Return the expression of the share of the reward range; see `TermRules`."""
    width, above = rules.reward_range.width, f"({value} - {double(rules.reward_range.low)})"
    return (
        f"CASE WHEN {above} >= {double(width)} THEN 1e0 WHEN {above} >= {double(width * LEAST)} "
        f"THEN {above} / {double(width)} ELSE 0e0 END"
    )


def _terms(rules: TermRules, rounded: str) -> list[list[str]]:
    """Return layers from scores and choices to the integers r."""
    arms, choices = range(rules.menu.n_arms), range(1 + len(rules.policies))
    values, differences = bounds_of(rules.method, rules.largest_weight)
    layers: list[list[str]] = []
    if rules.method == "ips":
        terms = [
            f"CASE WHEN dpb_c{i} = dpb_arm THEN dpb_weight * (dpb_scaled - 0.5e0) ELSE 0e0 END AS dpb_t{i}"
            for i in choices
        ]
    else:

        def predicted(code: str) -> str:
            cases = " ".join(f"WHEN {arm} THEN dpb_p0s{arm}" for arm in arms)
            return f"CASE {code} {cases} END"

        codes = {"dpb_ma": "dpb_arm"} | {f"dpb_m{i}": f"dpb_c{i}" for i in choices}
        layers.append([f"{predicted(code)} AS {name}_score" for name, code in codes.items()])
        layers.append([f"{_share(rules, f'{name}_score')} AS {name}" for name in codes])
        rest = "CASE WHEN dpb_c{} = dpb_arm THEN dpb_weight * (dpb_scaled - dpb_ma) ELSE 0e0 END"
        terms = [f"dpb_m{i} - 0.5e0 + {rest.format(i)} AS dpb_t{i}" for i in choices]
    layers.append(terms)
    numbers = [f"dpb_t{i} / {double(2.0 * values)}" for i in choices]
    numbers += [f"(dpb_t{i} - dpb_t0) / {double(2.0 * differences)}" for i in choices[1:]]
    whole = [rounded.format(f"least(greatest({one}, -0.5e0), 0.5e0) * {double(STEPS)}") for one in numbers]
    layers.append(
        [
            f"CASE WHEN dpb_read = 1 THEN CAST({one} AS bigint) ELSE 0 END AS dpb_r{j}"
            for j, one in enumerate(whole)
        ]
    )
    return layers
