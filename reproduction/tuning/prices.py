"""Constants of marginal tables for actions, compared with others on tuning seeds.

    python -m reproduction.tuning.prices --out reproduction/results/prices-tuning.json

Worlds are those of `reproduction.studies.prices`, which reports on other seeds. One constant at a time is
changed; every variant has the same seeds as the present values. A row holds the mean share of the uplift over
all worlds and seeds in a setting, and the paired difference from the present values.
"""

import argparse
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbandits.central.marginals import action_release
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.worlds.prices import PRICE_WORLDS
from dpbandits.models.marginals import actions
from reproduction.studies.prices import run

FIRST_SEED, SEEDS = 31_000, 3
SETTINGS = {"10,000 people": (10_000, 1.0), "2,000 people": (2_000, 1.0)}


class Variant(NamedTuple):
    """Another value of one constant."""

    name: str
    holder: Any
    attribute: str
    value: Any


RELEASE = action_release.ActionRelease
VARIANTS = (
    Variant("deviations of draws times .3", RELEASE, "thompson_scale", 0.3),
    Variant("deviations of draws times 1", RELEASE, "thompson_scale", 1.0),
    Variant("first block of 200 people", action_release, "PEOPLE", 200.0),
    Variant("first block of 800 people", action_release, "PEOPLE", 800.0),
    Variant("four bins", action_release, "BINS", 4.0),
    Variant("ten bins", action_release, "BINS", 10.0),
    Variant("by context without caution", action_release, "CAUTION", 0.0),
    Variant("by context with twice the caution", action_release, "CAUTION", 2.0),
    Variant("prior variances halved", actions, "PRIOR_VARIANCES", actions.PRIOR_VARIANCES / 2.0),
    Variant("prior variances doubled", actions, "PRIOR_VARIANCES", actions.PRIOR_VARIANCES * 2.0),
    Variant("pseudo-counts times four", actions, "PSEUDO_COUNTS", actions.PSEUDO_COUNTS * 4.0),
)


@contextmanager
def changed(variant: Variant | None) -> Iterator[None]:
    """Give a constant another value for a while."""
    if variant is None:
        yield
        return
    before = getattr(variant.holder, variant.attribute)
    setattr(variant.holder, variant.attribute, variant.value)
    try:
        yield
    finally:
        setattr(variant.holder, variant.attribute, before)


def shares(variant: Variant | None, people: int, epsilon: float) -> np.ndarray[Any, Any]:
    """Return shares (worlds, seeds) of the uplift."""
    with changed(variant):
        return np.array(
            [
                [
                    run(world, "actions", people=people, epsilon=epsilon, seed=FIRST_SEED + number).share
                    for number in range(SEEDS)
                ]
                for world in PRICE_WORLDS.values()
            ]
        )


def main(arguments: list[str] | None = None) -> None:
    """Run all variants."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args(arguments).out
    rows: list[dict[str, Any]] = []
    for label, (people, epsilon) in SETTINGS.items():
        present = shares(None, people, epsilon)
        rows.append({"setting": label, "variant": "present values", "share": float(present.mean())})
        for variant in VARIANTS:
            found = shares(variant, people, epsilon)
            ahead, error = mean_and_error((found - present).ravel())
            rows.append(
                {
                    "setting": label,
                    "variant": variant.name,
                    "share": float(found.mean()),
                    "ahead": ahead,
                    "ahead_se": error,
                }
            )
            out.write_text(
                json.dumps({"first_seed": FIRST_SEED, "seeds": SEEDS, "rows": rows}, indent=1) + "\n"
            )


if __name__ == "__main__":
    main()
