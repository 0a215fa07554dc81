"""Integer tables of a log, added up by an engine where the data is.

One SELECT statement does all of it, so that an engine with snapshots reads one snapshot. Its layers are:

1. Cells become a user id, levels, a code of the arm, a reward and a propensity (`dpbandits.tables.sql`).
2. These become the digits of a coded row, and its words. Rows without a user id are left out.
3. At most k rows of a user are kept, by the rule of `dpbandits.central.logged.plan`.
4. The kept rows are grouped by the entries of every table.

The engine returns one row of integers for each entry that is not empty, and nothing else. They equal those of
`SumsPlan.summed`. Every operation on doubles is rounded once, in the order of `RowRules.weighted`. Quotients
and products that could overflow or underflow are replaced first, by what NumPy's rule makes of them. So no
row makes the statement fail: whether a query fails would be a bit about a row.

The text of the statement holds public numbers, and a secret of the order on which no promise rests. The time
that it takes depends on how many users have more than k rows: whoever sees it is trusted, as the engine is.
"""

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpbandits._cells import MISSING
from dpbandits._typing import IntArray
from dpbandits.central.logged.plan import UNITS, SumsPlan, SumTable, digits_by_word, order_prefix, packed
from dpbandits.central.logged.rows import LARGEST_WEIGHT, CellRules
from dpbandits.central.logged.tables import TableRules
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.models.measures import IntervalAxis
from dpbandits.tables.columns import Categories, Range
from dpbandits.tables.dates import Cycle
from dpbandits.tables.menu import Menu
from dpbandits.tables.sql.cells import FARTHEST, Reading, SqlCell, layers_of, number_reading
from dpbandits.tables.sql.dialects import ENGINES, SqlEngine, double, layered
from dpbandits.tables.sql.ids import id_reading
from dpbandits.tables.sql.levels import SqlLevels, least

if TYPE_CHECKING:
    from dpbandits.central.logged.logged_table import LogColumns
    from dpbandits.tables.warehouse.source import Source

__all__ = [
    "WORDS",
    "Cells",
    "counted_rows",
    "known_cells",
    "packing",
    "statement",
    "summed_by",
    "table_cells",
    "unpacking",
]

_TINY, _SMALL = 2.0**-800, 2.0**200
"""Smallest distance of a reward from the reference, in bounds, and the inverse of the smallest weight.

Smaller distances and weights count zero: they are rounded to zero units in any case, and could underflow.
"""

_SPREAD = 2.0**40
"""Largest factor by which the largest distance of a reward from the reference and the bound may differ."""

_LOW = 2.0**-100
"""Share of a range: a number that is nearer to the low end is in the first level, without a division."""

_DENSEST = 1e11
"""Largest product of the density of even draws and the largest distance of a reward, in bounds."""

LANES = 8
"""Most tables that DuckDB and PostgreSQL group by at a time.

DuckDB reserves about 4 MB for each of them and each thread, and PostgreSQL's time grows faster than their
number. With more tables, each lane has several: a row stands in a lane once for each of its tables.
"""


class Words(NamedTuple):
    """Words in which dialects differ.

    Attributes:
        rounded: Template of rounding to even.
        over: Template of the quotient of integers of at least 0, rounded down.
        holds: True if the engine can hold rows, so that two parts of a statement see the same ones. Spark may
            read them twice. There one part keeps the k rows of every user: each user's rows meet in one task.
    """

    rounded: str
    over: str
    holds: bool = True


WORDS = {
    "duckdb": Words("round_even({}, 0)", "{} // {}"),
    "postgres": Words("round({})", "{} / {}"),
    "spark": Words("rint({})", "{} div {}", holds=False),
}


def summed_by(
    source: "Source",
    plan: SumsPlan,
    rules: TableRules | CellRules,
    columns: "LogColumns",
    *,
    clip: bool,
    key: bytes,
    progress: bool = False,
) -> IntArray:
    """Return the entries (size,) of all tables, as `SumsPlan.summed` does, from the rows of a source.

    Args:
        source: Table with the rows.
        plan: Tables that are needed.
        rules: Rules that read rows, with their menu.
        columns: Roles of the columns.
        clip: True to clip rewards to their range.
        key: Secret by which the rows of a user that count are chosen.
        progress: True to show on standard error how much of the table was read.

    Raises:
        InvalidData: The table lacks a column.
        InvalidParameter: A column has a type, or a description, that is not read in an engine.
        DataUnavailable: The engine failed, or returned impossible sums.
    """
    text = statement(source, plan, rules, columns, clip=clip, key=key)
    found = source.query(text, told="learning" if progress else None)
    places, counts = found["place"], found["counted"]
    whole = len(np.unique(places)) == len(places) and bool(((places >= 0) & (places < plan.size)).all())
    whole &= bool((np.abs(found["rewards"]) <= UNITS * counts).all())
    whole &= bool(((found["weights"] >= 0) & (found["weights"] <= plan.weight_units * counts)).all())
    if not whole:
        raise DataUnavailable("the engine returned impossible sums: nothing was released")
    added = np.zeros((3, plan.size), dtype=np.int64)
    added[:, places] = found["rewards"], found["weights"], counts
    return _folded(plan, *added)


