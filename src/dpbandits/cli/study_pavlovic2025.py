"""`dpbandits study pavlovic2025`: USCA as published and ours."""

import json
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dpbandits.cli.console import console, progress_bar
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.evaluation.seeds import report_seeds
from dpbandits.lab.papers.pavlovic2025 import cells as pavlovic2025
from dpbandits.lab.papers.pavlovic2025 import logged_trials
from dpbandits.lab.papers.pavlovic2025 import phased as phased_usca
from dpbandits.lab.papers.pavlovic2025 import ratios as pavlovic2025_ratios
from dpbandits.lab.worlds.rkhs import SETTINGS

__all__ = ["pavlovic2025_command"]


DELTA = 1e-6


class PavlovicItem(StrEnum):
    """Questions of Pavlovic2025."""

    errors = "errors"
    lemmas = "lemmas"
    phases = "phases"
    ratios = "ratios"
    trials = "trials"


SETTINGS_OF = {
    PavlovicItem.errors: tuple(SETTINGS),
    PavlovicItem.lemmas: ("SE .5 in 1+1",),
    PavlovicItem.phases: ("SE .2 in 1+1",),
}
ROUNDS_OF = {
    PavlovicItem.errors: (1000, 10_000, 100_000, 1_000_000),
    PavlovicItem.lemmas: (50, 100, 200, 300),
    PavlovicItem.phases: (10_000, 100_000),
}
EPSILONS_OF = {
    PavlovicItem.errors: (0.1, 0.5, 1.0, 5.0),
    PavlovicItem.phases: (0.5, 1.0, 5.0),
    PavlovicItem.ratios: (0.1, 0.5, 1.0, 5.0),
    PavlovicItem.trials: (0.5, 1.0, 5.0),
}


def pavlovic2025_command(
    *,
    item: Annotated[PavlovicItem, typer.Argument(help="Which question.")],
    settings: Annotated[
        list[str] | None, typer.Option("--setting", help="Only this setting; repeat the option.")
    ] = None,
    rounds: Annotated[list[int] | None, typer.Option("--rounds", min=1, help="Only this T; repeat.")] = None,
    epsilons: Annotated[list[float] | None, typer.Option("--epsilon", help="Only this one; repeat.")] = None,
    reps: Annotated[int, typer.Option("--reps", min=2, help="Worlds a cell.")] = 20,
    seed: Annotated[int, typer.Option("--seed", help="First seed; report seeds start at 1,000,000.")] = (
        1_000_000
    ),
    hindsight: Annotated[
        bool, typer.Option("--hindsight", help="For errors: the best ridge in hindsight, too, as a bound.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder for results; settings already there are kept.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Errors against T and epsilon, what the approximating set costs (Lemmas 4.3, 4.4), regret in phases,
    exact log ratios over adversarial neighbours, and two randomised experiments on real people (--reps
    splits). Standard errors over worlds.
    """
    names = settings or SETTINGS_OF.get(item, ("",))
    unknown = [name for name in names if name and name not in SETTINGS]
    if unknown:
        raise InvalidParameter(f"setting: expected one of {sorted(SETTINGS)}")
    counts = rounds or ROUNDS_OF.get(item, ())
    losses = epsilons or EPSILONS_OF.get(item, ())
    path = None if out is None else out / f"pavlovic2025-{item.value}.json"
    held = json.loads(path.read_text()) if path is not None and path.exists() else []
    with progress_bar() as bar:
        running = bar.add_task(f"pavlovic2025 {item.value}", total=len(names))
        found: list[dict[str, Any]] = []
        for name in names:
            seeds = () if item is PavlovicItem.ratios else report_seeds(seed, reps)
            found += _rows(item, name, counts, losses, seeds, hindsight=hindsight)
            bar.advance(running)
            if path is not None:  # after every setting: what takes long is not lost
                path.parent.mkdir(parents=True, exist_ok=True)
                done = {row.get("setting") for row in found}
                kept = [row for row in held if row.get("setting") not in done]
                path.write_text(json.dumps(kept + found, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(found))
        return
    table = Table(title=f"Pavlovic2025, {item.value}", caption=BANNER)
    for heading in found[0]:
        table.add_column(heading)
    for row in found:
        table.add_row(*(_shown(value) for value in row.values()))
    console().print(table)


def _rows(
    item: PavlovicItem, name: str, rounds: Any, epsilons: Any, seeds: Any, *, hindsight: bool
) -> list[dict[str, Any]]:
    if item is PavlovicItem.errors:
        rows = pavlovic2025.error_table(
            name, rounds=rounds, epsilons=epsilons, seeds=seeds, hindsight=hindsight
        )
        return [asdict(row) | {"first seed": seeds[0]} for row in rows]
    if item is PavlovicItem.lemmas:
        lines = pavlovic2025.lemma_table(name, rounds=rounds, seeds=seeds)
        return [{"setting": name, "worlds": len(seeds), "first seed": seeds[0], **line} for line in lines]
    if item is PavlovicItem.phases:
        return phased_usca.regret_rows(name, horizons=rounds, epsilons=epsilons, seeds=seeds)
    if item is PavlovicItem.trials:
        return logged_trials.trial_rows(logged_trials.trials(), seeds=seeds, epsilons=epsilons, delta=DELTA)
    return [dict(row) for row in pavlovic2025_ratios.ratio_table(epsilons=epsilons)]


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
