"""Constants of questions about many columns, held against their neighbours on tables that no page shows.

    python -m reproduction.tuning.local_columns --out reproduction/results/local-columns-tuning.json

One constant at a time has another value (`NEIGHBOURS`). Crowds of 20,000 people run with the present value
and with the other one, on the same seeds, all below 1,000,000. Their tables are the tuning tables of
`many_columns`, as they are and with twenty columns more that tell nothing. The score is by how much the mean
reward is larger with the other value. A value that is ahead by more than two standard errors is run again on
other seeds; it would be taken if it were ahead there too. `--alone` adds what the learner earns on each
column by itself, and the best of these is what a choice in hindsight would have earned. Every crowd is kept
in a line of a file beside the output, and a run that was broken off goes on from there.
"""

import argparse
import json
import os
from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.worlds.contextual import PeopleWorld
from reproduction.studies.many_columns import TUNING, frame_of, people_of

USERS, EPSILONS = 20_000, (1.0, 2.0)
FIRST_SEED, SECOND_SEED = 760, 780
IDLE = 20
"""Columns that tell nothing."""

PLACES = tuple(f"{name}{more}" for name in TUNING for more in ("", "-idle"))

_COLUMNS = "dpbandits.local.learners.columns"
_QUESTIONS = "dpbandits.local.learners.questions"

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


def reward_of(place: str, *, epsilon: float, seed: int, column: int | None = None) -> float:
    """Average reward of one crowd, by all columns or by one of them alone."""
    schema, world = people(place)
    if column is not None:
        name = list(schema.columns)[column]
        schema = dpb.Schema(**{name: schema.columns[name]})
        world = PeopleWorld(name=place, columns=world.columns[:, [column]], rewards=world.rewards)
    spec = dpb.local.Spec(
        contexts=schema,
        arms=[f"bracket {code}" for code in range(world.n_arms)],
        privacy=dpb.LocalDP(epsilon=epsilon),
        learner="questions",
    )
    return simulate(spec, world, n_users=USERS, seed=seed).average_reward


class Runs:
    """Crowds that were run, kept in a file.

    Args:
        path: file with one line for each crowd.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text().splitlines() if path.exists() else []
        self._found = {tuple(task): reward for task, reward in map(json.loads, lines)}

    def rewards(self, name: str, place: str, epsilon: float, seeds: Iterable[int]) -> np.ndarray:
        """(seeds,) rewards with a constant moved, or of `column N` alone."""
        tasks = [(name, place, epsilon, seed) for seed in seeds]
        with self._path.open("a", buffering=1) as file, ExitStack() as stack:
            for constant, value in NEIGHBOURS.get(name, {}).items():
                stack.enter_context(patch(constant, value))
            column = int(name.removeprefix("column ")) if name.startswith("column ") else None
            for task in tasks:
                if task not in self._found:
                    found = reward_of(place, epsilon=epsilon, seed=task[3], column=column)
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
    arguments = parser.parse_args()
    runs = Runs(arguments.out.with_suffix(".jsonl"))
    first = range(FIRST_SEED, FIRST_SEED + arguments.crowds)
    second = range(SECOND_SEED, SECOND_SEED + 2 * arguments.crowds)
    rows = []
    for name in arguments.only or [name for name in NEIGHBOURS if NEIGHBOURS[name]]:
        for epsilon in EPSILONS:
            rows.append(row_of(runs, name, epsilon, first))
            if rows[-1]["more_reward"] > 2 * rows[-1]["standard_error"]:
                rows.append(row_of(runs, name, epsilon, second))
        print(*map(json.dumps, rows[-len(EPSILONS) :]), sep="\n", flush=True)
    tables = [row for epsilon in EPSILONS for row in places_of(runs, epsilon, first, alone=arguments.alone)]
    found = {"command": "python -m reproduction.tuning.local_columns", "users": USERS}
    arguments.out.write_text(json.dumps(found | {"rows": rows, "tables": tables}, indent=1) + "\n")
    print(*map(json.dumps, tables), sep="\n")


if __name__ == "__main__":
    main()
