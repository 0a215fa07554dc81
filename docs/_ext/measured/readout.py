"""Tables of `evidence/readout.md`."""

import math
import warnings
from typing import Any

from IPython.display import Markdown
from pages import Row, load, pm, table

import dpbandits as dpb
from dpbandits.models.readout import NoiseScales, half_width

LOOKS, FALSE_STOPS, ALARMS, FOUND = 0.05, 0.055, 0.0015, 0.9
COVERAGE, COST, LOCAL_WIDTH = (0.94, 0.97), 0.004, 0.0125
WIDTHS = {
    ("rare", 10_000): {"gaussian": 2.05, "pure": 2.95},
    ("rare", 100_000): {"gaussian": 1.2, "pure": 1.35},
    ("none", 10_000): {"gaussian": 1.1, "pure": 1.2},
}


def _rows(part: str) -> list[Row]:
    return [row for row in load("readout") if row["part"] == part]


def _share(value: float) -> str:
    return f"{100 * value:.1f}%"


def _span(values: list[float]) -> str:
    return f"{_share(min(values))} to {_share(max(values))}"


def readout_crude() -> Markdown:
    """Show half widths at the end: of ours, and of one difference of means with Laplace noise."""
    rows = []
    for people in (1_000, 3_000, 10_000, 100_000):
        sizes: dict[str, Any] = {"rounds": people, "share": 0.1, "rate": 0.3}
        found = []
        for looks in (4, 1):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", dpb.errors.NothingToLearn)
                policy = dpb.central.GPBandit(
                    contexts=dpb.Schema(age=dpb.Range(18, 90)),
                    arms=["mail", "nothing"],
                    reward_range=(0, 1),
                    horizon=people,
                    privacy=dpb.JointDP(1, 1e-6),
                    readout=dpb.Readout(control=dpb.Control(arm="nothing"), looks=looks),
                )
            ours, control = policy.diagnostics()["readout"]["noise_sd"]
            laws = {"policy_law": _laplace(ours), "control_law": _laplace(control)}
            found.append(half_width(looks=looks, **laws, **sizes))
        laws = {"policy_law": NoiseScales(laplace=20.0), "control_law": NoiseScales(laplace=1.0)}
        found += [half_width(looks=1, **laws, **sizes)]
        found += [half_width(looks=1, policy_law=NoiseScales(), control_law=NoiseScales(), **sizes)]
        rows.append([f"{people:,}", *(f"{one:.4f}" for one in found)])
    return table(["people", "four looks", "`looks=1`", "one Laplace difference", "without privacy"], rows)


def _laplace(sd: float) -> NoiseScales:
    return NoiseScales(laplace=sd / math.sqrt(2.0))


def readout_aims() -> Markdown:
    """State for every aim whether it was met, misses first."""
    main, answered, cells = _rows("main"), _rows("answered"), _rows("segments")
    coverage = [row["coverage"] for row in main]
    found: list[tuple[bool, str]] = [
        (
            COVERAGE[0] <= min(coverage) and max(coverage) <= COVERAGE[1],
            f"intervals of the difference cover in {_span(coverage)} of runs (aim 94% to 97%)",
        )
    ]
    for name, said, most in (
        ("planned_ever_excludes", "intervals for four planned looks ever exclude the truth", LOOKS),
        ("mixture_ever_excludes", "intervals for any number of looks ever exclude the truth", LOOKS),
        ("false_stops", "a stop rule over four looks, at its bound, stops", FALSE_STOPS),
    ):
        worst, mean = max(main, key=lambda row: row[name]), sum(row[name] for row in main) / len(main)
        found.append(
            (
                worst[name] <= most,
                f"{said} in at most {_share(worst[name])} of runs "
                f"(`{worst['scenario']}`, {worst['kind']}, {worst['people']:,} people; aim {_share(most)}), "
                f"and in {_share(mean)} on average over {len(main)} rows",
            )
        )
    for (scenario, people), aims in WIDTHS.items():
        for kind, aim in aims.items():
            (row,) = (r for r in main if (r["scenario"], r["people"], r["kind"]) == (scenario, people, kind))
            wide = row["width_over_open"]
            found.append(
                (
                    wide <= aim,
                    f"`{scenario}` at {people:,} people, {kind}: {wide:.3f} times the width without privacy "
                    f"(aim {aim})",
                )
            )
    one = [row["one_cell_coverage"] for row in cells if row["enough"]]
    found.append(
        (
            COVERAGE[0] <= min(one) and max(one) <= COVERAGE[1],
            f"intervals of one cell that is read cover in {_span(one)} of runs (aim 94% to 97%)",
        )
    )
    together = [row["all_covered"] for row in cells]
    least = 0.95 - 2.0 * (0.05 * 0.95 / cells[0]["runs"]) ** 0.5
    found.append(
        (
            min(together) >= least,
            f"intervals of six cells together cover in {_span(together)} of runs (aim at least 95%, less two "
            "standard errors)",
        )
    )
    alarms = max(row["found"] for row in answered if row["policy"] == row["control"])
    found.append(
        (alarms <= ALARMS, f"false alarms of the sample ratio: at most {100 * alarms:.2f}% (aim .15%)")
    )
    found += [
        (
            row["found"] >= FOUND,
            f"90% against 80% answered at 10,000 people, {row['kind']}: found in {_share(row['found'])} "
            "of runs (aim 90%)",
        )
        for row in answered
        if row["policy"] != row["control"] and row["people"] == 10_000
    ]
    forecasts = [row["forecast"] / row["half_width"] for row in main if row["forecast"]]
    found.append(
        (
            0.9 <= min(forecasts) and max(forecasts) <= 1.1,
            f"`half_width` forecasts {_span(forecasts)} of the mean width (aim 90% to 110%)",
        )
    )
    wide = [row["half_width"] for row in _rows("local") if (row["people"], row["epsilon"]) == (100_000, 1.0)]
    found.append(
        (
            max(wide) <= LOCAL_WIDTH,
            f"half widths for 100,000 devices at epsilon 1: {min(wide):.4f} to {max(wide):.4f} (aim "
            f"{LOCAL_WIDTH})",
        )
    )
    (cost,) = _rows("cost")
    found.append(
        (
            cost["cost"] <= COST,
            f"a readout costs the policy group {pm(cost['cost'], cost['cost_error'])} of reward (aim {COST}; "
            f"`cps-income`, {cost['people']:,} people, epsilon {cost['epsilon']:g}, {cost['runs']} runs)",
        )
    )
    found.sort(key=lambda one: one[0])
    return Markdown("\n".join(f"- {'Met' if met else '**Missed**'}: {said}." for met, said in found))


