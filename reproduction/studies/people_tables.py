"""Retained uplift of contexts and arms on tables of users, compared with simple baselines.

    python -m reproduction.studies.tables_of_people tables.npz --adult adult.data.gz
    python -m reproduction.studies.people_tables --tables tables.npz --cells cells --jobs -1 \\
        --out reproduction/results/people-tables.json
    python -m reproduction.studies.people_tables --group log --tables tables.npz --cells cells --seeds 1 \\
        --jobs -1 --out reproduction/results/people-tables.json

Every table is answered online from its first person on, in another order for every seed, by

- `histogram`: `lab.baselines.CellHistogram`, which an hour gives, at pure epsilon;
- `ridge`: `lab.baselines.PrivateRidge`, which an afternoon gives;
- `features`: `central.GPBandit` with `GPTuning(release="features")`;
- `marginals`: the same with `release="marginals"`;
- `constant`: always the best arm in hindsight, and `random`, both computed exactly.

A share is (reward - random)/(best non-private - random); the best non-private is the best on average of
`FeatureGPUCB`, the ridge and the marginals at epsilon 50, and the best constant arm. Tables whose best
non-private method beats random by less than `LITTLE` have no share: there the reward less the best constant
arm's is what counts. `--which tuning` runs what constants were chosen on; `report` (default) what was not.

With `--group log` three quarters of the people, in a seed's order, are a log whose arms were drawn uniformly;
what is learned from it once is worth what it earns on the others. Beside `marginals`
(`central.ExploreThenCommit`) stands the ridge, in one block; the best non-private method is the best of both
at epsilon 50, of trees per arm with early stopping, and of the constant arm. `weighted` is `marginals` where
six rows of ten have an arm that follows from the first column, with propensities. `expected` is what
`expected_error` said before any data, and `covered` the share of expected rewards within two released
deviations, where they are known (made-up tables). The results are the member `log` of the same file.

Seeds of reports begin at 1,000,000. A cell is one file in `--cells`: started again, what is missing runs.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one core a job
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.central.logged.logged_table import WEIGHTED_BOUND
from dpbandits.lab.baselines import CellHistogram, CrudeTuning, FeatureGPUCB, GPUCBTuning, PrivateRidge
from dpbandits.lab.evaluation import BANNER, run
from dpbandits.lab.evaluation.runner import in_processes
from dpbandits.lab.evaluation.seeds import FIRST_REPORT_SEED
from dpbandits.lab.evaluation.summary import mean_and_error
from reproduction.studies.tables_of_people import (
    FAMILIES,
    MOST_ROWS,
    REPORT,
    TUNING,
    People,
    of_file,
    synthetic,
)

EPSILONS = (0.3, 1.0, 3.0)
METHODS = ("histogram", "ridge", "features", "marginals")
LOG_METHODS = ("ridge", "marginals", "weighted")
OPEN = 50.0
"""Epsilon of what counts as non-private: the largest that is calibrated."""
DELTA = 1e-6
LITTLE = 0.03
SYNTHETIC_SEEDS = 2
"""Made-up tables a family."""


@dataclass(frozen=True)
class Cell:
    """One method on one table at one epsilon, in one order of its people."""

    table: str
    method: str
    epsilon: float
    seed: int
    group: str = "online"

    @property
    def file(self) -> str:
        group = "" if self.group == "online" else f"{self.group}-"
        return f"{group}{self.table}-{self.method}-{self.epsilon:g}-{self.seed}.json"


def tables_of(which: str) -> tuple[str, ...]:
    """Names of tables, those that are made up as family:seed."""
    first = FIRST_REPORT_SEED if which == "report" else 0
    made = [f"{family}:{first + number}" for family in FAMILIES for number in range(SYNTHETIC_SEEDS)]
    return (*(REPORT if which == "report" else TUNING), *made)


def people_of(name: str, path: Path | None) -> People:
    """The table of this name."""
    family, _, seed = name.partition(":")
    if seed:
        return synthetic(family, int(seed))
    if path is None:
        raise SystemExit(f"{name} comes from a file: pass --tables")
    return of_file(path, name)[name]


def policy_of(cell: Cell, world: dpb.lab.worlds.TableBandit):
    """A fresh policy; everything but the seed is public about the table."""
    own = {
        "contexts": world.schema,
        "arms": world.arms.labels,
        "reward_range": world.reward_range,
        "horizon": world.horizon,
        "seed": cell.seed,
    }
    if cell.method == "gp-ucb":
        return FeatureGPUCB(**own, tuning=GPUCBTuning(n_features=40), update_growth=0.1)
    private = {
        "privacy": dpb.JointDP(epsilon=cell.epsilon, delta=DELTA, user_ids=False),
        "noise": dpb.SimulatedNoise(cell.seed),
    }
    if cell.method == "ridge":
        return PrivateRidge(**own, **private)
    if cell.method == "histogram":
        return CellHistogram(**own, **private)
    return dpb.central.GPBandit(**own, **private, tuning=dpb.central.GPTuning(release=cell.method))


def live(cell: Cell, path: Path | None, rows: int | None) -> dict[str, float | str | int]:
    """One run; evaluation on data that one may look at."""
    world = people_of(cell.table, path).world(cell.table, seed=cell.seed, rows=rows)
    began = time.perf_counter()
    reward = run(policy_of(cell, world), world).mean_reward
    everything = world.mean_rewards(0, world.horizon)
    return {
        "table": cell.table,
        "method": cell.method,
        "epsilon": cell.epsilon,
        "seed": cell.seed,
        "people": world.horizon,
        "columns": world.schema.dim,
        "arms": world.n_arms,
        "reward": reward,
        "random": float(everything.mean()),
        "constant": float(everything.mean(axis=0).max()),
        "seconds": time.perf_counter() - began,
    }


def from_log(cell: Cell, path: Path | None, rows: int | None) -> dict[str, float | str | int | None]:
    """One log, learned from once; evaluation on data that one may look at."""
    people = people_of(cell.table, path)
    order = np.random.default_rng([cell.seed, 1]).permutation(len(people.contexts))
    order = order[: MOST_ROWS if rows is None else rows]
    past, new = order[: 3 * len(order) // 4], order[3 * len(order) // 4 :]
    arms = people.rewards.shape[1]
    rng, chances = np.random.default_rng([cell.seed, 2]), np.full((len(past), arms), 1.0 / arms)
    if cell.method == "weighted":
        first = people.contexts[past, 0] / max(1, people.categories[0])
        chances = 0.4 * chances + 0.6 * np.eye(arms)[(first * arms).astype(int) % arms]
    given = (rng.random(len(past))[:, None] > chances.cumsum(axis=1)).sum(axis=1).clip(0, arms - 1)
    own = np.arange(len(past)), given
    log = (people.contexts[past], given, people.rewards[past, given].astype(float), chances[own])
    began = time.perf_counter()
    mean, sd, expected = learned(cell, people, log, people.contexts[new])
    paid = people.rewards[new]
    covered = None
    if sd is not None and people.means is not None:
        covered = float((np.abs(mean - people.means[new]) < 2.0 * sd).mean())
    return {
        "table": cell.table,
        "method": cell.method,
        "epsilon": cell.epsilon,
        "seed": cell.seed,
        "people": len(past),
        "columns": people.schema.dim,
        "arms": arms,
        "reward": float(paid[np.arange(len(new)), mean.argmax(axis=1)].mean()),
        "random": float(paid.mean()),
        "constant": float(paid.mean(axis=0).max()),
        "expected": expected,
        "covered": covered,
        "seconds": time.perf_counter() - began,
    }


def learned(cell: Cell, people: People, log: tuple[np.ndarray, ...], new: np.ndarray):
    """Expected rewards (n, K) of new people, their deviations and the expected error, None without."""
    contexts, given, rewards, chances = log
    arms = people.rewards.shape[1]
    if cell.method == "trees":
        from sklearn.ensemble import HistGradientBoostingRegressor

        model = HistGradientBoostingRegressor(
            early_stopping=True, max_leaf_nodes=15, max_iter=150, random_state=cell.seed % 2**31
        )
        rows = [given == arm for arm in range(arms)]
        return np.column_stack([model.fit(contexts[at], rewards[at]).predict(new) for at in rows]), None, None
    shared = {
        "contexts": people.schema,
        "arms": list(range(arms)),
        "reward_range": (0, 1),
        "horizon": len(given),
        "privacy": dpb.JointDP(epsilon=cell.epsilon, delta=DELTA, user_ids=False),
        "noise": dpb.SimulatedNoise(cell.seed),
        "seed": cell.seed,
    }
    if cell.method == "ridge":
        ridge = PrivateRidge(
            **(shared | {"horizon": len(given) + 1}), tuning=CrudeTuning(blocks=(len(given),))
        )
        batch = ridge.ask_batch(contexts, available=np.eye(arms, dtype=bool)[given])
        ridge.tell_batch(batch.ids, rewards)
        ridge.ask_batch(new[:1])  # the block's release is made at the next ask
        return ridge.predict(new)[0], None, None
    weighted = cell.method == "weighted"
    tuning = dpb.central.ExploreTuning(release="marginals", bound=WEIGHTED_BOUND / 2 if weighted else None)
    policy = dpb.central.ExploreThenCommit(**shared, tuning=tuning)
    policy.learn(contexts, given.tolist(), rewards, propensities=chances if weighted else None)
    mean, sd = policy.publish().predict(new)
    return mean, sd, policy.expected_error()["publish"].error


def kept(cell: Cell, path: Path | None, rows: int | None, folder: Path) -> dict[str, float | str | int]:
    """Return the content of a cell's file, which is created first if it does not exist."""
    file = folder / cell.file
    if not file.exists():
        found = (live if cell.group == "online" else from_log)(cell, path, rows)
        partly = file.with_suffix(".part")
        partly.write_text(json.dumps(found))
        partly.replace(file)
    return json.loads(file.read_text())


