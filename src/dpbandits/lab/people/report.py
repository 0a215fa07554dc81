"""Report of a table study: a self-contained HTML page, pictures as files, and numbers as JSON."""

import html
import json
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from dpbandits.lab.evaluation import BANNER, Estimate
from dpbandits.lab.evaluation.summary import Share, mean_and_error
from dpbandits.lab.page import PAGE
from dpbandits.lab.people.study import (
    CEILING,
    CONSTANT,
    NON_PRIVATE,
    PRIVATE,
    RANDOM,
    Compared,
    TableStudyResult,
)
from dpbandits.lab.plot import PALETTE, add_legend, draw_band, label_axes, new_figure, to_data_uri, to_png

__all__ = [
    "FILES",
    "headline",
    "percent_up",
    "share_text",
    "sweep_columns",
    "table_rows",
    "to_json_rows",
    "write_report",
]

_CURVE_POINTS = 200

FILES = ("report.html", "result.json", "learning.png", "epsilon.png", "attack.png")
"""Names of the files that `write_report` writes."""


def headline(result: TableStudyResult) -> str:
    """Return a sentence with the number of decisions and a bound on an attacker's correct guesses."""
    percent = percent_up(result.guarantee.membership_bound())
    people = f"Each run of the private policy: {result.decisions}"
    if result.guarantee.status != "enforced":
        return (
            f"{people}; with simulated noise, which protects nobody: with secret noise no observer of a run "
            f"could tell one person's data from any other's in more than {percent:.1f}% of guesses."
        )
    return (
        f"{people}; and whoever sees all its releases and everybody else's decisions cannot tell one "
        f"person's data from any other's in more than {percent:.1f}% of guesses (blind guessing: 50%)."
    )


def percent_up(bound: float) -> float:
    """Return an upper bound on a probability in percent, rounded up to one decimal."""
    return float(np.ceil(1000.0 * bound - 1e-9) / 10.0)


def share_text(share: Share | None) -> str:
    """Return a retained uplift in percent with its standard error, or a dash if it is unknown."""
    if share is None or not np.isfinite(share.share):
        return "–"
    error = f" ± {100 * share.standard_error:.1f}" if np.isfinite(share.standard_error) else ""
    return f"{100 * share.share:.1f}%{error}"


def sweep_columns(result: TableStudyResult) -> dict[str, dict[float, Compared]]:
    """Return the runs of each private policy, by its name and epsilon.

    The studied policy comes before the simple ones.
    """
    columns = {PRIVATE: result.private}
    for (name, epsilon), one in result.crude.items():
        columns.setdefault(name, {})[epsilon] = one
    return columns


def table_rows(result: TableStudyResult) -> list[tuple[str, Estimate, Share | None]]:
    """Return (name, mean reward, retained uplift) for each row of the main table.

    The rows are random choice, the best constant arm, the private and the non-private policy, and the
    supervised model.
    """
    shown = [result.policies[key] for key in (RANDOM, CONSTANT, result.epsilon, NON_PRIVATE)]
    return [*((one.run.name, one.reward, one.share) for one in shown), (CEILING, result.ceiling, None)]


def to_json_rows(result: TableStudyResult) -> list[dict[str, Any]]:
    """Return one flat row per policy and epsilon, with reward, retained uplift and their standard errors."""

    def row(name: str, epsilon: float | None, reward: Estimate, share: Share | None) -> dict[str, Any]:
        return {
            "policy": name,
            "epsilon": epsilon,
            "delta": None if epsilon is None else result.delta,
            "reward": reward.mean,
            "stderr": _finite(reward.standard_error),
            "uplift": share.uplift.mean if share else None,
            "uplift_stderr": _finite(share.uplift.standard_error) if share else None,
            "nonprivate_uplift": share.reference_uplift.mean if share else None,
            "share_of_nonprivate_uplift": _finite(share.share) if share else None,
            "share_stderr": _finite(share.standard_error) if share else None,
            "reps": reward.n,
        }

    rows = []
    for key, one in result.policies.items():
        name, epsilon = (key, None) if isinstance(key, str) else (PRIVATE, key)
        rows.append(row(name, epsilon, one.reward, one.share))
    rows += [row(name, epsilon, one.reward, one.share) for (name, epsilon), one in result.crude.items()]
    return [*rows, row(CEILING, None, result.ceiling, None)]


