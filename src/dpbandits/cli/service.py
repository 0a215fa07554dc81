"""`dpbandits serve`: private decisions over HTTP, from one folder."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

__all__ = ["serve"]


def serve(
    *,
    data: Annotated[Path, Option(help="Folder with everything it keeps; made if missing.")] = Path(
        "dpbandits-data"
    ),
    config: Annotated[Path | None, Option(help="service.toml; every value has a default.")] = None,
    host: Annotated[str | None, Option(help="Where it listens, before the file's.")] = None,
    port: Annotated[int | None, Option(help="0 takes any that is free.", min=0, max=65535)] = None,
) -> None:
    """Serve private decisions over HTTP, from one folder, until it is stopped."""
    from dpbandits.service.serving import serve_folder

    serve_folder(data, config=config, host=host, port=port, say=typer.echo)
