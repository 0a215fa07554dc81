"""Comparison of the constants of `questions` for many columns with nearby values, on tuning tables.

    python -m reproduction.tuning.local_columns --out reproduction/results/local-columns-tuning.json

One constant at a time has another value (`NEIGHBOURS`). Crowds of 20,000 people run with the present value
and with the other one, on the same seeds, all below 1,000,000. Their tables are the tuning tables of
`many_columns`, as they are and with twenty columns more that tell nothing. The score is by how much the mean
reward is larger with the other value. A value that is ahead by more than two standard errors is run again on
other seeds; it would be taken if it were ahead there too. `--alone` adds what the learner earns on each
column by itself, and the best of these is what a choice in hindsight would have earned.

`--made` alone compares the constants that say when all get one arm (`LEADS`), on made-up people (`MADE`).
One to three of their columns matter and five or fifteen more do not, and for some one arm leads. Every crowd
is kept in a line of a file beside the output, and a run that was broken off goes on from there.
"""

import argparse
import json
import math
import os
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache, lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.worlds.contextual import PeopleWorld
from dpbandits.tables.device_menu import DeviceMenu
from reproduction.studies.many_columns import TUNING, frame_of, people_of
from reproduction.studies.tables_of_people import People
from reproduction.tuning.worlds import tuning_table

USERS, EPSILONS = 20_000, (1.0, 2.0)
FIRST_SEED, SECOND_SEED = 760, 780
IDLE = 20
"""Columns that tell nothing."""

MADE = (
    "lone-1+15",
    "steps-3+5",
    "steps-3+15",
    "odds-5+5",
    "classes-4+5 lead",
    "classes-4+15 lead",
    "lone-1+5 both",
    "steps-3+5 both",
)
"""Made-up people: family and columns of `reproduction.tuning.worlds`, and columns that do not matter.

With `lead` one arm leads and hardly anything else pays; with `both` one arm leads and arms by column pay.
"""

MADE_CELLS, MADE_SEEDS = ((1.0, 5_000), (2.0, 5_000), (4.0, 5_000), (2.0, 20_000)), range(810, 818)
"""Epsilons and numbers of people, and seeds of made-up people."""

LEAD, LEVEL, SPREAD = 0.12, 0.35, {"lead": 0.4, "both": 1.0}
"""The lead of the arm that leads, the other arms' mean, and the share that is kept of other differences."""

PLACES = tuple(f"{name}{more}" for name in TUNING for more in ("", "-idle"))

_COLUMNS = "dpbandits.local.learners.columns"
_QUESTIONS = "dpbandits.local.learners.questions"

NEVER = "one arm never"
LEADS: dict[str, dict[str, float]] = {
    NEVER: {f"{_QUESTIONS}._LEAD": math.inf},
    "one arm in every version": {f"{_QUESTIONS}._LOOK": 1 << 30},
}
NEIGHBOURS: dict[str, dict[str, float]] = {
    "as they are": {},
    "gains drawn at .1": {f"{_QUESTIONS}._GAIN_TEMPERATURE": 0.1},
    "gains drawn at .4": {f"{_QUESTIONS}._GAIN_TEMPERATURE": 0.4},
    "together from 3,000 reports": {f"{_COLUMNS}._ALONE": 3_000.0},
    "two together at most": {f"{_COLUMNS}._MOST_TOGETHER": 2},
    "four together at most": {f"{_COLUMNS}._MOST_TOGETHER": 4},
}


@cache
def people(place: str) -> tuple[dpb.Schema, PeopleWorld]:
    """Schema and people of a table, with idle columns where its name says so."""
    name = place.removesuffix("-idle")
    schema, world, _ = people_of(frame_of(TUNING[name], None), TUNING[name], users=USERS)
    if name == place:
        return schema, world
    idle = {f"idle {number}": dpb.Range(0, 1) for number in range(IDLE)}
    more = np.random.default_rng(IDLE).random((len(world.columns), IDLE))
    columns = np.column_stack([world.columns, more])
    wide = dpb.Schema(**schema.columns, **idle)
    return wide, PeopleWorld(name=place, columns=columns, rewards=world.rewards)


