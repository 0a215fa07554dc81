"""Pictures of policies, releases and budgets, and the style that all pictures share.

- `along_rounds`, `along_epsilons`: run policies in worlds and draw their rewards or regret.
- `released`: draw a policy's predictions along one or two columns of a context.
- `budget_left`: draw how much of their privacy budget accounts have spent.
- `readout`: draw what a policy earns against its control group, look by look.

The colours are Okabe and Ito's, which colour-blind readers can distinguish. Every line has its own dash and
mark, and maps use one scale of lightness, so that pictures are readable in grey. The foot of each picture
says whether it shows a release or an evaluation.
"""

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._lazy import names_of, needing
from dpbandits._typing import FloatArray, Seed
from dpbandits.budget import Ledger
from dpbandits.central.readout.reading import ReadoutResult
from dpbandits.domains import Box, Domain
from dpbandits.errors import InvalidData, InvalidParameter
from dpbandits.lab.evaluation.runner import BANNER, Repetitions, repeat
from dpbandits.lab.evaluation.summary import mean_and_error
from dpbandits.models.readout import ReadCell
from dpbandits.policy import Policy
from dpbandits.tables import Actions, Categories, Range, Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "LINES",
    "PALETTE",
    "add_foot",
    "add_legend",
    "along_epsilons",
    "along_rounds",
    "budget_left",
    "draw_band",
    "draw_points",
    "label_axes",
    "new_figure",
    "panels",
    "readout",
    "released",
    "to_data_uri",
    "to_png",
    "to_svg",
]

__dir__ = names_of(__name__)

PALETTE = {
    "blue": "#0072B2",
    "orange": "#D55E00",
    "green": "#009E73",
    "pink": "#CC79A7",
    "sky": "#56B4E9",
    "amber": "#E69F00",
    "grey": "#7F7F7F",
    "black": "#222222",
}

LINES: tuple[tuple[str, Any, str], ...] = (
    ("black", "-", "o"),
    ("orange", "--", "s"),
    ("blue", "-.", "^"),
    ("green", ":", "D"),
    ("pink", (0, (5, 1, 1, 1, 1, 1)), "v"),
    ("amber", (0, (1, 1)), "P"),
    ("sky", (0, (8, 3)), "X"),
)
"""Colour, dash and mark of the first line, the second, and so on. Lines can be distinguished in grey."""

_STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.8,
    "axes.axisbelow": True,
    "axes.edgecolor": "#9A9A9A",
    "font.size": 10,
    "lines.linewidth": 2.0,
    "figure.constrained_layout.use": True,
}


def new_figure(
    *, width: float = 7.2, height: float = 3.6, columns: int = 1, rows: int = 1
) -> "tuple[Figure, list[Axes]]":
    """Create a figure in the project's style; return it and its axes, row by row from left to right.

    Args:
        width: Width in inches.
        height: Height in inches.
        columns: Number of columns of axes.
        rows: Number of rows of axes.

    Raises:
        MissingExtra: matplotlib is not installed.
    """
    with needing("plots need matplotlib: pip install 'dpbandits[report]'"):
        import matplotlib as mpl
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    with mpl.rc_context(_STYLE):
        figure = _picture()(figsize=(width, height))
        FigureCanvasAgg(figure)
        axes = figure.subplots(rows, columns, squeeze=False)
    return figure, list(axes.ravel())


@cache
def _picture() -> "type[Figure]":
    """Return the class of figures, which notebooks show with any matplotlib backend."""
    from matplotlib.figure import Figure

    class Picture(Figure):
        def _repr_html_(self) -> str:
            title = html.escape(self.axes[0].get_title(loc="left")) if self.axes else ""
            return f'<img alt="{title}" style="max-width: 100%" src="{to_data_uri(to_png(self))}">'

    return Picture


