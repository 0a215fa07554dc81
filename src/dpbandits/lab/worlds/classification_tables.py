"""Real tables for `ClassificationTable`: what is arm, context and public column in each.

| name | arms | context | auxiliary people, by a column that counts as public |
|---|---|---|---|
| `adult` | income up to or above 50,000 US dollars | age, education, hours, married | no private employer |
| `cps-income` | four brackets of hourly earnings | age, education, gender | Northeast or West |
| `credit-cards` | late in September or not | late in April, bill of April | 40 years and older |
| `taxi` | tip or no tip | distance, hour, local trip | January and February |

Where `adult` names no employer, the person counts as auxiliary.

Ma2025 reports on Adult, Jobs and Taxi, and its public code names Jester too. Its Jobs table could not be had;
`cps-income`, also people and their pay, stands in for it. `credit-cards` is added. Bounds below are public
constants written by hand, none is computed from a table.

`adult` is read from files (UCI Census Income: adult.data.gz, adult.test.gz, CC BY 4.0) in a folder that the
user names, by argument or by DPBANDITS_DATA, or fetched from OpenML where the user asks for it.
"""

import csv
import gzip
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import IntArray
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.lab.worlds.classification import ClassificationTable
from dpbandits.lab.worlds.datasets import cps_earnings, credit_card_bills, taxi_trips
from dpbandits.lab.worlds.synthetic import INCOME_ARMS, INCOME_CUTS
from dpbandits.lab.worlds.tables import codes_from_cuts
from dpbandits.tables import Categories, Range, Schema

__all__ = ["CLASSIFICATION_TABLES", "classification_table"]

CLASSIFICATION_TABLES = ("adult", "cps-income", "credit-cards", "taxi")
"""Names that `classification_table` knows."""

_ADULT_FILES = ("adult.data.gz", "adult.test.gz")
_ADULT_COLUMNS = ("age", "education-num", "marital-status", "hours-per-week", "workclass", "classification")
_ADULT_CONTEXT: dict[str, Range | Categories] = {
    "age": Range(17, 90),
    "education-num": Range(1, 16),
    "hours-per-week": Range(1, 99),
    "married": Categories(["no", "yes"]),
}
_ADULT_SCHEMA = Schema(**_ADULT_CONTEXT)
_CPS_SCHEMA = Schema(age=Range(16, 64), education=Range(6, 20), gender=Categories(["female", "male"]))
_CREDIT_SCHEMA = Schema(LateApril=Categories([False, True]), BillApril=Range(0, 200, clip=True))
_TAXI_SCHEMA = Schema(distance=Range(0, 25, clip=True), hour=Range(0, 23), local=Categories(["no", "yes"]))


def classification_table(
    name: str, *, path: str | os.PathLike[str] | None = None, fetch: bool = False
) -> ClassificationTable:
    """A real table by name.

    Args:
        name: one of `CLASSIFICATION_TABLES`.
        path: folder of `adult`'s files; by default the environment variable DPBANDITS_DATA.
        fetch: ask OpenML for `adult` over the network instead (scikit-learn's `fetch_openml`).

    Raises:
        InvalidParameter: an unknown name.
        DataUnavailable: no files of `adult`, or a table of another form.
        MissingExtra: the package that holds the table is not installed.
    """
    if name not in CLASSIFICATION_TABLES:
        raise InvalidParameter(f"no table is called {name!r}: expected one of {CLASSIFICATION_TABLES}")
    try:
        if name == "adult":
            if fetch:
                return _adult(_fetched())
            folder = path if path is not None else os.environ.get("DPBANDITS_DATA")
            if folder is None:
                raise DataUnavailable(
                    f"adult: pass the folder of {' and '.join(_ADULT_FILES)}, set DPBANDITS_DATA, "
                    "or pass fetch=True to ask OpenML"
                )
            return _adult_from(str(folder))
        return {"cps-income": _cps, "credit-cards": _credit_cards, "taxi": _taxi}[name]()
    except (InvalidData, KeyError) as error:
        raise DataUnavailable(f"the table {name!r} does not have the form that is written here") from error


