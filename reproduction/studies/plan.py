"""Validation of plans: plans are made from the public facts of worlds, and then the worlds are run.

`python -m reproduction.studies.plan FOLDER --out FILE` plans on every world of a folder and compares with the
true results. It measures the coverage of predicted shares, the width of their intervals, and if the
recommended epsilon reaches the target and is at most twice the smallest that does. Records are saved beside
the output, and an interrupted run resumes. For two processes, `--part 1/2` and `--part 2/2` run half of
the worlds each into the same records. The same command without `--part` then runs the rest and writes the
result.

`--first-seed` is the first seed of the true results: 1,000,000 or more, and 9,000,000 or more for worlds that
no author of the code has seen. True shares are means of `--reps` runs. With a few thousand users, six runs
give them to about a tenth; more runs judge intervals more fairly. The constants of
`dpbandits.lab.planning.answers` come from `reproduction/tuning/plan_constants.py`, which sees
`reproduction/tuning/plan_tuning` alone.

**A world** is one of:

1. `NAME.toml` and `NAME.py`, a synthetic world. The TOML file has the public facts of its author, in the
   format of `dpbandits.lab.planning.facts`: [columns.*] and [plan]. [plan] has `arms`, `users` (5,000 to
   20,000 keep this fast), `base_rate` and `effect`. Where known, it has `personal`, `smoothness`, `relevant`,
   `rates`, `segments`, `low` and `high`. One number means that number give or take a tenth, and two numbers
   are bounds. The truth should lie within the bounds. The Python file has one function::

       def draw(n, rng):
           '''People and what they would be paid.

           Args:
               n: how many people.
               rng: numpy.random.Generator, the only source of randomness.

           Returns:
               frame: dict column name -> n cells, within the bounds and categories of the TOML file.
               means: (n, K) float, expected reward of every arm for every person, in [low, high].
               rewards: (n, K) float, what every arm pays, of those means, in [low, high].
           '''

   Law and functions must not depend on `rng`: it draws people and rewards.
2. `NAME.toml` alone, a real table: a description as `dpbandits.tables.described` has it, with [label] or
   [rewards]. Half of its rows, by a public coin, are the public sample that is planned on; the other half are
   the people to come.
"""

import argparse
import importlib.util
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dpbandits.domains import Arms, RewardRange
from dpbandits.errors import DPBanditsError
from dpbandits.lab.comparing import RIVALS, Trial
from dpbandits.lab.evaluation import share_kept
from dpbandits.lab.planning import Facts, plan
from dpbandits.lab.planning.planner import DEFAULT_TRUSTS, TRUSTS, PlannedCell, references
from dpbandits.lab.study import run_cells
from dpbandits.lab.worlds import TableBandit, table_from_toml

TARGET = 0.9
MOST_EPSILON = 10.0
MOST_PEOPLE = 20_000
DELTA = 1e-6

SAID = ("facts", "rates", "segments")
"""Kinds of facts about arms besides base rate and effect: none, every arm's rate, and also segments."""

WRONG = (DPBanditsError, ArithmeticError, AttributeError, ImportError, LookupError, TypeError, ValueError)
"""Errors that files of other authors may raise. They are reported, and the other worlds are run."""


