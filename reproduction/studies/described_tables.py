"""Rewards of `run`, `learn` and `local simulate` on the five tables described in `examples/tables`.

    python -m reproduction.studies.described_tables --reps 5 --out reproduction/results/described-tables.json

For each table and each report seed 1,000,000, 1,000,001, ..., the command uses the first `horizon` rows of
the file in the seed's order. It compares these ways to decide:

- random choice, the best constant arm of these rows in hindsight, and a non-private policy;
- the private policy of `run`, row by row, and two simple private policies;
- a supervised model that saw the rewards of other users, on the first seed's rows, as a ceiling;
- the policy that `learn` publishes from a log of these rows, whose arms are drawn by public coins. It decides
  for as many next rows, of new users, and is compared with the best constant arm of those;
- the clients of `local simulate`, with one report each.

Each private policy runs at two epsilons. The noise of `learn` is secure, like the command's; that of the
others is simulated. All results are evaluations, not releases.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.central import LoggedTable
from dpbandits.lab.baselines import CellHistogram, PrivateRidge
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.evaluation.transfer_crowds import simulate_transfer
from dpbandits.lab.people.study import non_private_policy, private_policy
from dpbandits.lab.worlds import TableBandit, table_of
from dpbandits.policy import Policy
from dpbandits.privacy.definitions import DPBanditsWarning
from dpbandits.tables import Categories
from dpbandits.tables.coded import Coded
from dpbandits.tables.described import DescribedTable

TABLES = Path(__file__).resolve().parents[2] / "examples" / "tables"
EPSILONS = (1.0, 4.0)
DELTA = 1e-6


def rows_of(table: dict[str, Any], rows: np.ndarray) -> dict[str, Any]:
    return {
        name: Coded(column.codes[rows], column.values) if isinstance(column, Coded) else column[rows]
        for name, column in table.items()
    }


def order_of(world: TableBandit) -> np.ndarray:
    """Rows of the file in the order in which the world's seed brings them."""
    return np.array([int(user.rpartition("/")[2]) for user in world.users(0, world.horizon)])


def learned(described: DescribedTable, table: dict[str, Any], world: TableBandit, epsilon: float) -> float:
    """Mean reward, on the next rows, of what `learn` publishes from the first ones."""
    order, count = order_of(world), described.horizon or world.horizon
    log = LoggedTable.described(described, rows_of(table, order[:count]))
    promise = dpb.JointDP(epsilon=epsilon, delta=DELTA, rounds_per_user=described.rows_per_user)
    function = log.publish(promise, horizon=count).function
    held = rows_of(table, order[count : 2 * count])
    chosen = function.choose({name: held[name] for name in described.schema.names})
    return float(world.reward_table[order[count : 2 * count], chosen].mean())


def simulated(world: TableBandit, count: int, epsilon: float) -> float:
    spec = dpb.local.Spec(
        contexts=world.schema,
        arms=world.arms.labels,
        reward_range=world.reward_range,
        privacy=dpb.LocalDP(epsilon=epsilon),
        n_users=count,
    )
    crowd = simulate_transfer(spec, world, sources=[], n_users=count, seed=world.seed, floating=False)
    return float(crowd.average_reward)


def ways_of(
    described: DescribedTable, table: dict[str, Any], whole: TableBandit, seed: int
) -> dict[str, Callable[[], float]]:
    """Return functions that run each method on one seed's users, by name in the results."""
    ordered = replace(whole, seed=seed)
    count = described.horizon or whole.horizon // 2
    world = replace(ordered, horizon=count)
    later = ordered.reward_table[order_of(ordered)[count : 2 * count]]

    def lived(policy: Policy) -> float:
        return run(policy, world).mean_reward

    ways: dict[str, Callable[[], float]] = {
        "random": lambda: float(world.mean_rewards(0, count).mean()),
        "best constant arm": lambda: world.best_constant_arm().mean_reward,
        "non-private": lambda: lived(non_private_policy(world, seed)),
        "ceiling": lambda: world.supervised_ceiling(seed),
        "best constant arm, later rows": lambda: float(later.mean(axis=0).max()),
    }
    for epsilon in EPSILONS:
        private = {"privacy": dpb.JointDP(epsilon=epsilon, delta=DELTA), "noise": dpb.SimulatedNoise(seed)}
        known = {
            "contexts": world.schema, "arms": world.arms.labels, "reward_range": world.reward_range,
            "horizon": count, "seed": seed, **private,
        }  # fmt: skip
        ways |= {
            f"run, epsilon {epsilon:g}": lambda own=private: lived(private_policy(world, seed, **own)),
            f"private ridge, epsilon {epsilon:g}": lambda own=known: lived(PrivateRidge(**own)),
            f"private histogram, epsilon {epsilon:g}": lambda own=known: lived(CellHistogram(**own)),
            f"learn, epsilon {epsilon:g}": partial(learned, described, table, ordered, epsilon),
            f"local simulate, epsilon {epsilon:g}": partial(simulated, world, count, epsilon),
        }
    return ways


def measured(path: Path, reps: int, wanted: Sequence[str]) -> dict[str, Any]:
    described = DescribedTable.from_toml(path)
    whole, table = table_of(described, seed=0), described.read(lenient=True)
    found: dict[str, list[float]] = {}
    for seed in report_seeds(1_000_000, reps):
        for name, way in ways_of(described, table, whole, seed).items():
            once = name == "ceiling" and name in found  # dear, and a model and not a run
            if not once and any(fnmatch(name, pattern) for pattern in wanted):
                found.setdefault(name, []).append(way())
    columns = described.schema.columns
    return {
        "file": path.name,
        "table": str(described.path),
        "rows": whole.horizon,
        "rounds": described.horizon,
        "arms": list(whole.arms.names),
        "categorical": [name for name, column in columns.items() if isinstance(column, Categories)],
        "filled": [name for name, column in columns.items() if column.missing is not None],
        "rewards": {
            name: {
                "mean": np.mean(runs),
                "stderr": np.std(runs, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else None,
            }
            for name, runs in found.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--only", default="*", help="a file's name, without .toml")
    parser.add_argument("--ways", nargs="*", default=["*"], help="of these names; others are kept in --out")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DPBanditsWarning)
    results, kept = [], {}
    if options.out is not None and options.out.exists():
        kept = {one["file"]: one["rewards"] for one in json.loads(options.out.read_text())["tables"]}
    for path in sorted(TABLES.glob(f"{options.only}.toml")):
        began = time.process_time()
        results.append(measured(path, options.reps, options.ways))
        print(f"{path.name}: {time.process_time() - began:.0f} s")
        for name, reward in results[-1]["rewards"].items():
            print(f"  {name}: {reward['mean']:.4f} +- {reward['stderr'] or 0.0:.4f}")
        results[-1]["rewards"] = kept.get(path.name, {}) | results[-1]["rewards"]
    if options.out is not None:
        written = {"reps": options.reps, "first_seed": 1_000_000, "delta": DELTA, "tables": results}
        options.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
