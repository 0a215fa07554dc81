"""`dpbandits central learn`, `predict`, `evaluate`: a randomised log in, a public policy out, its worth.

Exports `app`, the group of the three commands, and the commands themselves: `learn` (reads the
private table, releases once), `predict` (needs the released folder only) and `evaluate` (needs a log with
known propensities that one may look at).
"""

import contextlib
import csv
import json
import secrets
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from dpbandits._typing import FloatArray, IntArray
from dpbandits.central.explore_then_commit.contexts import ContextLaw
from dpbandits.central.explore_then_commit.policy import ExploreThenCommit
from dpbandits.central.published_function import PublishedFunction
from dpbandits.cli.console import error_console
from dpbandits.errors import CorruptState, InvalidData, InvalidParameter
from dpbandits.lab.evaluation import BANNER
from dpbandits.lab.evaluation.policy_value import policy_value
from dpbandits.models.kernels import Indicator, SquaredExponential
from dpbandits.models.measures import CellMeasure, IntervalAxis
from dpbandits.privacy.definitions import DPBanditsWarning, JointDP
from dpbandits.privacy.guarantee import Assumption
from dpbandits.state import SQLiteLedger
from dpbandits.tables.files import read_table_file

__all__ = ["app", "evaluate", "learn", "predict"]

app = typer.Typer(help="One trusted server: learn from a log once, and publish.", no_args_is_help=True)

CELLS = 24
"""Bins of a continuous action, and of one context column; fewer where there are several."""

MOST_CONTEXT_CELLS = 600
HISTOGRAM_SHARE = 0.2
"""Share of epsilon spent on the law of contexts, unless it is declared uniform."""

ARM_CORRELATION = 0.7
READ_ARMS = "The names of the arms were read off the table and are published: they must be public anyway."
_COLUMNS = "columns.json"


