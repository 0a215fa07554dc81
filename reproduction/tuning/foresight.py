"""Constants of warnings, which rest on public numbers or releases: `python -m reproduction.tuning.foresight`.

Two tables are printed, of tuning seeds 0 to 15.

- `foresight`: the correlation that `central.foresight` expects, beside the share of the best decision's
  advantage that the last quarter of a run keeps, and how many runs end below a random policy. In the settings
  whose correlation is below `NOTHING_TO_LEARN`, more than a quarter of the runs end below random.
- `beyond`: by how much predictions leave the reward range, in widths and in their standard deviations, where
  candidates follow the expected law and where visitors bring contexts. `BEYOND` and `BEYOND_SDS` of
  `central.gp_bandit` lie between.
"""

import argparse
import os
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits.central import GPBandit, GPTuning
from dpbandits.privacy import SimulatedNoise

Mean = Callable[[np.ndarray], np.ndarray]
SEEDS = range(16)
PLACES = ((100, 1.0), (300, 1.0), (1_000, 1.0), (1_000, 0.3), (1_000, 0.1))
KERNELS = {
    "Matern .105": dpb.kernels.Matern(nu=2.5, lengthscale=2 / 19),
    "Matern .3": dpb.kernels.Matern(nu=2.5, lengthscale=0.3),
    "SE .3": dpb.kernels.SquaredExponential(lengthscale=0.3),
}


def price_curve(seed: int, dim: int) -> Mean:
    """Revenue by price, where fewer buy at higher prices; the mean over columns."""
    rng = np.random.default_rng(seed)
    middle, width = rng.uniform(0.2, 0.8, dim), rng.uniform(0.03, 0.15, dim)
    return lambda X: (X / (1.0 + np.exp((X - middle) / width))).mean(axis=1)


def smooth(seed: int, dim: int) -> Mean:
    """A sum of kernel sections, from .2 to .8."""
    rng = np.random.default_rng(seed)
    centres, weights, grid = rng.random((30, dim)), rng.normal(size=30), rng.random((2_000, dim))

    def raw(X: np.ndarray) -> np.ndarray:
        squares = ((X[:, None] - centres) ** 2).sum(axis=2)
        return np.exp(-0.5 * squares / (0.25**2 * dim)) @ weights

    low, high = raw(grid).min(), raw(grid).max()
    return lambda X: np.clip(0.2 + 0.6 * (raw(X) - low) / (high - low), 0.0, 1.0)


def in_contexts(seed: int) -> Mean:
    """Revenue by price (second column) and context (first)."""
    steep = np.random.default_rng(seed + 99).uniform(0.5, 2.0)
    return lambda X: X[:, 1] * np.exp(-steep * X[:, 1] * (2.0 - X[:, 0]))


def lived(policy: GPBandit, mean: Mean, rounds: int, seed: int, *, contexts: bool = False) -> float:
    """Share of the best candidate's advantage over a random one that the last quarter of a run keeps."""
    rng, dim, kept, done = np.random.default_rng(seed + 5_000), policy.domain.dim, [], 0
    for end in (*policy.batch_boundaries, rounds):
        count = end - done
        if count <= 0:
            continue
        sets = rng.random((count, 25, dim))
        if contexts:
            sets[:, :, 0], sets[:, :, 1] = rng.random(count)[:, None], np.linspace(0.0, 1.0, 25)
        decisions = policy.ask_batch(sets)
        own, all_of_them = mean(decisions.actions), mean(sets.reshape(-1, dim)).reshape(count, 25)
        policy.tell_batch(decisions.ids, (rng.random(count) < own).astype(np.float64))
        kept.append(np.column_stack([own, all_of_them.mean(axis=1), all_of_them.max(axis=1)]))
        done = end
    own, floor, best = np.concatenate(kept)[-rounds // 4 :].mean(axis=0)
    return float((own - floor) / (best - floor))


def policy_of(seed: int, dim: int, rounds: int, epsilon: float, kernel: Any, kind: str) -> GPBandit:
    """One policy over the unit box."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return GPBandit(
            domain=dpb.Box(np.zeros(dim), np.ones(dim)),
            kernel=kernel,
            reward_range=(0.0, 1.0),
            horizon=rounds,
            privacy=dpb.JointDP(epsilon, 0.0 if kind == "cells" else 1e-6, user_ids=False),
            noise=SimulatedNoise(seed),
            seed=seed,
            tuning=GPTuning(release=kind),  # type: ignore[arg-type]
        )


def foresight() -> None:
    """Print what is expected beside what was kept."""
    print("columns rounds epsilon kernel       expected  kept  below random")
    for dim in (1, 2):
        for rounds, epsilon in PLACES:
            for name, kernel in KERNELS.items():
                shares = []
                for seed in SEEDS:
                    policy = policy_of(seed, dim, rounds, epsilon, kernel, "features")
                    world = price_curve(seed, dim) if seed % 2 else smooth(seed, dim)
                    shares.append(lived(policy, world, rounds, seed))
                expected = policy.diagnostics()["expected_correlation"]
                below = sum(share < 0.0 for share in shares)
                print(
                    f"{dim:7} {rounds:6} {epsilon:7g} {name:12} {expected:8.2f} {np.mean(shares):5.2f} "
                    f"{below:8}/{len(shares)}",
                    flush=True,
                )


def beyond() -> None:
    """Print how far predictions leave the reward range."""
    print("release  candidates rounds epsilon  widths beyond: least, most  deviations beyond: least, most")
    kernel, points = KERNELS["SE .3"], np.random.default_rng(0).random((512, 2))
    for kind in ("features", "cells"):
        for rounds, epsilon in ((300, 1.0), (1_000, 1.0), (3_000, 1.0), (1_000, 0.3)):
            for contexts in (False, True):
                found = []
                for seed in SEEDS:
                    policy = policy_of(seed, 2, rounds, epsilon, kernel, kind)
                    world = in_contexts(seed) if contexts else price_curve(seed, 2)
                    lived(policy, world, rounds, seed, contexts=contexts)
                    mean, sd = policy.predict(points)
                    off = np.maximum(-mean, mean - 1.0)
                    found.append((off.max(), (off / sd).max()))
                low, high = np.min(found, axis=0), np.max(found, axis=0)
                who = "contexts" if contexts else "uniform"
                print(
                    f"{kind:8} {who:10} {rounds:6} {epsilon:7g} {low[0]:13.2f} {high[0]:7.2f} "
                    f"{low[1]:18.2f} {high[1]:7.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", choices=["foresight", "beyond"], help="default both")
    chosen = parser.parse_args().table
    for name, table in (("foresight", foresight), ("beyond", beyond)):
        if chosen in (None, name):
            table()
