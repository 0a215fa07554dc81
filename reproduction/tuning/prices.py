"""Constants of marginal tables for actions, compared with other values on worlds that no page shows.

    python -m reproduction.tuning.prices --out reproduction/results/prices-tuning.json

Worlds are those of `reproduction.tuning.price_worlds`. A seed draws a world, its people and the simulated
noise. Every variant has the same worlds as the present values, and changes one constant or a few that belong
together. Stage `screened` tries all variants; stage `confirmed` tries those of `CONFIRMED` on other seeds. A
row holds the mean share of the uplift over worlds in a setting, and the paired difference from the present
values, over all worlds and by family. Rows that the file holds already are kept.
"""

import argparse
import json
import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dpbandits import SimulatedNoise
from dpbandits._typing import FloatArray
from dpbandits.central.marginals import action_release, release
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.models.marginals import action_basis, actions
from reproduction.studies.prices import run
from reproduction.tuning.price_worlds import FAMILIES, made

SETTINGS = {
    "10,000 people": (10_000, 1.0),
    "2,000 people": (2_000, 1.0),
    "small epsilon": (10_000, 0.3),
}
PRESENT = "present values"
STAGES = {"screened": (31_000, 4), "confirmed": (32_000, 6)}
"""First seed and number of seeds of each family."""


class Change(NamedTuple):
    """Another value of one constant."""

    holder: Any
    attribute: str
    value: Any


RELEASE = action_release.ActionRelease
PRIOR, PSEUDO = actions.PRIOR_VARIANCES, actions.PSEUDO_COUNTS


def _prior(*, constant: float = 1.0, alone: float = 1.0, pairs: float = 1.0) -> Change:
    """Multiply prior variances of terms without contexts, with one column and with two."""
    return Change(actions, "PRIOR_VARIANCES", PRIOR * np.array([[constant], [alone], [pairs]]))


def _release(attribute: str, value: Any) -> Change:
    return Change(action_release, attribute, value)


VARIANTS: dict[str, tuple[Change, ...]] = {
    "by context without caution": (_release("CAUTION", 0.0), _release("MOST_CAUTION", 0.0)),
    "caution halved": (_release("CAUTION", 0.15),),
    "caution doubled": (_release("CAUTION", 0.6),),
    "most caution 2": (_release("MOST_CAUTION", 2.0),),
    "deviations of draws times .4": (Change(RELEASE, "thompson_scale", 0.4),),
    "deviations of draws times .8": (Change(RELEASE, "thompson_scale", 0.8),),
    "one column: prior variances times 3": (_prior(alone=3.0),),
    "two columns: prior variances times 4": (_prior(pairs=4.0),),
    "prior variances times .4": (_prior(constant=0.4, alone=0.4, pairs=0.4),),
    "prior variances times .2": (_prior(constant=0.2, alone=0.2, pairs=0.2),),
    "one column: prior variances times .4": (_prior(alone=0.4),),
    "one column: prior variances times .15": (_prior(alone=0.15),),
    "without columns: prior variances times .4": (_prior(constant=0.4),),
    "pseudo-counts times 3": (Change(actions, "PSEUDO_COUNTS", PSEUDO * 3.0),),
    "pseudo-counts times .4": (Change(actions, "PSEUDO_COUNTS", PSEUDO * 0.4),),
    "first block of 250 people": (_release("PEOPLE", 250.0),),
    "first block of 650 people": (_release("PEOPLE", 650.0),),
    "blocks grow by 1.25": (_release("GROWTH", 1.25),),
    "blocks grow by 1.7": (_release("GROWTH", 1.7),),
    "four bins": (_release("BINS", 4.0),),
    "nine bins": (_release("BINS", 9.0),),
    "tables as of two arms": (_release("FREEDOM", 2.0),),
    "tables as of five arms": (_release("FREEDOM", 5.0),),
    "96 draws": (_release("DRAWS", 96), Change(release, "DRAWS", 96)),
    "nine cosines, falling more slowly": (
        Change(action_basis, "SHARES", (0.45, 0.2, 0.11, 0.075, 0.05, 0.04, 0.03, 0.025, 0.02)),
    ),
}
CONFIRMED: dict[str, tuple[Change, ...]] = {}


@contextmanager
def changed(changes: tuple[Change, ...]) -> Iterator[None]:
    """Give constants other values for a while."""
    with ExitStack() as stack:
        for holder, attribute, value in changes:
            stack.callback(setattr, holder, attribute, getattr(holder, attribute))
            setattr(holder, attribute, value)
        yield


def shares(
    changes: tuple[Change, ...], stage: str, people: int, epsilon: float, policy: str = "actions"
) -> FloatArray:
    """Return shares (families, seeds) of the uplift."""
    first, count = STAGES[stage]
    with changed(changes), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(
            [
                [
                    run(
                        made(f"{family}:{seed}"),
                        policy,
                        people=people,
                        epsilon=epsilon,
                        seed=seed,
                        noise=SimulatedNoise(seed),
                    ).share
                    for seed in range(first, first + count)
                ]
                for family in FAMILIES
            ]
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the variants; every row is written as soon as it is measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stage", choices=[*STAGES], nargs="*", default=[*STAGES])
    parser.add_argument("--setting", choices=[*SETTINGS], nargs="*", default=[*SETTINGS])
    parser.add_argument("--only", nargs="*", help="names of variants; all of the stage by default")
    given = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = json.loads(given.out.read_text())["rows"] if given.out.exists() else []
    for stage in given.stage:
        every = VARIANTS if stage == "screened" else CONFIRMED
        for setting in given.setting:
            names = [name for name in every if given.only is None or name in given.only]
            for name in (PRESENT, "without contexts", *names):
                held = {(one["stage"], one["setting"], one["variant"]): one for one in rows}
                if (stage, setting, name) in held:
                    continue
                policy = "for all" if name == "without contexts" else "actions"
                found = shares(every.get(name, ()), stage, *SETTINGS[setting], policy)
                before = np.array(held[stage, setting, PRESENT]["shares"]) if name != PRESENT else found
                ahead, error = mean_and_error((found - before).ravel())
                row = {
                    "stage": stage,
                    "setting": setting,
                    "variant": name,
                    "share": float(found.mean()),
                    "ahead": ahead,
                    "ahead_se": error,
                    "by_family": dict(zip(FAMILIES, (found - before).mean(axis=1).tolist(), strict=True)),
                    "shares": found.round(5).tolist(),
                }
                rows = [*rows, row]
                given.out.write_text(json.dumps({"stages": STAGES, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
