"""`dpbandits outsourced curate`, `answer` and `optimise`: the two sides of outsourced optimisation.

The curator's side sees the table (`curate`) and the secret directory (`answer`). The modeler's side
(`optimise`) sees the release directory and a pipe of row numbers and answers, nothing else. Its log of
answers, with the release, rebuilds every choice; started again with the same log it goes on where it was.
"""

import json
import operator
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from dpbandits._progress import watched
from dpbandits.cli.console import drop_output, error_console, new_file
from dpbandits.cli.options import (
    Account,
    Budget,
    Clip,
    LedgerFile,
    given_or,
    names_in,
    opened,
    range_in,
    refuse_beside,
)
from dpbandits.errors import CorruptState, InvalidParameter

if TYPE_CHECKING:
    from dpbandits.outsourced import AnswerLaplace, Modeler
    from dpbandits.tables.described import DescribedTable

__all__ = ["answer", "app", "curate", "optimise"]

app = typer.Typer(help="A table's owner releases it once, and a stranger optimises.", no_args_is_help=True)


@app.command()
def curate(
    table: Annotated[
        Path,
        Argument(
            help="CSV, TSV (also .gz), Parquet or Arrow; or a TOML file that names and describes a table."
        ),
    ],
    *,
    schema: Annotated[
        Path | None,
        Option(
            help="TOML file that describes the table, in place of --columns, --bounds, --user, "
            "--rows-per-user, --objective and --ids."
        ),
    ] = None,
    columns: Annotated[str | None, Option(help="Columns to release, as a,b,c.")] = None,
    bounds: Annotated[
        str | None, Option(help="Public LOW:HIGH of each column, in their order, comma-separated.")
    ] = None,
    epsilon: Annotated[
        float | None,
        Option(help="Privacy loss of rows that move by at most --distance; the TOML file's if left out."),
    ] = None,
    out: Annotated[Path, Option(help="Release directory: everything in it is public.")],
    secret: Annotated[Path, Option(help="Secret directory: stays with the curator.")],
    objective: Annotated[str | None, Option(help="Column of answers; without it, by a command.")] = None,
    delta: Annotated[
        float | None, Option(help="0 for pure differential privacy; 0, or the TOML file's, if left out.")
    ] = None,
    distance: Annotated[
        float | None,
        Option(
            help="Euclidean distance up to which a row's position is protected, after public scaling: the "
            "bounds become a cube whose corners are 50 apart. 1, or the TOML file's, if left out."
        ),
    ] = None,
    user: Annotated[str | None, Option(help="Column with the person a row belongs to.")] = None,
    rows_per_user: Annotated[
        int | None,
        Option(min=1, help="Rows a person may have, 1 if left out; all are covered, more are left out."),
    ] = None,
    ids: Annotated[str | None, Option(help="Name the column of the rows' own ids.")] = None,
    cap: Annotated[
        int | None, Option(help="Evaluations at most, failed ones included; by default one a row.")
    ] = None,
    clip: Clip = False,
    mechanism: Annotated[str, Option(help="auto, l2_laplace, gaussian or randomised_response.")] = "auto",
    answer_epsilon: Annotated[float | None, Option(help="Noise the answers, at this further loss.")] = None,
    answer_bounds: Annotated[str | None, Option(help="Public LOW:HIGH of noised answers.")] = None,
    answer_distance: Annotated[
        float | None, Option(help="Answers this far apart are protected; the bounds' width if left out.")
    ] = None,
    answer_after: Annotated[
        float | None,
        Option(help="Seconds after which an answer leaves, whatever its evaluation took; at least 1."),
    ] = None,
    ledger: LedgerFile = None,
    account: Account = None,
    budget: Budget = None,
    file_format: Annotated[str, Option("--format", help="npy or parquet.")] = "npy",
) -> None:
    """Release a table's rows with noise, once, and print the guarantee."""
    from dpbandits.outsourced import Curator, CuratorTuning, PublicScaling, SecretDirectory
    from dpbandits.privacy.definitions import RowDP
    from dpbandits.tables.described import DescribedTable

    if file_format not in ("npy", "parquet"):
        raise InvalidParameter(f"format {file_format!r}: expected npy or parquet")
    flags = {
        "--columns": columns,
        "--bounds": bounds,
        "--user": user,
        "--rows-per-user": rows_per_user,
        "--objective": objective,
        "--ids": ids,
    }
    if schema is not None or table.suffix.lower() == ".toml":
        described = DescribedTable.from_toml(table if schema is None else schema)
        refuse_beside(flags)
        if described.outcome is not None:
            raise InvalidParameter("curate releases positions: leave [label], [rewards] and [log] out")
    else:
        described = _between_bounds(columns, bounds, clip=clip)
        described = replace(
            described, user=user, rows_per_user=rows_per_user or 1, answers=objective, ids=ids
        )
    PublicScaling(described.schema)  # refuses what has no distance, before the table is read
    others = dict.fromkeys(filter(None, [described.answers]), float) | dict.fromkeys(
        filter(None, [described.ids]), str
    )
    public = described.privacy
    promise = RowDP(
        epsilon=given_or(epsilon, public.get("epsilon"), "--epsilon"),
        delta=given_or(delta, public.get("delta", 0.0), "--delta"),
        distance=given_or(distance, public.get("distance", 1.0), "--distance"),
        rows_per_user=described.rows_per_user,
    )
    book, paying = opened(ledger, account, budget, promise=promise)
    source = None if schema is None and described.path is not None else table
    curator = Curator(
        described.read(source, others=others, lenient=True),
        contexts=described.schema,
        privacy=promise,
        objective=described.answers,
        ids=described.ids,
        user=described.user,
        cap=cap,
        answers=_answer_noise(answer_epsilon, answer_bounds, answer_distance),
        tuning=CuratorTuning(mechanism=mechanism, answer_after=answer_after),
        # resumed: rows that were drawn and not written, or lost, are written again
        secret=SecretDirectory(secret, ledger=book, account=paying, resume=True),
    )
    published = curator.publish(out, file_format="parquet" if file_format == "parquet" else "npy")
    typer.echo(published.guarantee.explain())
    error_console().print(f"{published.n} rows published as {published.release_id}")


