"""`compare`: any policies in any worlds with any guarantees, resumable, as one tidy table.

Example::

    found = lab.compare(
        {"income": lambda seed, people: lab.worlds.load("cps-income", seed=seed, horizon=people)},
        ["GPBandit", "PrivateRidge", "non-private"], promises=[0.3, 1, 3], people=[2_000, 20_000], reps=5)
    found.to_frame()          # one row a run
    found.means()             # one row a cell: means, standard errors, retained uplift
    found.tests("GPBandit")   # paired differences from one policy
    found.board("central")    # rank sums and time
    found.picture("promise")

A cell is one policy in one world with one guarantee and one number of users (`people`). It runs once for each
seed. An interrupted comparison finds earlier results by a fingerprint of the functions that make world and
policy (their arguments and source), of the guarantee, and of this package's version. The fingerprint includes
neither other functions that these functions call, nor files that a world reads: use a new folder if they have
changed.
"""

import functools
import inspect
import json
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._lazy import needing
from dpbandits._progress import watched
from dpbandits._typing import Seed
from dpbandits._version import __version__
from dpbandits.domains import Arms, Product
from dpbandits.errors import InvalidParameter, MissingExtra
from dpbandits.lab.comparing.addresses import address_of
from dpbandits.lab.comparing.rivals import NON_PRIVATE, PROMISES, RIVALS, Make, Rival, Trust
from dpbandits.lab.evaluation.runner import BANNER, RunResult, on_cluster, run
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED, report_seeds
from dpbandits.lab.evaluation.summary import mean_and_error, share_kept
from dpbandits.lab.study import Cell, Progress, Record, Row, Runs, run_cells
from dpbandits.privacy.definitions import DistributedDP, JointDP, LocalDP

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

__all__ = ["Comparison", "Trial", "compare", "trials"]

DELTA = 1e-6
"""Delta of a central guarantee for which you pass only a number, its epsilon."""

RECORDS = "records.jsonl"
"""Name of the file to which a comparison appends every run."""

_WINDOWS = 24
"""Largest number of consecutive parts of a run whose mean rewards are recorded. Later parts are longer."""

MakeWorld = Callable[..., Any]
"""Type of functions (seed, people) -> world with `people` rounds; `people` None means all its rounds."""


@dataclass(frozen=True, kw_only=True)
class Trial(Cell):
    """A cell of a comparison: one policy in one world with one guarantee and one number of rounds.

    Attributes:
        world, policy: Names in tables.
        trust: Trust model of the policy.
        epsilon, delta: Parameters of the guarantee; None without a guarantee.
        people: Number of rounds; None for all rounds of the world.
        make_world: Function (seed, people) -> world.
        make_policy: Function (world, seed, promise) -> new policy.
        promise: Guarantee that is passed to `make_policy`.
    """

    measures: ClassVar[Mapping[str, tuple[str, str | None]]] = {
        "reward": ("reward", "reward_error"),
        "seconds": ("seconds", None),
    }

    world: str
    policy: str
    trust: Trust
    epsilon: float | None
    delta: float | None
    people: int | None
    make_world: MakeWorld = field(repr=False)
    make_policy: Make = field(repr=False)
    promise: Any = field(default=None, repr=False)

    @property
    def label(self) -> Row:
        """Values that identify the cell, by column name."""
        names = ("world", "policy", "trust", "epsilon", "delta", "people")
        return {name: getattr(self, name) for name in names}

    @functools.cached_property
    def settings(self) -> Mapping[str, Any]:
        """Fingerprints of `make_world`, `make_policy` and `promise`, and the package's version."""
        made = [self.make_world, self.make_policy, self.promise]
        return {"made": [address_of(one) for one in made], "version": __version__}

    def simulate(self, seed: Seed) -> Record:
        """Run the policy once, and return the record of the run.

        A record has the columns of `Comparison.rows` and the mean reward of each part of the run.
        """
        world = self.make_world(seed, self.people)
        result = run(self.make_policy(world, seed, self.promise), world)
        has_arms = isinstance(world.domain, Product) and isinstance(world.domain.parts[-1], Arms)
        means = world.mean_rewards(0, world.horizon) if has_arms else None
        if means is not None and getattr(world, "actions", None) is not None:
            means = world.values(means)
        fixed = None if means is None else float(means.mean(axis=0).max())
        edges = _edges(result.n_rounds)
        return {
            "rounds": result.n_rounds,
            "reward": result.mean_reward,
            "uniform": None if result.uniform is None else float(result.uniform.mean()),
            "fixed": fixed,
            "regret": None if result.regret is None else float(result.regret.sum()),
            "seconds": result.seconds,
            "ends": edges[1:],
            "parts": _parts(result, edges),
        }


