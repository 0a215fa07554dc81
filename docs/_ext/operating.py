"""Tables of the page on operations: settings as `Settings` has them, sizes as a benchmark wrote them."""

import inspect
import json
import re
from dataclasses import fields
from typing import Any

from IPython.display import Markdown
from pages import load, table

from dpbandits.service.settings import PREFIX, Settings

_ENTRY = re.compile(r"^    (\w+(?:, \w+)*): (.*(?:\n     .*)*)", re.MULTILINE)


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