@lru_cache(maxsize=1)
def made(place: str, users: int, seed: int) -> tuple[dpb.Schema, PeopleWorld]:
    """Schema and people of a made-up table, with the arms' expected rewards."""
    name, kind = (*place.split(" "), "")[:2]
    family, number = name.split("+")
    table, rng = tuning_table(family, users, seed), np.random.default_rng([seed, 77, int(number)])
    means = np.asarray(table.means)
    if kind:
        means = LEVEL + SPREAD[kind] * (means - 0.5) + LEAD * (np.arange(means.shape[1]) == 0)
        means = np.clip(means, 0.02, 0.98)
    kinds = np.where(rng.random(int(number)) < 0.5, rng.integers(2, 7, int(number)), 0)
    drawn = rng.random((users, len(kinds)))
    contexts = np.hstack([table.contexts, np.where(kinds > 0, np.floor(drawn * kinds), drawn)])
    schema = People(contexts, table.rewards, (*table.categories, *kinds.tolist())).schema
    menu = DeviceMenu(contexts=schema, arms=labels_of(means))
    return schema, PeopleWorld(name=place, columns=menu.in_cube(contexts), rewards=means, ordered=True)


def labels_of(rewards: np.ndarray) -> list[str]:
    """Labels of the arms of rewards (n, K)."""
    return [f"bracket {code}" for code in range(rewards.shape[1])]


def reward_of(
    place: str, *, epsilon: float, seed: int, column: int | None = None, users: int = USERS
) -> float:
    """Average reward of one crowd, by all columns or by one of them alone."""
    schema, world = made(place, users, seed) if place in MADE else people(place)
    if column is not None:
        name = list(schema.columns)[column]
        schema = dpb.Schema(**{name: schema.columns[name]})
        world = PeopleWorld(name=place, columns=world.columns[:, [column]], rewards=world.rewards)
    spec = dpb.local.Spec(
        contexts=schema,
        arms=labels_of(world.rewards),
        privacy=dpb.LocalDP(epsilon=epsilon),
        learner="questions",
    )
    return simulate(spec, world, n_users=users, seed=seed).average_reward