def _asked(plan: SumsPlan) -> list[SumTable]:
    """Return the tables that the engine groups by; all others are their marginals."""
    found = [table for table in plan.tables if table.adds == "reward"]
    for table in sorted(plan.tables, key=lambda one: -len(one.columns)):
        if table.adds == "count" and not any(set(table.columns) <= set(one.columns) for one in found):
            found.append(table)
    return found


def _folded(plan: SumsPlan, rewards: IntArray, weights: IntArray, counts: IntArray) -> IntArray:
    """Return the entries (size,) of all tables from the sums and counts (size,) of those in `_asked`."""
    asked, found = _asked(plan), np.zeros(plan.size, dtype=np.int64)
    found[: plan.regions[0]] = rewards[: plan.regions[0]]
    for table in plan.tables:
        if table.adds == "reward":
            continue
        whole = next(one for one in asked if one.by != "arm" and set(table.columns) <= set(one.columns))
        rows = max(plan.row_of) + 1 if whole.by else 1
        shape = [rows, *(plan.sizes[column] for column in whole.columns)]
        entries = whole.start + np.arange(rows)[:, None] * whole.stride + np.arange(plan.cells(whole.columns))
        if table.adds == "weight":
            own = weights[entries].sum(axis=1)
        else:
            others = [axis for axis, column in enumerate(whole.columns, 1) if column not in table.columns]
            own = UNITS * counts[entries].reshape(shape).sum(axis=(0, *others)).ravel()
        found[table.start : table.start + len(own)] = own
    return found


def statement(
    source: "Source",
    plan: SumsPlan,
    rules: TableRules | CellRules,
    columns: "LogColumns",
    *,
    clip: bool,
    key: bytes,
) -> str:
    """Return the statement of `summed_by`. The arguments and errors are the same."""
    engine, cell = ENGINES[source.dialect], table_cells(source, columns)
    readings = _contexts(plan, rules, cell) | _arms(rules, columns, cell)
    readings |= known_cells(columns, (rules.reward_range.low, rules.reward_range.high), cell)
    digits = _digits(plan, rules, columns, clip=clip, rounded=WORDS[source.dialect].rounded)
    read = layered(source.relation, layers_of(readings) + digits)
    levels = [f"dpb_l{j}" for j in range(len(plan.sizes))]
    coded = ["dpb_arm", *levels, f"dpb_y + {UNITS}", "dpb_v" if plan.weight_units else "0", "1"]
    words = packing(coded, [0] * (1 + len(levels)) + [UNITS, 0, 0], plan.radices)
    held, rows = counted_rows(engine, read, words, plan.rows_per_user, key)
    return held + _grouped(engine, plan, rows)


def table_cells(source: "Source", columns: "LogColumns") -> "Cells":
    """Return the function that gives a column's cell from its name, and a text that no other cell has.

    Raises:
        InvalidData: The table lacks a column.
    """
    engine, types = ENGINES[source.dialect], source.columns()
    missing = [name for name in columns.kinds if name not in types]
    if missing:
        raise InvalidData(f"the table lacks the declared columns {missing}")
    return lambda name, place: SqlCell(engine, name, place, types[name])


def known_cells(columns: "LogColumns", span: tuple[float, float], cell: "Cells") -> dict[str, Reading]:
    """Return the readings of the reward, with range `span`, the propensity and the user's id of a row."""
    found = {"dpb_reward": number_reading(cell(columns.reward, "r"), span)}
    if columns.propensity is not None:
        found["dpb_chance"] = number_reading(cell(columns.propensity, "p"))
    if columns.user is not None:
        found["dpb_id"] = id_reading(cell(columns.user, "u"))
    return found


