"""`learn`: publish a policy once from logged data that stays where it is.

The steps are those of `dpbandits.central.logged.once`. The order is: the run's key is written, the account is
charged, the engine adds up integer tables, noise is drawn, and the files are written. Features need two
statements, with noise drawn after each (`published_by` in `logged_table`). An engine that fails,
or a process that is killed, has released nothing after the charge. A repetition continues the same run under
the same charge. The table may have changed in between: a run makes one release, of the table as it then is,
and the charge covers one release of any table. So the table is not compared, only its address is.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace
from os import PathLike
from typing import Any

from dpbandits import _checks
from dpbandits._calls import worded
from dpbandits._typing import IntArray
from dpbandits.budget import Account
from dpbandits.central.logged.engine import statement, summed_by
from dpbandits.central.logged.logged_table import Bounds, LoggedTable, plan_of, published_by
from dpbandits.central.logged.once import Work, released_once
from dpbandits.central.logged.people import people_menu
from dpbandits.central.logged.plan import SumsPlan
from dpbandits.central.logged.policy import ReleaseName
from dpbandits.central.logged.published_table import PublishedTable
from dpbandits.central.logged.rows import digest_of_rows
from dpbandits.central.logged.source_log import SourceLog, opened_log
from dpbandits.central.marginals.statement import of_whole_table
from dpbandits.domains import Arms, RewardRange
from dpbandits.domains.arms import Label
from dpbandits.errors import InvalidParameter
from dpbandits.models.features.people import LENGTHSCALE
from dpbandits.privacy.definitions import JointDP
from dpbandits.tables import Actions, Products, Schema
from dpbandits.tables.columns import Column

__all__ = ["learn"]


@worded
def learn(
    source: object,
    *,
    contexts: Schema,
    arms: Sequence[Label] | Arms | Products | None = None,
    actions: Actions | Schema | Column | None = None,
    action: str | None = None,
    reward: str,
    reward_range: RewardRange | Bounds,
    propensity: str | None = None,
    density: str | None = None,
    user: str | None = None,
    lengthscale: float = LENGTHSCALE,
    clip: bool = False,
    release: ReleaseName | None = None,
    privacy: JointDP,
    horizon: int,
    bound: float | None = None,
    uniform_contexts: bool = False,
    directory: str | PathLike[str],
    account: Account | None = None,
    memory: int | None = None,
    threads: int | None = None,
    progress: bool = False,
) -> PublishedTable:
    """Learn a policy from a table that an engine reads, and publish it once to a folder.

    The policy is that of `publish_once` with `LoggedTable.of_people`, but no row is loaded here: an engine
    adds up integer tables. A cell that cannot be read is no error; its row counts zero. All rows count, at
    most `privacy.rounds_per_user` of each user. A table without rows is charged and published like any other,
    without a warning, which would show a private fact.

    Args:
        source: Path or glob of CSV, TSV, Parquet or Arrow files, "duckdb:///FILE?table=NAME",
            "postgresql://USER@HOST/DATABASE?table=NAME", a data frame, or an Ibis table of DuckDB, PostgreSQL
            or PySpark. A view or an Ibis expression must make each row from one person's data: unchecked.
        contexts: Public columns of a user's context.
        arms: Public labels of all arms, or `Products`.
        actions: Instead of arms, a grid of numbers or categories, with the names of its columns.
        action: Name of the column with the arm.
        reward: Name of the column with the reward.
        reward_range: Public range (low, high).
        propensity, density: Names of columns, or "uniform" for a grid; see `LoggedTable.of_people`.
        user: Name of the column with user ids; None assumes, without a check, that no user has two rows. A
            row counts zero if its id is not printable ASCII, or is a fraction, a date or a boolean.
        lengthscale, release: Lengthscale of the kernel, and kind of release; see `LoggedTable.of_people`.
        clip: True to clip rewards to their range.
        privacy: Promise; delta may be 0 for marginal tables.
        horizon: Public number of rows, for calibration. More rows than that count, too.
        bound, uniform_contexts: See `LoggedTable.publish`.
        directory: Folder for the policy; missing, empty, or written by the same run.
        account: Account that is charged before the table is read.
        memory: Most bytes that the engine holds. An Ibis table takes neither this limit nor `threads`.
        threads: Number of threads of the engine.
        progress: True to show on standard error how much of the table was read.

    Raises:
        InvalidParameter: Arguments do not fit, a column has a type or a description that no engine reads, or
            the folder belongs to another run; nothing was charged.
        InvalidData: The table lacks a column; nothing was charged.
        DataUnavailable: The table cannot be opened, or the engine failed. A repetition charges nothing more.
        BudgetExceeded, StateError, ForkedState: As for `publish_once`.
        MissingExtra: The engine is not installed.
    """
    span = RewardRange.of(reward_range)
    menu = people_menu(contexts, arms=arms, actions=actions, reward_range=span)
    if menu is None:
        raise InvalidParameter("contexts: expected Schema(age=Range(18, 90)), beside arms= or actions=")
    _checks.an(privacy, JointDP, name="privacy", pass_="privacy=JointDP(epsilon=1, delta=1e-6)")
    roles: dict[str, Any] = {
        "action": action,
        "reward": reward,
        "reward_range": span,
        "propensity": propensity,
        "density": density,
        "user": user,
        "clip": clip,
    }
    with opened_log(
        source,
        menu,
        **roles,
        memory=memory,
        threads=threads,
        progress=progress,
    ) as log:
        told = LoggedTable.of_people(  # its settings are used, and not its row
            {name: [None] for name in log.columns.kinds},
            contexts=contexts,
            arms=arms,
            actions=actions,
            **roles,
            lengthscale=lengthscale,
            release=release,
        )
        told.covered(privacy, uniform_contexts=uniform_contexts)
        options = {"horizon": horizon, "bound": bound, "uniform_contexts": uniform_contexts}
        return _published(log, told, directory, privacy, options, account=account)


def _published(
    log: SourceLog,
    told: LoggedTable,
    directory: str | PathLike[str],
    privacy: JointDP,
    options: dict[str, Any],
    *,
    account: Account | None,
) -> PublishedTable:
    """Publish once.

    Args:
        log: Log in an engine.
        told: Settings of the log.
        options: Further arguments of `LoggedTable.cost`.
        directory, privacy, account: See `learn`.
    """
    menu, columns, uniform = log.menu, log.columns, options["uniform_contexts"]
    # Warnings and errors come before any charge.
    policy = told.policy(privacy, horizon=options["horizon"], bound=options["bound"])
    plan, rules = plan_of(policy), replace(policy.unsafe_rules, menu=menu)
    statement(log.source, plan, rules, columns, clip=log.clip, key=bytes(1))
    public: dict[str, Any] = {
        "config": policy.to_config(),
        "columns": asdict(columns),
        "people": [menu.contexts.to_config(), menu.arms.to_config()],
        "uniform_contexts": uniform,
        "clip": log.clip,
        "table": log.address,
        "account": None if account is None else account.name,
    }

    def draw(key: bytes) -> PublishedTable:
        def summed(plan: SumsPlan) -> IntArray:
            return summed_by(log.source, plan, rules, columns, clip=log.clip, key=key, progress=log.progress)

        function = published_by(policy, summed, uniform_contexts=uniform)
        stated = of_whole_table(function.guarantee, rows=plan.rows_per_user, engine=True)
        return told.named(function.under(stated))

    work = Work(
        purpose="learn",
        fingerprint=lambda key: digest_of_rows(key, public, {}),
        cost=lambda: told.cost(privacy, **options),
        draw=draw,
        load=PublishedTable.load,
        witnessed=lambda table, change: replace(
            table, function=table.function.under(change(table.function.guarantee))
        ),
    )
    return released_once(work, directory, account=account)
