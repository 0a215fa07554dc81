"""Tuning of the constants of plans' prediction intervals.

    python -m reproduction.tuning.plan_constants reproduction/tuning/plan_tuning --out FILE

The command plans on every world of the tuning folder and runs the worlds themselves, both as
`reproduction/studies/plan.py` does, with its records. Then it searches for the constants of
`dpbandits.lab.planning.answers` with the narrowest intervals in the median. Plans use all simulated worlds,
or half of them.

For given constants, each world's intervals are scaled so that they contain a given part of the true shares of
all other worlds of its kind. This part is the smallest with which `ASKED` of the worlds' own shares are
covered too. The final factor covers that part of all shares. All shares of a world together count as one,
because they are dependent.

Worlds drawn from facts and resampled tables have their own constants. So have facts with every arm's rate
(`--told rates`) and facts with rates in segments (`--told segments`). `--most-error` leaves out true shares
with a larger error, because intervals should cover the truth and not the noise of few runs. Seeds of the
truth are below 1,000,000, except for the worlds of `REPORTED`.

The frontier shows the cost of other levels, computed in the same way. `sets` shows the coverage of each set
of worlds if everything is chosen on the other sets. This is closest to the coverage on worlds of other
authors.
"""

import argparse
import itertools
import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbandits.lab.planning import Facts, answers
from dpbandits.lab.planning.answers import LEVEL, Apart, Curve, predicted
from dpbandits.lab.planning.planner import apart_of
from reproduction.studies.plan import MOST_PEOPLE, SAID, TARGET, Held, truth

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHAPES = (0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.25)
BETWEEN = (0.02, 0.05, 0.1, 0.15)
EDGES = (0.03, 0.12, 0.4)
"""Levels, and values of `shapes`, `between` and `edge` that are tried."""

ASKED = LEVEL + 0.04
"""Part of a world's own shares that intervals of the others hold, in the mean over worlds. The margin is
about what the coverage of eight new worlds scatters by."""

HELD = (0.9, 0.91, 0.92, 0.93, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)
"""Parts of the others' shares that intervals hold: the first that holds `ASKED` of a world's own."""

REPORTED = {
    9_000_000: frozenset({
        "clinic_reminders",
        "coupon_shop",
        "energy_advice",
        "movies",
        "news_feed",
        "parcel_delivery",
        "ten_mile_race",
        "tutoring_level",
    }),
    9_100_000: frozenset({
        "bank_offer",
        "churn",
        "claim_handling",
        "club_renewal",
        "crop_variety",
        "library_reminder",
        "pharmacy",
        "transit_ticket",
    }),
    9_200_000: frozenset({
        "atlantic_storms",
        "blood_donors",
        "chess_opponents",
        "language_app",
        "lecture_marks",
        "museum_guides",
        "physio_places",
        "waste_sorting",
    }),
}  # fmt: skip
"""Worlds that plans were held against once, by the first seed of their true shares: since then they are for
tuning. The first runs of their true shares are those that were reported."""

FACTORS = (0.7, 2.0)
"""Between which the factor lies: beyond, what is called a deviation is none."""


class Planned(NamedTuple):
    """A curve of a plan, and what was true there (NaN: seen on another curve, or nothing to share)."""

    world: str
    drawn: bool
    """From facts; a table is resampled."""
    curve: Curve
    true: np.ndarray[Any, Any]


def set_of(world: str) -> int:
    """First seed of the set that a world was reported in; 0 of those that never were."""
    return next((first for first, worlds in REPORTED.items() if world in worlds), 0)


def planned(held: Held, found: Any, rows: list[Any], most_error: float = np.inf) -> list[Planned]:
    """The curves of a plan beside the true shares of `reproduction/studies/plan.py` with small errors."""
    true = {
        (row["trust"], row["epsilon"], int(row["people"])): row["true"]
        for row in rows
        if row["true_error"] <= most_error
    }
    curves = []
    for trust, answer in found.answers.items():
        for curve in (answer.along_epsilon, answer.along_people):
            if curve is None:
                continue
            keys = [
                (trust, place, found.users)
                if curve.along == "epsilon"
                else (trust, found.promise, int(place))
                for place in curve.places
            ]
            here = np.array([true.pop(key, np.nan) for key in keys])
            curves.append(Planned(held.path.stem, not held.is_table, curve, here))
    return curves