def to_json(result: TableStudyResult) -> dict[str, Any]:
    """Return all measurements as a JSON-ready dictionary, for `result.json`."""
    return {
        "banner": BANNER,
        "table": result.table,
        "horizon": result.horizon,
        "rounds_per_user": result.rounds_per_user,
        "reps": result.reps,
        "rows": to_json_rows(result),
        "attacks": {
            name: {
                "success": one.success,
                "stderr": one.standard_error,
                "trials": one.trials,
                "bound": one.bound,
            }
            for name, one in result.attacks.items()
        },
        "guarantee": json.loads(result.guarantee.to_json()),
    }


def write_report(
    result: TableStudyResult, folder: Path, *, command: str, drawn: dict[str, bytes] | None = None
) -> Path:
    """Write report.html, result.json and the pictures into `folder`, and return the page's path.

    Args:
        result: Result of the study.
        folder: Folder of the report; it is created if it does not exist.
        command: Command that the page shows.
        drawn: Dictionary in which pictures that do not depend on the attacks are kept. If you write two
            reports of one study, pass the same dictionary to draw them once.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kept = {} if drawn is None else drawn
    if not kept:
        kept |= {"learning": _learning_curves(result), "epsilon": _shares_over_epsilon(result)}
    pictures = kept | {"attack": _attacks(result)}
    for name, png in pictures.items():
        (folder / f"{name}.png").write_bytes(png)
    (folder / "result.json").write_text(json.dumps(to_json(result), indent=2, allow_nan=False) + "\n")
    path = folder / "report.html"
    path.write_text(_page(result, pictures, command), encoding="utf-8")
    return path


def _learning_curves(result: TableStudyResult) -> bytes:
    figure, (axes,) = new_figure()
    colours = {RANDOM: "grey", CONSTANT: "amber", NON_PRIVATE: "black", result.epsilon: "orange"}
    shades = iter(("sky", "pink", "green", "blue", "amber"))
    for key, one in result.policies.items():
        rewards = np.array([result.rewards for result in one.run.results])
        total = rewards.shape[1]
        rounds = np.unique(np.linspace(max(1, total // _CURVE_POINTS), total, _CURVE_POINTS, dtype=int))
        mean, error = mean_and_error(np.cumsum(rewards, axis=1)[:, rounds - 1] / rounds)
        colour, width = (colours[key], 2.2) if key in colours else (next(shades, "grey"), 1.2)
        line: dict[str, Any] = {"label": one.run.name, "linewidth": width}
        draw_band(axes, rounds, mean, np.nan_to_num(error), colour=colour, errors=1.0, **line)
    label_axes(axes, title="Learning while protecting", x="decisions", y="mean reward so far")
    add_legend(axes)
    return to_png(figure)


def _shares_over_epsilon(result: TableStudyResult) -> bytes:
    figure, (axes,) = new_figure()
    looks, lowest = iter((("orange", "o", "-"), ("blue", "s", "--"), ("grey", "^", ":"))), 0.0
    for name, ways in sweep_columns(result).items():
        drawn = np.array([100 * one.share.share for one in ways.values()])
        errors = np.nan_to_num([100 * one.share.standard_error for one in ways.values()])
        colour, marker, line = next(looks)
        look: dict[str, Any] = {"color": PALETTE[colour], "marker": marker, "linestyle": line, "capsize": 3}
        axes.errorbar(list(ways), drawn, yerr=errors, label=name, **look)
        lowest = min([lowest, *(drawn[np.isfinite(drawn)] - 5)])
    epsilons = list(result.private)
    shares = np.array([100 * one.share.share for one in result.private.values()])
    for point in zip(epsilons, shares, strict=True):
        if not np.isfinite(point[1]):  # no share: nothing was learned without privacy either
            continue
        axes.annotate(f"{point[1]:.0f}%", point, textcoords="offset points", xytext=(-8, 8), ha="right")
    constant = 100 * result.policies[CONSTANT].share.share
    axes.axhline(100, color=PALETTE["black"], linewidth=1, linestyle=":")
    marks = {"non-private": 100.0}
    if np.isfinite(constant):
        marks["best constant arm"] = constant
        axes.axhline(constant, color=PALETTE["amber"], linewidth=1.5, linestyle="--")
    for text, height in marks.items():
        axes.annotate(text, (1, height), xycoords=("axes fraction", "data"), ha="right", va="bottom")
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.minorticks_off()
    axes.set_ylim(lowest, 112)
    add_legend(axes)
    title = "Retained uplift"
    label_axes(axes, title=title, x=f"epsilon (delta = {result.delta:g})", y="% of the non-private uplift")
    return to_png(figure)


def _attacks(result: TableStudyResult) -> bytes:
    figure, (axes,) = new_figure(height=2.4)
    for place, (name, attack) in enumerate(result.attacks.items()):
        colour = PALETTE["black"] if name == NON_PRIVATE else PALETTE["orange"]
        axes.barh(place, 100 * attack.success, xerr=100 * attack.standard_error, color=colour, height=0.5)
        if attack.bound < 1.0:
            bound = 100 * attack.bound
            text, blue = f"bound {percent_up(attack.bound):.1f}%", PALETTE["blue"]
            axes.plot([bound, bound], [place - 0.4, place + 0.4], color=blue, linewidth=2.5)
            axes.annotate(text, (bound, place), textcoords="offset points", xytext=(6, -3), color=blue)
    axes.axvline(50, color=PALETTE["grey"], linewidth=1, linestyle=":")
    axes.set_yticks(range(len(result.attacks)), list(result.attacks))
    axes.set_xlim(0, 105)
    axes.grid(visible=False, axis="y")
    right = "% of right guesses about one person's reward (50 = blind guessing)"
    label_axes(axes, title="The same attack on both policies", x=right)
    return to_png(figure)


def _row(*cells: str) -> str:
    return "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + "</tr>"


def _page(result: TableStudyResult, pictures: dict[str, bytes], command: str) -> str:
    rows = [
        _row(name, str(reward), "–" if kept is None else str(kept.uplift), share_text(kept))
        for name, reward, kept in table_rows(result)
    ]
    ways = sweep_columns(result)
    sweep = [
        _row(f"{epsilon:g}", str(one.reward), *(share_text(way[epsilon].share) for way in ways.values()))
        for epsilon, one in result.private.items()
    ]
    attacks = []
    if not result.attacks:  # the report is written once before the attacks
        attacks.append(_row("not run", "–", "–", "–"))
    for name, attack in result.attacks.items():
        guesses = f"{100 * attack.success:.1f}% ± {100 * attack.standard_error:.1f}"
        attacks.append(_row(name, guesses, f"{percent_up(attack.bound):.1f}%", str(attack.trials)))
    body = _BODY.substitute(
        headline=html.escape(headline(result)),
        table=html.escape(result.table),
        decisions=result.decisions,
        reps=result.reps,
        rows="".join(rows),
        sweep="".join(sweep),
        attacks="".join(attacks),
        **{name: to_data_uri(png) for name, png in pictures.items()},
        guarantee=html.escape(result.guarantee.explain()),
        command=html.escape(command),
    )
    title = f"dpbandits report: {html.escape(result.table)}"
    return PAGE.substitute(title=title, banner=html.escape(BANNER), body=body)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


_BODY = Template("""<h1>Private decisions about people: $table</h1>
<p class="lead">$headline</p>
<p class="small">Each run has $decisions. There are $reps runs on different orders of the people; the tables
show mean ± standard error. Rewards and uplift are computed from raw data.</p>

