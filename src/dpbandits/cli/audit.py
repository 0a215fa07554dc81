"""`dpbandits audit`: attacks on the guarantees, which give lower bounds of the privacy loss."""

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
"""Exit status if no verdict is unexpected and some audits had too few samples."""


def audit(
    name: Annotated[
        str | None, Argument(help="Name of an audit. Without a name or an option, all audits are listed.")
    ] = None,
    *,
    configuration: Annotated[
        Path | None,
        Option(help="JSON file from to_config() of a GPBandit or a local.Spec, which is then audited."),
    ] = None,
    everything: Annotated[bool, Option("--all", help="Run every audit.")] = False,
    samples: Annotated[
        int,
        Option(
            help="Number of outputs sampled from each of the two data sets. Costly audits use a part of it."
        ),
    ] = 100_000,
    epsilon: Annotated[
        float, Option(help="Claimed epsilon to attack. Audits of published claims use the published value.")
    ] = 1.0,
    confidence: Annotated[float, Option(help="Confidence level of each lower bound, in (0, 1).")] = 0.999,
    seed: Annotated[
        int, Option(help="Seed of the public choices. Noise comes from the operating system.")
    ] = 0,
    jobs: Jobs = 1,
    out: Annotated[
        Path | None,
        Option(help="Folder for audit.html and audit.json. Audits with a result in it are not run again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure lower bounds of the privacy loss, through the public interface and with the real noise.

    With the --out of an earlier run only missing audits run: after a change of code, use another folder.

    Exit status 1: a bound exceeds an honest claim, or stays below a claim that is known to be false.
    Exit status 3: some audits had too few samples to decide; the list of audits says how many each needs.
    """
    if name is None and not everything and configuration is None:
        _list(as_json=as_json)
        return
    if (name is not None) + everything + (configuration is not None) > 1:
        raise InvalidParameter("pass only one of a name, --all and --configuration")
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
            raise InvalidParameter(f"jobs is {jobs}, expected a number of processes, or -1 for one per core")
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
    table = Table(*headings, title="Run one audit by its name, or all with --all")
    for one in audits:
        scope = "known broken" if one.known_broken else one.scope
        table.add_row(one.name, scope, f"{one.fewest_samples():,}", one.sees)
    console().print(table)


def _print_screen(rows: "list[AuditRow]", page: Path | None) -> None:
    from dpbandits.lab.audit_report import summary, undecided

    out = console()
    table = Table(title="Lower bounds of the privacy loss", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
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
            f"* under the condition {' or '.join(conditions)}; without it, samples prove a smaller bound."
        )
    out.print(f"[bold]{summary(rows)}[/]")
    if any(row.undecided for row in rows):
        again = " Run them again with at least that many --samples."
        decidable = any(row.undecided and row.fewest_samples is not None for row in rows)
        out.print(f"Undecided: {undecided(rows)}.{again if decidable else ''}")
    if page is not None:
        out.print(f"Report: [bold]{page}[/] (audit.json beside it)", soft_wrap=True)