def counted_rows(
    engine: SqlEngine, read: str, packed: Sequence[str], most: int | None, key: bytes, *, ids: bool = False
) -> tuple[str, str]:
    """Return a WITH clause, which may be empty, and the subquery of the words of the rows that count.

    Args:
        engine: Dialect.
        read: Statement whose rows have an id, unless all rows count, and what `packed` needs.
        packed: Expressions of the words.
        most: Number k of a user's rows that count; None if all rows count.
        key: Secret by which the rows of a user that count are chosen.
        ids: True if the rows have their id.
    """
    words = [f"dpb_word{place}" for place in range(len(packed))]
    named = ", ".join(f"{one} AS {name}" for one, name in zip(packed, words, strict=True))
    if most is None:
        return "", f"(SELECT {named}\nFROM (\n{read}\n) AS dpb_read)"
    coded = f"SELECT dpb_id, {named}\nFROM (\n{read}\n) AS dpb_read\nWHERE dpb_id IS NOT NULL"
    digest = engine.digest.format(f"'{order_prefix(key)}' || dpb_id")
    start = f"CAST({engine.hexadecimal.format(f'substr({digest}, 1, 13)')} AS bigint) AS dpb_s"
    ordered = ", ".join(words)
    listed = ", ".join(["dpb_id", *words] if ids else words)

    def kept(rows: str, user: str) -> str:
        """Return the statement that keeps k rows of each user, of coded rows with n and s."""
        place = f"row_number() OVER (PARTITION BY {user} ORDER BY {ordered}) - 1"
        return (
            f"SELECT {listed} FROM (\nSELECT {listed}, dpb_n, dpb_s, {place} AS dpb_r\nFROM {rows}\n"
            f") AS dpb_numbered WHERE (dpb_r + dpb_s % dpb_n) % dpb_n * {most} % dpb_n < {most}"
        )

    if not WORDS[engine.dialect].holds:
        users = f"SELECT *, {start}, count(*) OVER (PARTITION BY dpb_id) AS dpb_n FROM ({coded}) AS dpb_coded"
        return "", f"({kept(f'({users}) AS dpb_users', 'dpb_id')})"
    # Most users have few rows, which need no order. The coded rows are held, so that all parts see the same.
    # The others get numbers u, by which an engine sorts faster than by ids.
    rows = (
        f"(SELECT {listed} FROM dpb_coded\n"
        "WHERE NOT EXISTS (SELECT 1 FROM dpb_many WHERE dpb_many.dpb_id = dpb_coded.dpb_id)\n"
        f"UNION ALL\n{kept('dpb_coded JOIN dpb_many USING (dpb_id)', 'dpb_u')})"
    )
    held = (
        f"WITH dpb_coded AS MATERIALIZED (\n{coded}\n), dpb_many AS MATERIALIZED (\n"
        f"SELECT dpb_id, dpb_n, {start}, row_number() OVER () AS dpb_u\n"
        f"FROM (SELECT dpb_id, count(*) AS dpb_n FROM dpb_coded GROUP BY dpb_id "
        f"HAVING count(*) > {most}) AS dpb_users\n)\n"
    )
    return held, rows


Cells = Callable[[str, str], SqlCell]


def _contexts(plan: SumsPlan, rules: TableRules | CellRules, cell: Cells) -> dict[str, Reading]:
    """Return the readings of the levels of all coordinates of contexts."""
    found: list[Reading] = []
    cells = rules.contexts.axes if isinstance(rules, CellRules) else None
    for name, column in _menu(rules).contexts.columns.items():
        held, size = cell(name, f"c{len(found)}"), plan.sizes[len(found)]
        shares = [_share(size, level) for level in range(1, size)]
        if cells is not None and isinstance(axis := cells[len(found)], IntervalAxis):
            shares = axis.edges[1:-1].tolist()
        if isinstance(column, Range) and cells is None:
            found.append(_ranged(held, column, size))
        elif isinstance(column, Cycle):
            found += [levels.reading(held) for levels in SqlLevels.of_cycle(column, [shares, shares], name)]
        else:
            edges = range(1, size) if isinstance(column, Categories) else shares
            found.append(SqlLevels.of(column, edges, name).reading(held))
    return {f"dpb_l{j}": reading for j, reading in enumerate(found)}


def _share(size: int, level: int) -> float:
    """Return the first share of a range in a level, of `size` equal ones."""
    return least(lambda share: share * size >= level, 0.0, 1.0)


