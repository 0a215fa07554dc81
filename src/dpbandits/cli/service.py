"""`dpbandits serve` runs the HTTP service; `dpbandits service` administers its data."""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from dpbandits import _checks
from dpbandits._reading import json_object
from dpbandits.cli.console import console, numbers_table, print_json
from dpbandits.cli.options import names_in
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits.service.core import Service
    from dpbandits.service.settings import Settings

__all__ = ["app", "serve"]

app = typer.Typer(
    help="Administer a service's data: backups, copies, moves, counts, tokens, the clock.",
    no_args_is_help=True,
)

WAIT, WAITS = 0.1, 600
"""Seconds between two checks whether a comparison has ended, and the largest number of checks."""

Data = Annotated[Path, Option(help="The service's folder. Without --database, stop the service first.")]
Config = Annotated[
    Path | None,
    Option(
        help="Settings file, such as service.toml. Environment variables such as DPBANDITS_PORT override it."
    ),
]

Database = Annotated[
    str | None,
    Option(
        help="Address of the PostgreSQL database that stores the data, postgresql://... The folder keeps the "
        "key only. If the address has a password, set DPBANDITS_DATABASE instead."
    ),
]


def _settings(config: Path | None, database: str | None = None) -> "Settings":
    from dpbandits.service.settings import Settings

    return Settings.read(config, database=database)


@contextmanager
def _opened(data: Path, config: Path | None, database: str | None) -> "Iterator[Service]":
    """Open the service and close it afterwards. Its refusals become InvalidParameter."""
    from dpbandits.service.backups import STORE
    from dpbandits.service.core import Service
    from dpbandits.service.problems import Problem

    settings = _settings(config, database)
    if not settings.database and not (data / STORE).exists():
        typer.echo(f"{data} has no data of a service: a new service is created there", err=True)
    service = Service(data, settings=settings)
    try:
        yield service
    except Problem as problem:
        raise InvalidParameter(problem.detail) from None
    finally:
        service.close()