class Runs:
    """Crowds that were run, kept in a file.

    Args:
        path: file with one line for each crowd.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._found = {tuple(task): reward for task, reward in map(json.loads, lines)}

    def rewards(
        self, name: str, place: str, epsilon: float, seeds: Iterable[int], *, users: int = USERS
    ) -> np.ndarray:
        """(seeds,) rewards with a constant moved, or of `column N` alone."""
        tasks = [(name, place, epsilon, seed, users) for seed in seeds]
        with self._path.open("a", buffering=1) as file, ExitStack() as stack:
            for constant, value in (NEIGHBOURS | LEADS).get(name, {}).items():
                stack.enter_context(patch(constant, value))
            column = int(name.removeprefix("column ")) if name.startswith("column ") else None
            for task in tasks:
                if task not in self._found:
                    found = reward_of(place, epsilon=epsilon, seed=task[3], column=column, users=users)
                    self._found[task] = found
                    file.write(json.dumps([task, found]) + "\n")
        return np.array([self._found[task] for task in tasks])


def row_of(runs: Runs, name: str, epsilon: float, seeds: range) -> dict[str, Any]:
    """By how much reward is larger: mean and standard error over tables and crowds."""
    own, base = (
        np.array([runs.rewards(one, place, epsilon, seeds) for place in PLACES])
        for one in (name, "as they are")
    )
    error = float(np.sqrt(((own - base).var(axis=1, ddof=1) / len(seeds)).mean() / len(PLACES)))
    return {
        "constant": name,
        "epsilon": epsilon,
        "first_seed": seeds.start,
        "crowds": len(seeds),
        "more_reward": round(float((own - base).mean()), 5),
        "standard_error": round(error, 5),
    }


def leads_of(runs: Runs, name: str, epsilon: float, users: int) -> Iterable[dict[str, Any]]:
    """Yield by how much reward is larger on made-up people: on each of `MADE`, and on all of them."""
    gaps, above = [], []
    row = {"constant": name, "epsilon": epsilon, "users": users, "crowds": len(MADE_SEEDS)}
    for place in MADE:
        own, base = (
            runs.rewards(one, place, epsilon, MADE_SEEDS, users=users) for one in (name, "as they are")
        )
        best = [made(place, users, seed)[1].rewards.mean(axis=0).max() for seed in MADE_SEEDS]
        gaps.append(own - base)
        above.append(base - best)
        yield row | {"table": place} | _summed(gaps[-1:], above[-1:])
    yield row | {"table": "all"} | _summed(gaps, above)


def made_of(runs: Runs) -> Iterable[dict[str, Any]]:
    """Yield `leads_of` every constant of `LEADS`; `NEVER` is compared in all of `MADE_CELLS`."""
    for name in LEADS:
        for epsilon, users in MADE_CELLS if name == NEVER else MADE_CELLS[-1:]:
            yield from leads_of(runs, name, epsilon, users)


def _summed(gaps: list[np.ndarray], above: list[np.ndarray]) -> dict[str, float]:
    """More reward with a constant moved, and the reward above the best arm for all as they are."""
    error = np.sqrt((np.var(gaps, axis=1, ddof=1) / len(gaps[0])).mean() / len(gaps))
    return {
        "more_reward": round(float(np.mean(gaps)), 5),
        "standard_error": round(float(error), 5),
        "above_best_arm": round(float(np.mean(above)), 5),
    }


def places_of(runs: Runs, epsilon: float, seeds: range, *, alone: bool) -> Iterable[dict[str, Any]]:
    """Yield what is earned on every table, and what the best arm or column alone would have earned."""
    for place in PLACES:
        found, rewards = runs.rewards("as they are", place, epsilon, seeds), people(place)[1].rewards
        row = {"table": place, "epsilon": epsilon, "first_seed": seeds.start, "crowds": len(seeds)}
        row |= {"constant": float(rewards.mean(axis=0).max()), "reward": float(found.mean())}
        row |= {"stderr": float(found.std(ddof=1) / np.sqrt(len(seeds)))}
        if alone:
            plain = place.removesuffix("-idle")
            each = [
                float(runs.rewards(f"column {column}", plain, epsilon, seeds).mean())
                for column in range(people(plain)[1].dim)
            ]
            row |= {"column": max(each)}
        yield row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--crowds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=[name for name in NEIGHBOURS if NEIGHBOURS[name]])
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--made", action="store_true", help="made-up people alone; other rows stay")
    arguments = parser.parse_args()
    runs = Runs(arguments.out.with_suffix(".jsonl"))
    kept = json.loads(arguments.out.read_text()) if arguments.out.exists() else {}
    if arguments.made:
        found = {"made": list(made_of(runs))}
    else:
        found = compared(runs, arguments.only, arguments.crowds, alone=arguments.alone)
    told = {"command": "python -m reproduction.tuning.local_columns", "users": USERS}
    arguments.out.write_text(json.dumps(told | kept | found, indent=1) + "\n")
    print(*map(json.dumps, found.get("tables", found.get("made"))), sep="\n")


def compared(runs: Runs, only: list[str] | None, crowds: int, *, alone: bool) -> dict[str, Any]:
    """Rows of `NEIGHBOURS`, and of the tables as they are."""
    first = range(FIRST_SEED, FIRST_SEED + crowds)
    second = range(SECOND_SEED, SECOND_SEED + 2 * crowds)
    rows = []
    for name in only or [name for name in NEIGHBOURS if NEIGHBOURS[name]]:
        for epsilon in EPSILONS:
            rows.append(row_of(runs, name, epsilon, first))
            if rows[-1]["more_reward"] > 2 * rows[-1]["standard_error"]:
                rows.append(row_of(runs, name, epsilon, second))
        print(*map(json.dumps, rows[-len(EPSILONS) :]), sep="\n", flush=True)
    tables = [row for epsilon in EPSILONS for row in places_of(runs, epsilon, first, alone=alone)]
    return {"rows": rows, "tables": tables}


if __name__ == "__main__":
    main()
