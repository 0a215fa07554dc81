"""Synthetic worlds and tables for choosing constants of kinds of release. No page shows their results.

A name is FAMILY-COLUMNS, or FAMILY-COLUMNS-CROWD. Functions of all families are scaled to [.1, .9].

| family | function of a point |
|---|---|
| `waves` | twelve cosines, frequencies of a Matern kernel of smoothness 3/2: rougher than policies believe |
| `slopes` | one soft step across a random direction |
| `cones` | the highest of four cones |
| `plateaus` | one of six levels, that of the nearest of six places |

| crowd | who comes |
|---|---|
| none | 25 uniform candidates |
| `rare` | 25 candidates, one among the best twentieth of the box, the others from its lower 70% |
| `few` | 5 uniform candidates |
| `fixed` | the same twelve points every round |

Tables of people have such names too, FAMILY-COLUMNS or FAMILY-COLUMNS-KIND. Columns are ranges and
categories, skewed, and for some people one repeats the one before it. Half of them do not matter, and three
to five arms differ by what their family says:

| family | expected reward of an arm |
|---|---|
| `steps` | a step in each column |
| `clauses` | more, or less, for people for whom two columns lie in an interval: four such clauses |
| `classes` | that of one of four soft classes of people |
| `odds` | a soft step of a sum over columns and of one product of two |
| `regions` | that of the nearest of twelve places, by two columns like longitude and latitude |
| `nothing` | the same for everybody |
| `lone` | one of five levels by the first column; other columns add a little |
| `bands` | one of two levels in each of sixteen parts of unequal width, of each column |
| `kinds` | how likely a person is of the arm's kind; a kind has one to three small clusters |
| `forest` | the sum of three trees of depth three, with cuts at random columns |
| `products` | a linear function and three products of two columns |
| `corners` | more, or less, beyond a cut of each of two columns: four such corners |

In `regions` people live in towns along a slanted coast, so most of the box is empty. In `kinds` people live
in the clusters. All columns of `bands` and `kinds` are ranges.

With `-one` one arm is best for nearly everybody. With `-wide` numbers fill a twenty-fifth of their declared
range. With `-many` there are `NOTHING` more columns, which say nothing.
"""

from dataclasses import dataclass, replace

import numpy as np

from dpbandits.domains import Box
from dpbandits.lab.worlds import FunctionBandit
from dpbandits.lab.worlds.functions import UniformCandidates
from dpbandits.policy.coins import PublicCoins
from reproduction.changing import Changing
from reproduction.studies.tables_of_people import People

