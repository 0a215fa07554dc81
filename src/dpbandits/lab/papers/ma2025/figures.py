"""Pictures of locally private runs: regret as users come, and bins with their arms over time.

For evaluation: regret looks at mean rewards that no server sees. The bins and arms are public.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import SimulationResult
from dpbandits.lab.plot import PALETTE, draw_band, new_figure
from dpbandits.local.contract.spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["bins_picture", "curve", "regret_picture"]

_COLOURS = [PALETTE[name] for name in ("blue", "orange", "green", "pink", "sky", "amber", "grey", "black")]


def curve(results: Sequence[SimulationResult]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Users seen (V,), mean regret per user so far (V,) and its standard error over runs (V,)."""
    seen = results[0].users.cumsum().astype(np.float64)
    runs = np.array([result.regret.cumsum() for result in results]) / seen
    error = runs.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else np.zeros(len(seen))
    return seen, runs.mean(axis=0), error


def regret_picture(results: Sequence[SimulationResult], *, title: str) -> "Figure":
    """Mean regret per user so far, with a band of one standard error.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    seen, mean, error = curve(results)
    figure, (axes,) = new_figure()
    draw_band(axes, seen, mean, error, colour="blue", errors=1.0)
    axes.set(xlabel="users so far", ylabel="regret per user", title=title, ylim=(0.0, None))
    return figure


def bins_picture(spec: Spec, result: SimulationResult) -> "Figure":
    """The bins at every snapshot, coloured by the arm with the largest weight, for one or two columns.

    Raises:
        InvalidParameter: more than two columns, or a run without snapshots.
        MissingExtra: matplotlib is not installed.
    """
    if spec.dim > 2 or not result.snapshots:
        raise InvalidParameter("bins_picture: expected one or two context columns, and snapshots")
    figure, panels = new_figure(width=3.2 * len(result.snapshots), height=3.4, columns=len(result.snapshots))
    from matplotlib.patches import Rectangle

    for axes, (seen, splits, arms) in zip(panels, result.snapshots, strict=True):
        partition = spec.partition(splits)
        for leaf, arm in zip(partition.leaves, arms, strict=True):
            low, high = partition.low[leaf], partition.high[leaf]
            bottom, top = (low[1], high[1]) if spec.dim == 2 else (0.0, 1.0)
            axes.add_patch(
                Rectangle(
                    (low[0], bottom),
                    high[0] - low[0],
                    top - bottom,
                    facecolor=_COLOURS[arm % len(_COLOURS)],
                    edgecolor="white",
                    linewidth=0.6,
                )
            )
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="first column", title=f"{seen:,} users, {len(arms)} bins")
        axes.grid(visible=False)
        if spec.dim == 2:
            axes.set(ylabel="second column")
        else:
            axes.set_yticks([])
    return figure
