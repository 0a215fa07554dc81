"""Arms that come and go: how fast a new arm is found out, and what a retirement costs.

    python -m reproduction.studies.arms_change --out reproduction/results/arms_change.json

People have an age, an income and a region. Four arms are offered from the start. A fifth one is announced
when half of the people have been asked. In the world `best` it is better than every other arm by .1 on
average, in `bad` it is worse by .1. In both its effects correlate by .8 with those of the first arm, and arms
have about .4 as mean. In `low best` and `low bad` the mean is .05, and differences are .3 times as large.
Rewards are 0 or 1. Everybody is asked once, at (1, 1e-6).

| policy | what it is |
|---|---|
| `added` | `add_arm` without `like=` |
| `like` | `add_arm` with `like=` the first arm |
| `retired` | `like`, and the second arm is retired at the same time |
| `from the start` | all five arms are offered to everybody |
| `new policy` | a policy with five arms for the second half, which knows nothing of the first |

Schedule `twenty` has a release after each twentieth of the people but the last. `longest` is the default
schedule with blocks of at most a twentieth of the people. The default schedule (`default`) has its last
release after 14,325 people and the one before after 9,837. An addition half way plans later ones anew. A
run's share is (mean reward - random)/(best - random) over the second half of the people, by true means. Best
and random are over the arms that are offered at the end, so a retired arm is in neither. `shares` are the
shares of the decisions that go to the new arm after 0, 1, 2, ... releases that hold it. The last number is
the final share.

Defaults of `add_arm` are tuned by `python -m reproduction.tuning.arms_change`, on other worlds and seeds
below 1,000,000.
"""

import argparse
import json
import os
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits._typing import FloatArray
from dpbandits.lab.evaluation import FIRST_REPORT_SEED
from dpbandits.lab.evaluation.summary import mean_and_error

FIRST_SEED, SEEDS = 7_500_000, 20
PEOPLE, EPSILON, DELTA = 20_000, 1.0, 1e-6
ARMS, NEW = ("a", "b", "c", "d"), "new"
REGIONS = ("north", "south", "west", "east")
CONTEXTS = dpb.Schema(age=dpb.Range(0, 1), income=dpb.Range(0, 1), region=dpb.Categories(list(REGIONS)))
WORLDS = ("best", "bad", "low best", "low bad")
POLICIES = ("added", "like", "retired", "from the start", "new policy")
SCHEDULES = {"twenty": 20, "default": 1, "longest": 1}
MARGIN, LIKE = 0.1, 0.8
LEVELS = {"low": (0.05, 0.3, 0.005), "": (0.4, 1.0, 0.02)}


class Crowd(NamedTuple):
    """Contexts of n people, their mean rewards (n, 5), and a coin (n,) that decides each reward."""

    table: dict[str, Any]
    means: FloatArray
    coins: FloatArray


def lines(table: dict[str, Any], rng: np.random.Generator) -> FloatArray:
    """Return effects (n,) that are straight lines over age and income, and a number for each region."""
    slopes, regions = rng.normal(0.0, 0.12, 2), rng.normal(0.0, 0.07, len(REGIONS))
    codes = np.array([REGIONS.index(one) for one in table["region"]])
    both = slopes[0] * (2 * table["age"] - 1) + slopes[1] * (2 * table["income"] - 1)
    return np.asarray(both + regions[codes])


def crowd(world: str, seed: int, *, people: int = PEOPLE, effects: Any = lines) -> Crowd:
    """Draw people and the effects of all arms; the new arm is the last one."""
    rng = np.random.default_rng([seed, 40])
    table: dict[str, Any] = {"age": rng.random(people), "income": rng.random(people)}
    table["region"] = rng.choice(REGIONS, people)
    own = [effects(table, rng) for _ in range(len(ARMS) + 1)]
    own[-1] = LIKE * own[0] + (1.0 - LIKE**2) ** 0.5 * own[-1]
    own = [one - one.mean() for one in own]
    levels = rng.normal(0.0, 0.04, len(ARMS))
    last = levels.max() + MARGIN if world.endswith("best") else levels.min() - MARGIN
    middle, unit, least = LEVELS[world.rpartition(" ")[0]]
    means = np.clip(middle + unit * (np.array([*levels, last]) + np.column_stack(own)), least, 0.98)
    return Crowd(table, means, rng.random(people))