FAMILIES = ("waves", "slopes", "cones", "plateaus")
CROWDS = ("rare", "few", "fixed")
TABLES = ("steps", "clauses", "classes", "odds", "regions", "nothing", "lone", "bands", "kinds")
TABLES += ("forest", "products", "corners")
ANOTHER = 500_000
"""Seeds between a world and what it becomes."""
NOTHING, FILLED = 15, 0.04
"""Columns of a `-many` table that say nothing, and the share of a `-wide` table's ranges that people fill."""
DESIGN = 4096
"""Uniform points that a function is scaled on, and that `rare` crowds are taken from."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """A function of a family in a box of several columns, before and after it is scaled."""

    family: str
    coins: PublicCoins
    dim: int
    low: float = 0.0
    high: float = 1.0

    def __call__(self, points: np.ndarray, /) -> np.ndarray:
        own = getattr(self, self.family)(points)
        return 0.1 + 0.8 * np.clip((own - self.low) / (self.high - self.low), 0.0, 1.0)

    def scaled(self, design: np.ndarray) -> "Drawn":
        own = getattr(self, self.family)(design)
        return Drawn(self.family, self.coins, self.dim, float(own.min()), float(own.max()))

    def uniforms(self, what: str, rows: int, columns: int) -> np.ndarray:
        return self.coins.uniform(f"tuning/{what}", 0, rows, columns)

    def waves(self, points: np.ndarray) -> np.ndarray:
        normals = self.coins.normal("tuning/waves", 0, 12, self.dim + 4)
        heavy = np.sqrt((normals[:, -3:] ** 2).mean(axis=1))
        frequencies = normals[:, : self.dim] / heavy[:, None] / (0.3 * self.dim**0.5)
        angles = points @ frequencies.T + 2.0 * np.pi * self.uniforms("angles", 12, 1)[:, 0]
        return np.cos(angles) @ normals[:, self.dim]

    def slopes(self, points: np.ndarray) -> np.ndarray:
        normals = self.coins.normal("tuning/slopes", 0, 1, self.dim + 1)[0]
        direction = normals[:-1] / np.linalg.norm(normals[:-1])
        return np.tanh(5.0 * ((points - 0.5) @ direction - 0.15 * normals[-1]))

    def cones(self, points: np.ndarray) -> np.ndarray:
        drawn = self.uniforms("cones", 4, self.dim + 1)
        heights = 0.4 + 0.6 * drawn[:, -1]
        far = np.linalg.norm(points[..., None, :] - drawn[:, :-1], axis=-1) / (0.4 * self.dim**0.5)
        return (heights * np.clip(1.0 - far, 0.0, 1.0)).max(axis=-1)

    def plateaus(self, points: np.ndarray) -> np.ndarray:
        drawn = self.uniforms("plateaus", 6, self.dim + 1)
        return drawn[((points[..., None, :] - drawn[:, :-1]) ** 2).sum(axis=-1).argmin(axis=-1), -1]


@dataclass(frozen=True, eq=False)
class Crowd:
    """Decision sets that are no uniform ones: rows of `design`, best first."""

    name: str
    design: np.ndarray

    def __call__(self, coins: PublicCoins, start: int, stop: int, /) -> np.ndarray:
        rounds, last = stop - start, len(self.design) - 1
        if self.name == "fixed":
            rows = (coins.uniform("tuning/fixed", 0, 1, 12) * last).astype(np.int64)
            return np.repeat(self.design[rows], rounds, axis=0)
        drawn = coins.uniform("tuning/rare", start, stop, 26)
        rows = ((0.3 + 0.7 * drawn[:, :25]) * last).astype(np.int64)
        place = (drawn[:, 25] * 25).astype(np.int64)
        own = np.arange(rounds)
        rows[own, place] = ((rows[own, place] / last - 0.3) / 0.7 * 0.05 * last).astype(np.int64)
        return self.design[rows]


def tuning_world(name: str, horizon: int, seed: int) -> FunctionBandit:
    """The world of this name under a seed."""
    family, dim, crowd = (*name.split("-"), "")[:3]
    coins, box = PublicCoins(seed), Box(low=np.zeros(int(dim)), high=np.ones(int(dim)))
    design = coins.uniform("tuning/design", 0, DESIGN, box.dim)
    mean = Drawn(family, coins, box.dim).scaled(design)
    count = {"few": 5, "fixed": 12}.get(crowd, 25)
    ranked = design[np.argsort(-mean(design), kind="stable")]
    law = (
        Crowd(crowd, ranked)
        if crowd in ("rare", "fixed")
        else UniformCandidates(domain=box, n_candidates=count)
    )
    return FunctionBandit(
        name=name, domain=box, mean=mean, candidates=law, n_candidates=count, horizon=horizon, seed=seed
    )


def changing_world(name: str, horizon: int, seed: int) -> Changing:
    """One that becomes another of its family at half time."""
    before, after = (tuning_world(name, horizon, own) for own in (seed, seed + ANOTHER))
    return Changing(
        before=before, after=replace(before, mean=after.mean), begin=horizon // 2, end=horizon // 2
    )


def tuning_table(name: str, rows: int, seed: int) -> People:
    """The table of this name under a seed."""
    family, columns, kind = (*name.split("-"), "")[:3]
    rng, d = np.random.default_rng([seed, TABLES.index(family), int(columns)]), int(columns)
    arms, categories = int(rng.integers(3, 6)), rng.integers(2, 7, d) * (rng.random(d) < 0.4)
    unit = rng.random((rows, d)) ** rng.choice([0.5, 1.0, 2.0], d)
    unit[:, 1:] = np.where(rng.random((rows, d - 1)) < 0.3, unit[:, :-1], unit[:, 1:])
    if family == "regions":
        unit[:, :2], categories[:2] = _coast(rows, rng), 0
    if family in ("bands", "kinds"):
        categories[:] = 0
    if family == "kinds":
        unit, means = _kinds(rows, d, arms, rng)
    codes = np.floor(unit * categories)
    contexts = np.where(categories > 0, codes, unit)
    matter = 2 if family == "regions" else (d + 1) // 2
    x = np.where(categories > 0, (codes + 0.5) / np.maximum(categories, 1), unit)[:, :matter]
    if family != "kinds":
        score = globals()[f"_{family}"](x, arms, rng)
        score -= score.mean(axis=0)
        means = 0.5 + 0.12 * score / max(score.std(), 1e-9) + rng.normal(0.0, 0.03, arms)
    if kind == "one":
        means = 0.45 + 0.3 * (means - 0.5) + 0.3 * (np.arange(arms) == 0)
    means = np.clip(means, 0.02, 0.98)
    paid = (rng.random((rows, arms)) < means).astype(np.uint8)
    if kind == "wide":
        contexts = np.where(categories > 0, contexts, 0.1 + FILLED * contexts)
    if kind == "many":
        more = np.where(rng.random(NOTHING) < 0.8, rng.integers(2, 5, NOTHING), 0)
        drawn = rng.random((rows, NOTHING)) ** rng.choice([0.5, 1.0, 2.0], NOTHING)
        contexts = np.hstack([contexts, np.where(more > 0, np.floor(drawn * more), drawn)])
        categories = np.concatenate([categories, more])
        order = rng.permutation(len(categories))
        contexts, categories = contexts[:, order], categories[order]
    return People(contexts, paid, tuple(categories.tolist()), means)


def _steps(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    above = x > rng.uniform(0.2, 0.8, x.shape[1])
    return (2.0 * above - 1.0) @ rng.normal(size=(x.shape[1], arms))


def _clauses(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    pairs = rng.integers(0, x.shape[1], (4, 2))
    inside = np.abs(x[:, pairs] - rng.random((4, 2))) < 0.35
    return inside.all(axis=2) @ rng.normal(size=(4, arms))


def _classes(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    centres = rng.random((4, x.shape[1]))
    near = np.exp(-12.0 * ((x[:, None] - centres) ** 2).mean(axis=2))
    return near / near.sum(axis=1, keepdims=True) @ rng.normal(size=(4, arms))


def _odds(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    centred = x - 0.5
    product = 4.0 * centred[:, :1] * centred[:, -1:]
    return np.tanh(3.0 * np.hstack([centred, product]) @ rng.normal(size=(x.shape[1] + 1, arms)))


def _coast(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Places (rows, 2) of people in nine towns along a coast, a few of them between the towns."""
    along, low, high = np.sort(rng.random(9)), *np.sort(rng.uniform(0.05, 0.95, 2))
    town = rng.choice(9, rows, p=rng.dirichlet(np.ones(9)))
    where = along[town] + rng.normal(0.0, rng.uniform(0.01, 0.05, 9)[town])
    where = np.where(rng.random(rows) < 0.2, rng.random(rows), where)
    shore = low + (high - low) * where + 0.1 * np.sin(6.0 * where + rng.uniform(0.0, 6.0))
    return np.clip(np.column_stack([where, shore + rng.normal(0.0, 0.04, rows)]), 0.0, 1.0)


