"""Settings come from a file, the environment and the command line, in this order; errors hold no value."""

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpbandits.cli import app
from dpbandits.errors import InvalidParameter
from dpbandits.service.core import Service
from dpbandits.service.settings import PREFIX, Settings

SECRET = "postgresql://dpbandits:hunter2@db.internal/dpbandits"


def as_variable(value: Any) -> str:
    """A value as the environment has it: texts as they are, all else as TOML has it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple | frozenset | set):
        return f"[{', '.join(repr(str(one)) for one in value)}]"
    return repr(value)


def another(value: Any) -> Any:
    """A value of the same kind, which every setting of this kind takes."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value + 0.5
    return value


@pytest.mark.parametrize("one", fields(Settings), ids=lambda one: one.name)
def test_every_field_comes_from_its_variable_and_from_a_file_that_a_variable_names(
    one: Any, tmp_path: Path
) -> None:
    value = another(getattr(Settings(), one.name))
    if one.name == "cors_origins":
        value = ("https://shop.example.org", "http://127.0.0.1:8000")
    elif one.name == "log_format":
        value = "json"
    elif one.name == "proxies":
        value = "10.0.0.0/8, 2001:db8::7"
    elif isinstance(value, str):
        value = f"any text of {one.name}: \"quoted\", 'twice' \\ = #1"
    variable = f"{PREFIX}{one.name.upper()}"
    assert getattr(Settings.read(environ={variable: as_variable(value)}), one.name) == value
    named = tmp_path / "value"
    named.write_text(as_variable(value) + "\n")
    assert getattr(Settings.read(environ={f"{variable}_FILE": str(named)}), one.name) == value


def test_the_page_on_settings_shows_the_meaning_of_every_setting() -> None:
    """Its table has the defaults from the fields and the meanings from the docstring."""
    page = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text()
    assert "settings_table()" in page
    entries = re.findall(
        r"^ +(\w+(?:, \w+)*): ", (Settings.__doc__ or "").partition("Raises:")[0], re.MULTILINE
    )
    assert sorted(", ".join(entries).split(", ")) == sorted(one.name for one in fields(Settings))


def test_no_field_is_named_as_the_file_of_another_or_as_what_is_no_setting() -> None:
    names = {one.name for one in fields(Settings)}
    assert not {f"{name}_file" for name in names} & names
    assert not {"data", "traceback"} & names


def test_the_environment_replaces_the_file_and_the_command_line_replaces_both(tmp_path: Path) -> None:
    config = tmp_path / "service.toml"
    config.write_text('host = "::1"\nport = 1\nretention_days = 7\n')
    environ = {"DPBANDITS_PORT": "2", "DPBANDITS_RETENTION_DAYS": "8", "HOME": "/root"}
    found = Settings.read(config, environ, port=3, database=None)
    assert (found.host, found.port, found.retention_days, found.database) == ("::1", 3, 8, "")


