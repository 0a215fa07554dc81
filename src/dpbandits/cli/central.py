"""`dpbandits central learn`, `predict`, `evaluate`: a randomised log in, a public policy out, its worth.

Exports `app`, the group of the three commands, and the commands themselves: `learn` (reads the
private table, publishes once), `predict` (needs the published folder only) and `evaluate` (needs a log with
known propensities that one may look at).
"""

import csv
import io
import sys
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast, get_args

import typer
from typer import Argument, Option

from dpbandits._progress import watched
from dpbandits.cli.console import error_console
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
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbandits.central.logged.logged_table import LoggedTable
    from dpbandits.tables.coded import Coded

__all__ = ["app", "evaluate", "learn", "predict"]

app = typer.Typer(help="One trusted server: learn from a log once, and publish.", no_args_is_help=True)

Propensity = Annotated[
    str | None,
    Option(help="Column with each action's known chance; without it actions were drawn uniformly."),
]
_NO_ARM = ("none", "None", "NONE")
"""Names that mean no arm, if arms are read off the table."""

_LINES = 1 << 16
"""Lines that are written at a time."""

Published = Annotated[Path, Argument(help="Folder written by learn.")]


@app.command()
def learn(
    table: Annotated[
        Path,
        Argument(
            help="CSV, TSV (also .gz), Parquet or Arrow, one row a decision; or a TOML file that names and "
            "describes one."
        ),
    ],
    *,
    schema: Annotated[
        Path | None,
        Option(
            help="TOML file that describes the table, in place of --context, --action, --reward, --bounds."
        ),
    ] = None,
    context: Annotated[str | None, Option(help="Context columns, as a,b,c.")] = None,
    action: Annotated[str | None, Option(help="Action column; integers or text are a set of arms.")] = None,
    reward: Annotated[str | None, Option(help="Reward column.")] = None,
    bounds: Annotated[
        str | None,
        Option(help="Public LOW:HIGH of contexts, of the action unless it has arms, and of the reward."),
    ] = None,
    epsilon: Annotated[
        float | None,
        Option(help="Privacy loss in all, law of contexts included; the TOML file's if left out."),
    ] = None,
    horizon: Annotated[
        int | None,
        Option(
            min=1,
            help="Public number of rows that count at most. The noise depends on it and not on the exact "
            "number of rows. The TOML file's if left out.",
        ),
    ] = None,
    out: Annotated[Path, Option(help="Folder for the public policy.")],
    propensity: Propensity = None,
    user: Annotated[str | None, Option(help="Column with the person a row belongs to.")] = None,
    one_row_per_user: Annotated[
        bool, Option("--one-row-per-user", help="Promise that no person has two rows; not checked.")
    ] = False,
    rows_per_user: Annotated[
        int | None, Option(min=1, help="Rows a person may have, 1 if left out; all are covered.")
    ] = None,
    delta: Annotated[
        float | None,
        Option(
            help="Chance outside the epsilon bound; 0 for marginal tables alone. 1e-6, or the TOML "
            "file's, if left out."
        ),
    ] = None,
    arms: Annotated[
        str | None,
        Option(
            help="Name the public list of arms, as a,b,c. Without it the list is read from the table and "
            "published: one row with an arm of its own changes it for everybody. The guarantee says so."
        ),
    ] = None,
    uniform_contexts: Annotated[
        bool,
        Option("--uniform-contexts", help="Features: spend nothing on the law of contexts, call it uniform."),
    ] = False,
    bound: Annotated[
        float | None,
        Option(help="Largest weighted distance of a reward from the range's middle that is kept."),
    ] = None,
    lengthscale: Annotated[float, Option(help="Of the kernel, as a share of each range.")] = 0.3,
    release: Annotated[
        str | None,
        Option(
            help="Choose what is released of people that a TOML file describes: features (smooth functions "
            "of few columns, delta above 0) or marginals (tables of few columns at a time), the default."
        ),
    ] = None,
    clip: Clip = False,
    ledger: LedgerFile = None,
    account: Account = None,
    budget: Budget = None,
) -> None:
    """Learn a policy privately from a randomised log, publish it once, and print the guarantee."""
    from dpbandits._checks import one_of
    from dpbandits.central.logged.logged_table import READ_ARMS, LoggedTable
    from dpbandits.central.logged.once import folder_of_run, publish_once
    from dpbandits.central.logged.policy import ReleaseName
    from dpbandits.privacy.definitions import JointDP
    from dpbandits.tables.described import DescribedTable

    if ledger is not None and account is None:
        raise InvalidParameter("--ledger needs --account: whose budget pays")
    described = None
    if schema is not None or table.suffix.lower() == ".toml":
        described = DescribedTable.from_toml(table if schema is None else schema)
        flags: dict[str, object] = {
            "--context": context,
            "--action": action,
            "--reward": reward,
            "--bounds": bounds,
            "--propensity": propensity,
            "--user": user,
            "--one-row-per-user": one_row_per_user or None,
            "--rows-per-user": rows_per_user,
            "--arms": arms,
        }
        refuse_beside(flags)
        horizon = described.horizon if horizon is None else horizon
        rows_per_user = described.rows_per_user
    public = {} if described is None else described.privacy
    if horizon is None:
        raise InvalidParameter("--horizon is missing: most rows that count, a public number")
    promise = JointDP(
        epsilon=given_or(epsilon, public.get("epsilon"), "--epsilon"),
        delta=given_or(delta, public.get("delta", 1e-6), "--delta"),
        rounds_per_user=1 if rows_per_user is None else rows_per_user,
    )
    if not promise.delta > 0.0 and (described is None or release == "features"):
        raise InvalidParameter("delta is 0, and publishing a whole function needs delta above 0")
    kind: Any = None if release is None else one_of(release, get_args(ReleaseName), name="release")
    if described is None:
        if kind == "marginals":
            raise InvalidParameter("--release marginals needs a TOML file, with types of columns, and arms")
        if (user is None) == (not one_row_per_user):
            raise InvalidParameter("say whose the rows are: --user COLUMN, or --one-row-per-user")
        if one_row_per_user and promise.rounds_per_user != 1:
            raise InvalidParameter("--rows-per-user needs --user COLUMN, so that rows can be counted")
    with watched("learning", total=3) as moved:  # steps of this command: rows are nobody's to count
        if described is not None:
            cells = described.read(None if schema is None else table, lenient=True)
            log = LoggedTable.described(described, cells, lengthscale=lengthscale, clip=clip, release=kind)
        else:
            log = _between_bounds(
                table,
                context=context,
                action=action,
                reward=reward,
                bounds=bounds,
                propensity=propensity,
                user=user,
                arms=arms,
                lengthscale=lengthscale,
                clip=clip,
            )
        moved(1, doing="rehearsing")
        log.rehearse(promise, horizon=horizon, bound=bound)  # before anything is spent
        book, paying = opened(ledger, account, budget, promise=promise)
        if book is not None and paying is None:
            raise InvalidParameter("--ledger without --account: name the account that pays")
        moved(1, doing="publishing")
        published = publish_once(
            log, out, promise, horizon=horizon, bound=bound, uniform_contexts=uniform_contexts, account=paying
        )
    if log.arms_were_read:
        error_console().print(f"Warning: {READ_ARMS} Name them with --arms.", soft_wrap=True, markup=False)
    typer.echo(published.function.guarantee.explain())
    private = folder_of_run(out.resolve()).name
    error_console().print(
        f"public policy {published.release_id[:16]} is in {out}; {private} beside it is not public: it tells "
        "a repetition of this command, which draws nothing again, from another one",
        soft_wrap=True,
        markup=False,
    )


