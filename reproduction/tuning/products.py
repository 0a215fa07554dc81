"""Constants of products with features, compared with other values on worlds that no page shows.

    python -m reproduction.tuning.products --out reproduction/results/products-tuning.json

    python -m reproduction.tuning.products --logs --out reproduction/results/products-logs-tuning.json

Worlds have other numbers of products, and other shares of what features explain, than those of the study.
Every variant has the same worlds, people and seeds. A row has the mean chance that people buy, of all people,
of the second half and of the last tenth. It also has the mean and standard error of the paired difference
from "as they are", in the second half.

With `--logs`, a function is learned from a log of the same people with evenly drawn products, by bins of all
columns or of the first ones, and without features. A row has the mean chance that people buy what it chooses.
"""

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.central.logged import product_tables
from dpbandits.central.marginals import action_release, noise, product_release, release
from dpbandits.central.marginals import actions as central_actions
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.models.marginals import actions
from reproduction.studies.product_worlds import PEOPLE, ProductCrowd, ProductWorld
from reproduction.studies.products import COUNT, PRIVACY, run

SEEDS = (101, 102, 103, 104, 105, 106)
WORLDS = (
    ProductWorld("tuned", 0.5, personal=0.7, n_products=120, level=0.35),
    ProductWorld("tuned-nothing", 0.0, n_products=150),
)
RELEASE = product_release.ProductRelease
VARIANTS: dict[str, tuple[tuple[Any, str, Any], ...]] = {
    "as they are": (),
    "draws times .4": ((RELEASE, "thompson_scale", 0.4),),
    "draws times .25": ((RELEASE, "thompson_scale", 0.25),),
    "draws fall with the square": ((release, "SPREAD_POWER", 2.0),),
    "own effects of variance .015": ((actions, "ALONE_VARIANCE", 0.015),),
    "own effects of variance .0015": ((actions, "ALONE_VARIANCE", 0.0015),),
    "no effects of single arms": ((product_release, "TOLD_ALONE", 1e9),),
    "shared effects of half the variance": ((actions, "PRIOR_VARIANCES", 0.5 * actions.PRIOR_VARIANCES),),
    "shared effects of twice the variance": ((actions, "PRIOR_VARIANCES", 2.0 * actions.PRIOR_VARIANCES),),
    "first block of 350 people": (
        (product_release, "PEOPLE", 350.0),
        (product_release, "FIRST_SHARES", (0.0, 0.1, 0.33)),
    ),
    "first block of 1,200 people": ((product_release, "PEOPLE", 1_200.0),),
    "blocks grow by 1.15": ((product_release, "GROWTH", 1.15),),
    "blocks grow by 1.6": ((product_release, "GROWTH", 1.6),),
    "12 bins": ((product_release, "BINS", 12),),
    "48 bins": ((product_release, "BINS", 48),),
    "freedom 3": ((RELEASE, "freedom", 3.0),),
    "freedom 12": ((RELEASE, "freedom", 12.0),),
    "by context from the first release on": ((action_release, "CAUTION", 0.0),),
    "counts less trusted": ((central_actions, "COUNT_ERROR", 0.2),),
    "counts more trusted": ((central_actions, "COUNT_ERROR", 0.05),),
    "6% of epsilon for counts": ((noise, "CONTEXT_SHARE", 0.06),),
}


def from_log(crowd: ProductCrowd, most_bins: int | None, *, seed: int) -> float:
    """Return the mean chance that people buy what a function of a log chooses; None is without features."""
    products, rng = crowd.products, np.random.default_rng(seed)
    chosen = rng.integers(0, products.n_arms, COUNT)
    policy = dpb.central.ExploreThenCommit(
        contexts=PEOPLE,
        arms=products.labels if most_bins is None else products,
        reward_range=(0, 1),
        horizon=COUNT,
        privacy=PRIVACY,
        seed=seed,
        tuning=dpb.central.ExploreTuning(release="marginals"),
    )
    rows = np.arange(COUNT)
    rewards = (crowd.coins < crowd.means[rows, chosen]).astype(np.float64)
    labels = [products.labels[one] for one in chosen.tolist()]
    policy.learn(crowd.table, labels, rewards, users=rows.tolist())
    return float(crowd.means[rows, policy.publish().choose(crowd.table)].mean())


def of_logs() -> list[dict[str, Any]]:
    """Return the rows of logs, with differences from bins of all columns."""
    rows: list[dict[str, Any]] = []
    for world in WORLDS:
        base: list[float] = []
        for name, most in (("all columns", 1 << 12), ("the first columns", 0), ("no features", None)):
            with mock.patch.object(product_tables, "MOST_BINS", most or 0):
                found = [from_log(world.crowd(seed, COUNT), most, seed=seed) for seed in SEEDS]
            base = base or found
            gained = mean_and_error(np.array(found) - np.array(base))
            rows.append(
                {
                    "bins of": name,
                    "world": world.name,
                    "chance": mean_and_error(np.array(found)),
                    "gained": gained,
                }
            )
            print(rows[-1], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> None:
    """Run the variants; every row is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="Part of the names of variants to run.")
    parser.add_argument("--logs", action="store_true", help="Learn from logs instead.")
    given = parser.parse_args(arguments)
    if given.logs:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            given.out.write_text(json.dumps({"seeds": SEEDS, "rows": of_logs()}, indent=1) + "\n")
        return
    rows: list[dict[str, Any]] = []
    base: dict[str, np.ndarray[Any, Any]] = {}
    for name, changes in VARIANTS.items():
        if name != "as they are" and given.only not in name:
            continue
        before = [(holder, attribute, getattr(holder, attribute)) for holder, attribute, _ in changes]
        for holder, attribute, value in changes:
            setattr(holder, attribute, value)
        try:
            for world in WORLDS:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    runs = [run(world.crowd(seed, COUNT), "products", seed=seed) for seed in SEEDS]
                means = {part: float(np.mean([one[part] for one in runs])) for part in runs[0]}
                half = np.array([one["second half"] for one in runs])
                gained = mean_and_error(half - base.setdefault(world.name, half))
                rows.append({"variant": name, "world": world.name, **means, "gained, second half": gained})
                given.out.write_text(json.dumps({"seeds": SEEDS, "rows": rows}, indent=1) + "\n")
        finally:
            for holder, attribute, value in before:
                setattr(holder, attribute, value)


if __name__ == "__main__":
    main()
