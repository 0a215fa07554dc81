"""Coverage and width of the intervals of `central.evaluate`.

    python -m reproduction.studies.private_evaluation --out reproduction/results/private_evaluation.json

A policy is learned once from a made-up log of `LEARNED` people. Then it is evaluated on many fresh logs, each
of new people, and compared with the value that the world gives it. Every log is evaluated with secret noise
replaced by repeatable noise of the same law (`SimulatedNoise`).

| world | arms | reward |
|---|---|---|
| `offers` | 4, drawn uniformly | accepted or not, .15 to .55 |
| `rare` | 4, drawn uniformly | bought or not, .01 to .05 |
| `weighted` | 3, with chances .5, .3 and .2 | an amount in [0, 1], most of them small |

A row of the result is for one world, number of rows, estimator, epsilon and law of the noise. It has:

- the share of runs whose 95% interval holds the truth, with its standard error;
- the mean half width of the interval;
- both without privacy, by the same estimator on the same logs;
- the share of a naive interval, which leaves the noise out.

Logs of 100,000 rows are evaluated by `doubly_robust` only. Seeds are from 1,000,000. About ten minutes on one
idle core.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from dpbandits.central import LoggedTable
from dpbandits.central.logged.evaluation import Evaluation
from dpbandits.lab.evaluation import report_seeds
from dpbandits.privacy import JointDP, SimulatedNoise
from dpbandits.privacy.moments import MomentRelease
from dpbandits.tables import Categories, Range, Schema

RESULTS = Path(__file__).resolve().parents[1] / "results" / "private_evaluation.json"
LEARNED, TRUTH = 20_000, 500_000
RUNS = {2_000: 1_000, 10_000: 400, 100_000: 200}
METHODS = {2_000: ("doubly_robust", "ips"), 10_000: ("doubly_robust", "ips"), 100_000: ("doubly_robust",)}
PROMISES = ((0.3, None), (1.0, None), (1.0, "gaussian"))
PEOPLE = Schema(age=Range(18, 90), region=Categories(["north", "south", "west"]), visits=Range(0, 20))
CHANCES = {"offers": np.full(4, 0.25), "rare": np.full(4, 0.25), "weighted": np.array([0.5, 0.3, 0.2])}


def people(rng, n):
    """Contexts of n people, as columns."""
    return {
        "age": rng.uniform(18, 90, n),
        "region": rng.integers(3, size=n),
        "visits": rng.integers(21, size=n).astype(float),
    }


def means(world, own):
    """Expected rewards (n, K) of people."""
    arms = len(CHANCES[world])
    fits = (own["age"][:, None] - 18) / 72 * arms - np.arange(arms) - 0.5
    liked = np.exp(-(fits**2)) + 0.3 * (own["region"][:, None] == np.arange(arms))
    if world == "rare":
        return 0.01 + 0.03 * liked
    return 0.15 + 0.3 * liked


def log(world, seed, n):
    """A table of n rows."""
    rng = np.random.default_rng(seed)
    own, chances = people(rng, n), CHANCES[world]
    arms = rng.choice(len(chances), size=n, p=chances)
    expected = means(world, own)[np.arange(n), arms]
    if world == "weighted":
        rewards = rng.beta(2 * expected, 2 * (1 - expected))
    else:
        rewards = (rng.random(n) < expected).astype(float)
    own["region"] = np.array(["north", "south", "west"], dtype=object)[own["region"]]
    return LoggedTable.of_people(
        own | {"arm": arms, "reward": rewards, "chance": chances[arms]},
        contexts=PEOPLE,
        arms=list(range(len(chances))),
        action="arm",
        reward="reward",
        reward_range=(0, 1),
        propensity="chance" if world == "weighted" else None,
    )


def truth(world, policy):
    """Values of the constant arm 0, of the policy, and their difference."""
    own = people(np.random.default_rng(0), TRUTH)
    expected, names = means(world, own), np.array(["north", "south", "west"], dtype=object)
    points = policy.menu.points(own | {"region": names[own["region"]]})
    earned = expected[np.arange(TRUTH), policy.best_of(policy.means(points))]
    return [expected[:, 0].mean(), earned.mean(), (earned - expected[:, 0]).mean()]


def runs(world, rows, count):
    """Rows of the result, for one world and size of logs."""
    policy = log(world, 0, LEARNED).publish(JointDP(1.0, 1e-6, user_ids=False), horizon=LEARNED).function
    known, found = truth(world, policy), {}
    for seed in report_seeds(1_000_000, count):
        table = log(world, seed, rows)
        for method in METHODS[rows]:
            held = Evaluation(
                policies={"policy": policy},
                log=table,
                privacy=JointDP(1.0, 1e-6, user_ids=False),
                against=0,
                method=method,
                largest_weight=5.0 if world == "weighted" else None,
                noise=SimulatedNoise(0),
            )
            numbers, _ = held.unsafe_terms()
            values = held.release()
            for epsilon, law in PROMISES:
                mechanism = MomentRelease.planned(
                    epsilon, 1e-6, SimulatedNoise(seed), numbers=numbers.shape[1], law=law
                )
                noisy = mechanism.release(numbers)
                exact = noisy._replace(
                    sums=tuple(numbers.sum(axis=0)),
                    squares=tuple((numbers**2).sum(axis=0)),
                    people=float(len(numbers)),
                    sum_sd=1e-9,
                    people_sd=1e-9,
                )
                naive = noisy._replace(sum_sd=1e-9, people_sd=1e-9)
                intervals = [replace(values, moments=one).values() for one in (noisy, exact, naive)]
                told = [
                    [(one.low <= true <= one.high, (one.high - one.low) / 2) for one, true in pairs]
                    for pairs in (list(zip(kind, known, strict=True)) for kind in intervals)
                ]
                found.setdefault((method, epsilon, mechanism.law), []).append(told)
    lines = []
    for (method, epsilon, law), own in found.items():
        told = np.array(own, dtype=float)  # runs, kinds of interval, values, (covered, half width)
        for place, name in enumerate(("arm", "policy", "difference")):
            covered, half = told[:, :, place, 0].mean(axis=0), told[:, :, place, 1].mean(axis=0)
            lines.append(
                {
                    "world": world,
                    "rows": rows,
                    "method": method,
                    "epsilon": epsilon,
                    "law": law,
                    "value": name,
                    "runs": count,
                    "covered": round(covered[0], 4),
                    "covered_se": round(float(np.sqrt(covered[0] * (1 - covered[0]) / count)), 4),
                    "half_width": round(half[0], 5),
                    "covered_without_privacy": round(covered[1], 4),
                    "half_width_without_privacy": round(half[1], 5),
                    "covered_naive": round(covered[2], 4),
                }
            )
    return lines


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--world", action="append", choices=list(CHANCES))
    parser.add_argument("--rows", type=int, action="append", choices=list(RUNS))
    parser.add_argument("--runs", type=int, help="instead of the number that belongs to the size")
    parser.add_argument("--out", type=Path, help=f"file of the rows, such as {RESULTS.name}")
    chosen = parser.parse_args()
    lines = []
    for rows in chosen.rows or RUNS:
        for world in chosen.world or CHANCES:
            for line in runs(world, rows, chosen.runs or RUNS[rows]):
                lines.append(line)
                print(json.dumps(line), flush=True)
            if chosen.out is not None:
                chosen.out.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
