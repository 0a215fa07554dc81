"""Add facts to plans whose authors did not state them: `python -m reproduction.tuning.plan_facts FOLDER`.

Those who made the worlds of `reproduction/tuning/plan_tuning` were not asked for every arm's rate, nor for
segments. This adds to each what somebody who knows the decision would say.

`[plan.rates]`: a range about the true rate whose half width is drawn between `WIDTHS` of the effect and whose
middle is off by up to `OFF` of that.

`[plan.segments.*]`: for every column, the share of users in each segment, with an error of up to `PEOPLE_OFF`
of itself. One to three columns, whose segments differ most, also have the mean reward of every arm in each
segment. These are ranges like those of rates, with half widths between `SEGMENT_WIDTHS`. Segments are the
categories, or two to four parts of a range. In half of the worlds, the edges are near the most informative
ones; in the others, the parts have nearly equal numbers of users.

Drawn once, by seeds of the file's number; what is true is a mean over `PEOPLE`.
"""

import argparse
import math
from pathlib import Path

import numpy as np

from dpbandits._typing import FloatArray, IntArray
from dpbandits.lab.worlds import TableBandit
from dpbandits.tables.columns import Categories, Range
from reproduction.studies.plan import Held

WIDTHS, OFF = (0.08, 0.25), 0.6
SEGMENT_WIDTHS, PEOPLE_OFF = (0.12, 0.4), 0.15
LEAST_TOLD, LEAST_PEOPLE = 0.05, 0.01
PEOPLE, FIRST_SEED, COIN = 40_000, 20_000, 20_261_123
ROOM = 0.02
"""Smallest distance of rates from the ends of the range, as a share of the range."""


def _range(rate: float, half: float, world: TableBandit, rng: np.random.Generator) -> str:
    """Return the stated bounds of a mean reward, whose middle is off by a part of `half`."""
    digits = max(0, math.ceil(-math.log10(half)) + 1)
    bounds = world.reward_range
    room = ROOM * bounds.width
    middle = rate + rng.uniform(-OFF, OFF) * half
    low, high = max(middle - half, bounds.low + room), min(middle + half, bounds.high - room)
    low, high = round(min(low, high), digits), round(max(low, high), digits)
    return f"[{low:g}, {high:g}]"


def rates_said(held: Held, number: int) -> str:
    """The section [plan.rates] of one world."""
    world, means = _known(held, number)
    rates = means.mean(axis=0)
    effect = float(means.max(axis=1).mean() - rates.mean())
    rng = np.random.default_rng([COIN, number])
    half = rng.uniform(*WIDTHS) * effect
    each = zip(held.facts[0].arms, rates, strict=True)
    return "\n".join(
        [
            "[plan.rates]",
            *(f"{_key(str(label))} = {_range(rate, half, world, rng)}" for label, rate in each),
        ]
    )


def segments_said(held: Held, number: int) -> str:
    """The sections [plan.segments.*] of one world."""
    world, means = _known(held, number)
    rng = np.random.default_rng([COIN, 1, number])
    effect = float(means.max(axis=1).mean() - means.mean())
    half, telling, most = rng.uniform(*SEGMENT_WIDTHS) * effect, rng.random() < 0.5, int(rng.integers(1, 4))
    schema, at, found = held.facts[0].contexts, 0, []
    for name, column in schema.columns.items():
        own = world.contexts[:, at]
        at += column.width
        if isinstance(column, Categories):
            found.append((name, [], own.astype(np.int64), len(column.values)))
        elif isinstance(column, Range):
            until = _edges(column, own, means, rng, telling=telling)
            places = (np.array(until) - column.low) / column.span
            found.append((name, until, np.searchsorted(places, own, side="right"), len(until) + 1))
    told = [_told(segments, count, means) for _, _, segments, count in found]
    rated = {found[one][0] for one in np.argsort(told)[::-1][:most] if told[one] > LEAST_TOLD * effect}
    lines = []
    for name, until, segments, count in found:
        parts = np.bincount(segments, minlength=count) / len(segments)
        if parts.min() < LEAST_PEOPLE:
            continue
        parts = parts * rng.uniform(1.0 - PEOPLE_OFF, 1.0 + PEOPLE_OFF, count)
        parts = np.round(parts / parts.sum(), 2).clip(0.01)
        lines += ["", f"[plan.segments.{_key(name)}]"]
        lines += [f"until = {until}"] if until else []
        lines += [f"people = [{', '.join(f'{one:g}' for one in (parts / parts.sum()).round(3))}]"]
        if name in rated:
            lines += [f"[plan.segments.{_key(name)}.rates]"]
            own_means = [means[segments == one].mean(axis=0) for one in range(count)]
            for arm, label in enumerate(held.facts[0].arms):
                cells = ", ".join(_range(own[arm], half, world, rng) for own in own_means)
                lines += [f"{_key(str(label))} = [{cells}]"]
    return "\n".join(lines[1:])


def _told(segments: IntArray, count: int, means: FloatArray) -> float:
    """Return the mean reward of each segment's best arm, minus that of the best arm for everybody."""
    sums = np.stack([np.bincount(segments, arm, minlength=count) for arm in means.T], axis=1)
    return float(sums.max(axis=1).sum() / len(means) - means.mean(axis=0).max())


def _edges(
    column: Range, own: FloatArray, means: FloatArray, rng: np.random.Generator, *, telling: bool
) -> list[float]:
    """Return edges of segments as a person would choose them: round numbers, off by some users."""
    count = int(rng.integers(1, 4))
    if telling:
        places = np.quantile(own, np.clip(np.linspace(0.1, 0.9, 9) + rng.uniform(-0.04, 0.04, 9), 0.03, 0.97))
        chosen: list[float] = []
        for _ in range(count):
            tried = {
                one: _told(
                    np.searchsorted(np.sort([*chosen, one]), own, side="right"), len(chosen) + 2, means
                )
                for one in places
            }
            chosen.append(max(tried, key=lambda one: tried[one]))
    else:
        equal = np.arange(1, count + 1) / (count + 1) + rng.uniform(-0.06, 0.06, count)
        chosen = np.quantile(own, equal).tolist()
    unit = 10.0 ** math.floor(math.log10(column.span) - 1.0) / 2.0
    said = {round(unit * round((column.low + column.span * one) / unit), 6) for one in chosen}
    inside = sorted(one for one in said if column.low < one < column.high)
    return inside or [round(0.5 * (column.low + column.high), 6)]


def _known(held: Held, number: int) -> tuple[TableBandit, FloatArray]:
    """People of a world, and what every arm pays them on average."""
    world = held(FIRST_SEED + number, PEOPLE)
    if world.expected is None:
        raise SystemExit(f"{held.path.stem} has no expected rewards")
    return world, world.expected


def _key(label: str) -> str:
    """As TOML writes it."""
    plain = label.replace("_", "").replace("-", "")
    return label if plain.isalnum() and plain.isascii() else f'"{label}"'


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    for number, path in enumerate(sorted(options.folder.glob("*.toml"))):
        held, text = Held(path), path.read_text(encoding="utf-8")
        if held.is_table:
            continue
        for section, tell in (("[plan.rates]", rates_said), ("[plan.segments.", segments_said)):
            said = "" if section in text else tell(held, number)
            if said:
                text = text.rstrip("\n") + "\n\n" + said + "\n"
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
