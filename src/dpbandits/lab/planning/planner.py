"""`plan`: predict the cost of privacy without data.

The planner draws worlds in which the facts hold. In each, two non-private policies and the private policies
of every trust model decide for the same users with the same random rewards. The retained uplift, relative to
the better non-private policy, gives the answer (`dpbandits.lab.planning.answers`).

The first answer comes after few worlds. It is improved until the means are precise or the time is up. If an
answer lies between two simulated epsilons, the next step simulates one between them.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._typing import FloatArray, Seed
from dpbandits.distributed import DistributedTuning
from dpbandits.errors import InvalidParameter
from dpbandits.lab.comparing.addresses import address_of
from dpbandits.lab.comparing.comparison import Trial
from dpbandits.lab.comparing.rivals import NON_PRIVATE, RIVALS
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.planning.answers import (
    OF_FACTS,
    OF_RATES,
    OF_SEGMENTS,
    OF_TABLES,
    Apart,
    Curve,
    best_of,
    predicted,
    shares_of,
)
from dpbandits.lab.planning.believed import Between
from dpbandits.lab.planning.facts import NO_ACTIONS, Facts
from dpbandits.lab.planning.plan import PrivacyPlan, TrustAnswer, reported_cells
from dpbandits.lab.study import KeptRecords, Record, run_cells
from dpbandits.lab.worlds import TableBandit
from dpbandits.privacy.calibration import LARGEST_EPSILON

__all__ = ["PlannedCell", "apart_of", "plan", "references"]

TRUSTS = ("central", "local", "distributed")
DEFAULT_TRUSTS = TRUSTS[:2]
"""Trust models of a plan that names none: without the experimental one."""

CANDIDATES = {
    "central": ("GPBandit", "PrivateRidge", "CellHistogram"),
    "local": ("Spec", "Spec smooth"),
    "distributed": ("DistributedSpec",),
}
"""Candidate policies of each trust model. The plan uses the one that earns most in the first worlds."""

_FROM_A_TENTH = (0.1, 0.3, 1.0, 3.0, 10.0)
EPSILONS = {"central": _FROM_A_TENTH, "local": (1.0, 3.0, 10.0), "distributed": _FROM_A_TENTH}
"""Epsilons that are simulated for each trust model, as far as they may be promised."""

PARTS = (10, 3, 1)
"""Divisors of the number of users, for the curve by number of users: users/10, users/3 and users."""

FIRST, STEP, MOST = 2, 2, 16
"""Number of worlds before the first answer, number between two answers, and number in all."""

_RUNS = 2
"""Number of runs in each world. The first answer uses one of them."""

PRECISION = 0.025
"""Standard error of the mean retained uplift at which no more worlds are simulated."""

_LEAST_PEOPLE = 50
_BETWEEN = 3
"""Largest number of epsilons between those of `EPSILONS` that are simulated for each trust model."""

_CLOSE = 1.25
"""Ratio of two simulated epsilons up to which no epsilon between them is simulated."""

_SHARP, _SHARP_SEGMENTS = 0.3, 0.5
"""Largest half widths of believed rates for which intervals are narrower, as shares of the effect.

`_SHARP` bounds the half width of an arm's rate, for `OF_RATES`. `_SHARP_SEGMENTS` bounds that of its rates
in segments, for `OF_SEGMENTS`. On the tuning worlds they were .08 to .25, and .12 to .4.
"""

_LEAST_TOLD = 0.15
"""Smallest gain from giving each segment of a column its best arm, for the intervals `OF_SEGMENTS`.

The gain is measured against the best arm for everybody, as a share of the effect.
"""

_SIGNAL = 3.0
"""Number of standard errors by which the mean non-private uplift must exceed zero.

