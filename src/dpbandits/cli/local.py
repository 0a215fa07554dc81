"""`dpbandits local simulate` and `aggregate`: local privacy, where clients decide and add noise."""

import csv
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from dpbandits._progress import watched
from dpbandits.cli.console import console, new_file, new_folder, numbers_table, print_json
from dpbandits.cli.options import AsJson, Force
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits.lab.evaluation.crowds import SimulationResult
    from dpbandits.lab.evaluation.transfer_crowds import SimulatedSource
    from dpbandits.lab.worlds import TableBandit
    from dpbandits.lab.worlds.contextual import PeopleWorld, World
    from dpbandits.local.contract.spec import Spec

__all__ = ["app"]

app = typer.Typer(
    help="Local privacy: every user decides and adds noise on their own device.", no_args_is_help=True
)


Learner = Literal["questions", "smooth", "tree", "eliminate", "ma2025", "ma2025-printed"]
"""Names of the server's learning rules."""

Mechanism = Literal["auto", "signed", "laplace", "oue", "hadamard", "krr"]
"""Names of the local randomisers of a report."""

# `ma2025` and elimination change the policy rarely: 100 versions lose nothing and take a tenth of the time
_VERSIONS_OF_SLOW_RULES = 100

_FILES = ("regret.csv", "regret.png", "bins.png")

_BANNER = "Simulated noise and known mean rewards: an evaluation, not a release."


