"""`dpbandits central learn`, `predict` and `evaluate`: policies learned from logged bandit data.

`learn` reads the private table and publishes a policy once. `predict` needs the published folder only.
`evaluate` estimates the policy's value on another log with known propensities (off-policy evaluation). With
`--private` it releases the value once, under a promise of its own.
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
from dpbandits.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dpbandits.central.logged.logged_table import LoggedTable
    from dpbandits.central.logged.published_table import PublishedTable
    from dpbandits.central.published_function import PublishedPosterior
    from dpbandits.privacy.definitions import JointDP
    from dpbandits.tables import Actions
    from dpbandits.tables.coded import Coded

__all__ = ["app", "evaluate", "learn", "predict"]

ARMS_WERE_READ = (
    "The list of arms was read from the table and is published. The promise holds only if this list is "
    "public anyway: name the arms with --arms."
)

app = typer.Typer(
    help="Trusted server: learn a policy from logged data, and publish it once.", no_args_is_help=True
)

Propensity = Annotated[
    str | None,
    Option(
        help="Column with the propensity: the probability with which the logged action was chosen. Without "
        "it, actions were chosen uniformly at random."
    ),
]
Memory = Annotated[float | None, Option(min=0.1, help="With --table: most memory of the engine, in GB.")]
Threads = Annotated[int | None, Option(min=1, help="With --table: threads of the engine.")]
_NO_ARM = ("none", "None", "NONE")
"""Texts in the action column that mean no arm, if the arms are read from the table."""

LINES = 1 << 16
"""Number of lines that `predict` formats and writes at a time."""

Published = Annotated[Path, Argument(help="Folder written by `central learn`.")]


@app.command()
def learn(
    table: Annotated[
        Path,
        Argument(
            help="Table with one row for each decision: CSV, TSV (also .gz), Parquet or Arrow. Or a TOML "
            "file that names and describes such a table."
        ),
    ],
    *,
    where: Annotated[
        str | None,
        Option(
            "--table",
            help="Table that the TOML file describes, read where it is: a path or glob of files, or "
            "duckdb:///FILE?table=NAME, or postgresql://USER@HOST/DATABASE?table=NAME. Its rows are not "
            "loaded. Keep a password out of the address: set PGPASSWORD.",
        ),
    ] = None,
    memory: Memory = None,
    threads: Threads = None,
    schema: Annotated[
        Path | None,
        Option(
            help="TOML file that describes the table, instead of --context, --action, --reward, --bounds. "
            "Required if the policy is to choose numbers; see its section actions."
        ),
    ] = None,
    context: Annotated[str | None, Option(help="Names of the context columns, as a,b,c.")] = None,
    action: Annotated[
        str | None,
        Option(help="Name of the action column: arms (integers or text), or a number if it has bounds."),
    ] = None,
    reward: Annotated[str | None, Option(help="Name of the reward column.")] = None,
    bounds: Annotated[
        str | None,
        Option(
            help="Public bounds as LOW:HIGH,LOW:HIGH,... in the order context columns, action (only if it is "
            "a number), reward."
        ),
    ] = None,
    epsilon: Annotated[
        float | None,
        Option(
            help="Total privacy loss, above 0; includes the release of the distribution of contexts. "
            "Default: the TOML file's."
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        Option(
            min=1,
            help="Public number of rows, chosen without counting those of the table. Calibration depends on "
            "it. Rows beyond it count, too. Default: the TOML file's.",
        ),
    ] = None,
    out: Annotated[Path, Option(help="Folder for the public policy.")],
    propensity: Propensity = None,
    user: Annotated[
        str | None, Option(help="Name of the column that identifies the user of each row.")
    ] = None,
    one_row_per_user: Annotated[
        bool, Option("--one-row-per-user", help="Declare that no user has two rows. This is not checked.")
    ] = False,
    rows_per_user: Annotated[
        int | None,
        Option(
            min=1,
            help="Contribution bound: most rows of a user that count. The guarantee covers all of them. "
            "Default: 1.",
        ),
    ] = None,
    delta: Annotated[
        float | None,
        Option(
            help="Probability with which the epsilon bound may fail, in [0, 1); 0 only with --release "
            "marginals. Default: the TOML file's, else 1e-6."
        ),
    ] = None,
    arms: Annotated[
        str | None,
        Option(
            help="Public list of arms, as a,b,c. Without it the list is read from the table and published "
            "without protection: a single row with a rare arm changes it. The guarantee says so."
        ),
    ] = None,
    uniform_contexts: Annotated[
        bool,
        Option(
            "--uniform-contexts",
            help="Assume uniformly distributed contexts and spend no privacy on their distribution. Not used "
            "with --release marginals.",
        ),
    ] = False,
    bound: Annotated[
        float | None,
        Option(
            help="Clipping bound, in reward units: inverse-propensity-weighted distances of rewards from the "
            "middle of their range are clipped to it. Default: chosen from public numbers."
        ),
    ] = None,
    lengthscale: Annotated[float, Option(help="Lengthscale of the kernel, as a share of each range.")] = 0.3,
    release: Annotated[
        str | None,
        Option(
            help="Statistics that are released for a table described by a TOML file: features (smooth "
            "functions of few columns; delta above 0) or marginals (tables of few columns). Default: "
            "marginals."
        ),
    ] = None,
    clip: Clip = False,
    ledger: LedgerFile = None,
    account: Account = None,
    budget: Budget = None,
) -> None:
    """Learn a policy privately from logged bandit data, publish it once, and print the guarantee."""
    from dpbandits._checks import one_of
    from dpbandits.central.logged.logged_table import LoggedTable
    from dpbandits.central.logged.once import publish_once
    from dpbandits.central.logged.policy import ReleaseName
    from dpbandits.privacy.definitions import JointDP
    from dpbandits.tables.described import DescribedTable, LoggedArm

    if ledger is not None and account is None:
        raise InvalidParameter("--ledger needs --account: name the account to charge")
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
        raise InvalidParameter("--horizon is missing: pass a public upper bound on the number of rows")
    promise = JointDP(
        epsilon=given_or(epsilon, public.get("epsilon"), "--epsilon"),
        delta=given_or(delta, public.get("delta", 1e-6), "--delta"),
        rounds_per_user=1 if rows_per_user is None else rows_per_user,
    )
    if not promise.delta > 0.0 and (described is None or release == "features"):
        raise InvalidParameter("delta is 0, and a release of features needs delta above 0: pass --delta 1e-6")
    kind: Any = None if release is None else one_of(release, get_args(ReleaseName), name="release")
    if described is None:
        if kind == "marginals":
            raise InvalidParameter("--release marginals needs a TOML file that describes columns and arms")
        if (user is None) == (not one_row_per_user):
            raise InvalidParameter(
                "say which user each row belongs to: pass either --user COLUMN or --one-row-per-user"
            )
        if one_row_per_user and promise.rounds_per_user != 1:
            raise InvalidParameter("--rows-per-user needs --user COLUMN: rows are counted by user")
    if where is None and not (memory is None and threads is None):
        raise InvalidParameter("--memory and --threads are for --table")
    if where is not None:
        from dpbandits.central.logged.learning import learn as learn_where_it_is

        if described is None or not isinstance(described.outcome, LoggedArm) or schema is not None:
            raise InvalidParameter("--table needs a TOML file with the section [log] as its argument")
        _, paying = opened(ledger, account, budget, promise=promise)
        outcome = described.outcome
        _say(
            learn_where_it_is(
                where,
                contexts=described.schema,
                arms=None if outcome.actions is not None else outcome.arms,
                actions=outcome.actions,
                action=outcome.arm,
                reward=outcome.reward,
                reward_range=outcome.reward_range or (0, 1),
                propensity=outcome.propensity,
                density=outcome.density,
                user=described.user,
                lengthscale=lengthscale,
                clip=clip,
                release=kind,
                privacy=promise,
                horizon=horizon,
                bound=bound,
                uniform_contexts=uniform_contexts,
                directory=out,
                account=paying,
                **_limits(memory, threads),
            ),
            out,
        )
        return
    # Progress counts the command's steps: progress by rows would show the private number of rows.
    with watched("learning", total=3) as moved:
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
        log.rehearse(promise, horizon=horizon, bound=bound)  # finds errors before privacy is spent
        book, paying = opened(ledger, account, budget, promise=promise)
        if book is not None and paying is None:
            raise InvalidParameter("--ledger needs --account: name the account to charge")
        moved(1, doing="publishing")
        published = publish_once(
            log, out, promise, horizon=horizon, bound=bound, uniform_contexts=uniform_contexts, account=paying
        )
    if log.arms_were_read:
        error_console().print(f"Warning: {ARMS_WERE_READ}", soft_wrap=True, markup=False)
    _say(published, out)


def _limits(memory: float | None, threads: int | None) -> dict[str, Any]:
    return {
        "memory": None if memory is None else int(memory * 1e9),
        "threads": threads,
        "progress": True,
    }


def _say(published: "PublishedTable", out: Path) -> None:
    from dpbandits.central.logged.once import folder_of_run

    typer.echo(published.function.guarantee.explain())
    if known := getattr(published.function, "few_rows", None):
        typer.echo(
            f"{known['recommended_with_few_rows']:.1%} of users are recommended numbers that the log hardly "
            f"has: the weights of rows with numbers near them add up to less than {known['few_rows']:.0f}. "
            "Predictions there are extrapolated. Both figures come from the release."
        )
    private = folder_of_run(out.resolve()).name
    error_console().print(
        f"public policy {published.release_id[:16]} is in {out}. Keep {private} beside it private: with it "
        "the same command, repeated, draws no new noise",
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
    from dpbandits.central.logged.logged_table import LogColumns, LoggedTable
    from dpbandits.tables.files import read_table_file

    if context is None or action is None or reward is None or bounds is None:
        raise InvalidParameter(
            "the columns are not described: pass --schema FILE.toml, or --context, --action, --reward and "
            "--bounds"
        )
    limits = [range_in(text) for text in bounds.split(",")]
    if not all(low < high for low, high in limits):
        raise InvalidParameter(f"bounds {bounds!r}: expected LOW:HIGH with LOW below HIGH")
    columns = LogColumns(
        contexts=names_in(context), action=action, reward=reward, propensity=propensity, user=user
    )
    named = None if arms is None else names_in(arms)
    words = {action: frozenset(_NO_ARM if named is None else named)}
    numeric = len(limits) > len(columns.contexts) + 1  # bounds for the action: it is a number, not an arm
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
    contexts: Annotated[str, Argument(help=f"Table with the context columns: {TABLES}.")],
    *,
    every: Annotated[
        bool,
        Option("--every-action", help="Print expected reward and standard deviation of all actions too."),
    ] = False,
    clip: Clip = False,
) -> None:
    """Print each row's best action as CSV, with its expected reward and standard deviation."""
    import numpy as np

    from dpbandits.central.logged.published_table import PublishedTable
    from dpbandits.tables.files import read_table_file

    held = PublishedTable.load(policy)
    table = read_table_file(contexts, held.kinds, gaps=held.kinds, words=held.words)
    rows = [np.asarray(table[name]) for name in held.contexts]
    shown, grid, outcomes = held.action_names, held.grid, None
    writer = csv.writer(sys.stdout, lineterminator="\n")
    extra = [f"{part}:{name}" for name in shown for part in ("mean", "sd")] if every else []
    if grid is None:
        names, header = _as_csv(np.array([*shown, ""], dtype=np.object_)), ["action", "mean", "sd"]
    else:
        names, header = _choices(grid), [*held.action_kinds, "mean", "sd", "value"]
        outcomes = cast("PublishedPosterior", held.function).reward_range
    shapes = "".join("%g," if kind is float else "%s," for kind in held.kinds.values())
    line = f"{shapes}%s{',%.6g' * (2 + (grid is not None) + len(extra))}\n"
    count = max(1, len(rows[0]))
    # Without a menu a whole table may be refused, before the first line is written.
    size = count if held.function.menu is None else LINES
    for start in range(0, count, size):
        at = slice(start, start + size)
        people = held.context_rows({name: table[name][at] for name in held.contexts}, clip=clip)
        mean, sd = held.function.predict(people)
        chosen = held.function.best_of(mean) if grid is None else np.asarray(held.function.choose(people))
        if not start:
            writer.writerow([*held.contexts, *header, *extra])
        places = np.arange(len(chosen)), chosen  # -1, the empty name, for a row that cannot be read
        numbers = [mean[places], sd[places]]
        if grid is not None and outcomes is not None:
            readable = np.isfinite(mean).all(axis=1)
            values = np.full(mean.shape, np.nan)
            values[readable] = grid.ranked(mean[readable], outcomes)
            numbers.append(values[places])
        if every:
            numbers += [part for pair in zip(mean.T, sd.T, strict=True) for part in pair]
        cells = [own[at] if own.dtype.kind == "f" else _as_csv(own[at]) for own in rows]
        columns = [*cells, names[chosen], *numbers]
        written = chain.from_iterable(zip(*(column.tolist() for column in columns), strict=True))
        sys.stdout.write(line * len(chosen) % tuple(written))