def _regions(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    places = x[rng.integers(0, len(x), 12)]
    nearest = ((x[:, None] - places) ** 2).sum(axis=2).argmin(axis=1)
    return rng.normal(size=(12, arms))[nearest]


def _lone(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    own = rng.normal(size=(5, arms))[np.minimum((5.0 * x[:, 0]).astype(int), 4)]
    return own + 0.15 * (x - 0.5) @ rng.normal(size=(x.shape[1], arms))


def _bands(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    ends = np.sort(rng.random((x.shape[1], 15)), axis=1)
    part = (x[:, :, None] > ends).sum(axis=2)
    high = rng.integers(0, 2, (x.shape[1], 16, arms))
    return sum(high[column, part[:, column]] for column in range(x.shape[1])).astype(float)


def _kinds(rows: int, columns: int, arms: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Places (rows, columns) of people, and how likely each is of every kind."""
    kind = np.repeat(np.arange(arms), rng.integers(1, 4, arms))
    shares = rng.dirichlet(np.full(len(kind), 2.0))
    centres = rng.uniform(0.1, 0.9, (len(kind), columns))
    sds = rng.uniform(0.02, 0.12, (len(kind), columns))
    own = rng.choice(len(kind), rows, p=shares)
    x = centres[own] + sds[own] * rng.normal(size=(rows, columns))
    logs = np.log(shares / sds.prod(axis=1)) - 0.5 * (((x[:, None] - centres) / sds) ** 2).sum(axis=2)
    likely = np.exp(logs - logs.max(axis=1, keepdims=True))
    likely /= likely.sum(axis=1, keepdims=True)
    return np.clip(x, 0.0, 1.0), likely @ np.eye(arms)[kind]


def _forest(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    score = np.zeros((len(x), arms))
    for _ in range(3):
        leaf = np.zeros(len(x), dtype=int)
        for _ in range(3):
            columns, heights = rng.integers(0, x.shape[1], 8), rng.uniform(0.25, 0.75, 8)
            cuts = np.quantile(x, heights, axis=0)[np.arange(8), columns]
            leaf = 2 * leaf + (x[np.arange(len(x)), columns[leaf]] > cuts[leaf])
        score += rng.normal(size=(8, arms))[leaf]
    return score


def _products(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    z = x - np.median(x, axis=0)
    z /= np.abs(z).max(axis=0).clip(1e-9)
    pairs = rng.integers(0, x.shape[1], (3, 2))
    return 4.0 * z[:, pairs].prod(axis=2) @ rng.normal(size=(3, arms)) + z @ rng.normal(
        0.0, 0.7, (x.shape[1], arms)
    )


def _corners(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    pairs, heights = rng.integers(0, x.shape[1], (4, 2)), rng.uniform(0.3, 0.7, 8)
    cuts = np.quantile(x, heights, axis=0)[np.arange(8), pairs.ravel()].reshape(4, 2)
    beyond = rng.choice([-1.0, 1.0], (4, 2)) * (x[:, pairs] - cuts) > 0.0
    return beyond.all(axis=2) @ rng.normal(size=(4, arms))


def _nothing(x: np.ndarray, arms: int, rng: np.random.Generator) -> np.ndarray:
    return np.zeros((len(x), arms))
