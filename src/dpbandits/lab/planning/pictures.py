"""The picture of a plan: its curves and answers."""

from collections.abc import Mapping
from itertools import cycle
from typing import TYPE_CHECKING, Any

from dpbandits.lab.plot import LINES, PALETTE, add_foot, add_legend, label_axes, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plan_picture"]


def plan_picture(plan: Mapping[str, Any]) -> "Figure":
    """Draw the curves and the answers of a plan; `plan` is the result of `PrivacyPlan.to_dict`."""
    figure, axes = new_figure(width=10.0, height=3.9, columns=2)
    titles = (f"{plan['users']:,} people", f"epsilon = {plan['promise']:g}")
    for ax, along, title in zip(axes, ("epsilon", "people"), titles, strict=True):
        curves = [row for row in plan["rows"] if row["along"] == along]
        for (trust, answer), (colour, dash, mark) in zip(
            plan["answers"].items(), cycle(LINES[1:]), strict=False
        ):
            rows = [row for row in curves if row["trust"] == trust]
            x, share, low, high = ([row[name] for row in rows] for name in (along, "share", "low", "high"))
            style = {"color": PALETTE[colour], "linestyle": dash, "marker": mark}
            ax.plot(x, share, label=f"{trust}: {answer['policy']}", **style)
            ax.fill_between(x, low, high, color=PALETTE[colour], alpha=0.15, linewidth=0)
            if answer[along] is not None:
                ax.axvline(answer[along], color=PALETTE[colour], linewidth=1, linestyle=dash)
        ax.axhline(plan["target"], color=PALETTE["grey"], linewidth=1, label="target")
        ax.axhline(1.0, color=PALETTE["black"], linewidth=1, linestyle="--", label="no privacy")
        marks = sorted({row[along] for row in curves})
        ax.set_xscale("log")
        ax.set_xticks(marks, [f"{mark:,g}" if mark < 1000 else f"{mark:,.0f}" for mark in marks])
        ax.minorticks_off()
        ax.set_ylim(-0.1, 1.15)
        label_axes(ax, title=title, x=along, y="share of the non-private uplift" if ax is axes[0] else "")
    add_legend(axes[1])
    note = (
        f"{plan['worlds']} simulated worlds; bands: {plan['level']:.0%} of worlds like them. {plan['banner']}"
    )
    add_foot(figure, note)
    return figure
