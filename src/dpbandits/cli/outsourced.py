"""`dpbandits outsourced curate`, `answer` and `optimise`: the two sides of outsourced optimisation.

The curator reads the table (`curate`) and the secret directory (`answer`). The modeler (`optimise`) sees
the release directory, row numbers and answers, and nothing else. `optimise` keeps a log of answers; run again
with the same log, it continues where it stopped.
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
    TABLES,
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

app = typer.Typer(
    help="Outsourced optimisation: a curator releases a table once, and a modeler optimises over it.",
    no_args_is_help=True,
)


@app.command()
def curate(
    table: Annotated[
        str,
        Argument(help=f"Table to release: {TABLES}. Or a TOML file that names and describes such a table."),
    ],
    *,
    schema: Annotated[
        Path | None,
        Option(
            help="TOML file that describes the table, instead of --columns, --bounds, --user, "
            "--rows-per-user, --objective and --ids."
        ),
    ] = None,
    columns: Annotated[str | None, Option(help="Names of the columns to release, as a,b,c.")] = None,
    bounds: Annotated[
        str | None, Option(help="Public bounds as LOW:HIGH,LOW:HIGH,... in the order of --columns.")
    ] = None,
    epsilon: Annotated[
        float | None,
        Option(
            help="Privacy loss, above 0, between tables in which a user's rows move by at most --distance. "
            "Default: the TOML file's."
        ),
    ] = None,
    out: Annotated[Path, Option(help="Release directory. Everything in it is public.")],
    secret: Annotated[Path, Option(help="Secret directory. It stays with the curator.")],
    objective: Annotated[
        str | None,
        Option(help="Name of the column with the answers. Without it, `answer --command` computes them."),
    ] = None,
    delta: Annotated[
        float | None,
        Option(
            help="Probability with which the epsilon bound may fail; 0 is pure differential privacy. "
            "Default: the TOML file's, else 0."
        ),
    ] = None,
    distance: Annotated[
        float | None,
        Option(
            help="Euclidean distance within which a row's position is protected, in scaled coordinates: "
            "the bounds become a cube whose opposite corners are 50 apart. Default: the TOML file's, else 1."
        ),
    ] = None,
    user: Annotated[
        str | None, Option(help="Name of the column that identifies the user of each row.")
    ] = None,
    rows_per_user: Annotated[
        int | None,
        Option(
            min=1,
            help="Contribution bound: rows of a user that are released. The guarantee covers all of them; "
            "further rows are left out. Default: 1.",
        ),
    ] = None,
    ids: Annotated[
        str | None, Option(help="Name of the column with row ids, which `answer --command` receives.")
    ] = None,
    cap: Annotated[
        int | None,
        Option(help="Largest number of evaluations, failed ones included. Default: the number of rows."),
    ] = None,
    clip: Clip = False,
    mechanism: Annotated[
        str, Option(help="Noise of the rows: auto, l2_laplace, gaussian or randomised_response.")
    ] = "auto",
    answer_epsilon: Annotated[
        float | None,
        Option(help="Privacy loss of an answer, in addition. Default: answers are exact, not protected."),
    ] = None,
    answer_bounds: Annotated[
        str | None, Option(help="Public bounds LOW:HIGH of the answers; needed for --answer-epsilon.")
    ] = None,
    answer_distance: Annotated[
        float | None,
        Option(help="Difference of two answers that is protected. Default: the width of --answer-bounds."),
    ] = None,
    answer_after: Annotated[
        float | None,
        Option(
            help="Seconds after which every answer is given, at least 1, so that its time tells nothing "
            "about the evaluation. Default: at once."
        ),
    ] = None,
    ledger: LedgerFile = None,
    account: Account = None,
    budget: Budget = None,
    file_format: Annotated[
        str, Option("--format", help="File format of the released rows: npy or parquet.")
    ] = "npy",
) -> None:
    """Release a table's rows with noise, once, and print the guarantee."""
    from dpbandits.outsourced import Curator, CuratorTuning, PublicScaling, SecretDirectory
    from dpbandits.privacy.definitions import RowDP
    from dpbandits.tables.described import DescribedTable

    if file_format not in ("npy", "parquet"):
        raise InvalidParameter(f"--format {file_format!r}: expected npy or parquet")
    flags = {
        "--columns": columns,
        "--bounds": bounds,
        "--user": user,
        "--rows-per-user": rows_per_user,
        "--objective": objective,
        "--ids": ids,
    }
    if schema is not None or table.lower().endswith(".toml"):
        described = DescribedTable.from_toml(table if schema is None else schema)
        refuse_beside(flags)
        if described.outcome is not None:
            raise InvalidParameter(
                "curate releases rows without rewards: remove [label], [rewards] and [log] from the TOML file"
            )
    else:
        described = _between_bounds(columns, bounds, clip=clip)
        described = replace(
            described, user=user, rows_per_user=rows_per_user or 1, answers=objective, ids=ids
        )
    PublicScaling(described.schema)  # refuses columns without a distance, before the table is read
    public = described.privacy
    promise = RowDP(
        epsilon=given_or(epsilon, public.get("epsilon"), "--epsilon"),
        delta=given_or(delta, public.get("delta", 0.0), "--delta"),
        distance=given_or(distance, public.get("distance", 1.0), "--distance"),
        rows_per_user=described.rows_per_user,
    )
    book, paying = opened(ledger, account, budget, promise=promise)
    curator = Curator(
        table if schema is not None or described.path is None else described.path,
        contexts=described.schema,
        privacy=promise,
        objective=described.answers,
        ids=described.ids,
        user=described.user,
        cap=cap,
        answers=_answer_noise(answer_epsilon, answer_bounds, answer_distance),
        tuning=CuratorTuning(mechanism=mechanism, answer_after=answer_after),
        # resume=True: a release that was drawn and not written, or lost, is written again without new noise
        secret=SecretDirectory(secret, ledger=book, account=paying, resume=True),
    )
    published = curator.publish(out, file_format="parquet" if file_format == "parquet" else "npy")
    typer.echo(published.guarantee.explain())
    error_console().print(f"{published.n} rows published as {published.release_id}")