@dataclass(frozen=True)
class Held:
    """A world of a folder."""

    path: Path
    most: int = MOST_PEOPLE

    @property
    def is_table(self) -> bool:
        return not self.path.with_suffix(".py").exists()

    def half(self, *, public: bool) -> TableBandit:
        """Half of the rows of a table."""
        table = table_from_toml(self.path, seed=0)
        mine = (np.random.default_rng(20_261_122).random(len(table.contexts)) < 0.5) == public
        return TableBandit(
            name=self.path.stem,
            schema=table.schema,
            contexts=table.contexts[mine],
            arms=table.arms,
            reward_table=table.reward_table[mine],
            reward_range=table.reward_range,
            seed=0,
            horizon=int(mine.sum()),
        )

    @property
    def facts(self) -> tuple[Facts, int]:
        facts, rest = Facts.from_toml(self.path)
        return facts, int(rest["users"])

    @property
    def users(self) -> int:
        if self.is_table:
            return min(self.most, self.half(public=False).horizon)
        return self.facts[1]

    def __call__(self, seed: int, people: int) -> TableBandit:
        """The world as it is, with the people of a seed."""
        rng = np.random.default_rng(seed)
        if self.is_table:
            table = self.half(public=False)
            rows = rng.permutation(len(table.contexts))[:people]
            return TableBandit(
                name=table.name,
                schema=table.schema,
                contexts=table.contexts[rows],
                arms=table.arms,
                reward_table=table.reward_table[rows],
                reward_range=table.reward_range,
                seed=seed,
                horizon=people,
            )
        spec = importlib.util.spec_from_file_location(self.path.stem, self.path.with_suffix(".py"))
        if spec is None or spec.loader is None:
            raise SystemExit(f"{self.path.stem}.py cannot be loaded")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        frame, means, rewards = module.draw(people, rng)
        facts = self.facts[0]
        bounds = RewardRange.of(facts.reward_range)
        return TableBandit(
            name=self.path.stem,
            schema=facts.contexts,
            contexts=facts.contexts.encode(frame),
            arms=Arms(list(facts.arms)),
            reward_table=np.clip(rewards, bounds.low, bounds.high),
            expected=np.clip(means, bounds.low, bounds.high),
            reward_range=bounds,
            seed=seed,
            horizon=people,
        )

    def planned(
        self,
        seconds: float,
        worlds: int,
        cache: Path,
        jobs: int,
        *,
        told: str = SAID[-1],
        trusts: Sequence[str] = DEFAULT_TRUSTS,
    ) -> Any:
        """The plan, from what is public alone; of what is said of arms as much as `told`."""
        how: dict[str, Any] = {
            "trusts": trusts,
            "target": TARGET,
            "epsilon": MOST_EPSILON,
            "seconds": seconds or None,
            "worlds": worlds,
            "cache": cache,
            "jobs": jobs,
        }
        if self.is_table:
            return plan(users=self.users, table=self.half(public=True), public=True, **how)
        left_out = dict.fromkeys(SAID[SAID.index(told) + 1 :])
        return plan(users=self.users, facts=replace(self.facts[0], **left_out), **how)


def trial(held: Held, policy: str, epsilon: float | None, people: int) -> Trial:
    rival = RIVALS[policy]
    promise = None if epsilon is None else rival.promise(epsilon, DELTA)
    return Trial(
        world=held.path.stem,
        policy=policy,
        trust=rival.trust,
        epsilon=epsilon,
        delta=None if promise is None else promise.delta,
        people=people,
        make_world=partial(_true, str(held.path)),
        make_policy=rival.make,
        promise=promise,
    )


def _true(path: str, seed: int, people: int) -> TableBandit:
    return Held(Path(path))(seed, people)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reps", type=int, default=5, help="of the truth")
    parser.add_argument("--first-seed", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=0.0, help="of a plan; 0 for until it is known")
    parser.add_argument("--worlds", type=int, default=12, help="simulated for a plan, at most")
    parser.add_argument("--most-people", type=int, default=MOST_PEOPLE, help="of a table that are to come")
    parser.add_argument("--told", choices=SAID, default=SAID[-1], help="of arms, where it is said")
    parser.add_argument("--trust", action="append", choices=TRUSTS, help="repeatable")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", action="append", help="names of worlds")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--part", type=part, default=(1, 1), help="I/N: every Nth world; only its records")
    options = parser.parse_args()
    records = options.out.with_suffix(".jsonl")
    seeds = range(options.first_seed, options.first_seed + options.reps)
    shares, answers, failed = [], [], []
    mine, parts = options.part
    paths = sorted(options.folder.glob("*.toml"))
    for path in paths[mine - 1 :: parts]:
        held = Held(path, options.most_people)
        if options.only and path.stem not in options.only:
            continue
        try:
            how = {"told": options.told, "trusts": options.trust or DEFAULT_TRUSTS}
            found = held.planned(options.seconds, options.worlds, records, options.jobs, **how)
            rows, said = truth(held, found, seeds, records, options.jobs)
        except WRONG as error:
            failed.append({"world": path.stem, "error": f"{type(error).__name__}: {error}"})
            print(f"{path.stem}: {failed[-1]['error']}", flush=True)
            continue
        shares += rows
        answers += said
        print(f"{path.stem}: {sum(row['covered'] for row in rows)} of {len(rows)} shares covered", flush=True)
        for one in said:
            print("  ", one, flush=True)
    if parts > 1:
        return
    result = {
        "settings": {name: getattr(options, name) for name in ("first_seed", "reps", "worlds", "told")},
        "summary": summary(shares, answers),
        "failed": failed,
        "shares": shares,
        "answers": answers,
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result["summary"], indent=1))


def part(text: str) -> tuple[int, int]:
    """I/N with 1 <= I <= N."""
    mine, _, parts = text.partition("/")
    if not 1 <= int(mine) <= int(parts):
        raise ValueError(text)
    return int(mine), int(parts)


