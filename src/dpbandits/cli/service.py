"""`dpbandits serve` and `dpbandits service`: private decisions over HTTP, and what a service keeps."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from dpbandits import _checks
from dpbandits.cli.options import names_in
from dpbandits.errors import InvalidParameter

if TYPE_CHECKING:
    from dpbandits.service.core import Service
    from dpbandits.service.settings import Settings

__all__ = ["app", "serve"]

app = typer.Typer(
    help="Commands on the data of a service: backups, copies, moves, counts, tokens, the clock.",
    no_args_is_help=True,
)

Data = Annotated[Path, Option(help="The service's folder. Without --database the service must be stopped.")]
Config = Annotated[
    Path | None, Option(help="Path of service.toml; variables such as DPBANDITS_PORT replace its values.")
]

Database = Annotated[
    str | None,
    Option(
        help="postgresql://..., a database that has everything but the key. If it has a password, set "
        "DPBANDITS_DATABASE instead."
    ),
]


def _settings(config: Path | None, database: str | None = None) -> "Settings":
    """Return the settings of the file and the environment, with another database if one is named."""
    from dpbandits.service.settings import Settings

    return Settings.read(config, database=database)


@contextmanager
def _opened(data: Path, config: Path | None, database: str | None) -> "Iterator[Service]":
    """Open the service, and close it afterwards; raise InvalidParameter for what it refuses."""
    from dpbandits.service.backups import STORE
    from dpbandits.service.core import Service
    from dpbandits.service.problems import Problem

    settings = _settings(config, database)
    if not settings.database and not (data / STORE).exists():
        typer.echo(f"{data} had no data of a service: a new one begins there", err=True)
    service = Service(data, settings=settings)
    try:
        yield service
    except Problem as problem:
        raise InvalidParameter(problem.detail) from None
    finally:
        service.close()


def serve(
    *,
    data: Annotated[Path, Option(help="Folder with everything it keeps; made if missing.")] = Path(
        "dpbandits-data"
    ),
    config: Config = None,
    host: Annotated[str | None, Option(help="Where it listens, before the file's.")] = None,
    port: Annotated[int | None, Option(help="0 takes any that is free.", min=0, max=65535)] = None,
    database: Database = None,
    workers: Annotated[int, Option(help="Processes that serve; several need --database.", min=1)] = 1,
) -> None:
    """Serve private decisions over HTTP, from a folder or PostgreSQL, until it is stopped."""
    if workers > 1:  # BLAS threads wait busily: no more than there are cores, unless the user sets them
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
    to: Annotated[Path, Option(help="Folder for the copy; nothing may be there.")],
) -> None:
    """Copy the folder; a copy only reads until it is adopted."""
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
            help="Declare that the original answered no request since the copy was made, and never will.",
        ),
    ] = False,
) -> None:
    """Let a copy go on if its witness, or --nothing-since, says that the original did nothing since."""
    from dpbandits.service import backups

    if backups.adopt(data, settings=_settings(config, database), nothing_since=nothing_since):
        typer.echo("adopted: it goes on where it stood")
    else:
        typer.echo("adopted: policies are retired and populations closed; nobody knows what was done since")


@app.command("accept-clock")
def accept_clock(
    folder: Annotated[Path, Argument(help="The service's folder; the service may run.")],
    *,
    database: Database = None,
    config: Config = None,
) -> None:
    """Accept the clock after a jump, so that erasure and waits go on."""
    from dpbandits.service import clock

    now = clock.accept_clock(folder, settings=_settings(config, database))
    typer.echo(f"accepted: it is {datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC")


@app.command("copy")
def copy(
    *,
    data: Data,
    to: Annotated[str, Option(help="postgresql://..., or with --database a folder that is not there yet.")],
    database: Database = None,
    config: Config = None,
) -> None:
    """Move everything into a database, or from one into a folder; the place that is left is retired."""
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
    name: Annotated[str, Argument(help="The local policy's.")],
    counts: Annotated[
        Path, Argument(help="What `local aggregate --out` wrote.", exists=True, dir_okay=False)
    ],
    *,
    data: Data,
    database: Database = None,
    config: Config = None,
) -> None:
    """Add reports that were counted in files to a local policy. Workers of a database go on meanwhile."""
    from dpbandits.local.server.aggregation import read_counts

    read = read_counts(counts)
    with _opened(data, config, database) as service:
        service.refuse_in_a_copy()
        typer.echo(f"added {service.surveys.server(name).merge(read)} reports")


Scopes = Annotated[str, Option(help="Scopes with commas between, such as admin,read.")]
Only = Annotated[
    str | None, Option(help="Names that the token may use, with commas between; all by default.")
]
Days = Annotated[float | None, Option(help="Days until the token ends; by default it does not end.", min=0.0)]
TokenId = Annotated[str, Argument(metavar="ID", help="Id of the token, as `service tokens` lists it.")]


@app.command("token")
def token(
    *,
    data: Data,
    scopes: Scopes,
    label: Annotated[str, Option(help="What the token is for.")] = "made on the machine",
    policies: Only = None,
    populations: Only = None,
    days: Days = None,
    database: Database = None,
    config: Config = None,
) -> None:
    """Make a token and show it once."""
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
    """List valid tokens as lines of JSON, without their texts."""
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
        float, Option(help="Seconds for which the old text stays valid.", min=0.0)
    ] = 3600.0,
    database: Database = None,
    config: Config = None,
) -> None:
    """Give a token a new text and show it once."""
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
    """Withdraw a token: it is refused from now on."""
    from dpbandits.service.tokens import withdraw

    with _opened(data, config, database) as service:
        service.write(lambda writes: withdraw(writes, identity, service.now())).result()
