"""Say every arm's rate in the worlds of a folder that do not: `python benchmarks/plan_rates.py FOLDER`.

Those who made the worlds of `benchmarks/plan_tuning` were not asked for `rates`. This adds to each what
somebody who knows the decision would say: a range about the true rate whose half width is drawn between
`WIDTHS` of the effect and whose middle is off by up to `OFF` of that. Drawn once, by seeds of the file's
number; the true rate is a mean over `PEOPLE`.
"""

import argparse
import math
from pathlib import Path

import numpy as np
from plan import Held

WIDTHS, OFF = (0.08, 0.25), 0.6
PEOPLE, FIRST_SEED, COIN = 40_000, 20_000, 20_261_123
ROOM = 0.02
"""Of the range, which rates stay away from its ends."""


def said(held: Held, number: int) -> str:
    """The section [plan.rates] of one world."""
    facts = held.facts[0]
    world = held(FIRST_SEED + number, PEOPLE)
    means = world.expected
    if means is None:
        raise SystemExit(f"{held.path.stem} has no expected rewards")
    rates = means.mean(axis=0)
    effect = float(means.max(axis=1).mean() - rates.mean())
    rng = np.random.default_rng([COIN, number])
    half = rng.uniform(*WIDTHS) * effect
    digits = max(0, math.ceil(-math.log10(half)) + 1)
    bounds = world.reward_range
    room = ROOM * bounds.width
    lines = ["[plan.rates]"]
    for label, rate in zip(facts.arms, rates, strict=True):
        middle = rate + rng.uniform(-OFF, OFF) * half
        low, high = max(middle - half, bounds.low + room), min(middle + half, bounds.high - room)
        low, high = round(min(low, high), digits), round(max(low, high), digits)
        lines.append(f"{_key(str(label))} = [{low:g}, {high:g}]")
    return "\n".join(lines) + "\n"


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
        if held.is_table or "[plan.rates]" in text:
            continue
        path.write_text(text.rstrip("\n") + "\n\n" + said(held, number), encoding="utf-8")


if __name__ == "__main__":
    main()
