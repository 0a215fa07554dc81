"""Report of an audit run: one self-contained HTML file, with the rows as JSON beside it."""

import html
import json
from collections.abc import Sequence
from pathlib import Path
from string import Template

from dpbandits.audit import AuditRow
from dpbandits.lab.page import PAGE
from dpbandits.lab.plot import PALETTE, label_axes, new_figure, to_data_uri, to_png

__all__ = ["summary", "undecided", "write_audit_report"]

_LARGEST_BAR = 1.6
"""Largest drawn length of a bar, in units of the claim. A longer bar is cut off and gets an arrow."""


def summary(rows: Sequence[AuditRow]) -> str:
    """Return a sentence on how many claims held, and how many false claims were detected."""
    honest = [row for row in rows if not row.known_broken]
    broken = [row for row in rows if row.known_broken]
    held = sum(row.as_expected for row in honest)
    caught = sum(row.as_expected for row in broken)
    found = (
        f"{held} of {len(honest)} honest claims held, and {caught} of {len(broken)} claims that are known to "
        "be false were caught."
    )
    open_ = sum(row.undecided for row in rows)
    return f"{found} {open_} had too few samples and are undecided." if open_ else found


def undecided(rows: Sequence[AuditRow]) -> str:
    """Return the names of audits with too few samples, each with the number it needs, as "name (55,000)".

    The text is "" if every audit has enough samples.
    """
    needed = (
        (
            row.name,
            f"{row.fewest_samples:,}"
            if row.fewest_samples is not None
            else "not known at this epsilon and confidence"
            if row.known_broken
            else "no number of samples decides a claim of so large an epsilon",
        )
        for row in rows
        if row.undecided
    )
    return ", ".join(f"{name} ({samples})" for name, samples in needed)


def write_audit_report(rows: Sequence[AuditRow], folder: Path, *, command: str) -> Path:
    """Write audit.html and audit.json into `folder`, and return the page's path."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = json.dumps([row.to_json() for row in rows], indent=2, allow_nan=False)
    (folder / "audit.json").write_text(listed + "\n")
    path = folder / "audit.html"
    path.write_text(_page(rows, command), encoding="utf-8")
    return path


def _page(rows: Sequence[AuditRow], command: str) -> str:
    groups = (
        ("Single mechanisms", [row for row in rows if not row.known_broken and row.scope == "mechanism"]),
        ("Whole policies", [row for row in rows if not row.known_broken and row.scope == "policy"]),
        ("Single attacks", [row for row in rows if not row.known_broken and row.scope == "attack"]),
        ("Claims that are known to be false", [row for row in rows if row.known_broken]),
    )
    failed = [row.name for row in rows if row.unexpected]
    verdict = "Nothing unexpected." if not failed else f"UNEXPECTED: {', '.join(failed)}."
    if any(row.undecided for row in rows):
        verdict += f" UNDECIDED, with the samples that decide: {undecided(rows)}."
    body = _BODY.substitute(
        summary=html.escape(summary(rows)),
        verdict=html.escape(verdict),
        tables="".join(_table(title, part) for title, part in groups if part),
        picture=to_data_uri(_bars(rows)),
        command=html.escape(command),
    )
    return PAGE.substitute(title="dpbandits audit", banner=_BANNER, body=body)


def _table(title: str, rows: Sequence[AuditRow]) -> str:
    heading = (
        "<tr><th>audit</th><th>claim</th><th>proved</th><th>share</th><th>verdict</th><th>samples</th></tr>"
    )
    return f"<h2>{html.escape(title)}</h2><table>{heading}{''.join(map(_row, rows))}</table>"


def _row(row: AuditRow) -> str:
    claim = f"{row.claimed_epsilon:g}" + (f", {row.delta:g}" if row.delta else "")
    condition = f"; conditional on {row.conditional_on}" if row.conditional_on else ""
    what = (
        f"<b>{html.escape(row.name)}</b><br><span class='small'>{html.escape(row.sees)}; "
        f"{html.escape(row.neighbours)}{html.escape(condition)}</span>"
    )
    samples = f"{row.samples:,}" if row.samples else "exact"
    bad = "" if row.as_expected else " class='bad'"
    cells = (what, claim, f"{row.lower_bound:.4f}", f"{row.tightness:.2f}", row.verdict, samples)
    return f"<tr{bad}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def _bars(rows: Sequence[AuditRow]) -> bytes:
    figure, (axes,) = new_figure(height=0.9 + 0.24 * len(rows))
    for place, row in enumerate(reversed(rows)):
        colour = PALETTE["pink" if row.known_broken else "blue"]
        axes.barh(place, min(row.tightness, _LARGEST_BAR), color=colour, height=0.6)
        if row.tightness > _LARGEST_BAR:
            axes.annotate("▸", (_LARGEST_BAR, place), color=colour, va="center", fontsize=9)
    axes.axvline(1.0, color=PALETTE["black"], linewidth=1.2)
    axes.set_yticks(range(len(rows)), [row.name for row in reversed(rows)], fontsize=7)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlim(0.0, _LARGEST_BAR + 0.1)
    axes.grid(visible=False, axis="y")
    label_axes(axes, title="Privacy loss that was proved, as a share of the claim", x="lower bound / claim")
    return to_png(figure)


_BANNER = """An audit proves a privacy loss from below. It can refute a claim and never confirm one: a
claim that holds here was not broken by this attack, on these neighbours, at this confidence."""

_BODY = Template("""<h1>Guarantees under attack</h1>
<p class="lead">$summary $verdict</p>
<img alt="Lower bound over claim of every audit; the line is the claim" src="$picture">
<p class="small">Blue: honest claims, which must stay left of the line. Pink: false ones, which must cross
it.</p>
$tables
<p class="small">Claim: epsilon, and delta if it is not 0. Proved: the lower bound on epsilon at that
delta. Exact rows compare whole distributions. Sampled rows count events (Clopper and Pearson) of scores
that were chosen on other samples. Conditional rows bound mean and variance, and hold if the noise is normal.
Noise came from the operating system.</p>
<p class="small">Made by <code>$command</code>. The numbers are in <code>audit.json</code>.</p>
""")
