"""`dpbandits audit`: attack the guarantees, and say how much privacy loss could be proved."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table

from dpbandits.audit import NAMES, AuditRow, AuditSettings, build, run_audits
from dpbandits.cli.console import console, progress_bar
from dpbandits.errors import InvalidParameter
from dpbandits.lab.audit_report import summary, write_audit_report

__all__ = ["audit"]


def audit(
    name: Annotated[
        str | None, typer.Argument(help="One audit; without it and without --all, the list of them.")
    ] = None,
    *,
    everything: Annotated[bool, typer.Option("--all", help="Every audit.")] = False,
    samples: Annotated[
        int, typer.Option(help="Outputs of each world; costly audits take a share of them.")
    ] = 100_000,
    epsilon: Annotated[
        float, typer.Option(help="Of the claims; audits of printed claims keep their own.")
    ] = 1.0,
    confidence: Annotated[float, typer.Option(help="Of every row's lower bound.")] = 0.999,
    seed: Annotated[int, typer.Option(help="Of public choices; noise comes from the system.")] = 0,
    jobs: Annotated[int, typer.Option(help="Processes; -1 for all cores.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for audit.html and audit.json; rows in it are not run again.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the rows as JSON and nothing else.")] = False,
) -> None:
    """Prove privacy loss from below, through the public calls and with the real noise.

    Started again with the same --out, it runs only what is missing: take another folder after a change.
    Exit status 1 where an honest claim is exceeded, or a claim that is known to be false is not.
    """
    if name is None and not everything:
        _list(as_json=as_json)
        return
    if name is not None and everything:
        raise InvalidParameter("give a name or --all, not both")
    if jobs == 0 or jobs < -1:
        raise InvalidParameter(f"jobs is {jobs}, expected a number of processes, or -1 for all cores")
    names = NAMES if name is None else (name,)
    settings = AuditSettings(epsilon=epsilon, samples=samples, confidence=confidence, seed=seed)
    with progress_bar() as bar:
        task = bar.add_task("auditing", total=len(names))

        def advance(done: str) -> None:
            bar.update(task, description=done)
            bar.advance(task)

        rows = run_audits(
            names,
            settings,
            jobs=0 if len(names) == 1 else jobs,
            kept=None if out is None else out / "rows.jsonl",
            progress=advance,
        )
    page = None
    if out is not None:
        page = write_audit_report(rows, out, command=_command(name, settings))
    if as_json:
        typer.echo(json.dumps([row.to_json() for row in rows], indent=2, allow_nan=False))
    else:
        _print_screen(rows, page)
    if not all(row.as_expected for row in rows):
        raise typer.Exit(1)


def _command(name: str | None, settings: AuditSettings) -> str:
    return (
        f"dpbandits audit {name or '--all'} --samples {settings.samples} --epsilon {settings.epsilon!r} "
        f"--confidence {settings.confidence!r} --seed {settings.seed}"
    )


def _list(*, as_json: bool) -> None:
    audits = [build(name) for name in NAMES]
    if as_json:
        listed = [{"name": one.name, "scope": one.scope, "sees": one.sees} for one in audits]
        typer.echo(json.dumps(listed, indent=2))
        return
    table = Table("audit", "scope", "the attacker sees", title="Run one with its name, or --all of them")
    for one in audits:
        table.add_row(one.name, "known broken" if one.known_broken else one.scope, one.sees)
    console().print(table)


def _print_screen(rows: list[AuditRow], page: Path | None) -> None:
    out = console()
    table = Table(title="Privacy loss that was proved", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("audit", no_wrap=True)
    for heading in ("claim", "proved", "share", "verdict"):
        table.add_column(heading, justify="left" if heading == "verdict" else "right", no_wrap=True)
    for row in rows:
        mark = "*" if row.conditional_on else ""
        table.add_row(
            row.name,
            f"{row.claimed_epsilon:g}" + (f", {row.delta:g}" if row.delta else ""),
            f"{row.lower_bound:.3f}{mark}",
            f"{row.tightness:.2f}",
            row.verdict,
            style="" if row.as_expected else "bold red",
        )
    out.print(table)
    if any(row.conditional_on for row in rows):
        out.print("* on condition that the noise is Gaussian; for any law, less can be proved from samples.")
    out.print(f"[bold]{summary(rows)}[/]")
    if page is not None:
        out.print(f"Report: [bold]{page}[/] (audit.json beside it)", soft_wrap=True)