@app.command("simulate")
def simulate_command(
    data: Annotated[
        str | None,
        Option(help="Table of users: cps-income, synthetic-income, or a .toml file that describes one."),
    ] = None,
    users: Annotated[
        int | None,
        Option(
            min=1,
            help="Number of users; each sends one report. Default: all users of --data, or the horizon of "
            "its .toml file.",
        ),
    ] = None,
    epsilon: Annotated[
        float | None, Option(help="Privacy loss of a report, in (0, 16]. Default: the .toml file's.")
    ] = None,
    dim: Annotated[
        int | None, Option(min=1, max=1000, help="Number of context columns. Default: the world's.")
    ] = None,
    arms: Annotated[int | None, Option(min=1, max=1000, help="Number of arms. Default: the world's.")] = None,
    world_name: Annotated[
        str | None,
        Option(
            "--world",
            help="Simulated world, instead of --data: a key of dpbandits.lab.worlds.contextual.WORLDS, or ma "
            "(the default), which takes any --dim and --arms.",
        ),
    ] = None,
    learner: Annotated[
        Learner | None,
        Option(
            help="Learning rule of the server. Default: questions; smooth for many columns and arms. ma2025 "
            "and ma2025-printed are the published algorithm."
        ),
    ] = None,
    mechanism: Annotated[
        Mechanism,
        Option(
            help="Local randomiser of the reports. auto takes the one of signed and krr with the smaller "
            "variance. The ma2025 learners have their own."
        ),
    ] = "auto",
    source: Annotated[
        list[str] | None,
        Option(
            help="Auxiliary data to learn from, as N,EPSILON,GAMMA,KAPPA[,BEHAVIOUR]. N: number of users. "
            "EPSILON: privacy loss of their reports. GAMMA: exponent of their context density. KAPPA: number "
            "of arms times the smallest probability of an arm. BEHAVIOUR: even (default), avoid-best or "
            "prefer-best. Repeatable."
        ),
    ] = None,
    reps: Annotated[int, Option(min=1, help="Number of independent repetitions.")] = 1,
    seed: Annotated[int, Option(min=0, help="First seed; repetition r uses seed + r.")] = 1_000_000,
    out: Annotated[Path | None, Option(help="Folder for curves (CSV) and pictures (PNG).")] = None,
    *,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a locally private bandit and print its average regret per user."""
    import numpy as np

    from dpbandits.lab.evaluation.summary import Estimate
    from dpbandits.lab.evaluation.transfer_crowds import simulate_transfer
    from dpbandits.local.contract.sources import LEARN_FROM_SOURCES
    from dpbandits.local.contract.spec import PUBLISHED, Spec, SpecTuning
    from dpbandits.privacy.definitions import LocalDP

    if out is not None:
        new_folder(out, "--out", holding=_FILES, force=force)
    if data is not None and world_name is not None:
        raise InvalidParameter("--data and --world were both given: leave one out")
    crowd = _made_up(world_name or "ma", dim, arms) if data is None else _table(data)
    one, users, epsilon = crowd.world, users or crowd.users, crowd.epsilon if epsilon is None else epsilon
    if (dim or one.dim, arms or one.n_arms) != (one.dim, one.n_arms):
        raise InvalidParameter(
            f"{crowd.name!r} has {one.dim} columns and {one.n_arms} arms, which cannot be changed: leave out "
            "--dim and --arms"
        )
    if users is None or epsilon is None:
        lacks = "--users" if users is None else "--epsilon"
        raise InvalidParameter(f"{lacks} is missing: pass it, or --data with a .toml file that sets it")
    sources = [_source(text, one) for text in source or ()]
    learner = learner or ("questions" if sources else None)
    if sources and learner not in (*LEARN_FROM_SOURCES, *PUBLISHED):
        learners = "questions, tree, ma2025 and ma2025-printed"
        raise InvalidParameter(f"source: only the learners {learners} learn from sources")
    published = learner in PUBLISHED
    slow = learner not in (None, "questions", "smooth", "tree")
    spec = Spec(
        **crowd.people,
        privacy=LocalDP(epsilon=epsilon),
        chooser="client" if published else "server",
        learner=learner,  # type: ignore[arg-type]  # None: the spec decides
        n_users=users,
        tuning=SpecTuning(
            mechanism="paper-laplace" if published else mechanism,
            reports_per_version=max(100, users // _VERSIONS_OF_SLOW_RULES) if slow else 100,
        ),
    )
    snapshots = tuple(int(users * share) for share in (0.02, 0.1, 0.3, 0.95)) if out else ()
    once = partial(
        simulate_transfer, spec, crowd.table or one, sources=sources, n_users=users, floating=published
    )
    results: list[SimulationResult] = []
    with watched("crowds", total=reps) as moved:
        for rep in range(reps):
            results.append(once(seed=seed + rep, snapshots=snapshots if rep == 0 else ()))
            moved()
    regret = Estimate.of([result.average_regret for result in results])
    reward = Estimate.of([result.average_reward for result in results])
    bins = float(np.mean([result.bins for result in results]))
    anomaly = Estimate.of([result.anomaly for result in results])
    title = f"{crowd.name}, epsilon = {epsilon:g}, {spec.learner}"
    files = [] if out is None else _write(out, spec, results, title=title)
    if as_json:
        values = {
            "average_regret": regret.mean,
            "stderr": regret.standard_error if reps > 1 else None,
            "reps": reps,
            "average_reward": reward.mean,
            "reward_stderr": reward.standard_error if reps > 1 else None,
            "bins": bins,
            "anomaly": anomaly.mean,
            "users": users,
            "dim": spec.dim,
            "arms": spec.n_arms,
            "epsilon": epsilon,
            "world": crowd.name,
            "references": crowd.references,
            "learner": spec.learner,
            "mechanism": "floating-laplace" if published else mechanism,
            "sources": list(source or ()),
            "seed": seed,
            "status": "simulated",
            "files": [str(file) for file in files],
        }
        print_json(values)
        return
    title = f"{crowd.name}: {users:,} users, epsilon = {epsilon:g}"
    table = numbers_table("", "mean", "standard error", title=title, caption=_BANNER)
    for label, value in (("average regret", regret), ("average reward", reward)):
        error = f"{value.standard_error:.4f}" if reps > 1 else "one run"
        table.add_row(label, f"{value.mean:.4f}", error)
    table.add_row("cells of the grid" if spec.protocol.asks else "bins at the end", f"{bins:g}", "")
    error = f"{anomaly.standard_error:.2f}" if reps > 1 else "one run"
    table.add_row("anomaly of the reports", f"{anomaly.mean:.2f}", error)
    for label, mean in crowd.references.items():
        table.add_row(f"reward of {label}", f"{mean:.4f}", "all rows")
    console().print(table)
    for file in files:
        typer.echo(f"wrote {file}")


@dataclass(frozen=True, kw_only=True)
class _Crowd:
    name: str
    world: "World | PeopleWorld"
    people: dict[str, Any]  # arguments of `Spec` that describe contexts, arms and rewards
    table: "TableBandit | None" = None
    users: int | None = None
    epsilon: float | None = None
    references: dict[str, float] = field(default_factory=dict)  # mean rewards of simple rules on the table


def _made_up(name: str, dim: int | None, arms: int | None) -> _Crowd:
    from dpbandits.domains import Box
    from dpbandits.lab.worlds.contextual import ma2025, world

    one = ma2025(n_arms=arms or 3, dim=dim or 2) if name == "ma" else world(name)
    cube = Box(low=[0.0] * one.dim, high=[1.0] * one.dim)
    return _Crowd(name=name, world=one, people={"contexts": cube, "arms": range(one.n_arms)})


def _table(data: str) -> _Crowd:
    import numpy as np

    from dpbandits.lab.evaluation.crowds import people_of
    from dpbandits.lab.worlds import available, load, table_from_toml
    from dpbandits.tables.described import DescribedTable

    file, horizon, epsilon = Path(data), None, None
    if file.suffix == ".toml":
        described = DescribedTable.from_toml(file)
        horizon, epsilon = described.horizon, described.privacy.get("epsilon")
        table = table_from_toml(file, seed=0, lenient=True)
    elif data in available():
        table = load(data, seed=0)
    else:
        raise InvalidParameter(f"--data: expected {', '.join(available())} or a .toml file")
    one, best = people_of(table), table.best_constant_arm()
    return _Crowd(
        name=table.name,
        world=one,
        people={"contexts": table.schema, "arms": table.arms.labels, "reward_range": table.reward_range},
        table=table,
        users=min(horizon or len(one.columns), len(one.columns)),
        epsilon=epsilon,
        references={
            "random arms": float(np.nanmean(table.reward_table)),
            f"always {best.name!r}": best.mean_reward,
        },
    )


@app.command("aggregate")
def aggregate_command(
    reports: Annotated[
        list[Path], Argument(help="Files with the clients' reports.", exists=True, dir_okay=False)
    ],
    spec: Annotated[Path, Option(help="JSON file of the spec.", exists=True, dir_okay=False)],
    published: Annotated[
        Path,
        Option(help="File with the published versions, one JSON object a line.", exists=True, dir_okay=False),
    ],
    cluster: Annotated[
        str | None,
        Option(help="Dask scheduler: tcp://HOST:PORT, or local:WORKERS. Default: count in this process."),
    ] = None,
    without: Annotated[
        list[Path] | None,
        Option(help="Earlier file of counts, whose reports are not counted again. Repeatable.", exists=True),
    ] = None,
    out: Annotated[Path | None, Option(help="New file for the counts, for `service count`.")] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Count the reports in files. The sums are the same on a cluster and in one process.

    The anomaly is the distance of the counts from those of honest clients, in standard deviations. Above 5
    (krr and questions: above 20), look for forged reports. A smaller value does not prove honesty.
    """
    from dpbandits.local.server.aggregation import (
        aggregate,
        read_contract,
        read_counts,
        sums_digest,
        write_counts,
    )
    from dpbandits.local.server.counting import ReportCounts

    if out is not None:
        new_file(out, "--out")
    lines = [line for line in _text(published).splitlines() if line.strip()]
    contract, versions = read_contract(_text(spec), lines)
    before = ReportCounts(contract, versions)
    for path in without or ():
        before.merge(read_counts(path))
    counts, tally = aggregate(reports, contract, versions, cluster=cluster, without=before.nonces())
    if out is not None:
        write_counts(out, counts)
    values = vars(tally) | {"files": len(reports), "digest": sums_digest(counts)}
    values |= {"anomaly": round(counts.anomaly, 2)}
    if as_json:
        print_json(values)
        return
    for name, value in values.items():
        typer.echo(f"{name:10} {value}")
    if out is not None:
        typer.echo(f"wrote {out}")


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise InvalidParameter(f"{path} is not UTF-8 text, expected JSON") from None


def _source(text: str, one: "World | PeopleWorld") -> "SimulatedSource":
    """Return the source that a text `n,epsilon,gamma,kappa[,behaviour]` describes."""
    from dpbandits.lab.evaluation.transfer_crowds import SimulatedSource
    from dpbandits.lab.worlds.contextual import PeopleWorld
    from dpbandits.lab.worlds.transfer import BEHAVIOURS, SourceWorld

    parts = [part.strip() for part in text.split(",")]
    try:
        n_users, epsilon, gamma, kappa = int(parts[0]), *(float(part) for part in parts[1:4])
        behaviour = parts[4] if len(parts) == 5 else "even"
        if len(parts) > 5 or n_users < 1 or behaviour not in BEHAVIOURS:
            raise ValueError
    except (ValueError, IndexError):
        raise InvalidParameter(
            f"source: expected n,epsilon,gamma,kappa[,behaviour], the behaviour one of {BEHAVIOURS}"
        ) from None
    if isinstance(one, PeopleWorld):
        raise InvalidParameter("source: a table has no density of contexts to sample from, use --world")
    people = SourceWorld(world=one, gamma=gamma, kappa=kappa, behaviour=behaviour)  # type: ignore[arg-type]
    return SimulatedSource(people=people, n_users=n_users, epsilon=epsilon)


def _write(out: Path, spec: "Spec", results: "list[SimulationResult]", *, title: str) -> list[Path]:
    from dpbandits.lab.evaluation.pictures import bins_picture, mean_regret, regret_picture
    from dpbandits.lab.plot import to_png

    out.mkdir(parents=True, exist_ok=True)
    files = [out / name for name in _FILES[:2]]
    with files[0].open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["users", "regret_per_user", "stderr"])
        writer.writerows(zip(*(column.tolist() for column in mean_regret(results)), strict=True))
    files[1].write_bytes(to_png(regret_picture(results, title=title)))
    if spec.dim <= 2 and results[0].snapshots:
        files.append(out / _FILES[2])
        files[2].write_bytes(to_png(bins_picture(spec, results[0])))
    return files
