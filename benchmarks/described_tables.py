"""What `run`, `learn` and `local simulate` earn on five tables, each from a file in `examples/tables` alone.

`python benchmarks/described_tables.py [--reps 5] [--out docs/_results/described-tables.json]` takes, for each
table and each report seed 1,000,000, 1,000,001, ..., the first rows in the seed's order, as many as the file
says in `horizon`, and lets

- random choice, the best constant arm of these rows in hindsight and a non-private policy decide about them;
- the private policy of `run` decide about them, one after the other;
- `learn` publish once from their log, each row's arm drawn by public coins: what it earns on the next rows,
  as many, of people it has never seen; beside it the best constant arm of those;
- the devices of `local simulate` decide, each with one report.

Every one at two epsilons. Of `learn` noise is secure, as the command's; of the others simulated. All of it is
an evaluation on data that one may look at.
"""

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.central import LoggedTable
from dpbandits.lab.evaluation import report_seeds, run
from dpbandits.lab.evaluation.transfer_crowds import simulate_transfer
from dpbandits.lab.people.study import non_private_policy, private_policy
from dpbandits.lab.worlds import TableBandit, table_of
from dpbandits.privacy.definitions import DPBanditsWarning
from dpbandits.tables import Categories
from dpbandits.tables.coded import Coded
from dpbandits.tables.described import DescribedTable

TABLES = Path(__file__).parent.parent / "examples" / "tables"
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


def one_repetition(
    described: DescribedTable, table: dict[str, Any], whole: TableBandit, seed: int
) -> Iterator[tuple[str, float]]:
    ordered = replace(whole, seed=seed)
    count = described.horizon or whole.horizon // 2
    world = replace(ordered, horizon=count)
    yield "random", float(world.mean_rewards(0, count).mean())
    yield "best constant arm", world.best_constant_arm().mean_reward
    yield "non-private", run(non_private_policy(world, seed), world).mean_reward
    later = ordered.reward_table[order_of(ordered)[count : 2 * count]]
    yield "best constant arm, later rows", float(later.mean(axis=0).max())
    for epsilon in EPSILONS:
        privacy = dpb.JointDP(epsilon=epsilon, delta=DELTA)
        policy = private_policy(world, seed, privacy=privacy, noise=dpb.SimulatedNoise(seed))
        yield f"run, epsilon {epsilon:g}", run(policy, world).mean_reward
        yield f"learn, epsilon {epsilon:g}", learned(described, table, ordered, epsilon)
        yield f"local simulate, epsilon {epsilon:g}", simulated(world, count, epsilon)


def measured(path: Path, reps: int) -> dict[str, Any]:
    described = DescribedTable.from_toml(path)
    whole, table = table_of(described, seed=0), described.read(lenient=True)
    found: dict[str, list[float]] = {}
    for seed in report_seeds(1_000_000, reps):
        for name, reward in one_repetition(described, table, whole, seed):
            found.setdefault(name, []).append(reward)
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
            name: {"mean": np.mean(runs), "stderr": np.std(runs, ddof=1) / np.sqrt(reps)}
            for name, runs in found.items()
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--only", default="*", help="a file's name, without .toml")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore", DPBanditsWarning)
    results = []
    for path in sorted(TABLES.glob(f"{options.only}.toml")):
        began = time.process_time()
        results.append(measured(path, options.reps))
        print(f"{path.name}: {time.process_time() - began:.0f} s")
        for name, reward in results[-1]["rewards"].items():
            print(f"  {name}: {reward['mean']:.4f} +- {reward['stderr']:.4f}")
    if options.out is not None:
        written = {"reps": options.reps, "first_seed": 1_000_000, "delta": DELTA, "tables": results}
        options.out.write_text(json.dumps(written, indent=1) + "\n")


if __name__ == "__main__":
    main()
