"""Reading a table of one's own, CSV, TSV or Parquet, as its TOML description says.

The format of the description is documented in `table_description`.
"""

import csv
import gzip
import tomllib
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import FloatArray, Seed
from dpbandits.domains import RewardRange
from dpbandits.environments.table_description import TableDescription
from dpbandits.environments.tables import TableBandit
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra

__all__ = ["read_table_file", "table_from_toml"]

_Column = NDArray[Any]
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def table_from_toml(path: str | PathLike[str], *, seed: Seed, horizon: int | None = None) -> TableBandit:
    """The table that a TOML file describes, as a bandit. For the format see `table_description`.

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


def _reward_table(table: Mapping[str, _Column], columns: tuple[str, ...], bounds: RewardRange) -> FloatArray:
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


def read_table_file(path: Path, kinds: Mapping[str, type]) -> dict[str, _Column]:
    """The columns named in `kinds`, of a CSV, TSV (also .gz) or Parquet file.

    Args:
        path: its ending says which.
        kinds: column -> float, str, bool or int, what its cells are.

    Raises:
        InvalidParameter: another ending.
        InvalidData: a column is missing, or holds missing values or other things; no value is named.
        DataUnavailable: the file is not there or damaged.
        MissingExtra: Parquet and no pyarrow.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    compressed = suffixes[-1:] == [".gz"]
    ending = suffixes[-2 if compressed else -1] if len(suffixes) > compressed else ""
    try:
        if ending == ".parquet" and not compressed:
            return _read_parquet(path, kinds)
        if ending in _DELIMITERS:
            opener = cast("Callable[..., IO[str]]", gzip.open if compressed else open)
            with opener(path, mode="rt", encoding="utf-8-sig", newline="") as lines:
                return _read_delimited(lines, kinds, _DELIMITERS[ending])
    except UnicodeDecodeError:
        raise InvalidData(f"{path.name} is not UTF-8 text: convert it first") from None
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "damaged file"
        raise DataUnavailable(f"{path.name} cannot be read: {reason}") from None
    raise InvalidParameter(f"{path.name}: expected a file ending in .csv, .tsv (also .gz) or .parquet")


def _read_delimited(lines: IO[str], kinds: Mapping[str, type], delimiter: str) -> dict[str, _Column]:
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    try:
        header = [cell.strip() for cell in next(reader, [])]
        _check_header(header, kinds)
        rows = []
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise InvalidData(
                    f"line {reader.line_num} has {len(row)} cells, the line of names has {len(header)}"
                )
            rows.append(row)
    except csv.Error:
        raise InvalidData(f"line {reader.line_num} is not well-formed: check its quotes") from None
    places = {name: header.index(name) for name in kinds}
    return {
        name: _parse([row[place].strip() for row in rows], kinds[name], name)
        for name, place in places.items()
    }


_TRUTH = {"true": True, "false": False, "True": True, "False": False}


def _parse(cells: list[str], kind: type, name: str) -> _Column:
    if any(not cell for cell in cells):
        raise InvalidData(
            f"column {name!r} has missing values: drop these rows, or fill them with a constant"
        )
    try:
        if kind is float:
            return np.array([float(cell) for cell in cells], dtype=np.float64)
        parsed = np.empty(len(cells), dtype=np.object_)
        parsed[:] = [_TRUTH[cell] for cell in cells] if kind is bool else [kind(cell) for cell in cells]
    except (ValueError, KeyError):
        raise InvalidData(f"column {name!r} has cells that are no {kind.__name__}") from None
    return parsed


def _read_parquet(path: Path, kinds: Mapping[str, type]) -> dict[str, _Column]:
    try:
        from pyarrow import ArrowInvalid
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise MissingExtra("Parquet tables need pyarrow: install dpbandits[report]") from error
    try:
        file = ParquetFile(path)
        _check_header(list(file.schema_arrow.names), kinds)
        table = file.read(columns=list(kinds))
    except ArrowInvalid:
        raise DataUnavailable(f"{path.name} cannot be read: not a Parquet file") from None
    columns = {}
    for name in kinds:
        cells = np.empty(table.num_rows, dtype=np.object_)
        cells[:] = table.column(name).to_pylist()
        columns[name] = cells
    return columns


def _check_header(header: list[str], kinds: Mapping[str, type]) -> None:
    if len(set(header)) != len(header):
        raise InvalidData("the table names a column twice")
    missing = [name for name in kinds if name not in header]
    if missing:
        raise InvalidData(f"the table lacks the declared columns {missing}")