@lru_cache(maxsize=1)
def _adult_from(folder: str) -> ClassificationTable:
    rows: list[list[str]] = []
    for file in _ADULT_FILES:
        try:
            with gzip.open(Path(folder) / file, "rt", encoding="utf-8", newline="") as lines:
                reader = csv.reader(lines, skipinitialspace=True)
                header = [cell.strip() for cell in next(reader, [])]
                places = [header.index(column) for column in _ADULT_COLUMNS]
                rows += [[row[place].strip() for place in places] for row in reader if row]
        except OSError as error:
            raise DataUnavailable(f"adult: {file} cannot be read in the folder given") from error
        except (ValueError, IndexError) as error:
            raise InvalidData(f"{file} lacks a column") from error
    cells = np.array(rows, dtype=np.str_)
    return _adult(dict(zip(_ADULT_COLUMNS, cells.T, strict=True)))


def _fetched() -> dict[str, NDArray[Any]]:
    try:
        from sklearn.datasets import fetch_openml
    except ImportError as error:
        raise MissingExtra("fetch needs scikit-learn: install dpbandits[report]") from error
    frame = fetch_openml("adult", version=2, as_frame=True, parser="auto").frame
    return {
        column: frame["class" if column == "classification" else column].to_numpy(dtype=object)
        for column in _ADULT_COLUMNS
    }


def _adult(table: dict[str, NDArray[Any]]) -> ClassificationTable:
    married = [
        str(cell).startswith("Married") and "absent" not in str(cell) for cell in table["marital-status"]
    ]
    try:
        numbers = {name: table[name].astype(np.float64) for name in _ADULT_SCHEMA.names if name in table}
    except ValueError:
        raise InvalidData("adult has numbers of another form") from None
    return ClassificationTable.from_frame(
        {**numbers, "married": np.where(married, "yes", "no")},
        schema=_ADULT_SCHEMA,
        # the test file writes a full stop behind the class
        labels=_codes([str(cell).rstrip(".") for cell in table["classification"]], ("<=50K", ">50K")),
        arms=("up to 50,000", "above 50,000"),
        auxiliary=[str(cell) != "Private" for cell in table["workclass"]],
        name="adult",
        split="no private employer",
    )


@lru_cache(maxsize=1)
def _cps() -> ClassificationTable:
    frame = cps_earnings()
    return ClassificationTable.from_frame(
        frame,
        schema=_CPS_SCHEMA,
        labels=codes_from_cuts(frame["earnings"], INCOME_CUTS, name="earnings"),
        arms=INCOME_ARMS,
        auxiliary=[str(cell) in ("Northeast", "West") for cell in frame["region"]],
        name="cps-income",
        split="Northeast or West",
    )


@lru_cache(maxsize=1)
def _credit_cards() -> ClassificationTable:
    frame = credit_card_bills()
    return ClassificationTable.from_frame(
        frame,
        schema=_CREDIT_SCHEMA,
        labels=_codes(frame["LateSept"].tolist(), (False, True)),
        arms=("in time", "late"),
        auxiliary=frame["AGE"] >= 40,
        name="credit-cards",
        split="40 years and older",
    )


@lru_cache(maxsize=1)
def _taxi() -> ClassificationTable:
    frame = taxi_trips()
    return ClassificationTable.from_frame(
        frame,
        schema=_TAXI_SCHEMA,
        labels=_codes(frame["tip"].tolist(), ("no", "yes")),
        arms=("no tip", "tip"),
        auxiliary=[str(cell) in ("Jan", "Feb") for cell in frame["month"]],
        name="taxi",
        split="January and February",
    )


def _codes(cells: list[Any], classes: tuple[Any, ...]) -> IntArray:
    """Places in `classes`; the message shows no cell."""
    places = {value: place for place, value in enumerate(classes)}
    codes = np.array([places.get(cell, -1) for cell in cells], dtype=np.int64)
    if (codes < 0).any():
        raise InvalidData("the class column holds other values than those written here")
    return codes
