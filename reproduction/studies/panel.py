"""The panel: policies with default settings and private baselines, on tables that no constant was chosen on.

    python -m reproduction.studies.panel --cells cells --jobs 2 --out reproduction/results/panel.json

| setting | policy | people | epsilon |
|---|---|---|---|
| `learn` | `central.ExploreThenCommit`, once, from a log with uniform arms | 10,000, then others | .3, 1, 3 |
| `online` | `central.GPBandit`, from the first person on | 10,000 | .3, 1, 3 |
| `local` | `local.Spec`, with one report a device | 20,000 | 1, 2, 4 |

Policies have their default settings. Tables are those of `panel_tables`, baselines those of
`panel_baselines`; central policies and baselines have delta = 1e-6. With one seed the policy and every
baseline see the same people in the same order, so gaps are paired by seed. A smaller table has as many people
as there are (in `learn` three quarters are the log); in `local` people come several times. The reward is the
mean over all people, those with random arms included; in `learn` it is the mean over at most 20,000 people
after the log. The best constant arm in hindsight and a random arm are computed exactly. A ridge and boosted
trees without privacy are ceilings, on the first three seeds. In `local` they learn online from the same
people.

A cell is a table, a setting and an epsilon. It is behind if a baseline is ahead of the policy by more than
.01 and by more than three paired standard errors.

Results of runs are kept in `--cells`, one file for each policy or baseline and seed. The same command run
again adds what is missing. After a change of policies, baselines or ceilings `--again policies` (or
`baselines`, `ceilings`) drops their results alone. `--only` names tables, `--groups` and `--settings` what is
run and dropped. The results are written to `--out` when nothing is missing. Runs of one group and setting
that come from different sources are refused.
"""

import argparse
import hashlib
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core a job
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.lab.evaluation import BANNER, report_seeds, run
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.evaluation.runner import in_processes
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.worlds.contextual import PeopleWorld
from dpbandits.tables.device_menu import DeviceMenu
from reproduction.studies import panel_baselines as baselines
from reproduction.studies import panel_tables as tables
from reproduction.studies.tables_of_people import People

EPSILONS = {"learn": (0.3, 1.0, 3.0), "online": (0.3, 1.0, 3.0), "local": (1.0, 2.0, 4.0)}
FIRST_SEED, SEEDS, CEILING_SEEDS = 7_000_000, 8, 3
LOG, NEW, ONLINE, LOCAL = 10_000, 20_000, 10_000, 20_000
"""People of a log and after it, online and local: at most so many."""

POLICY = "dpbandits"
CENTRAL = tuple(baselines.CENTRAL)
WAYS = {
    "learn": tuple(way for way in CENTRAL if way not in baselines.ONLINE_ALONE),
    "online": CENTRAL,
    "local": tuple(baselines.LOCAL),
}
"""Baselines of every setting."""

CEILINGS = tuple(baselines.CENTRAL_OPEN)
GROUPS = ("policies", "baselines", "ceilings")
AHEAD, ERRORS = 0.01, 3.0
"""A baseline that is ahead by more than both (rewards, paired standard errors) makes a cell behind."""

SOURCES = Path(dpb.__file__).parent
CODE: dict[str, Callable[[str], Iterable[Path]]] = {
    "policies": lambda setting: (
        path
        for name in (
            "local" if setting == "local" else "central",
            *("models", "privacy", "policy", "domains", "tables"),
        )
        for path in sorted((SOURCES / name).rglob("*.py"))
    ),
    "baselines": lambda _: (Path(baselines.__file__), Path(tables.__file__), baselines.CHOSEN),
    "ceilings": lambda _: (Path(baselines.__file__), Path(tables.__file__)),
}
"""Files that the results of a group depend on, by setting."""


def code_version(group: str, setting: str) -> str:
    """Changes with what results of this group could depend on in this setting."""
    digest = hashlib.sha256()
    for path in CODE[group](setting):
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class Run:
    """One way on one table, at one epsilon (None without privacy), in one order of its people."""

    table: str
    setting: str
    way: str
    epsilon: float | None
    seed: int

    @property
    def group(self) -> str:
        if self.way == POLICY:
            return "policies"
        return "ceilings" if self.way in CEILINGS else "baselines"

    def file(self, folder: Path) -> Path:
        epsilon = "open" if self.epsilon is None else f"{self.epsilon:g}"
        name = f"{self.way.replace(' ', '-')}-{epsilon}-{self.seed}.json"
        return folder / self.group / self.setting / self.table / name