def readout_main() -> Markdown:
    """Show coverage and width of every scenario, kind of noise and number of people."""
    columns = {
        "covered": "coverage",
        "excluded, four looks": "planned_ever_excludes",
        "excluded, any looks": "mixture_ever_excludes",
        "false stops": "false_stops",
        "ratio": "ratio_coverage",
        "noise left out": "noise_left_out_coverage",
        "1.96 at every look": "every_look_ever_excludes",
    }
    lines: list[list[Any]] = [
        [
            f"`{row['scenario']}`",
            row["kind"],
            f"{row['people']:,}",
            *(_share(row[name]) for name in columns.values()),
            f"{row['width_over_open']:.2f}",
        ]
        for row in _rows("main")
    ]
    return table(["scenario", "noise", "people", *columns, "width"], lines)


def readout_policy() -> Markdown:
    """Show coverage and width of the intervals of a running policy, with standard errors."""
    columns = {"covered": "covered", "excluded, four looks": "excluded"}
    lines: list[list[Any]] = [
        [
            f"{row['epsilon']:g}",
            row["visits"],
            *(f"{pm(row[name], row[f'{name}_error'], scale=100, digits=1)}%" for name in columns.values()),
            pm(row["bias"], row["bias_error"]),
            f"{row['half_width']:.3f}",
            f"{row['truth']:.3f}",
        ]
        for row in _rows("policy")
    ]
    return table(["epsilon", "visits", *columns, "mean error", "half width", "true difference"], lines)


def readout_others() -> Markdown:
    """Show the coverage of guardrails, returning users and cells of a column."""
    main, cells = _rows("main"), _rows("segments")
    lines: list[list[Any]] = [
        ["lower ends of guardrails", "95%", _span([row["guardrail_low"] for row in main])],
        ["upper ends of guardrails", "95%", _span([row["guardrail_high"] for row in main])],
        ["means of the policy group", "95%", _span([row["policy_coverage"] for row in main])],
        ["means of the control group", "95%", _span([row["control_coverage"] for row in main])],
        *(
            [
                f"one of six cells if it is read, {people:,} people "
                f"({_span([r['enough'] for r in rows])} are)",
                "95%",
                _span([r["one_cell_coverage"] for r in rows]),
            ]
            for people in (100_000, 10_000)
            if (rows := [r for r in cells if r["people"] == people and r["enough"]])
        ),
        ["all six cells together", "at least 95%", _span([row["all_covered"] for row in cells])],
        ["any false finding among cells", "at most 5%", _span([row["false_finding"] for row in cells])],
    ]
    for pattern, said in (("within", "several rounds in a look"), ("across", "one round in every look")):
        for name, how in (("coverage", ""), ("visits_as_users_coverage", ", each round read as a user")):
            rows = [row[name] for row in _rows("visits") if row["pattern"] == pattern]
            lines.append([f"returning users, {said}{how}", "95%", _span(rows)])
    return table(["intervals", "aim", "covered"], lines)


def readout_local() -> Markdown:
    """Show coverage and half widths of readouts of devices."""
    lines = [
        [
            row["scenario"],
            f"{row['epsilon']:g}",
            f"{row['people']:,}",
            _share(row["coverage"]),
            _share(row["ever_excludes"]),
            _share(row["randomisation_left_out_coverage"]),
            f"{row['half_width']:.4f}",
            f"{row['forecast']:.4f}",
            f"{row['without_privacy']:.4f}",
        ]
        for row in _rows("local")
        if row["people"] > 2_000
    ]
    rates = {"tenth": "10% in both groups", "half": "50% in both groups"}
    said = [[f"{name}: {rates[name]}" if name in rates else name, *rest] for name, *rest in lines]
    return table(
        [
            *("scenario", "epsilon", "devices", "covered", "for all times", "randomisation left out"),
            *("half width", "planned", "without privacy"),
        ],
        said,
    )