def serve(
    *,
    data: Annotated[Path, Option(help="Folder of the service's data; created if missing.")] = Path(
        "dpbandits-data"
    ),
    config: Config = None,
    host: Annotated[
        str | None, Option(help="Address to listen on. Default: that of the settings file, else 127.0.0.1.")
    ] = None,
    port: Annotated[
        int | None,
        Option(
            help="TCP port; 0 takes any free port. Default: that of the settings file, else 8080.",
            min=0,
            max=65535,
        ),
    ] = None,
    database: Database = None,
    workers: Annotated[
        int, Option(help="Number of worker processes; more than one needs --database.", min=1)
    ] = 1,
) -> None:
    """Serve private decisions over HTTP, from a folder or PostgreSQL, until the process is stopped."""
    if workers > 1:  # idle BLAS threads spin: all workers together get one thread for each core
        for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(name, str(max(1, (os.cpu_count() or 1) // workers)))
    from dpbandits.service.serving import serve_folder

    serve_folder(
        data, config=config, host=host, port=port, say=typer.echo, database=database, workers=workers
    )


@app.command("backup")
def backup(
    *,
    data: Annotated[Path, Option(help="The service's folder; the service may run.")],
    to: Annotated[Path, Option(help="Folder for the copy. It must not exist.")],
) -> None:
    """Copy a service's folder. The copy answers reads only, until `service adopt`."""
    from dpbandits.service.backups import back_up

    back_up(data, to)


@app.command("adopt")
def adopt(
    *,
    data: Data,
    database: Database = None,
    config: Config = None,
    nothing_since: Annotated[
        bool,
        Option(
            "--nothing-since",
            help="Declare that the original has answered no request since the copy was made, and never will.",
        ),
    ] = False,
) -> None:
    """Make a copy the service.

    Its policies and populations continue if the witness, or --nothing-since, shows that the original did
    nothing after the copy was made. Otherwise policies are retired and populations are closed.
    """
    from dpbandits.service import backups

    if backups.adopt(data, settings=_settings(config, database), nothing_since=nothing_since):
        typer.echo("adopted: policies and populations continue from the copy")
    else:
        typer.echo(
            "adopted: policies are retired and populations are closed, because the original may have gone on "
            "after the copy was made"
        )


@app.command("accept-clock")
def accept_clock(
    folder: Annotated[Path, Argument(help="The service's folder; the service may run.")],
    *,
    database: Database = None,
    config: Config = None,
) -> None:
    """Accept the system's time after a jump of the clock. Erasure and waiting times then continue."""
    from dpbandits.service import clock

    now = clock.accept_clock(folder, settings=_settings(config, database))
    typer.echo(f"accepted: the time is {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC")


@app.command("copy")
def copy(
    *,
    data: Data,
    to: Annotated[
        str, Option(help="Target: postgresql://..., or, with --database, a folder that does not exist yet.")
    ],
    database: Database = None,
    config: Config = None,
) -> None:
    """Move a service from a folder into a database, or from a database into a folder.

    The source is retired: its policies cannot be used again.
    """
    from dpbandits.service.backups import into_database, into_folder

    if to.startswith(("postgresql://", "postgres://")):
        into_database(data, settings=_settings(config, to))
        typer.echo("moved: serve with --database; the folder's policies are retired")
        return
    settings = _settings(config, database)
    if not settings.database:
        raise InvalidParameter("--to: expected postgresql://..., or a folder together with --database")
    into_folder(data, Path(to), settings=settings)
    typer.echo("moved: serve the new folder; the database is retired")


@app.command("count")
def count(
    name: Annotated[str, Argument(help="Name of the local policy.")],
    counts: Annotated[
        Path, Argument(help="File written by `local aggregate --out`.", exists=True, dir_okay=False)
    ],
    *,
    data: Data,
    database: Database = None,
    config: Config = None,
) -> None:
    """Add reports that `local aggregate` counted to a local policy.

    With --database, the service's workers may keep running.
    """
    from dpbandits.local.server.aggregation import read_counts

    read = read_counts(counts)
    with _opened(data, config, database) as service:
        service.refuse_in_a_copy()
        typer.echo(f"added {service.surveys.server(name).merge(read)} reports")


PolicyOf = Annotated[str, Argument(metavar="POLICY", help="Name of the policy.")]
ArmOf = Annotated[
    str, Argument(metavar="ARM", help="Label of the arm: JSON, such as 3 or true, or else a text.")
]


def _label(text: str) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, bool | int | float | str) else text


def _change_arms(data: Path, config: Path | None, database: str | None, name: str, **how: Any) -> None:
    from dpbandits.service import policies

    _refuse_nothing(data, config, database)
    with _opened(data, config, database) as service:
        kept = service.write(
            lambda writes: policies.change_arms(writes, service.engines, name, **how, now=service.now())
        ).result()
        found = service.read(lambda reads: policies.arms_described(reads, kept))
        typer.echo(json.dumps(found["changes"][-1]))


def _refuse_nothing(data: Path, config: Path | None, database: str | None) -> None:
    from dpbandits.service.backups import STORE

    if not _settings(config, database).database and not (data / STORE).exists():
        raise InvalidParameter(
            f"--data: {data} has no data of a service: pass the folder of `dpbandits serve`"
        )


@app.command("add-arm")
def add_arm(
    policy: PolicyOf,
    arm: ArmOf,
    *,
    data: Data,
    like: Annotated[str | None, Option(help="Label of the arm from whose predictions it starts.")] = None,
    features: Annotated[
        str | None, Option(help='Features of a new product as JSON: {"kind": "shoes", "price": 30}.')
    ] = None,
    minimum: Annotated[
        float | None, Option(help="Share of the decisions until two releases hold the arm. Default: 0.1.")
    ] = None,
    database: Database = None,
    config: Config = None,
) -> None:
    """Add an arm to a policy from its next release on, and print the last change of its arms as JSON.

    Which arm it is, and when it is added, must not depend on private data.
    """
    asked: dict[str, Any] = {"arm": _label(arm), "minimum": minimum}
    asked["like"] = None if like is None else _label(like)
    asked["features"] = None if features is None else json_object(features, "the features of an arm")
    asked = {key: value for key, value in asked.items() if value is not None}
    _change_arms(data, config, database, policy, retire=False, asked=asked)


@app.command("retire-arm")
def retire_arm(
    policy: PolicyOf, arm: ArmOf, *, data: Data, database: Database = None, config: Config = None
) -> None:
    """Retire an arm of a policy from its next release on, and print the last change of its arms as JSON.

    Which arm it is, and when it is retired, must not depend on private data.
    """
    _change_arms(data, config, database, policy, retire=True, asked={"arm": _label(arm)})


@app.command("readout")
def readout(
    policy: PolicyOf,
    *,
    data: Data,
    end: Annotated[bool, Option("--end", help="End the comparison now: release its last look.")] = False,
    json_: Annotated[bool, Option("--json", help="Print JSON instead of a table.")] = False,
    database: Database = None,
    config: Config = None,
) -> None:
    """Compare a policy with its control group, from released looks alone.

    With --database, the service's workers may keep running.
    """
    from dpbandits.service import policies

    _refuse_nothing(data, config, database)
    with _opened(data, config, database) as service:
        if end:
            service.write(
                lambda writes: policies.end_readout(writes, service.engines, policy, now=service.now())
            ).result()
            service.engines.is_due()
        found = service.readout(policy)
        for _ in range(WAITS if end else 0):
            if found["over"]:
                break
            time.sleep(WAIT)
            found = service.readout(policy)
    result = found["result"]
    if json_:
        print_json(found)
        return
    typer.echo(f"look {found['looks']} of {found['planned_looks']}")
    if result is None:
        typer.echo(f"No look has rounds of both groups: the first is due after {found['ends'][0]} rounds.")
        return
    table = numbers_table(
        "metric", "control", "policy", "difference", "interval", "for all looks", title="Policy and control"
    )
    for one in result["readings"]["metrics"]:
        numbers = (f"{one['control']:.4g}", f"{one['policy']:.4g}", f"{one['difference']:+.4g}")
        table.add_row(one["name"], *numbers, _ends(one["interval"]), _ends(one["always"]))
    console().print(table)
    if result["segments"]:
        table = numbers_table("segment", "control", "policy", "difference", "interval", "p", title="Segments")
        for one in result["segments"]:
            numbers = ("-", "-", "too few")
            if one["enough"]:
                numbers = (f"{one['control']:.4g}", f"{one['policy']:.4g}", f"{one['difference']:+.4g}")
            table.add_row(one["name"], *numbers, _ends(one["interval"]), f"{one['p_value']:.2g}")
        console().print(table)
    typer.echo(result["sentence"])


def _ends(interval: list[float | None]) -> str:
    low, high = ("no bound" if one is None else f"{one:+.4g}" for one in interval)
    return f"{low} to {high}"


Scopes = Annotated[str, Option(help="Scopes of the token, separated by commas, such as admin,read.")]
Policies = Annotated[
    str | None, Option(help="Policies that the token may access, separated by commas. Default: all.")
]
Populations = Annotated[
    str | None, Option(help="Populations that the token may access, separated by commas. Default: all.")
]
Days = Annotated[float | None, Option(help="Days until the token expires. Default: it never does.", min=0.0)]
TokenId = Annotated[str, Argument(metavar="ID", help="Id of the token, as `service tokens` lists it.")]


@app.command("token")
def token(
    *,
    data: Data,
    scopes: Scopes,
    label: Annotated[str, Option(help="Purpose of the token, for people.")] = "made on the machine",
    policies: Policies = None,
    populations: Populations = None,
    days: Days = None,
    database: Database = None,
    config: Config = None,
) -> None:
    """Create a token and print it. It cannot be shown again."""
    from dpbandits.service.tokens import SCOPES, Limits, make_token

    named = names_in(scopes)
    if not set(named) <= set(SCOPES):
        raise InvalidParameter(f"--scopes: expected some of {', '.join(SCOPES)}")
    limits = Limits.of(*(None if one is None else names_in(one) for one in (policies, populations)))
    seconds = None if days is None else 86400.0 * _checks.number(days, name="--days")
    with _opened(data, config, database) as service:
        how: dict[str, Any] = {"label": label, "scopes": named, "now": service.now(), "seconds": seconds}
        made = service.write(lambda writes: make_token(writes, service.keys, **how, limits=limits))
        typer.echo(made.result()[1])


@app.command("tokens")
def tokens(*, data: Data, database: Database = None, config: Config = None) -> None:
    """List the valid tokens, one JSON object a line, without their secret texts."""
    from dpbandits.service.tokens import UNLIMITED, listed_tokens

    with _opened(data, config, database) as service:
        for one in service.read(lambda reads: listed_tokens(reads, UNLIMITED, service.now())):
            typer.echo(json.dumps(one))


@app.command("rotate")
def rotate_token(
    identity: TokenId,
    *,
    data: Data,
    overlap_seconds: Annotated[
        float, Option(help="Seconds for which the old secret text stays valid.", min=0.0)
    ] = 3600.0,
    database: Database = None,
    config: Config = None,
) -> None:
    """Give a token a new secret text and print it. It cannot be shown again."""
    from dpbandits.service.tokens import rotate

    with _opened(data, config, database) as service:
        overlap = _checks.number(overlap_seconds, name="--overlap-seconds", exclusive=False)
        how: dict[str, Any] = {"overlap_seconds": overlap, "now": service.now()}
        rotated = service.write(lambda writes: rotate(writes, service.keys, identity, **how))
        typer.echo(rotated.result()["token"])


@app.command("withdraw")
def withdraw_token(
    identity: TokenId, *, data: Data, database: Database = None, config: Config = None
) -> None:
    """Withdraw a token. The service refuses it from now on."""
    from dpbandits.service.tokens import withdraw

    with _opened(data, config, database) as service:
        service.write(lambda writes: withdraw(writes, identity, service.now())).result()
