"""Pictures of simulated local policies: regret by number of users, and the arm of each bin.

Regret uses mean rewards that no server sees. Bins and their arms are public.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpbandits._typing import FloatArray
from dpbandits.errors import InvalidParameter
from dpbandits.lab.evaluation.crowds import SimulationResult
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.lab.plot import PALETTE, draw_band, new_figure
from dpbandits.local.contract.spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["ARM_COLOURS", "bins_picture", "mean_regret", "regret_picture"]

ARM_COLOURS = [PALETTE[name] for name in ("blue", "orange", "green", "pink", "sky", "amber", "grey", "black")]
"""Colours of arms 0, 1, 2, ..."""


def mean_regret(results: Sequence[SimulationResult]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return numbers of users, mean regret per user up to each, and its standard error over runs, (V,) each.

    V is the number of versions of a run.
    """
    seen = results[0].users.cumsum().astype(np.float64)
    mean, error = mean_and_error(np.array([result.regret.cumsum() for result in results]) / seen)
    return seen, np.array(mean), np.nan_to_num(error)  # a single run has no standard error


def regret_picture(results: Sequence[SimulationResult], *, title: str) -> "Figure":
    """Draw mean regret per user so far, with a band of one standard error."""
    seen, mean, error = mean_regret(results)
    figure, (axes,) = new_figure()
    draw_band(axes, seen, mean, error, colour="blue", errors=1.0)
    axes.set(xlabel="users so far", ylabel="regret per user", title=title, ylim=(0.0, None))
    return figure


def bins_picture(spec: Spec, result: SimulationResult) -> "Figure":
    """Draw the bins, or the grid's cells, at every snapshot, coloured by the leading arm of each.

    Raises:
        InvalidParameter: There are more than two context columns, or the run has no snapshots.
    """
    if spec.dim > 2 or not result.snapshots:
        raise InvalidParameter("bins_picture: expected one or two context columns, and snapshots")
    figure, axes_of = new_figure(width=3.2 * len(result.snapshots), height=3.4, columns=len(result.snapshots))
    from matplotlib.collections import PolyCollection

    boxes, edge = ("cells", 0.0) if spec.protocol.asks else ("bins", 0.6)
    for axes, (seen, splits, arms) in zip(axes_of, result.snapshots, strict=True):
        low, high = _boxes(spec, splits)
        if spec.dim == 1:
            low, high = np.insert(low, 1, 0.0, axis=1), np.insert(high, 1, 1.0, axis=1)
        # corners of each box, counter-clockwise, shape (boxes, 4, 2)
        corners = np.stack([low, np.c_[high[:, 0], low[:, 1]], high, np.c_[low[:, 0], high[:, 1]]], axis=1)
        colours = [ARM_COLOURS[arm % len(ARM_COLOURS)] for arm in arms]
        drawn = PolyCollection(list(corners), facecolors=colours, edgecolors="white", linewidths=edge)
        axes.add_collection(drawn)
        title = f"{seen:,} users, {len(arms)} {boxes}"
        axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="first column", title=title)
        axes.grid(visible=False)
        if spec.dim == 2:
            axes.set(ylabel="second column")
        else:
            axes.set_yticks([])
    return figure


def _boxes(spec: Spec, splits: tuple[int, ...]) -> tuple[FloatArray, FloatArray]:
    if spec.protocol.asks:
        grid = spec.protocol.grids.whole
        half = 0.5 / np.array(grid.sizes)
        return grid.centres - half, grid.centres + half
    partition = spec.protocol.bins.partition(splits)
    return partition.low[partition.leaves], partition.high[partition.leaves]
