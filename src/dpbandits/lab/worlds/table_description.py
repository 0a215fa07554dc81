"""What a TOML file says of a table of one's own: `table_from_toml` makes a bandit of both.

The description holds everything that must be public: bounds, categories, cuts. It is strict: a key
that is not listed here is an error, so that a misspelt bound cannot go unnoticed.

    name = "people"              # optional; the table's file name by default
    path = "people.csv"          # .csv, .tsv (also .gz) or .parquet, relative to this file

    [columns.age]                # contexts, in the order of the file
    low = 16
    high = 64
    clip = true                  # optional: move values outside to the nearer bound

    [columns.gender]
    categories = ["female", "male"]

Then either one right arm a row, reward 1 for it and 0 for the others:

    [label]
    column = "earnings"
    cuts = [10, 16, 24]          # numbers: the arm is how many cuts lie at or below the value
    arms = ["low", "middle", "good", "high"]        # optional names

    [label]
    column = "income"
    categories = ["<=50K", ">50K"]                  # or values: the arm is the place in the list

or a column of rewards for every arm:

    [rewards]
    columns = ["paid_if_mail", "paid_if_call"]
    low = 0
    high = 1
    arms = ["mail", "call"]                         # optional; the columns' names by default

CSV and TSV files are UTF-8 and begin with a line of column names; blanks around a cell are dropped and an
empty cell is a missing value, which is refused. Columns that the description does not name are not read.
"""

import tomllib
from collections.abc import Mapping, Set
from dataclasses import dataclass
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray, IntArray, Seed
from dpbandits.domains import RewardRange
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.lab.worlds.tables import TableBandit, codes_from_cuts
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.files import read_table_file

__all__ = ["TableDescription", "table_from_toml"]


@dataclass(frozen=True, kw_only=True)
class TableDescription:
    """A checked description.

    Attributes:
        name: of the table, or None for its file's.
        path: of the table, as written.
        schema: of the contexts.
        outcomes: the label's column, or the reward column of each arm.
        arms: names of the arms.
        kinds: what the cells of each column to read are: float, str, int or bool.
        cuts, categories: how a label becomes an arm; exactly one of them for a table with labels.
        reward_range: for a table with reward columns.
    """

    name: str | None
    path: str
    schema: Schema
    outcomes: tuple[str, ...]
    arms: tuple[str, ...]
    kinds: dict[str, type]
    cuts: tuple[float, ...] | None = None
    categories: Categories | None = None
    reward_range: RewardRange | None = None

    @classmethod
    def parse(cls, description: Mapping[str, Any]) -> "TableDescription":
        """Check what `tomllib` read; InvalidParameter names the section and key that do not fit."""
        _check_keys(
            description, "the file", required={"path", "columns"}, optional={"name", "label", "rewards"}
        )
        if ("label" in description) == ("rewards" in description):
            raise InvalidParameter("the file needs exactly one of the sections [label] and [rewards]")
        columns = _get(description, "columns", dict, "the file")
        schema = Schema(**{name: _context(name, declared) for name, declared in columns.items()})
        outcome = _label(description) if "label" in description else _rewards(description)
        shared = sorted(set(outcome["outcomes"]) & set(schema.names))
        if shared:
            raise InvalidParameter(
                f"columns {shared} are both contexts and outcomes: that gives the answer away"
            )
        kinds = {
            name: float if isinstance(column, Range) else type(column.values[0])
            for name, column in schema.columns.items()
        }
        categories = outcome.get("categories")
        for name in outcome["outcomes"]:
            kinds[name] = type(categories.values[0]) if categories else float
        return cls(
            name=_get(description, "name", str, "the file") if "name" in description else None,
            path=_get(description, "path", str, "the file"),
            schema=schema,
            kinds=kinds,
            **outcome,
        )

    def labels(self, column: NDArray[Any]) -> IntArray:
        """Codes of the right arms, (N,)."""
        if self.categories is not None:
            return self.categories.encode(column, name=self.outcomes[0])
        return codes_from_cuts(column, self.cuts or (), name=self.outcomes[0])


def _context(name: str, declared: object) -> Range | Categories:
    where = f"[columns.{name}]"
    if not isinstance(declared, dict):
        raise InvalidParameter(f"{where} must be a section with low and high, or with categories")
    if "categories" in declared:
        _check_keys(declared, where, required={"categories"})
        return Categories(_get(declared, "categories", list, where))
    _check_keys(declared, where, required={"low", "high"}, optional={"clip"})
    clip = _get(declared, "clip", bool, where) if "clip" in declared else False
    return Range(_number(declared, "low", where), _number(declared, "high", where), clip=clip)