@app.command()
def learn(
    table: Annotated[Path, typer.Argument(help="CSV, TSV (also .gz) or Parquet; one row a decision.")],
    *,
    context: Annotated[str, typer.Option(help="Context columns, as a,b,c.")],
    action: Annotated[str, typer.Option(help="Action column; integers or text are a set of arms.")],
    reward: Annotated[str, typer.Option(help="Reward column.")],
    bounds: Annotated[
        str,
        typer.Option(
            help="Public LOW:HIGH of contexts, of the action unless it has arms, and of the reward."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="Privacy loss in all, law of contexts included.")],
    out: Annotated[Path, typer.Option(help="Folder for the public policy.")],
    propensity: Annotated[
        str | None,
        typer.Option(help="Column with each action's known chance; without it actions were drawn uniformly."),
    ] = None,
    unit: Annotated[str | None, typer.Option(help="Column with the person a row belongs to.")] = None,
    one_row_per_unit: Annotated[
        bool, typer.Option("--one-row-per-unit", help="Promise that no person has two rows; not checked.")
    ] = False,
    rows_per_unit: Annotated[int, typer.Option(min=1, help="Rows a person may have; all are covered.")] = 1,
    delta: Annotated[float, typer.Option(help="Chance outside the epsilon bound; above 0.")] = 1e-6,
    arms: Annotated[
        str | None,
        typer.Option(
            help="Public list of arms, as a,b,c. Without it those in the table are published, which one "
            "person with an arm of their own would show in; the guarantee says so."
        ),
    ] = None,
    uniform_contexts: Annotated[
        bool,
        typer.Option("--uniform-contexts", help="Spend nothing on the law of contexts: call it uniform."),
    ] = False,
    bound: Annotated[
        float | None,
        typer.Option(help="Largest weighted distance of a reward from the range's middle that is kept."),
    ] = None,
    lengthscale: Annotated[float, typer.Option(help="Of the kernel, as a share of each range.")] = 0.3,
    clip: Annotated[
        bool, typer.Option("--clip", help="Move contexts and rewards outside to their bounds.")
    ] = False,
    ledger: Annotated[Path | None, typer.Option(help="Ledger file (SQLite), made if missing.")] = None,
    population: Annotated[str | None, typer.Option(help="Ledger account that pays.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Open the account with this EPSILON or EPSILON,DELTA.")
    ] = None,
) -> None:
    """Learn a policy privately from a randomised log, release it once, and print the guarantee."""
    if (unit is None) == (not one_row_per_unit):
        raise InvalidParameter("say whose the rows are: --unit COLUMN, or --one-row-per-unit")
    if one_row_per_unit and rows_per_unit != 1:
        raise InvalidParameter("--rows-per-unit needs --unit COLUMN, so that rows can be counted")
    if (ledger is None) != (population is None):
        raise InvalidParameter("--ledger and --population go together")
    names = [name.strip() for name in context.split(",")]
    limits = [_bounds(text) for text in bounds.split(",")]
    kinds: dict[str, type] = {**dict.fromkeys(names, float), action: str, reward: float}
    if propensity is not None:
        kinds[propensity] = float
    if unit is not None:
        kinds[unit] = str
    if len(kinds) != len(names) + 2 + (propensity is not None) + (unit is not None):
        raise InvalidParameter(
            "a column is named twice: contexts, action, reward and the others are different"
        )
    columns = read_table_file(table, kinds)
    labels = _labels(np.asarray(columns[action]), arms)
    expected = len(names) + 1 + (labels is None)
    if len(limits) != expected:
        raise InvalidParameter(
            f"{len(limits)} bounds, expected {expected}: one for each context, "
            + ("the action and the reward" if labels is None else "and the reward (the action has arms)")
        )
    rewards = _within(np.asarray(columns[reward], dtype=float), limits[-1], clip=clip)
    contexts = np.column_stack(
        [
            _within(np.asarray(columns[n], dtype=float), b, clip=clip)
            for n, b in zip(names, limits, strict=False)
        ]
    )
    context_cells = _context_cells(limits[: len(names)])
    if labels is None:
        low, high = limits[len(names)]
        action_cells = CellMeasure.uniform(low=low, high=high, cells=CELLS)
        actions: Any = np.asarray([_number(cell) for cell in columns[action]])
    else:
        action_cells = CellMeasure.finite(np.arange(len(labels), dtype=np.float64))
        actions = _coded(np.asarray(columns[action]), labels)
    book = None if ledger is None else SQLiteLedger(ledger)
    if book is not None and population is not None and budget is not None:
        first, _, second = budget.partition(",")
        book.open_account(population, epsilon=_number(first), delta=_number(second or "0"))
    promise = JointDP(epsilon=epsilon, delta=delta, rounds_per_user=rows_per_unit)
    if not delta > 0.0:
        raise InvalidParameter("delta is 0, and releasing a whole function needs delta above 0")
    settings: dict[str, Any] = {
        "kernel": _kernel(
            [*([] if labels else [limits[len(names)]]), *limits[: len(names)]], labels, lengthscale
        ),
        "actions": action_cells,
        "reward_range": limits[-1],
        "horizon": len(rewards),
        "privacy": promise,
        "bound": bound,
        "unit_ids": unit is not None,
    }
    log: dict[str, Any] = {
        "contexts": contexts,
        "actions": actions,
        "rewards": rewards,
        "propensities": None if propensity is None else np.asarray(columns[propensity], dtype=float),
        "units": None if unit is None else [str(cell) for cell in columns[unit]],
    }
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", DPBanditsWarning)
        rehearsal = ExploreThenCommit(contexts=context_cells, **settings)
    for warning in said:
        error_console().print(f"Warning: {warning.message}", soft_wrap=True, markup=False)
    rehearsal.learn(**log)  # whatever is wrong with the rows shows before anything is spent
    out.mkdir(parents=True, exist_ok=True)  # and so does a folder that cannot be written
    law = ContextLaw(context_cells)
    if not uniform_contexts:
        spent = HISTOGRAM_SHARE * epsilon
        if book is not None and population is not None:
            book.charge(population, charge_id=f"histogram:{secrets.token_hex(8)}", epsilon=spent)
        law = ContextLaw.from_private_histogram(
            contexts,
            cells=context_cells,
            epsilon=spent,
            rounds_per_user=rows_per_unit,
            units=log["units"],
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DPBanditsWarning)  # said above
        usca = ExploreThenCommit(contexts=law, ledger=book, account=population, **settings)
    usca.learn(**log)
    policy = usca.release()
    if labels is not None and arms is None:
        error_console().print(f"Warning: {READ_ARMS} Name them with --arms.", soft_wrap=True, markup=False)
        policy = _with_assumption(policy, READ_ARMS)
    policy.save(out)
    (out / _COLUMNS).write_text(
        json.dumps({"context": names, "action": action, "arms": labels, "reward": reward}) + "\n", "utf-8"
    )
    typer.echo(policy.guarantee.explain())
    error_console().print(f"public policy written to {out}", markup=False)