def _choices(grid: "Actions") -> "NDArray[Any]":
    import numpy as np

    rows = grid.choices if len(grid.sizes) > 1 else [{"": value} for value in grid.choices]
    cells = [[f"{value:g}" if isinstance(value, float) else value for value in row.values()] for row in rows]
    columns = [_as_csv(np.array([*own, None], dtype=np.object_)) for own in zip(*cells, strict=True)]
    return np.array([",".join(own) for own in zip(*columns, strict=True)], dtype=np.object_)


def _as_csv(cells: "NDArray[Any]") -> "NDArray[Any]":
    """Return cells as CSV text, quoted where needed; None is empty."""
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
    log: Annotated[
        str | None,
        Argument(help=f"Logged bandit data of users from whom the policy has not learned: {TABLES}."),
    ] = None,
    *,
    where: Annotated[
        str | None,
        Option(
            "--table",
            help="With --private: instead of LOG, a table that is read where it is, as for `central learn "
            "--table`. Its rows are not loaded.",
        ),
    ] = None,
    memory: Memory = None,
    threads: Threads = None,
    propensity: Propensity = None,
    density: Annotated[
        str | None,
        Option(
            help="Column with the density of the logged number, if the policy chooses numbers: per unit of "
            'every range, and a probability for other columns. "uniform" if numbers were drawn evenly. Or '
            'pass --propensity: a column with the chance of the logged step, or "uniform".'
        ),
    ] = None,
    cluster: Annotated[
        str | None,
        Option(help="Column of clusters (families, schools), within which rewards may be dependent."),
    ] = None,
    draws: Annotated[
        int,
        Option(
            min=2,
            help="Number of bootstrap samples. They are not used if the log has at least 1,000 effective "
            "clusters.",
        ),
    ] = 1000,
    seed: Annotated[int, Option(help="Seed of the bootstrap.")] = 0,
    clip: Clip = False,
    private: Annotated[
        bool,
        Option(
            "--private",
            help="Release the policy's value, that of --against and their difference under differential "
            "privacy, to a folder. The next options are for --private only.",
        ),
    ] = False,
    epsilon: Annotated[float | None, Option(help="Privacy loss of the release, above 0.")] = None,
    delta: Annotated[float, Option(help="Probability with which the epsilon bound may fail.")] = 1e-6,
    against: Annotated[str | None, Option(help="Arm with which the policy is compared.")] = None,
    out: Annotated[Path | None, Option(help="Folder for the released values.")] = None,
    user: Annotated[
        str | None, Option(help="Name of the column that identifies the user of each row.")
    ] = None,
    one_row_per_user: Annotated[
        bool, Option("--one-row-per-user", help="Declare that no user has two rows. This is not checked.")
    ] = False,
    rows_per_user: Annotated[
        int, Option(min=1, help="Number of each user's rows that count, chosen by a secret.")
    ] = 1,
    method: Annotated[str, Option(help="Estimator: doubly_robust or ips.")] = "doubly_robust",
    largest_weight: Annotated[
        float | None,
        Option(
            help="Public bound of inverse propensities. Larger ones are cut, which hides what rare arms "
            "earn. Noise is in proportion to it. Default: number of arms, or twice that with --propensity."
        ),
    ] = None,
    reward_range: Annotated[
        str | None, Option(help="Public range of rewards, LOW:HIGH. Default: the policy's, if it has one.")
    ] = None,
    gaussian: Annotated[
        bool,
        Option(
            "--gaussian",
            help="Gaussian noise, which uses less of an account that pays for several releases. Default: the "
            "noise with the smaller deviation.",
        ),
    ] = False,
    ledger: LedgerFile = None,
    account: Account = None,
    budget: Budget = None,
) -> None:
    """Estimate the value of the policy, of each constant action and of random choice, with 95% intervals.

    For a policy that chooses numbers, the value of each logged outcome is averaged. With --density, a number
    between steps counts as the nearer step. The log is not protected: the printed values are no release.

    With --private the log is protected, for policies that choose arms. The log should be of users from whom
    the policy has not learned. Otherwise the promises of both releases add up, and the value is too high.
    """
    import numpy as np

    from dpbandits.central.logged.logged_table import LogColumns
    from dpbandits.central.logged.published_table import PublishedTable
    from dpbandits.lab.evaluation import BANNER
    from dpbandits.lab.evaluation.policy_value import policy_value
    from dpbandits.privacy.definitions import JointDP
    from dpbandits.tables.files import read_table_file

    held = PublishedTable.load(policy)
    if (log is None) == (where is None):
        raise InvalidParameter("pass either LOG or --table ADDRESS")
    if (memory is not None or threads is not None) and where is None:
        raise InvalidParameter("--memory and --threads are for --table")
    if private:
        if density is not None or cluster is not None:
            raise InvalidParameter("--private: pass no --density and no --cluster")
        if epsilon is None or against is None or out is None:
            raise InvalidParameter("--private needs --epsilon, --against ARM and --out FOLDER")
        if (user is None) == (not one_row_per_user):
            raise InvalidParameter(
                "say which user each row belongs to: pass either --user COLUMN or --one-row-per-user"
            )
        promise = JointDP(epsilon, delta, rounds_per_user=rows_per_user, user_ids=user is not None)
        span = (
            getattr(held.function, "reward_range", None) if reward_range is None else range_in(reward_range)
        )
        if held.function.menu is None or held.action is None:
            raise InvalidParameter(
                "--private is for policies that choose arms, learned from a table that a TOML file describes"
            )
        if span is None:
            raise InvalidParameter("the policy has no reward range: pass --reward-range LOW:HIGH")
        roles: dict[str, Any] = {"propensity": propensity, "user": user, "reward_range": span, "clip": clip}
        _evaluate_privately(
            held,
            where if log is None else _readable_log(held, log, **roles),
            {} if log is not None else roles | _limits(memory, threads),
            out,
            promise,
            against=against,
            method=method,
            largest_weight=largest_weight,
            gaussian=gaussian,
            paying=(ledger, account, budget),
        )
        return
    if log is None:
        raise InvalidParameter("--table is for --private: pass it too")
    if epsilon is not None or against is not None or out is not None or ledger is not None:
        raise InvalidParameter("--epsilon, --against, --out and --ledger are for --private: pass it too")
    grid = held.grid
    one = (propensity is None) != (density is None)
    if density is not None if grid is None else not one:
        raise InvalidParameter(
            "a policy that chooses numbers needs either --density COLUMN or --propensity COLUMN, or "
            '"uniform" in place of the column; --density is for no other policy'
        )
    weight = propensity if density is None else density
    weight = None if grid is not None and weight == "uniform" else weight
    columns = LogColumns(
        contexts=held.contexts,
        action=held.action,
        reward=held.reward,
        propensity=weight,
        actions=() if grid is None else grid.schema.names,
    )
    kinds = columns.kinds | held.kinds | held.action_kinds | ({} if cluster is None else {cluster: str})
    table = read_table_file(log, kinds, gaps=held.gaps, words=held.words)
    contexts, given = (
        held.context_rows(table, clip=clip),
        held.action_cells(table, between=density is not None),
    )
    count = len(held.action_names)
    rewards = np.asarray(table[held.reward], dtype=float)
    chances = np.full(len(given), 1.0 / count) if weight is None else np.asarray(table[weight], dtype=float)
    most = 1.0 if density is None else np.finfo(float).max
    if not ((chances > 0.0) & (chances <= most)).all():
        known_as = "chances in (0, 1]" if density is None else "finite densities above 0"
        raise InvalidData(f"the log has cells in the column {weight!r} that are not {known_as}")
    if grid is not None:
        rewards = grid.value_of(given, rewards)
        if density is not None:
            # Only ratios of chances matter, as estimates are self-normalised: the largest becomes one.
            chances = (grid.even_density if weight is None else chances) * grid.lengths[given]
            chances = chances / max(1.0, float(chances.max(initial=0.0)))
    known: dict[str, Any] = {
        "actions": given,
        "rewards": rewards,
        "propensities": chances,
        "clusters": None if cluster is None else _numbered(cast("Coded", table[cluster])),
        "draws": draws,
        "seed": seed,
    }
    chosen = np.asarray(held.function.choose(contexts))
    if (chosen < 0).any():
        menu = held.function.menu
        named = held.contexts if menu is None else menu.check(contexts).refused(menu.contexts.columns)
        raise InvalidData(
            f"the log has rows whose context cannot be read, in the columns {list(named)}: leave "
            "these rows out"
        )
    typer.echo(BANNER)
    typer.echo(f"policy: {policy_value(chosen, **known)}")
    for index, label in enumerate(held.arms or []):
        if (given == index).any():
            typer.echo(f"always {label}: {policy_value(np.full(len(given), index), **known)}")
    evenly = np.broadcast_to(np.full(count, 1.0 / count), (len(given), count))
    typer.echo(f"random: {policy_value(evenly, **known)}")


