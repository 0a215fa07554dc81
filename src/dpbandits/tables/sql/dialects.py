"""Dialects of SQL: the words in which databases differ, and statements made of layers.

The text of statements is built here without a library for SQL.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_UP, Context, Decimal
from typing import Any, Literal

from dpbandits.errors import InvalidParameter

__all__ = ["CELLS", "ENGINES", "NUMBER", "Dialect", "SqlEngine", "double", "layered"]

Dialect = Literal["duckdb", "postgres", "spark"]

CELLS = "dpb_people"
"""Name by which the first layer of a statement refers to the table."""

_FENCE = " OFFSET 0"
"""End of a subquery.

Without it an engine puts the subquery's expressions wherever they are used, and each layer multiplies the
size of the plan.
"""

NUMBER = "[+-]?(?:[0-9]+[.]?[0-9]*|[.][0-9]+)(?:e[+-]?[0-9]+)?"
"""Pattern of the texts in lower case, without underscores, that Python reads as numbers.

Infinity, NaN and hexadecimal numbers are not among them. No group is repeated: Java's matcher calls itself
for each repetition, and a long text would exhaust its stack.
"""

_INFINITE = 2**1024 - 2**970
"""Least size of a number that is rounded to infinity."""

_NOTHING = Context(prec=40, rounding=ROUND_UP).divide(Decimal(1), Decimal(2**1075))
"""Largest size of a number that is rounded to zero."""

_POSTGRES_TIME = (
    "CASE WHEN {1} >= {0} '0001-01-01 00:00:00+00' AND {1} < {0} '10000-01-01 00:00:00+00' "
    "THEN CAST(extract(epoch FROM {1}) * 1000000 AS bigint) END"
)

_BLANKS = "".join(filter(str.isspace, map(chr, range(0x3001))))
_SPACES = " || ".join(f"chr({ord(one)})" for one in _BLANKS)


def double(number: float) -> str:
    """Return a literal that all engines read as this double. Without an exponent it is a decimal."""
    text = repr(float(number))
    return text if "e" in text else f"{text}e0"


@dataclass(frozen=True)
class SqlEngine:
    """Words of one dialect, as templates.

    Attributes:
        dialect: Name of the dialect.
        text: Expression of a cell as text.
        matches: Condition that a text matches a whole pattern.
        decimal: Expression of the number in a text that matches `NUMBER`; NULL or infinity if it is too
            large.
        hexadecimal: Expression of the number in up to 15 hexadecimal digits.
        digest: Expression of the SHA-256 of a text, as hexadecimal digits.
        casting: Expression of the number in a text that surely has one of this type.
        array: Constant array of numbers, from their texts and their type.
        entry: Entry of an array, from an index that begins at 0.
        packed, row: Expression of all columns of the table as one value, which the subqueries pass on; and
            expression of the columns of this value.
        double: Type of doubles.
        quotient: Quotient of two integers of at least 0, rounded down.
        zoned, naive, finer: Expressions of the microseconds since 1970 of a time with a zone, of a date or a
            time without one, and of a time in nanoseconds.
        spaces: Expression of the characters that Python strips from a text.
        quote: Sign around names.
    """

    dialect: Dialect
    text: str
    matches: str
    decimal: str
    hexadecimal: str
    digest: str
    casting: str
    array: str
    double: str
    quotient: str
    zoned: str
    naive: str
    finer: str = ""
    entry: str = "{}[{} + 1]"
    packed: str = CELLS
    row: str = "dpb_row.*"
    spaces: str = _SPACES
    quote: str = '"'

    def literal(self, text: Any) -> str:
        """Return a text as a literal.

        Raises:
            InvalidParameter: It is no text, or has a null character.
        """
        if self.dialect == "spark":
            return _quoted(_checked(text).replace("\\", "\\\\"), "'", "\\'")
        return _quoted(text, "'", "''")

    def name(self, text: Any) -> str:
        """Return the quoted name of a table or column. The errors are those of `literal`."""
        return _quoted(text, self.quote, 2 * self.quote)

    def cast(self, text: str, *, whole: bool = False) -> str:
        """Return the expression of the number in a text of digits, as a double or a whole number."""
        return self.casting.format(text, "bigint" if whole else self.double)

    def compared(self, name: str) -> str | bytes:
        """Return a name as the engine compares it with others."""
        return name.encode()[:63] if self.dialect == "postgres" else name.lower()


def _checked(text: Any) -> str:
    if not isinstance(text, str) or "\0" in text:
        raise InvalidParameter("names, arms and categories are texts without null characters")
    return text


def _quoted(text: Any, sign: str, inside: str) -> str:
    return sign + _checked(text).replace(sign, inside) + sign


ENGINES: dict[str, SqlEngine] = {
    "duckdb": SqlEngine(
        dialect="duckdb",
        text="(CAST({} AS VARCHAR) COLLATE C)",
        matches="regexp_full_match({}, '{}')",
        decimal="TRY_CAST({} AS DOUBLE)",
        hexadecimal="TRY_CAST(TRY_CAST('0x0' || {} AS BIGINT) AS DOUBLE)",
        digest="sha256({})",
        casting="TRY_CAST({} AS {})",
        array="CAST('[{}]' AS {}[])",
        double="DOUBLE",
        quotient="({} // {})",
        zoned="epoch_us({})",
        naive="epoch_us(TRY_CAST({} AS TIMESTAMP))",
        finer="((epoch_ns({0}) - (epoch_ns({0}) % 1000 + 1000) % 1000) // 1000)",
    ),
    # The first branch of `decimal` reads numbers below 1e200 that are above 1e-198 or zero. The last two read
    # numbers with an exponent of at most four digits exactly before they are rounded.
    "postgres": SqlEngine(
        dialect="postgres",
        text='(CAST({} AS text) COLLATE "C")',
        matches="{} ~ '^(?:{})$'",
        decimal="CASE WHEN length({0}) <= 100 AND {0} !~ 'e[+-]?[0-9]{{3}}' "
        "THEN CAST({0} AS double precision) "
        "WHEN {0} ~ 'e[+-]?0*[1-9][0-9]{{4}}' THEN CASE WHEN {0} ~ '^[+-]?[0.]+e|e-' THEN 0e0 END "
        f"WHEN abs(CAST({{0}} AS numeric)) >= {_INFINITE} THEN NULL "
        f"WHEN abs(CAST({{0}} AS numeric)) <= {_NOTHING} THEN 0e0 "
        "ELSE CAST({0} AS double precision) END",
        hexadecimal="CAST(CAST(CAST('x' || lpad({}, 16, '0') AS bit(64)) AS bigint) AS double precision)",
        digest="encode(sha256(convert_to({}, 'UTF8')), 'hex')",
        casting="CAST({} AS {})",
        array="(CAST('{{{}}}' AS {}[]))",
        row="(dpb_row).*",
        double="double precision",
        quotient="({} / {})",
        zoned=_POSTGRES_TIME.format("timestamptz", "{0}"),
        naive=_POSTGRES_TIME.format("timestamp", "{0}"),
    ),
    "spark": SqlEngine(
        dialect="spark",
        text="CAST({} AS STRING)",
        matches="{} RLIKE '(?s)^(?:{})(?!.)'",  # `$` would match before a line break
        decimal="TRY_CAST({} AS DOUBLE)",
        hexadecimal="CAST(CAST(conv('0' || {}, 16, 10) AS bigint) AS DOUBLE)",
        digest="sha2({}, 256)",
        casting="TRY_CAST({} AS {})",
        array="CAST(split('{}', ',') AS ARRAY<{}>)",
        entry="{}[{}]",
        packed=f"struct({CELLS}.*)",
        double="DOUBLE",
        quotient="({} div {})",
        zoned="unix_micros({})",
        naive="CASE WHEN {0} >= DATE '0001-01-01' AND {0} < date_add(DATE '9999-12-31', 1) THEN "
        "timestampdiff(MICROSECOND, TIMESTAMP_NTZ '1970-01-01 00:00:00', CAST({0} AS TIMESTAMP_NTZ)) END",
        spaces="'" + "".join(f"\\u{ord(one):04x}" for one in _BLANKS) + "'",
        quote="`",
    ),
}


def layered(source: str, layers: Sequence[Sequence[str]], *, selected: str = "") -> str:
    """Return nested subqueries, of which each adds columns computed from those of the layer within.

    Args:
        source: Table, or a subquery in parentheses.
        layers: Expressions with their names, as in "a + 1 AS b", by layer. The first layer reads the table's
            columns as columns of `CELLS`. Empty layers are left out.
        selected: Further columns of the first layer.

    Returns:
        A SELECT statement. Its columns are all the named expressions.
    """
    first, *others = filter(None, layers)
    found = f"SELECT {', '.join(filter(None, [selected, *first]))}\nFROM {source} AS {CELLS}{_FENCE}"
    for number, layer in enumerate(others, 1):
        found = f"SELECT *, {', '.join(layer)}\nFROM (\n{found}\n) AS dpb_{number}{_FENCE}"
    return found