@app.command()
def predict(
    policy: Annotated[Path, typer.Argument(help="Folder written by learn.")],
    contexts: Annotated[Path, typer.Argument(help="CSV, TSV or Parquet with the context columns.")],
    *,
    every: Annotated[bool, typer.Option("--every-action", help="Mean and sd of every action, too.")] = False,
    clip: Annotated[bool, typer.Option("--clip", help="Move contexts outside to their bounds.")] = False,
) -> None:
    """Best action, its expected reward and standard deviation for every row, as CSV on standard output."""
    held, names, _, labels = _opened(policy)
    rows = _contexts(contexts, names)
    mean, sd = held.predict(_moved_inside(held, rows) if clip else rows)
    best = mean.argmax(axis=1)
    shown = labels if labels is not None else [f"{point:g}" for point in held.actions.points[:, 0]]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    extra = [f"{part}:{name}" for name in shown for part in ("mean", "sd")] if every else []
    writer.writerow([*names, "action", "mean", "sd", *extra])
    for row, index, means, deviations in zip(rows, best, mean, sd, strict=True):
        cells = [f"{value:g}" for value in row]
        more = [f"{v:.6g}" for pair in zip(means, deviations, strict=True) for v in pair] if every else []
        writer.writerow([*cells, shown[index], f"{means[index]:.6g}", f"{deviations[index]:.6g}", *more])


@app.command()
def evaluate(
    policy: Annotated[Path, typer.Argument(help="Folder written by learn.")],
    log: Annotated[Path, typer.Argument(help="Randomised log of people the policy has not learned from.")],
    *,
    propensity: Annotated[
        str | None,
        typer.Option(help="Column with each action's known chance; without it actions were drawn uniformly."),
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(help="Column whose values share a fate (family, school).")
    ] = None,
    draws: Annotated[int, typer.Option(min=2, help="Bootstrap draws.")] = 1000,
    seed: Annotated[int, typer.Option(help="Of the bootstrap.")] = 0,
    clip: Annotated[bool, typer.Option("--clip", help="Move contexts outside to their bounds.")] = False,
) -> None:
    """Value of the policy, of every constant action and of random choice, with 95% intervals."""
    held, names, columns, labels = _opened(policy)
    action, reward = columns["action"], columns["reward"]
    kinds: dict[str, type] = {**dict.fromkeys(names, float), action: str, reward: float}
    if propensity is not None:
        kinds[propensity] = float
    if cluster is not None:
        kinds[cluster] = str
    table = read_table_file(log, kinds)
    contexts = np.column_stack([np.asarray(table[name], dtype=float) for name in names])
    if clip:
        contexts = _moved_inside(held, contexts)
    if labels is not None:
        given = _coded(np.asarray(table[action]), labels)
    else:
        given = held.actions.locate(np.array([_number(cell) for cell in table[action]]), name="actions")
    count = held.actions.size
    chances = np.full(len(given), 1.0 / count)
    if propensity is not None:
        chances = np.asarray(table[propensity], dtype=float)
    known: dict[str, Any] = {
        "actions": given,
        "rewards": np.asarray(table[reward], dtype=float),
        "propensities": chances,
        "clusters": None if cluster is None else np.asarray(table[cluster]).astype(str),
        "draws": draws,
        "seed": seed,
    }
    typer.echo(BANNER)
    typer.echo(f"policy: {policy_value(held.choose(contexts), **known)}")
    if labels is not None:
        for index, label in enumerate(labels):
            if (given == index).any():
                typer.echo(f"always {label}: {policy_value(np.full(len(given), index), **known)}")
    typer.echo(f"random: {policy_value(np.full((len(given), count), 1.0 / count), **known)}")