def truth(held: Held, found: Any, seeds: range, records: Path, jobs: int) -> tuple[list[Any], list[Any]]:
    """Planned shares beside the true ones, and recommended epsilons beside the smallest that does.

    A true share is of mean rewards over all runs, and of the better of both policies without privacy.
    """
    grid = [(row["trust"], row["policy"], row["epsilon"], int(row["people"])) for row in found.to_rows()]
    taken = {trust: answer.to_dict() for trust, answer in found.answers.items() if answer.epsilon is not None}
    extra = [(trust, one["policy"], one["epsilon"], found.users) for trust, one in taken.items()]
    places = list(dict.fromkeys([*grid, *extra]))
    whole = [place for people in {people: None for *_, people in places} for place in references(people)]
    wanted = dict.fromkeys([*(PlannedCell(*place[1:]) for place in places), *whole])
    runs = run_cells([trial(held, *place) for place in wanted], seeds=list(seeds), path=records, jobs=jobs)
    by = dict(zip(wanted, runs, strict=True))

    def true(policy: str, epsilon: float, people: int) -> Any:
        mine = by[PlannedCell(policy, epsilon, people)]
        best = max((by[place].values("reward") for place in references(people)), key=np.mean)
        return share_kept(mine.values("reward"), best, mine.values("uniform"))

    rows, seen = [], set()
    for row in found.to_rows():
        at = (row["trust"], row["epsilon"], row["people"])
        if at in seen:  # on both curves
            continue
        seen.add(at)
        share = true(row["policy"], row["epsilon"], int(row["people"]))
        if not np.isfinite(share.share):
            continue
        covered = bool(row["low"] <= share.share <= row["high"])
        label = {
            "world": held.path.stem,
            **{name: row[name] for name in ("trust", "policy", "epsilon", "people")},
        }
        planned = {name: row[name] for name in ("share", "low", "high")}
        rows.append(
            {**label, **planned, "true": share.share, "true_error": share.standard_error, "covered": covered}
        )
    answers = []
    for trust in found.answers:
        answer = found.answers[trust]
        curve = sorted(
            (epsilon, true(policy, epsilon, people).share)
            for which, policy, epsilon, people in places
            if which == trust and people == found.users
        )
        smallest = smallest_epsilon(curve)
        said = {"world": held.path.stem, "trust": trust, "recommended": None, "smallest": smallest}
        if trust in taken:
            reached = true(answer.policy, taken[trust]["epsilon"], found.users).share
            said |= {"recommended": taken[trust]["epsilon"], "reached": reached}
        answers.append(said)
    return rows, answers


def smallest_epsilon(curve: list[tuple[float, float]]) -> float | None:
    """Return the epsilon at which the true share, made increasing, first reaches the target.

    Between epsilons it is interpolated by logarithms.
    """
    from scipy.optimize import isotonic_regression

    shares = isotonic_regression([share for _, share in curve]).x
    logs = np.log([epsilon for epsilon, _ in curve])
    above = np.flatnonzero(shares >= TARGET)
    if not len(above):
        return None
    at = int(above[0])
    if at == 0:
        return float(np.exp(logs[0]))
    step = (TARGET - shares[at - 1]) / (shares[at] - shares[at - 1])
    return float(np.exp(logs[at - 1] + step * (logs[at] - logs[at - 1])))


def summary(shares: list[Any], answers: list[Any]) -> dict[str, Any]:
    """The figures that are asked for."""
    taken = [one for one in answers if one["recommended"] is not None]
    both = [one for one in taken if one["smallest"] is not None]
    times = [one["recommended"] / one["smallest"] for one in both]
    return {
        "worlds": len({one["world"] for one in answers}),
        "shares": len(shares),
        "covered": float(np.mean([row["covered"] for row in shares])) if shares else None,
        "median_width": float(np.median([row["high"] - row["low"] for row in shares])) if shares else None,
        "median_miss": float(np.median([abs(row["share"] - row["true"]) for row in shares]))
        if shares
        else None,
        "recommended": len(taken),
        "reached": float(np.mean([one["reached"] >= TARGET for one in taken])) if taken else None,
        "within_twice": float(np.mean([one <= 2 for one in times])) if times else None,
        "most_times_smallest": max(times, default=None),
        "reachable_but_not_said": sum(
            one["recommended"] is None and one["smallest"] is not None for one in answers
        ),
        "rightly_not_reachable": sum(
            one["recommended"] is None and one["smallest"] is None for one in answers
        ),
    }


if __name__ == "__main__":
    main()
