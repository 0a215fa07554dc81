"""Prices, bids and doses: what is lost to privacy, to arms, and to deciding for everybody at once.

    python -m reproduction.studies.prices --out reproduction/results/prices.json

Worlds are `lab.worlds.PRICE_WORLDS`. First values of constants were set in short trials on other seeds of
these worlds. `python -m reproduction.tuning.prices` compared them with others on worlds drawn from seeds.
In the setting "held out", each seed draws a world of a family that was tuned on. All seeds here
are later ones. Settings with 29 columns have a world of their own, `price-29`, in which two of them matter.

Everybody decides once, at delta 1e-6. Noise is drawn by the exact samplers of the library. The share of a run
is (mean value - uniform)/(best - uniform), over its people: 0 for a random action, 1 for the best action for
everybody. Exploration counts.

| policy | what it is |
|---|---|
| `actions` | the grid of 20 numbers, told the outcome |
| `for all` | the same without contexts |
| `arms-5`, `arms-10`, `arms-20` | so many of the numbers as arms, told the value |
| `open` | `actions` at epsilon 50: hardly any noise, and no protection worth the name |
| `fixed` | the number that is best on average over the run's people, from true means |

`--only` names settings whose rows are measured again; others stay as they are in `--out`.
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
from dpbandits.lab.worlds.prices import PRICE_WORLDS, PriceWorld
from reproduction.tuning.price_worlds import FAMILIES, made

FIRST_SEED = 7_320_000
DELTA = 1e-6
OPEN_EPSILON = 50.0
MATTER, SHIFTS = (13, 20), np.array([-3.0, 0.0, 1.5, 4.5])
"""Columns of `price-29` that matter: a range, and categories that shift what people would pay."""


def _two_of_many(columns: FloatArray, price: FloatArray) -> FloatArray:
    shift = SHIFTS[columns[:, MATTER[1], None].astype(np.int64)]
    return np.asarray(1.0 / (1.0 + np.exp(-(5.0 + 6.0 * columns[:, MATTER[0], None] + shift - price) / 1.5)))


MANY = PriceWorld(
    "price-29",
    PRICE_WORLDS["price-1"].numbers,
    {
        f"column {place}": 4 if place == MATTER[1] else (None, None, 2, None, 3)[place % 5]
        for place in range(29)
    },
    _two_of_many,
    PRICE_WORLDS["price-1"].value,
    "decreasing",
)
"""Prices with 29 columns of contexts, ranges and categories."""

FOR_ALL = dpb.Schema(all=dpb.Categories(["all"]))


class Setting(NamedTuple):
    """People, epsilon, seeds and policies that are compared."""

    people: int
    epsilon: float
    seeds: int
    policies: tuple[str, ...]


SETTINGS = {
    "main": Setting(10_000, 1.0, 20, ("actions", "arms-5", "arms-10", "arms-20", "for all")),
    "few people": Setting(2_000, 1.0, 20, ("actions", "for all")),
    "small epsilon": Setting(10_000, 0.3, 20, ("actions", "for all")),
    "open": Setting(10_000, OPEN_EPSILON, 5, ("actions",)),
    "large epsilon": Setting(10_000, 3.0, 5, ("actions",)),
    "many people": Setting(50_000, 1.0, 5, ("actions",)),
    "held out": Setting(10_000, 1.0, 10, ("actions", "arms-5", "for all")),
    "29 columns": Setting(20_000, 1.0, 10, ("actions", "arms-5", "for all")),
    "29 columns, more people": Setting(100_000, 1.0, 5, ("actions", "arms-5", "for all")),
}


def worlds_in(label: str) -> tuple[str, ...]:
    """Return the worlds of a setting, or its families of worlds."""
    if label.startswith("29 columns"):
        return (MANY.name,)
    return FAMILIES if label == "held out" else tuple(PRICE_WORLDS)


def world_of(name: str, seed: int) -> PriceWorld:
    """Return the world of that name, or the one that the seed draws from that family."""
    worlds = PRICE_WORLDS | {MANY.name: MANY}
    return worlds[name] if name in worlds else made(f"{name}:{seed}")


class Run(NamedTuple):
    """Result of a run.

    Attributes:
        share: Share of the uplift.
        lost: Share of the best value that is lost.
        seconds: CPU seconds.
        last: Share of the uplift of the people after the last release.
    """

    share: float
    lost: float
    seconds: float
    last: float


def policy_of(
    world: PriceWorld, name: str, *, people: int, epsilon: float, seed: int, **options: Any
) -> tuple[Any, list[int]]:
    """Return a policy, and the codes of the numbers among which it chooses."""
    shared: dict[str, Any] = {
        "contexts": FOR_ALL if name == "for all" else world.contexts,
        "horizon": people,
        "privacy": dpb.JointDP(epsilon=epsilon, delta=DELTA),
        "seed": seed,
        **options,
    }
    count = len(world.numbers)
    if not name.startswith("arms-"):
        return dpb.central.GPBandit(actions=world.actions, reward_range=(0, 1), **shared), [*range(count)]
    arms = int(name.removeprefix("arms-"))
    codes = [(2 * arm + 1) * count // (2 * arms) for arm in range(arms)]
    ends = world.values(np.tile([[0.0], [1.0]], count))[:, codes]
    low, high = float(ends.min()), float(ends.max())
    labels = [world.numbers[code] for code in codes]
    return dpb.central.GPBandit(arms=labels, reward_range=(low, high), **shared), codes


def run(world: PriceWorld, name: str, *, people: int, epsilon: float, seed: int, **options: Any) -> Run:
    """Ask and tell for everybody, and compare with the best action for everybody.

    Args:
        world: World of the people.
        name: Policy of the table above.
        people: Number of people.
        epsilon: Epsilon of the promise.
        seed: Seed of people, outcomes and public coins.
        **options: Further options of the policy.
    """
    crowd = world.people(seed, people)
    coins = world.coins(seed, people)
    means = world.means(crowd)
    values = world.values(means)
    began = time.process_time()
    policy, codes = policy_of(world, name, people=people, epsilon=epsilon, seed=seed, **options)
    table = {"all": np.array(["all"] * people)} if name == "for all" else world.table(crowd)
    got, start = np.empty(people), 0
    for end in sorted({*policy.blocks, people}):
        rows = np.arange(start, end)
        decided = policy.ask_batch({key: own[rows] for key, own in table.items()}, users=rows.tolist())
        chosen = np.array(codes)[decided.indices]
        outcomes = (coins[rows] < means[rows, chosen]).astype(np.float64)
        told = outcomes
        if name.startswith("arms-"):
            told = world.values(np.tile(outcomes[:, None], len(world.numbers)))[np.arange(len(rows)), chosen]
        policy.tell_batch(decided.ids, told)
        got[rows], start = values[rows, chosen], end
    seconds = time.process_time() - began
    mean, last = float(got.mean()), float(got[policy.blocks[-1] :].mean())
    return Run(_share(mean, values), 1.0 - mean / _best(values), seconds, _share(last, values))


def _best(values: FloatArray) -> float:
    return float(values.max(axis=1).mean())


def _share(mean: float, values: FloatArray) -> float:
    uniform = float(values.mean())
    return (mean - uniform) / (_best(values) - uniform)


def row_of(world: str, label: str, setting: Setting) -> dict[str, Any]:
    """Return the results of one world, or of one family, in one setting."""
    seeds = [FIRST_SEED + number for number in range(setting.seeds)]
    if min(seeds) < FIRST_REPORT_SEED:
        raise ValueError("reported seeds are from 1,000,000 on")
    worlds = [world_of(world, seed) for seed in seeds]
    every = [
        one.values(one.means(one.people(seed, setting.people)))
        for one, seed in zip(worlds, seeds, strict=True)
    ]
    fixed = np.array([_share(float(values.mean(axis=0).max()), values) for values in every])
    runs = {
        name: [
            run(one, name, people=setting.people, epsilon=setting.epsilon, seed=seed)
            for one, seed in zip(worlds, seeds, strict=True)
        ]
        for name in setting.policies
    }
    own = np.array([one.share for one in runs["actions"]])
    found: dict[str, Any] = {}
    for name, theirs in runs.items():
        shares = np.array([one.share for one in theirs])
        mean, error = mean_and_error(shares)
        lost, lost_error = mean_and_error(np.array([one.lost for one in theirs]))
        found[name] = {
            "share": mean,
            "share_se": error,
            "lowest": float(shares.min()),
            "lost": lost,
            "lost_se": lost_error,
            "last": float(np.mean([one.last for one in theirs])),
            "seconds": float(np.mean([one.seconds for one in theirs])),
        }
        if name != "actions":
            ahead, ahead_error = mean_and_error(own - shares)
            found[name] |= {"actions_less_it": ahead, "actions_less_it_se": ahead_error}
            ahead, ahead_error = mean_and_error(
                np.array([a.last - b.last for a, b in zip(runs["actions"], theirs, strict=True)])
            )
            found[name] |= {"last_less_it": ahead, "last_less_it_se": ahead_error}
    return {
        "setting": label,
        "world": world,
        "people": setting.people,
        "epsilon": setting.epsilon,
        "seeds": seeds,
        "fixed": float(fixed.mean()),
        "policies": found,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the study; every row is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=[*SETTINGS], default=[*SETTINGS])
    given = parser.parse_args(arguments)
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    rows = [row for row in rows if row["setting"] not in given.only]
    for label in given.only:
        for world in worlds_in(label):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                rows.append(row_of(world, label, SETTINGS[label]))
            places = [(name, one) for name in SETTINGS for one in worlds_in(name)]
            rows.sort(key=lambda row: places.index((row["setting"], row["world"])))
            given.out.write_text(json.dumps({"delta": DELTA, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