def _with_assumption(policy: PublishedFunction, text: str) -> PublishedFunction:
    """The same policy, whose guarantee rests on one more thing that nobody checks."""
    found = policy.guarantee
    return PublishedFunction(
        actions=policy.actions,
        contexts=policy.contexts,
        mean=policy.mean,
        sd=policy.sd,
        guarantee=replace(found, assumptions=(*found.assumptions, Assumption(text=text, enforced=False))),
    )


def _opened(folder: Path) -> tuple[PublishedFunction, list[str], dict[str, Any], list[str] | None]:
    held = PublishedFunction.load(folder)
    try:
        columns = json.loads((folder / _COLUMNS).read_text("utf-8"))
        return held, list(columns["context"]), columns, columns["arms"]
    except (OSError, ValueError, KeyError, TypeError):
        raise CorruptState(f"{_COLUMNS} is missing in the policy's folder, or damaged") from None


def _moved_inside(held: PublishedFunction, rows: FloatArray) -> FloatArray:
    """Contexts at the nearest bound of the policy's ranges, which `learn --clip` did too."""
    ends = [axis.edges[[0, -1]] for axis in held.contexts.axes if isinstance(axis, IntervalAxis)]
    low, high = np.transpose(ends)
    return np.asarray(np.clip(rows, low, high))


def _contexts(path: Path, names: list[str]) -> FloatArray:
    table = read_table_file(path, dict.fromkeys(names, float))
    return np.column_stack([np.asarray(table[name], dtype=float) for name in names])


def _labels(cells: NDArray[Any], declared: str | None) -> list[str] | None:
    """Names of arms, or None where actions are numbers with a range."""
    if declared is not None:
        names = [name.strip() for name in declared.split(",")]
        if len(set(names)) != len(names) or not all(names):
            raise InvalidParameter("arms: expected distinct names, as a,b,c")
        return names
    texts = sorted({str(cell) for cell in cells})
    try:
        return [str(value) for value in sorted({int(text) for text in texts})]
    except ValueError:
        pass
    try:
        [float(text) for text in texts]
    except ValueError:
        return texts
    return None


def _coded(cells: NDArray[Any], labels: list[str]) -> IntArray:
    codes = {label: code for code, label in enumerate(labels)}
    for text in {str(cell) for cell in cells} - set(codes):
        with contextlib.suppress(ValueError):
            codes[text] = codes.get(str(int(text)), -1)  # 01 is 1
    coded = np.array([codes.get(str(cell), -1) for cell in cells], dtype=np.int64)
    if (coded < 0).any():
        raise InvalidData(f"the action column holds something else than the {len(labels)} arms")
    return coded


def _context_cells(limits: list[tuple[float, float]]) -> CellMeasure:
    side = max(2, min(CELLS, int(MOST_CONTEXT_CELLS ** (1.0 / len(limits)))))
    return CellMeasure.product(*(CellMeasure.uniform(low=low, high=high, cells=side) for low, high in limits))


def _kernel(limits: list[tuple[float, float]], labels: list[str] | None, lengthscale: float) -> Any:
    if not lengthscale > 0.0:
        raise InvalidParameter("lengthscale: expected a number above 0")
    scales = tuple(lengthscale * (high - low) for low, high in limits)
    if labels is None:
        return SquaredExponential(lengthscale=scales)
    own = SquaredExponential(lengthscale=scales, columns=tuple(range(1, len(scales) + 1)))
    return Indicator(correlation=ARM_CORRELATION, columns=(0,)) * own


def _within(values: FloatArray, limits: tuple[float, float], *, clip: bool) -> FloatArray:
    return np.asarray(np.clip(values, *limits)) if clip else values


def _bounds(text: str) -> tuple[float, float]:
    low, separator, high = text.partition(":")
    if not separator or not _number(low) < _number(high):
        raise InvalidParameter(f"bounds {text!r}: expected LOW:HIGH with LOW below HIGH")
    return _number(low), _number(high)


def _number(text: Any) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidParameter(
            "a number was expected, in the bounds, the budget or the action column"
        ) from None
