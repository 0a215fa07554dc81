"""The board: all policies of a trust model on hard worlds, ranked by reward.

    python -m reproduction.studies.board --out reproduction/results/board.json

This command runs every policy of `lab.comparing.RIVALS` with a trusted server, with local DP or without
protection. The promise is (1, 1e-6), or 1 where it is local. Policies of two aggregators are left out, as
they have no grid for the columns of most worlds. Every world of `lab.worlds.hard` has five orders of 5,000
people (400 in `few-people`), seeds from 1,000,000. Eight worlds make the rank sums (`RANKED`); in `flat`
nothing can be earned, and the rest show more of the same. Runs are kept in --runs, and a board that was
broken off goes on.
"""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from dpbandits.lab import compare, worlds
from dpbandits.lab.comparing import RIVALS, Comparison

RANKED = (
    "smooth",
    "irrelevant-10",
    "nugget",
    "heavy-tails",
    "competing",
    "drift-abrupt",
    "ordered",
    "few-people",
)
EPSILON = 1.0
COMPARED = {name: rival for name, rival in RIVALS.items() if rival.trust != "distributed"}


def made(name: str, seed: int, people: int | None) -> worlds.TableBandit:
    return worlds.hard(name, seed=seed, horizon=people)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--reps", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--without", action="append", default=[], help="a world that is left out, not ranked")
    parser.add_argument("--runs", type=Path, default=Path("build/board"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    found = compare(
        {name: partial(made, name) for name in worlds.HARD if name not in options.without},
        COMPARED,
        promises=[EPSILON],
        reps=options.reps,
        jobs=options.jobs,
        out=options.runs,
        progress=True,
    )
    ranked = Comparison([one for one in found.runs if one.cell.world in RANKED])
    result: dict[str, Any] = {
        "epsilon": EPSILON,
        "ranked": list(RANKED),
        "means": json.loads((options.runs / "means.json").read_text(encoding="utf-8")),
        "boards": {trust: ranked.board(trust) for trust in ("central", "local")},
        "tests": [
            {name: row[name] for name in ("world", "policy", "difference", "error", "p")}
            for trust, ours in (("central", "GPBandit"), ("local", "Spec"))
            for row in found.tests(ours)
            if row["trust"] == trust
        ],
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