def _readable_log(
    held: "PublishedTable",
    path: str,
    *,
    propensity: str | None,
    user: str | None,
    reward_range: Any,
    clip: bool,
) -> "LoggedTable":
    """Return the log with the policy's columns; cells that cannot be read are no errors."""
    from dpbandits.central.logged.logged_table import LogColumns, LoggedTable
    from dpbandits.tables.files import read_table_file

    menu, action = held.function.menu, held.action
    if menu is None or action is None:  # `evaluate` has raised; for type checkers
        raise InvalidParameter("expected a policy that chooses arms")
    columns = LogColumns(
        contexts=held.contexts, action=action, reward=held.reward, propensity=propensity, user=user
    )
    kinds = columns.kinds | held.kinds | held.action_kinds
    return LoggedTable.of_people(
        read_table_file(path, kinds, gaps=kinds, words=held.words),
        contexts=menu.contexts,
        arms=menu.arms.labels,
        action=action,
        reward=held.reward,
        reward_range=reward_range,
        propensity=propensity,
        user=user,
        clip=clip,
    )


def _evaluate_privately(
    held: "PublishedTable",
    log: "LoggedTable | str | None",
    where: dict[str, Any],
    out: Path,
    promise: "JointDP",
    *,
    against: str,
    method: str,
    largest_weight: float | None,
    gaussian: bool,
    paying: tuple[Path | None, str | None, str | None],
) -> None:
    from dpbandits.central.logged.evaluation import Evaluation
    from dpbandits.central.logged.logged_table import LoggedTable
    from dpbandits.central.logged.once import evaluate as evaluate_once
    from dpbandits.central.logged.once import folder_of_run

    if paying[0] is not None and paying[1] is None:
        raise InvalidParameter("--ledger needs --account: name the account to charge")
    names = dict(zip(held.action_names, held.function.arms, strict=True))
    if against not in names:
        raise InvalidParameter("--against: expected one of the policy's arms")
    arguments: dict[str, Any] = {
        "against": names[against],
        "method": method,
        "largest_weight": largest_weight,
        "law": "gaussian" if gaussian else None,
    }
    if isinstance(log, LoggedTable):  # before it is paid
        Evaluation(policies={"policy": held.function}, log=log, privacy=promise, **arguments)
    _, account = opened(*paying, promise=promise)
    values = evaluate_once(held, log, out, promise, account=account, **arguments | where)
    typer.echo(str(values))
    typer.echo(f"\n{values.guarantee.explain()}")
    private = folder_of_run(out.resolve()).name
    error_console().print(
        f"the released values are in {out}. Keep {private} beside it private: with it the same command, "
        "repeated, draws no new noise",
        soft_wrap=True,
        markup=False,
    )


def _numbered(column: "Coded") -> "NDArray[Any]":
    """Return a number for each row's text (n,); equal texts have equal numbers."""
    texts = list(map(str, column.values.tolist()))
    places = dict(zip(texts, range(len(texts)), strict=True))
    return column.spread(list(map(places.__getitem__, texts)))
