"""`dpbandits audit`: attack the guarantees, and say how much privacy loss could be proved."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich import box
from rich.table import Table
from typer import Argument, Option

from dpbandits._progress import watched
from dpbandits._reading import json_object, reading
from dpbandits.cli.console import console, print_json
from dpbandits.cli.options import AsJson, Jobs
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits.audit import AuditRow

__all__ = ["audit"]

_UNDECIDED = 3
"""Exit status where nothing was unexpected, and some audits had too few samples."""


def audit(
    name: Annotated[str | None, Argument(help="One audit; without it and --all, the list of them.")] = None,
    *,
    configuration: Annotated[
        Path | None, Option(help="JSON of to_config() of a GPBandit or a local.Spec: audit this one.")
    ] = None,
    everything: Annotated[bool, Option("--all", help="Every audit.")] = False,
    samples: Annotated[int, Option(help="Outputs of each world; costly audits take a share.")] = 100_000,
    epsilon: Annotated[float, Option(help="Of the claims; audits of printed claims keep their own.")] = 1.0,
    confidence: Annotated[float, Option(help="Of every row's lower bound.")] = 0.999,
    seed: Annotated[int, Option(help="Of public choices; noise comes from the system.")] = 0,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None, Option(help="Folder for audit.html and audit.json; rows in it are not run again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove privacy loss from below, through the public calls and with the real noise.

    Started again with the same --out, it runs only what is missing: take another folder after a change.
    Exit status 1: an honest claim was exceeded, or a claim that is known to be false was not. Exit status 3:
    neither happened, but some audits had too few samples to decide. The list says how many each needs.
    """
    if name is None and not everything and configuration is None:
        _list(as_json=as_json)
        return
    if (name is not None) + everything + (configuration is not None) > 1:
        raise InvalidParameter("give a name, --all or --configuration: one of them")
    from dpbandits.audit import NAMES, AuditSettings, audit_configuration, run_audits
    from dpbandits.audit.configured import names_for
    from dpbandits.lab.audit_report import write_audit_report

    how: dict[str, Any] = {"samples": samples, "confidence": confidence, "seed": seed}
    if configuration is not None:  # --epsilon and --jobs are not used
        with reading(configuration.name):
            config = json_object(configuration.read_text(encoding="utf-8"), configuration.name)
        with watched("auditing", total=1 + len(names_for(config))) as moved:
            rows = audit_configuration(config, **how, progress=lambda _name: moved())
        command = f"dpbandits audit --configuration {configuration.name} --samples {samples} --seed {seed}"
    else:
        if jobs == 0 or jobs < -1:
            raise InvalidParameter(f"jobs is {jobs}, expected a number of processes, or -1 for all cores")
        names, kept = NAMES if name is None else (name,), None if out is None else out / "rows.jsonl"
        settings = AuditSettings(epsilon=epsilon, **how)
        with watched("auditing", total=len(names)) as moved:
            processes = 0 if len(names) == 1 else jobs
            rows = run_audits(names, settings, jobs=processes, kept=kept, progress=lambda _name: moved())
        command = (
            f"dpbandits audit {name or '--all'} --samples {samples} --epsilon {epsilon!r} "
            f"--confidence {confidence!r} --seed {seed}"
        )
    page = None if out is None else write_audit_report(rows, out, command=command)
    if as_json:
        print_json([row.to_json() for row in rows])
    else:
        _print_screen(rows, page)
    if any(row.unexpected for row in rows):
        raise typer.Exit(1)
    if any(row.undecided for row in rows):
        raise typer.Exit(_UNDECIDED)


def _list(*, as_json: bool) -> None:
    from dpbandits.audit import NAMES, build

    audits = [build(name) for name in NAMES]
    if as_json:
        shown = [(one, {"name": one.name, "scope": one.scope, "sees": one.sees}) for one in audits]
        print_json([fields | {"fewest_samples": one.fewest_samples()} for one, fields in shown])
        return
    headings = ("audit", "scope", "samples from", "the attacker sees")
    table = Table(*headings, title="Run one with its name, or --all of them")
    for one in audits:
        scope = "known broken" if one.known_broken else one.scope
        table.add_row(one.name, scope, f"{one.fewest_samples():,}", one.sees)
    console().print(table)


def _print_screen(rows: "list[AuditRow]", page: Path | None) -> None:
    from dpbandits.lab.audit_report import summary, undecided

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
            style="bold red" if row.unexpected else "yellow" if row.undecided else "",
        )
    out.print(table)
    conditions = sorted({row.conditional_on for row in rows if row.conditional_on})
    if conditions:
        out.print(
            f"* on condition of {' or '.join(conditions)}; for any law, less can be proved from samples."
        )
    out.print(f"[bold]{summary(rows)}[/]")
    if any(row.undecided for row in rows):
        again = " Run them again with --samples of at least that number."
        decidable = any(row.undecided and row.fewest_samples is not None for row in rows)
        out.print(f"Undecided: {undecided(rows)}.{again if decidable else ''}")
    if page is not None:
        out.print(f"Report: [bold]{page}[/] (audit.json beside it)", soft_wrap=True)