<h2>What privacy costs</h2>
<table>
<tr><th>policy</th><th>reward</th><th>uplift over random</th><th>share of the non-private uplift</th></tr>
$rows
</table>
<img alt="Mean reward so far over decisions, one line per policy" src="$learning">
<p class="small">The ceiling is the mean reward of a supervised model: the better of logistic regression and
gradient-boosted trees, with one model per arm, fitted to all rewards of other people. The best constant arm
was chosen in hindsight.</p>

<h2>At other epsilons</h2>
<table>
<tr><th>epsilon</th><th>reward</th><th>share of the non-private uplift</th><th>share of a private ridge</th>
<th>share of a private histogram</th></tr>
$sweep
</table>
<img alt="Share of the non-private uplift by epsilon" src="$epsilon">

<h2>Membership attack</h2>
<p>The attacker knows the algorithm, the public coins and all records, except one person's reward. This reward
is either the highest or the lowest possible. The attacker sees the policy's prediction for that person's
action after the first release, and guesses.</p>
<table>
<tr><th>policy</th><th>right guesses</th><th>bound by the guarantee</th><th>guesses</th></tr>
$attacks
</table>
<img alt="Success of the attack on both policies beside the bound" src="$attack">

<h2>The guarantee</h2>
<pre>$guarantee</pre>
<p class="small">Command: <code>$command</code>. The numbers are in <code>result.json</code>.</p>
""")