def _between_bounds(columns: str | None, bounds: str | None, *, clip: bool) -> "DescribedTable":
    from dpbandits.tables import Range, Schema
    from dpbandits.tables.described import DescribedTable

    if columns is None or bounds is None:
        raise InvalidParameter(
            "the columns are not described: pass --schema FILE.toml, or --columns and --bounds"
        )
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
        str | None,
        Option(help="Program that prints the answer of a row. Its last argument is the row's id."),
    ] = None,
    ledger: Annotated[Path | None, Option(help="Ledger file that was passed to curate.")] = None,
) -> None:
    """Answer a modeler's requests, one line each, on standard input and output until input ends.

    Reasons of failed evaluations are written to failures.log in the secret directory, and nowhere else.
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
    published: Annotated[Path, Argument(help="Release directory written by curate.")],
    *,
    steps: Annotated[int, Option(help="Number of rows to evaluate, those in --log included.")] = 50,
    minimise: Annotated[
        bool, Option("--minimise", help="Search for the smallest answer instead of the largest.")
    ] = False,
    answers: Annotated[
        str | None,
        Option(
            help="Command that runs `outsourced answer`. Default: requests go to standard output, and "
            "answers come from standard input."
        ),
    ] = None,
    log: Annotated[
        Path | None, Option(help="File of answers. A run continues from an existing file.")
    ] = None,
    lengthscale: Annotated[
        float | None,
        Option(help="Known lengthscale, in scaled coordinates. Default: fitted to the answers."),
    ] = None,
    variance: Annotated[float, Option(help="Known prior variance; needs --lengthscale.")] = 1.0,
    mean: Annotated[float, Option(help="Known prior mean; needs --lengthscale.")] = 0.0,
    per_column: Annotated[
        bool | None,
        Option(
            "--per-column/--one-lengthscale",
            help="Fit a lengthscale for each column (default), or one for all columns.",
        ),
    ] = None,
    seed: Annotated[int, Option(help="Public seed of the first rows and of ties.")] = 0,
    plot: Annotated[
        Path | None,
        Option(help="New PNG file: best answer so far and, for at most 2 columns, the evaluated rows."),
    ] = None,
) -> None:
    """Search a release for its best row by Bayesian optimisation."""
    from dpbandits.models.kernels import SquaredExponential
    from dpbandits.outsourced import Modeler, PublishedRows
    from dpbandits.outsourced.pipe import PipeAnswers, StreamAnswers, request_lines

    if lengthscale is None and (variance != 1.0 or mean != 0.0):
        raise InvalidParameter("--variance and --mean need a known kernel: pass --lengthscale too")
    if plot is not None:
        new_file(plot, "--plot")  # refused before the first evaluation
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
    """Return the modeler after the answers in its log.

    The log has a line with the configuration, then a line for each answer. An incomplete last line is cut
    off: no choice was made from it. Another kind of file is not changed.
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
        raise CorruptState("the log of answers was not written by this command: name another file") from None
    if type(fresh).from_config(written, fresh.published).to_config() != config:
        raise InvalidParameter(
            "the log was written with other options or for another release: name another file"
        )
    os.truncate(log, len(whole))
    return type(fresh).replay(config, fresh.published, pairs)


def _append(log: Path | None, **entry: object) -> None:
    """Append a line; it is on disk when this returns, so before the next `ask`."""
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
        raise InvalidParameter("noisy answers need public bounds: pass --answer-bounds LOW:HIGH")
    low, high = range_in(bounds)
    distance = high - low if distance is None else distance
    return AnswerLaplace(epsilon=epsilon, distance=distance, low=low, high=high)


def _picture(modeler: "Modeler", *, minimise: bool) -> bytes:
    """Return a PNG of the best answer so far and, for at most two coordinates, of the evaluated rows."""
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
    label_axes(axes[0], title="Best so far", x="rows evaluated", y="answer")
    if shown:
        sample = inputs[:: max(1, len(inputs) // 5000)]
        other = np.zeros(len(sample)) if inputs.shape[1] == 1 else sample[:, 1]
        axes[1].plot(sample[:, 0], other, ".", color="#D0D0D0", markersize=1, zorder=1)
        places = inputs[rows]
        height = values if inputs.shape[1] == 1 else places[:, 1]
        axes[1].scatter(places[:, 0], height, c=asked, s=14, zorder=2)
        label_axes(axes[1], title="Evaluated rows", x="first coordinate", y="second coordinate or answer")
    return to_png(figure)
