"""A new product half way: how fast the best or the worst of 200 products is found out when it is added.

    python -m reproduction.studies.products_change --out reproduction/results/products-change.json

The world is `half` of `product_worlds.PRODUCT_WORLDS`: features explain half of the variance. In `best`, the
product that is best on average over the run's people is not in the table. It is announced with its features
when half of the people have been asked. In `worst`, this is the product that is worst on average. Everybody
is asked once, at (1, 1e-6), with blocks of at most a twentieth of the people.

| policy | what it is |
|---|---|
| `added` | `add_arm` with the features of the product |
| `from the start` | all 200 products are offered to everybody |

`shares` are the shares of the decisions that go to the product after 0, 1, 2, ... releases that hold it. The
last number is the final share. For `from the start` they are those of blocks from the middle on. `chance` is
the mean chance that people of the second half buy. The result names the seeds that were run. If the file
exists, the study goes on with the next seed, and adds to the means and standard errors of the file.
"""

import argparse
import json
import os
import warnings
from itertools import product
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits._typing import FloatArray
from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from reproduction.studies.product_worlds import PEOPLE, PRODUCT_WORLDS, ProductCrowd

FIRST_SEED, SEEDS, COUNT = 7_500_000, 20, 20_000
PRIVACY = dpb.JointDP(epsilon=1.0, delta=1e-6)
WORLDS, POLICIES = ("best", "worst"), ("added", "from the start")


def without(products: dpb.Products, place: int) -> dpb.Products:
    """Return all products but one."""
    config, kept = products.to_config(), [one for one in range(products.n_arms) if one != place]
    config |= {name: [config[name][one] for one in kept] for name in ("labels", "points")}
    return dpb.Products.from_config(config)


def features_of(products: dpb.Products, place: int) -> dict[str, Any]:
    """Return the features of a product by column."""
    own, columns = products.points[place], products.columns.columns
    return {
        name: column.values[int(value)] if isinstance(column, dpb.Categories) else float(value)
        for (name, column), value in zip(columns.items(), own, strict=True)
    }  # ranges of this world are from 0 to 1


def run(crowd: ProductCrowd, world: str, name: str, *, seed: int) -> tuple[list[float], float]:
    """Return shares of the product after every release that holds it, and the chance in the second half."""
    average, half = crowd.means.mean(axis=0), COUNT // 2
    place = int(average.argmax() if world == "best" else average.argmin())
    labels = list(crowd.products.labels)
    policy = dpb.central.GPBandit(
        contexts=PEOPLE,
        arms=without(crowd.products, place) if name == "added" else crowd.products,
        reward_range=(0, 1),
        horizon=COUNT,
        privacy=PRIVACY,
        tuning=dpb.central.GPTuning(longest_block=COUNT // 20),
        seed=seed,
    )
    code_of = {label: code for code, label in enumerate(labels)}
    got: FloatArray = np.empty(COUNT)
    shares, start = [], 0
    for end in sorted({*policy.batch_boundaries, half + 1, COUNT}):
        if start > half and name == "added" and not policy.arm_changes:
            policy.add_arm(labels[place], features=features_of(crowd.products, place))
        rows = np.arange(start, end)
        decided = policy.ask_batch({key: own[rows] for key, own in crowd.table.items()}, users=rows.tolist())
        codes = np.array([code_of[arm] for arm in decided.arms])
        got[rows] = crowd.means[rows, codes]
        policy.tell_batch(decided.ids, (crowd.coins[rows] < got[rows]).astype(np.float64))
        if start > half and labels[place] in (policy.arms or ()):
            shares.append(float((codes == place).mean()))
        start = end
    return shares, float(got[half:].mean())


def joined(before: list[float] | None, value: float, runs: int) -> list[float]:
    """Return mean and standard error over `runs` runs, from those of all but the last and its value."""
    if before is None:
        return [value, float("nan")]
    mean, error = before
    squares = (runs - 1) * (runs - 2) * error**2 if runs > 2 else 0.0  # sum of squared deviations
    squares += (value - mean) ** 2 * (runs - 1) / runs
    return [mean + (value - mean) / runs, (squares / (runs * (runs - 1))) ** 0.5]


def main(arguments: list[str] | None = None) -> None:
    """Run the study; the file is written after every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args(arguments)
    told: dict[str, Any] = {"people": COUNT, "seeds": [], "rows": []}
    if given.out.exists():
        told = json.loads(given.out.read_text())
    for seed in range(FIRST_SEED + len(told["seeds"]), FIRST_SEED + given.seeds):
        if seed < FIRST_REPORT_SEED:
            raise ValueError("reported seeds are from 1,000,000 on")
        crowd, rows = PRODUCT_WORLDS["half"].crowd(seed, COUNT), []
        told["seeds"].append(seed)
        known = {(row["world"], row["policy"]): row for row in told["rows"]}
        for world, name in product(WORLDS, POLICIES):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                shares, chance = run(crowd, world, name, seed=seed)
            before, n = known.get((world, name), {}), len(told["seeds"])
            means = [
                joined(old, one, n)
                for old, one in zip(before.get("shares", [None] * len(shares)), shares, strict=True)
            ]
            row = {"world": world, "policy": name, "chance": joined(before.get("chance"), chance, n)}
            row["shares"] = means
            if name == "added":
                row["of_final_after_two"] = means[2][0] / max(1e-9, means[-1][0])
                row["after_three"] = means[3][0]
            rows.append(row)
        told["rows"] = rows
        given.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
