"""Tables of the pages on the service: its routes, refusals and settings, and sizes that a benchmark wrote."""

import inspect
import json
import re
import tempfile
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

from IPython.display import Markdown
from pages import load, table

from dpbandits.service.application import application
from dpbandits.service.core import Service
from dpbandits.service.problems import PROBLEM_TYPES
from dpbandits.service.settings import PREFIX, Settings

_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n     .*)*)", re.MULTILINE)


def routes_table() -> Markdown:
    """Return a row for each route of the OpenAPI document."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it prefers another client
        from fastapi.testclient import TestClient
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder) / "data")
        document = TestClient(application(service)).get("/openapi.json").json()
        service.close()
    return table(
        ["route", "does"],
        [
            [f"`{method.upper()} {path}`", told["summary"]]
            for path, methods in document["paths"].items()
            for method, told in methods.items()
        ],
    )


def refusals_table() -> Markdown:
    """Return a row for each type of problem."""
    return table(
        ["status", "type", "title"],
        [[status, f"`{slug}`", title] for slug, (status, title) in PROBLEM_TYPES.items()],
    )


def meanings() -> dict[str, str]:
    """Return the meaning of each setting from the docstring."""
    said = (inspect.getdoc(Settings) or "").partition("Args:\n")[2].partition("\nRaises:")[0]
    found = {names: re.sub(r"\s+", " ", text) for names, text in _ENTRY.findall(said)}
    return {name: text for names, text in found.items() for name in names.split(", ")}


def settings_table() -> Markdown:
    """A row a setting: its variable, its default as the file has it, and what it is."""
    said = meanings()
    return table(
        ["variable", "default", "is"],
        [
            [f"`{PREFIX}{one.name.upper()}`", f"`{_in_toml(getattr(Settings(), one.name))}`", said[one.name]]
            for one in fields(Settings)
        ],
    )


def _in_toml(value: Any) -> str:
    return json.dumps(list(value) if isinstance(value, tuple) else value)


def sizes_table() -> Markdown:
    """Memory and disk of the store of many policies that `benchmarks.service_speed` made."""
    found = {row["name"]: row["value"] for row in load("service-speed")}
    policies, decisions, store = found["policies"], found["decisions in the store"], found["the store, MiB"]
    began, opened = found["memory when it has started, MiB"], found["memory with all policies open, MiB"]
    return table(
        ["what", "measured"],
        [
            ["memory of a process that has started", f"{began:.0f} MiB"],
            [f"memory with {policies:,} small policies open", f"{opened:.0f} MiB"],
            [f"the store of {decisions:,} decisions", f"{store:,.0f} MiB"],
            ["of which a decision has", f"{store * 2**20 / decisions:.0f} bytes"],
        ],
    )
