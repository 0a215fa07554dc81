"""A table of people who do not exist, drawn from a law that is written out below."""

import numpy as np

from dpbandits import _checks
from dpbandits._typing import Seed
from dpbandits.lab.worlds.tables import TableBandit, codes_from_cuts
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Categories, Range, Schema

__all__ = ["INCOME_ARMS", "INCOME_CUTS", "INCOME_SCHEMA", "synthetic_income"]

INCOME_SCHEMA = Schema(
    age=Range(16, 64),
    education=Range(6, 20),
    gender=Categories(["female", "male"]),
    region=Categories(["Midwest", "Northeast", "South", "West"]),
)
"""Years of age, years of education, gender and census region."""

INCOME_CUTS = (10.0, 16.0, 24.0)
"""Hourly earnings in US dollars that part the four arms."""

INCOME_ARMS = ("under 10", "10 to 16", "16 to 24", "24 and over")

_EDUCATION_YEARS = np.array([6, 8, 10, 12, 14, 16, 18, 20])
_EDUCATION_SHARES = np.array([0.03, 0.03, 0.06, 0.32, 0.26, 0.20, 0.07, 0.03])
_REGION_SHARES = np.array([0.25, 0.20, 0.32, 0.23])
_REGION_EFFECTS = np.array([0.0, 0.08, -0.04, 0.05])


def synthetic_income(*, seed: Seed, horizon: int | None = None, n_rows: int = 60_000) -> TableBandit:
    """Guess a made-up worker's bracket of hourly earnings, as `cps_income` does with real ones.

    The law, chosen by hand in the form of a textbook wage equation, nothing of it estimated:
    age uniform on 16..64; years of education 6, 8, 10, 12, 14, 16, 18, 20 with probabilities .03, .03,
    .06, .32, .26, .20, .07, .03; gender even; regions Midwest, Northeast, South, West with .25, .20, .32,
    .23; all independent. Log hourly earnings are normal with standard deviation .45 around
    2.78 + .09 (education - 13) + .012 (age - 40) - .0006 (age - 40)^2 + .1 (male) - .1 (female)
    + (0, .08, -.04, .05 by region), cut at 10, 16 and 24.

    Args:
        seed: keys the people, and their order.
        horizon: rounds; all rows by default.
        n_rows: size of the table.
    """
    _checks.integer(seed, name="seed", minimum=0)
    _checks.integer(n_rows, name="n_rows")
    coins = PublicCoins(seed)
    unit = coins.uniform("environment/synthetic-income", 0, n_rows, 4)
    age = 16 + np.floor(49 * unit[:, 0])
    education = _EDUCATION_YEARS[np.searchsorted(np.cumsum(_EDUCATION_SHARES)[:-1], unit[:, 1], side="right")]
    male = unit[:, 2] < 0.5
    region = np.searchsorted(np.cumsum(_REGION_SHARES)[:-1], unit[:, 3], side="right")
    expected = (
        2.78
        + 0.09 * (education - 13)
        + 0.012 * (age - 40)
        - 0.0006 * (age - 40) ** 2
        + np.where(male, 0.1, -0.1)
        + _REGION_EFFECTS[region]
    )
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
