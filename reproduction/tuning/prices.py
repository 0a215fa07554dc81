"""Constants of marginal tables for actions, compared with other values on worlds that no page shows.

    python -m reproduction.tuning.prices --out reproduction/results/prices-tuning.json

Worlds are those of `reproduction.tuning.price_worlds`. A seed draws a world, its people and the simulated
noise. Every variant has the same worlds as the first values, and changes one constant or a few that belong
together. Stage `screened` tries variants, stage `confirmed` the best of them on other seeds. A
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
from dpbandits.central.marginals import action_release
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.models.marginals import actions
from reproduction.studies.prices import run
from reproduction.tuning.price_worlds import FAMILIES, made

SETTINGS = {
    "10,000 people": (10_000, 1.0),
    "2,000 people": (2_000, 1.0),
    "small epsilon": (10_000, 0.3),
}
FIRST = "first values"
STAGES = {"screened": (31_000, 4), "confirmed": (32_000, 6)}
"""First seed and number of seeds of each family."""


class Change(NamedTuple):
    """Another value of one constant."""

    holder: Any
    attribute: str
    value: Any


RELEASE = action_release.ActionRelease
PRIOR = np.array([[0.02, 0.06, 0.01], [0.007, 0.014, 0.002], [0.001, 0.001, 0.0]])
"""Prior variances of the first values; further columns of the constant are those of products."""

PSEUDO = np.array([[2.0, 2.0, 4.0], [2.0, 4.0, 10.0], [30.0, 30.0, 30.0]])
"""Pseudo-counts of the first values."""


def _counts(every: float = 1.0) -> Change:
    """Multiply all first pseudo-counts."""
    return Change(actions, "PSEUDO_COUNTS", np.hstack([every * PSEUDO, actions.PSEUDO_COUNTS[:, 3:]]))


def _prior(every: float = 1.0, *, one_column: float = 1.0) -> Change:
    """Multiply all first prior variances, and those of terms with one column of contexts."""
    found = every * PRIOR * np.array([[1.0], [one_column], [1.0]])
    return Change(actions, "PRIOR_VARIANCES", np.hstack([found, actions.PRIOR_VARIANCES[:, 3:]]))


def _release(attribute: str, value: Any) -> Change:
    return Change(action_release, attribute, value)


FIRST_VALUES = (
    _prior(),
    _counts(),
    Change(RELEASE, "thompson_scale", 0.6),
    _release("PEOPLE", 400.0),
    _release("CAUTION", 0.3),
    _release("CAUTION_POWER", -0.9),
    _release("MOST_CAUTION", 1.3),
)
"""Values that every variant starts from."""

SMALLER = "prior variances times .4"
VARIANTS: dict[str, tuple[Change, ...]] = {
    "by context without caution": (_release("CAUTION", 0.0), _release("MOST_CAUTION", 0.0)),
    "caution doubled": (_release("CAUTION", 0.6),),
    "deviations of draws times .4": (Change(RELEASE, "thompson_scale", 0.4),),
    "deviations of draws times .8": (Change(RELEASE, "thompson_scale", 0.8),),
    "one column: prior variances times 3": (_prior(one_column=3.0),),
    "one column: prior variances times .4": (_prior(one_column=0.4),),
    "one column: prior variances times .15": (_prior(one_column=0.15),),
    "prior variances times .2": (_prior(0.2),),
    SMALLER: (_prior(0.4),),
    f"{SMALLER}, pseudo-counts times 3": (_prior(0.4), _counts(3.0)),
    f"{SMALLER}, first block of 250 people": (_prior(0.4), _release("PEOPLE", 250.0)),
    f"{SMALLER}, more caution where noise is large": (
        _prior(0.4),
        _release("CAUTION_POWER", -1.3),
        _release("MOST_CAUTION", 2.6),
    ),
}
SCREENED = tuple(name for name in VARIANTS if "where noise" not in name)
CONFIRMED = (SMALLER, f"{SMALLER}, more caution where noise is large")
TRIED = {
    ("screened", "10,000 people"): SCREENED,
    ("screened", "2,000 people"): (SMALLER,),
    ("screened", "small epsilon"): (SMALLER,),
    ("confirmed", "10,000 people"): (SMALLER,),
    ("confirmed", "2,000 people"): CONFIRMED,
}
"""Variants by stage and setting."""


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
    with changed((*FIRST_VALUES, *changes)), warnings.catch_warnings():
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
    out = parser.parse_args(arguments).out
    rows: list[dict[str, Any]] = json.loads(out.read_text())["rows"] if out.exists() else []
    for (stage, setting), names in TRIED.items():
        for name in (FIRST, "without contexts", *names):
            held = {(one["stage"], one["setting"], one["variant"]): one for one in rows}
            if (stage, setting, name) not in held:
                policy = "for all" if name == "without contexts" else "actions"
                found = shares(VARIANTS.get(name, ()), stage, *SETTINGS[setting], policy)
                before = np.array(held[stage, setting, FIRST]["shares"]) if name != FIRST else found
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
                out.write_text(json.dumps({"stages": STAGES, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