def _between_bounds(columns: str | None, bounds: str | None, *, clip: bool) -> "DescribedTable":
    """Return the columns that the options describe, if there is no TOML file."""
    from dpbandits.tables import Range, Schema
    from dpbandits.tables.described import DescribedTable

    if columns is None or bounds is None:
        raise InvalidParameter("say what the columns are: --schema FILE.toml, or --columns and --bounds")
    names, limits = names_in(columns), [range_in(text) for text in bounds.split(",")]
    if len(names) != len(limits) or len(set(names)) != len(names):
        raise InvalidParameter(
            f"{len(names)} columns and {len(limits)} bounds: give one LOW:HIGH for each column"
        )
    ranges = {name: Range(*ends, clip=clip) for name, ends in zip(names, limits, strict=True)}
    return DescribedTable(name="table", path=None, schema=Schema(**ranges))


@app.command()
def answer(
    secret: Annotated[Path, Argument(help="The curator's secret directory.")],
    *,
    command: Annotated[
        str | None, Option(help="Program that prints a row's answer; gets its own id as last argument.")
    ] = None,
    ledger: Annotated[Path | None, Option(help="The ledger given to curate.")] = None,
) -> None:
    """Answer a modeler's questions on standard input and output, one line each, until they end.

    Why an evaluation failed stands in failures.log in the secret directory, and nowhere else.
    """
    from dpbandits.outsourced import Command, Curator, SecretDirectory
    from dpbandits.outsourced.pipe import request_lines, serve

    directory = SecretDirectory(secret, ledger=opened(ledger)[0])
    curator = Curator.open(directory, objective=None if command is None else Command(command))
    given = serve(curator, request_lines(sys.stdin.buffer), sys.stdout, report=directory.note)
    error_console().print(f"{given} answers given, {len(curator.answered)} in all")
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        drop_output()


@app.command()
def optimise(
    published: Annotated[Path, Argument(help="The directory of published rows.")],
    *,
    steps: Annotated[int, Option(help="Rows to ask for, earlier ones in the log included.")] = 50,
    minimise: Annotated[bool, Option("--minimise", help="Look for the smallest answer.")] = False,
    answers: Annotated[
        str | None, Option(help="Command that runs `outsourced answer`; without it, ask on standard output.")
    ] = None,
    log: Annotated[Path | None, Option(help="Log of answers: goes on from it, and rebuilds choices.")] = None,
    lengthscale: Annotated[
        float | None,
        Option(help="Known lengthscale, in public coordinates; fitted to the answers if left out."),
    ] = None,
    variance: Annotated[float, Option(help="Known variance, with --lengthscale.")] = 1.0,
    mean: Annotated[float, Option(help="Known mean, with --lengthscale.")] = 0.0,
    per_column: Annotated[
        bool | None,
        Option("--per-column/--one-lengthscale", help="Fit one lengthscale a column (default) or for all."),
    ] = None,
    seed: Annotated[int, Option(help="Public seed of first rows and ties.")] = 0,
    plot: Annotated[Path | None, Option(help="PNG: best so far, and where it looked (d <= 2).")] = None,
) -> None:
    """Search a release for its best row by asking for answers."""
    from dpbandits.models.kernels import SquaredExponential
    from dpbandits.outsourced import Modeler, PublishedRows
    from dpbandits.outsourced.pipe import PipeAnswers, StreamAnswers, request_lines

    if lengthscale is None and (variance != 1.0 or mean != 0.0):
        raise InvalidParameter("--variance and --mean belong to a known kernel: pass --lengthscale too")
    if plot is not None:
        new_file(plot, "--plot")  # said before anything is asked
    held = PublishedRows.load(published)
    modeler = Modeler(
        held,
        kernel=None if lengthscale is None else variance * SquaredExponential(lengthscale=lengthscale),
        mean=mean,
        horizon=steps,
        maximise=not minimise,
        per_column=per_column,
        seed=seed,
    )
    modeler = _resumed(log, modeler)
    source = (
        StreamAnswers(request_lines(sys.stdin.buffer), sys.stdout, release_id=held.release_id)
        if answers is None
        else PipeAnswers(answers, release_id=held.release_id)
    )
    with source, watched("asking", total=steps, completed=len(modeler.answered)) as moved:
        while len(modeler.answered) < steps:
            row = modeler.ask()
            value = source.ask(row)
            modeler.tell(row, value)
            _append(log, row=row, answer=value)
            moved()
    best = modeler.recommend()
    result = {"row": best, "answer": dict(modeler.answered)[best], "asked": len(modeler.answered)}
    typer.echo(json.dumps(result), err=answers is None)
    if plot is not None:
        plot.write_bytes(_picture(modeler, minimise=minimise))