class Order:
    """People of a table in a seed's order, as every way of a setting sees them."""

    def __init__(self, people: People, setting: str, seed: int, *, most: int | None = None) -> None:
        self.people, self.seed = people, seed
        count = len(people.contexts)
        wanted = {"learn": LOG + NEW, "online": ONLINE, "local": LOCAL}[setting]
        wanted = wanted if most is None else min(most, wanted)
        rows = np.random.default_rng([seed, 11]).permutation(count)
        if setting == "local":  # everyone as often as needed
            rows = np.tile(rows, -(-wanted // count))
        rows = rows[:wanted]
        self.contexts, self.rewards = people.contexts[rows], people.rewards[rows]
        self.split = min(LOG, 3 * len(rows) // 4) if setting == "learn" else 0

    @property
    def arms(self) -> int:
        return int(self.rewards.shape[1])

    @cached_property
    def log(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Contexts, uniform arms and rewards of those who came first."""
        given = np.random.default_rng([self.seed, 12]).integers(0, self.arms, self.split)
        paid = self.rewards[np.arange(self.split), given].astype(float)
        return self.contexts[: self.split], given, paid

    @property
    def new(self) -> tuple[np.ndarray, np.ndarray]:
        """Contexts and rewards of all arms, of those who came after the log."""
        return self.contexts[self.split :], self.rewards[self.split :]


def reward_of(one: Run, order: Order) -> float:
    """Mean reward of one way."""
    categories = order.people.categories
    whole = order.contexts, order.rewards, categories
    if one.epsilon is None:
        if one.setting == "learn":
            return baselines.open_from_log(one.way, order.log, order.new, categories, one.seed)
        return baselines.open_online(one.way, *whole, one.seed)
    if one.way != POLICY:
        if one.setting == "learn":
            return baselines.from_log(one.way, order.log, order.new, categories, one.epsilon, one.seed)
        answered = baselines.online if one.setting == "online" else baselines.local
        return answered(one.way, *whole, one.epsilon, one.seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpb.errors.DPBanditsWarning)  # little to learn is said, and measured
        return {"learn": _learned, "online": _online, "local": _local}[one.setting](one, order)


def _promise(one: Run, order: Order, horizon: int) -> dict[str, Any]:
    """Return the arguments of central policies, which are public facts."""
    return {
        "contexts": order.people.schema,
        "arms": list(range(order.arms)),
        "reward_range": (0.0, 1.0),
        "horizon": horizon,
        "privacy": dpb.JointDP(epsilon=float(one.epsilon or 0.0), delta=baselines.DELTA, user_ids=False),
        "noise": dpb.SimulatedNoise(one.seed),
        "seed": one.seed,
    }


def _learned(one: Run, order: Order) -> float:
    contexts, given, paid = order.log
    policy = dpb.central.ExploreThenCommit(**_promise(one, order, len(given)))
    policy.learn(contexts, given.tolist(), paid)
    own, rewards = order.new
    chosen = policy.publish().predict(own)[0].argmax(axis=1)
    return float(rewards[np.arange(len(own)), chosen].mean())


def _online(one: Run, order: Order) -> float:
    world = dpb.lab.worlds.TableBandit(
        name=one.table,
        schema=order.people.schema,
        contexts=order.contexts,
        arms=dpb.Arms(order.arms),
        reward_table=order.rewards.astype(np.float64),
        reward_range=dpb.domains.RewardRange(0.0, 1.0),
        seed=one.seed,
        horizon=len(order.contexts),
        ordered=True,
    )
    told = _promise(one, order, world.horizon) | {"arms": world.arms.labels}
    return float(run(dpb.central.GPBandit(**told), world).mean_reward)


def _local(one: Run, order: Order) -> float:
    labels = [f"arm {arm}" for arm in range(order.arms)]
    spec = dpb.local.Spec(
        contexts=order.people.schema,
        arms=labels,
        privacy=dpb.LocalDP(epsilon=float(one.epsilon or 0.0)),
    )
    menu = DeviceMenu(contexts=order.people.schema, arms=labels)
    world = PeopleWorld(
        name=one.table,
        columns=menu.in_cube(order.contexts),
        rewards=order.rewards.astype(np.float64),
        ordered=True,
    )
    return float(simulate(spec, world, n_users=len(order.contexts), seed=one.seed).average_reward)


def runs_of(
    names: Sequence[str],
    seeds: Sequence[int],
    groups: Sequence[str] = GROUPS,
    settings: Sequence[str] = tuple(EPSILONS),
) -> list[Run]:
    """All runs of these groups and settings."""
    found = []
    for table in names:
        for setting in settings:
            epsilons = EPSILONS[setting]
            for place, seed in enumerate(seeds):
                ways: list[tuple[str, float | None]] = [
                    (way, epsilon) for epsilon in epsilons for way in (POLICY, *WAYS[setting])
                ]
                ways += [(way, None) for way in CEILINGS if place < CEILING_SEEDS]
                found += [Run(table, setting, way, epsilon, seed) for way, epsilon in ways]
    return [one for one in found if one.group in groups]


def together(runs: list[Run], folder: Path, most: int | None, versions: dict[tuple[str, str], str]) -> int:
    """Runs of one table, setting and seed: the table is read once. How many were run."""
    people = tables.people(runs[0].table, folder / "tables")
    order = Order(people, runs[0].setting, runs[0].seed, most=most)
    paid = order.rewards[order.split :]
    for one in runs:
        began = time.process_time()
        reward = reward_of(one, order)
        record = {
            "reward": reward,
            "people": len(order.contexts),
            "columns": people.schema.dim,
            "arms": order.arms,
            "random": float(paid.mean()),
            "constant": float(paid.mean(axis=0).max()),
            "seconds": time.process_time() - began,
            "code": versions[one.group, one.setting],
        }
        file = one.file(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        partly = file.with_suffix(".part")
        partly.write_text(json.dumps(record))
        partly.replace(file)
    return len(runs)


def run_missing(runs: Sequence[Run], folder: Path, *, jobs: int, most: int | None) -> None:
    """Run everything that has no file yet."""
    waiting: dict[tuple[str, str, int], list[Run]] = {}
    for one in runs:
        if not one.file(folder).exists():
            waiting.setdefault((one.table, one.setting, one.seed), []).append(one)
    versions = {(group, setting): code_version(group, setting) for group in GROUPS for setting in EPSILONS}
    calls = [partial(together, own, folder, most, versions) for own in waiting.values()]
    total, done = sum(map(len, waiting.values())), 0
    for number, count in enumerate(in_processes(calls, jobs=jobs, ordered=False)):
        done += count
        if number % 20 == 19:
            print(f"{done} of {total} runs", file=sys.stderr, flush=True)


def summed_up(found: dict[Run, dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a cell, those that are behind first, by how much."""
    cells: dict[tuple[str, str, float], dict[str, dict[int, float]]] = {}
    ceilings: dict[tuple[str, str], dict[str, list[float]]] = {}
    known: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for one, record in found.items():
        known.setdefault((one.table, one.setting), []).append(record)
        if one.epsilon is None:
            own = ceilings.setdefault((one.table, one.setting), {})
            own.setdefault(one.way, []).append(record["reward"])
        else:
            cell = cells.setdefault((one.table, one.setting, one.epsilon), {})
            cell.setdefault(one.way, {})[one.seed] = record["reward"]
    rows = []
    for (table, setting, epsilon), ways in cells.items():
        policy, records = ways[POLICY], known[table, setting]
        ends = []
        for way, by_seed in ways.items():
            mean, error = mean_and_error(np.array(list(by_seed.values())))
            gap, gap_error = mean_and_error(np.array([by_seed[seed] - policy[seed] for seed in policy]))
            several = len(policy) > 1
            end = {"way": way, "reward": mean, "reward_se": error if several else None}
            if way != POLICY:
                end |= {"gap": gap, "gap_se": gap_error if several else None}
            ends.append(end)
        others = sorted((end for end in ends if end["way"] != POLICY), key=lambda end: -end["gap"])
        ahead = [end for end in others if end["gap"] > max(AHEAD, ERRORS * (end["gap_se"] or 0.0))]
        rows.append(
            {
                "table": table,
                "kinds": list(tables.TABLES[table].kinds),
                "setting": setting,
                "epsilon": epsilon,
                **{key: records[0][key] for key in ("people", "columns", "arms")},
                "random": float(np.mean([record["random"] for record in records])),
                "constant": float(np.mean([record["constant"] for record in records])),
                "ceilings": {way: float(np.mean(own)) for way, own in ceilings[table, setting].items()},
                "reward": next(end["reward"] for end in ends if end["way"] == POLICY),
                "best": (ahead or others)[0]["way"],
                "gap": (ahead or others)[0]["gap"],
                "gap_se": (ahead or others)[0]["gap_se"],
                "behind": bool(ahead),
                "ways": ends,
            }
        )
    return sorted(rows, key=lambda row: (not row["behind"], -row["gap"]))


def results_of(runs: Sequence[Run], folder: Path) -> dict[str, Any]:
    """Everything that the page shows.

    Raises:
        SystemExit: runs of one group and setting have different sources.
    """
    found = {one: json.loads(one.file(folder).read_text()) for one in runs}
    codes: dict[tuple[str, str], set[str]] = {}
    for one, record in found.items():
        codes.setdefault((one.group, one.setting), set()).add(record["code"])
    mixed = [kind for kind, own in codes.items() if len(own) > 1]
    if mixed:
        raise SystemExit(f"runs of different sources: pass {_again(*mixed[0])}")
    for kind, own in codes.items():
        if own != {code_version(*kind)}:
            print(f"run on other sources; pass {_again(*kind)} to run them again", file=sys.stderr)
    rows, seeds = summed_up(found), sorted({one.seed for one in runs})
    return {
        "command": "python -m reproduction.studies.panel --cells cells --jobs 2",
        "banner": BANNER,
        "delta": baselines.DELTA,
        "first_seed": seeds[0],
        "seeds": len(seeds),
        "code": {f"{group} {setting}": min(own) for (group, setting), own in codes.items()},
        "cpu_minutes": {
            group: sum(record["seconds"] for one, record in found.items() if one.group == group) / 60.0
            for group in GROUPS
        },
        "cells": len(rows),
        "behind": sum(row["behind"] for row in rows),
        "rows": rows,
    }


def _again(group: str, setting: str) -> str:
    """The arguments that drop and run these again."""
    return f"--again {group} --settings {setting}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=Path, required=True, help="folder of what was run already")
    parser.add_argument("--only", nargs="+", choices=tuple(tables.TABLES), help="tables")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=list(GROUPS))
    parser.add_argument("--settings", nargs="+", choices=tuple(EPSILONS), default=list(EPSILONS))
    parser.add_argument("--again", nargs="+", choices=GROUPS, default=[], help="forget what was run of these")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--most", type=int, help="people of a table, for a quick try")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    for group in options.again:
        for setting in options.settings:
            shutil.rmtree(options.cells / group / setting, ignore_errors=True)
    seeds = report_seeds(FIRST_SEED, options.seeds)
    names = options.only or tuple(tables.TABLES)
    wanted = runs_of(names, seeds, options.groups, options.settings)
    run_missing(wanted, options.cells, jobs=options.jobs, most=options.most)
    everything = runs_of(names, seeds)
    missing = sum(not one.file(options.cells).exists() for one in everything)
    if missing:
        print(f"{missing} of {len(everything)} runs are missing: no results yet", file=sys.stderr)
        return
    results = results_of(everything, options.cells)
    for row in results["rows"]:
        if row["behind"]:
            print(
                f"{row['table']}, {row['setting']}, epsilon {row['epsilon']:g}: {row['best']} is ahead by "
                f"{row['gap']:.3f} (standard error {row['gap_se'] or 0.0:.3f})"
            )
    print(f"{results['behind']} of {results['cells']} cells are behind")
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    from reproduction.studies import panel  # processes import its classes by name, and not from __main__

    panel.main()