def _ranged(cell: SqlCell, column: Range, size: int) -> Reading:
    """Return the reading of a number as one of `size` equal levels of its range, as NumPy computes it."""
    number, low, high = cell.number, double(column.low), double(column.high)
    SqlLevels.of(column, [], cell.name)  # checks the bounds
    last = str(size - 1)
    below, above = ("0", last) if column.clip else ("NULL", "NULL")
    missing = "NULL" if column.missing is None else str(_level(column, column.missing, size))
    share = f"({number} - {low}) / {double(column.span)}"
    return cell.reading(
        f"CASE WHEN {cell.missing(MISSING | {'+nan'})} THEN {missing} "
        f"WHEN {number} IS NULL OR abs({number}) > {double(FARTHEST)} THEN NULL "
        f"WHEN {number} < {low} THEN {below} WHEN {number} > {high} THEN {above} "
        f"WHEN {number} - {low} < {double(column.span * _LOW)} THEN 0 "
        f"ELSE least(CAST(floor({share} * {double(size)}) AS bigint), {last}) END"
    )


def _level(column: Range, number: float, size: int) -> int:
    return min(math.floor((number - column.low) / (column.high - column.low) * size), size - 1)


def _menu(rules: TableRules | CellRules) -> Menu:
    if rules.menu is None:
        raise InvalidParameter("an engine reads the columns of contexts and arms: the rules have none")
    return rules.menu


def _arms(rules: TableRules | CellRules, columns: "LogColumns", cell: Cells) -> dict[str, Reading]:
    """Return the readings of the arm, or of the steps of a grid of actions."""
    menu = _menu(rules)
    if menu.actions is None:
        name = str(columns.action)
        return {"dpb_arm": SqlLevels.of_arms(menu.arms, name).reading(cell(name, "a"))}
    between = isinstance(rules, TableRules) and rules.tables.between
    steps = SqlLevels.of_actions(menu.actions, between=between)
    return {
        f"dpb_a{i}": levels.reading(cell(name, f"a{i}")) for i, (name, levels) in enumerate(steps.items())
    }


def _digits(
    plan: SumsPlan, rules: TableRules | CellRules, columns: "LogColumns", *, clip: bool, rounded: str
) -> list[list[str]]:
    """Return layers with the code of the arm, the mark of reading, y and w, from the readings.

    Args:
        plan, rules, columns, clip: See `summed_by`.
        rounded: Template of rounding, to even where two integers are equally near.
    """
    span, actions = rules.reward_range, _menu(rules).actions
    farthest = max(span.high - rules.reference, rules.reference - span.low) / rules.bound
    even, most = map(float, rules.even(np.array(0)))
    if not 1.0 / _SPREAD <= farthest <= _SPREAD or not even * farthest <= _DENSEST:
        raise InvalidParameter("bound, or ranges of actions: too small or too large to be read in an engine")
    arm, first = "dpb_arm", []
    if actions is not None:
        arm = "dpb_a0"
        for i, size in enumerate(actions.sizes[1:], 1):
            arm = f"({arm}) * {size} + dpb_a{i}"
        first.append(f"{arm} AS dpb_arm")
    low, high = double(span.low), double(span.high)
    inside = "dpb_reward IS NOT NULL" if clip else f"dpb_reward >= {low} AND dpb_reward <= {high}"
    known = " + ".join([f"dpb_l{j}" for j in range(len(plan.sizes))] + [arm])  # NULL if one is
    marks = [f"({known}) IS NOT NULL", inside]
    first.append(f"least(greatest(dpb_reward, {low}), {high}) - {double(rules.reference)} AS dpb_off")
    if columns.propensity is not None:
        marks.append(f"dpb_chance > 0e0 AND dpb_chance <= {double(most)}")
        weight = (
            f"CASE WHEN dpb_chance > 0e0 THEN CASE WHEN dpb_chance < {double(even / LARGEST_WEIGHT)} "
            f"THEN {double(LARGEST_WEIGHT)} WHEN dpb_chance > {double(even * _SMALL)} THEN 0e0 "
            f"ELSE {double(even)} / dpb_chance END END"
        )
        if isinstance(rules, TableRules) and plan.weight_units:
            weight = _least(weight, rules.largest)
        first.append(f"{weight} AS dpb_weight")
    first.append(f"CASE WHEN {' AND '.join(marks)} THEN 1 ELSE 0 END AS dpb_read")
    scaled = (
        f"CASE WHEN abs(dpb_off) < {double(rules.bound * _TINY)} THEN 0e0 "
        f"ELSE dpb_off / {double(rules.bound)} END{' * dpb_weight' if columns.propensity is not None else ''}"
    )

    def whole(value: str) -> str:
        clipped = f"{_least(f'greatest({value}, -1e0)', 1.0)} * {double(UNITS)}"
        return f"CASE WHEN dpb_read = 1 THEN CAST({rounded.format(clipped)} AS bigint) ELSE 0 END"

    second = [f"{whole(scaled)} AS dpb_y"]
    if isinstance(rules, TableRules) and plan.weight_units:
        second.append(f"{whole(f'{double(rules.share)} * dpb_weight')} AS dpb_v")
    return [first, second]


