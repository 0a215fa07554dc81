"""Prices, bids and doses on devices: the number as `actions=`, and as plain arms, under local privacy.

    python -m reproduction.studies.prices_local --out reproduction/results/prices-local.json

Worlds and shares are those of `reproduction.studies.prices`. Every person makes one report, under a
`local.Spec` with its default learner. The sums of reports are drawn from their law by a simulated crowd.

| policy | what it is |
|---|---|
| `actions` | the grid of 20 numbers; a report is about the outcome |
| `arms-5`, `arms-10`, `arms-20` | so many of the numbers as arms; a report is about the value |
| `fixed` | the number that is best on average over the run's people, from true means |

The constants of the learner of actions were set by hand. Another temperature was tried on seeds 0 to 3 of
`price-1`, `useless`, `flat` and `dose`, and not taken.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import dpbandits as dpb
from dpbandits._typing import FloatArray
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.worlds.prices import PRICE_WORLDS, PriceWorld
from dpbandits.tables import Actions, values

FIRST_SEED, SEEDS = 7_330_000, 10
PEOPLE = 20_000
EPSILONS = (2.0, 4.0)
POLICIES = ("actions", "arms-5", "arms-10", "arms-20")
WORLDS = ("price-1", "useless")

REVENUE = values.Revenue(price="number")
VALUES = {"useless": values.Net(cost="number", each=1 / 40)}
"""Values by name, which a spec takes to devices: the same numbers as the functions of the worlds."""


class Crowd:
    """People of a world, as clients of devices see them.

    Attributes:
        world: World of the people.
        seed: Seed of the people.
        codes: Numbers that are arms, as codes; empty if all numbers are actions.
        ends: Least and largest value of these arms.
    """

    def __init__(self, world: PriceWorld, seed: int, codes: list[int]) -> None:
        self.world, self.seed, self.codes = world, seed, codes
        sold = world.values(np.tile([[0.0], [1.0]], len(world.numbers)))[:, codes or slice(None)]
        self.ends = (float(sold.min()), float(sold.max())) if codes else (0.0, 1.0)

    @property
    def dim(self) -> int:
        """Number of context columns."""
        return len(self.world.columns)

    @property
    def n_arms(self) -> int:
        """Number of arms or actions."""
        return len(self.codes) or len(self.world.numbers)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Return contexts (n, dim) in the unit cube, and mean outcomes or scaled mean values (n, n_arms)."""
        people = self.world.people(self.seed, n)
        found = self.world.means(people)
        if self.codes:
            low, high = self.ends
            found = (self.world.values(found)[:, self.codes] - low) / (high - low)
        columns = [
            own if count is None else (own + 0.5) / count
            for own, count in zip(people.T, self.world.columns.values(), strict=True)
        ]
        return np.stack(columns, axis=1), found


def run(world: PriceWorld, name: str, *, epsilon: float, seed: int) -> float:
    """Return the share of the uplift that one crowd keeps."""
    count, codes = len(world.numbers), list[int]()
    shared: dict[str, Any] = {"contexts": world.contexts, "privacy": dpb.LocalDP(epsilon=epsilon)}
    if name == "actions":
        grid = world.actions
        own = Actions(grid.schema, value=VALUES.get(world.name, REVENUE), shape=grid.shape)
        crowd = Crowd(world, seed, codes)
        spec = dpb.local.Spec(actions=own, **shared)
    else:
        arms = int(name.removeprefix("arms-"))
        codes = [(2 * arm + 1) * count // (2 * arms) for arm in range(arms)]
        crowd = Crowd(world, seed, codes)
        labels = [world.numbers[code] for code in codes]
        spec = dpb.local.Spec(arms=labels, reward_range=dpb.RewardRange(*crowd.ends), **shared)
    found = simulate(spec, crowd, n_users=PEOPLE, seed=seed)
    truth = world.values(world.means(world.people(seed, PEOPLE)))
    uniform = float(truth.mean())
    return (float(found.reward.sum()) / PEOPLE - uniform) / (float(truth.max(axis=1).mean()) - uniform)


def row_of(world: PriceWorld, epsilon: float) -> dict[str, Any]:
    """Return the results of one world at one epsilon."""
    seeds = [FIRST_SEED + number for number in range(SEEDS)]
    shares = {
        name: np.array([run(world, name, epsilon=epsilon, seed=seed) for seed in seeds]) for name in POLICIES
    }
    fixed = []
    for seed in seeds:
        truth = world.values(world.means(world.people(seed, PEOPLE)))
        low, most = float(truth.mean()), float(truth.max(axis=1).mean())
        fixed.append((float(truth.mean(axis=0).max()) - low) / (most - low))
    found: dict[str, Any] = {}
    for name, own in shares.items():
        mean, error = mean_and_error(own)
        found[name] = {"share": mean, "share_se": error, "lowest": float(own.min())}
        if name != "actions":
            ahead, ahead_error = mean_and_error(shares["actions"] - own)
            found[name] |= {"actions_less_it": ahead, "actions_less_it_se": ahead_error}
    less, less_error = mean_and_error(shares["actions"] - np.array(fixed))
    return {
        "world": world.name,
        "people": PEOPLE,
        "epsilon": epsilon,
        "seeds": seeds,
        "fixed": float(np.mean(fixed)),
        "actions_less_fixed": less,
        "actions_less_fixed_se": less_error,
        "policies": found,
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the study; every row is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", choices=[*WORLDS], default=[*WORLDS])
    given = parser.parse_args(arguments)
    rows = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    rows = [row for row in rows if row["world"] not in given.only]
    for name in given.only:
        for epsilon in EPSILONS:
            rows.append(row_of(PRICE_WORLDS[name], epsilon))
            rows.sort(key=lambda row: (WORLDS.index(row["world"]), row["epsilon"]))
            given.out.write_text(json.dumps({"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