def _between_bounds(
    table: Path,
    *,
    context: str | None,
    action: str | None,
    reward: str | None,
    bounds: str | None,
    propensity: str | None,
    user: str | None,
    arms: str | None,
    lengthscale: float,
    clip: bool,
) -> "LoggedTable":
    """A log of numbers between bounds, as the options name its columns."""
    from dpbandits.central.logged.logged_table import LogColumns, LoggedTable
    from dpbandits.tables.files import read_table_file

    if context is None or action is None or reward is None or bounds is None:
        raise InvalidParameter(
            "say what the columns are: --schema FILE.toml, or --context, --action, --reward and --bounds"
        )
    limits = [range_in(text) for text in bounds.split(",")]
    if not all(low < high for low, high in limits):
        raise InvalidParameter(f"bounds {bounds!r}: expected LOW:HIGH with LOW below HIGH")
    columns = LogColumns(
        contexts=names_in(context), action=action, reward=reward, propensity=propensity, user=user
    )
    named = None if arms is None else names_in(arms)
    words = {action: frozenset(_NO_ARM if named is None else named)}
    numeric = len(limits) > len(columns.contexts) + 1  # the action has its own bounds
    kinds = columns.kinds | ({action: float} if numeric else {})
    return LoggedTable.read(
        read_table_file(table, kinds, gaps=columns.kinds, words=words),
        columns,
        limits,
        arms=named,
        lengthscale=lengthscale,
        clip=clip,
    )