def _edges(rounds: int) -> list[int]:
    inner = np.geomspace(max(1.0, rounds / 200.0), rounds, _WINDOWS).round().astype(int)
    return [0, *dict.fromkeys(inner.tolist())]


def _parts(result: RunResult, edges: Sequence[int]) -> list[float]:
    earned = result.rewards if result.expected is None else result.expected
    return [float(earned[a:b].mean()) for a, b in pairwise(edges)]


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Results of a comparison. They are an evaluation on public or simulated data, not a private release.

    Attributes:
        runs: Cells with their records, one for each seed.
        banner: Text that says that this is not a private release.
    """

    runs: Sequence[Runs]
    banner: str = field(default=BANNER, init=False)

    def __repr__(self) -> str:
        return f"Comparison(cells={len(self.runs)}, reps={len(self.runs[0].records)})"

    def rows(self) -> list[Row]:
        """Return a row for each run: world, policy, trust, epsilon, delta, people, seed, rounds, `reward`.

        `reward` is the mean reward of a round. `uniform` is the mean reward of random choice, and `fixed`
        that of the best fixed arm. `regret` is the cumulative regret of the run. `uniform`, `fixed` and
        `regret` are None if the world cannot compute them. `seconds` is wall time; all other columns are the
        same on every machine.
        """
        names = ("seed", "rounds", "reward", "uniform", "fixed", "regret", "seconds")
        return [
            one.cell.label | {name: record[name] for name in names}
            for one in self.runs
            for record in one.records
        ]

    def to_frame(self) -> "DataFrame":
        """Return `rows` as a pandas frame; raise MissingExtra if pandas is not installed."""
        with needing("frames need pandas: pip install 'dpbandits[report]'"):
            import pandas as pd
        return pd.DataFrame(self.rows())

    def means(self) -> list[Row]:
        """Return a row for each cell with means, standard errors and, if known, the retained uplift `share`.

        The retained uplift is paired by seed with the policy "non-private" in the same world, with the same
        number of people.
        """
        found = []
        for one in self.runs:
            (row,) = one.rows
            uniform, whole = one.records[0]["uniform"], self._beside(one.cell, NON_PRIVATE)
            if uniform is not None:
                uplift = one.values("reward") - one.values("uniform")
                row["uplift"], row["uplift_error"] = mean_and_error(uplift)
            if uniform is not None and whole is not None:
                share = share_kept(one.values("reward"), whole.values("reward"), one.values("uniform"))
                row["share"], row["share_error"] = share.share, share.standard_error
            found.append(row)
        return found

    def _beside(self, cell: Trial, policy: str) -> Runs | None:
        """Return the runs of `policy` in the cell's world, with its number of people and its epsilon.

        A policy without an epsilon matches every cell. None means that there are no such runs.
        """
        place = (cell.world, cell.people)
        named = [one for one in self.runs if one.cell.policy == policy]
        here = [one for one in named if (one.cell.world, one.cell.people) == place]
        return next((one for one in here if one.cell.epsilon in (cell.epsilon, None)), None)

    def tests(self, policy: str) -> list[Row]:
        """Test every other policy against `policy`, paired by seed.

        There is a test for each world, number of people and guarantee.

        A row has the mean `difference` in reward (the other policy's minus that of `policy`), its standard
        `error`, and `p` of a two-sided paired t test, with Holm's correction over all rows. `p` is NaN for
        one seed, or if all differences are equal.

        Raises:
            InvalidParameter: There is no such policy.
        """
        from scipy.stats import ttest_1samp

        if policy not in (names := {one.cell.policy for one in self.runs}):
            raise InvalidParameter(f"policy {policy!r}: expected one of {', '.join(sorted(names))}")
        found = []
        for one in self.runs:
            base = self._beside(one.cell, policy)
            if base is None or one.cell.policy == policy:
                continue
            apart = one.values("reward") - base.values("reward")
            mean, error = mean_and_error(apart)
            scattered = len(apart) > 1 and apart.std() > 0.0
            p_value = float(ttest_1samp(apart, 0.0).pvalue) if scattered else math.nan
            label = {**one.cell.label, "against": policy}
            found.append({**label, "difference": mean, "error": error, "p": p_value})
        for row, p in zip(found, _holm([row["p"] for row in found]), strict=True):
            row["p"] = p
        return found

    def board(self, trust: Trust, *, epsilon: float | None = None) -> list[Row]:
        """Rank the policies of a trust model, in the order of their rank sums.

        A place is a world with a number of people and a guarantee. In each place, rank 1 has the largest
        mean reward. Only places where all policies ran count. Policies with equal rewards share the mean of
        their ranks. `seconds` is the mean wall time of a run.

        Args:
            trust: Trust model of the policies.
            epsilon: Epsilon to which the ranking is limited. By default all epsilons count.

        Raises:
            InvalidParameter: There are no such policies, or no place where all of them ran.
        """
        from scipy.stats import rankdata

        chosen = [one for one in self.runs if one.cell.trust == trust]
        chosen = [one for one in chosen if epsilon is None or one.cell.epsilon in (epsilon, None)]
        names = list(dict.fromkeys(one.cell.policy for one in chosen))
        at = {(one.cell.policy, self._place(one.cell)): one for one in chosen}
        places = [
            place
            for place in dict.fromkeys(self._place(one.cell) for one in chosen)
            if all((name, place) in at for name in names)
        ]
        if not places:
            raise InvalidParameter("there is no world in which all policies of that trust model ran")
        reward = np.array([[at[name, place].values("reward").mean() for place in places] for name in names])
        seconds = [np.mean([at[name, place].values("seconds").mean() for place in places]) for name in names]
        ranks = rankdata(-reward, axis=0)
        order = np.argsort(ranks.sum(axis=1), kind="stable")
        return [
            {
                "policy": names[index],
                "rank_sum": float(ranks[index].sum()),
                "first": int((ranks[index] < 1.5).sum()),  # 1.5 is a shared first rank
                "last": int((ranks[index] == ranks.max(axis=0)).sum()),
                "places": len(places),
                "seconds": float(seconds[index]),
                "ranks": {place[0]: float(rank) for place, rank in zip(places, ranks[index], strict=True)},
            }
            for index in order.tolist()
        ]

    @staticmethod
    def _place(cell: Trial) -> tuple[str, int | None, float | None]:
        return cell.world, cell.people, cell.epsilon

    def picture(self, question: str = "policies") -> "Figure":
        """Draw a picture that answers one question about the runs.

        Args:
            question: "policies" (mean rewards in each world), "promise" (rewards by epsilon), "people"
                (rewards by number of people) or "rounds" (rewards along a run).

        Raises:
            InvalidParameter: The question is unknown, or these runs cannot answer it.
            MissingExtra: matplotlib is not installed.
        """
        from dpbandits.lab.comparing.pictures import drawn

        return drawn(self.means(), self.runs, question, foot=self.banner)

    def write(self, out: str | Path) -> list[Path]:
        """Write `runs.parquet`, `means.json` and all pictures that these runs allow; return the paths.

        Raises:
            MissingExtra: pandas, pyarrow or matplotlib is not installed.
        """
        from dpbandits.lab.comparing.pictures import QUESTIONS
        from dpbandits.lab.plot import to_png

        folder = Path(out)
        folder.mkdir(parents=True, exist_ok=True)
        table, means = folder / "runs.parquet", folder / "means.json"
        try:
            self.to_frame().to_parquet(table)
        except ImportError as error:
            raise MissingExtra("Parquet needs pyarrow: pip install 'dpbandits[report]'") from error
        means.write_text(json.dumps(_finite(self.means()), indent=1) + "\n", encoding="utf-8")
        written = [table, means]
        for question in QUESTIONS:
            with suppress(InvalidParameter):
                written.append(folder / f"{question}.png")
                written[-1].write_bytes(to_png(self.picture(question)))
        return [path for path in written if path.exists()]


def _holm(values: Sequence[float]) -> list[float]:
    p = np.array(values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    factors = np.arange(len(order), 0, -1)
    p[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * factors)) if len(order) else p[order]
    return [float(one) for one in p]


def _finite(rows: list[Row]) -> list[Row]:
    def plain(value: Any) -> Any:
        return None if isinstance(value, float) and not math.isfinite(value) else value

    return [{name: plain(value) for name, value in row.items()} for row in rows]


@worded
def compare(
    worlds: Mapping[str, MakeWorld],
    policies: Sequence[str] | Mapping[str, Rival | Make],
    *,
    promises: Sequence[float | JointDP | LocalDP | DistributedDP] = (1.0,),
    people: Sequence[int | None] = (None,),
    reps: int = 5,
    seed: Seed = FIRST_REPORT_SEED,
    jobs: int = 1,
    cluster: str | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    progress: bool = False,
) -> Comparison:
    """Run every policy in every world with every guarantee and number of people, on the same seeds.

    Args:
        worlds: Functions (seed, people) -> world, by name. A world is a table, a function, a log with all
            rewards, or a `GymWorld`. `people` is None for all rounds of a world.
        policies: Names in `lab.comparing.RIVALS`; or a `Rival`, or a function (world, seed, promise) ->
            policy, by name. A function (world, seed) makes a policy without guarantee, which runs once.
        promises: Epsilons, for a guarantee in each policy's trust model (central with delta = 1e-6); or
            guarantees, for the policies of their trust model.
        people: Numbers of rounds; None for all rounds of a world.
        reps: Number of seeds of every cell.
        seed: First seed; see `report_seeds`.
        jobs: Number of processes; -1 for all cores.
        cluster: Address of a Dask scheduler, or "local:2"; see `on_cluster`.
        out: Folder to which every run is appended, and from which an interrupted comparison is resumed. At
            the end the table and the pictures are written there.
        resume: False to run everything again.
        progress: True to show progress on standard error.

    Raises:
        InvalidParameter: There is nothing to compare, a policy is unknown, or an object has no fingerprint.
        MissingExtra: joblib, dask or pandas is needed and not installed.
    """
    cells = trials(worlds, policies, promises=promises, people=people)
    seeds = report_seeds(seed, reps, tuning=seed < FIRST_REPORT_SEED)
    path = None if out is None else Path(out) / RECORDS
    with watched("compare", shown=progress) as moved, on_cluster(cluster):
        told: Progress = lambda done, total: moved(completed=done, total=total)  # noqa: E731
        processes = jobs if cluster is None else -1
        runs = run_cells(cells, seeds=seeds, path=path, jobs=processes, resume=resume, progress=told)
    found = Comparison(runs)
    if out is not None:
        found.write(out)
    return found


def trials(
    worlds: Mapping[str, MakeWorld],
    policies: Sequence[str] | Mapping[str, Rival | Make],
    *,
    promises: Sequence[float | JointDP | LocalDP | DistributedDP],
    people: Sequence[int | None],
) -> list[Trial]:
    """Return the cells of a comparison; see `compare`."""
    places = _checks.an(worlds, dict, name="worlds", pass_='{"mine": lambda seed, people: ...}')
    if not places or not policies:
        raise InvalidParameter("worlds, policies: expected at least one of each")
    rivals = {name: _rival(name, made) for name, made in _by_name(policies).items()}
    sizes = [None if size is None else _checks.integer(size, name="people") for size in people]
    if not sizes or not promises:
        raise InvalidParameter("promises, people: expected at least one of each")
    return [
        Trial(
            world=world,
            policy=name,
            trust=rival.trust,
            epsilon=None if promise is None else float(promise.epsilon),
            delta=getattr(promise, "delta", None),
            people=size,
            make_world=_checked(make_world, world),
            make_policy=rival.make,
            promise=promise,
        )
        for world, make_world in places.items()
        for size in sizes
        for name, rival in rivals.items()
        for promise in _promises(rival, promises)
    ]


def _checked(make: Any, name: str) -> MakeWorld:
    if not callable(make):
        raise InvalidParameter(
            f"the world {name!r} is {_checks.kind_of(make)}, expected a function: "
            "lambda seed, people: lab.worlds.load(name, seed=seed, horizon=people)"
        )
    found: MakeWorld = make
    return found


def _by_name(policies: Sequence[str] | Mapping[str, Rival | Make]) -> Mapping[str, Any]:
    if isinstance(policies, Mapping):
        return policies
    unknown = [name for name in policies if name not in RIVALS]
    if unknown:
        raise InvalidParameter(f"policy {unknown[0]!r}: expected one of {', '.join(RIVALS)}, or a function")
    return {name: RIVALS[name] for name in policies}


def _rival(name: str, made: Any) -> Rival:
    if isinstance(made, Rival):
        return made
    if not callable(made):
        raise InvalidParameter(
            f"the policy {name!r} is {_checks.kind_of(made)}, expected a function: "
            "lambda world, seed, promise: GPBandit(..., privacy=promise)"
        )
    taken = [
        one
        for one in inspect.signature(made).parameters.values()
        if one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)
    ]
    if len(taken) == 2:  # world and seed
        return Rival(trust="none", make=functools.partial(_without_promise, made))
    return Rival(trust="central", make=made)


def _without_promise(make: Callable[[Any, Seed], Any], world: Any, seed: Seed, _promise: None) -> Any:
    return make(world, seed)


def _promises(rival: Rival, promises: Sequence[float | JointDP | LocalDP | DistributedDP]) -> list[Any]:
    if rival.trust == "none":
        return [None]
    kind = PROMISES[rival.trust]
    found: list[Any] = []
    for promise in promises:
        if isinstance(promise, JointDP | LocalDP | DistributedDP):
            if isinstance(promise, kind):
                found.append(promise)
        else:
            found.append(rival.promise(_checks.number(promise, name="an epsilon"), DELTA))
    if not found:
        raise InvalidParameter(
            f"promises: none fits a policy with trust model {rival.trust!r}: pass an epsilon, or set your "
            "own policy's trust model with Rival(trust=..., make=...)"
        )
    return list(dict.fromkeys(found))