def cells_of(which: str, seeds: int, only: list[str] | None, group: str = "online") -> list[Cell]:
    """All of them, the longest first."""
    first = FIRST_REPORT_SEED if which == "report" else 0
    ways = [("gp-ucb" if group == "online" else "trees", OPEN), ("ridge", OPEN), ("marginals", OPEN)]
    ways += [
        (method, epsilon)
        for method in (METHODS if group == "online" else LOG_METHODS)
        for epsilon in EPSILONS
    ]
    names = [name for name in tables_of(which) if only is None or name.partition(":")[0] in only]
    return [
        Cell(name, method, epsilon, first + seed, group)
        for seed in range(seeds)
        for method, epsilon in ways
        for name in names
    ]


def said_of(records: list[dict], method: str, epsilon: float, *, best: float) -> dict[str, float]:
    """Return a release's predicted error, its true error and the coverage, if the release predicts one."""
    own = [one for one in records if (one["method"], one["epsilon"]) == (method, epsilon)]
    if any(one.get("expected") is None for one in own):
        return {}
    known = [one["covered"] for one in own if one["covered"] is not None]
    found = {
        "expected_error": float(np.mean([one["expected"] for one in own])),
        "error": best - float(np.mean([one["reward"] for one in own])),
    }
    return found | ({"covered": float(np.mean(known))} if known else {})