def misses(curves: list[Planned], apart: Apart) -> tuple[Any, Any, Any]:
    """(n,) worlds, misses in half widths, and half widths, of all places that have a true share.

    Plans use all simulated worlds, or the first half of them. The effect of more worlds on intervals is
    therefore tuned too.
    """
    worlds, miss, halves = [], [], []
    for (world, _, curve, true), half in itertools.product(curves, (False, True)):
        simulated = curve.simulated[: len(curve.simulated) // 2] if half else curve.simulated
        again = predicted(curve.along, curve.places, simulated, certainty=0.9, apart=apart)
        share, low, high = (np.array(getattr(again, name)) for name in ("share", "low", "high"))
        length, known = np.maximum(high - share, share - low), np.isfinite(true)
        worlds += [world] * int(known.sum())
        miss.append((np.abs(true - share) / length)[known])
        halves.append(length[known])
    return np.array(worlds), np.concatenate(miss), np.concatenate(halves)


def quantile(worlds: Any, values: Any, part: float) -> float:
    """The smallest that a part of the values does not exceed, all worlds counting alike."""
    order = np.argsort(values)
    _, own, counts = np.unique(worlds, return_inverse=True, return_counts=True)
    below = np.cumsum(1.0 / counts[own[order]]) / len(counts)
    return float(values[order][min(np.searchsorted(below, part - 1e-9), len(values) - 1)])


def mean_of_worlds(worlds: Any, values: Any) -> float:
    """Mean of the worlds' means."""
    return float(np.mean([values[worlds == world].mean() for world in np.unique(worlds)]))


def left_out(worlds: Any, miss: Any, halves: Any, part: float) -> dict[str, float]:
    """Coverage and median width where each world has the factor of all others."""
    factors = {
        world: quantile(worlds[worlds != world], miss[worlds != world], part) for world in np.unique(worlds)
    }
    own = np.array([factors[world] for world in worlds])
    width = float(np.median(2.0 * own * halves))
    return {"covered": mean_of_worlds(worlds, miss <= own), "median_width": width}


def chosen(curves: list[Planned]) -> tuple[Apart, float]:
    """The constants of one kind, and the part of the others' shares that they hold."""
    found = []
    for constants in itertools.product(BETWEEN, SHAPES, EDGES):
        apart = Apart(*constants)
        worlds, miss, halves = misses(curves, apart)
        for part in HELD:
            own = left_out(worlds, miss, halves, part)
            factor = round(quantile(worlds, miss, part), 2)
            if own["covered"] >= ASKED:
                if FACTORS[0] <= factor <= FACTORS[1]:
                    found.append((own["median_width"], apart._replace(factor=factor), part))
                break
    if not found:
        raise SystemExit(f"no constants hold {ASKED:g} of the shares of worlds that they were not taken from")
    return min(found)[1:]


def taken(curves: list[Planned], apart: Apart) -> dict[str, float]:
    """Coverage and median width with these constants, on the worlds that they were taken from."""
    worlds, miss, halves = misses(curves, apart)
    return {"covered": mean_of_worlds(worlds, miss <= 1.0), "median_width": float(np.median(2.0 * halves))}


def near_all(curves: list[Planned]) -> dict[str, int]:
    """Places along epsilon for which the target or more is planned, and those of them that miss it by .1."""
    along = [one for one in curves if one.curve.along == "epsilon"]
    share = np.concatenate([one.curve.share for one in along])
    true = np.concatenate([one.true for one in along])
    here = (share >= TARGET) & np.isfinite(true)
    return {"planned": int(here.sum()), "missed": int((here & (true < TARGET - 0.1)).sum())}


def off(curves: list[Planned]) -> list[dict[str, Any]]:
    """How far true shares lie off the mean of simulated worlds, every share counting alike."""
    most = min(len(one.curve.simulated) for one in curves)
    found = []
    for count in (most // 4, most // 2, most):
        means = [np.clip(one.curve.simulated[:count], answers.LEAST, answers.MOST) for one in curves]
        apart = np.concatenate(
            [one.true - mean.mean(axis=(0, 1)) for one, mean in zip(curves, means, strict=True)]
        )
        apart = apart[np.isfinite(apart)]
        square, middle = float(np.sqrt((apart**2).mean())), float(np.median(np.abs(apart)))
        found.append({"worlds": count, "root_mean_square": square, "median": middle})
    return found


def without_sets(curves: list[Planned]) -> list[dict[str, Any]]:
    """Coverage and median width of every set of worlds, with constants of all other sets."""
    found: list[dict[str, Any]] = []
    for first in (0, *REPORTED):
        own = [one for one in curves if set_of(one.world) == first]
        others = [one for one in curves if set_of(one.world) != first]
        said: dict[str, Any] = {
            "first_seed": first or None,
            "worlds": len({one.world for one in own if np.isfinite(one.true).any()}),
        }
        try:
            said |= taken(own, chosen(others)[0])
        except SystemExit as error:  # too few worlds are left
            said["error"] = str(error)
        found.append(said)
    return found


def says(facts: Facts, told: str) -> bool:
    """Return True if the facts have rates, or segments that allow the narrower intervals `OF_SEGMENTS`."""
    return apart_of(facts) is answers.OF_SEGMENTS if told == "segments" else facts.believed_rates is not None


def scatter(curves: list[Planned]) -> float:
    """Deviation of the share of one run, in the middle one of all curves."""
    runs = [np.clip(one.curve.simulated, answers.LEAST, answers.MOST) for one in curves]
    return float(np.sqrt(np.median([0.5 * ((one[:, 0] - one[:, 1]) ** 2).mean() for one in runs])))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--reps", type=int, default=12, help="of the truth")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--worlds", type=int, default=4, help="simulated for a plan, at most")
    parser.add_argument("--told", choices=SAID, default=SAID[0], help="of arms, in the worlds that say it")
    parser.add_argument(
        "--most-error", type=float, default=np.inf, help="standard error of a true share that is judged"
    )
    parser.add_argument(
        "--records", type=Path, help="of `reproduction/studies/plan.py`; by default beside --out"
    )
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    records = options.records or options.out.with_suffix(".jsonl")
    curves: list[Planned] = []
    folder = [Held(path, MOST_PEOPLE) for path in sorted(options.folder.glob("*.toml"))]
    if options.told != SAID[0]:
        folder = [held for held in folder if not held.is_table and says(held.facts[0], options.told)]
    for held in folder:
        first = set_of(held.path.stem) or options.first_seed
        seeds = range(first, first + options.reps)
        found = held.planned(0.0, options.worlds, records, 1, told=options.told)
        rows = truth(held, found, seeds, records, 1)[0]
        curves += planned(held, found, rows, options.most_error)
    drawn = [one for one in curves if one.drawn]
    tables = [one for one in curves if not one.drawn]
    kinds = {options.told: drawn} | ({"tables": tables} if options.told == SAID[0] else {})
    result: dict[str, Any] = {
        "settings": {
            **{name: getattr(options, name) for name in ("first_seed", "reps", "worlds")},
            **({"most_error": options.most_error} if np.isfinite(options.most_error) else {}),
        },
        "target": TARGET,
        "asked": round(ASKED, 2),
        "within": round(scatter(curves), 2),
        "reported_once": [
            {"worlds": sorted(worlds), "first_seed": first} for first, worlds in REPORTED.items()
        ],
        "tuned_on": [held.path.stem for held in folder],
    }
    for kind, here in kinds.items():
        apart, part = chosen(here)
        result[kind] = {
            **apart._asdict(),
            "part": part,
            "shares": int(sum(np.isfinite(one.true).sum() for one in here)),
            "taken": taken(here, apart),
            "left_out": left_out(*misses(here, apart), part),
            "near_all": near_all(here),
            "off": off(here),
            "sets": without_sets(here),
            "frontier": [{"level": level, **left_out(*misses(here, apart), level)} for level in LEVELS],
        }
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(result, indent=1))
    print(
        "in use:", answers.OF_FACTS, answers.OF_RATES, answers.OF_SEGMENTS, answers.OF_TABLES, answers.WITHIN
    )


if __name__ == "__main__":
    main()
