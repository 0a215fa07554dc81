"""Options that `dpbandits study` has for every paper."""

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["AsJson", "Columns", "Jobs", "Out", "Reps", "Seed", "Worlds"]

Reps = Annotated[int, typer.Option("--reps", min=2, help="Repetitions of every cell.")]
Seed = Annotated[int, typer.Option("--seed", help="First seed; report seeds start at 1,000,000.")]
Jobs = Annotated[int, typer.Option("--jobs", help="Processes; -1 for all cores.")]
Out = Annotated[
    Path | None, typer.Option("--out", help="Folder for results (resumed from there) and pictures.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Columns = Annotated[
    list[str] | None, typer.Option("--column", help="Only these policies or methods; repeat the option.")
]
Worlds = Annotated[
    list[str] | None, typer.Option("--world", help="Only these worlds or tables; repeat the option.")
]