def panels(
    rows: Sequence[dict[str, Any]], *, width: float, margin: float = 0.0, height: float = 4.2
) -> "tuple[Figure, list[tuple[Axes, str, list[dict[str, Any]]]]]":
    """Create a figure with one panel per world; return it, and (axes, world, rows) of each panel.

    Args:
        rows: Rows of a study (see `lab.study`), which determine the order of worlds.
        width: Width of a panel in inches; the whole figure is at least 7.2 wide.
        margin: Width beside the panels in inches.
        height: Height of the figure in inches.
    """
    worlds = list(dict.fromkeys(row["world"] for row in rows))
    whole = max(7.2, margin + width * len(worlds))
    figure, axes = new_figure(width=whole, height=height, columns=len(worlds))
    return figure, [
        (ax, world, [row for row in rows if row["world"] == world])
        for ax, world in zip(axes, worlds, strict=True)
    ]


def draw_band(
    axes: "Axes",
    x: ArrayLike,
    mean: ArrayLike,
    error: ArrayLike,
    *,
    colour: str,
    errors: float = 2.0,
    **line: Any,
) -> None:
    """Draw a curve and a band of `errors` standard errors around it; `line` is passed to matplotlib."""
    middle, half = np.asarray(mean, dtype=np.float64), errors * np.asarray(error, dtype=np.float64)
    axes.plot(x, middle, color=PALETTE[colour], **line)
    axes.fill_between(x, middle - half, middle + half, color=PALETTE[colour], alpha=0.15, linewidth=0)


def draw_points(
    axes: "Axes", x: ArrayLike, mean: ArrayLike, error: ArrayLike, *, colour: str, **line: Any
) -> None:
    """Draw joined points with bars of two standard errors; `line` is passed to matplotlib."""
    bars = 2.0 * np.asarray(error, dtype=np.float64)
    axes.errorbar(x, mean, bars, color=PALETTE[colour], **{"marker": "o", "capsize": 3, **line})


def label_axes(axes: "Axes", *, title: str, x: str, y: str = "") -> None:
    """Set the title, bold and on the left, and the labels of both axes."""
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel(x)
    axes.set_ylabel(y)


def add_legend(axes: "Axes") -> None:
    """Add a legend to the right of the axes, where it covers nothing."""
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8, frameon=False)