def policy_of(name: str, *, seed: int, schedule: str, people: int) -> Any:
    """Return a policy with four arms, or with five if the new one is offered from the start."""
    horizon = people // 2 if name == "new policy" else people
    parts = SCHEDULES.get(schedule, 1)
    ends = (people * one // parts for one in range(1, parts))
    blocks = [one for one in ends if one < horizon] or None
    tuning = None if blocks is None else dpb.central.GPTuning(release="marginals", blocks=blocks)
    if schedule == "longest":
        tuning = dpb.central.GPTuning(longest_block=people // 20)
    return dpb.central.GPBandit(
        contexts=CONTEXTS,
        arms=[*ARMS, NEW] if name in ("from the start", "new policy") else list(ARMS),
        reward_range=(0, 1),
        horizon=horizon,
        privacy=dpb.JointDP(epsilon=EPSILON, delta=DELTA),
        tuning=tuning,
        seed=seed,
    )


def run(
    drawn: Crowd, name: str, *, seed: int, schedule: str, minimum: float | None = None
) -> tuple[list[float], float, float]:
    """Return shares of the new arm after each release that holds it, the run's share, and CPU seconds."""
    people, half = len(drawn.coins), len(drawn.coins) // 2
    began = time.process_time()
    policy = policy_of(name, seed=seed, schedule=schedule, people=people)
    first = half if name == "new policy" else 0
    labels = [*ARMS, NEW]
    got, shares, start = np.full(people, np.nan), [], first
    while start < people:
        if start > half and name in ("added", "like", "retired") and not policy.arm_changes:
            policy.add_arm(NEW, like=ARMS[0] if name != "added" else None, minimum=minimum)
            if name == "retired":
                policy.retire_arm(ARMS[1])
        bounds = [*(first + own for own in policy.batch_boundaries), half + 1, people]
        end = min(own for own in bounds if own > start)
        rows = np.arange(start, end)
        decided = policy.ask_batch({key: own[rows] for key, own in drawn.table.items()}, users=rows.tolist())
        codes = np.array([labels.index(arm) for arm in decided.arms])
        means = drawn.means[rows, codes]
        policy.tell_batch(decided.ids, (drawn.coins[rows] < means).astype(np.float64))
        if NEW in policy.arms and start > half:
            shares.append(float((codes == labels.index(NEW)).mean()))
        got[rows], start = means, end
    left = drawn.means[half:, [arm in policy.arms for arm in labels]]
    random, best = float(left.mean()), float(left.max(axis=1).mean())
    share = (float(got[half:].mean()) - random) / (best - random)
    return shares, share, time.process_time() - began


def row_of(world: str, name: str, schedule: str) -> dict[str, Any]:
    """Return the results of one policy in one world, over all seeds."""
    seeds = [FIRST_SEED + number for number in range(SEEDS)]
    if min(seeds) < FIRST_REPORT_SEED:
        raise ValueError("reported seeds are from 1,000,000 on")
    runs = [run(crowd(world, seed), name, seed=seed, schedule=schedule) for seed in seeds]
    share, error = mean_and_error(np.array([one[1] for one in runs]))
    found: dict[str, Any] = {"world": world, "policy": name, "schedule": schedule, "seeds": seeds}
    found |= {"share": share, "share_se": error, "seconds": float(np.mean([one[2] for one in runs]))}
    if name in ("added", "like", "retired"):
        shares = np.array([one[0] for one in runs])
        means = [mean_and_error(own) for own in shares.T]
        found |= {"shares": [mean for mean, _ in means], "shares_se": [own for _, own in means]}
        two = min(2, shares.shape[1] - 1)
        final = float(shares[:, -1].mean())
        found["of_final_after_two"] = float(shares[:, two].mean()) / final if final else None
        found["after_three"] = float(shares[:, min(3, shares.shape[1] - 1)].mean())
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the rows that `--out` does not have; every row is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=[*SCHEDULES], default=[*SCHEDULES])
    given = parser.parse_args(arguments)
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    known = {(row["schedule"], row["world"], row["policy"]) for row in rows}
    for schedule in given.only:
        for world in WORLDS if schedule != "longest" else WORLDS[:2]:
            for name in POLICIES if schedule == "twenty" else POLICIES[:4]:
                if (schedule, world, name) in known:
                    continue
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    rows.append(row_of(world, name, schedule))
                rows.sort(key=lambda row: ([*SCHEDULES].index(row["schedule"]), WORLDS.index(row["world"])))
                told = {"people": PEOPLE, "epsilon": EPSILON, "delta": DELTA, "rows": rows}
                given.out.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