def test_a_variable_that_the_command_line_replaces_does_not_matter() -> None:
    assert Settings.read(environ={"DPBANDITS_PORT": "-1"}, port=3).port == 3


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        (
            {"DPBANDITS_PORT": "tcp://10.0.0.7:8080"},
            "DPBANDITS_PORT: expected a value as service.toml has it (",
        ),
        ({"DPBANDITS_PORT": "hunter2"}, "DPBANDITS_PORT: expected a value as service.toml has it ("),
        ({"DPBANDITS_PORT": ""}, "DPBANDITS_PORT: expected a value as service.toml has it ("),
        (
            {"DPBANDITS_PORT": "1\nhost = 'hunter2'"},
            "DPBANDITS_PORT: expected a value as service.toml has it (",
        ),
        ({"DPBANDITS_PORT": "1]\nhost = ['hunter2'"}, "DPBANDITS_PORT: expected a value as service.toml has"),
        (
            {"DPBANDITS_PORT": "1, 4711"},
            "DPBANDITS_PORT: expected a value as service.toml has it (ValueError)",
        ),
        ({"DPBANDITS_PORT": "'hunter2'"}, "DPBANDITS_PORT: expected an integer of at least 0"),
        ({"DPBANDITS_PORT": "-4711"}, "DPBANDITS_PORT: expected an integer of at least 0"),
        (
            {"DPBANDITS_RETENTION_DAYS": "-4711.5"},
            "DPBANDITS_RETENTION_DAYS: expected a finite number above 0",
        ),
        ({"DPBANDITS_RETENTION_DAYS": "2030-01-01"}, "DPBANDITS_RETENTION_DAYS: expected a number"),
        ({"DPBANDITS_RETENTION_DAY": "hunter2"}, "DPBANDITS_RETENTION_DAY: unknown, or set twice; expected "),
        ({"DPBANDITS_LARGEST_BODY": "1"}, "DPBANDITS_LARGEST_BODY: expected an integer of at least 1024"),
        ({"DPBANDITS_BYTES_AT_ONCE": "47110"}, "DPBANDITS_BYTES_AT_ONCE: expected an integer of at least 41"),
        ({"DPBANDITS_LARGEST_BODY": "99999999"}, "bytes_at_once is 67108864, expected an integer of at le"),
        ({"DPBANDITS_LOG_FORMAT": "hunter2"}, "DPBANDITS_LOG_FORMAT: expected text or json"),
        ({"DPBANDITS_CORS_ORIGINS": "'hunter2'"}, "DPBANDITS_CORS_ORIGINS: expected a list of origins"),
        ({"DPBANDITS_BEHIND_TLS": "'hunter2'"}, "DPBANDITS_BEHIND_TLS: expected true or false"),
        ({"DPBANDITS_PROXIES": "*"}, "DPBANDITS_PROXIES: expected IP addresses and networks, commas betw"),
        ({"DPBANDITS_PROXIES": "10.4711.0.0"}, "DPBANDITS_PROXIES: expected IP addresses and networks"),
        (
            {"DPBANDITS_DATABASE_FILE": "/hunter2"},
            "DPBANDITS_DATABASE_FILE: expected a value as service.toml has it (File",
        ),
        (
            {"DPBANDITS_DATABASE_FILE": "hunter2\0"},
            "DPBANDITS_DATABASE_FILE: expected a value as service.toml has it (Value",
        ),
        (
            {"DPBANDITS_DATABASE": SECRET, "DPBANDITS_DATABASE_FILE": __file__},
            "DPBANDITS_DATABASE_FILE: unknown, or set twice; expected one of these, by itself or with _FILE",
        ),
    ],
)
def test_an_error_names_the_variable_and_never_its_value(environ: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidParameter) as refused:
        Settings.read(environ=environ)
    assert str(refused.value).startswith(said)
    assert not any(word in str(refused.value) for word in ("hunter2", "4711", "10.0.0.7", "/hunter"))
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


def test_a_password_that_is_no_text_is_not_shown(tmp_path: Path) -> None:
    binary = tmp_path / "secret"
    binary.write_bytes(b"hunter2\xff")
    with pytest.raises(InvalidParameter, match=r"DATABASE_FILE: .*\(UnicodeDecodeError\)") as refused:
        Settings.read(environ={"DPBANDITS_DATABASE_FILE": str(binary)})
    assert "hunter2" not in str(refused.value)
    binary.write_text(f"{SECRET}\n")
    found = Settings.read(environ={"DPBANDITS_DATABASE_FILE": str(binary)})
    assert found.database == SECRET
    assert "hunter2" not in repr(found)


def test_commands_read_the_environment(tmp_path: Path) -> None:
    Service(tmp_path / "data", settings=Settings()).close()
    command = ["service", "token", "--data", str(tmp_path / "data"), "--scopes", "read"]
    done = CliRunner().invoke(app, command, env={"DPBANDITS_RETENTION_DAYS": "7"})
    assert (done.exit_code, done.stdout[:4]) == (0, "dpb_")
    done = CliRunner().invoke(app, command, env={"DPBANDITS_RETENTION_DAYS": "nothing"})
    assert isinstance(done.exception, InvalidParameter)
    done = CliRunner().invoke(app, ["serve", "--data", str(tmp_path / "data")], env={"DPBANDITS_PORT": "no"})
    assert isinstance(done.exception, InvalidParameter)
    assert str(done.exception).startswith("DPBANDITS_PORT: ")