@app.command()
def predict(
    policy: Published,
    contexts: Annotated[Path, Argument(help="CSV, TSV (also .gz), Parquet or Arrow with the contexts.")],
    *,
    every: Annotated[bool, Option("--every-action", help="Mean and sd of every action, too.")] = False,
    clip: Clip = False,
) -> None:
    """Best action, its expected reward and standard deviation for every row, as CSV on standard output."""
    import numpy as np

    from dpbandits.central.logged.logged_table import PublishedTable
    from dpbandits.tables.files import read_table_file

    held = PublishedTable.load(policy)
    table = read_table_file(contexts, held.kinds, gaps=held.kinds, words=held.words)
    rows = [np.asarray(table[name]) for name in held.contexts]
    mean, sd = held.function.predict(held.context_rows(table, clip=clip))
    best, shown = held.function.best_of(mean), held.action_names
    writer = csv.writer(sys.stdout, lineterminator="\n")
    extra = [f"{part}:{name}" for name in shown for part in ("mean", "sd")] if every else []
    writer.writerow([*held.contexts, "action", "mean", "sd", *extra])
    names = _as_csv(np.array([*shown, ""], dtype=np.object_))  # the last one of rows that cannot be read
    shapes = "".join("%g," if kind is float else "%s," for kind in held.kinds.values())
    line = f"{shapes}%s{',%.6g' * (2 + len(extra))}\n"
    for start in range(0, len(mean), _LINES):
        at = slice(start, start + _LINES)
        chosen = best[at]
        places = np.arange(len(chosen)), chosen
        numbers = [mean[at][places], sd[at][places]]
        if every:
            numbers += [part for pair in zip(mean[at].T, sd[at].T, strict=True) for part in pair]
        cells = [own[at] if own.dtype.kind == "f" else _as_csv(own[at]) for own in rows]
        columns = [*cells, names[chosen], *numbers]
        written = chain.from_iterable(zip(*(column.tolist() for column in columns), strict=True))
        sys.stdout.write(line * len(chosen) % tuple(written))


def _as_csv(cells: "NDArray[Any]") -> "NDArray[Any]":
    """Cells as CSV has them."""
    import numpy as np

    found = []
    for cell in cells.tolist():
        written = io.StringIO()
        csv.writer(written, lineterminator="").writerow(["" if cell is None else str(cell), ""])
        found.append(written.getvalue()[:-1])
    return np.array(found, dtype=np.object_)


@app.command()
def evaluate(
    policy: Published,
    log: Annotated[Path, Argument(help="Randomised log of people the policy has not learned from.")],
    *,
    propensity: Propensity = None,
    cluster: Annotated[str | None, Option(help="Column whose values share a fate (family, school).")] = None,
    draws: Annotated[
        int,
        Option(
            min=2, help="Bootstrap draws. They are not used if the log has at least 1,000 effective clusters."
        ),
    ] = 1000,
    seed: Annotated[int, Option(help="Seed of the bootstrap draws.")] = 0,
    clip: Clip = False,
) -> None:
    """Value of the policy, of every constant action and of random choice, with 95% intervals."""
    import numpy as np

    from dpbandits.central.logged.logged_table import LogColumns, PublishedTable
    from dpbandits.lab.evaluation import BANNER
    from dpbandits.lab.evaluation.policy_value import policy_value
    from dpbandits.tables.files import read_table_file

    held = PublishedTable.load(policy)
    columns = LogColumns(
        contexts=held.contexts, action=held.action, reward=held.reward, propensity=propensity
    )
    kinds = columns.kinds | held.kinds | ({} if cluster is None else {cluster: str})
    if held.function.menu is not None:
        kinds[held.action] = type(held.function.menu.arms.labels[0])
    elif held.arms is None:
        kinds[held.action] = float
    table = read_table_file(log, kinds, gaps=held.gaps, words=held.words)
    contexts, given = held.context_rows(table, clip=clip), held.action_cells(table)
    count = len(held.action_names)
    chances = np.full(len(given), 1.0 / count) if propensity is None else np.asarray(table[propensity])
    known: dict[str, Any] = {
        "actions": given,
        "rewards": np.asarray(table[held.reward], dtype=float),
        "propensities": chances,
        "clusters": None if cluster is None else _numbered(cast("Coded", table[cluster])),
        "draws": draws,
        "seed": seed,
    }
    typer.echo(BANNER)
    typer.echo(f"policy: {policy_value(held.function.choose(contexts), **known)}")
    for index, label in enumerate(held.arms or []):
        if (given == index).any():
            typer.echo(f"always {label}: {policy_value(np.full(len(given), index), **known)}")
    evenly = np.broadcast_to(np.full(count, 1.0 / count), (len(given), count))
    typer.echo(f"random: {policy_value(evenly, **known)}")


def _numbered(column: "Coded") -> "NDArray[Any]":
    """Return a number for each row's text (n,); equal texts have equal numbers."""
    texts = list(map(str, column.values.tolist()))
    places = dict(zip(texts, range(len(texts)), strict=True))
    return column.spread(list(map(places.__getitem__, texts)))