def summed_up(records: list[dict]) -> dict[str, object]:
    """Rows of tables and of means over tables, from one record a cell."""
    rows, shares, gaps = [], {}, {}
    for name in dict.fromkeys(record["table"] for record in records):
        own = [record for record in records if record["table"] == name]
        random = float(np.mean([record["random"] for record in own]))
        constant = float(np.mean([record["constant"] for record in own]))
        by_way: dict[tuple[str, float], list[float]] = {}
        for record in sorted(own, key=lambda record: record["seed"]):
            by_way.setdefault((record["method"], record["epsilon"]), []).append(record["reward"])
        open_ways = {
            method: float(np.mean(found)) for (method, epsilon), found in by_way.items() if epsilon == OPEN
        }
        open_ways["constant"] = constant
        best = max(open_ways, key=lambda way: open_ways[way])
        uplift = open_ways[best] - random
        row = {
            "table": name,
            **{key: own[0][key] for key in ("people", "columns", "arms")},
            "seeds": len({record["seed"] for record in own}),
            "random": random,
            "constant": constant,
            "best_open": best,
            "best_open_reward": open_ways[best],
            "constant_share": (constant - random) / uplift if uplift >= LITTLE else None,
            "ways": [],
        }
        for (method, epsilon), found in by_way.items():
            if epsilon == OPEN:
                continue
            mean, error = mean_and_error(np.array(found))
            share = (mean - random) / uplift if uplift >= LITTLE else None
            row["ways"].append(
                {
                    "method": method,
                    "epsilon": epsilon,
                    "reward": mean,
                    "reward_se": error if len(found) > 1 else None,
                    "share": share,
                    "share_se": error / uplift if share is not None and len(found) > 1 else None,
                    "over_constant": mean - constant,
                    **said_of(own, method, epsilon, best=open_ways[best]),
                }
            )
            made_up = name.partition(":")[2] != ""
            if share is not None:
                shares.setdefault((made_up, method, epsilon), []).append(share)
            gaps.setdefault((method, epsilon), []).append((name, mean - constant, open_ways[best] - constant))
        rows.append(row)
    means = [
        {
            "tables": "made up" if made_up else "real",
            "method": method,
            "epsilon": epsilon,
            "count": len(found),
            "share": float(np.mean(found)),
            "share_se": float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else None,
        }
        for (made_up, method, epsilon), found in sorted(shares.items())
    ]
    below = [
        {
            "method": method,
            "epsilon": epsilon,
            "below_constant_where_open_beats_it_by_.03": [
                name for name, gap, most in found if most >= LITTLE and gap < 0.0
            ],
            "worst_on_flat_and_dominant": min(
                (gap for name, gap, _ in found if name.partition(":")[0] in ("flat", "dominant")),
                default=None,
            ),
        }
        for (method, epsilon), found in sorted(gaps.items())
    ]
    return {"means": means, "constant_arm": below, "tables": rows}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=Path, help="what tables_of_people.py wrote")
    parser.add_argument("--which", choices=("tuning", "report"), default="report")
    parser.add_argument("--group", choices=("online", "log"), default="online")
    parser.add_argument("--only", nargs="+", help="tables and families by name")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="at most so many people of a table")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cells", type=Path, required=True, help="folder of what was run already")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    options.cells.mkdir(parents=True, exist_ok=True)
    cells = cells_of(options.which, options.seeds, options.only, options.group)
    calls = [partial(kept, cell, options.tables, options.rows, options.cells) for cell in cells]
    found = []
    for number, record in enumerate(in_processes(calls, jobs=options.jobs, ordered=False)):
        found.append(record)
        if number % 50 == 0:
            print(f"{number + 1} of {len(calls)} cells", file=sys.stderr, flush=True)
    command = "python -m reproduction.studies.people_tables --tables tables.npz --cells cells"
    results = {
        "command": command if options.group == "online" else f"{command} --group log --seeds {options.seeds}",
        "banner": BANNER,
        "which": options.which,
        "delta": DELTA,
        **summed_up(found),
    }
    for mean in results["means"]:
        print(f"{mean['tables']}, {mean['method']}, epsilon {mean['epsilon']:g}: share {mean['share']:.3f}")
    if options.out is not None:
        held = json.loads(options.out.read_text()) if options.out.exists() else {}
        held = held | {"log": results} if options.group == "log" else results | {"log": held.get("log")}
        options.out.write_text(json.dumps(held, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
