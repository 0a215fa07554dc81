"""Products with features: what the features of 200 arms gain, and what they cost if they say nothing.

    python -m reproduction.studies.products --out reproduction/results/products.json

Worlds are `product_worlds.PRODUCT_WORLDS`. Everybody decides once, at epsilon 1 and delta 1e-6, and noise is
drawn by the exact samplers of the library. A result is the mean chance that people buy what they got: of all
people, of those after the first half, and of the last tenth.

| policy | what it is |
|---|---|
| `products` | `arms=Products(table, ...)` |
| `arms` | the same 200 arms without features |
| `open` | ridge regression without privacy on the same functions, by Thompson sampling in 20 batches |
| `kinds` | a kind of product is chosen without contexts by `GPBandit`, then a random product of this kind |
| `constant` | the product that is best on average over the run's people, from true chances |
| `random` | a random product |

Constants were chosen on other worlds and seeds: `python -m reproduction.tuning.products`.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

import dpbandits as dpb
from dpbandits._typing import FloatArray
from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from dpbandits.lab.evaluation.summary import mean_and_error
from reproduction.studies.product_worlds import PEOPLE, PRODUCT_WORLDS, ProductCrowd

FIRST_SEED, SEEDS = 7_400_000, 20
COUNT, PRIVACY = 20_000, dpb.JointDP(epsilon=1.0, delta=1e-6)
FOR_ALL = dpb.Schema(all=dpb.Categories(["all"]))
POLICIES = ("products", "arms", "open", "kinds", "constant", "random")

BATCHES, DRAWS, VARIANCE = 20, 16, 0.2
"""Batches of the policy without privacy, its Thompson samples in each, and the variance of a reward."""

SCALE = 0.3
"""Factor on the deviations of its samples."""


def policy_of(crowd: ProductCrowd, name: str, *, seed: int) -> Any:
    """Return a private policy: `products`, `arms` or `kinds`."""
    arms: Any = crowd.products
    if name == "arms":
        arms = list(crowd.products.labels)
    elif name == "kinds":
        arms = list(crowd.products.columns.columns["kind"].values)  # type: ignore[attr-defined]
    return dpb.central.GPBandit(
        contexts=FOR_ALL if name == "kinds" else PEOPLE,
        arms=arms,
        reward_range=(0, 1),
        horizon=len(crowd.coins),
        privacy=PRIVACY,
        seed=seed,
    )


def private(crowd: ProductCrowd, name: str, *, seed: int) -> FloatArray:
    """Return the chance (n,) that everybody buys what they got."""
    policy, count = policy_of(crowd, name, seed=seed), len(crowd.coins)
    table = {"all": np.array(["all"] * count)} if name == "kinds" else crowd.table
    kinds, rng = crowd.products.points[:, 0].astype(np.int64), np.random.default_rng(seed)
    got, start = np.empty(count), 0
    for end in sorted({*policy.blocks, count}):
        rows = np.arange(start, end)
        decided = policy.ask_batch({key: own[rows] for key, own in table.items()}, users=rows.tolist())
        chosen = decided.indices
        if name == "kinds":
            of_kind = (kinds == chosen[:, None]) * rng.random((len(rows), len(kinds)))
            chosen = of_kind.argmax(axis=1)
        got[rows] = crowd.means[rows, chosen]
        policy.tell_batch(decided.ids, (crowd.coins[rows] < got[rows]).astype(np.float64))
        start = end
    return got


def without_privacy(crowd: ProductCrowd, *, seed: int) -> FloatArray:
    """Return the chance (n,) that everybody buys what the policy `open` gives them."""
    features: Any = policy_of(crowd, "products", seed=seed).features
    across, rng = features.across, np.random.default_rng(seed)
    gram = np.diag(VARIANCE / across.variances(across.prior))
    vector, got = np.zeros(across.n_weights), np.empty(len(crowd.coins))
    levels = features.base.levels(crowd.people)
    for rows in np.array_split(np.arange(len(got)), BATCHES):
        lower, phi = np.linalg.cholesky(gram), across.effects(levels[rows])
        noise = solve_triangular(lower.T, rng.normal(size=(len(gram), DRAWS)), lower=False).T
        drawn = across.of_actions(cho_solve((lower, True), vector) + SCALE * VARIANCE**0.5 * noise)
        chosen, parts = np.empty(len(rows), dtype=np.int64), np.arange(len(rows)) % DRAWS
        for part, weights in enumerate(drawn):
            chosen[parts == part] = (phi[parts == part] @ weights.T).argmax(axis=1)
        got[rows] = crowd.means[rows, chosen]
        told = (crowd.coins[rows] < got[rows]) - 0.5
        own = across.products(phi, across.basis.table[chosen])
        gram, vector = gram + own.T @ own, vector + own.T @ told
    return got


def run(crowd: ProductCrowd, name: str, *, seed: int) -> dict[str, float]:
    """Return mean chances and CPU seconds of one policy."""
    began = time.process_time()
    if name == "constant":
        got = crowd.means[:, crowd.means.mean(axis=0).argmax()]
    elif name == "random":
        got = crowd.means.mean(axis=1)
    elif name == "open":
        got = without_privacy(crowd, seed=seed)
    else:
        got = private(crowd, name, seed=seed)
    half, last = len(got) // 2, len(got) * 9 // 10
    return {
        "all": float(got.mean()),
        "second half": float(got[half:].mean()),
        "last tenth": float(got[last:].mean()),
        "seconds": time.process_time() - began,
    }


def summary(runs: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Return means and standard errors of every policy, and of paired differences from `products`."""
    found: dict[str, Any] = {}
    for name, theirs in runs.items():
        found[name] = {"seconds": float(np.mean([one["seconds"] for one in theirs]))}
        for part in ("all", "second half", "last tenth"):
            own = np.array([one[part] for one in theirs])
            less = np.array([one[part] for one in runs["products"]]) - own
            found[name][part] = mean_and_error(own)
            found[name][f"products less it, {part}"] = mean_and_error(less)
    kept = [
        (one["last tenth"] - low["last tenth"]) / (high["last tenth"] - low["last tenth"])
        for one, low, high in zip(runs["products"], runs["random"], runs["open"], strict=True)
    ]
    return found | {"share of the uplift of open, last tenth": mean_and_error(np.array(kept))}


def main(arguments: list[str] | None = None) -> None:
    """Run the study; the file is written after every seed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    given = parser.parse_args(arguments)
    every: dict[str, Any] = {name: {one: [] for one in POLICIES} for name in PRODUCT_WORLDS}
    for number in range(given.seeds):
        seed = FIRST_SEED + number
        if seed < FIRST_REPORT_SEED:
            raise ValueError("reported seeds are from 1,000,000 on")
        for name, world in PRODUCT_WORLDS.items():
            crowd = world.crowd(seed, COUNT)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for policy in POLICIES:
                    every[name][policy].append(run(crowd, policy, seed=seed))
        told = {
            "people": COUNT,
            "epsilon": PRIVACY.epsilon,
            "delta": PRIVACY.delta,
            "seeds": [FIRST_SEED + one for one in range(number + 1)],
            "worlds": {name: summary(runs) for name, runs in every.items()},
        }
        given.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
