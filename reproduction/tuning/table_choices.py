"""Regret of marginal tables, to compare two checkouts: `python -m reproduction.tuning.table_choices`.

Prints the mean regret of a round and its standard error for each shape of contexts and arms, over tuning
seeds 0 .. 199. Run it in both checkouts. It shows whether a change that moves ties between equal tables, or
last bits, costs reward.
"""

import argparse
import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb

SHAPES = ((3, 0, 4, 2_000), (5, 2, 4, 2_000), (10, 0, 4, 2_000), (10, 0, 20, 1_000))
"""Columns, how many of them are categories, arms, people."""

TOGETHER = 25


def regret(columns: int, categories: int, arms: int, people: int, seed: int) -> float:
    """Mean regret of a run; rewards are 0 or 1, and logits have main effects and one interaction."""
    rng = np.random.default_rng((seed, columns, arms))
    kinds = ["a", "b", "c"]
    schema = {f"c{j}": dpb.Categories(kinds) if j < categories else dpb.Range(0, 1) for j in range(columns)}
    policy = dpb.central.GPBandit(
        contexts=dpb.Schema(**schema),
        arms=list(range(arms)),
        reward_range=(0, 1),
        horizon=people,
        privacy=dpb.JointDP(1, 1e-6),
        noise=dpb.SimulatedNoise(seed),
        tuning=dpb.central.GPTuning(release="marginals"),
        seed=seed,
    )
    places, coins = rng.random((people, columns)), rng.random(people)
    places[:, :categories] = (np.floor(3 * places[:, :categories]) + 0.5) / 3
    logits = (places - 0.5) @ rng.normal(0.0, 2.0, (columns, arms))
    logits += 4.0 * (places[:, :1] - 0.5) * (places[:, 1:2] - 0.5) * rng.normal(size=arms)
    means = 1.0 / (1.0 + np.exp(-logits))
    rows = [
        {f"c{j}": kinds[int(3 * x)] if j < categories else x for j, x in enumerate(row)}
        for row in places.tolist()
    ]
    lost = 0.0
    for start in range(0, people, TOGETHER):
        here = range(start, min(start + TOGETHER, people))
        for i, decision in zip(
            here, policy.ask_batch([rows[i] for i in here], users=list(here)), strict=True
        ):
            policy.tell(decision.id, float(coins[i] < means[i, decision.arm]))
            lost += means[i].max() - means[i, decision.arm]
    return float(lost) / people


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=200)
    seeds = range(parser.parse_args().seeds)
    for shape in SHAPES:
        found = np.array([regret(*shape, seed) for seed in seeds])
        error = found.std(ddof=1) / np.sqrt(len(found))
        columns, categories, arms, people = shape
        print(
            f"{columns} columns, {categories} of them categories, {arms} arms, {people} people: "
            f"{found.mean():.5f} +- {error:.5f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