def to_png(figure: "Figure") -> bytes:
    """Return the figure as PNG bytes."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def to_svg(figure: "Figure") -> bytes:
    """Return the figure as SVG bytes; equal figures give equal bytes."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "dpbandits"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def to_data_uri(png: bytes) -> str:
    """Return PNG bytes as a data URI, for self-contained pages."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


def add_foot(figure: "Figure", text: str) -> None:
    """Write a note below the picture."""
    figure.supxlabel(text, x=0.01, ha="left", fontsize=7.5, color="#606060")


# -- policies in worlds ----------------------------------------------------------------------------

Maker = Callable[..., Policy]
"""Function (world, seed) -> fresh policy; see `repeat`."""
MakeWorld = Callable[[Seed], Any]
"""Function seed -> world."""

_MOST_POINTS = 200
"""Largest number of points of a curve along rounds; more are not visible."""

Measure = Literal["reward", "regret"]


@worded
def along_rounds(
    policies: Mapping[str, Maker],
    worlds: Mapping[str, MakeWorld] | MakeWorld,
    *,
    seeds: Sequence[Seed],
    what: Measure = "reward",
    rounds: int | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> "Figure":
    """Run policies in worlds, and draw the mean reward so far, or the cumulative regret, by round.

    The figure has one panel per world and one line per policy. With several seeds, a band shows two standard
    errors. The picture is an evaluation, not a release, and its foot says so.

    Args:
        policies: For each name, a function (world, seed) -> fresh policy; see `lab.evaluation.repeat`.
        worlds: For each name, a function seed -> world; or one such function.
        seeds: Seeds of the runs; see `report_seeds`.
        what: "reward", or "regret" if the world knows its mean rewards.
        rounds: Number of rounds; see `repeat`.
        jobs: Number of processes.
        progress: Show progress on standard error.

    Raises:
        InvalidParameter: There are no policies or worlds, or `repeat` rejects the arguments.
        InvalidData: The world does not know its mean rewards, which regret needs.
        MissingExtra: matplotlib is not installed.
    """
    figure, axes, places = _figure_of(worlds, what)
    makers = _several(policies, "policies", '{"private": lambda world, seed: GPBandit(...)}')
    for ax, (title, make_world) in zip(axes, places.items(), strict=True):
        for (name, make), (colour, dash, _) in zip(makers.items(), cycle(LINES), strict=False):
            run = repeat(
                make, make_world, name=name, seeds=seeds, jobs=jobs, rounds=rounds, progress=progress
            )
            curves, title = _curves(run, what), title or run.results[0].environment
            total = curves.shape[1]
            shown = np.unique(np.linspace(1, total, min(total, _MOST_POINTS), dtype=int)) - 1
            mean, error = mean_and_error(curves[:, shown])
            draw_band(ax, shown + 1, mean, np.nan_to_num(error), colour=colour, label=name, linestyle=dash)
        label_axes(ax, title=title, x="rounds", y=f"{_MEASURES[what]} so far")
    add_legend(axes[-1])
    add_foot(figure, BANNER)
    return figure


@worded
def along_epsilons(
    make: Maker,
    worlds: Mapping[str, MakeWorld] | MakeWorld,
    *,
    epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0),
    beside: Mapping[str, Maker] | None = None,
    seeds: Sequence[Seed],
    what: Measure = "reward",
    rounds: int | None = None,
    jobs: int = 1,
    progress: bool = False,
) -> "Figure":
    """Run one policy at several epsilons, and draw its mean reward, or its regret, by epsilon.

    The figure has one panel per world. Bars and bands show two standard errors. The picture is an evaluation,
    not a release, and says so.

    Args:
        make: Function (world, seed, epsilon=) -> fresh policy.
        worlds: For each name, a function seed -> world; or one such function.
        epsilons: Epsilons, above 0.
        beside: For each name, a function (world, seed) -> policy without an epsilon, drawn as a horizontal
            line.
        seeds: Seeds of the runs; see `report_seeds`.
        what: "reward", or "regret" if the world knows its mean rewards.
        rounds: Number of rounds; see `repeat`.
        jobs: Number of processes.
        progress: Show progress on standard error.

    Raises:
        InvalidParameter: There are no epsilons, or one is not above 0; see also `along_rounds`.
        InvalidData: The world does not know its mean rewards, which regret needs.
        MissingExtra: matplotlib is not installed.
    """
    marks = sorted(_checks.number(one, name="an epsilon") for one in epsilons)
    if not marks:
        raise InvalidParameter("epsilons is empty, expected numbers above 0: pass epsilons=(0.3, 1, 3)")
    how: dict[str, Any] = {"seeds": seeds, "jobs": jobs, "rounds": rounds, "progress": progress}
    figure, axes, places = _figure_of(worlds, what)
    for ax, (title, make_world) in zip(axes, places.items(), strict=True):
        last: list[FloatArray] = []
        for mark in marks:
            name = f"epsilon = {mark:g}"
            run = repeat(partial(make, epsilon=mark), make_world, name=name, **how)
            last.append(_curves(run, what)[:, -1])
            title = title or run.results[0].environment
        mean, error = mean_and_error(np.stack(last, axis=1))
        (colour, dash, _), *rest = LINES
        draw_points(ax, marks, mean, np.nan_to_num(error), colour=colour, linestyle=dash, label="by epsilon")
        for (name, maker), (colour, dash, _) in zip((beside or {}).items(), cycle(rest), strict=False):
            across = _curves(repeat(maker, make_world, name=name, **how), what)[:, -1:]
            height, half = (np.repeat(np.nan_to_num(one), 2) for one in mean_and_error(across))
            ends = [marks[0], marks[-1]]
            draw_band(ax, ends, height, half, colour=colour, label=name, linestyle=dash)
        ax.set_xscale("log")
        ax.set_xticks(marks, [f"{mark:g}" for mark in marks])
        ax.minorticks_off()
        label_axes(ax, title=title, x="epsilon", y=_MEASURES[what])
    add_legend(axes[-1])
    add_foot(figure, BANNER)
    return figure


_MEASURES = {"reward": "mean reward", "regret": "regret"}


def _curves(run: Repetitions, what: Measure) -> FloatArray:
    if what == "reward":
        earned = [one.rewards if one.expected is None else one.expected for one in run.results]
        return np.cumsum(earned, axis=1) / np.arange(1, len(earned[0]) + 1)
    regret = run.cumulative_regret
    if regret is None:
        raise InvalidData(f"{run.name}: this world does not know its mean rewards: pass what='reward'")
    return regret


def _several(named: Mapping[str, Any], name: str, instead: str) -> Mapping[str, Any]:
    if not _checks.an(named, dict, name=name, pass_=instead):
        raise InvalidParameter(f"{name} is empty, expected at least one: pass {instead}")
    return named


def _figure_of(
    worlds: Mapping[str, MakeWorld] | MakeWorld, what: Measure
) -> "tuple[Figure, list[Axes], Mapping[str, MakeWorld]]":
    """Return a figure, its axes, and functions that make worlds, by name.

    A single function has the empty name, because its world has a name of its own.
    """
    _checks.one_of(what, ("reward", "regret"), name="what")
    instead = "lambda seed: lab.worlds.load(name, seed=seed), or a dict of such functions"
    places = {"": worlds} if callable(worlds) else _several(worlds, "worlds", instead)
    return *new_figure(width=max(7.2, 1.6 + 4.4 * len(places)), columns=len(places)), places


# -- what was released -----------------------------------------------------------------------------

_STEPS = {1: 101, 2: 61}
"""Number of values of a column at which predictions are drawn, by the number of columns of the picture."""

_GROUNDS = {
    "enforced": "Computed from what was released only.",
    "simulated": "Computed from releases with simulated noise, which protects nobody.",
}


@worded
def released(
    policy: Any,
    along: str | int | Sequence[str | int],
    *,
    at: Mapping[str, object] | None = None,
    spec: Any = None,
) -> "Figure":
    """Draw the expected reward of every arm along one or two columns of a context, or along an action.

    Along one column, each arm has a line and a band of one standard deviation. Along two, each arm has a map
    that is darker for lower rewards. Along a column of `actions`, predicted outcomes and their values have a
    line and a band of one standard deviation each. A mark shows the recommended action.

    Private policies and published policies predict from releases only. For a policy without a guarantee, the
    picture says that it is an evaluation.

    Args:
        policy: Policy, or the result of its `publish`. With `spec`, the version that a local server
            published.
        along: One or two columns, as names of the schema or numbers of the columns of a box; or one column
            of actions.
        at: Values of the other columns; by default the middle of a range and the first category, and for
            other columns of actions the first value.
        spec: Spec of a local crowd, which has the contexts and arms.

    Raises:
        InvalidParameter: A column does not exist, or its kind has no axis.
        InvalidData: A value is outside a column's range.
        MissingExtra: matplotlib is not installed.
    """
    asked = _Asked.of(policy, spec)
    actions = getattr(getattr(policy, "menu", None), "actions", None)
    if actions is not None and along in actions.schema.names and along not in asked.columns:
        return _along_actions(policy, actions, str(along), asked, dict(at or {}))
    chosen = [along] if isinstance(along, str | int) else list(along)
    if len(chosen) not in _STEPS or len(set(chosen)) < len(chosen) or not set(chosen) <= set(asked.columns):
        known = ", ".join(map(repr, asked.columns))
        raise InvalidParameter(f"along is {along!r}, expected one or two different columns of {known}")
    fixed = {name: _middle(column) for name, column in asked.columns.items()} | dict(at or {})
    unknown = [name for name in fixed if name not in asked.columns or (at and name in at and name in chosen)]
    if unknown:
        raise InvalidParameter(f"at: {unknown[0]!r} does not exist or is in along: pass other columns only")
    open_ = [name for name, value in fixed.items() if value is None and name not in chosen]
    if open_:
        raise InvalidParameter(
            f"at: {open_[0]!r} has no default, expected a value: pass at={{{open_[0]!r}: ...}}"
        )
    places = [_places(asked.columns[name], name, _STEPS[len(chosen)]) for name in chosen]
    grid = np.meshgrid(*(np.arange(len(place)) for place in places), indexing="ij")
    count = grid[0].size
    table = {name: [value] * count for name, value in fixed.items()}
    for name, place, index in zip(chosen, places, grid, strict=True):
        table[name] = [place[position] for position in index.ravel().tolist()]
    mean, sd = (one.reshape(count, -1) for one in asked.predict(table))
    shown = {name: f"{at:.6g}" if isinstance(at, float) else str(at) for name, at in fixed.items()}
    others = ", ".join(f"{_axis(name)} = {shown[name]}" for name in shown if name not in chosen)
    one = len(chosen) == 1
    figure = asked.lines(chosen[0], places[0], mean, sd) if one else asked.maps(chosen, places, mean)
    add_foot(figure, f"At {others}. {asked.grounds}" if others else asked.grounds)
    return figure


def _along_actions(
    policy: Any, actions: Actions, along: str, asked: "_Asked", at: dict[str, object]
) -> "Figure":
    first = {name: values[0] for name, values in zip(actions.schema.names, actions.steps, strict=True)}
    known = {name: _middle(column) for name, column in asked.columns.items()} | first
    del known[along]
    unknown = [name for name in at if name not in known]
    if unknown:
        raise InvalidParameter(f"at: {unknown[0]!r} does not exist or is in along: pass other columns only")
    fixed = known | at
    curve = policy.curve({name: fixed[name] for name in asked.columns})
    shown = np.ones(actions.n_actions, dtype=np.bool_)
    for name in first.keys() - {along}:
        shown &= actions.columns[name] == fixed[name]
    if not shown.any():
        raise InvalidData("at: expected values of the grid for other columns of actions")
    column = actions.schema.columns[along]
    place = actions.columns[along][shown]
    x = np.arange(len(place)) if isinstance(column, Categories) else place.astype(np.float64)
    figure, axes = new_figure(columns=2)
    sides = (curve.outcome - curve.outcome_sd, curve.outcome, curve.outcome + curve.outcome_sd)
    values = (curve.value_low, curve.value, curve.value_high)
    value = "Value" if curve.allowed[shown].all() else "Value, best allowed marked"
    titles = (("Expected outcome", sides, "blue"), (value, values, "orange"))
    for ax, (title, (low, mean, high), colour) in zip(axes, titles, strict=True):
        ax.plot(x, mean[shown], color=PALETTE[colour], marker="o", markersize=3)
        ax.fill_between(x, low[shown], high[shown], color=PALETTE[colour], alpha=0.15, linewidth=0)
        _ticks(ax.xaxis, column, place.tolist())
        label_axes(ax, title=title, x=along)
    allowed = np.flatnonzero(shown & curve.allowed)
    if len(allowed):
        best = allowed[int(np.argmax(curve.value[allowed]))]
        at_best = x[int(np.flatnonzero(np.flatnonzero(shown) == best)[0])]
        axes[1].plot([at_best], [curve.value[best]], marker="D", color=PALETTE["black"], linestyle="")
    told = {name: f"{value:.6g}" if isinstance(value, float) else value for name, value in fixed.items()}
    others = ", ".join(f"{name} = {value}" for name, value in told.items())
    add_foot(figure, f"At {others}. {asked.grounds}" if others else asked.grounds)
    return figure


@dataclass(frozen=True)
class _Asked:
    """Predictions that a picture shows.

    Attributes:
        predict: Function from a table of contexts to means and standard deviations.
        columns: Declaration of each column, or (low, high) for a column of a box.
        labels: Labels of the arms; one empty label for a policy over points.
        grounds: Text on the data from which predictions are computed.
    """

    predict: Callable[[Mapping[Any, Any]], tuple[FloatArray, FloatArray]]
    columns: Mapping[Any, Any]
    labels: tuple[Any, ...]
    grounds: str

    @classmethod
    def of(cls, policy: Any, spec: Any) -> "_Asked":
        promise = getattr(policy, "guarantee", None) if spec is None else spec
        status = getattr(promise, "status", "none")
        grounds = _GROUNDS.get(status, BANNER)
        asked = policy if spec is None else spec.protocol
        menu = getattr(asked, "menu", None)
        if menu is not None and isinstance(menu.contexts, Schema):
            predict = policy.predict if spec is None else partial(policy.predict, spec)
            return cls(predict, menu.contexts.columns, tuple(menu.arms.labels), grounds)
        domain: Domain | None = getattr(asked, "domain", None)
        if not isinstance(domain, Box) or not hasattr(policy, "predict"):
            raise InvalidParameter(
                f"{_checks.kind_of(policy)} cannot be drawn: expected a policy or what it published, with "
                "contexts and arms or over a Box"
            )
        ends = dict(enumerate(zip(domain.low.tolist(), domain.high.tolist(), strict=True)))

        def at_points(table: Mapping[Any, Any]) -> tuple[FloatArray, FloatArray]:
            points = np.column_stack([np.asarray(table[column], dtype=np.float64) for column in ends])
            found: tuple[FloatArray, FloatArray] = policy.predict(points)
            return found

        return cls(at_points, ends, ("",), grounds)

    def lines(self, name: Any, place: Sequence[Any], mean: FloatArray, sd: FloatArray) -> "Figure":
        """Draw one line per arm along one column."""
        figure, (ax,) = new_figure()
        for arm, (colour, dash, mark) in zip(range(mean.shape[1]), cycle(LINES), strict=False):
            style: dict[str, Any] = {"colour": colour, "label": str(self.labels[arm])}
            if isinstance(self.columns[name], Categories):
                aside = np.arange(len(place)) + 0.08 * (arm - (mean.shape[1] - 1) / 2.0)
                draw_points(ax, aside, mean[:, arm], sd[:, arm] / 2.0, **style, marker=mark, linestyle="")
            else:
                draw_band(ax, place, mean[:, arm], sd[:, arm], errors=1.0, **style, linestyle=dash)
        _ticks(ax.xaxis, self.columns[name], place)
        label_axes(ax, title="Expected reward", x=_axis(name), y="mean and standard deviation")
        if mean.shape[1] > 1:
            add_legend(ax)
        return figure

    def maps(self, names: Sequence[Any], places: Sequence[Sequence[Any]], mean: FloatArray) -> "Figure":
        figure, axes = new_figure(width=max(7.2, 1.2 + 3.2 * mean.shape[1]), columns=mean.shape[1])
        sides = [
            np.arange(len(place), dtype=np.float64) if isinstance(self.columns[name], Categories) else place
            for name, place in zip(names, places, strict=True)
        ]
        style = {"cmap": "cividis", "shading": "nearest", "vmin": mean.min(), "vmax": mean.max()}
        drawn: Any = None
        for arm, ax in enumerate(axes):
            surface = mean[:, arm].reshape(len(places[0]), len(places[1])).T
            drawn = ax.pcolormesh(*sides, surface, **style)
            ax.grid(visible=False)
            for axis, name, place in zip((ax.xaxis, ax.yaxis), names, places, strict=True):
                _ticks(axis, self.columns[name], place)
            title = str(self.labels[arm]) or "Expected reward"
            label_axes(ax, title=title, x=_axis(names[0]), y=_axis(names[1]) if arm == 0 else "")
        figure.colorbar(drawn, ax=axes, label="expected reward")
        return figure


def _places(column: Any, name: object, steps: int) -> Sequence[Any]:
    if isinstance(column, Categories):
        return list(column.values)
    if isinstance(column, Range | tuple):
        return list(map(float, np.linspace(*_ends(column), steps)))
    raise InvalidParameter(f"along: {name!r} is {_checks.kind_of(column)}, expected a Range or Categories")


def _middle(column: Any) -> Any:
    if isinstance(column, Categories):
        return column.values[0]
    return sum(_ends(column)) / 2.0 if isinstance(column, Range | tuple) else None


def _ends(column: Range | tuple[float, float]) -> tuple[float, float]:
    return (column.low, column.high) if isinstance(column, Range) else column


def _ticks(axis: Any, column: Any, places: Sequence[Any]) -> None:
    if isinstance(column, Categories):
        axis.set_ticks(range(len(places)), [str(place) for place in places])


def _axis(name: object) -> str:
    return name if isinstance(name, str) else f"column {name}"


# -- accounts --------------------------------------------------------------------------------------


@worded
def budget_left(ledger: Ledger, *accounts: str) -> "Figure":
    """Draw the epsilon that accounts have spent at their delta, and how much of each limit remains.

    Args:
        ledger: Ledger with the accounts.
        *accounts: Names of accounts.

    Raises:
        InvalidParameter: There are no names, or the ledger has no such account.
        MissingExtra: matplotlib is not installed.
    """
    _checks.an(ledger, Ledger, name="ledger", pass_="budget_left(ledger, account)")
    if not accounts:
        raise InvalidParameter('accounts: expected at least one name: budget_left(ledger, "team")')
    rows: list[tuple[str, str, float]] = []
    for name in accounts:
        balance = ledger.balance(name)
        terms = balance.terms
        epsilon, promised, delta = map(float, (balance.spent_as_epsilon, terms.epsilon, terms.delta))
        at = f", at delta {delta:.6g}" if delta else ""
        said = f"epsilon: {epsilon:.6g} spent of {promised:.6g}{at}"
        rows.append((name, said, epsilon / promised if promised else 0.0))
        for what, *amounts in balance.parts:
            spent, limit = map(float, amounts)
            if what != "epsilon":
                rows.append((name, f"{what}: {limit - spent:.6g} left of {limit:.6g}", spent / limit))
    figure, (ax,) = new_figure(height=1.3 + 0.45 * max(1, len(rows)))
    for place, (_, text, share) in enumerate(reversed(rows)):
        ax.barh(place, 1.0, color="#E4E4E4", height=0.6)
        ax.barh(place, share, color=PALETTE["blue"], height=0.6)
        ax.annotate(text, (1.02, place), xycoords=("axes fraction", "data"), va="center", fontsize=9)
    ax.set_yticks(range(len(rows)), [f"{name}" for name, *_ in reversed(rows)])
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
    ax.grid(visible=False, axis="y")
    label_axes(ax, title="Spent of the budget", x="")
    add_foot(figure, "Privacy cost of releases, as recorded by the ledger.")
    return figure


# -- a comparison with a control group -------------------------------------------------------------


@worded
def readout(result: ReadoutResult) -> "Figure":
    """Draw the difference of a policy and its control group after every look, one panel for each metric.

    Thick bars are the intervals for a comparison that is read once. Thin bars hold at all looks together. If
    segments were released, a last panel has their differences.

    Args:
        result: Result of `policy.readout()`.

    Raises:
        InvalidParameter: The result has another type.
        MissingExtra: matplotlib is not installed.
    """
    _checks.an(result, ReadoutResult, name="result", pass_="readout(policy.readout())")
    by_look, metrics = result.by_look(), result.readings.metrics
    looks = [one.looks for one in by_look]
    panels = len(metrics) + bool(result.segments)
    figure, axes = new_figure(width=5.4, height=0.8 + 2.2 * panels, rows=panels)
    for place, ax in enumerate(axes[: len(metrics)]):
        read = [one.metrics[place] for one in by_look]
        middle = np.array([one.difference for one in read])
        for ends, width, label in (
            ([one.always for one in read], 1.2, "holds at all looks"),
            ([one.interval for one in read], 4.0, "read once"),
        ):
            ax.vlines(looks, *np.transpose(ends), color=PALETTE["blue"], linewidth=width, label=label)
        ax.plot(looks, middle, "o", color=PALETTE["black"], markersize=4)
        ax.axhline(0.0, color=PALETTE["orange"], linestyle="--", linewidth=1.2)
        ax.set_xticks(range(1, (result.readings.planned_looks or looks[-1]) + 1))
        ax.set_xlim(0.5, (result.readings.planned_looks or looks[-1]) + 0.5)
        ax.grid(visible=False, axis="x")
        label_axes(ax, title=metrics[place].name, x="look", y="policy minus control")
    if result.segments:
        _draw_segments(axes[-1], result.segments)
    axes[0].legend(loc="best", fontsize=8, frameon=False)
    confidence = f"{result.readings.confidence:.0%}"
    add_foot(figure, f"{confidence} intervals; they include sampling and the noise of privacy.")
    return figure


def _draw_segments(ax: "Axes", segments: Sequence[ReadCell]) -> None:
    for place, one in enumerate(segments):
        if one.enough:
            ax.hlines(place, *one.interval, color=PALETTE["blue"], linewidth=4.0)
            ax.plot(one.difference, place, "o", color=PALETTE["black"], markersize=4)
    ax.axvline(0.0, color=PALETTE["orange"], linestyle="--", linewidth=1.2)
    names = [one.name if one.enough else f"{one.name} (too few)" for one in segments]
    ax.set_yticks(range(len(segments)), names)
    ax.invert_yaxis()
    label_axes(ax, title="segments", x="policy minus control", y="")
