"""Choice of the modeler's constants for an unknown kernel, one change at a time.

    python -m reproduction.tuning.outsourced --records records \\
        --out reproduction/results/outsourced-tuning.json

On the tuning tables (two seeds each), the made-up worlds (six each) and ten draws of the paper's synthetic
study, all at epsilon 3 and seeds below 1,000,000. Constants not named in a line are those of the library.
"""

import argparse
import json
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.study import Cell, Record, run_cells
from dpbandits.outsourced import Modeler
from dpbandits.outsourced.modeler import fitting
from reproduction.kharkovskii2020.methods import scores
from reproduction.studies.outsourced_tables import HORIZON, release
from reproduction.studies.outsourced_worlds import FAMILIES, TUNING, world_of

VARIANTS = {
    "as it is": {},
    "prior median .35": {"PRIOR_LENGTHSCALE": 2.0**-1.5},
    "prior spread .7": {"PRIOR_SPREAD": 0.7},
    "unexplained (0, 1)": {"UNEXPLAINED_SHAPE": (0.0, 1.0)},
    "unexplained (1, 1)": {"UNEXPLAINED_SHAPE": (1.0, 1.0)},
    "exploration 6": {"exploration": 6.0},
    "exploration 24": {"exploration": 24.0},
}
EPSILON = 3.0
GROUPS = {
    "tables": [(table, seed) for table in TUNING for seed in range(2)],
    "made up": [(f"{family}:{seed}", seed) for family in FAMILIES for seed in range(6)],
    "paper": [(f"paper:{seed}", seed) for seed in range(10)],
}


@contextmanager
def constants(changed: dict):
    """The fit's constants, changed for a while."""
    kept = {name: getattr(fitting, name) for name in changed}
    for name, value in changed.items():
        setattr(fitting, name, value)
    try:
        yield
    finally:
        for name, value in kept.items():
            setattr(fitting, name, value)


@dataclass(frozen=True, kw_only=True)
class TuningCell(Cell):
    """One variant on one world."""

    variant: str
    world: str

    @property
    def settings(self) -> Record:
        """Settings on which a result depends besides the seed."""
        return {"horizon": HORIZON, "constants": VARIANTS[self.variant], "epsilon": EPSILON}

    def simulate(self, seed: int) -> Record:
        """One search."""
        changed = dict(VARIANTS[self.variant])
        own = {"exploration": changed.pop("exploration")} if "exploration" in changed else {}
        world = world_of(self.world)
        rows, answer = release(world, EPSILON, seed)
        asked = np.empty(HORIZON)
        with constants(changed):
            modeler = Modeler(rows, horizon=HORIZON, seed=seed, **own)
            for step in range(HORIZON):
                row = modeler.ask()
                asked[step] = answer(row)
                modeler.tell(row, float(asked[step]))
        return scores(asked, world.values)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--records", type=Path, required=True, help="folder of what was run already")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    options.records.mkdir(parents=True, exist_ok=True)
    rows = []
    for variant in VARIANTS:
        for group, places in GROUPS.items():
            records = [
                run_cells(
                    [TuningCell(variant=variant, world=world)],
                    seeds=(seed,),
                    path=options.records / "outsourced-tuning.jsonl",
                    jobs=options.jobs,
                )[0].records[0]
                for world, seed in places
            ]
            means = {
                name: float(np.mean([record[name] for record in records]))
                for name in ("mean", "regret", "top")
            }
            rows.append({"variant": variant, "worlds": group, "runs": len(places), **means})
            print(json.dumps(rows[-1]), flush=True)
    if options.out is not None:
        command = "python -m reproduction.tuning.outsourced --records records --out reproduction/results/"
        results = {"command": command + "outsourced-tuning.json", "banner": BANNER, "rows": rows}
        options.out.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