def _label(description: Mapping[str, Any]) -> dict[str, Any]:
    where = "[label]"
    label = _get(description, "label", dict, "the file")
    _check_keys(label, where, required={"column"}, optional={"cuts", "categories", "arms"})
    if ("cuts" in label) == ("categories" in label):
        raise InvalidParameter(f"{where} needs exactly one of cuts and categories")
    column = _get(label, "column", str, where)
    if "categories" in label:
        categories = Categories(_get(label, "categories", list, where))
        arms = _arms(label, where, default=[str(value) for value in categories.values])
        return {"outcomes": (column,), "categories": categories, "arms": arms}
    listed = _get(label, "cuts", list, where)
    if any(isinstance(cut, bool) or not isinstance(cut, int | float) for cut in listed):
        raise InvalidParameter(f"{where}: cuts must be numbers")
    codes_from_cuts([], listed, name=column)  # checks the cuts
    between = [f"{low:g} to below {high:g}" for low, high in pairwise(listed)]
    default = [f"below {listed[0]:g}", *between, f"{listed[-1]:g} and above"]
    return {"outcomes": (column,), "cuts": tuple(listed), "arms": _arms(label, where, default=default)}


def _rewards(description: Mapping[str, Any]) -> dict[str, Any]:
    where = "[rewards]"
    rewards = _get(description, "rewards", dict, "the file")
    _check_keys(rewards, where, required={"columns", "low", "high"}, optional={"arms"})
    columns = _strings(rewards, "columns", where)
    return {
        "outcomes": columns,
        "arms": _arms(rewards, where, default=list(columns)),
        "reward_range": RewardRange(_number(rewards, "low", where), _number(rewards, "high", where)),
    }


def _arms(section: Mapping[str, Any], where: str, *, default: list[str]) -> tuple[str, ...]:
    if "arms" not in section:
        return tuple(default)
    names = _strings(section, "arms", where)
    if len(names) != len(default):
        raise InvalidParameter(f"{where}: arms has {len(names)} names, there are {len(default)} arms")
    return names


def _strings(section: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    listed = _get(section, key, list, where)
    if not listed or not all(isinstance(entry, str) for entry in listed) or len(set(listed)) != len(listed):
        raise InvalidParameter(f"{where}: {key} must be a non-empty list of distinct strings")
    return tuple(listed)


def _number(section: Mapping[str, Any], key: str, where: str) -> float:
    value = section[key]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(f"{where}: {key} is a {type(value).__name__}, expected a number")
    return float(value)


def _get(section: Mapping[str, Any], key: str, kind: type, where: str) -> Any:
    value = section[key]
    if not isinstance(value, kind):
        raise InvalidParameter(f"{where}: {key} is a {type(value).__name__}, expected a {kind.__name__}")
    return value


def _check_keys(
    section: Mapping[str, Any], where: str, *, required: Set[str], optional: Set[str] = frozenset()
) -> None:
    missing, unknown = sorted(required - set(section)), sorted(set(section) - required - optional)
    if missing:
        raise InvalidParameter(f"{where} lacks {', '.join(missing)}")
    if unknown:
        known = ", ".join(sorted(required | optional))
        raise InvalidParameter(f"{where} has unknown keys {', '.join(unknown)}: expected {known}")


def table_from_toml(path: str | PathLike[str], *, seed: Seed, horizon: int | None = None) -> TableBandit:
    """The table that a TOML file describes, as a bandit. For the format see the top of this file.

    Args:
        path: of the description.
        seed: keys the order of the rows.
        horizon: rounds; all rows by default.

    Raises:
        InvalidParameter: the description is no TOML, or lacks, misspells or contradicts something.
        InvalidData: the table does not fit the description; the message names the column and no value.
        DataUnavailable: a file is not there or cannot be read.
        MissingExtra: a Parquet table and no pyarrow.
    """
    source = Path(path)
    try:
        description = tomllib.loads(source.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"{source.name} is not a TOML file: {error}") from None
    except OSError as error:
        raise DataUnavailable(f"{source.name} cannot be read: {error.strerror}") from None
    plan = TableDescription.parse(description)
    table = read_table_file(source.parent / plan.path, plan.kinds)
    name = Path(plan.path).name.split(".")[0] if plan.name is None else plan.name
    contexts = {column: table[column] for column in plan.schema.names}
    if plan.reward_range is None:
        return TableBandit.from_labels(
            contexts,
            schema=plan.schema,
            labels=plan.labels(table[plan.outcomes[0]]),
            arms=plan.arms,
            seed=seed,
            horizon=horizon,
            name=name,
        )
    return TableBandit.from_rewards(
        contexts,
        schema=plan.schema,
        rewards=_reward_table(table, plan.outcomes, plan.reward_range),
        arms=plan.arms,
        reward_range=plan.reward_range,
        seed=seed,
        horizon=horizon,
        name=name,
    )


def _reward_table(
    table: Mapping[str, NDArray[Any]], columns: tuple[str, ...], bounds: RewardRange
) -> FloatArray:
    rewards = []
    for name in columns:
        try:
            values = np.asarray(table[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise InvalidData(f"column {name!r} holds something else than numbers") from None
        if not ((values >= bounds.low) & (values <= bounds.high)).all():  # also where missing
            raise InvalidData(
                f"column {name!r} has missing rewards, or some outside the declared range "
                f"({bounds.low:g}, {bounds.high:g})"
            )
        rewards.append(values)
    return np.column_stack(rewards)