def _resumed(log: Path | None, fresh: "Modeler") -> "Modeler":
    """The modeler where its log stands: its configuration, then one answer a line.

    A torn last line was used for no choice, and is cut off; a file that is no such log is left as it is.
    """
    from dpbandits.state.files import write_durably

    if log is None:
        return fresh
    config = fresh.to_config()
    data = log.read_bytes() if log.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    if not whole and _line(modeler=config).startswith(data):  # nothing was asked yet
        write_durably(log, _line(modeler=config))
        return fresh
    try:
        first, *entries = [json.loads(line) for line in whole.decode(errors="replace").splitlines()]
        written = {**first["modeler"], "horizon": fresh.horizon}
        pairs = [(operator.index(entry["row"]), float(entry["answer"])) for entry in entries]
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        raise CorruptState("the log of answers is not one that this command wrote") from None
    if type(fresh).from_config(written, fresh.published).to_config() != config:
        raise InvalidParameter("the log was written with other options or for another release: name another")
    os.truncate(log, len(whole))
    return type(fresh).replay(config, fresh.published, pairs)


def _append(log: Path | None, **entry: object) -> None:
    """One line more, on disk before the next ask."""
    from dpbandits.state.files import write_through

    if log is not None:
        with log.open("ab") as stream:
            write_through(stream.fileno(), _line(**entry))


def _line(**entry: object) -> bytes:
    return json.dumps(entry).encode() + b"\n"


def _answer_noise(
    epsilon: float | None, bounds: str | None, distance: float | None
) -> "AnswerLaplace | None":
    from dpbandits.outsourced import AnswerLaplace

    if epsilon is None:
        if bounds is not None or distance is not None:
            raise InvalidParameter("--answer-bounds and --answer-distance need --answer-epsilon")
        return None
    if bounds is None:
        raise InvalidParameter("noised answers need public bounds: --answer-bounds LOW:HIGH")
    low, high = range_in(bounds)
    distance = high - low if distance is None else distance
    return AnswerLaplace(epsilon=epsilon, distance=distance, low=low, high=high)


def _picture(modeler: "Modeler", *, minimise: bool) -> bytes:
    """Best so far; for at most two coordinates, where it looked. Released positions and answers only."""
    import numpy as np

    from dpbandits.lab.plot import PALETTE, label_axes, new_figure, to_png

    rows = [row for row, _ in modeler.answered]
    values = np.array([value for _, value in modeler.answered])
    best = np.minimum.accumulate(values) if minimise else np.maximum.accumulate(values)
    inputs = modeler.published.inputs
    shown = inputs.shape[1] <= 2
    figure, axes = new_figure(columns=2 if shown else 1)
    asked = np.arange(1, len(values) + 1)
    axes[0].plot(asked, values, "o", color=PALETTE["grey"], markersize=3)
    axes[0].step(asked, best, where="post", color=PALETTE["blue"])
    label_axes(axes[0], title="Best so far", x="rows asked for", y="answer")
    if shown:
        sample = inputs[:: max(1, len(inputs) // 5000)]
        other = np.zeros(len(sample)) if inputs.shape[1] == 1 else sample[:, 1]
        axes[1].plot(sample[:, 0], other, ".", color="#D0D0D0", markersize=1, zorder=1)
        places = inputs[rows]
        height = values if inputs.shape[1] == 1 else places[:, 1]
        axes[1].scatter(places[:, 0], height, c=asked, s=14, zorder=2)
        label_axes(axes[1], title="Where it looked", x="first coordinate", y="second coordinate or answer")
    return to_png(figure)
