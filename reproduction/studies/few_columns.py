"""Learning from a log with two or three columns: uplift as a share of a non-private ridge's.

    python -m reproduction.studies.few_columns --cells cells --out reproduction/results/few-columns.json

Tables are those of the panel with at most three columns, three columns of others, and houses by longitude and
latitude. The log, the people after it and the seeds are those of the panel's setting `learn`.
The share of a table is (reward - random) / (ridge - random), of means over seeds, where the ridge has no
privacy (`panel_baselines.OpenRidge`). Its standard error is that of the reward's mean alone, divided by the
ridge's gain.
"""

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import dpbandits as dpb
from dpbandits.lab.evaluation import BANNER, report_seeds
from dpbandits.lab.evaluation.summary import mean_and_error
from reproduction.studies import panel, panel_baselines, panel_tables
from reproduction.studies.panel import Order, Run
from reproduction.studies.tables_of_people import People, Spec

FIRST_SEED, SEEDS = 7_100_000, 8
EPSILONS = panel.EPSILONS["learn"]
THREE = {
    "census": ("educ", "exper", "state"),
    "restaurants": ("Year", "NumberofLocations", "Weekend"),
    "fertility": ("morekids", "age", "afam"),
    "youthrisk": ("gender", "age", "height"),
    "nhis": ("age", "yedu", "inc"),
    "baseball": ("g", "h", "bb"),
    "military": ("rank", "gender", "race"),
}
"""Tables of the panel, and the three columns that are used."""

HOUSES = panel_tables.Table(
    Spec(
        ("modeldata", "ames"),
        "Sale_Price",
        (129_500, 160_000, 213_500),
        {"Longitude": (-93.70, -93.57), "Latitude": (41.98, 42.07)},
    ),
    ("correlated", "few"),
    "houses in Ames, by price",
)
TWO = {"houses": ("Longitude", "Latitude"), "crescent": ("", ""), "rodents": ("hindfoot_length", "weight")}
"""Tables of two correlated columns; `crescent` is synthetic."""


def people_of(name: str, folder: Path) -> People:
    """Return the people of a table, with the columns of `THREE` alone."""
    if name == "houses":
        return panel_tables.read(HOUSES)
    people = panel_tables.people(name, folder)
    if name in TWO:
        return people
    spec = panel_tables.TABLES[name].spec
    if spec is None:
        raise ValueError(f"{name} is made up: it has no columns by name")
    places = [list(spec.columns).index(column) for column in THREE[name]]
    return People(
        people.contexts[:, places], people.rewards, tuple(people.categories[place] for place in places)
    )


def row_of(name: str, folder: Path, seeds: list[int]) -> dict[str, Any]:
    """Return the rewards of the policy, the ridge, the best arm and a random arm on one table."""
    people = people_of(name, folder)
    found: dict[float, list[float]] = {epsilon: [] for epsilon in EPSILONS}
    ridge, constant, random, count = [], [], [], 0
    for seed in seeds:
        order = Order(people, "learn", seed)
        count = len(order.log[1])
        for epsilon in EPSILONS:
            found[epsilon].append(panel.reward_of(Run(name, "learn", panel.POLICY, epsilon, seed), order))
        ridge.append(
            panel_baselines.open_from_log("open ridge", order.log, order.new, people.categories, seed)
        )
        paid = order.new[1]
        constant.append(float(paid.mean(axis=0).max()))
        random.append(float(paid.mean()))
    gain = float(np.mean(ridge) - np.mean(random))
    rewards = {}
    for epsilon, own in found.items():
        mean, error = mean_and_error(np.array(own))
        rewards[f"{epsilon:g}"] = {
            "reward": mean,
            "reward_se": error,
            "share": (mean - float(np.mean(random))) / gain,
            "share_se": error / gain,
        }
    more = mean_and_error(np.array(found[EPSILONS[-1]]) - np.array(found[EPSILONS[1]]))
    return {
        "table": name,
        "columns": list(THREE.get(name, TWO.get(name, ()))),
        "people": count,
        "ridge": float(np.mean(ridge)),
        "constant": float(np.mean(constant)),
        "random": float(np.mean(random)),
        "epsilons": rewards,
        "three_less_one": more[0],
        "three_less_one_se": more[1],
    }


def measured(folder: Path, seeds: list[int]) -> dict[str, Any]:
    """Return everything that the page shows."""
    rows = {
        part: [row_of(name, folder, seeds) for name in names]
        for part, names in (("three", THREE), ("two", TWO))
    }
    shares = {
        f"{epsilon:g}": float(np.mean([row["epsilons"][f"{epsilon:g}"]["share"] for row in rows["three"]]))
        for epsilon in EPSILONS
    }
    return {
        "command": "python -m reproduction.studies.few_columns --cells cells",
        "banner": BANNER,
        "first_seed": seeds[0],
        "seeds": len(seeds),
        "shares": shares,
        **rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--cells", type=Path, required=True, help="folder of the panel, for tables that were read"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpb.errors.DPBanditsWarning)
        results = measured(options.cells / "tables", list(report_seeds(FIRST_SEED, options.seeds)))
    print(json.dumps(results["shares"]))
    for part in ("three", "two"):
        for row in results[part]:
            own = " ".join(
                f"{epsilon}: {one['reward']:.4f} ({one['share']:.3f} +- {one['share_se']:.3f})"
                for epsilon, one in row["epsilons"].items()
            )
            print(
                f"{row['table']}, {row['people']} people: {own}; ridge {row['ridge']:.4f}, best arm "
                f"{row['constant']:.4f}; 3 less 1: {row['three_less_one']:+.4f} "
                f"+- {row['three_less_one_se']:.4f}"
            )
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