Otherwise the plan says that there is nothing to learn.
"""


class PlannedCell(NamedTuple):
    """One policy at one epsilon (None without privacy) with one number of users, to simulate."""

    policy: str
    epsilon: float | None
    people: int


def references(people: int) -> tuple[PlannedCell, PlannedCell]:
    """Return the cells of the two non-private policies.

    Retained uplift is relative to the better one in each world.

    They are GP-UCB, and the recommended central policy with almost no noise. With many columns, GP-UCB may
    learn less than private policies do, so that a share of its uplift would not measure the cost of privacy.
    """
    return PlannedCell(NON_PRIVATE, None, people), PlannedCell("GPBandit", LARGEST_EPSILON, people)


@worded
def plan(
    *,
    users: int,
    facts: Facts | None = None,
    table: TableBandit | None = None,
    public: bool = False,
    target: float = 0.9,
    certainty: float = 0.9,
    epsilon: float = 10.0,
    promise: float = 1.0,
    delta: float = 1e-6,
    trusts: Sequence[str] = DEFAULT_TRUSTS,
    seconds: float | None = 60.0,
    worlds: int = MOST,
    jobs: int = 1,
    seed: Seed = FIRST_REPORT_SEED,
    cache: str | Path | None = None,
    watch: Callable[[PrivacyPlan], object] | None = None,
    **known: Any,
) -> PrivacyPlan:
    """Predict the cost of privacy for a decision from public facts alone.

    Args:
        users: Number of users to come, with one decision each; 50 or more, for two aggregators 100 or more.
        facts: Public facts. You can pass the arguments of `Facts` by name instead (`contexts=`, `arms=`,
            `effect=`, ...).
        table: Public table of similar users with the reward of every arm, instead of facts; its users are
            resampled.
        public: True states that everybody may see the table; a table is refused without it. Planning on
            private data would use the data, and there is no mechanism for that.
        target: Retained uplift to reach, as a share of the non-private uplift.
        certainty: Probability, over possible worlds, with which the target is to be reached.
        epsilon: Largest epsilon that may be promised.
        promise: Epsilon for which the number of users is computed; at most `epsilon`.
        delta: Probability with which a central guarantee may fail.
        trusts: Some of "central", "local" and "distributed" (two aggregators, experimental). The outsourced
            trust model optimises over a table's rows and gives nobody an arm, so it has no retained uplift.
        seconds: Time after which no further worlds are begun; None continues until the means are precise.
        worlds: Largest number of worlds.
        jobs: Number of processes; -1 for all cores.
        seed: Seed of the first world.
        cache: Path of a file of JSON lines; results that it contains for the same facts are reused.
        watch: Function that is called with every answer, including the first.

    Returns:
        The last `PrivacyPlan`. For the same number of worlds it is the same on every machine.

    Raises:
        InvalidParameter: Numbers are out of range, facts are missing, the table is not declared public,
            there are actions, for which no plan is made, or the columns need more cells than two aggregators
            may have.
        MissingExtra: joblib is not installed and jobs is not 1.

    Example:
        >>> import dpbandits as dpb
        >>> found = dpb.lab.plan(
        ...     contexts=dpb.Schema(age=dpb.Range(18, 90)), arms=["mail", "call"], users=200, effect=0.1,
        ...     epsilon=0.1, promise=0.1, trusts=["central"], worlds=2)
        >>> found.answers["central"].reachable
        False
    """
    if _checks.number(epsilon, name="epsilon") > LARGEST_EPSILON:
        raise InvalidParameter(
            f"epsilon is {epsilon:g}, expected at most {LARGEST_EPSILON:g}: a larger one protects nobody"
        )
    planner = _Planner(
        users=_checks.integer(users, name="users", minimum=_least_people(trusts)),
        source=_source(facts, table, known, public=public),
        target=_share(target, "target"),
        certainty=_share(certainty, "certainty"),
        epsilon=epsilon,
        promise=min(_checks.number(promise, name="promise"), epsilon),
        delta=delta,
        trusts=tuple(_checks.one_of(trust, TRUSTS, name="trusts") for trust in trusts),
        jobs=jobs,
        cache=None if cache is None else Path(cache),
    )
    if not planner.trusts or not (seconds is None or seconds >= 0):
        raise InvalidParameter("trusts, seconds: expected at least one trust model, and seconds >= 0")
    if "distributed" in planner.trusts:  # raise here, and not in the first simulated world
        reported_cells(planner.source, users=users, epsilon=planner.promise)
    return planner.answer(
        seed=seed,
        most=_checks.integer(worlds, name="worlds", minimum=2),
        until=None if seconds is None else time.monotonic() + seconds,
        watch=watch or (lambda _: None),
    )


def _least_people(trusts: Sequence[str]) -> int:
    """Return the smallest number of users of a plan; that of two aggregators is their smallest batch."""
    return max(_LEAST_PEOPLE, DistributedTuning().min_batch if "distributed" in trusts else 0)


def _share(value: float, name: str) -> float:
    if not 0.0 < _checks.number(value, name=name) < 1.0:
        raise InvalidParameter(f"{name} is {value:g}, expected a number between 0 and 1")
    return value


def _source(
    facts: Facts | None, table: Any, known: Mapping[str, Any], *, public: bool
) -> "Facts | TableBandit":
    """Return the facts or the table from which worlds are drawn."""
    if "actions" in known or getattr(table, "actions", None) is not None:
        raise InvalidParameter(NO_ACTIONS)
    if table is None:
        if (facts is None) == (not known):
            raise InvalidParameter("facts: pass facts=Facts(...), or contexts=, arms= and effect=, not both")
        return Facts(**known) if facts is None else _checks.an(facts, Facts, name="facts", pass_="Facts(...)")
    if facts is not None or known:
        raise InvalidParameter("table: expected a table or facts, not both: leave the facts out")
    if public is not True:
        raise InvalidParameter(
            "table: planning on a table uses its data, and no private mechanism for that is built: pass "
            "public=True if everybody may see this table, or plan from facts"
        )
    made: TableBandit = _checks.an(table, TableBandit, name="table", pass_="lab.worlds.table_from_toml(...)")
    if made.persons is not None:
        raise InvalidParameter("table: expected one row per user (a table without a column of users)")
    return made


@dataclass(frozen=True)
class _Worlds:
    """Function (seed, people) -> world, for `Trial.make_world`."""

    source: Facts | TableBandit = field(compare=False)
    address: str

    def __call__(self, seed: Seed, people: int | None) -> TableBandit:
        return _drawn(self, seed, people or 1)


@lru_cache(maxsize=4)
def _drawn(worlds: _Worlds, seed: Seed, people: int) -> TableBandit:
    if isinstance(worlds.source, Facts):
        return worlds.source.world(seed // _RUNS, people, crowd=seed % _RUNS)
    return _resampled(worlds.source, seed, people)


def apart_of(source: Facts | TableBandit) -> Apart:
    """Return the typical spread between worlds of this source. Rates with wide bounds count as unknown."""
    if not isinstance(source, Facts):
        return OF_TABLES
    effect = sum(source.beliefs["effect"])
    if _widest(source.believed_rates or ()) > _SHARP * effect:
        return OF_FACTS
    close = (
        one.told >= 0.5 * _LEAST_TOLD * effect
        and _widest([cell for row in one.rates or () for cell in row]) <= _SHARP_SEGMENTS * effect
        for one in source.rated
    )
    return OF_SEGMENTS if any(close) else OF_RATES


def _widest(beliefs: Sequence[Between]) -> float:
    """Return the largest width of the bounds of these beliefs, or infinity if there are none."""
    return max((one.high - one.low for one in beliefs), default=np.inf)


def _resampled(table: TableBandit, seed: Seed, people: int) -> TableBandit:
    """Return a table of `people` users drawn from a table."""
    rng, n = np.random.default_rng([seed, 0]), len(table.contexts)
    rows = rng.permutation(n)[:people] if people <= n else rng.integers(n, size=people)
    expected = None if table.expected is None else table.expected[rows]
    drawn: dict[str, Any] = {"contexts": table.contexts[rows], "reward_table": table.reward_table[rows]}
    drawn |= {"expected": expected, "persons": None, "rounds_per_user": 1, "ordered": True}
    return replace(table, **drawn, seed=seed, horizon=people)


@dataclass(eq=False, kw_only=True)
class _Planner:
    """State of one plan: the cells to simulate, and the results so far."""

    users: int
    source: Facts | TableBandit
    target: float
    certainty: float
    epsilon: float
    promise: float
    delta: float
    trusts: tuple[str, ...]
    jobs: int
    cache: Path | None

    def __post_init__(self) -> None:
        users, source, ends = self.users, self.source, {self.epsilon, self.promise}
        self._kept = KeptRecords(self.cache)
        self.make_world = _Worlds(
            source, address_of(source.to_config() if isinstance(source, Facts) else source)
        )
        least = _least_people(self.trusts)
        self.sizes = sorted({users // part for part in PARTS if users // part >= least} | {users})
        self.grids = {
            trust: sorted({one for one in EPSILONS[trust] if one < self.epsilon} | ends)
            for trust in self.trusts
        }
        self.policies: dict[str, str] = {}
        self._records: dict[PlannedCell, dict[Seed, Record]] = {}
        self._tried = dict.fromkeys(self.trusts, 0)

    # -- simulating -----------------------------------------------------------------------------------

    def answer(
        self, *, seed: Seed, most: int, until: float | None, watch: Callable[[PrivacyPlan], object]
    ) -> PrivacyPlan:
        """Improve the answer until it is precise, or worlds or time run out; return the last answer."""
        began = time.monotonic()
        found = self._found(began, (), curves={})
        if isinstance(self.source, Facts) and self.source.nothing_to_learn:
            watch(found)
            return found
        steps = [(FIRST, 1), *((count, _RUNS) for count in range(FIRST, most + STEP, STEP))]
        for count, runs in steps:
            worlds = range(seed, seed + min(most, count))
            seeds = [_RUNS * world + run for world in worlds for run in range(runs)]
            if not self.policies:
                self._choose(seeds)
            self._simulate(self._places(), seeds)
            curves = self._curves(seeds, runs)
            found = self._found(began, seeds, curves=curves)
            watch(found)
            if until is not None and time.monotonic() >= until:
                break
            if not self._look_between(curves) and self._known(curves):
                break
        return found

    def _choose(self, seeds: Sequence[Seed]) -> None:
        """Set each trust model's policy: the candidate that earns most in the first worlds."""
        options = [
            PlannedCell(name, self.promise, self.users) for trust in self.trusts for name in CANDIDATES[trust]
        ]
        self._simulate(options, seeds)
        for trust in self.trusts:
            earned = {
                place.policy: self._values(place, "reward", seeds).mean()
                for place in options
                if place.policy in CANDIDATES[trust]
            }
            self.policies[trust] = max(earned, key=lambda name: earned[name])

    def _places(self) -> list[PlannedCell]:
        along, sizes = zip(*(self._places_of(trust) for trust in self.trusts), strict=True)
        whole = (references(size) for size in self.sizes)
        return list(dict.fromkeys(chain.from_iterable([*whole, *along, *sizes])))

    def _places_of(self, trust: str) -> tuple[list[PlannedCell], list[PlannedCell]]:
        policy = self.policies[trust]
        along = [PlannedCell(policy, one, self.users) for one in self.grids[trust]]
        return along, [PlannedCell(policy, self.promise, size) for size in self.sizes]

    def _simulate(self, places: Iterable[PlannedCell], seeds: Sequence[Seed]) -> None:
        wanted = list(places)
        for seed in seeds:
            missing = [place for place in wanted if seed not in self._records.get(place, {})]
            cells = [self._trial(place) for place in missing]
            runs = run_cells(cells, seeds=[seed], path=self._kept, jobs=self.jobs)
            for place, one in zip(missing, runs, strict=True):
                self._records.setdefault(place, {})[seed] = one.records[0]

    def _trial(self, place: PlannedCell) -> Trial:
        rival = RIVALS[place.policy]
        promise = None if place.epsilon is None else rival.promise(place.epsilon, self.delta)
        return Trial(
            world="planned",
            policy=place.policy,
            trust=rival.trust,
            epsilon=place.epsilon,
            delta=getattr(promise, "delta", None),
            people=place.people,
            make_world=self.make_world,
            make_policy=rival.make,
            promise=promise,
        )

    def _values(self, place: PlannedCell, name: str, seeds: Sequence[Seed], runs: int = 1) -> FloatArray:
        """Return the field `name` of a cell's records, shape (W, runs) for W worlds."""
        found = [self._records[place][seed][name] for seed in seeds]
        return np.array(found, dtype=np.float64).reshape(-1, runs)

    # -- answering ------------------------------------------------------------------------------------

    def _curves(self, seeds: Sequence[Seed], runs: int) -> dict[str, tuple[Curve | None, Curve | None]]:
        """Return each trust model's curves by epsilon and by number of users.

        A curve is None if nothing is learned even without privacy.
        """
        found = {}
        for trust in self.trusts:
            along, sizes = self._places_of(trust)
            found[trust] = (
                self._curve("epsilon", self.grids[trust], along, seeds, runs),
                self._curve("people", self.sizes, sizes, seeds, runs),
            )
        return found

    def _curve(
        self,
        along: Any,
        values: Sequence[float],
        places: Sequence[PlannedCell],
        seeds: Sequence[Seed],
        runs: int,
    ) -> Curve | None:
        kept, shares = [], []
        for value, place in zip(values, places, strict=True):
            whole = best_of([self._values(one, "reward", seeds, runs) for one in references(place.people)])
            floor = self._values(place, "uniform", seeds, runs)
            uplift = (whole - floor).mean(axis=1)
            if uplift.mean() > max(0.0, _SIGNAL * uplift.std(ddof=1) / np.sqrt(len(uplift))):
                kept.append(value)
                shares.append(shares_of(self._values(place, "reward", seeds, runs), whole, floor))
        if not kept:
            return None
        return predicted(
            along, kept, np.stack(shares, axis=2), certainty=self.certainty, apart=apart_of(self.source)
        )

    def _look_between(self, curves: Mapping[str, tuple[Curve | None, Curve | None]]) -> bool:
        """Add an epsilon to the grid where the answer lies between two epsilons that are far apart."""
        found = False
        for trust, (curve, _) in curves.items():
            place = None if curve is None else curve.first(self.target)
            if curve is None or place is None or self._tried[trust] >= _BETWEEN:
                continue
            guess = float(f"{place:.2g}")
            below = [one for one in curve.places if one < guess]
            above = [one for one in curve.places if one >= guess]
            if below and above and above[0] / below[-1] > _CLOSE and guess < above[0]:
                self._tried[trust] += 1
                self.grids[trust] = sorted({*self.grids[trust], guess})
                found = True
        return found

    def _known(self, curves: Mapping[str, tuple[Curve | None, Curve | None]]) -> bool:
        """Return True if the standard error of every mean is at most `PRECISION`."""
        return all(
            one is not None and max(one.error) <= PRECISION for pair in curves.values() for one in pair
        )

    def _found(
        self, began: float, seeds: Sequence[Seed], *, curves: Mapping[str, tuple[Curve | None, Curve | None]]
    ) -> PrivacyPlan:
        unknown = None, None
        answers = {trust: self._answer(trust, seeds, *curves.get(trust, unknown)) for trust in self.trusts}
        return PrivacyPlan(
            source=self.source,
            users=self.users,
            target=self.target,
            certainty=self.certainty,
            largest_epsilon=self.epsilon,
            promise=self.promise,
            delta=self.delta,
            answers=answers,
            worlds=len({seed // _RUNS for seed in seeds}),
            seconds=time.monotonic() - began,
        )

    def _answer(
        self, trust: str, seeds: Sequence[Seed], along: Curve | None, sizes: Curve | None
    ) -> TrustAnswer:
        epsilon = None if along is None else along.first(self.target)
        people = None if sizes is None else sizes.first(self.target)
        grid = self.grids.get(trust, []) if seeds else []
        at = min(
            (one for one in grid if epsilon is not None and one >= epsilon), default=max(grid, default=None)
        )
        return TrustAnswer(
            trust=trust,
            policy=self.policies.get(trust, CANDIDATES[trust][0]),
            epsilon=epsilon,
            people=None if people is None else int(np.ceil(people)),
            along_epsilon=along,
            along_people=sizes,
            better_after=None if at is None else self._better_after(trust, at, seeds),
            better_at=at,
        )

    def _better_after(self, trust: str, epsilon: float, seeds: Sequence[Seed]) -> int | None:
        """Return the number of users after which half of the runs decide better than the best fixed arm."""
        held = self._records[PlannedCell(self.policies[trust], epsilon, self.users)]
        firsts = []
        for record in (held[seed] for seed in seeds):
            # number of users after which every later part of the run earns at least as much as the fixed arm
            below = np.flatnonzero(np.array(record["parts"]) < record["fixed"])
            ends = [0.0, *record["ends"][:-1], np.inf]
            firsts.append(ends[int(below[-1]) + 1] if len(below) else 0.0)
        middle = float(np.median(firsts))
        return int(middle) if np.isfinite(middle) else None