def _least(value: str, most: float) -> str:
    return f"least({value}, {double(most)})"


def packing(digits: Sequence[str], unread: Sequence[int], radices: Sequence[int]) -> list[str]:
    """Return the expressions of a row's words, from its digits, or from `unread` if `dpb_read` is 0."""
    found, others = [], packed([np.array([digit]) for digit in unread], radices)[0]
    for own, otherwise in zip(digits_by_word(radices), others.tolist(), strict=True):
        word = "CAST(0 AS bigint)"
        for digit in own:
            word = f"({word} * {radices[digit]} + {digits[digit]})"
        found.append(f"CASE WHEN dpb_read = 1 THEN {word} ELSE {otherwise} END")
    return found


def unpacking(engine: SqlEngine, names: Sequence[str], radices: Sequence[int], less: Sequence[int]) -> str:
    """Return the list of the digits of words, less these constants, under their names."""
    digits = []
    for word, own in enumerate(digits_by_word(radices)):
        for at, digit in enumerate(own):
            below = math.prod(radices[one] for one in own[at + 1 :])
            value = f"{WORDS[engine.dialect].over.format(f'dpb_word{word}', below)} % {radices[digit]}"
            digits.append(f"{value}{f' - {less[digit]}' if less[digit] else ''} AS {names[digit]}")
    return ", ".join(digits)


def _grouped(engine: SqlEngine, plan: SumsPlan, rows: str) -> str:
    """Return the statement that adds up the words of rows by the entries of all tables."""
    names = ["dpb_arm", *(f"dpb_l{j}" for j in range(len(plan.sizes))), "dpb_y", "dpb_v", "dpb_read"]
    digits = unpacking(engine, names, plan.radices, [UNITS * (name == "dpb_y") for name in names])
    if plan.row_of == tuple(range(plan.n_arms)):
        row = "dpb_arm"
    else:
        rows_of_arms = engine.array.format(",".join(map(str, plan.row_of)), "bigint")
        row = engine.entry.format(rows_of_arms, "dpb_arm")
    by, entries = {"arm": "dpb_arm", "row": row, None: "0"}, []
    for table in _asked(plan):
        cell = "0"
        for column in table.columns:
            cell = f"({cell} * {plan.sizes[column]} + dpb_l{column})"
        entries.append(f"CAST({table.start} + {by[table.by]} * {table.stride} + {cell} AS bigint)")
    added = "dpb_y"
    if plan.caps:  # there is one table
        cap = engine.entry.format(engine.array.format(",".join(map(str, plan.caps)), "bigint"), entries[0])
        added = f"least(greatest(dpb_y, -({cap})), {cap})"
    # Spark has one lane a table.
    width = 1 if engine.dialect == "spark" else -(-len(entries) // LANES)
    entries += ["NULL"] * (-len(entries) % width)
    lanes = [", ".join(entries[first : first + width]) for first in range(0, len(entries), width)]
    places = [f"dpb_e{number}" for number in range(len(lanes))]
    placing = "{} AS {}" if width == 1 else "unnest(ARRAY[{}]) AS {}"
    placed = ", ".join(map(placing.format, lanes, places))
    place = f"coalesce({', '.join(places)})"
    return (
        f"SELECT {place} AS place, CAST(sum(dpb_y) AS bigint) AS rewards, "
        f"CAST(sum(dpb_v) AS bigint) AS weights, CAST(count(*) AS bigint) AS counted\n"
        f"FROM (SELECT {placed},\n"
        # PostgreSQL adds up integers of 32 bits faster.
        f"CAST({added} AS integer) AS dpb_y, CAST(dpb_v AS integer) AS dpb_v\n"
        f"FROM (SELECT {digits}\nFROM {rows} AS dpb_kept) AS dpb_unpacked\n"
        f"WHERE dpb_read = 1) AS dpb_placed\n"
        f"GROUP BY GROUPING SETS ({', '.join(f'({name})' for name in places)})"
        f"{'' if width == 1 else f' HAVING {place} IS NOT NULL'}"
    )
